"""The message of a report has room in a pod's termination message, whatever its refusals say."""

from __future__ import annotations

from sparkstate.compatibility.report import JobFinding, Report


def test_a_refusal_that_is_too_long_keeps_its_remedy() -> None:
    told = f"the sources differ: {'no ' * 1000}; read the same ones"
    finding = JobFinding(field="sources", stored="a", declared="b", refused=True, message=told)
    report = Report(
        job="a/b/c", url=None, kind=None, id=None, epoch=None, found="", states=(), differences=(finding,)
    )
    found = report.document()["message"]
    assert len(found) == 1500
    assert found.startswith("the sources differ: ")
    assert found.endswith("; read the same ones")
