"""Talks to a running job: the endpoint's other end, for the command line, the runner and tests.

Every answer is a typed document, every failure an error that says what to check. Needs no server package.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import quote

import httpx
import pydantic
from pydantic import JsonValue

from sparkstate import clock as clocks
from sparkstate import errors, keys
from sparkstate.control import documents, picture
from sparkstate.storage import naming

DEFAULT_TIMEOUT_S: Final = 10.0
POLL_INTERVAL_S: Final = 0.2
_D = TypeVar("_D", bound=documents.Document)
_CHECKPOINTS: Final = pydantic.TypeAdapter(list[documents.CheckpointInfo])
_ENDED: Final = (documents.SavepointPhase.COMPLETED, documents.SavepointPhase.FAILED)


class ControlUnreachable(errors.SparkstateError):
    """No answer: nobody listens, the connection broke, or it took too long."""


class ControlRefused(errors.SparkstateError):
    """An answer other than success. ``status`` is the HTTP status, ``answer_reason`` the server's word for it."""

    def __init__(self, message: str, status: int, answer_reason: str) -> None:
        super().__init__(message)
        self.status = status
        self.answer_reason = answer_reason


class ControlClient:
    """The endpoint at ``address`` (``http://host:port``). ``token`` is the attempt's token, or one of its keys; no more
    than the key that a request needs is sent. A driver of an ``older_image`` than these keys takes the token alone: it
    is sent as it is, and the page's link holds it. Close it, or use it in ``with``.

    ``timeout_s`` bounds every request as a whole step (connect, each read); calls raise
    :class:`ControlUnreachable` or :class:`ControlRefused`. Never follows redirects and never uses a proxy:
    the token goes to that address only.
    """

    def __init__(
        self,
        address: str,
        token: str,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        older_image: bool = False,
        clock: clocks.Clock | None = None,
    ) -> None:
        self._address = address.rstrip("/")
        self._shown = naming.without_user(self._address)
        self._read = token if older_image else keys.as_read(token)
        self._admin = token if older_image else keys.as_admin(token)
        self._clock = clock or clocks.SystemClock()
        try:
            self._http = httpx.Client(base_url=self._address, timeout=timeout_s, trust_env=False)
        except httpx.InvalidURL as error:
            raise errors.SpecInvalid(
                f"{self._shown} is not an address ({error}); write http://host:port"
            ) from error

    def __repr__(self) -> str:
        return f"<ControlClient of {self._shown}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @property
    def page_url(self) -> str:
        """The link to the page, with the key to look in its fragment: it gives no right to change anything."""
        return f"{self._address}/ui/#token={quote(self._read, safe='')}"

    def status(self) -> documents.JobStatus:
        return self._document(documents.JobStatus, "GET", "/v1/status")

    def checkpoints(self) -> list[documents.CheckpointInfo]:
        """Checkpoints and savepoints, oldest first."""
        return _parsed(_CHECKPOINTS, self._ask("GET", "/v1/checkpoints"))

    def checkpoint(self, checkpoint_id: int) -> documents.CheckpointInfo | None:
        return self._found(documents.CheckpointInfo, f"/v1/checkpoints/{checkpoint_id}")

    def graph(self) -> picture.JobGraph:
        """The job's operators with their figures."""
        return self._document(picture.JobGraph, "GET", "/v1/graph")

    def series(self, after: int = 0) -> picture.Series:
        """The points of the last hour with numbers above ``after``."""
        return self._document(picture.Series, "GET", f"/v1/series?after={after}")

    def log(self, source: str) -> picture.LogTail | None:
        """The last lines of ``driver`` or ``slot-N``; None: there is no such log now."""
        return self._found(picture.LogTail, f"/v1/logs/{quote(source, safe='')}")

    def trigger_checkpoint(self) -> int:
        """The id of the checkpoint to come, or of the one in progress."""
        answer = self._document(documents.CheckpointTriggered, "POST", "/v1/checkpoints")
        return answer.checkpoint_id

    def trigger_savepoint(
        self, request: documents.SavepointRequest | None = None
    ) -> documents.SavepointStatus:
        """Begin a savepoint, or ask again for one with the same trigger id; returns at once."""
        # A driver of an older image refuses a field that it does not know.
        body = (request or documents.SavepointRequest()).model_dump(mode="json", exclude_defaults=True)
        return self._document(documents.SavepointStatus, "POST", "/v1/savepoints", json=body)

    def savepoint(self, trigger_id: str) -> documents.SavepointStatus | None:
        """Its state and its result; None: never triggered."""
        return self._found(documents.SavepointStatus, f"/v1/savepoints/{quote(trigger_id, safe='')}")

    def wait_for_savepoint(
        self, trigger_id: str, timeout_s: float, waiting: Callable[[], object] = lambda: None
    ) -> documents.SavepointStatus:
        """Ask until it is completed or failed. Raises ``ControlUnreachable`` when that takes over ``timeout_s``.

        ``waiting`` is called after each answer that is not the last.
        """
        deadline = self._clock.monotonic() + timeout_s
        while True:
            found = self.savepoint(trigger_id)
            if found is None:
                raise ControlRefused(
                    f"no savepoint was triggered with the id {trigger_id!r}", 404, "NotFound"
                )
            if found.status in _ENDED:
                return found
            if self._clock.monotonic() >= deadline:
                raise ControlUnreachable(
                    f"savepoint {trigger_id!r} is still {found.status} after {timeout_s:.0f} s; "
                    "it goes on: ask again with the same trigger id"
                )
            waiting()
            self._clock.sleep(POLL_INTERVAL_S)

    def key_state(
        self, operator: str, state: str, key: JsonValue, namespace: JsonValue = None
    ) -> documents.KeyState:
        """Committed state of one key; ``key`` is a list for several key columns."""
        query = {
            "operator": operator,
            "state": state,
            "key": json.dumps(key),
            "namespace": json.dumps(namespace),
        }
        return self._document(documents.KeyState, "GET", "/v1/state", params=query)

    def operator_state(self, operator: str, state: str, slot: int) -> documents.KeyState:
        """Committed operator state of one slot."""
        query = {"operator": operator, "state": state, "slot": str(slot)}
        return self._document(documents.KeyState, "GET", "/v1/state", params=query)

    def cancel(self) -> None:
        """Stop the job without a savepoint; returns at once."""
        self._document(documents.Accepted, "POST", "/v1/cancel")

    def metrics(self) -> str:
        """Prometheus' text."""
        return self._ask("GET", "/metrics").text

    def is_live(self) -> bool:
        return self._probe("/livez")

    def is_ready(self) -> bool:
        return self._probe("/readyz")

    def _probe(self, path: str) -> bool:
        try:
            return self._http.get(path).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def _found(self, kind: type[_D], path: str) -> _D | None:
        try:
            return self._document(kind, "GET", path)
        except ControlRefused as refused:
            if refused.status == httpx.codes.NOT_FOUND and refused.answer_reason == "NotFound":
                return None
            raise

    def _document(
        self,
        kind: type[_D],
        method: str,
        path: str,
        *,
        json: JsonValue = None,
        params: dict[str, str] | None = None,
    ) -> _D:
        return _parsed(pydantic.TypeAdapter(kind), self._ask(method, path, json=json, params=params))

    def _ask(
        self, method: str, path: str, *, json: JsonValue = None, params: dict[str, str] | None = None
    ) -> httpx.Response:
        try:
            key = self._read if method == "GET" else self._admin
            bearer = {"Authorization": f"Bearer {key}"}
            answer = self._http.request(method, path, json=json, params=params, headers=bearer)
        except httpx.TimeoutException as exc:
            raise ControlUnreachable(
                f"{method} {self._shown}{path} had no answer in time; the driver may be overloaded or "
                "suspended: see its log, or try again"
            ) from exc
        except httpx.LocalProtocolError:  # its words would show the token
            raise ControlUnreachable(
                f"{method} {self._shown}{path} cannot be asked: the token has characters that a header cannot carry; "
                "give it as it is, in one line"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise ControlUnreachable(
                f"nothing answers at {self._shown} ({exc}); check that the job runs and that the address "
                "is that of its present attempt (a restart may change the port)"
            ) from exc
        if not answer.is_success:
            raise _refused(method, self._shown + path, answer)
        return answer


_M = TypeVar("_M")


def _parsed(adapter: pydantic.TypeAdapter[_M], answer: httpx.Response) -> _M:
    try:
        return adapter.validate_json(answer.content)
    except pydantic.ValidationError as exc:
        raise ControlRefused(
            f"{answer.request.url.path} answered with a document of another form "
            f"({exc.error_count()} errors); the address may belong to another program, or client and job to "
            "versions too far apart",
            answer.status_code,
            "UnknownDocument",
        ) from exc


def _refused(method: str, url: str, answer: httpx.Response) -> ControlRefused:
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        return ControlRefused(
            f"{url} refused the token; it may belong to another attempt: read the token file again. A driver whose "
            "image is older than this command may know no keys: --older-image sends the token as it is",
            answer.status_code,
            "Unauthorized",
        )
    try:
        problem = documents.Problem.model_validate_json(answer.content)
    except pydantic.ValidationError:
        return ControlRefused(
            f"{method} {url} answered {answer.status_code} {answer.reason_phrase}; see the driver's log",
            answer.status_code,
            "Unknown",
        )
    return ControlRefused(f"{problem.error} ({problem.remedy})", answer.status_code, problem.reason)
