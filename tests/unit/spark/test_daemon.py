"""The daemon that Spark's Python workers are forks of."""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sparkstate.spark import daemon

ARCHIVE = "/site/pyspark/python/lib/pyspark.zip"


def test_the_archive_gives_way_to_the_folder_of_the_same_installation() -> None:
    path = ["", ARCHIVE, "/site/pyspark/python/lib/py4j-src.zip", "/site"]
    assert daemon.prefer_folders(path) == ["", "/site/pyspark/python/lib/py4j-src.zip", "/site"]


def test_the_archive_is_known_under_a_link_too(tmp_path: Path) -> None:
    (tmp_path / "site" / "pyspark").mkdir(parents=True)
    (tmp_path / "spark").symlink_to(tmp_path / "site" / "pyspark")
    site = str(tmp_path / "site")
    assert daemon.prefer_folders([f"{tmp_path}/spark/python/lib/pyspark.zip", site]) == [site]


def test_an_archive_of_another_installation_stays_where_spark_has_put_it() -> None:
    path = ["", "/opt/spark/python/lib/pyspark.zip", "/site"]
    assert daemon.prefer_folders(path) == path
    assert daemon.prefer_folders([ARCHIVE, "/elsewhere"]) == [ARCHIVE, "/elsewhere"]


def test_all_that_is_loaded_ahead_exists() -> None:
    for name in daemon._LOADED:
        importlib.import_module(name)


@pytest.mark.parametrize(
    ("before", "may_fork"),
    [("", "True"), ("threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", "False")],
)
def test_a_daemon_forks_only_while_it_has_no_threads(before: str, may_fork: str) -> None:
    code = f"import threading, time\n{before}\nfrom sparkstate.spark import daemon\nprint(daemon.load())"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # as Spark does
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == [may_fork]


def test_a_worker_whose_task_was_cancelled_ends_without_a_word_and_others_as_they_do() -> None:
    def gone(sock: socket.socket, authenticated: bool) -> int:
        raise BrokenPipeError

    def failing(sock: socket.socket, authenticated: bool) -> int:
        raise MemoryError

    with socket.socket() as sock:
        assert daemon.quiet(gone)(sock, True) != 0
        assert daemon.quiet(lambda sock, authenticated: 3 if authenticated else 0)(sock, True) == 3
        with pytest.raises(MemoryError):
            daemon.quiet(failing)(sock, True)
