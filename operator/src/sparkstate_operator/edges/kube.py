"""The Kubernetes API as a few verbs over plain data. This is the only importer of ``kubernetes``.

The operator uses the library's transport, configuration and token refresh, but not its typed models: these would load
every API group, and memory is a budget. No call retries by itself: the queue does, after a new look.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes.aio import config as kube_config
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from sparkstate_operator import errors

Object = dict[str, Any]
FIELD_MANAGER = "sparkstate-operator"
REQUEST_TIMEOUT_S = 15.0
PAGE = 500
SHOWN = 200
"""Bytes of an unreadable answer that its error shows."""
JSON = "application/json"
META_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
META_OF_ONE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_WEBHOOK = re.compile(r'admission webhook ".*" denied the request|failed calling webhook')
"""Such an answer has whatever status the webhook chose, or 500, so the message has to tell. Admission comes before any
write, so nothing was made."""


@dataclass(frozen=True)
class Kind:
    """A resource: where it is and what it is called."""

    api: str
    kind: str
    plural: str

    @property
    def api_version(self) -> str:
        """As documents spell it: ``v1``, ``apps/v1``."""
        return self.api.removeprefix("apis/").removeprefix("api/")

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """The URL's path; without a name that of the list."""
        parts = [self.api, *(("namespaces", namespace) if namespace else ()), self.plural, name, subresource]
        return "/" + "/".join(part for part in parts if part)


PODS = Kind("api/v1", "Pod", "pods")
SERVICES = Kind("api/v1", "Service", "services")
CONFIG_MAPS = Kind("api/v1", "ConfigMap", "configmaps")
SECRETS = Kind("api/v1", "Secret", "secrets")
SERVICE_ACCOUNTS = Kind("api/v1", "ServiceAccount", "serviceaccounts")
EVENTS = Kind("api/v1", "Event", "events")
NAMESPACES = Kind("api/v1", "Namespace", "namespaces")
RESOURCE_QUOTAS = Kind("api/v1", "ResourceQuota", "resourcequotas")
ROLES = Kind("apis/rbac.authorization.k8s.io/v1", "Role", "roles")
CLUSTER_ROLES = Kind("apis/rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles")
ROLE_BINDINGS = Kind("apis/rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
REVISIONS = Kind("apis/apps/v1", "ControllerRevision", "controllerrevisions")
COMMANDS = Kind("apis/batch/v1", "Job", "jobs")
LEASES = Kind("apis/coordination.k8s.io/v1", "Lease", "leases")
JOBS = Kind("apis/sparkstate.io/v1alpha1", "StatefulSparkJob", "statefulsparkjobs")
SNAPSHOTS = Kind("apis/sparkstate.io/v1alpha1", "StateSnapshot", "statesnapshots")


class Kube:
    """A client. ``before_write`` is called before each request that changes something, and may end the process (one
    that has lost its Lease writes nothing); ``count`` gets verb, plural and status of every request."""

    def __init__(
        self,
        client: ApiClient,
        before_write: Callable[[], None] = lambda: None,
        count: Callable[[str, str, int], None] = lambda verb, plural, status: None,
    ) -> None:
        self._client = client
        self._before_write = before_write
        self._count = count

    @classmethod
    async def connect(
        cls,
        kubeconfig: str | None = None,
        before_write: Callable[[], None] = lambda: None,
        count: Callable[[str, str, int], None] = lambda verb, plural, status: None,
    ) -> Kube:
        """By a kubeconfig file, or as a pod by its ServiceAccount."""
        configuration = Configuration()
        if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            kube_config.load_incluster_config(client_configuration=configuration)
        else:
            await kube_config.load_kube_config(config_file=kubeconfig, client_configuration=configuration)
        # The library would put a retrying layer around its session, and repeat a request without a new look.
        configuration.retries = None
        # With True, aiohttp looks into the environment, and into a ~/.netrc in another thread, for each request: 6 % of
        # the operator's work among 5,000 jobs. So the proxy is found once, below.
        configuration.client_session_kwargs = {"trust_env": False}
        configuration.proxy = configuration.proxy or proxy_of(configuration.host)
        # Python 3.13 refuses authorities that kubectl takes: those without a key identifier, or with one for uses that
        # are not critical.
        configuration.disable_strict_ssl_verification = True
        return cls(ApiClient(configuration), before_write, count)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        """The object as it is now, None if there is none."""
        try:
            return await self._request("get", "GET", kind, kind.path(namespace, name))
        except errors.NotFound:
            return None

    async def list(
        self, kind: Kind, namespace: str | None, selector: str = "", *, fields: str = ""
    ) -> list[Object]:
        """All objects that the selectors of labels and of fields take, without managed fields. In pages only if there
        is no selector: the selected objects belong to one job and are few. Before Kubernetes 1.34 the API server reads
        a page past its watch cache, and goes through all objects of the namespace for it."""
        limit = 0 if selector or fields else PAGE
        return [item async for item in self.each(kind, namespace, selector, fields=fields, limit=limit)]

    async def each(
        self,
        kind: Kind,
        namespace: str | None,
        selector: str = "",
        *,
        fields: str = "",
        limit: int = PAGE,
        meta: bool = False,
    ) -> AsyncIterator[Object]:
        """The same one by one, with no more than ``limit`` of them in memory; ``meta``: their metadata alone."""
        token = ""
        while True:
            query = {
                "labelSelector": selector,
                "fieldSelector": fields,
                "limit": str(limit) if limit else "",
                "continue": token,
            }
            accept = META_ONLY if meta else JSON
            page = await self._request("list", "GET", kind, kind.path(namespace), query=query, accept=accept)
            for item in page.get("items") or ():
                yield _trimmed(item)
            token = page["metadata"].get("continue", "")
            if not token:
                return

    async def served(self, api: str) -> frozenset[str]:
        """Plurals of the resources that the API server serves under ``api``, the path of a group's version; none where
        it does not know that group, or where something else answers."""
        try:
            found = await self._request("get", "GET", Kind(api, "APIResourceList", "resources"), f"/{api}")
        except errors.ApiError as error:
            if error.status != 404:
                raise
            return frozenset()
        if found.get("kind") != "APIResourceList":
            return frozenset()
        return frozenset(str(one["name"]) for one in found.get("resources") or ())

    async def create(self, kind: Kind, namespace: str, body: Object, *, dry_run: bool = False) -> Object:
        """Create. Raises ``AlreadyExists``."""
        query = {"fieldManager": FIELD_MANAGER, "dryRun": "All" if dry_run else ""}
        return await self._write("create", "POST", kind, kind.path(namespace), body=body, query=query)

    async def apply(self, kind: Kind, namespace: str, body: Object) -> Object:
        """Server-side apply: our fields as in ``body``, others' as they are."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        path = kind.path(namespace, body["metadata"]["name"])
        return await self._write(
            "patch", "PATCH", kind, path, body=body, query=query, content="application/apply-patch+yaml"
        )

    async def merge(
        self, kind: Kind, namespace: str, name: str, body: Object, *, subresource: str = ""
    ) -> Object:
        """Merge patch; with ``metadata.resourceVersion`` inside it is a compare-and-set."""
        path = kind.path(namespace, name, subresource)
        return await self._write(
            "patch", "PATCH", kind, path, body=body, content="application/merge-patch+json"
        )

    async def replace(
        self, kind: Kind, namespace: str, body: Object, *, subresource: str = "", meta: bool = False
    ) -> Object:
        """Put the object; its ``metadata.resourceVersion`` makes it a compare-and-set.
        ``meta``: answered with its metadata alone."""
        path = kind.path(namespace, body["metadata"]["name"], subresource)
        accept = META_OF_ONE if meta else JSON
        return await self._write("update", "PUT", kind, path, body=body, accept=accept)

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> bool:
        """Delete this same object; False if it is gone already. Raises ``Conflict`` if it is another one now.

        Without ``uid`` only for objects whose name holds their owner's uid (Secrets, which are never read).
        """
        given = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {name: value for name, value in given.items() if value is not None}
        body: Object = {"propagationPolicy": "Background"}
        if preconditions:
            body["preconditions"] = preconditions
        try:
            await self._write("delete", "DELETE", kind, kind.path(namespace, name), body=body)
        except errors.NotFound:
            return False
        return True

    async def _write(self, verb: str, method: str, kind: Kind, path: str, **rest: Any) -> Object:
        self._before_write()
        return await self._request(verb, method, kind, path, **rest)

    async def _request(
        self,
        verb: str,
        method: str,
        kind: Kind,
        path: str,
        *,
        body: Object | None = None,
        query: Mapping[str, str] | None = None,
        content: str = JSON,
        accept: str = JSON,
    ) -> Object:
        headers = {"Accept": accept, "Content-Type": content, "User-Agent": FIELD_MANAGER}
        await self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        given = {key: value for key, value in (query or {}).items() if value}
        url = self._client.configuration.host + path + (f"?{urlencode(given)}" if given else "")
        try:
            response = await self._client.rest_client.request(
                method, url, headers=headers, body=body, _request_timeout=REQUEST_TIMEOUT_S
            )
            data = await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            self._count(verb, kind.plural, 0)
            raise errors.ApiError(0, f"{verb} {path}: no answer ({type(error).__name__}: {error})") from error
        self._count(verb, kind.plural, response.status)
        document, retry_after = _document(data, response.status), response.headers.get("Retry-After")
        if document is None:
            raise _unreadable(response.status, verb, path, data, retry_after)
        if response.status >= 400:
            raise _error(response.status, verb, path, document, retry_after)
        return _trimmed(document)


def proxy_of(server: str) -> str | None:
    """The proxy that the environment names for this address, as for any other client."""
    address, proxies = urlsplit(server), getproxies()
    if address.hostname is None or proxy_bypass(address.hostname):
        return None
    return None if _is_in_ranges(address.hostname, proxies.get("no", "")) else proxies.get(address.scheme)


def _is_in_ranges(host: str, exceptions: str) -> bool:
    """Whether ``no_proxy`` has a range with this address (``10.0.0.0/8``), which Python does not know, and Go does."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    for entry in exceptions.split(","):
        with contextlib.suppress(ValueError):
            if address in ipaddress.ip_network(entry.strip(), strict=False):
                return True
    return False


def _trimmed(document: Object) -> Object:
    """Without managedFields, which are half of an object's bytes and mean nothing here."""
    document.get("metadata", {}).pop("managedFields", None)
    return document


def _document(data: bytes, status: int) -> Object | None:
    """The JSON object in an answer, and in a refusal only a ``Status``; None for any other answer. A proxy answers with
    text, HTML or JSON of its own. The API server itself answers with text where it turns a request away (429), or where
    it knows no such resource."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or (status >= 400 and found.get("kind") != "Status"):
        return None
    return found


def _unreadable(status: int, verb: str, path: str, data: bytes, retry_after: str | None) -> errors.ApiError:
    """The error for an answer that the API server gives of no object. Of the statuses only 429 keeps its meaning.

    Any other answer may come from a program between the operator and the API server, and tells nothing of an object.
    Taken for ``NotFound``, the 404 of a proxy would say that a job is gone, or that no operator holds the Lease.
    """
    text = data[:SHOWN].decode(errors="replace").strip()
    wanted = "Status of the API server" if status >= 400 else "JSON object"
    message = f"{verb} {path}: the answer is not a {wanted}: {text!r} ({status})"
    delay_s = _delay_s(retry_after)
    if status == 429:
        return errors.Refused(status, message, delay_s)
    return errors.ApiError(status if status >= 400 else 0, message, delay_s)


def _delay_s(retry_after: str | None) -> float | None:
    """The seconds of the header; None where it is missing or gives a date."""
    return float(retry_after) if retry_after and retry_after.isdecimal() else None


def _error(status: int, verb: str, path: str, document: Object, retry_after: str | None) -> errors.ApiError:
    message = f"{verb} {path}: {document.get('message', 'no message')} ({status})"
    delay = _delay_s(retry_after)
    if status == 429 or _WEBHOOK.search(message):
        return errors.Refused(status, message, delay)
    if status == 404:
        return errors.NotFound(status, message)
    if status == 409:
        exists = document.get("reason") == "AlreadyExists"
        return (errors.AlreadyExists if exists else errors.Conflict)(status, message)
    if status == 403:
        return errors.Forbidden(status, message)
    if status in (400, 413, 422):
        return errors.Invalid(status, message)
    return errors.ApiError(status, message, delay)
