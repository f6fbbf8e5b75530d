"""How the programs of the test clusters are found, and how logs are judged."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.nodes import pod_logs

from sparkstate_tools import processes
from sparkstate_tools.kubernetes import build
from sparkstate_tools.parts import golang

UPSTREAM = """\
module k8s.io/kubernetes

require k8s.io/klog/v2 v2.140.0

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/client-go => ./staging/src/k8s.io/client-go
)
"""


def test_each_staging_module_is_replaced_by_the_one_that_was_published_with_it() -> None:
    text = build.module_file(UPSTREAM)
    assert "require k8s.io/kubernetes v1.36.3" in text
    assert "k8s.io/api => k8s.io/api v0.36.3" in text
    assert "k8s.io/client-go => k8s.io/client-go v0.36.3" in text
    assert "klog" not in text


@pytest.mark.parametrize(
    ("says", "taken"),
    [
        pytest.param("Kubernetes v1.36.0", True, id="same-minor"),
        pytest.param("Kubernetes v1.35.3", False, id="older"),
        pytest.param("nothing of the kind", False, id="no-version"),
    ],
)
def test_a_given_program_is_taken_when_its_minor_version_is_ours(
    tmp_path: Path, says: str, taken: bool
) -> None:
    program = tmp_path / "kube-apiserver"
    program.write_text(f"#!/bin/sh\necho {says}\n")
    program.chmod(0o755)
    part = next(part for part in build.PARTS if part.name == "kube-apiserver")
    assert build.from_assets(part, str(tmp_path)) == (program if taken else None)
    assert build.from_assets(part, str(tmp_path / "elsewhere")) is None


def test_of_two_builders_the_second_waits_for_the_first(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    order: list[str] = []
    lock = tmp_path / "part.lock"

    def second() -> None:
        with golang.only_one(lock, "the part"):
            order.append("second")

    thread = threading.Thread(target=second)
    with golang.only_one(lock, "the part"):
        thread.start()
        thread.join(0.3)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert "waiting" in capfd.readouterr().err


def test_errors_tracebacks_and_plain_text_of_an_operator_are_complaints() -> None:
    lines = [
        {"level": "info", "message": "started"},
        {"level": "warning", "message": "conflict"},
        {"level": "error", "message": "bad"},
        {"level": "warning", "message": "odd", "traceback": "Traceback …"},
    ]
    plain = "Segmentation fault"
    found = pod_logs.complaints(iter([*map(json.dumps, lines), plain]))
    assert found == [json.dumps(lines[2]), json.dumps(lines[3]), plain]


def test_the_log_of_a_pod_is_kept_when_the_kubelet_removes_it(tmp_path: Path) -> None:
    written = tmp_path / "pods" / "ns_pod_uid" / "main" / "0.log"
    written.parent.mkdir(parents=True)
    written.write_text("2026-01-01T00:00:00Z stdout F one\n")
    logs = pod_logs.PodLogs([tmp_path / "pods"], tmp_path / "kept")
    assert list(logs.lines("ns")) == ["one"]
    with written.open("a") as file:
        file.write("2026-01-01T00:00:01Z stderr F two words\n")
    written.unlink()
    assert list(logs.lines("ns", "main")) == ["one", "two words"]
    assert list(logs.lines("other")) == []


def test_lines_since_a_moment_are_those_of_the_container_that_said_what_is_waited_for(tmp_path: Path) -> None:
    for number, lines in enumerate(((("01", "ready"), ("05", "dying")), (("09", "begun"), ("10", "ready")))):
        log = tmp_path / "pods" / "ns_pod_uid" / "driver" / f"{number}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("".join(f"2026-01-01T00:00:{at}Z stdout F {text}\n" for at, text in lines))
    logs = pod_logs.PodLogs([tmp_path / "pods"], tmp_path / "kept")
    lost = datetime(2026, 1, 1, 0, 0, 3, tzinfo=UTC).timestamp()
    assert logs.since(lost, "ns", "driver", "ready") == {"begun": 6.0, "ready": 7.0}
    assert logs.since(lost, "ns", "driver", "never") == {}
    assert logs.since(lost - 3, "ns", "driver", "dying") == {"ready": 1.0, "dying": 5.0}


def test_another_process_that_has_a_recorded_number_now_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "pids").mkdir()
    (tmp_path / "pids" / "etcd").write_text(f"{os.getpid()} {processes.start_time(os.getpid()) - 1}")
    assert processes.end_recorded(tmp_path) == []
    assert not (tmp_path / "pids" / "etcd").exists()
