"""Where a sink's files may go when slots have file systems of their own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from sparkstate import FileSink, errors
from sparkstate.driver import preparing
from sparkstate.settings import EntryPoint, JobSettings
from sparkstate.spark import planning


def check(path: str, deployment: str) -> None:
    settings = JobSettings(name="job", entry=EntryPoint(module="m"), deployment=deployment)  # type: ignore[arg-type]
    declared = SimpleNamespace(sinks=[SimpleNamespace(uid="totals", sink=FileSink(path))])
    preparing.check_sinks(settings, declared)  # type: ignore[arg-type]


def test_a_plain_folder_is_refused_where_every_executor_has_its_own() -> None:
    with pytest.raises(errors.SpecInvalid, match=r"'totals' is FileSink.'/data/out'.*s3://bucket"):
        check("/data/out", "cluster")


@pytest.mark.parametrize("path", ["s3://bucket/out", "file:///shared/out"])
def test_a_url_is_taken_at_its_word(path: str) -> None:
    check(path, "cluster")


@pytest.mark.parametrize("path", ["rel/out", "./out", "~/out", "file:out"])
@pytest.mark.parametrize("deployment", ["local", "cluster"])
def test_a_relative_folder_is_refused_with_the_one_that_it_would_be(
    path: str, deployment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    would_be = f"would be {tmp_path.as_uri()}/" if deployment == "local" else "s3://bucket/prefix"
    with pytest.raises(errors.SpecInvalid, match=f"'totals' is FileSink.'{path}'.*{would_be}"):
        check(path, deployment)


@pytest.mark.parametrize("path", ["/data/out", "file:/data/out", "file:///data/out", "s3://bucket/out"])
def test_a_folder_that_is_the_same_wherever_the_job_is_started_will_do(path: str) -> None:
    check(path, "local")


@pytest.mark.parametrize("path", ["out", "out/", "/data/../out", "file:///out", "s3a://bucket/out/"])
def test_a_slot_is_told_the_folder_that_the_driver_means(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path, too: slots work in another folder."""
    monkeypatch.chdir(tmp_path)
    node = SimpleNamespace(uid="totals", operator="sum", tag=None, sink=FileSink(path, "csv"))
    (plan,) = planning.sink_plans(SimpleNamespace(sinks=[node]))  # type: ignore[arg-type]
    meant = {"out": tmp_path.as_uri() + "/out", "s3a://bucket/out/": "s3://bucket/out"}
    assert plan.sink == FileSink(meant.get(path.rstrip("/"), meant.get(path, "file:///out")), "csv")
