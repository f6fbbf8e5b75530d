"""The entry of executor pods, from the variables that Spark's Kubernetes backend sets."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "packaging" / "executor.py"
POD = {
    "JAVA_HOME": "/opt/java",
    "SPARK_HOME": "/opt/spark",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.1.0.4:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1024m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.1.0.9",
    "SPARK_EXECUTOR_POD_NAME": "job-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


def command(environ: dict[str, str]) -> list[str]:
    spec = importlib.util.spec_from_file_location("executor_entry", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.command(environ)


def test_options_of_the_jvm_come_in_the_order_of_their_numbers_and_whole() -> None:
    options = {f"SPARK_JAVA_OPT_{i}": f"-Dn={i} with spaces=and 'quotes'" for i in (10, 2, 0)}
    words = command({**POD, **options, "SPARK_JAVA_OPTS_FILE": "no option"})
    assert words[1:4] == [f"-Dn={i} with spaces=and 'quotes'" for i in (0, 2, 10)]
    assert "no option" not in words


def test_the_executor_knows_that_it_may_read_the_shared_secret_from_its_file() -> None:
    words = command({**POD, "SPARK_JAVA_OPT_0": "-Dspark.authenticate.secret.file=/etc/token"})
    assert any(word.startswith("-Dspark.master=k8s://") for word in words[: words.index("-cp")])


def test_the_executor_is_told_who_it_is_and_who_drives_it() -> None:
    words = command(POD)
    main = words.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend")
    told = dict(zip(words[main + 1 :: 2], words[main + 2 :: 2], strict=True))
    assert told == {
        "--driver-url": POD["SPARK_DRIVER_URL"],
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.1.0.9",
        "--resourceProfileId": "0",
        "--podName": "job-exec-3",
    }


def test_the_heap_is_fixed_and_classes_come_from_spark_s_folder_and_the_user_s() -> None:
    words = command({**POD, "SPARK_CLASSPATH": "/opt/job/jars/*"})
    assert "-Xms1024m" in words
    assert "-Xmx1024m" in words
    assert words[words.index("-cp") + 1] == "/opt/spark/conf:/opt/spark/jars/*:/opt/job/jars/*"


def test_an_image_s_archive_of_classes_comes_with_the_jar_that_orders_the_others_before_all_else() -> None:
    words = command(
        {
            **POD,
            "SPARKSTATE_CLASS_ARCHIVE": "/opt/spark/classes.jsa",
            "SPARK_CLASSPATH": "/opt/job/jars/*",
            "SPARK_JAVA_OPT_0": "-XX:SharedArchiveFile=/opt/job/mine.jsa",
        }
    )
    archives = [word for word in words if word.startswith("-XX:SharedArchiveFile=")]
    # The JVM takes the last: the user's.
    assert archives == [
        "-XX:SharedArchiveFile=/opt/spark/classes.jsa",
        "-XX:SharedArchiveFile=/opt/job/mine.jsa",
    ]
    path = words[words.index("-cp") + 1].split(":")
    assert path == ["/opt/spark/classes.jar", "/opt/spark/conf", "/opt/spark/jars/*", "/opt/job/jars/*"]


@pytest.mark.parametrize("missing", sorted(POD))
def test_a_missing_variable_is_named(missing: str) -> None:
    environ = {name: value for name, value in POD.items() if name != missing}
    done = subprocess.run(
        [sys.executable, "-I", str(SCRIPT)], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"{missing} is not set")


def test_the_process_becomes_the_jvm(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\necho "$$ $*"\n')
    java.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-I", str(SCRIPT)],
        env={**POD, "JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        text=True,
    )
    told, _ = process.communicate(timeout=30)
    assert told.startswith(f"{process.pid} -Dspark.master=k8s://driver -Xms1024m ")


def test_every_variable_is_one_that_this_version_of_spark_sets() -> None:
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as classes:
        known = b"".join(classes.read(name) for name in classes.namelist() if name.endswith(".class"))
    for variable in (set(POD) - {"JAVA_HOME", "SPARK_HOME"}) | {"SPARK_JAVA_OPT_"}:
        assert variable.encode() in known, variable
