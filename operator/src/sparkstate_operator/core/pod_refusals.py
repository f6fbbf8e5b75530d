"""The words about a command's Job that has no pod: what the API server said of the pod, and what helps."""

from __future__ import annotations

import re

from sparkstate_operator.core import remedies, shortening

_LONGEST = 1000
_CREATING = "Error creating: "
_NAMED = re.compile(r'\bpods? "[^"]*"')
"""Each pod that the Job's controller tries has another name: with it, the same refusal would be news each time."""

SILENT = (
    "Kubernetes has made none, and no Event of the Job says why; see whether it is suspended, and whether the "
    "cluster's controller manager runs"
)
HIDDEN = (
    "Kubernetes has made none, and the operator may not list the Job's Events, which say why; grant it `list` on "
    "events, as the chart's files/rules.yaml has it"
)


def told(message: str) -> str:
    """The message of an Event ``FailedCreate`` with its remedy. Kubernetes tries on by itself."""
    said = shortening.shortened(_NAMED.sub("the pod", message.removeprefix(_CREATING)).strip(), _LONGEST)
    remedy = remedies.remedy(message) or "remove the cause"
    return f"the API server refuses it: {said}; {remedy}, and Kubernetes makes the pod by itself"
