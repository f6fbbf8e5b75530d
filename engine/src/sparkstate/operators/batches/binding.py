"""Where a batch operator stands: the overlay at hand, the keys of the call, and the cursor of the handles per key."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate import errors
from sparkstate.batches import keys as batch_keys
from sparkstate.batches.keys import BatchKeys
from sparkstate.operators.state import unkeyed
from sparkstate.operators.state.context import Cursor
from sparkstate.operators.state.overlay import Overlay

_NO_OVERLAY: Final = unkeyed.Unkeyed("the context")


class Binding:
    """Shared by the state handles, the contexts and the timer service of one operator."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.cursor = Cursor()
        """Of the handles per key that the handles on columns are built on."""
        self.overlay: Any = _NO_OVERLAY
        self._numbers: npt.NDArray[np.int64] | None = None

    def bind(self, overlay: Overlay, watermark: int) -> None:
        """Work on this overlay from now on."""
        self.overlay = overlay
        self.cursor.keys, self.cursor.kgs = overlay.known.keys, overlay.known.kgs
        self.cursor.service.bind(overlay, watermark)

    def unbind(self) -> None:
        """There are no keys: every use is refused."""
        self.overlay = _NO_OVERLAY
        self._numbers = None
        self.cursor.unbind()

    def enter(self, keys: BatchKeys) -> None:
        """These are the keys of the call that begins."""
        self._numbers = keys.numbers

    def leave(self) -> None:
        """The call is over, and so are its namespaces."""
        self._numbers = None
        if self.cursor.namespaced:
            self.cursor.reset_namespaces()

    def numbers(self, keys: BatchKeys) -> list[int]:
        """The overlay's number of each key."""
        return self.number_array(keys).tolist()  # type: ignore[no-any-return]

    def number_array(self, keys: BatchKeys) -> npt.NDArray[np.int64]:
        """The same as an array."""
        if not isinstance(keys, BatchKeys):
            raise errors.StateError(
                f"operator {self.uid!r}: the first argument is the call's keys, not {keys!r}"
            )
        if keys.numbers is None or keys.origin is not self._numbers:
            raise errors.StateError(
                f"operator {self.uid!r}: these keys are not those of the call at hand; use the keys that the call "
                "was given, and nothing after it"
            )
        return keys.numbers


def chosen(keys: BatchKeys, mask: Any) -> npt.NDArray[np.bool_] | None:
    """The mask, one entry per key; None where all are meant."""
    if mask is None:
        return None
    array = batch_keys.per_key(keys, mask)
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.bool_)
    if not pa.types.is_boolean(array.type):
        raise errors.StateError(f"a mask is an array of booleans, not of {array.type}")
    return array.fill_null(False).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
