from __future__ import annotations

import http.server
import logging
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from sparkstate import errors, keys
from sparkstate.control import client, documents, port, server
from sparkstate_tools.drivers import control_job


class HandClock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def test_answers_arrive_as_the_documents_that_the_job_gave(
    control_client: client.ControlClient, job: control_job.InMemoryJob
) -> None:
    job.update(epoch=3, slots=(control_job.slot(0),), last_checkpoint=control_job.checkpoint(2))
    job.history = [control_job.checkpoint(1), control_job.checkpoint(2)]
    job.values = {("op", "s", repr(["a", 1])): {"x": [1, None]}}
    assert control_client.status() == job.current
    assert control_client.checkpoints() == job.history
    assert control_client.checkpoint(2) == job.history[1]
    assert control_client.checkpoint(9) is None
    assert control_client.trigger_checkpoint() == 3
    assert control_client.key_state("op", "s", ["a", 1]).value == {"x": [1, None]}
    job.values[("op", "rules", 1)] = {"card": 5}
    shown = control_client.operator_state("op", "rules", 1)
    assert (shown.kind, shown.slot, shown.key, shown.value) == ("broadcast", 1, None, {"card": 5})
    with pytest.raises(errors.SparkstateError, match="no operator state 'rules'"):
        control_client.operator_state("op", "rules", 0)
    for either in ({}, {"key": "1", "slot": "0"}):
        with pytest.raises(client.ControlRefused, match="give either key"):
            control_client._document(
                documents.KeyState, "GET", "/v1/state", params={"operator": "op", "state": "s", **either}
            )
    assert "sparkstate_epoch 3.0" in control_client.metrics()
    control_client.cancel()
    assert job.cancelled


def test_probes_are_true_false_and_false_when_nobody_answers(
    job: control_job.InMemoryJob,
) -> None:
    job.ready = False
    with server.ControlServer(job, keys.of_token(control_job.TOKEN)) as running:
        talking = client.ControlClient(running.address, control_job.TOKEN)
        assert (talking.is_live(), talking.is_ready()) == (True, False)
    assert talking.is_live() is False
    talking.close()


def test_waiting_for_a_savepoint_ends_with_its_result(
    control: server.ControlServer, job: control_job.InMemoryJob
) -> None:
    class Finishing(HandClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.seconds > 1:
                job.finish_savepoint(
                    "t", status=documents.SavepointPhase.COMPLETED, location="file:///s/t", epoch=9
                )

    with client.ControlClient(control.address, control_job.TOKEN, clock=Finishing()) as talking:
        started = talking.trigger_savepoint(documents.SavepointRequest(trigger_id="t", stop=True))
        assert (started.status, started.stop) == ("PENDING", True)
        assert talking.wait_for_savepoint("t", timeout_s=30).location == "file:///s/t"


def test_a_driver_is_sent_what_was_asked_for_and_nothing_else(
    control: server.ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of an older image refuses fields that it does not know."""
    sent = []
    plain = client.ControlClient._document

    def document(self: Any, *arguments: Any, **given: Any) -> Any:
        sent.append(given["json"])
        return plain(self, *arguments, **given)

    monkeypatch.setattr(client.ControlClient, "_document", document)
    with client.ControlClient(control.address, control_job.TOKEN) as talking:
        talking.trigger_savepoint()
        talking.trigger_savepoint(documents.SavepointRequest(trigger_id="t", stop=True))
        talking.trigger_savepoint(documents.SavepointRequest(trigger_id="u", format_type="native"))
    assert sent == [{}, {"trigger_id": "t", "stop": True}, {"trigger_id": "u", "format_type": "native"}]


def test_waiting_too_long_says_that_the_savepoint_goes_on(control: server.ControlServer) -> None:
    with client.ControlClient(control.address, control_job.TOKEN, clock=HandClock()) as talking:
        talking.trigger_savepoint(documents.SavepointRequest(trigger_id="t"))
        with pytest.raises(client.ControlUnreachable, match=r"still PENDING after 2 s.*same trigger id"):
            talking.wait_for_savepoint("t", timeout_s=2)


def test_waiting_for_a_savepoint_that_was_never_triggered_is_refused(
    control_client: client.ControlClient,
) -> None:
    assert control_client.savepoint("never") is None
    with pytest.raises(client.ControlRefused, match="never"):
        control_client.wait_for_savepoint("never", timeout_s=1)


def test_a_refusal_carries_the_servers_words(
    control_client: client.ControlClient, job: control_job.InMemoryJob
) -> None:
    with pytest.raises(client.ControlRefused, match="operator 'op' has no state 's'") as caught:
        control_client.key_state("op", "s", "k")
    assert (caught.value.status, caught.value.answer_reason) == (404, "UnknownState")
    job.raises = port.NotRunning("the job is recovering")
    with pytest.raises(client.ControlRefused, match=r"recovering \(ask again when"):
        control_client.status()


def test_a_wrong_token_says_where_the_right_one_is(control: server.ControlServer) -> None:
    wrong = "wrong-token-0123456789"
    with (
        client.ControlClient(control.address, wrong) as talking,
        pytest.raises(client.ControlRefused, match="read the token file again") as caught,
    ):
        talking.status()
    assert wrong not in "".join(traceback.format_exception(caught.value))


def test_a_refused_connection_says_what_to_check() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
    with (
        client.ControlClient(f"http://127.0.0.1:{number}", control_job.TOKEN) as talking,
        pytest.raises(client.ControlUnreachable, match="check that the job runs") as caught,
    ):
        talking.status()
    assert control_job.TOKEN not in "".join(traceback.format_exception(caught.value))


def test_an_answer_that_never_comes_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            client.ControlClient(address, control_job.TOKEN, timeout_s=0.2) as talking,
            pytest.raises(client.ControlUnreachable, match="no answer in time"),
        ):
            talking.status()


@pytest.fixture
def stranger_address() -> Iterator[str]:
    """A program that is no job, at the address where one was."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302 if self.path.endswith("checkpoints") else 200)
            self.send_header("Location", "http://elsewhere.invalid/")
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as other:
        thread = threading.Thread(target=other.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{other.server_port}"
        other.shutdown()
        thread.join()


def test_another_program_at_the_address_is_recognised_and_redirects_are_not_followed(
    stranger_address: str,
) -> None:
    with client.ControlClient(stranger_address, control_job.TOKEN) as talking:
        with pytest.raises(client.ControlRefused, match="another program"):
            talking.status()
        with pytest.raises(client.ControlRefused, match="answered 302"):
            talking.checkpoints()


def test_the_page_link_alone_shows_a_key_and_that_is_the_one_to_look_with(
    control_client: client.ControlClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    control_client.status()
    assert control_client.page_url.endswith(f"/ui/#token={keys.of_token(control_job.TOKEN).read}")
    assert control_job.TOKEN not in repr(control_client) + str(vars(control_client)["_http"].headers)
    ours = [record for record in caplog.records if not record.name.startswith("httpcore")]
    assert not [record for record in ours if control_job.TOKEN in record.getMessage()]


def test_the_client_needs_no_server_package() -> None:
    code = (
        "import sys, sparkstate.control.client; "
        "print([name for name in ('fastapi', 'uvicorn', 'starlette', 'pyspark') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_a_password_in_an_address_is_in_no_message() -> None:
    found = client.ControlClient("http://ada:secret-word@127.0.0.1:9", "token")
    with pytest.raises(client.ControlUnreachable) as caught:
        found.status()
    for text in (str(caught.value), repr(found)):
        assert "secret-word" not in text
        assert "127.0.0.1:9" in text
