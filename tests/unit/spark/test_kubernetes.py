"""Spark's settings for executor pods."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest

from sparkstate import errors, settings
from sparkstate.settings import MIB
from sparkstate.spark import jvm, kubernetes

POD = settings.PodSettings(name="job-driver-2", namespace="shop", ip="10.1.0.9", job_uid="u", attempt=2)
JOB = settings.JobSettings(
    name="job",
    entry=settings.EntryPoint(python_file="/opt/job/main.py"),
    deployment="cluster",
    slots=5,
    slots_per_executor=2,
    backend=settings.StateBackendSettings(type="rocksdb", managed_memory_bytes=100 * MIB),
    spark_conf={"spark.executor.cores": "2", "spark.executor.memory": "1000m"},
    pod=POD,
    work_dir="/var/lib/sparkstate",
)
API = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


def conf(job: settings.JobSettings = JOB, life: int = 1) -> dict[str, str]:
    assert job.pod is not None
    return jvm.effective_conf(job, API) | kubernetes.of_life(job, job.pod, life)


def test_executors_find_the_driver_by_its_pod_s_address() -> None:
    found = conf()
    assert found["spark.master"] == "k8s://https://10.0.0.1:6443"
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "10.1.0.9"
    assert found["spark.kubernetes.namespace"] == "shop"


def test_spark_is_not_told_the_driver_s_pod_where_the_template_says_whose_the_executors_are() -> None:
    named, template = "spark.kubernetes.driver.pod.name", "spark.kubernetes.executor.podTemplateFile"
    assert conf()[named] == "job-driver-2"  # an operator that does not say the pod's uid
    known = replace(JOB, pod=replace(POD, uid="u-2"))
    assert named not in conf(known)
    for key in (named, template):
        theirs = replace(known, spark_conf={**JOB.spark_conf, key: "theirs"})
        assert conf(theirs)[key] == "theirs"
        assert conf(theirs)[named] == ("theirs" if key == named else "job-driver-2")


def test_a_template_s_executors_go_with_the_driver_s_pod() -> None:
    given = {"metadata": {"labels": {"a": "b"}, "ownerReferences": [{"uid": "theirs"}]}, "spec": {}}
    made = json.loads(kubernetes.owned(json.dumps(given), replace(POD, uid="u-2")))
    theirs, ours = made["metadata"].pop("ownerReferences")
    assert theirs == {"uid": "theirs"}
    assert ours == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "job-driver-2",
        "uid": "u-2",
        "controller": True,
    }
    assert made == {"metadata": {"labels": {"a": "b"}}, "spec": {}}


def test_executors_say_which_life_of_the_driver_made_them() -> None:
    assert conf()["spark.kubernetes.executor.label.sparkstate.io/life"] == "1"
    assert conf(life=3)["spark.kubernetes.executor.label.sparkstate.io/life"] == "3"


def test_a_prefix_of_the_user_s_own_stays() -> None:
    key = "spark.kubernetes.executor.podNamePrefix"
    assert conf(replace(JOB, spark_conf={**JOB.spark_conf, key: "theirs"}), life=3)[key] == "theirs"


def test_ipv6_addresses_are_in_brackets_where_a_port_follows() -> None:
    found = jvm.effective_conf(
        replace(JOB, pod=replace(POD, ip="fd00::9")), {"KUBERNETES_SERVICE_HOST": "fd00::1"}
    )
    assert found["spark.master"] == "k8s://https://[fd00::1]:443"
    assert found["spark.driver.host"] == "[fd00::9]"
    assert found["spark.driver.bindAddress"] == "[fd00::9]"


def test_there_are_as_many_executors_as_slots_need() -> None:
    assert conf()["spark.executor.instances"] == "3"
    assert conf(replace(JOB, slots=4))["spark.executor.instances"] == "2"


def test_memory_beside_the_heap_holds_the_jvm_s_overhead_the_workers_and_the_slots() -> None:
    assert conf()["spark.executor.memoryOverhead"] == f"{384 + 2 * 128 + 2 * (100 + 192)}m"


def test_an_overhead_that_the_user_names_is_the_jvm_s_and_the_slots_come_on_top() -> None:
    job = replace(JOB, spark_conf={**JOB.spark_conf, "spark.executor.memoryOverhead": "500m"})
    assert conf(job)["spark.executor.memoryOverhead"] == f"{500 + 2 * 128 + 2 * (100 + 192)}m"


@pytest.mark.parametrize(
    ("name", "attempt", "life", "prefix"),
    [
        ("job", 2, 1, "job-2"),
        ("job", 2, 3, "job-2-3"),
        ("j" * 40, 999_999, 1, "j" * 40 + "-999999"),
        ("j" * 40, 999_999, 12, "j" * 37 + "-999999-12"),
        ("a." * 20, 123_456, 9, "a." * 18 + "a" + "-123456-9"),
    ],
)
def test_executors_are_named_by_attempt_and_life_within_spark_s_limit(
    name: str, attempt: int, life: int, prefix: str
) -> None:
    assert kubernetes.executor_prefix(name, attempt, life) == prefix
    assert len(prefix) <= 47


def test_a_cluster_job_outside_of_a_pod_is_refused_with_the_way_out() -> None:
    with pytest.raises(errors.SpecInvalid, match="--in-cluster"):
        jvm.effective_conf(replace(JOB, pod=None), API)
    with pytest.raises(errors.SpecInvalid, match="deployment: local"):
        jvm.effective_conf(JOB, {})


def test_a_local_job_in_a_pod_knows_nothing_of_kubernetes() -> None:
    found = jvm.effective_conf(replace(JOB, deployment="local", spark_conf={}), API)
    assert found["spark.master"].startswith("local[")
    assert not [name for name in found if name.startswith("spark.kubernetes")]


def test_every_setting_is_one_that_this_version_of_spark_knows() -> None:
    settings_live_in = re.compile(r"(onfig|/package|KubernetesClusterManager|SecurityManager).*[.]class$")
    known = b""
    for jar in (Path(pyspark.__file__).parent / "jars").glob("spark-*.jar"):
        if jar.name.startswith(("spark-core_", "spark-kubernetes_")):
            with zipfile.ZipFile(jar) as classes:
                known += b"".join(
                    classes.read(name) for name in classes.namelist() if settings_live_in.search(name)
                )
    for name in kubernetes.conf(JOB, POD, "k8s://api", MIB, "/secret") | kubernetes.of_life(JOB, POD, 1):
        # Spark puts the two of authentication together from a prefix and the last word.
        word = name.rpartition(".")[2] if ".kubernetes.authenticate." in name else name
        word = word.removesuffix(kubernetes.LIFE)  # what a label is called is ours
        assert word.encode() in known, name
