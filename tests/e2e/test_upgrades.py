"""An upgrade over real versions of one job: one that does not take up the state never replaces the one that runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.nodes.flights import CODE, FlightsJob

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MakeJob = Callable[..., FlightsJob]
STATE = 'ValueStateDescriptor("rotation", ROTATION)'
DECLARED = f"        self.rotation = ctx.get_state({STATE})\n"
OTHERWISE = DECLARED.replace(STATE, 'ValueStateDescriptor("rotation", Types.STRING())')
MORE = DECLARED + '        self.more = ctx.get_state(ValueStateDescriptor("more", Types.LONG()))\n'


def version(job: FlightsJob, name: str, declared: str) -> None:
    """The job's code with other states, under a name of its own."""
    text = CODE.read_text()
    assert DECLARED in text
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": job.namespace},
        "data": {"job.py": text.replace(DECLARED, declared)},
    }
    job.cluster.apply(body)


def test_a_version_with_another_type_is_refused_and_one_with_a_further_state_replaces_it(
    make_job: MakeJob,
) -> None:
    job = make_job()
    job.apply()
    job.feed(interval_s=5.0)
    job.until_checkpoint_after(0, 240)
    version(job, "code-2", OTHERWISE)
    version(job, "code-3", MORE)
    before = job.driver()["metadata"]["uid"]
    job.patch({"configMapRef": {"name": "code-2", "key": "job.py"}})
    status = job.until(lambda now: "refused" in now, "the version is refused", 240)
    assert status["phase"] == "Running"
    for word in ("'rotation'", "value type", "STRING", "another name"):
        assert word in status["refused"]["message"]
    assert job.driver()["metadata"]["uid"] == before
    job.until_checkpoint_after(int(status["lastCheckpoint"]["id"]))
    job.patch({"configMapRef": {"name": "code-3", "key": "job.py"}})
    status = job.until(
        lambda now: now["phase"] == "Running" and now["attempt"] > 1, "it runs with the further state", 240
    )
    assert "refused" not in status
    job.finish()
    job.check()
