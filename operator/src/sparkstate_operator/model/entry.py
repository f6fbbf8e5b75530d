"""Where the job's code is, and pod-shaped parts that Kubernetes itself checks."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

from sparkstate_operator.model.base import ChangeKind, Model, spec_field
from sparkstate_operator.model.values import ObjectName, Quantity, Text
from sparkstate_spec import values

UPGRADE = ChangeKind.UPGRADE


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
    """``metadata`` and ``spec`` of a pod. The fields that the operator sets win; the API server checks the result."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})

    metadata: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None


class Resources(Model):
    """CPU cores and JVM heap of one process."""

    cores: int | None = spec_field(
        "CPU cores. Built-in: {built_in}.", UPGRADE, ge=1, le=1024, path="driver.cores"
    )
    memory: Quantity | None = spec_field(
        "JVM heap, e.g. 1Gi; Spark needs at least 512Mi. The memory of the slots, of the JVM's overhead and of the "
        "Python processes comes on top (see status.memory). Built-in: {built_in}.",
        UPGRADE,
        path="driver.memory",
    )


class LocalStorage(Model):
    """The working volume of a pod, for the slots' stores and Spark's local files. Give one of the three fields."""

    size_limit: Quantity | None = spec_field(
        "Size of an emptyDir, also requested as ephemeral storage; a pod that exceeds it is evicted.", UPGRADE
    )
    volume_claim_template: dict[str, Any] | None = spec_field(
        "Template (metadata and spec) of a PersistentVolumeClaim, for a generic ephemeral volume in each pod.",
        UPGRADE,
    )
    paths: tuple[Text, ...] | None = spec_field(
        "Directories that the pod templates mount, best on different disks; RocksDB's files are spread over all of "
        "them. With deployment local the first one holds the working directory: if its volume outlives the pod, the "
        "next pod finds files there that it would otherwise download.",
        UPGRADE,
        strict=False,
        min_length=1,
        max_length=16,
    )


class S3Address(Model):
    """The address of S3, and the Secret with its keys."""

    endpoint: str | None = spec_field(
        "URL of an S3-compatible server, e.g. http://minio:9000. Built-in: AWS.",
        UPGRADE,
        path="s3.endpoint",
        pattern=values.ENDPOINT,
        max_length=1024,
    )
    region: Text | None = spec_field("Region, e.g. eu-central-1. Built-in: from the default chain.", UPGRADE)
    path_style: bool | None = spec_field(
        "Put the bucket into the URL's path instead of the host name. Built-in: {built_in}.",
        UPGRADE,
        path="s3.pathStyle",
    )
    secret_ref: LocalObjectRef | None = spec_field(
        "Secret with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN if there is one. "
        "Built-in: none, the default credentials chain of serviceAccountName's pods.",
        UPGRADE,
    )


class S3(S3Address):
    """How to reach S3. Credentials come from a Secret by name, otherwise from the process's default chain."""

    access_key: Text | None = spec_field(
        "Refused: keys are never written into a job. Use secretRef.", UPGRADE
    )
    secret_key: Text | None = spec_field(
        "Refused: keys are never written into a job. Use secretRef.", UPGRADE
    )
    session_token: Text | None = spec_field(
        "Refused: keys are never written into a job. Use secretRef.", UPGRADE
    )
