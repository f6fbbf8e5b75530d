"""The remedies for the refusal of a pod, by the words of the API server."""

from __future__ import annotations

import re

_TEMPLATE = "driverTemplate (for a StateSnapshot, its spec.template)"
_REMEDIES: tuple[tuple[str, str], ...] = (
    ("failed calling webhook", "mend that webhook, or exempt the namespace from it"),
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
)
"""A pattern of the message, and what helps; the first that fits counts."""


def remedy(message: str) -> str:
    """Empty if none is known."""
    return next((text for pattern, text in _REMEDIES if re.search(pattern, message, re.IGNORECASE)), "")
