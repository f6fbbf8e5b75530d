"""What operator and engine hand each other in a cluster (docs/formats.md, "In the cluster"), from both sides."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.scene import decisions
from support.scene.in_cluster import SPEC, UID, context
from support.storage import stored_job

from sparkstate import errors, manifest
from sparkstate.cli import main
from sparkstate.control.documents import JobIdentity, JobStatus
from sparkstate.driver import __main__ as driver_main
from sparkstate.driver import pod, termination, termination_policy
from sparkstate.spark import jvm, kubernetes
from sparkstate_operator import actions, labels, observed, rbac
from sparkstate_operator.config import DRIVER_PORT
from sparkstate_operator.core import memory, naming
from sparkstate_operator.core import settings as operator_settings
from sparkstate_operator.decide import snapshot_registering
from sparkstate_operator.objects import children, driver, executor, parts
from sparkstate_operator.plan import Revision
from sparkstate_spec.rules.job import NAME_LIMIT

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text().split("## In the cluster")[1]


def environment(container: dict[str, Any]) -> dict[str, str]:
    """The container's variables, with what the downward API would fill in."""
    filled = {
        "metadata.name": "rotations-driver-3",
        "metadata.namespace": "shop",
        "metadata.uid": "4-5-6",
        "status.podIP": "10.1.0.9",
    }
    return {
        one["name"]: one.get("value") or filled.get(one["valueFrom"].get("fieldRef", {}).get("fieldPath"), "")
        for one in container["env"]
    }


def driver_container(**spec: Any) -> dict[str, Any]:
    (container,) = driver.pod(context(**spec), 3)["spec"]["containers"]
    return container


def write_manifest(folder: Path, start: actions.Start, **spec: Any) -> Path:
    path = folder / "job.yaml"
    path.write_text(parts.as_text(children.manifest(context(**spec), start)))
    return path


def settings_of(path: Path, container: dict[str, Any]) -> Any:
    """What the engine's driver would run with."""
    loaded = manifest.load(path)
    place = pod.read(environment(container), 3, loaded.annotations)
    resolved = manifest.resolve(loaded, cluster=place.cluster, in_cluster=True)
    return replace(resolved.settings, pod=place)


def test_the_port_for_metrics_is_named_and_is_the_one_that_the_engine_opens(tmp_path: Path) -> None:
    assert [port["name"] for port in driver_container()["ports"]] == ["http"]
    for spec in ({"metricsPort": 9249}, {"configuration": {"metrics.reporter.prom.port": "9249"}}):
        container = driver_container(**spec)
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert ports == {"http": DRIVER_PORT, "metrics": 9249}
        path = write_manifest(tmp_path, actions.Start(), **spec)
        assert settings_of(path, container).metrics_port == 9249


def test_the_driver_understands_every_argument_that_the_operator_gives() -> None:
    options = driver_main._parse(driver_container()["args"])
    assert (options.attempt, options.in_cluster, options.fenced_exit_zero) == (3, True, True)
    assert options.listen == f":{DRIVER_PORT}"
    assert str(options.manifest) == "/etc/sparkstate/job/job.yaml"
    documented = set(re.findall(r"`(--[a-z-]+)`", PAGE.split("### The keys of an attempt")[0]))
    given = {word.partition("=")[0] for word in driver_container()["args"]}
    assert documented == given


def test_a_path_of_a_local_job_holds_its_stores_in_the_attempts_own_working_directory(tmp_path: Path) -> None:
    spec: dict[str, Any] = {"deployment": "local", "localStorage": {"paths": ["/disk"]}}
    options = driver_main._parse(driver_container(**spec)["args"])
    assert options.work_dir == Path("/disk/sparkstate-rotations/3")
    assert "`<first path>/sparkstate-<job>/<attempt>`" in PAGE
    path = write_manifest(tmp_path, actions.Start(), **spec)
    assert settings_of(path, driver_container(**spec)).backend.storage_paths == ()


def test_a_path_where_no_volume_is_mounted_is_told_with_its_field_and_the_remedy(tmp_path: Path) -> None:
    path = write_manifest(tmp_path, actions.Start(), deployment="local", localStorage={"paths": ["/disk"]})
    (tmp_path / "disk").touch()  # the root user of a test may make folders everywhere else
    code = driver_main.main(
        [
            f"--manifest={path}",
            f"--work-dir={tmp_path}/disk/sparkstate-rotations/1",
            f"--termination-log={tmp_path}/end.json",
        ]
    )
    word = json.loads((tmp_path / "end.json").read_text())
    assert (code, word["reason"]) == (2, "SpecInvalid")
    assert f"{tmp_path}/disk/sparkstate-rotations/1" in word["message"]
    assert "spec.localStorage.paths" in word["message"]
    assert "driverTemplate" in word["message"]


def test_the_driver_finds_who_it_is_in_its_environment() -> None:
    place = pod.read(environment(driver_container()), 3, {})
    assert (place.name, place.namespace, place.ip) == ("rotations-driver-3", "shop", "10.1.0.9")
    assert (place.job_uid, place.attempt, place.cluster) == (UID, 3, "blue")
    for name in environment(driver_container()):
        assert f"`{name}`" in PAGE


def test_a_last_checkpoint_may_take_as_long_as_the_pod_is_given() -> None:
    template = {"spec": {"terminationGracePeriodSeconds": 77}}
    place = pod.read(environment(driver_container(driverTemplate=template)), 3, {})
    assert place.grace_s == 77
    assert termination_policy.patience_s(place.grace_s) == 72


@pytest.mark.parametrize(
    ("start", "restore_from", "empty", "fresh"),
    [
        (actions.Start(), None, False, False),
        (actions.Start(since=2, uri="s3://bucket/savepoint-1"), "s3://bucket/savepoint-1", False, False),
        (actions.Start(since=2, uri="s3://b/savepoint-1", fresh=True), "s3://b/savepoint-1", False, True),
        (actions.Start(since=3, latest=True), "latest", False, False),
        (actions.Start(since=3, empty=True), None, True, False),
    ],
    ids=["lineage decides", "from a savepoint", "anew from a savepoint", "latest", "empty"],
)
def test_the_start_instruction_reaches_the_engine(
    tmp_path: Path, start: actions.Start, restore_from: str | None, empty: bool, fresh: bool
) -> None:
    found = settings_of(write_manifest(tmp_path, start), driver_container())
    assert (found.restore_from, found.start_empty) == (restore_from, empty)
    assert (found.pod.start_since, found.pod.start_fresh) == (start.since, fresh)
    assert (found.name, found.namespace, found.cluster) == ("rotations", "shop", "blue")


def test_a_script_of_a_config_map_is_found_where_it_is_mounted(tmp_path: Path) -> None:
    spec = {"pythonFile": None, "configMapRef": {"name": "code", "key": "main.py"}}
    given = {name: value for name, value in {**SPEC, **spec}.items() if value is not None}
    resolved = operator_settings.resolve(given)
    here = replace(context(), revision=Revision("rotations-1", resolved))
    path = tmp_path / "job.yaml"
    path.write_text(parts.as_text(children.manifest(here, actions.Start())))
    found = settings_of(path, driver_container())
    (container,) = driver.pod(here, 3)["spec"]["containers"]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert Path(found.entry.python_file).parent.as_posix() in mounts


def test_executors_get_the_memory_that_the_operator_shows_and_the_template_that_it_mounts(
    tmp_path: Path,
) -> None:
    found = settings_of(write_manifest(tmp_path, actions.Start()), driver_container())
    conf = jvm.effective_conf(found, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert found.pod is not None
    conf |= kubernetes.of_life(found, found.pod, 1)
    shown = memory.sums(context().revision.resolved).of("executor")
    megabytes = [
        int(conf[name].removesuffix("m"))
        for name in ("spark.executor.memory", "spark.executor.memoryOverhead")
    ]
    assert sum(megabytes) * 1024 * 1024 == shown.memory_bytes
    assert int(conf["spark.executor.instances"]) == shown.count == 3
    assert conf["spark.executor.cores"] == str(shown.cores)
    assert conf["spark.kubernetes.container.image"] == "shop:1"
    assert conf["spark.master"] == "k8s://https://10.0.0.1:443"
    assert f"spark.kubernetes.executor.label.{labels.LIFE}" in conf
    assert conf["spark.kubernetes.executor.podNamePrefix"] == "rotations-3"
    template = executor.template(context(), 3)
    (container,) = template["spec"]["containers"]
    assert container["name"] == conf["spark.kubernetes.executor.podTemplateContainerName"]
    assert found.pod.uid
    assert "spark.kubernetes.driver.pod.name" not in conf  # the driver writes its pod's uid into the template
    assert json.loads(kubernetes.owned(parts.as_text(template), found.pod))["spec"] == template["spec"]
    folder, _, name = conf["spark.kubernetes.executor.podTemplateFile"].rpartition("/")
    assert name in children.config_map(context(), 3, actions.Start())["data"]
    assert folder in {mount["mountPath"] for mount in driver_container()["volumeMounts"]}
    secret = conf["spark.authenticate.secret.file"].rpartition("/")[0]
    for each in (container, driver_container()):
        assert secret in {mount["mountPath"] for mount in each["volumeMounts"]}
    assert template["metadata"]["labels"] | {} == labels.of_job("rotations", UID, "executor", 3)


def test_no_other_life_of_an_attempt_uses_the_names_of_its_executors() -> None:
    job = "j" * NAME_LIMIT
    names = [kubernetes.executor_prefix(job, naming.MAX_ATTEMPT, life) for life in (1, 2, 37)]
    assert len(set(names)) == 3
    assert all(len(name) <= 47 for name in names)
    assert names[0] == f"{job}-{naming.MAX_ATTEMPT}"
    assert len(names[0]) == 47, "the longest name uses all that Spark allows"
    attempts = [kubernetes.executor_prefix(job, attempt, 1) for attempt in (1, 2, 11, naming.MAX_ATTEMPT)]
    assert len(set(attempts)) == 4


def test_every_right_that_the_page_names_is_granted() -> None:
    told = re.search(r"rights on pods in its namespace: ([a-z, ]+)\.", PAGE)
    assert told is not None
    (rule,) = rbac.driver_rules()
    assert (rule["apiGroups"], rule["resources"]) == ([""], ["pods"])
    assert set(told[1].split(", ")) == set(rule["verbs"])


def test_an_answer_of_the_engine_says_whose_it_is() -> None:
    assert {"job_uid", "attempt"} <= set(JobStatus.model_fields)
    assert {"job_uid", "attempt"} == set(JobIdentity.model_fields)


@pytest.mark.parametrize(
    "character", ["x", "ä", "😀", '"', "\n"], ids=["plain", "umlaut", "emoji", "quote", "line"]
)
def test_a_last_word_fits_a_termination_message_and_is_read_by_the_operator(
    tmp_path: Path, character: str
) -> None:
    path = tmp_path / "log"
    document = {"reason": "JobFailed", "message": character * 5000 + " the end", "exit_code": 1}
    termination.write(path, document)
    assert path.stat().st_size <= 4096
    word = observed.Termination(1, "Error", path.read_text()).word
    assert (word["reason"], word["exit_code"]) == ("JobFailed", 1)
    assert str(word["message"]).endswith(" the end")


def test_the_savepoint_of_a_stopped_driver_is_in_its_last_word_and_then_in_the_status(tmp_path: Path) -> None:
    path = tmp_path / "log"
    saved = {"location": "s3://bucket/savepoint-1", "epoch": 12, "trigger_id": "t"}
    termination.write(path, {"reason": "Suspended", "message": "", "exit_code": 0, "savepoint": saved})
    ended = observed.Termination(0, "Completed", path.read_text(), decisions.NOW)
    gone = decisions.pod(phase="Succeeded", ready=False, ended=ended)
    seen = observed.ObservedState(decisions.job(decisions.running_status()), decisions.NOW, drivers=(gone,))
    found = decisions.look(seen).status["lastSavepoint"]
    assert {name: found[name] for name in ("uri", "epoch", "triggerId")} == {
        "uri": saved["location"],
        "epoch": 12,
        "triggerId": "t",
    }


def commands() -> list[str]:
    """The command lines of the page."""
    return re.findall(r"^\| `(sparkstate [^`]+)`", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize("line", commands())
def test_every_command_of_the_page_answers_in_one_line_and_in_the_termination_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setenv("SPARKSTATE_CLUSTER", "blue")
    store = tmp_path / "state"
    path = write_manifest(
        tmp_path, actions.Start(), deployment="local", checkpointing={"storage": store.as_uri()}, s3={}
    )
    job = stored_job.StoredJob(store.as_uri(), "rotations", 1, cluster="blue", namespace="shop")
    uri, _newest = job.take_savepoint("t-1", 1), job.take_savepoint("t-2", 2)
    objects = tmp_path / "objects.json"
    objects.write_text(json.dumps({"items": [{"kind": "StatefulSparkJob"}]}))
    meant = {"F": str(path), "URI": uri, "ID": "t-1", "JOB": "blue/shop/rotations", "STORAGE": store.as_uri()}
    words = shlex.split(re.sub(r"\[.*?\]", "", line))[1:]
    words = [{**meant, "OBJECTS": str(objects)}.get(word, word) for word in words]
    word = tmp_path / "word"
    assert main.main([*words, "--termination-log", str(word)]) == 0
    (said,) = capsys.readouterr().out.splitlines()
    answer = json.loads(said)
    assert answer["ok"] is True
    assert json.loads(word.read_text())["ok"] is True
    (row,) = (row for row in PAGE.splitlines() if row.startswith(f"| `{line}`"))
    for field in re.findall(r"`([a-z_]+)`", row.split("|")[2].split("(")[0]):
        assert field in answer


def test_a_command_that_fails_says_so_in_both_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    word = tmp_path / "word"
    code = main.main(["savepoints", "delete", "--json", "s3://bucket", "--termination-log", str(word)])
    assert code == 2
    said = json.loads(capsys.readouterr().out)
    assert said == json.loads(word.read_text())
    assert (said["ok"], said["reason"]) == (False, "SpecInvalid")


def test_the_operator_repeats_what_the_storage_refused_and_takes_every_other_answer_for_final() -> None:
    passing = {errors.StorageRefused.__name__, errors.StorageUnavailable.__name__}
    assert not passing & snapshot_registering.FINAL
    assert set(dir(errors)) >= snapshot_registering.FINAL, "the engine has no such reason"
    for reason in (*passing, "StorageError"):
        assert f"`{reason}`" in PAGE
