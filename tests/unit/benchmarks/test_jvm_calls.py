"""Calls of the JVM are told apart by py4j's commands, and counted until the counting stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkstate_tools.tracing import jvm_calls


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("c\no12\nmapInArrow\nro13\nbFalse\nn\ne\n", ("method", "mapInArrow")),
        (
            "i\norg.apache.spark.api.python.SimplePythonFunction\njAAAA\ne\n",
            ("constructor", "org.apache.spark.api.python.SimplePythonFunction"),
        ),
        ("r\nu\norg.apache\nrj\ne\n", ("name", "")),
        ("f\ng\no3\nmonths\ne\n", ("field", "")),
        ("m\nd\no12\ne\n", ("release", "")),
        ("l\na\no1\no2\ne\n", ("other", "")),
    ],
)
def test_a_command_tells_what_is_asked_for(command: str, wanted: tuple[str, str]) -> None:
    assert jvm_calls.kind_and_name(command) == wanted


class Client:
    """Answers each command with itself."""

    def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        return (command, retry, binary)


def test_each_call_is_told_and_written_once_until_the_end(tmp_path: Path) -> None:
    client = Client()
    calls = jvm_calls.Calls(client, jvm_calls.written(tmp_path / "calls"))
    assert client.send_command("c\no1\ncount\ne\n", binary=True) == ("c\no1\ncount\ne\n", True, True)
    with calls.uncounted():
        client.send_command("c\no1\nlimit\ne\n")
    client.send_command("m\nd\no1\ne\n")
    calls.stop()
    client.send_command("c\no1\ncollect\ne\n")
    made = jvm_calls.read(tmp_path / "calls")
    assert [(call.kind, call.name, call.size) for call in made] == [
        ("method", "count", 13),
        ("release", "", 9),
    ]
