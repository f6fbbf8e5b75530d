"""The check before an upgrade (docs/formats.md, "Commands"): what the operator asks, and what the engine answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from support.scene.decisions import NOW
from support.scene.in_cluster import context

from sparkstate import manifest
from sparkstate.cli import check as command
from sparkstate.cli import machine, targets
from sparkstate.compatibility import report
from sparkstate.compatibility.report import JobFinding, Outcome, Report, StateFinding
from sparkstate_operator import actions, answers, command_pods, observed
from sparkstate_operator.core import job_life
from sparkstate_operator.decide import checking
from sparkstate_operator.objects import check

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text().split("## In the cluster")[1]
REFUSED = StateFinding(
    operator="count",
    state="n",
    kind="value",
    outcome=Outcome.REFUSED,
    field="value type",
    stored="LONG",
    declared="STRING",
    message="state 'n' of operator 'count': its value type was LONG when it was stored and is now STRING; declare it",
)


def told(*states: StateFinding, differences: tuple[JobFinding, ...] = ()) -> Report:
    return Report(
        job="blue/shop/rotations",
        url="s3://bucket/state/00aa/chk-4",
        kind="checkpoint",
        id=4,
        epoch=9,
        found="checkpoint 4",
        states=states,
        differences=differences,
    )


def job(*arguments: str, **spec: Any) -> dict[str, Any]:
    action = actions.CreateCheck("c", "r", actions.Start(), arguments, checking.LIMIT_S)
    return check.job(context(**spec), action)


def said(found: Report, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the engine leaves as the pod's termination message."""
    machine.answer(found.document, folder / "word", report.shortened)
    capsys.readouterr()
    return (folder / "word").read_text()


def heard(message: str) -> observed.Document:
    """What the operator takes from a pod with that message."""
    status = {"containerStatuses": [{"state": {"terminated": {"message": message}}}]}
    return command_pods.word_of({"status": status})


def judged(result: observed.Document, *, failed: bool) -> checking.Answer | None:
    known = observed.Command("c", "u", "1", job_life.CHECK, not failed, failed, result, NOW)
    return checking._has_answered(None, None, known)  # type: ignore[arg-type]


def test_the_command_understands_what_the_operator_asks_for() -> None:
    template = job("--from=s3://bucket/sp", "--by-savepoint")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert [*container["command"], container["args"][0]] == ["sparkstate", "check"]
    given = [one.replace("/etc/sparkstate/job/job.yaml", __file__) for one in container["args"][1:]]
    with command.check.make_context("check", given) as parsed:
        assert isinstance(parsed, click.Context)
        assert (parsed.params["url"], parsed.params["by_savepoint"]) == ("s3://bucket/sp", True)
        assert parsed.params["as_json"]
    for argument in (*container["args"][2:],):
        assert argument.partition("=")[0] in PAGE


def test_the_manifest_that_its_pod_mounts_is_the_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = job()["spec"]["template"]
    (volume,) = (one for one in template["spec"]["volumes"] if one["name"] == "job")
    (item,) = volume["downwardAPI"]["items"]
    annotation = item["fieldRef"]["fieldPath"].split("'")[1]
    path = tmp_path / item["path"]
    path.write_text(template["metadata"]["annotations"][annotation])
    (container,) = template["spec"]["containers"]
    variables = {one["name"]: one.get("value", "") for one in container["env"]}
    monkeypatch.setenv("SPARKSTATE_CLUSTER", variables["SPARKSTATE_CLUSTER"])
    settings = command._resolver(path, ())().settings
    assert (settings.cluster, settings.namespace, settings.name) == ("blue", "shop", "rotations")
    assert manifest.load(path).name == "rotations"
    assert settings.cluster != targets.NO_CLUSTER


def test_a_refusal_reaches_the_operator_with_state_field_and_types(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = heard(said(told(REFUSED), tmp_path, capsys))
    assert answers.fits(result, answers.CHECK)
    found = judged(result, failed=True)
    assert found is not None
    assert found.verdict is checking.Verdict.REFUSED
    for word in ("'n'", "'count'", "value type", "LONG", "STRING", "chk-4"):
        assert word in found.why


def test_a_state_that_fits_reaches_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = judged(heard(said(told(), tmp_path, capsys)), failed=False)
    assert found == checking.Answer(checking.Verdict.FITS)


def test_the_answer_fits_a_termination_message_however_much_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = said(told(*[REFUSED] * 500), tmp_path, capsys)
    assert len(message) < 4096
    assert json.loads(message)["counts"]["refused"] == 500


def test_the_words_of_an_older_command_line_are_those_that_the_operator_knows() -> None:
    group = click.Group("sparkstate")
    with pytest.raises(click.UsageError, match=f"^{checking.NOT_KNOWN} 'check'"):
        group.main(["check"], standalone_mode=False)


def test_the_page_has_every_field_of_the_answer_and_the_exit_code() -> None:
    for field in told(REFUSED).document():
        assert f"`{field}`" in PAGE, field
    for outcome in Outcome:
        assert f"`{outcome}`" in PAGE, outcome
    assert f"exit code {report.EXIT_REFUSED}" in PAGE
