"""Spark's settings for a driver pod with executor pods: client mode on Spark's Kubernetes backend.

Pure: settings in, a configuration out. Executor pods come from the template that the operator mounts, so labels
(except the life's), volumes, credentials and security context are not here. Settings on which Spark insists are here:
image, memory, cores.
"""

from __future__ import annotations

import json
import math
from typing import Final

from sparkstate import errors
from sparkstate.settings import MIB, JobSettings, PodSettings

SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
TEMPLATE: Final = "/etc/sparkstate/job/executor.yaml"
TEMPLATE_FILE: Final = "spark.kubernetes.executor.podTemplateFile"
DRIVER_POD: Final = "spark.kubernetes.driver.pod.name"
CONTAINER: Final = "executor"
LIFE: Final = "sparkstate.io/life"
"""The label that tells the executors of one life of an attempt from those of another: a killed process is followed by
another in the same pod, and the executors of the former one stayed, with their memory if they hung."""
INSTANCES: Final = "spark.executor.instances"
DRIVER_PORT: Final = 7078
BLOCK_MANAGER_PORT: Final = 7079
_PREFIX_LIMIT: Final = 47
"""Spark adds ``-exec-<number>`` and keeps the sum below 63."""
_FAILURES: Final = 1000
"""Spark's own default ends the application after twice the number of executors; ours are replaced, and the job's
restart strategy decides."""


def executor_prefix(name: str, attempt: int, life: int) -> str:
    """The executors' names begin with this; another life of an attempt must not meet the pods of the one before."""
    tail = f"-{attempt}" if life <= 1 else f"-{attempt}-{life}"
    return name[: _PREFIX_LIMIT - len(tail)].rstrip("-.") + tail


def master(service_host: str, service_port: str) -> str:
    """The API server's address; IPv6 in brackets."""
    if not service_host:
        raise errors.SpecInvalid(
            "KUBERNETES_SERVICE_HOST is not set: deployment: cluster runs in a pod only; elsewhere use "
            "deployment: local"
        )
    host = f"[{service_host}]" if ":" in service_host else service_host
    return f"k8s://https://{host}:{service_port}"


def conf(
    settings: JobSettings, pod: PodSettings, api: str, non_heap_bytes: int, secret_file: str
) -> dict[str, str]:
    """The settings that ``deployment: cluster`` adds.

    ``non_heap_bytes``: an executor pod's memory beside the JVM's heap. ``secret_file``: the file of the secret that
    driver and executors prove themselves to each other with.

    The number of the attempt's life is known later: :func:`of_life`.
    """
    host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
    found = {
        "spark.master": api,
        "spark.driver.host": host,
        # In brackets too: where executors use the driver's address (spark.kubernetes.executor.useDriverPodIP, the
        # default), Spark 4.1 puts it in the place of spark.driver.host, and refuses an IPv6 address without them.
        "spark.driver.bindAddress": host,
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(BLOCK_MANAGER_PORT),
        INSTANCES: str(settings.executors),
        "spark.executor.memoryOverhead": f"{math.ceil(non_heap_bytes / MIB)}m",
        "spark.executor.maxNumFailures": str(_FAILURES),
        # The job declares itself while executors start; slots wait for them (slotlaunch.launch).
        "spark.scheduler.minRegisteredResourcesRatio": "0.0",
        "spark.kubernetes.namespace": pod.namespace,
        "spark.kubernetes.authenticate.oauthTokenFile": f"{SERVICE_ACCOUNT}/token",
        "spark.kubernetes.authenticate.caCertFile": f"{SERVICE_ACCOUNT}/ca.crt",
        TEMPLATE_FILE: TEMPLATE,
        "spark.kubernetes.executor.podTemplateContainerName": CONTAINER,
        # Otherwise Spark would write a secret of its own into the executors' pod specs.
        "spark.authenticate.secret.file": secret_file,
        # Fewer rights for the driver: it creates pods and nothing else.
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
    }
    return found if owns_by_template(settings, pod) else {**found, DRIVER_POD: pod.name}


def owns_by_template(settings: JobSettings, pod: PodSettings) -> bool:
    """Whether the template says whose the executors are. Spark says it where it knows the driver's pod, but then also
    waits a second for that pod to be ready before it asks for the first executor.
    The pod is ready only when the job runs."""
    return bool(pod.uid) and not {TEMPLATE_FILE, DRIVER_POD} & settings.spark_conf.keys()


def owned(template: str, pod: PodSettings) -> str:
    """The operator's template (JSON) for executors that are the driver's pod's: Kubernetes removes them with it."""
    document = json.loads(template)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    document["metadata"].setdefault("ownerReferences", []).append(owner)
    return json.dumps(document)


def of_life(settings: JobSettings, pod: PodSettings, life: int, template: str = TEMPLATE) -> dict[str, str]:
    """Settings for the executors of this life of the attempt, made from the file ``template``.
    The user's own settings stay."""
    ours = {
        INSTANCES: str(settings.executors),
        TEMPLATE_FILE: template,
        "spark.kubernetes.executor.podNamePrefix": executor_prefix(settings.name, pod.attempt, life),
        f"spark.kubernetes.executor.label.{LIFE}": str(life),
    }
    return {key: value for key, value in ours.items() if key not in settings.spark_conf}
