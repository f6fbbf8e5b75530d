"""Which parts of the job's own pod template the pods of engine commands take over: where they may run, and what opens
the job's storage.

A command reads and deletes the job's data, so it needs what the driver has for that: pull secrets, tolerations, node
selector, affinity, security context, credentials, and the volumes that hold the data. It does not take over rules that
spread drivers (anti-affinity), nor volumes without data of the job: a claim that only one node may mount would keep the
command from running beside the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from sparkstate_operator.core import templates
from sparkstate_operator.core.settings import Resolved

CONTAINER = "command"
_OF_POD = (
    "nodeSelector", "tolerations", "schedulerName", "priorityClassName", "runtimeClassName", "securityContext",
    "imagePullSecrets", "dnsPolicy", "dnsConfig", "hostAliases",
)  # fmt: skip
_OF_CONTAINER = ("envFrom", "securityContext")
_LIMITS = ("cpu", "ephemeral-storage")
"""A quota of limits refuses pods without them. A command's memory is its own."""
_OPERATORS = "sparkstate.io/"
"""Keys that the operator finds its objects by."""
_SMALL = ("configMap", "secret", "projected", "downwardAPI")
"""Volumes that any number of pods may mount: credentials, certificates."""
_PLAIN = frozenset(
    {"AWS_CA_BUNDLE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_PROFILE",
     "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_ENDPOINT_URL",
     "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_STS", "AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT",
     "AWS_STS_REGIONAL_ENDPOINTS", "AWS_EC2_METADATA_DISABLED", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy",
     "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
)  # fmt: skip
"""Variables whose plain value is taken over. Others may hold anything, so they are taken over only as references."""

Object = dict[str, Any]


def of_job(resolved: Resolved, urls: Iterable[str | None]) -> Object:
    """The pod template of commands about the data at ``urls``; empty where the job asks for nothing of it."""
    template = templates.of(resolved, "driver")
    theirs: Mapping[str, Any] = template.get("spec", {})
    spec: Object = {name: theirs[name] for name in _OF_POD if theirs.get(name)}
    if secrets := resolved.get("imagePullSecrets"):
        named = [dict(one) for one in secrets]
        others = [one for one in spec.get("imagePullSecrets", ()) if one not in named]
        spec["imagePullSecrets"] = [*others, *named]
    affinity = theirs.get("affinity")
    if isinstance(affinity, Mapping) and (near := set(affinity) - {"podAntiAffinity"}):
        spec["affinity"] = {name: affinity[name] for name in affinity if name in near}
    containers: list[Object] = theirs.get("containers", [])
    driver = next((one for one in containers if one.get("name") == "driver"), {})
    container = {name: driver[name] for name in _OF_CONTAINER if driver.get(name)}
    limits = (driver.get("resources") or {}).get("limits") or {}
    if kept := {name: limits[name] for name in _LIMITS if name in limits}:
        container["resources"] = {"limits": kept}
    if environment := [one for one in driver.get("env", ()) if "valueFrom" in one or one["name"] in _PLAIN]:
        container["env"] = environment
    volumes, mounts = _volumes(theirs, driver, [path for url in urls for path in _path(url)])
    if mounts:
        spec["volumes"], container["volumeMounts"] = volumes, mounts
    if container:
        spec["containers"] = [{"name": CONTAINER, **container}]
    metadata = _metadata(template.get("metadata") or {})
    return {**({"metadata": metadata} if metadata else {}), **({"spec": spec} if spec else {})}


def _metadata(theirs: Mapping[str, Any]) -> Object:
    """Labels and annotations that policies and meshes ask for, without those of the operator's own."""
    kept = {
        name: {key: text for key, text in (theirs.get(name) or {}).items() if not key.startswith(_OPERATORS)}
        for name in ("labels", "annotations")
    }
    return {name: found for name, found in kept.items() if found}


def urls_of(resolved: Resolved) -> tuple[str | None, ...]:
    """Where the job's checkpoints and savepoints lie."""
    return resolved.get("checkpointing.storage"), resolved.get("savepoints.storage")


def _path(url: str | None) -> Iterator[str]:
    if url and url.startswith("file://"):
        yield unquote("/" + url.removeprefix("file://").partition("/")[2]).rstrip("/")
    elif url and url.startswith("/"):
        yield url.rstrip("/")


def _volumes(
    spec: Mapping[str, Any], driver: Mapping[str, Any], paths: list[str]
) -> tuple[list[Object], list[Object]]:
    by_name = {one["name"]: one for one in spec.get("volumes", ())}
    mounts = [
        mount
        for mount in driver.get("volumeMounts", ())
        if (volume := by_name.get(mount.get("name"))) is not None
        and "emptyDir" not in volume
        and (
            any(kind in volume for kind in _SMALL) or any(_holds(mount["mountPath"], path) for path in paths)
        )
    ]
    wanted = {mount["name"] for mount in mounts}
    return [volume for name, volume in by_name.items() if name in wanted], mounts


def _holds(mount: str, path: str) -> bool:
    """Whether what is mounted there holds the data, or part of it."""
    above = mount.rstrip("/")
    return path == above or path.startswith(f"{above}/") or above.startswith(f"{path}/")
