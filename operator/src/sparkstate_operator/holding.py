"""How an object is held and let go: by our finalizer, with the mark that comes and goes with it.

A policy may refuse changes of annotations or labels. An object that is let go then keeps its mark, which means nothing
without the finalizer.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from sparkstate_operator import errors, labels

_log = logging.getLogger(__name__)
Document = dict[str, Any]
REFUSALS = (errors.Forbidden, errors.Invalid, errors.Refused)
"""Errors of a patch that a policy, a webhook or a missing right may have caused."""


def hold(finalizers: Iterable[str], labels_: Mapping[str, str], annotations: Mapping[str, str]) -> Document:
    """Metadata with our finalizer, and these labels and annotations."""
    found: Document = {"finalizers": [*_others(finalizers), labels.FINALIZER]}
    if labels_:
        found["labels"] = dict(labels_)
    if annotations:
        found["annotations"] = dict(annotations)
    return found


async def let_go(
    finalizers: Iterable[str],
    annotations: Mapping[str, str],
    patch: Callable[[Document], Awaitable[object]],
    *,
    deleting: bool,
) -> None:
    """``patch`` the metadata to be without our finalizer, and without the mark unless that is refused."""
    bare: Document = {"finalizers": _others(finalizers)}
    # A deletion leaves the mark alone, because the object goes with it. In one patch with the finalizer, a policy that
    # refused the one refused the other, and the object could not be deleted.
    if not deleting and labels.MANAGER in annotations:
        try:
            await patch({**bare, "annotations": {labels.MANAGER: None}})
            return
        except REFUSALS as error:
            _log.warning("the mark cannot be removed, and stays: %s", error)
    await patch(bare)


def _others(finalizers: Iterable[str]) -> list[str]:
    return [name for name in finalizers if name != labels.FINALIZER]
