"""Paths, and the questions that they ask of the job. Authorisation, limits and headers come before (see ``app``)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Final, Never

from fastapi import APIRouter, Path, Query, Response
from pydantic import JsonValue

from sparkstate import errors
from sparkstate.control import documents, examples, failures, metrics, picture, port, status_limit

_PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    401: {"description": "No token, or a wrong one. The body is empty."},
    500: {"model": documents.Problem, "description": "An error of the driver; its log has the details."},
    503: {"model": documents.Problem, "description": "The job, a slot or the storage cannot serve this now."},
}
_NOT_FOUND: Final[dict[int | str, dict[str, Any]]] = {
    404: {"model": documents.Problem, "description": "There is nothing of that name."}
}
_INVALID: Final[dict[int | str, dict[str, Any]]] = {
    400: {"model": documents.Problem, "description": "A value cannot be used; the message names it."},
    422: {"model": documents.Problem, "description": "The request does not have the documented form."},
}
_CONFLICT: Final[dict[int | str, dict[str, Any]]] = {
    409: {"model": documents.Problem, "description": "The trigger id is known with other parameters."},
    408: {"model": documents.Problem, "description": "The body did not come in time."},
    413: {"model": documents.Problem, "description": "The body is too large."},
    429: {"model": documents.Problem, "description": "Too many savepoints wait already."},
    502: {"model": documents.Problem, "description": "The storage of `target_directory` refuses it."},
}


class JobRoutes:
    """One method per path; the docstrings become the descriptions in the OpenAPI document."""

    def __init__(
        self, job: port.JobControl, job_metrics: metrics.JobMetrics, new_id: Callable[[], str]
    ) -> None:
        self._job = job
        self._metrics = job_metrics
        self._new_id = new_id

    def router(self) -> APIRouter:
        """All paths, in the order of the documentation."""
        router = APIRouter(responses=_PROBLEMS)
        add = router.add_api_route
        add("/v1/status", self.status, summary="The job's status", responses=examples.STATUS)
        add("/v1/checkpoints", self.checkpoints, summary="Checkpoints and savepoints, oldest first")
        add(
            "/v1/checkpoints",
            self.trigger_checkpoint,
            methods=["POST"],
            status_code=202,
            summary="Trigger a checkpoint",
        )
        add(
            "/v1/checkpoints/{checkpoint_id}",
            self.checkpoint,
            summary="One checkpoint",
            responses=_NOT_FOUND | _INVALID,
        )
        add(
            "/v1/savepoints",
            self.trigger_savepoint,
            methods=["POST"],
            status_code=202,
            summary="Trigger a savepoint, or stop with one",
            responses=_CONFLICT | _INVALID,
        )
        add(
            "/v1/savepoints/{trigger_id}",
            self.savepoint,
            summary="The fate of a savepoint request",
            responses=_NOT_FOUND | _INVALID | examples.SAVEPOINT,
        )
        add(
            "/v1/state",
            self.key_state,
            summary="One key's state",
            responses=_NOT_FOUND | _INVALID | examples.KEY_STATE,
        )
        add("/v1/graph", self.graph, summary="The job's operators as a graph", responses=examples.GRAPH)
        add("/v1/series", self.series, summary="Series of the last hour", responses=_INVALID)
        add("/v1/logs/{source}", self.log, summary="The last lines of a log", responses=_NOT_FOUND | _INVALID)
        add(
            "/v1/cancel",
            self.cancel,
            methods=["POST"],
            status_code=202,
            summary="Stop without a savepoint",
        )
        add(
            "/v1/claim",
            self.claim,
            methods=["POST"],
            status_code=202,
            summary="Wait for no earlier attempt",
        )
        add("/metrics", self.metrics, summary="Prometheus metrics", response_class=Response, responses=_TEXT)
        return router

    def status(self) -> documents.JobStatus:
        """Everything that is known about the job at this moment. Of a status that is too long, metrics of functions and
        other details are left out; a notice says which."""
        return status_limit.shortened(self._job.status())

    def checkpoints(self) -> list[documents.CheckpointInfo]:
        """A bounded history, with the checkpoint in progress at its end."""
        return list(self._job.checkpoints())

    def checkpoint(self, checkpoint_id: int) -> documents.CheckpointInfo:
        """One checkpoint or savepoint of the history by its number."""
        found = self._job.checkpoint(checkpoint_id)
        if found is None:
            raise failures.UnknownResource(
                f"there is no checkpoint {checkpoint_id} in the history",
                "see /v1/checkpoints for those that are",
            )
        return found

    def trigger_checkpoint(self) -> documents.CheckpointTriggered:
        """Ask for a checkpoint at the next end of an epoch. If one is in progress, that one is meant."""
        return documents.CheckpointTriggered(checkpoint_id=self._job.trigger_checkpoint())

    def trigger_savepoint(
        self, request: documents.SavepointRequest | None = None
    ) -> documents.SavepointStatus:
        """Idempotent by `trigger_id`: the same request again is answered with what became of the first one,
        also after a restart of the driver. With `stop`, no epoch is committed after the savepoint."""
        wanted = request or documents.SavepointRequest()
        return self._job.trigger_savepoint(
            port.SavepointTrigger(
                trigger_id=self._new_id() if wanted.trigger_id is None else wanted.trigger_id,
                target_directory=wanted.target_directory,
                stop=wanted.stop,
                drain=wanted.drain,
                format_type=wanted.format_type,
            )
        )

    def savepoint(self, trigger_id: documents.TriggerId) -> documents.SavepointStatus:
        """Answered from the storage where an earlier driver took the request."""
        found = self._job.savepoint(trigger_id)
        if found is None:
            raise failures.UnknownResource(
                f"no savepoint was ever triggered with the id {trigger_id!r}", "trigger it with that id"
            )
        return found

    def key_state(
        self,
        operator: Annotated[str, Query(description="The operator's uid.", max_length=512)],
        state: Annotated[str, Query(description="The name in the state's descriptor.", max_length=512)],
        key: Annotated[
            str | None,
            Query(
                description='JSON: `"N123"`, `7`, or a list for several key columns. Dates and times are ISO 8601 '
                '(`"2026-01-31"`), decimals text, bytes base64. Either `key` or `slot` is given.',
                max_length=8192,
            ),
        ] = None,
        namespace: Annotated[
            str,
            Query(
                description="JSON; `null`: the default one. Of a window of time `[start, end]`, in ms.",
                max_length=8192,
            ),
        ] = "null",
        slot: Annotated[
            int | None, Query(description="The number of a slot whose operator state is asked for.", ge=0)
        ] = None,
    ) -> documents.KeyState:
        """The committed value under one key; `value` is null where there is none. With `slot`: the committed operator
        state of that slot."""
        if (key is None) == (slot is None):
            raise errors.SpecInvalid("give either key, for state by key, or slot, for operator state")
        if slot is not None:
            return self._job.operator_state(operator, state, slot)
        assert key is not None
        return self._job.key_state(operator, state, _json("key", key), _json("namespace", namespace))

    def graph(self) -> picture.JobGraph:
        """Sources, operators with their figures, side outputs and sinks, and the ways of the rows between them."""
        return self._job.graph()

    def series(
        self,
        after: Annotated[
            int, Query(ge=0, le=2**53, description="Only points with higher numbers; 0: all that are kept.")
        ] = 0,
    ) -> picture.Series:
        """Points of five seconds: rows, epochs, watermark lag, state, memory and checkpoints."""
        return self._job.series(after)

    def log(
        self,
        source: Annotated[
            str, Path(pattern=r"^(driver|slot-\d{1,5})$", description="`driver`, or `slot-N` for slot N.")
        ],
    ) -> picture.LogTail:
        """Of the driver: lines that its Python process has printed and logged. Of a slot: the end of its log file."""
        found = self._job.log(source)
        if found is None:
            raise failures.UnknownResource(
                f"there is no log of {source!r} now", "ask for `driver`, or for a slot that the status lists"
            )
        return found

    def cancel(self) -> documents.Accepted:
        """Ends after the running epoch. The last completed checkpoint stays."""
        self._job.cancel()
        return documents.Accepted()

    def claim(self) -> documents.Accepted:
        """For the operator, which knows: the drivers of all earlier attempts have ended. One that waits for them
        (`waits_for_attempt`) claims the job's state now. Harmless at any other time."""
        self._job.claim()
        return documents.Accepted()

    def metrics(self) -> Response:
        """In Prometheus' text format; see docs/metrics.md."""
        return Response(self._metrics.render(), media_type=metrics.CONTENT_TYPE)


_TEXT: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "content": {"text/plain": {"schema": {"type": "string"}}},
        "description": "The text format.",
    }
}


def _json(name: str, text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as exc:
        raise errors.SpecInvalid(
            f"{name} is {_short(text)}, which is not JSON ({exc}); a string needs its quotes: "
            f"{_short(json.dumps(text))}"
        ) from exc
    return value


def _no_constant(word: str) -> Never:
    raise ValueError(f"{word} exists in JavaScript only")


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
