"""Under which cluster's name a job goes on: as its release is told, or as it was when it came from another one."""

from __future__ import annotations

import dataclasses
from typing import Any

import click
import pytest
from support.scene import decisions, kept_scene

from sparkstate_operator import actions, cli, holding, job_pods, kept_name, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide
from sparkstate_operator.objects import children, commands, driver, parts

FOUND = "0000-kube-system"
OPS = Config(cluster="prod", cluster_id=FOUND, mark="ops/ours")
BLUE = Config(cluster="test", cluster_id=FOUND, mark="blue/theirs@blue")


def ran(cluster: str = "green", mark: str = "", kept: str = "", **status: Any) -> observed.Job:
    """A job whose next attempt is about to begin; its status names that cluster."""
    notes = {labels.MANAGER: mark, labels.CLUSTER_KEPT: kept}
    intent = {"action": "start", "attempt": 2}
    found = decisions.running_status(cluster=cluster, intent=intent, **{"selector": "", **status})
    return dataclasses.replace(
        decisions.job(found), annotations={name: value for name, value in notes.items() if value}
    )


def begin(job: observed.Job, config: Config) -> tuple[str, observed.Job]:
    """The name that the next attempt gets, and the job as the API server has it after that look."""
    wanted = decisions.revision()
    decision = decide(observed.ObservedState(job, decisions.NOW), {wanted.name: wanted}, wanted, "", config)
    notes = dict(job.annotations)
    for each in decision.before:
        if isinstance(each, actions.AddFinalizer):
            meta = holding.hold(job.finalizers, each.marks, {labels.MANAGER: config.mark, **each.notes})
            notes.update(meta["annotations"])
    finalizers = (*job.finalizers, labels.FINALIZER)
    after = dataclasses.replace(job, status=decision.status, annotations=notes, finalizers=finalizers)
    # The next attempt and its commands are made by the job as it was seen, held, with pin and new status.
    kept = {labels.CLUSTER_KEPT: notes.get(labels.CLUSTER_KEPT, "")}
    named = dataclasses.replace(after, annotations={**job.annotations, **kept})
    name = str(decision.status["cluster"])
    for one in (named, after):
        context = parts.Context(one, wanted, config)
        assert {"name": "SPARKSTATE_CLUSTER", "value": name} in parts.environment(context, 2)
        purge = commands.of_job(context, actions.CreateCommand("purge", "purge", ("purge",), 600), "orders-1")
        assert dict(purge.environment)["SPARKSTATE_CLUSTER"] == name
    return name, after


def let_go(job: observed.Job) -> observed.Job:
    """By its operator, which takes mark and finalizer away."""
    notes = {name: value for name, value in job.annotations.items() if name != labels.MANAGER}
    return dataclasses.replace(job, annotations=notes, finalizers=())


@pytest.mark.parametrize(
    ("config", "mark", "name"),
    [
        (dataclasses.replace(OPS, cluster_found=True), "ops/ours", "green"),
        (OPS, "ops/ours", "prod"),
        (OPS, "ops/ours@red", "prod"),
        (OPS, "blue/theirs@blue", "green"),
        (OPS, "", "green"),
        (Config(cluster="prod"), "", "prod"),
    ],
    ids=[
        "found",
        "told to the release that has the job",
        "told to it, and it was given another class",
        "told to another release",
        "told to one that finds the job unmarked",
        "told to one without a mark",
    ],
)
def test_a_job_keeps_the_name_that_its_state_lies_under_unless_its_release_is_told_another(
    config: Config, mark: str, name: str
) -> None:
    given, after = begin(ran(mark=mark), config)
    assert given == name
    assert begin(after, config)[0] == name, "at the next attempt too"
    fresh = parts.Context(decisions.job(), decisions.revision(), config)
    assert {"name": "SPARKSTATE_CLUSTER", "value": config.cluster} in parts.environment(fresh, 1)


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a job is given to the operator of another release",
    when="both releases had the same name in storage before one was told its own",
    expected="the job keeps its name in storage, and its state",
)
def test_a_job_that_comes_under_a_name_that_the_release_had_once_keeps_it() -> None:
    """Both were named by kube-system before; one was told a name since."""
    theirs = ran(FOUND, mark="blue/theirs@blue")
    name, taken = begin(let_go(theirs), OPS)
    assert name == FOUND
    assert taken.annotations[labels.CLUSTER_KEPT] == f"uid-1/{FOUND}/{FOUND}"
    assert begin(ran(FOUND, mark="ops/ours"), OPS)[0] == "prod", "its own go over to the new name"
    # It goes back and forth, and its status is wiped: the pin stays.
    back, again = begin(let_go(taken), BLUE)
    assert back == FOUND
    assert again.annotations[labels.CLUSTER_KEPT] == taken.annotations[labels.CLUSTER_KEPT]
    assert kept_name.of_job(BLUE, dataclasses.replace(again, status={})) == FOUND
    # A person who wants the release's own name says so.
    unpinned = dataclasses.replace(taken, annotations={labels.MANAGER: "ops/ours"})
    assert begin(unpinned, OPS)[0] == "prod"


def test_a_mark_of_ours_that_stayed_when_we_let_the_job_go_says_nothing() -> None:
    """A policy may refuse that the mark is taken away, or that the next operator changes it."""
    back = dataclasses.replace(ran(mark="ops/ours"), finalizers=())
    name, taken = begin(back, OPS)
    assert (name, taken.annotations[labels.CLUSTER_KEPT]) == ("green", f"uid-1/{FOUND}/green")
    assert begin(taken, OPS)[0] == "green"


ODD = ["-x", "a b", "Blue_2", "é"]
UNPINNABLE = [
    pytest.param("a/b", id="a slash"),
    pytest.param("$(KEY)", id="a variable"),
    pytest.param("..", id="dots"),
    pytest.param("x" * 254, id="too long"),
    pytest.param("a\nb", id="a line break"),
]


@pytest.mark.parametrize("name", ODD)
def test_a_job_keeps_whatever_name_an_operator_may_have(name: str) -> None:
    given, taken = begin(ran(name, mark="blue/theirs@blue"), OPS)
    assert (given, begin(taken, OPS)[0]) == (name, name)
    assert kept_name.NAME.fullmatch(name), "the command line takes it"


@pytest.mark.parametrize("name", UNPINNABLE)
def test_a_job_whose_name_in_storage_cannot_be_pinned_is_not_taken(name: str) -> None:
    job = ran(name, mark="blue/theirs@blue")
    wanted = decisions.revision()
    decision = decide(observed.ObservedState(job, decisions.NOW), {wanted.name: wanted}, wanted, "", OPS)
    assert (decision.before, decision.actions, decision.status) == ((), (), job.status)
    (note,) = decision.notes
    assert (note.reason, note.warning) == ("SpecInvalid", True)
    assert repr(name) in note.message


@pytest.mark.parametrize("name", UNPINNABLE)
def test_an_operator_is_not_told_a_name_that_could_not_be_pinned(name: str) -> None:
    words = ["run", "--all-namespaces", "--engine-image", "engine:1", "--lease-namespace", "ops"]
    with pytest.raises(click.BadParameter, match="cannot be a name in storage"):
        cli.main([*words, "--cluster", name], standalone_mode=False)


def test_what_is_built_in_the_step_that_pins_a_job_goes_by_the_pin() -> None:
    """The step after it would be too late: a driver's pod is not changed any more."""
    found = kept_scene.Scene(config=OPS)
    found.world.job = dataclasses.replace(ran(mark="ops/ours"), finalizers=())
    found.world.pods = ()
    names = []

    async def carry_out(_action: actions.Action, seen: observed.ObservedState, *_: Any) -> None:
        names.append(kept_name.of_job(OPS, seen.job))

    found.world.carry_out = carry_out  # type: ignore[attr-defined]
    found.memory.stirred = True
    found.step()
    assert names
    assert set(names) == {"green"}


def test_a_job_that_comes_under_the_name_of_the_release_is_renamed_with_it() -> None:
    name, taken = begin(ran("prod", mark="blue/theirs@blue"), OPS)
    assert name == "prod"
    assert labels.CLUSTER_KEPT not in taken.annotations
    assert begin(taken, dataclasses.replace(OPS, cluster="new"))[0] == "new"


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a cluster is restored elsewhere from a backup, with the status of each job",
    when="the copy is told a clusterName of its own",
    expected="no job of the copy writes under the name of the original",
)
@pytest.mark.parametrize(
    ("mark", "kept"),
    [
        ("ops/ours", ""),
        ("sparkstate/original", ""),
        ("", ""),
        ("ops/ours", f"uid-of-original/{FOUND}/green"),
        ("sparkstate/original", "uid-of-original//green"),
    ],
    ids=[
        "of the same release",
        "of another release",
        "unmarked",
        "pinned",
        "pinned by one of some namespaces",
    ],
)
@pytest.mark.parametrize("known", [True, False], ids=["kube-system is read", "it is not"])
def test_a_copy_of_a_cluster_does_not_write_under_the_original_s_name(
    mark: str, kept: str, known: bool
) -> None:
    copy = ran("green", mark, kept, selector=labels.pods_of("uid-of-original"))
    config = dataclasses.replace(OPS, cluster="copy", cluster_id="1111-kube-system" if known else "")
    name, after = begin(copy, config)
    assert name == "copy"
    assert begin(after, config)[0] == "copy"


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="a job is restored from a backup, with its status",
    when="it has run again, and is given to the operator of another release",
    expected="it keeps its name in storage, and its state",
)
@pytest.mark.parametrize(
    "config", [OPS, dataclasses.replace(OPS, cluster="green", cluster_found=True)], ids=["told", "found"]
)
def test_a_restored_job_that_has_run_again_is_pinned_when_it_changes_hands(config: Config) -> None:
    restored = ran("green", config.mark, selector=labels.pods_of("uid-of-before"))
    name, running = begin(restored, config)
    assert running.status["selector"] == labels.pods_of(running.uid), "`kubectl scale` finds its pods"
    given, taken = begin(let_go(running), BLUE)
    assert (given, taken.annotations[labels.CLUSTER_KEPT]) == (name, f"uid-1/{FOUND}/{name}")


def test_a_person_pins_a_job_by_its_uid_alone() -> None:
    assert begin(ran("", "ops/ours", "uid-1//green"), OPS)[0] == "green"


def test_a_job_that_is_restored_in_its_own_cluster_keeps_its_pin() -> None:
    restored = ran("green", "ops/ours", f"uid-of-before/{FOUND}/green", selector=labels.pods_of("before"))
    assert begin(restored, OPS)[0] == "green"


@pytest.mark.parametrize(
    "text", ["uid-1", "uid-1/", f"uid-1/{FOUND}/", "uid-1//../x", "uid-1//..", "//green"]
)
def test_what_no_operator_has_written_is_no_pin(text: str) -> None:
    assert begin(ran("green", "ops/ours", text), OPS)[0] == "prod"


def config_map(attempt: int, job: observed.Job, config: Config) -> observed.Child:
    context = parts.Context(job, decisions.revision(), config)
    return observed.child_of(as_stored(children.config_map(context, attempt, actions.Start())), "ConfigMap")


def as_stored(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": "1"}}


def older(child: observed.Child) -> observed.Child:
    """As an operator of before made it."""
    meta = dict(child.body["metadata"])
    del meta["annotations"][labels.CLUSTER]
    return dataclasses.replace(child, body={**child.body, "metadata": meta})


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="the status of a job is wiped",
    when="its state lies under another name than the operator's",
    expected="the job goes on under the name of its state",
)
@pytest.mark.parametrize("told_by", ["ConfigMap", "driver of an older operator"])
def test_a_wiped_status_gets_back_the_name_that_the_newest_attempt_was_given(told_by: str) -> None:
    config = Config(cluster="default", cluster_found=True)
    ran_as = ran("green", attempt=2)
    context = parts.Context(ran_as, decisions.revision(), config)
    pod = job_pods.read(as_stored(driver.pod(context, 2)))
    maps = [config_map(1, ran("red"), config), config_map(2, ran_as, config)]
    if told_by == "ConfigMap":
        drivers: tuple[observed.Pod, ...] = ()
    else:
        maps, drivers = [older(one) for one in maps], (pod,)
    wanted = decisions.revision()
    wiped = dataclasses.replace(ran_as, status={})
    seen = observed.ObservedState(wiped, decisions.NOW, drivers=drivers, config_maps=tuple(maps))
    status = decide(seen, {wanted.name: wanted}, wanted, "", config).status
    assert (status["attempt"], status["cluster"]) == (2, "green")
    # A job that comes from another operator is pinned to what its children know.
    decision = decide(seen, {wanted.name: wanted}, wanted, "", OPS)
    (hold,) = (one for one in decision.before if isinstance(one, actions.AddFinalizer))
    assert hold.notes == {labels.CLUSTER_KEPT: f"uid-1/{FOUND}/green"}


def test_a_config_map_that_was_made_for_a_command_tells_no_name() -> None:
    config = Config(cluster="default", cluster_found=True)
    made = config_map(0, dataclasses.replace(ran(), status={}), config)
    seen = observed.ObservedState(dataclasses.replace(ran(), status={}), decisions.NOW, config_maps=(made,))
    wanted = decisions.revision()
    assert "cluster" not in decide(seen, {wanted.name: wanted}, wanted, "", config).status
