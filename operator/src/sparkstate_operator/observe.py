"""Reads the API server and the driver, and makes an :class:`observed.ObservedState` of them. It writes nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sparkstate_operator import (
    actions,
    answers,
    command_pods,
    custom_resources,
    dependants,
    errors,
    job_pods,
    labels,
    observed,
    plan,
)
from sparkstate_operator.core import job_life, keys, naming, revisions, shortening
from sparkstate_operator.edges import dependant_jobs, driver, quotas
from sparkstate_operator.edges import kube as k
from sparkstate_operator.edges.driver import Drivers
from sparkstate_operator.edges.neighbours import Neighbours, Others
from sparkstate_operator.edges.refused_pods import RefusedPods
from sparkstate_operator.memory import Memory

_log = logging.getLogger(__name__)
_TOO_LONG = (
    f"its status is longer than {driver.LONGEST} bytes; have fewer slots, operator states or metrics of functions, or "
    "an image with a newer engine, which shortens its status"
)
_LONGEST = 300
"""Characters of the text about an invalid answer."""
STANDING = (k.SERVICES, k.SERVICE_ACCOUNTS, k.ROLES, k.ROLE_BINDINGS)


@dataclass(frozen=True)
class Look:
    """One look: what was seen, and what of it belongs to nobody."""

    seen: observed.ObservedState | None
    revisions: Mapping[str, plan.Revision]
    strays: tuple[tuple[k.Kind, observed.Child], ...] = ()
    """Objects with the job's name whose job is another one, or none."""
    others: Others | None = None
    """The job is another operator's, and nothing else was looked at."""


@dataclass(frozen=True)
class HeardReport:
    """A driver's report between two looks."""

    endpoint: observed.DriverEndpoint
    report: observed.Report | None
    unheard: str = ""
    """Why it answers and cannot be heard; empty if it can, or does not answer."""

    @property
    def news(self) -> observed.News:
        return self.report.news if self.report is not None else observed.NO_NEWS


class Observer:
    """Reads what a decision needs, and no more."""

    def __init__(self, kube: k.Kube, drivers: Drivers, key: bytes, neighbours: Neighbours) -> None:
        self._kube = kube
        self._neighbours = neighbours
        self._drivers = drivers
        self._key = key
        self._ends = command_pods.FirstLooks()
        self._refused_pods = RefusedPods(kube)

    async def look(
        self,
        namespace: str,
        name: str,
        memory: Memory,
        now: datetime,
        *,
        deep: bool,
        heard: HeardReport | None = None,
    ) -> Look:
        """The job with its children. ``deep`` reads also what hardly ever changes; ``heard``: what a driver has just
        said, so that the same one need not be asked again."""
        body = await self._kube.get(k.JOBS, namespace, name)
        job = custom_resources.job_of(body) if body is not None else None
        if job is not None and (others := await self._neighbours.of_job(job)):
            return Look(None, {}, others=others)
        uid = job.uid if job is not None else ""
        if job is not None and not memory.is_about(uid):
            deep = True
        if job is not None and labels.FINALIZER not in job.finalizers:
            memory.attempts.unwritten = uid
        deep = deep or job is None or job.deleting_at is not None or _is_lost(job)
        checks = job is not None and _intent(job) == job_life.CHECK
        mine, strays = await self._children(namespace, name, uid, deep=deep, checks=checks)
        if job is None:
            return Look(None, {}, strays)
        pods = [
            job_pods.read(child.body) for kind, child in mine if kind is k.PODS and _role(child) != "command"
        ]
        roles = {child.name: _role(child) for kind, child in mine if kind is k.PODS}
        drivers = tuple(pod for pod in pods if roles[pod.name] == "driver")
        snapshots = await self._snapshots(job, deep=deep)
        known = await self._revisions(job, drivers, memory)
        needs_attempts = (
            deep or memory.last.leftovers or not job.status.get("attempt") or bool(job.status.get("intent"))
        )
        config_maps = await self._config_maps(mine, namespace, name, uid, deep=deep, wanted=needs_attempts)
        memory.driver.endpoint = _endpoint(job, drivers, config_maps)
        said = await self._report(job, memory.driver.endpoint, heard)
        commands = await self._looked_into(_commands(mine), namespace, now)
        seen = observed.ObservedState(
            job=job,
            now=now,
            drivers=drivers,
            executors=tuple(pod for pod in pods if roles[pod.name] == "executor"),
            config_maps=config_maps,
            revisions=tuple(child for kind, child in mine if kind is k.REVISIONS),
            children=tuple(child for kind, child in mine if kind in STANDING) if deep else None,
            sightings=dict(memory.attempts.sightings),
            snapshots=snapshots,
            commands=commands,
            report=said.report if said is not None else None,
            unheard=said.unheard if said is not None else "",
            never_made=memory.attempts.never_made,
            unanswered=memory.attempts.unanswered,
            unkept=memory.attempts.take_unkept(),
            unasked=memory.attempts.unasked,
            unwritten=bool(uid) and memory.attempts.unwritten == uid,
            namespace_terminating=job.deleting_at is not None and await self._terminating(namespace),
            needed_by=await dependant_jobs.of_purge(
                self._kube,
                job,
                known.get(str(job.status.get("revision") or "")),
                snapshots,
                drivers,
                commands,
            ),
        )
        memory.last.snapshots = tuple(one.resource_version for one in snapshots)
        memory.last.leftovers = len(drivers) > 1 or len(seen.config_maps) > 1
        return Look(seen, known, strays)

    async def _children(
        self, namespace: str, name: str, uid: str, *, deep: bool, checks: bool
    ) -> tuple[list[tuple[k.Kind, observed.Child]], tuple[tuple[k.Kind, observed.Child], ...]]:
        kinds: tuple[k.Kind, ...] = (k.PODS, k.COMMANDS) if checks else (k.PODS,)
        if deep:
            kinds = (k.PODS, k.CONFIG_MAPS, *STANDING, k.REVISIONS, k.COMMANDS)
        found = await asyncio.gather(*(self._listed(kind, namespace, name) for kind in kinds))
        every = [(kind, child) for kind, children_ in zip(kinds, found, strict=True) for child in children_]
        mine = [(kind, child) for kind, child in every if _uid(child) == uid]
        # The operator labels all its objects with the uid of their job. An object without one is somebody else's.
        return mine, tuple((kind, child) for kind, child in every if _uid(child) not in ("", uid))

    async def _listed(self, kind: k.Kind, namespace: str, name: str) -> list[observed.Child]:
        bodies = await self._kube.list(kind, namespace, f"{labels.JOB}={name}")
        return [observed.child_of(body, kind.kind) for body in bodies]

    async def _config_maps(
        self,
        mine: list[tuple[k.Kind, observed.Child]],
        namespace: str,
        name: str,
        uid: str,
        *,
        deep: bool,
        wanted: bool,
    ) -> tuple[observed.Child, ...]:
        if not wanted:
            return ()
        found = [child for kind, child in mine if kind is k.CONFIG_MAPS]
        if not deep:
            found = [
                child for child in await self._listed(k.CONFIG_MAPS, namespace, name) if _uid(child) == uid
            ]
        return tuple(child for child in found if child.attempt is not None)

    async def _snapshots(self, job: observed.Job, *, deep: bool) -> tuple[observed.Snapshot, ...]:
        bodies = await self._kube.list(k.SNAPSHOTS, job.namespace, f"{labels.JOB_UID}={job.uid}")
        found = [custom_resources.snapshot_of(body) for body in bodies]
        reference = custom_resources.told(job.spec, "restoreFrom.snapshotRef.name")
        if (
            reference
            and all(one.name != reference for one in found)
            and (deep or not job.status.get("lastCheckpoint") or _may_restore(job))
        ):
            body = await self._kube.get(k.SNAPSHOTS, job.namespace, reference)
            if body is not None:
                found.append(custom_resources.snapshot_of(body))
        return tuple(found)

    async def _revisions(
        self, job: observed.Job, drivers: tuple[observed.Pod, ...], memory: Memory
    ) -> dict[str, plan.Revision]:
        told = (job.status, job.status.get("intent") or {}, job.status.get("refused") or {})
        names = {*(one.get("revision") for one in told), *(pod.revision for pod in drivers)}
        for name in filter(None, names):
            if name in memory.attempts.revisions:
                continue
            body = await self._kube.get(k.REVISIONS, job.namespace, name)
            if body is not None and (found := readable(name, body)) is not None:
                memory.attempts.revisions[name] = found
        if (
            drivers
        ):  # only a look at the whole job sees all names; elsewhere this would drop what a pod still runs
            memory.attempts.revisions = {
                name: memory.attempts.revisions[name] for name in names if name in memory.attempts.revisions
            }
        return memory.attempts.revisions

    async def running_revision(self, job: observed.Job, memory: Memory) -> plan.Revision | None:
        """The revision that the job's status names."""
        known = await self._revisions(job, (), memory)
        return known.get(str(job.status.get("revision") or ""))

    async def _report(
        self, job: observed.Job, endpoint: observed.DriverEndpoint | None, heard: HeardReport | None
    ) -> HeardReport | None:
        trigger = (job.status.get("intent") or {}).get("triggerId")
        if heard is not None and heard.endpoint == endpoint and heard.report is not None and not trigger:
            return heard
        return await self._ask(endpoint, trigger) if endpoint is not None else None

    async def _ask(self, endpoint: observed.DriverEndpoint, trigger: str | None) -> HeardReport:
        """A driver's report on itself, and on a trigger, if it answers."""
        uid, attempt = endpoint.uid, endpoint.attempt
        who = (endpoint.ip, keys.of_attempt(self._key, uid, attempt), uid, attempt)
        try:
            document = await self._drivers.status(*who)
            savepoint = await self._drivers.savepoint(*who, str(trigger)) if trigger else None
            answers.require(document, answers.STATUS)
            answers.require(savepoint or {}, answers.SAVEPOINT)
            return HeardReport(endpoint, observed.Report(document, savepoint))
        except errors.AnswerTooLarge:
            return HeardReport(endpoint, None, _TOO_LONG)
        except errors.DriverUnavailable:
            return HeardReport(endpoint, None)
        except (ValueError, RecursionError) as error:
            # Another program answers, or a driver that is broken. Both count as a driver that does not answer.
            _log.warning("the driver of attempt %s gave an invalid answer: %s", endpoint.attempt, error)
            told = shortening.shortened(f"its answer is not valid ({error})", _LONGEST)
            return HeardReport(endpoint, None, told)

    async def _looked_into(
        self, commands: tuple[observed.Command, ...], namespace: str, now: datetime
    ) -> tuple[observed.Command, ...]:
        """The same with what their Jobs and pods do not tell: for those that run and may take long, their own word on
        how far they are; for those without a pod, the reason."""
        dated = self._ends.dated(commands, now)
        found = [await self._asked_for_progress(command, namespace) for command in dated]
        return await self._refused_pods.told(found, namespace, now)

    async def _asked_for_progress(self, command: observed.Command, namespace: str) -> observed.Command:
        pod, ended = command.pod, command.succeeded or command.failed
        if ended or command.does not in actions.LONG or pod is None or not pod.ip or pod.phase != "Running":
            return command
        try:
            key = keys.of_command(self._key, namespace, command.name)
            found = await self._drivers.command_progress(pod.ip, command.name, command.uid, key)
            answers.require(found, {"progress": answers.STATUS["progress"]})
        except errors.DriverUnavailable:
            return command
        except (ValueError, RecursionError) as error:
            _log.warning("the command %s gave an invalid answer: %s", command.name, error)
            return command
        return dataclasses.replace(command, progress=found)

    async def refused(self, seen: observed.ObservedState, why: str) -> observed.ObservedState:
        """The same look, after a dry run that was refused."""
        scopes = await quotas.scopes(self._kube, seen.job.namespace, why)
        return dataclasses.replace(seen, refused=why, quota_scopes=scopes)

    async def listen(self, endpoint: observed.DriverEndpoint) -> HeardReport:
        """Ask the driver alone; no request goes to the API server."""
        return await self._ask(endpoint, None)

    async def _terminating(self, namespace: str) -> bool:
        body = await self._kube.get(k.NAMESPACES, None, namespace)
        return body is None or bool(body["metadata"].get("deletionTimestamp"))

    async def one_snapshot(self, namespace: str, name: str) -> observed.Snapshot | None:
        """A snapshot as it is now."""
        body = await self._kube.get(k.SNAPSHOTS, namespace, name)
        return None if body is None else custom_resources.snapshot_of(body)

    async def around_snapshot(
        self, namespace: str, snapshot: observed.Snapshot, now: datetime
    ) -> observed.ObservedSnapshot:
        """The job, its driver's answer and the Jobs that a decision about a snapshot looks at."""
        reference = custom_resources.told(snapshot.spec, "jobRef.name")
        job, pod, report = None, None, None
        over = snapshot.settled
        if reference and (not over or snapshot.deleting_at is not None):
            body = await self._kube.get(k.JOBS, namespace, reference)
            job = custom_resources.job_of(body) if body is not None else None
        if job is not None and (snapshot.deleting_at is None or not snapshot.status.get("uri")):
            pod, report = await self._asked(job, snapshot)
        others: tuple[observed.Snapshot, ...] = ()
        if job is not None and report is not None and snapshot.phase in ("", "Pending"):
            found = await self._kube.list(k.SNAPSHOTS, namespace, f"{labels.JOB_UID}={job.uid}")
            others = tuple(custom_resources.snapshot_of(one) for one in found)
            others = tuple(one for one in others if one.uid != snapshot.uid)
        commands: tuple[observed.Command, ...] = ()
        if snapshot.deleting_at is not None or (snapshot.spec.get("uri") and not over):
            selector = f"{labels.SNAPSHOT_UID}={snapshot.uid}"
            bodies = await asyncio.gather(
                self._kube.list(k.COMMANDS, namespace, selector), self._kube.list(k.PODS, namespace, selector)
            )
            mine = [
                (kind, observed.child_of(body, kind.kind))
                for kind, listed in zip((k.COMMANDS, k.PODS), bodies, strict=True)
                for body in listed
            ]
            commands = await self._looked_into(_commands(mine), namespace, now)
        terminating = snapshot.deleting_at is not None and await self._terminating(namespace)
        # Between two tries there is no command.
        begun = snapshot.status.get("reason") == dependants.GOES
        needed_by = (
            "" if terminating or begun else await dependant_jobs.of_snapshot(self._kube, namespace, snapshot)
        )
        return observed.ObservedSnapshot(
            snapshot, now, job, pod, report, others, commands, terminating, needed_by=needed_by
        )

    async def _asked(
        self, job: observed.Job, snapshot: observed.Snapshot
    ) -> tuple[observed.Pod | None, observed.Report | None]:
        attempt = int(job.status.get("attempt") or 0)
        if not attempt:
            return None, None
        body = await self._kube.get(k.PODS, job.namespace, naming.driver_pod(job.name, attempt))
        if body is None or body["metadata"].get("labels", {}).get(labels.JOB_UID) != job.uid:
            return None, None
        pod = job_pods.read(body)
        if not pod.answers:
            return pod, None
        endpoint = observed.DriverEndpoint(pod.ip, job.uid, attempt)
        return pod, (await self._ask(endpoint, snapshot.status.get("triggerId"))).report


def readable(name: str, body: Mapping[str, Any]) -> plan.Revision | None:
    """The revision; None for one that this version cannot read: it then counts as lost, like one that was deleted."""
    try:
        return plan.Revision(name, revisions.read(body["data"]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        _log.warning(
            "revision %s cannot be read and counts as lost: %s", name, error, extra={"revision": name}
        )
        return None


def _endpoint(
    job: observed.Job, drivers: tuple[observed.Pod, ...], config_maps: tuple[observed.Child, ...]
) -> observed.DriverEndpoint | None:
    """The newest attempt's driver, by the traces too: a status that was wiped does not know which attempt runs."""
    traces = (*(pod.attempt for pod in drivers), *(child.attempt or 0 for child in config_maps))
    attempt = max(int(job.status.get("attempt") or 0), *traces, 0)
    pod = next((pod for pod in drivers if pod.attempt == attempt), None)
    return observed.DriverEndpoint(pod.ip, job.uid, attempt) if pod is not None and pod.answers else None


def _is_lost(job: observed.Job) -> bool:
    """Whether the status was wiped, or is being rebuilt: everything that may know something is read then."""
    return not job.status.get("phase") or _intent(job) == job_life.RECOVER


def _may_restore(job: observed.Job) -> bool:
    """Whether the state that the spec starts from may decide: the spec is not judged, not carried out, or refused, or
    no attempt runs. A look that did not find it took an accepted change back, and the job forgot it."""
    status = job.status
    judged = status.get("observedGeneration") == job.generation
    return (
        not judged or bool(status.get("intent") or status.get("refused")) or status.get("phase") != "Running"
    )


def _intent(job: observed.Job) -> str:
    return str((job.status.get("intent") or {}).get("action") or "")


def _uid(child: observed.Child) -> str:
    return str((child.body["metadata"].get("labels") or {}).get(labels.JOB_UID, ""))


def _role(child: observed.Child) -> str:
    return str((child.body["metadata"].get("labels") or {}).get(labels.ROLE, ""))


def _commands(mine: list[tuple[k.Kind, observed.Child]]) -> tuple[observed.Command, ...]:
    jobs, pods = ([child for kind, child in mine if kind is each] for each in (k.COMMANDS, k.PODS))
    return command_pods.commands(jobs, pods)
