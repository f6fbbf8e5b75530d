"""Objects that the API server would refuse are found before the attempt that runs is stopped for them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from support.scene.decisions import NOW, acts, job, look, pod, revision, running_status

from sparkstate_operator import actions, errors, hooks, judging, observed
from sparkstate_operator.apply import Applier
from sparkstate_operator.config import Config
from sparkstate_operator.core import naming
from sparkstate_operator.decide import decide
from sparkstate_operator.edges import kube as k
from sparkstate_operator.objects import children
from sparkstate_operator.objects.parts import Context

FULL = errors.Forbidden(
    403,
    'create /api/v1/namespaces/shop/configmaps: configmaps "orders-2" is forbidden: exceeded quota: few, requested: '
    "count/configmaps=1, used: count/configmaps=5, limited: count/configmaps=5 (403)",
)
SIDE_EFFECTS = errors.Invalid(400, 'admission webhook "a.b" does not support dry run')


class Kube:
    """Only dry runs; ``refuses`` by plural."""

    def __init__(self, **refuses: errors.ApiError) -> None:
        self._refuses = refuses
        self.tried: list[str] = []
        self.bodies: dict[str, dict[str, Any]] = {}

    async def create(
        self, kind: k.Kind, _namespace: str, body: dict[str, Any], *, dry_run: bool = False
    ) -> Any:
        assert dry_run
        self.tried.append(f"{kind.plural}/{body['metadata']['name']}")
        self.bodies[kind.plural] = body
        if error := self._refuses.get(kind.plural):
            raise error
        return body


def check(kube: Kube) -> str:
    applier = Applier(cast(k.Kube, kube), None, Config(), b"k" * 32, hooks.NoHooks())  # type: ignore[arg-type]
    newer = revision(image="example/job:2", serviceAccountName="mine")
    start = actions.StartAttempt(2, newer.name, actions.Start())
    return asyncio.run(applier.check(applier.context(job(), newer), start))


def test_every_object_of_the_new_attempt_is_tried() -> None:
    kube = Kube()
    assert check(kube) == ""
    assert kube.tried == ["secrets/sparkstate-uid-1-2", "configmaps/orders-2", "pods/orders-driver-2"]


def test_the_pod_has_a_controller_as_that_of_an_attempt_has() -> None:
    """Policies refuse pods without one, and every upgrade was refused there."""
    kube = Kube()
    check(kube)
    (owner,) = kube.bodies["pods"]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("ConfigMap", "orders-2", True)


@pytest.mark.parametrize("plural", ["secrets", "configmaps", "pods"])
def test_a_refused_object_is_the_answer(plural: str) -> None:
    assert check(Kube(**{plural: FULL})) == str(FULL)


@pytest.mark.parametrize(
    "error", [SIDE_EFFECTS, errors.AlreadyExists(409, "there")], ids=["no dry run", "there already"]
)
def test_a_dry_run_that_tells_nothing_does_not_keep_the_others_from_being_tried(
    error: errors.ApiError,
) -> None:
    kube = Kube(configmaps=error)
    assert check(kube) == ""
    assert kube.tried[-1] == "pods/orders-driver-2"


def test_a_quota_of_config_maps_is_not_freed_by_the_end_of_a_pod() -> None:
    newer = job(running_status(), generation=2, image="example/job:2", upgradeCheck=False)
    seen = observed.ObservedState(newer, NOW, drivers=(pod(),), refused=str(FULL))
    found = look(seen)
    assert found.status["phase"] == "Running"
    assert "count/configmaps=5" in found.status["refused"]["message"]
    assert not acts(found, actions.DeletePod)


# -- a spec that is too large for a ConfigMap --------------------------------------------------------------------------

LONG = {f"list-{number}": "x" * 8000 for number in range(150)}


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a spec that is too large for the ConfigMap of an attempt",
    when="a job is upgraded",
    expected="the old attempt runs on, and condition and Event name size, limit and remedy",
)
def test_a_spec_that_is_too_large_for_a_config_map_is_refused_before_anything_is_stopped() -> None:
    large = job(running_status(), generation=2, params=LONG)
    wanted, why = judging.judge(large, Config())
    seen = observed.ObservedState(large, NOW, drivers=(pod(),))
    found = decide(seen, {revision().name: revision()}, wanted, why, Config())
    assert (found.status["phase"], found.check, acts(found, actions.DeletePod)) == ("Running", None, [])
    (degraded,) = (one for one in found.status["conditions"] if one["type"] == "Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "SpecInvalid")
    (note,) = found.notes
    assert note.reason == "SpecInvalid"
    for told in (degraded["message"], note.message):
        assert told.startswith("spec.params: is too large: the ConfigMap of an attempt would have 12")
        assert f"at most {judging.LARGEST} fit" in told
        assert "shorten it, or put its contents into the image or into a ConfigMap of your own" in told


def test_the_largest_field_is_named_with_text_as_large_as_it_is_written() -> None:
    """A letter outside ASCII takes six bytes or twelve."""
    template = {"metadata": {"annotations": {"note": "\N{GRINNING FACE}" * 90_000}}}
    found, why = judging.judge(job(deployment="cluster", executorTemplate=template), Config())
    assert found is None
    assert why.startswith("spec.executorTemplate: is too large")


def test_what_is_accepted_fits_with_the_longest_place_to_restore_from() -> None:
    number = next(n for n in range(150, 0, -1) if judging.judge(job(params=some(n)), Config())[0])
    found = revision(params=some(number))
    start = actions.Start(since=1, uri="s3://" + "\N{GRINNING FACE}" * 1019)
    made = children.config_map(Context(job(params=some(number)), found, Config()), naming.MAX_ATTEMPT, start)
    size = sum(len(text.encode()) for text in made["data"].values())
    assert judging.LARGEST - 10_000 < size <= 1 << 20


def some(number: int) -> dict[str, str]:
    return dict(list(LONG.items())[:number])
