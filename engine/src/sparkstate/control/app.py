"""Puts the endpoint together: gate, limits and headers around the routes."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI
from starlette.types import ASGIApp

from sparkstate.control import auth, failures, limits, metrics, port, routes
from sparkstate.keys import Keys

DESCRIPTION = """\
The endpoint of one running job. Every request needs `Authorization: Bearer <key>`: the key `read` for what only
looks (GET), the key `admin` for everything; without one only `/livez` and `/readyz` answer, with a status code and
no content, and `/ui/` with a page that holds no data. Every
authorised answer names the job that gave it in the headers `X-Sparkstate-Job-Uid` and `X-Sparkstate-Attempt`.
Times are milliseconds since the Unix epoch, durations milliseconds, sizes bytes."""


def create_api(job: port.JobControl, job_metrics: metrics.JobMetrics, new_id: Callable[[], str]) -> FastAPI:
    """The routes alone, as the OpenAPI document describes them. Serve it only behind :func:`create_app`."""
    api = FastAPI(
        title="sparkstate job control",
        version="1",
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    failures.install(api)
    api.include_router(routes.JobRoutes(job, job_metrics, new_id).router())
    return api


def create_app(
    job: port.JobControl, job_metrics: metrics.JobMetrics, keys: Keys, new_id: Callable[[], str]
) -> ASGIApp:
    """The application to serve. The order is that of a request: gate, headers, limit, routes."""
    limited = limits.BodyLimit(create_api(job, job_metrics, new_id))
    named = limits.AnswerHeaders(limits.OvertakenRequests(limited), job.identity)
    return auth.Gate(named, keys, job.is_live, job.is_ready)
