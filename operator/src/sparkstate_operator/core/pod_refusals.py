"""The words about a command's Job that has no pod: what the API server said of the pod, and what helps."""

from __future__ import annotations

import re

_LONGEST = 1000
_CREATING = "Error creating: "
_NAMED = re.compile(r'\bpods? "[^"]*"')
"""Each pod that the Job's controller tries has another name: with it, the same refusal would be news each time."""

_TEMPLATE = "driverTemplate (for a StateSnapshot, its spec.template)"
REMEDIES: tuple[tuple[str, str], ...] = (
    ("exceeded quota", "raise the ResourceQuota, or free a part of it"),
    (
        "must specify",
        "give the container `driver` of driverTemplate (or `command` of a StateSnapshot's spec.template) the limits "
        "that the quota asks for",
    ),
    ("serviceaccount .* not found", "create that ServiceAccount, or name another one"),
    ("violates PodSecurity", f"set what the namespace's level asks for in {_TEMPLATE}, or change the level"),
    (
        "admission webhook|ValidatingAdmissionPolicy",
        f"let the policy or webhook admit the pod; labels and annotations of {_TEMPLATE} come along",
    ),
    ("", "remove the cause"),
)
"""A pattern of the message, and what helps; the first that fits counts."""

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
    said = _NAMED.sub("the pod", message.removeprefix(_CREATING)).strip()[:_LONGEST]
    remedy = next(text for pattern, text in REMEDIES if re.search(pattern, said, re.IGNORECASE))
    return f"the API server refuses it: {said}; {remedy}, and Kubernetes makes the pod by itself"
