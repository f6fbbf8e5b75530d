"""Logs are JSON lines without secrets."""

from __future__ import annotations

import ast
import json
import logging

import pytest
from kopf._cogs.clients.errors import APINotFoundError
from support.repository import tree

from sparkstate_operator import hooks, logs
from sparkstate_operator.actions import Write


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer 0123456789abcdef",
        "{'authorization': 'Bearer 0123456789abcdef'}",
        "token=0123456789abcdef",
        '"secret_key": "0123456789abcdef"',
        "accessKey: 0123456789abcdef",
    ],
)
def test_what_stands_behind_the_name_of_a_secret_is_not_shown(text: str) -> None:
    assert "0123456789abcdef" not in logs.redact(text)


def test_a_record_is_one_line_with_its_fields() -> None:
    record = logging.makeLogRecord(
        {"msg": "phase %s", "args": ("Running",), "levelname": "INFO", "object": "orders"}
    )
    document = json.loads(logs.JsonLines().format(record))
    assert (document["message"], document["object"], document["level"]) == ("phase Running", "orders", "info")


def fields() -> dict[str, list[str]]:
    """The names under which the operator's log lines say more, each with the files that use it."""
    found: dict[str, list[str]] = {}
    for path in tree.files(".py", below=tree.OPERATOR):
        nodes = list(ast.walk(tree.parsed(path)))
        given = [node.value for node in nodes if isinstance(node, ast.keyword) and node.arg == "extra"]
        named = {node.id for node in given if isinstance(node, ast.Name)}
        assigned = [node for node in nodes if isinstance(node, ast.Assign)]
        given += [node.value for node in assigned if ast.unparse(node.targets[0]) in named]
        for document in given:
            for key in document.keys if isinstance(document, ast.Dict) else ():
                if isinstance(key, ast.Constant):
                    found.setdefault(str(key.value), []).append(tree.name(path))
    return found


def test_a_job_or_snapshot_has_one_name_in_all_lines() -> None:
    used = fields()
    assert set(used) == {"object", "namespace", "pod", "revision", "lease", "retry_s", "why"}
    assert len(used["object"]) > 8


@pytest.mark.parametrize(
    ("logger", "message", "level"),
    [
        ("kopf._cogs.clients.watching", "Request attempt #1/9 failed; will retry: GET … -> 503", "warning"),
        (
            "kopf._core.reactor.observation",
            "Request attempt #2/9 failed; TCP closed; will re-authenticate: GET",
            "warning",
        ),
        ("kopf._cogs.clients.watching", "Request attempt #9/9 failed; escalating: GET … -> 503", "error"),
        ("sparkstate.reconcile", "the request failed; will retry: later", "error"),
    ],
)
def test_a_request_that_kopf_sends_again_is_no_error(
    logger: str, message: str, level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        logs.configure("info")
        logging.getLogger(logger).error(message)
    finally:
        root.handlers[:], root.level = before
    assert json.loads(capsys.readouterr().err)["level"] == level


@pytest.mark.parametrize(
    ("error", "level"),
    [(APINotFoundError(None, status=404, headers={}), "warning"), (LookupError("a bug of ours"), "error")],
    ids=["an answer", "a bug"],
)
def test_a_task_of_kopf_that_an_answer_ends_is_a_warning_without_a_stack(
    error: Exception, level: str
) -> None:
    """The watches begin anew then."""
    record = logging.makeLogRecord(
        {
            "name": "kopf._core.reactor.orchestration",
            "msg": "Watcher for pods has failed",
            "levelno": logging.ERROR,
            "levelname": "ERROR",
            "exc_info": (type(error), error, None),
        }
    )
    assert logs.RetryFilter().filter(record)
    document = json.loads(logs.JsonLines().format(record))
    assert (document["level"], "traceback" in document) == (level, level == "error")


def test_a_crash_is_at_the_write_that_is_named_and_at_no_other() -> None:
    ended: list[int] = []
    crash = hooks.Crash("after", Write.CREATE_POD, 2, ended.append)
    for write in (Write.CREATE_POD, Write.DELETE_POD):
        crash.before(write)
        crash.after(write)
    assert ended == []
    crash.before(Write.CREATE_POD)
    assert ended == []
    crash.after(Write.CREATE_POD)
    assert ended == [hooks.EXIT_CODE]


def test_a_crash_of_no_known_write_is_refused() -> None:
    with pytest.raises(ValueError, match="no-such-write"):
        hooks.from_environment({hooks.VARIABLE: "before:no-such-write"})
