from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import pyspark.cloudpickle
import pytest

from sparkstate import errors
from sparkstate.settings import MIB, EntryPoint, JobSettings
from sparkstate.spark import jvm, session


def settings(**changes: object) -> JobSettings:
    return JobSettings(name="job", entry=EntryPoint(module="m"), **changes)  # type: ignore[arg-type]


def test_sparks_own_ui_is_off_and_its_connections_are_authenticated() -> None:
    conf = jvm.effective_conf(settings())
    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.authenticate"] == "true"
    assert conf["spark.driver.bindAddress"] == "127.0.0.1"


def test_the_ui_is_on_when_asked_for() -> None:
    assert jvm.effective_conf(settings(ui=True))["spark.ui.enabled"] == "true"


def test_local_spark_has_a_core_for_every_slot_and_the_memory_of_the_manifest() -> None:
    conf = jvm.effective_conf(settings(cores=1, slots=3, jvm_memory_bytes=700 * MIB))
    assert conf["spark.master"] == "local[3,4]"
    assert conf["spark.driver.memory"] == "700m"


def test_the_users_settings_win_and_java_options_are_added_to_ours() -> None:
    conf = jvm.effective_conf(
        settings(
            spark_conf={
                "spark.sql.session.timeZone": "Europe/Berlin",
                "spark.driver.extraJavaOptions": "-Dmine=1",
                "spark.executor.extraJavaOptions": "-Dmine=2",
            }
        )
    )
    assert conf["spark.sql.session.timeZone"] == "Europe/Berlin"
    driver, executor = (conf[f"spark.{who}.extraJavaOptions"].split() for who in ("driver", "executor"))
    assert driver[0] == "-Xss8m"
    assert driver[-1] == "-Dmine=1"
    assert executor[-1] == "-Dmine=2"
    assert driver[1:-1] == executor[:-1] != []


def test_an_image_with_an_archive_of_classes_has_the_driver_start_with_it() -> None:
    environ = {"SPARKSTATE_CLASS_ARCHIVE": "/opt/spark/classes.jsa"}
    conf = jvm.effective_conf(settings(), environ)
    plain = jvm.effective_conf(settings(), {})
    assert conf["spark.driver.extraJavaOptions"].split()[-1] == "-XX:SharedArchiveFile=/opt/spark/classes.jsa"
    assert conf["spark.driver.extraClassPath"] == "/opt/spark/classes.jar"
    assert {key for key in conf if conf[key] != plain.get(key)} == {
        "spark.driver.extraJavaOptions",
        "spark.driver.extraClassPath",
    }
    assert "SharedArchiveFile" not in str(plain)
    assert "spark.driver.extraClassPath" not in plain


def test_a_user_s_archive_of_classes_wins_and_a_user_s_class_path_does_without_ours() -> None:
    environ = {"SPARKSTATE_CLASS_ARCHIVE": "/opt/spark/classes.jsa"}
    theirs = {"spark.driver.extraJavaOptions": "-XX:SharedArchiveFile=/opt/job/mine.jsa"}
    conf = jvm.effective_conf(settings(spark_conf=theirs), environ)
    # The JVM takes the last.
    assert conf["spark.driver.extraJavaOptions"].split()[-1] == "-XX:SharedArchiveFile=/opt/job/mine.jsa"
    theirs = {"spark.driver.extraClassPath": "/opt/job/mine.jar"}
    conf = jvm.effective_conf(settings(spark_conf=theirs), environ)
    assert conf["spark.driver.extraClassPath"] == "/opt/job/mine.jar"
    assert "SharedArchiveFile" not in conf["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("spark.dynamicAllocation.enabled", "true", "executors must not come and go"),
        ("spark.remote", "sc://host", "Spark Connect"),
        ("spark.api.mode", "connect", "Spark Connect"),
        ("spark.python.worker.reuse", "false", "leave it on"),
        ("spark.sql.streaming.offsetLog.formatVersion", "2", "format 1"),
        ("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true", "by their number"),
    ],
)
def test_what_cannot_work_is_refused_with_its_reason(key: str, value: str, reason: str) -> None:
    with pytest.raises(errors.SpecInvalid, match=reason) as refused:
        jvm.effective_conf(settings(spark_conf={key: value}))
    assert key in str(refused.value)


def test_functions_of_the_jobs_file_and_of_modules_beside_it_run_in_workers(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("def triple(value):\n    return 3 * value\n")
    module = types.ModuleType("a_file_that_no_worker_can_import")
    code = "def scaled(value):\n    import beside\n    return beside.triple(value) + OFFSET\nOFFSET = 1\n"
    exec(code, module.__dict__)
    sys.modules[module.__name__] = module
    context = types.SimpleNamespace(environment={"PYTHONPATH": "/before"})
    session.ship(types.SimpleNamespace(sparkContext=context), module, (str(tmp_path),))  # type: ignore[arg-type]
    try:
        shipped = pyspark.cloudpickle.dumps(module.__dict__["scaled"])
    finally:
        pyspark.cloudpickle.unregister_pickle_by_value(module)
        del sys.modules[module.__name__]
    assert context.environment["PYTHONPATH"] == f"{tmp_path}:/before"
    worker = "import pickle, sys; print(pickle.load(sys.stdin.buffer)(4))"
    done = subprocess.run(
        [sys.executable, "-c", worker],
        input=shipped,
        env={**os.environ, **context.environment},
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"13\n"
