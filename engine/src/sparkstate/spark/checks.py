"""Checks of what every operator of a job is declared with."""

from __future__ import annotations

import re
from typing import Final

from sparkstate import errors
from sparkstate.operators import kinds

_UID: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def check_uid(uid: str) -> None:
    """Raise ``SpecInvalid`` for what cannot name an operator."""
    if not isinstance(uid, str) or not _UID.fullmatch(uid):
        raise errors.SpecInvalid(
            f"process(uid={uid!r}): use 1 to 63 letters, digits, '-', '_' and '.', starting and ending with a "
            "letter or digit"
        )


def check_function(function: object, uid: str, inputs: int) -> None:
    """Raise ``SpecInvalid`` for what is no object of a kind with so many inputs."""
    if kinds.knows(function, inputs):
        return
    remedy = ""
    if isinstance(function, type):
        remedy = "; create an instance of the class"
    elif kinds.knows(function, 3 - inputs):
        remedy = (
            "; a function with two inputs runs on sparkstate.keyed(a, …).connect(sparkstate.keyed(b, …))"
            if inputs == 1
            else "; a function with one input runs on sparkstate.keyed(…) without connect"
        )
    raise errors.SpecInvalid(
        f"process({function!r}) of {uid!r} is not a {kinds.named(inputs)} object{remedy}"
    )
