"""Value states of bytes, which are written without a look into them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sparkstate import errors
from sparkstate.functions import KeyedProcessFunction
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ValueStateDescriptor
from sparkstate.testing import KeyedProcessHarness


class Kept(KeyedProcessFunction):
    """Gives what it had, and keeps what comes."""

    def open(self, ctx: Any) -> None:
        self.data = ctx.get_state(ValueStateDescriptor("data", Types.PRIMITIVE_ARRAY(Types.BYTE())))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.data.value()
        self.data.update(value)


@pytest.fixture(params=["hashmap", "rocksdb"])
def harness(request: pytest.FixtureRequest) -> Iterator[KeyedProcessHarness]:
    with KeyedProcessHarness(Kept(), key=lambda _: 1, key_type=Types.LONG(), backend=request.param) as made:
        yield made


@pytest.mark.parametrize("carrier", [bytes, bytearray, memoryview])
def test_bytes_are_kept_whatever_carried_them(harness, carrier):
    buffer = bytearray(b"\0ab")
    harness.process_element(carrier(buffer))
    buffer[:] = b"xyz"
    harness.restore(harness.snapshot())
    harness.process_elements([(carrier(b""), None), (None, None), (b"last", None)])
    found = harness.output()[-3:]
    assert found == [b"\0ab", b"", None]
    assert type(found[0]) is bytes
    assert harness.state("data", 1) == b"last"


def test_text_is_no_value_of_bytes(harness):
    with pytest.raises(errors.UserCodeError, match="does not fit the declared type PRIMITIVE_ARRAY<BYTE>"):
        harness.process_element("text")


class Claims(bytes):
    """Bytes that give themselves and another length."""

    def __bytes__(self) -> bytes:
        return self

    def __len__(self) -> int:
        return 3


def test_a_subclass_is_stored_as_its_bytes():
    declared = Types.PRIMITIVE_ARRAY(Types.BYTE())
    stored = declared.freeze(Claims(b"abcdef"))
    assert type(stored) is bytes
    assert declared.decode(declared.encode(stored)) == b"abcdef"
