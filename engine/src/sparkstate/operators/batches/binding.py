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
from sparkstate.operators.state.key_times import KeyTimes
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

    def enter(self, keys: BatchKeys, stamps: pa.Array) -> None:
        """These are the keys of the call that begins, and the event times of its rows, or the times of its timers."""
        assert keys.numbers is not None
        self._numbers = keys.numbers
        self.cursor.key_times = KeyTimes(keys.numbers, keys.codes, stamps)

    def leave(self) -> None:
        """The call is over, and so are its namespaces."""
        self._numbers = None
        self.cursor.key_times = self.cursor.stamp = None
        if self.cursor.namespaced:
            self.cursor.reset_namespaces()

    def row_times(self, keys: BatchKeys) -> list[int]:
        """The event time of each row of these keys: where they were selected, that of the key's last row."""
        times, numbers = self.cursor.key_times, self.number_array(keys)
        assert times is not None
        if keys.is_selection:
            return [times.of_writes[number] for number in numbers.tolist()]
        found = times.of_rows if keys.order is None else times.of_rows[keys.order]
        return found.tolist()  # type: ignore[no-any-return]

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
