"""From errors to answers: HTTP status by the error's kind, body always ``{error, reason, remedy}``."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from sparkstate import errors
from sparkstate.control import documents, port

_ANSWERS: Final[tuple[tuple[type[errors.SparkstateError], int, str], ...]] = (
    (port.TriggerConflict, 409, "use another trigger id, or send the parameters of the first request"),
    (port.UnknownState, 404, "see /v1/status for the job; names are the uid and the descriptor's name"),
    (port.TooManyRequests, 429, "wait until the status shows fewer, then ask again"),
    (port.NotRunning, 503, "ask again when /readyz answers 200; a job that has ended must be started first"),
    (errors.SpecInvalid, 400, "correct the value that the message names"),
    (errors.StateError, 400, "use the key and namespace types that the job declares"),
    (errors.Fenced, 410, "talk to the driver that owns the job now"),
    (errors.SlotLost, 503, "wait: the job restarts from its last checkpoint"),
    (errors.StorageUnavailable, 503, "wait: the storage is tried again; check its endpoint if it lasts"),
    (
        errors.StorageRefused,
        502,
        "repair the credentials, rights or clock that the message names, then ask again",
    ),
    (errors.StorageError, 502, "repair access to the storage: endpoint, bucket, credentials"),
    (errors.SparkstateError, 500, "read the driver's log"),
)
"""First match wins, so special kinds stand before general ones."""


class UnknownResource(errors.SparkstateError):
    """There is no checkpoint or savepoint of that id. Answered with 404."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


def install(app: FastAPI) -> None:
    """Register the handlers; any other error becomes a 500 whose details are in the log."""
    app.add_exception_handler(UnknownResource, _unknown_resource)
    app.add_exception_handler(errors.SparkstateError, _sparkstate_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected)


def answer(status: int, error: str, reason: str, remedy: str) -> JSONResponse:
    problem = documents.Problem(error=error, reason=reason, remedy=remedy)
    return JSONResponse(problem.model_dump(), status_code=status)


def _unknown_resource(request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, UnknownResource)
    return answer(404, str(exc), "NotFound", exc.remedy)


def _sparkstate_error(request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, errors.SparkstateError)
    status, remedy = next((code, text) for kind, code, text in _ANSWERS if isinstance(exc, kind))
    return answer(status, str(exc), exc.reason, remedy)


def _invalid(request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, RequestValidationError)
    kind = request.headers.get("content-type", "no Content-Type")
    found = [_told(item, kind) for item in exc.errors()]
    return answer(
        422, "; ".join(found), "InvalidRequest", "see docs/rest-api.md for the fields and their types"
    )


def _told(item: Mapping[str, Any], kind: str) -> str:
    """One fault of a request whose body was sent as ``kind``."""
    if item["type"] == "json_invalid":
        return f"the body is no JSON: {item['ctx']['error']} at offset {item['loc'][-1]}"
    if item["loc"] == ("body",) and isinstance(item.get("input"), bytes):  # FastAPI reads no other body
        return f"the body was sent as {_short(kind)}: send Content-Type: application/json"
    return f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']} (got {_short(item.get('input'))})"


def _http_error(request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, HTTPException)
    reason = "".join(word.capitalize() for word in HTTPStatus(exc.status_code).phrase.split())
    return answer(
        exc.status_code,
        f"{request.method} {request.url.path}: {exc.detail}",
        reason,
        "see docs/rest-api.md for the paths and their methods",
    )


def _unexpected(request: Request, exc: Exception) -> JSONResponse:
    text = f"the driver raised {type(exc).__name__} for {request.method} {request.url.path}"
    return answer(500, text, "InternalError", "read the driver's log and report it")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
