"""Carries out what was decided. Every write passes :meth:`Applier._write`, which names it.

Pods, Jobs and Secrets are only created and deleted. "Exists already" is success if the object is this job's and this
attempt's, and an error if it is anybody else's. Deletions carry the uid; a pod is read live first, and its deletion
carries the resourceVersion too. Other children go by server-side apply, with their ``metadata.uid`` if they exist:
without it, the apply would make an object anew that was deleted in the meantime.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sparkstate_operator import actions, binding, errors, holding, judging, labels, observed, owning, plan
from sparkstate_operator.actions import Write
from sparkstate_operator.config import Config
from sparkstate_operator.core import keys, naming
from sparkstate_operator.edges import dry_runs
from sparkstate_operator.edges import kube as k
from sparkstate_operator.edges.driver import Drivers
from sparkstate_operator.hooks import Hooks
from sparkstate_operator.memory import Memory
from sparkstate_operator.objects import check, children, commands, driver
from sparkstate_operator.objects.parts import Context

_log = logging.getLogger(__name__)
Named = observed.Child | observed.Command | observed.Pod | observed.Job | observed.Snapshot
Ours = observed.Job | observed.Snapshot

STANDING: Mapping[str, tuple[k.Kind, Write]] = {
    "Service": (k.SERVICES, Write.APPLY_SERVICE),
    "ServiceAccount": (k.SERVICE_ACCOUNTS, Write.APPLY_SERVICE_ACCOUNT),
    "RoleBinding": (k.ROLE_BINDINGS, Write.APPLY_ROLE_BINDING),
}
DELETED: Mapping[str, k.Kind] = {**{name: kind for name, (kind, _) in STANDING.items()}, "Role": k.ROLES}
"""Children that are deleted one by one. Roles are among them because older operators made one for each job."""


class Applier:
    """Writes. ``key`` is what the attempts' keys derive from."""

    def __init__(self, kube: k.Kube, drivers: Drivers, config: Config, key: bytes, hooks: Hooks) -> None:
        self._kube = kube
        self._drivers = drivers
        self._config = config
        self._key = key
        self._hooks = hooks

    async def _write(self, write: Write, call: Callable[[], Awaitable[Any]]) -> Any:
        self._hooks.before(write)
        answer = await call()
        self._hooks.after(write)
        return answer

    # -- status and finalizers ------------------------------------------------------------------------------------

    async def status(self, kind: k.Kind, body: Ours, namespace: str, status: observed.Document) -> str:
        """Compare-and-set the status; returns the new resourceVersion. Raises ``Conflict``."""
        write = Write.WRITE_STATUS if kind is k.JOBS else Write.WRITE_SNAPSHOT_STATUS
        document = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {
                "name": body.name,
                "namespace": namespace,
                "uid": body.uid,
                "resourceVersion": body.resource_version,
            },
            "spec": dict(body.spec),
            "status": dict(status),
        }
        # ``meta``: only the version is read of the answer, so the API server need not send the whole object.
        answer = await self._write(
            write, lambda: self._kube.replace(kind, namespace, document, subresource="status", meta=True)
        )
        return str(answer["metadata"]["resourceVersion"])

    async def hold(self, kind: k.Kind, body: Ours, namespace: str, action: actions.AddFinalizer) -> str:
        """Set our finalizer, leaving others', and the mark that says whose the object is.
        Returns the new resourceVersion."""
        mark = {labels.MANAGER: self._config.mark} if self._config.mark else {}
        meta = holding.hold(body.finalizers, action.marks, {**mark, **action.notes})
        return await self._patch(Write.ADD_FINALIZER, kind, body, namespace, meta)

    async def let_go(self, kind: k.Kind, body: Ours, namespace: str) -> None:
        """Remove our finalizer, and the mark unless the object goes with it or the removal of the mark is refused."""

        async def patch(meta: holding.Document) -> str:
            return await self._patch(Write.REMOVE_FINALIZER, kind, body, namespace, meta)

        deleting = body.deleting_at is not None
        await holding.let_go(body.finalizers, body.annotations, patch, deleting=deleting)

    async def _patch(
        self, write: Write, kind: k.Kind, body: Ours, namespace: str, meta: holding.Document
    ) -> str:
        given: k.Object = {"metadata": {"uid": body.uid, "resourceVersion": body.resource_version, **meta}}
        try:
            answer = await self._write(write, lambda: self._kube.merge(kind, namespace, body.name, given))
        except errors.NotFound:
            return ""
        return str(answer.get("metadata", {}).get("resourceVersion", ""))

    # -- a job's actions ------------------------------------------------------------------------------------------

    async def check(self, context: Context, start: actions.StartAttempt) -> str:
        """Dry-run the attempt's objects; why one is refused, or could not be tried. Empty if none is refused.

        The job's own ServiceAccount is made first, because the API server refuses every pod without it. The pod comes
        last: a quota that has room for it once the old one has ended may be full of other objects as well.
        """
        number = start.attempt
        try:
            config = _built(context, lambda: children.config_map(context, number, start.start))
            # As an attempt's, with a controller: policies refuse pods without one. Nobody looks for it in a dry run.
            owner = {"metadata": {"name": config["metadata"]["name"], "uid": context.job.uid}}
            pod = driver.controlled(_built(context, lambda: driver.pod(context, number)), owner)
            if context.revision.service_account is None:
                await self.ensure(children.service_account(context), None, context.job.uid)
            await dry_runs.make(self._kube, k.SECRETS, children.secret(context, number, self._key))
            await dry_runs.make(self._kube, k.CONFIG_MAPS, config)
            await dry_runs.make(self._kube, k.PODS, pod)
        except (errors.ApiError, errors.SpecInvalid, errors.Foreign) as error:
            return str(error)
        return ""

    async def carry_out(
        self,
        action: actions.Action,
        seen: observed.ObservedState,
        revisions: Mapping[str, plan.Revision],
        memory: Memory,
    ) -> None:
        """One action of a decision about a job."""
        job, namespace = seen.job, seen.job.namespace
        match action:
            case actions.CreateRevision(name):
                body = children.revision(self.context(job, revisions[name]))
                await self._create(Write.CREATE_REVISION, k.REVISIONS, namespace, body, _of(job))
            case actions.EnsureChildren(name):
                await self._ensure(self.context(job, revisions[name]), seen.children)
            case actions.StartAttempt():
                traces = {child.attempt for child in seen.config_maps}
                context = self.context(job, revisions[action.revision])
                await self._start(action, context, memory, first=action.attempt not in traces)
            case actions.DeletePod(pod, why):
                await self._delete_pod(pod, namespace, job.uid, why)
            case actions.DeleteAttempt(child):
                await self._delete_attempt(child, namespace, job.uid)
            case actions.DeleteChild(child, replaced):
                if replaced:
                    await binding.require(self._kube, self._config.driver_role, namespace)
                await self._delete(Write.DELETE_CHILD, DELETED[child.kind], namespace, child)
            case actions.DeleteRevision(child):
                await self._delete(Write.DELETE_REVISION, k.REVISIONS, namespace, child)
            case actions.CreateCheck(name):
                with memory.attempts.noting_check(name):
                    await self._ask(action, self.context(job, revisions[action.revision]))
            case actions.CreateSnapshot(body):
                document = {"apiVersion": k.SNAPSHOTS.api_version, "kind": k.SNAPSHOTS.kind, **body}
                await self._create(Write.CREATE_SNAPSHOT, k.SNAPSHOTS, namespace, document, _of(job))
            case actions.DeleteSnapshot(snapshot):
                version = snapshot.resource_version
                await self._delete(Write.DELETE_SNAPSHOT, k.SNAPSHOTS, namespace, snapshot, version)
            case _:
                await self._carry_out_rest(action, seen, revisions)

    async def _carry_out_rest(
        self, action: actions.Action, seen: observed.ObservedState, revisions: Mapping[str, plan.Revision]
    ) -> None:
        match action:
            case actions.CreateCommand():
                await self._job_command(action, seen, revisions)
            case actions.TriggerSavepoint():
                await self.trigger(action, seen.job.uid)
            case actions.DeleteSecret(attempt):
                await self._delete_secret(attempt, seen.job.namespace, seen.job.uid)
            case actions.DeleteCommand(command):
                await self.delete_command(command, seen.job.namespace)
            case actions.DeleteJob():
                job = seen.job
                await self._delete(Write.DELETE_JOB, k.JOBS, job.namespace, job, job.resource_version)
            case actions.LetClaim(pod):
                own = keys.of_attempt(self._key, seen.job.uid, pod.attempt)
                await self._write(
                    Write.LET_CLAIM,
                    lambda: self._drivers.let_claim(pod.ip, own, seen.job.uid, pod.attempt),
                )
            case _:
                raise ValueError(f"{action} is the reconciler's own")

    async def _ask(self, action: actions.CreateCheck, context: Context) -> None:
        body = _built(context, lambda: check.job(context, action))
        await self._create(Write.CREATE_COMMAND, k.COMMANDS, context.job.namespace, body, _of(context.job))

    def context(self, job: observed.Job, revision: plan.Revision) -> Context:
        """For building this job's children."""
        return Context(job, revision, self._config)

    async def _ensure(self, context: Context, seen: tuple[observed.Child, ...] | None) -> None:
        known = {(child.kind, child.name): child for child in seen or ()}
        for body in children.standing(context):
            await self.ensure(body, known.get((body["kind"], body["metadata"]["name"])), context.job.uid)

    async def ensure(self, body: k.Object, seen: observed.Child | None, uid: str) -> None:
        """Apply a standing child, unless what was seen has all its fields already."""
        kind, write = STANDING[body["kind"]]
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        if seen is None:
            live = await self._kube.get(kind, namespace, name)
            if live is not None:
                owning.require_ours(live, {labels.JOB_UID: uid})
                seen = observed.child_of(live, kind.kind)
        if seen is not None:
            # Items of a list come without apiVersion and kind.
            fields = {field: value for field, value in body.items() if field not in ("apiVersion", "kind")}
            if owning.contains(seen.body, fields):
                return
            body = {**body, "metadata": {**body["metadata"], "uid": seen.uid}}
        try:
            await self._write(write, lambda: self._kube.apply(kind, namespace, body))
        except errors.NotFound as error:
            # Without the right to bind a role, the API server reads it first, and answers 404 if it does not exist.
            if kind is k.ROLE_BINDINGS:
                raise binding.missing(self._config.driver_role) from error
            raise

    async def _start(
        self, action: actions.StartAttempt, context: Context, memory: Memory, *, first: bool
    ) -> None:
        """Secret, ConfigMap, pod, in this order. The ConfigMap is the trace that the number is used, so it comes right
        before the pod.

        ``first``: there was no trace yet, so no pod has been asked for. If the answer to the pod's creation leaves open
        whether it was made, the next look tells.
        """
        namespace, ours = context.job.namespace, _of(context.job)
        config = _built(context, lambda: children.config_map(context, action.attempt, action.start))
        pod = _built(context, lambda: driver.pod(context, action.attempt, action.predecessor_s))
        secret = children.secret(context, action.attempt, self._key)
        asked = False
        try:
            await self._create(Write.CREATE_SECRET, k.SECRETS, namespace, secret, None)
            made = await self._create(Write.CREATE_CONFIG_MAP, k.CONFIG_MAPS, namespace, config, ours)
            if made is None:
                raise errors.Conflict(
                    409, f"ConfigMap {namespace}/{config['metadata']['name']} came and went"
                )
            pod = driver.controlled(pod, made)
            asked = True
            await self._create(Write.CREATE_POD, k.PODS, namespace, pod, ours)
        except errors.ApiError as error:
            if error.made_nothing if asked else first:
                memory.attempts.never_made = action.attempt
            elif asked:
                memory.attempts.never_made, memory.attempts.unanswered = 0, action.attempt
            raise
        memory.attempts.never_made = memory.attempts.unanswered = 0

    async def _create(
        self, write: Write, kind: k.Kind, namespace: str, body: k.Object, ours: Mapping[str, str] | None
    ) -> k.Object | None:
        """Create, and return what exists then; it must have these labels, and the attempt of ``body``. ``ours`` None:
        what exists already is not read (a Secret, whose name holds both)."""

        async def create() -> k.Object | None:
            try:
                return await self._kube.create(kind, namespace, body)
            except errors.AlreadyExists:
                live = await self._kube.get(kind, namespace, body["metadata"]["name"]) if ours else None
                if live is not None:
                    found = body["metadata"]["labels"]
                    attempt = {labels.ATTEMPT: found[labels.ATTEMPT]} if labels.ATTEMPT in found else {}
                    owning.require_ours(live, {**(ours or {}), **attempt})
                return live

        return await self._write(write, create)  # type: ignore[no-any-return]

    async def _delete_pod(self, pod: Named, namespace: str, uid: str, why: str) -> None:
        live = await self._kube.get(k.PODS, namespace, pod.name)
        if live is None or live["metadata"]["uid"] != pod.uid or live["metadata"].get("deletionTimestamp"):
            return
        if live["metadata"].get("labels", {}).get(labels.JOB_UID) != uid:
            raise errors.Foreign(f"pod {namespace}/{pod.name} has lost the label of its job, and stays")
        version = live["metadata"]["resourceVersion"]
        _log.info("deleting pod", extra={"pod": pod.name, "namespace": namespace, "why": why})
        await self._write(
            Write.DELETE_POD,
            lambda: self._kube.delete(k.PODS, namespace, pod.name, uid=pod.uid, resource_version=version),
        )

    async def _delete_attempt(self, child: observed.Child, namespace: str, uid: str) -> None:
        """The Secret goes first, because only the ConfigMap leads to it: Secrets are never listed."""
        await self._delete_secret(child.attempt or 0, namespace, uid)
        await self._delete(Write.DELETE_CONFIG_MAP, k.CONFIG_MAPS, namespace, child)

    async def _delete_secret(self, attempt: int, namespace: str, uid: str) -> None:
        secret = naming.token_secret(uid, attempt)
        await self._write(Write.DELETE_SECRET, lambda: self._kube.delete(k.SECRETS, namespace, secret))

    async def _delete(
        self, write: Write, kind: k.Kind, namespace: str, one: Named, version: str | None = None
    ) -> None:
        """This same object; ``version``: as it was seen, and not changed since."""
        await self._write(
            write,
            lambda: self._kube.delete(kind, namespace, one.name, uid=one.uid, resource_version=version),
        )

    async def delete_stray(self, kind: k.Kind, child: observed.Child, namespace: str) -> None:
        """Delete an object that bears the name of a job that is gone, whatever its kind."""
        uid = str(child.body["metadata"]["labels"].get(labels.JOB_UID, ""))
        if kind is k.PODS:
            await self._delete_pod(child, namespace, uid, "its job is gone")
        elif kind is k.CONFIG_MAPS and child.attempt is not None:
            await self._delete_attempt(child, namespace, uid)
        elif kind is k.COMMANDS:
            await self._delete(Write.DELETE_COMMAND, k.COMMANDS, namespace, child)
        elif kind is k.REVISIONS:
            await self._delete(Write.DELETE_REVISION, k.REVISIONS, namespace, child)
        elif child.kind in DELETED:
            await self._delete(Write.DELETE_CHILD, kind, namespace, child)

    # -- savepoints and engine commands ---------------------------------------------------------------------------

    async def trigger(self, action: actions.TriggerSavepoint, uid: str) -> None:
        """Ask the driver."""
        ip, attempt = action.pod.ip, action.pod.attempt
        own = keys.of_attempt(self._key, uid, attempt)
        await self._write(
            Write.TRIGGER_SAVEPOINT, lambda: self._drivers.trigger(ip, own, uid, attempt, action.request())
        )

    async def _job_command(
        self,
        action: actions.CreateCommand,
        seen: observed.ObservedState,
        revisions: Mapping[str, plan.Revision],
    ) -> None:
        """A command about the whole job: it reads the newest attempt's manifest."""
        revision = revisions[str(seen.job.status.get("revision"))]
        context = self.context(seen.job, revision)
        command = commands.of_job(context, action, await self._manifest(seen, revision))
        body = commands.job(commands.with_progress(command, self._key), self._config.ids)
        await self._create(Write.CREATE_COMMAND, k.COMMANDS, seen.job.namespace, body, _of(seen.job))

    async def _manifest(self, seen: observed.ObservedState, revision: plan.Revision) -> str:
        """The ConfigMap with the newest attempt's manifest; where none is left, one is made for the command."""
        if seen.newest_config_map is not None:
            return seen.newest_config_map.name
        context = self.context(seen.job, revision)
        body = children.config_map(context, naming.TRACE, actions.Start(), executors=False)
        await self._create(Write.CREATE_CONFIG_MAP, k.CONFIG_MAPS, seen.job.namespace, body, _of(seen.job))
        return str(body["metadata"]["name"])

    async def snapshot_command(
        self, action: actions.CreateCommand, snapshot: observed.Snapshot, namespace: str
    ) -> None:
        """A command about one savepoint's data, by what the snapshot wrote down."""
        name = (snapshot.status.get("access") or {}).get("serviceAccountName")
        account = await self._existing_account(name, namespace)
        command = commands.of_snapshot(action, snapshot, namespace, self._config.engine_image, account)
        ours = {labels.SNAPSHOT_UID: snapshot.uid}
        body = commands.job(commands.with_progress(command, self._key), self._config.ids)
        await self._create(Write.CREATE_COMMAND, k.COMMANDS, namespace, body, ours)

    async def _existing_account(self, name: str | None, namespace: str) -> str | None:
        """A job's own ServiceAccount goes with the job; with a secretRef the namespace's default will do."""
        if name is None or await self._kube.get(k.SERVICE_ACCOUNTS, namespace, name) is None:
            return None
        return name

    async def delete_command(self, command: observed.Command, namespace: str) -> None:
        """A command's Job, with its pods."""
        await self._delete(Write.DELETE_COMMAND, k.COMMANDS, namespace, command)

    # -- events ---------------------------------------------------------------------------------------------------

    async def event(self, body: k.Object, namespace: str) -> None:
        """An Event; one that cannot be written is only logged."""
        try:
            await self._write(Write.CREATE_EVENT, lambda: self._kube.create(k.EVENTS, namespace, body))
        except errors.ApiError as error:
            _log.warning("an Event could not be written: %s", error)


def _built(context: Context, build: Callable[[], k.Object]) -> k.Object:
    """An object of the revision. Raises ``SpecInvalid`` for one that was accepted and cannot be built after all."""
    try:
        return build()
    except Exception as error:
        _log.exception("a revision could not be built", extra={"revision": context.revision.name})
        raise errors.SpecInvalid(judging.unforeseen(f"revision {context.revision.name}", error)) from error


def _of(job: observed.Job) -> dict[str, str]:
    """The label that says that an object is this job's."""
    return {labels.JOB_UID: job.uid}
