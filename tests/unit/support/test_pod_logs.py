"""Reading what containers printed, as containerd writes it down."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from support.nodes.pod_logs import PodLogs, complaints, printed

LOG = """\
2026-01-01T00:00:00Z stdout F {"level": "info"}
2026-01-01T00:00:01Z stdout P {"level":
2026-01-01T00:00:01Z stderr F a traceback
2026-01-01T00:00:01Z stdout F  "error"}
2026-01-01T00:00:02Z stdout F
2026-01-01T00:00:03Z stdout F {"lev"""


def test_a_long_line_is_put_together_and_an_unfinished_one_waits() -> None:
    assert list(printed(LOG)) == ['{"level": "info"}', "a traceback", '{"level": "error"}', ""]


def test_errors_and_what_is_no_structured_log_are_complaints() -> None:
    assert complaints(printed(LOG)) == ["a traceback", '{"level": "error"}', ""]


def test_a_pod_that_goes_while_its_folder_is_read_disturbs_nothing(tmp_path: Path) -> None:
    """The kubelet removes pods whenever it likes; a reader that stumbled would lose the logs of all others."""
    source, logs = tmp_path / "node", PodLogs([tmp_path / "node"], tmp_path / "kept")
    stays = source / "shop_stays_1" / "driver"
    stays.mkdir(parents=True)
    (stays / "0.log").write_text("2026-01-01T00:00:00Z stdout F here\n")
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            for pod in range(20):
                (source / f"shop_goes_{pod}" / "driver").mkdir(parents=True)
            for pod in range(20):
                shutil.rmtree(source / f"shop_goes_{pod}")

    kubelet = threading.Thread(target=come_and_go)
    kubelet.start()
    try:
        for _ in range(300):
            assert list(logs.lines("shop")) == ["here"]
    finally:
        over.set()
        kubelet.join()
