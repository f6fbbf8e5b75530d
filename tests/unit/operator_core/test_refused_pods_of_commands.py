"""When the Events of a command's Job are read, and what is told of them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW

from sparkstate_operator import errors, observed
from sparkstate_operator.core import pod_refusals
from sparkstate_operator.edges import kube as k
from sparkstate_operator.edges.refused_pods import RefusedPods

FULL = "exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1"


def event(at_s: int, message: str) -> dict[str, Any]:
    return {"metadata": {"name": "e"}, "lastTimestamp": f"2026-01-01T12:00:{at_s:02}Z", "message": message}


class Api:
    """An API server with these Events. Counts the lists of them."""

    def __init__(self, *events: dict[str, Any], refuses: errors.ApiError | None = None) -> None:
        self.events, self.refuses = list(events), refuses
        self.asked: list[str] = []

    async def list(self, kind: k.Kind, namespace: str, *, fields: str) -> list[dict[str, Any]]:
        assert (kind, namespace) == (k.EVENTS, "shop")
        self.asked.append(fields)
        if self.refuses is not None:
            raise self.refuses
        return self.events


def command(uid: str = "u", **fields: Any) -> observed.Command:
    given: dict[str, Any] = {"succeeded": False, "failed": False, **fields}
    return observed.Command(f"purge-{uid}", uid, "1", "purge", **given)


class Looks:
    """One operator's looks at commands, by a clock of its own."""

    def __init__(self, api: Api) -> None:
        self._pods = RefusedPods(api)  # type: ignore[arg-type]

    def at(self, after_s: float, *commands: observed.Command) -> list[str]:
        now = NOW + timedelta(seconds=after_s)
        return [one.refusal for one in asyncio.run(self._pods.told(commands or (command(),), "shop", now))]


def test_the_newest_event_of_the_job_is_told_with_its_remedy() -> None:
    api = Api(
        event(3, 'Error creating: pods "purge-abcde" is forbidden: exceeded quota: old'),
        event(9, f'Error creating: pods "purge-x7k2p" is forbidden: {FULL}'),
        event(5, 'Error creating: pods "purge-fghij" is forbidden: exceeded quota: older'),
    )
    looks = Looks(api)
    assert looks.at(0) == [""]
    assert looks.at(9) == [""]
    assert api.asked == [], "it may be a second old"
    told = "the API server refuses it: the pod is forbidden: " + FULL
    remedy = "; raise the ResourceQuota, or free a part of it, and Kubernetes makes the pod by itself"
    assert looks.at(10) == [told + remedy]
    assert api.asked == ["involvedObject.uid=u,reason=FailedCreate"]


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        (
            'pods "p-" is forbidden: error looking up service account shop/nobody: serviceaccount "nobody" not found',
            "create that ServiceAccount",
        ),
        (
            'pods "p-1" is forbidden: failed quota: q: must specify limits.cpu for: command',
            "give the container `driver` of driverTemplate",
        ),
        (
            'pods "p-1" is forbidden: violates PodSecurity "restricted:latest": seccompProfile',
            "or change the level",
        ),
        ('admission webhook "labels.example" denied the request: no team', "let the policy or webhook admit"),
        (
            'pods "p-1" is forbidden: ValidatingAdmissionPolicy "team" with binding "b" denied request: no team',
            "let the policy or webhook admit",
        ),
        ("Internal error occurred: something else", "remove the cause"),
    ],
    ids=["account", "limits", "pod security", "webhook", "policy", "another cause"],
)
def test_each_cause_has_its_remedy(message: str, remedy: str) -> None:
    told = pod_refusals.told(f"Error creating: {message}")
    assert remedy in told
    assert "p-" not in told.partition(";")[0].partition("service account")[0], "each try has another name"


def test_a_command_with_a_pod_or_an_end_costs_no_request() -> None:
    api = Api(event(1, f"Error creating: {FULL}"))
    looks = Looks(api)
    ended = (command("a", had_pod=True), command("b", succeeded=True), command("c", failed=True))
    for after_s in range(0, 3600, 15):
        assert looks.at(after_s, *ended) == ["", "", ""]
    assert api.asked == []


def test_what_was_told_ends_with_the_first_pod_and_outlives_a_stop_without_one() -> None:
    looks = Looks(Api(event(1, f"Error creating: {FULL}")))
    looks.at(0)
    assert FULL in looks.at(15)[0]
    assert FULL in looks.at(600, command(failed=True, cut_off_s=600))[0]
    assert looks.at(615, command(had_pod=True)) == [""]
    assert looks.at(630, command(failed=True, cut_off_s=600)) == [""]


def times_asked(api: Api, looks: Looks, until_s: int) -> Iterator[int]:
    for after_s in range(0, until_s, 5):
        before = len(api.asked)
        looks.at(after_s)
        if len(api.asked) > before:
            yield after_s


def test_it_is_asked_again_after_pauses_that_double() -> None:
    api = Api(event(1, f"Error creating: {FULL}"))
    found = list(times_asked(api, Looks(api), 3600))
    assert found == [10, 70, 190, 430, 910, 1510, 2110, 2710, 3310]


def test_however_many_commands_wait_there_is_one_list_a_second() -> None:
    """A quota may keep a thousand from their pods, and each list costs as much as the namespace has Events."""
    api = Api(event(1, f"Error creating: {FULL}"))
    looks, many = Looks(api), [command(f"u-{number}") for number in range(100)]
    looks.at(0, *many)
    found = {after_s: sum(map(bool, looks.at(after_s, *many))) for after_s in range(10, 310)}
    assert len(api.asked) <= 300
    assert (found[10], found[69], found[309]) == (1, 60, 100), "each is asked about in the end"


def test_a_job_without_an_event_is_told_after_a_minute() -> None:
    """Its controller is down, or somebody has suspended it."""
    looks = Looks(Api())
    found = {after_s: looks.at(after_s)[0] for after_s in range(0, 180, 5)}
    assert {found[after_s] for after_s in (0, 10, 55)} == {""}
    assert found[175] == pod_refusals.SILENT


def test_events_that_are_gone_by_now_are_still_told() -> None:
    api = Api(event(1, f"Error creating: {FULL}"))
    looks = Looks(api)
    looks.at(0)
    looks.at(10)
    api.events = []
    assert all(FULL in looks.at(after_s)[0] for after_s in range(15, 7200, 15))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (errors.Forbidden(403, "events is forbidden"), pod_refusals.HIDDEN),
        (errors.ApiError(500, "etcd is away"), ""),
    ],
    ids=["a missing right", "no answer"],
)
def test_events_that_cannot_be_read_keep_nothing_from_being_decided(
    error: errors.ApiError, told: str
) -> None:
    api = Api(refuses=error)
    looks = Looks(api)
    looks.at(0)
    assert looks.at(10) == [told]
    assert len(api.asked) == 1


def test_a_clock_that_is_set_back_stops_no_question() -> None:
    api = Api(event(1, f"Error creating: {FULL}"))
    looks = Looks(api)
    looks.at(86_400)
    assert FULL in looks.at(0)[0]


def test_what_was_told_of_one_command_is_not_told_of_another() -> None:
    looks = Looks(Api(event(1, f"Error creating: {FULL}")))
    looks.at(0)
    assert FULL in looks.at(10)[0]
    assert looks.at(11, dataclasses.replace(command(), uid="next")) == [""]
