"""An error of Java's is told by its innermost cause, even when Java no longer answers."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext

from sparkstate import errors
from sparkstate.driver import failure_cause
from sparkstate.spark import graph, java_errors

CALL = "An error occurred while calling o515.collectToPython.\n"
CRASHED = "Python worker exited unexpectedly (crashed)"


@dataclass
class Thrown:
    """As py4j shows an exception of Java's."""

    message: str | None
    cause: Any = None
    _target_id: str = "o7"
    _gateway_client: Any = field(
        default_factory=lambda: SimpleNamespace(send_command=lambda _: "ys: at a.b(C)")
    )

    def getMessage(self) -> str | None:
        return self.message

    def getCause(self) -> Any:
        return self.cause


def test_the_innermost_cause_that_says_something_comes_first() -> None:
    thrown = Thrown("Job aborted", Thrown(CRASHED, Thrown(None, Thrown(" "))))
    told = java_errors.told(Py4JJavaError(CALL, thrown)).splitlines()
    assert told[:2] == [CRASHED, CALL.strip()]
    assert java_errors.told(Py4JJavaError(CALL, Thrown(None))).startswith(CALL)


def test_a_cause_of_itself_ends() -> None:
    thrown = Thrown("round")
    thrown.cause = thrown
    assert java_errors.innermost(thrown) == "round"


def test_the_failure_of_a_job_begins_with_it() -> None:
    failed = failure_cause.reason(Py4JJavaError(CALL, Thrown("Job aborted", Thrown(CRASHED))), None)
    assert isinstance(failed, errors.JobFailed)
    assert str(failed).splitlines()[0] == f"Spark failed: {CRASHED}"


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("gone")]
)
def test_a_java_that_no_longer_answers_leaves_the_words_about_the_call(error: Exception) -> None:
    def refused(*_: object) -> str:
        raise error

    thrown = Thrown("never heard", _gateway_client=SimpleNamespace(send_command=refused))
    thrown.getMessage = refused  # type: ignore[method-assign]
    told = str(failure_cause.reason(Py4JJavaError(CALL, thrown), None))
    assert told == f"Spark failed: {CALL.strip()}"


def test_an_error_of_the_jobs_function_stays_as_it_is_when_java_no_longer_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody tells then whose error it was, and the question fails too."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        gone = JavaGateway(gateway_parameters=GatewayParameters(port=taken.getsockname()[1]))
        monkeypatch.setattr(SparkContext, "_gateway", gone)
        raised = Py4JJavaError(CALL, JavaObject("o7", gone._gateway_client))

        def job() -> None:
            raise raised

        with pytest.raises(Py4JJavaError) as caught:
            graph.declare(job)
    assert caught.value is raised
