"""How a driver gets its claim: after an earlier driver that is still ending, and when the storage answers."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial

from sparkstate import errors
from sparkstate.control import driver_life
from sparkstate.driver.claimed_lineage import ClaimedLineage, claim
from sparkstate.driver.context import DriverContext
from sparkstate.driver.handover import Handover
from sparkstate.driver.restarts import STORAGE_RETRY_S
from sparkstate.driver.storage_outages import Ending, heard
from sparkstate.storage import naming


def await_claim(context: DriverContext, meanwhile: Callable[[], object]) -> ClaimedLineage:
    """Claim the lineage; while the storage is away, wait for it. ``meanwhile`` is called while an earlier driver ends.

    Raises ``Ending`` if the job is asked to end before.
    """
    settings, view, requests = context.settings, context.view, context.requests
    pod = settings.pod
    who = f"{pod.namespace}/{pod.name}" if pod else f"{socket.gethostname()}:{os.getpid()}"
    patience_s = pod.predecessor_s if pod is not None else 0.0
    handover = Handover(context.attempt, patience_s, requests.alone, context.clock, view, context.say)
    url = naming.normalise_url(settings.checkpoint.storage)

    def take() -> ClaimedLineage:
        before = partial(handover.wait, meanwhile=meanwhile)
        return claim(settings, context.clock, context.attempt, who, before, view.outages)

    while True:
        try:
            # A pod's driver has nothing to save yet and ends by itself (termination_policy.Grace); what it does
            # while it waits for an earlier one needs the main thread.
            claimed = take() if pod else heard(take, requests.ending)
            view.outages.answered(url)
            return claimed
        except errors.StorageUnavailable as error:
            view.happened(driver_life.STORAGE_AWAY)
            view.outages.failed(url, "claim the job's state", error)
            context.say(f"waiting for the storage: {error}")
            context.pause(STORAGE_RETRY_S)
        if requests.ending():
            raise Ending("the job was asked to end while its storage was away")
