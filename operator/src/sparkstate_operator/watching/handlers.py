"""The watches. This is the only importer of kopf, which only watches here: every handler puts a key into our queue.

There are no timers, no daemons, and no create/update/delete handlers, so that kopf writes no annotation, finalizer,
status or Event of its own. We have a queue of our own because kopf's ran three handlers of one object at once in a
trial, and drops an event whose handler failed.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
import kopf

from sparkstate_operator import custom_resources, errors, labels, managing
from sparkstate_operator.edges import kube as k
from sparkstate_operator.memories import Key
from sparkstate_operator.watching.watches import Watches

WATCHER = "watcher for "
"""The names of kopf's tasks that watch begin with it."""
BEGINS_S = 60.0
"""Every kind is asked for within this time, unless the API server did not tell kopf of it. Before that, kopf sends a
few requests in a row, which may last as long as a list (``LIST_S``) each."""
ENDS_S = 15.0
CANCEL_AGAIN_S = 3.0


class Enqueue(Protocol):
    """Takes a key with the version of the object that the event is about; empty: the event is about another one."""

    def __call__(self, key: Key, version: str = "") -> None: ...


@dataclass(frozen=True)
class Listeners:
    """The functions that hear of what the watches see."""

    enqueue: Enqueue
    saw_pod: Callable[[Key, Mapping[str, Any]], bool]
    """Of each pod; says whether that is news."""
    listed_snapshot: Callable[[Key, Mapping[str, Any]], bool]
    """Of each snapshot in the list that a watch begins with, with its job; says whether that is news to it."""


GROUP, VERSION = "sparkstate.io", "v1alpha1"
WATCH_SERVER_S, WATCH_CLIENT_S = 240, 300
"""Whole numbers: kopf writes the first one into the URL as it is, and ``timeoutSeconds`` of the API is an integer."""
SILENT_S = 70.0
"""Of a watch. The API server sends a bookmark every minute where nothing happens."""
LIST_S = 30.0
CONNECT_S = 10.0
LONGEST_PAUSE_S = 30.0
KINDS = (k.JOBS, k.SNAPSHOTS, k.PODS, k.COMMANDS)
"""The kinds that are watched."""
OURS = {labels.MANAGED_BY: labels.OPERATOR}
"""Labels of the commands among a namespace's Jobs."""


def registry(
    heard: Listeners,
    kubeconfig: str | None,
    watches: Watches,
    operator_class: str = "",
) -> kopf.OperatorRegistry:
    """Handlers that only enqueue. ``watches`` is told how the watches fare. Of jobs, those of ``operator_class``
    alone are watched."""
    enqueue, saw_pod = heard.enqueue, heard.saw_pod
    found = kopf.OperatorRegistry()

    @kopf.on.startup(registry=found)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        _configure(settings, operator_class)

    @kopf.on.login(registry=found)
    async def login(**rest: Any) -> kopf.AiohttpSession | None:
        if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            info = kopf.login_with_service_account(**rest)
            server = service_address(os.environ)
        else:
            if kubeconfig is not None:
                os.environ["KUBECONFIG"] = kubeconfig
            info, server = kopf.login_with_kubeconfig(**rest), None
        return _traced(info, server, watches) if info is not None else None

    @kopf.on.event(GROUP, VERSION, k.JOBS.plural, registry=found)  # type: ignore[arg-type]
    async def job_event(namespace: str, name: str, meta: Mapping[str, Any], **_: Any) -> None:
        enqueue(Key("job", namespace, name), str(meta.get("resourceVersion") or ""))

    @kopf.on.event(GROUP, VERSION, k.SNAPSHOTS.plural, registry=found)  # type: ignore[arg-type]
    async def snapshot_event(
        namespace: str, name: str, body: Mapping[str, Any], event: Mapping[str, Any], **_: Any
    ) -> None:
        if event["type"] == "DELETED" or not _settled(body):
            enqueue(Key("snapshot", namespace, name))
        told = custom_resources.told(body.get("spec") or {}, "jobRef.name")
        job = body["metadata"].get("labels", {}).get(labels.JOB) or told
        key = Key("job", namespace, job or "")
        if job and (event["type"] is not None or heard.listed_snapshot(key, body)):
            enqueue(key)

    @kopf.on.event("", "v1", k.PODS.plural, labels={labels.JOB: kopf.PRESENT}, registry=found)  # type: ignore[arg-type]
    async def pod_event(namespace: str, body: Mapping[str, Any], **_: Any) -> None:
        key = Key("job", namespace, body["metadata"]["labels"][labels.JOB])
        # A label may be empty, and the path of an object without a name is that of the list.
        if key.name and saw_pod(key, body):
            enqueue(key)

    @kopf.on.event("batch", "v1", k.COMMANDS.plural, labels=OURS, registry=found)  # type: ignore[arg-type]
    async def command_event(namespace: str, body: Mapping[str, Any], **_: Any) -> None:
        marks = body["metadata"]["labels"]
        if snapshot := marks.get(labels.SNAPSHOT):
            enqueue(Key("snapshot", namespace, snapshot))
        elif job := marks.get(labels.JOB):
            enqueue(Key("job", namespace, job))

    return found


def service_address(environment: Mapping[str, str]) -> str:
    """The API server by the address that every pod is given, so that the operator works without DNS."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _traced(info: kopf.ConnectionInfo, server: str | None, watches: Watches) -> kopf.AiohttpSession:
    """A session like kopf's own, with a trace of the outcome of its requests."""
    context = info.as_ssl_context()
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as for the other client, see ``edges.kube``
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=context),
        headers=info.as_http_headers(),
        proxy=info.proxy_url,
        trust_env=info.trust_env,
        trace_configs=[watches.trace()],
    )
    return kopf.AiohttpSession(
        server=server or info.server,
        default_namespace=info.default_namespace,
        priority=info.priority,
        expiration=info.expiration,
        aiohttp_session=session,
    )


def on_signals(stop: Callable[[], Any]) -> None:
    """Call ``stop`` upon SIGTERM and SIGINT, in place of any handler that was set before."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)


def _settled(body: Mapping[str, Any]) -> bool:
    """Whether there is nothing to do about a snapshot. Thousands of settled ones come with every list of a watch."""
    one = custom_resources.snapshot_of(body)
    seen = one.status.get("observedGeneration") == one.generation and labels.FINALIZER in one.finalizers
    return seen and one.deleting_at is None and one.settled


class Backoffs:
    """Pauses in seconds between the tries of a watch that is refused or not answered, without end. A watch that gave up
    would end kopf, and with it all other watches: one deleted namespace, whose rights are gone with it, would make all
    of them list anew every minute."""

    def __iter__(self) -> Iterator[float]:
        first = (1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0)
        return itertools.chain(first, itertools.repeat(LONGEST_PAUSE_S))


def _configure(settings: kopf.OperatorSettings, operator_class: str) -> None:
    settings.posting.enabled = False
    # The definitions are there when kopf starts (see ``served_kinds``), and namespaces are told by name.
    settings.scanning.disabled = True
    # Else kopf kills the whole process ten minutes after its own end, and we start it again in the same process.
    settings.process.ultimate_exiting_timeout = None
    settings.peering.standalone = True
    settings.networking.request_timeout = LIST_S
    settings.networking.error_backoffs = Backoffs()
    settings.networking.connect_timeout = CONNECT_S
    settings.watching.server_timeout = WATCH_SERVER_S
    settings.watching.client_timeout = WATCH_CLIENT_S
    settings.watching.connect_timeout = CONNECT_S
    settings.watching.inactivity_timeout = SILENT_S
    settings.watching.chunk_size = 500
    settings.watching.label_selectors[GROUP, k.JOBS.plural] = managing.selector(operator_class)
    settings.watching.label_selectors[k.PODS.plural] = labels.JOB
    settings.watching.label_selectors["batch", k.COMMANDS.plural] = f"{labels.MANAGED_BY}={labels.OPERATOR}"
    settings.queueing.idle_timeout = 1.0


async def watch(
    found: kopf.OperatorRegistry, namespaces: Sequence[str], stop: Callable[[], Any], watches: Watches
) -> None:
    """One life of kopf: watch until a watch fails for good, and raise its error. ``stop`` is called upon SIGTERM.
    ``watches`` is that of the registry, and has begun. Raises ``WatchMissing`` if a kind is not watched after
    ``BEGINS_S``, and ``WatchesBlocked`` if the other watches do not end after a failure.

    kopf's own ``operator`` is not used. It does not return after such a failure (see :func:`_end`), and it cancels
    every task of the loop that is younger than itself: a reconcile that it hit would never run again.
    """
    root = await kopf.spawn_tasks(
        registry=found,
        settings=kopf.OperatorSettings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=list(namespaces),
    )
    # kopf has just set its own handlers. It takes seconds to end by them, and nobody leads in that time.
    on_signals(stop)
    try:
        done, _ = await asyncio.wait(root, timeout=BEGINS_S, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            _require_all(watches)
            done, _ = await asyncio.wait(root, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end(root)
    for task in done:
        task.result()


def _require_all(watches: Watches) -> None:
    """kopf looks once for the kinds that the API server serves. If the answer leaves some out, as one server of several
    does for a moment after a definition was installed, kopf never watches them."""
    if unasked := watches.unasked():
        raise errors.WatchMissing(
            f"nothing has asked for {', '.join(unasked)} within {BEGINS_S:.0f} s; "
            "the API server may not have told all kinds that it serves"
        )


async def _end(root: Collection[asyncio.Task[Any]]) -> None:
    """Cancel kopf's tasks and wait for them, the watchers first.

    If one watcher fails, kopf leaves the others running and closes their connections under them. They wait for new ones
    for ever then, because nobody makes any more.
    """
    watchers = [task for task in asyncio.all_tasks() if task.get_name().startswith(WATCHER)]
    try:
        async with asyncio.timeout(ENDS_S):
            # A watcher drops a cancellation that meets another one of its own.
            await _cancel(watchers, again_s=CANCEL_AGAIN_S)
            # A second one would interrupt what kopf does at its end, such as the closing of connections.
            await _cancel(root, again_s=None)
    except TimeoutError as error:
        why = f"the watches have not ended within {ENDS_S:.0f} s"
        if not watchers:
            why += f", and kopf has no task whose name begins with {WATCHER!r}: is it of another version than ours?"
        raise errors.WatchesBlocked(why) from error


async def _cancel(tasks: Collection[asyncio.Task[Any]], again_s: float | None) -> None:
    """Wait until all of them have ended. Those that have not after ``again_s`` are cancelled again; None: never."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        ended, left = await asyncio.wait(left, timeout=again_s)
        for task in ended:
            if not task.cancelled():
                task.exception()  # read, or asyncio logs that nobody did
