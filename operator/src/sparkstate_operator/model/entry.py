"""Where the job's code is, and pod-shaped parts that Kubernetes itself checks."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

from sparkstate_operator.model.base import ChangeKind, Model, spec_field
from sparkstate_operator.model.values import ObjectName, Quantity, Text
from sparkstate_spec import values

UPGRADE = ChangeKind.UPGRADE
IGNORE = ChangeKind.IGNORE


class LocalObjectRef(Model):
    """The name of an object in the job's namespace."""

    name: ObjectName = spec_field("Name of the object, in the job's namespace.", UPGRADE, default=...)


class ConfigMapKeyRef(Model):
    """A script in a ConfigMap, for development."""

    name: ObjectName = spec_field("Name of the ConfigMap, in the job's namespace.", UPGRADE, default=...)
    key: str | None = spec_field(
        "Key that holds the script. Built-in: {built_in}.",
        UPGRADE,
        pattern=values.KEY,
        max_length=253,
        path="configMapRef.key",
    )


class PodTemplate(Model):
    """``metadata`` and ``spec`` of a pod, merged under what the operator sets; the API server checks the
    result."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})

    metadata: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None


class Resources(Model):
    """CPU cores and JVM heap of one process."""

    cores: int | None = spec_field(
        "CPU cores. Built-in: {built_in}.", UPGRADE, ge=1, le=1024, path="driver.cores"
    )
    memory: Quantity | None = spec_field(
        "JVM heap, e.g. 1Gi; at least 512Mi, which Spark asks for. Memory of slots, the JVM's overhead "
        "and the Python "
        "processes come on top (see status.memory). Built-in: {built_in}.",
        UPGRADE,
        path="driver.memory",
    )


class LocalStorage(Model):
    """The working volume of a pod: slots' stores and Spark's local files. One of the three."""

    size_limit: Quantity | None = spec_field(
        "Size of an emptyDir, also requested as ephemeral storage; a pod above it is evicted.", UPGRADE
    )
    volume_claim_template: dict[str, Any] | None = spec_field(
        "A PersistentVolumeClaim's spec (metadata and spec) for a generic ephemeral volume per pod.",
        UPGRADE,
    )
    paths: tuple[Text, ...] | None = spec_field(
        "Existing directories, best on different disks, mounted by the pod templates; with several, all of "
        "them hold RocksDB's files. With deployment local the first holds the working directory: if its volume "
        "outlives the pod, the next one finds there what it would download.",
        UPGRADE,
        strict=False,
        min_length=1,
        max_length=16,
    )


class S3Address(Model):
    """Where S3 is and which Secret opens it."""

    endpoint: str | None = spec_field(
        "URL of an S3-compatible server, e.g. http://minio:9000. Built-in: AWS.",
        UPGRADE,
        path="s3.endpoint",
        pattern=values.ENDPOINT,
        max_length=1024,
    )
    region: Text | None = spec_field("Region, e.g. eu-central-1. Built-in: from the default chain.", UPGRADE)
    path_style: bool | None = spec_field(
        "Put the bucket into the path, not into the host name. Built-in: {built_in}.",
        UPGRADE,
        path="s3.pathStyle",
    )
    secret_ref: LocalObjectRef | None = spec_field(
        "Secret with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN too, if "
        "there is one). "
        "Built-in: none, the default chain of serviceAccountName's pod.",
        UPGRADE,
    )


class S3(S3Address):
    """How S3 is reached. Credentials: a Secret by name, else the process's default chain."""

    access_key: Text | None = spec_field(
        "Refused: keys are never written into a job. Use secretRef.", UPGRADE
    )
    secret_key: Text | None = spec_field(
        "Refused: keys are never written into a job. Use secretRef.", UPGRADE
    )
    session_token: Text | None = spec_field(
        "Refused: keys are never written into a job. Use secretRef.", UPGRADE
    )
