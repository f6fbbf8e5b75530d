"""Schema ids of rows in RocksDB: given, taken off, refused."""

from __future__ import annotations

import pytest

from sparkstate import errors
from sparkstate.backends.rocksdb import schemas
from sparkstate.backends.rocksdb.schemas import SchemaCodec, Schemas
from sparkstate.serde import type_changes
from sparkstate.serde.expiring import NO_STAMP, ExpiringType, TimeToLive
from sparkstate.serde.types import Types

INT, BIG = Types.INT(), Types.BIG_INT()
ROW = Types.ROW_NAMED(["a", "b"], [Types.LIST(INT), INT])


def changed(before, now, found=None):
    found = found or Schemas(uid="op", name="total")
    return found.changed(before, type_changes.resolve(before, now).plan)


def test_a_row_of_an_earlier_id_is_migrated_and_one_of_the_newest_only_loses_its_id():
    codec = SchemaCodec(changed(INT, BIG))
    assert BIG.decode(codec.plain(INT.encode(7))) == 7
    written = codec.stamped(BIG.encode(10**30))
    assert written[0] == 1
    assert codec.plain(written) == BIG.encode(10**30)
    assert codec.plain(b"") == codec.stamped(b"") == b"", "null"


def test_the_id_of_a_value_that_expires_comes_after_its_stamp_which_stays():
    before, now = ExpiringType(INT, TimeToLive(5)), ExpiringType(BIG, TimeToLive(9))
    codec = SchemaCodec(changed(INT, BIG))
    for stamp in (NO_STAMP, -1, 0, 2**63 - 1):
        old, new = before.encode((stamp, 7)), now.encode((stamp, 10**30))
        assert codec.plain(old) == now.encode((stamp, 7))
        written = codec.stamped(new)
        assert (written[:9], written[9]) == (new[:9], 1)
        assert codec.plain(written) == new
        empty = now.encode((stamp, None))
        assert codec.plain(empty) == codec.stamped(empty) == empty, "null"


def test_a_type_with_a_time_to_live_is_kept_without_it():
    """The time-to-live changes between the steps, and rows of a step may have had several."""
    found = Schemas(uid="op", name="total").changed(
        ExpiringType(INT, TimeToLive(5)), type_changes.resolve(INT, BIG).plan
    )
    assert found == changed(INT, BIG)


@pytest.mark.parametrize("number", [2, 127, 128, 255])
def test_an_id_that_nobody_has_given_is_refused_and_never_read_as_another(number):
    wider = Types.ROW_NAMED(["a", "b"], [Types.LIST(BIG), BIG])
    for before, now, value in ((INT, BIG, 7), (ROW, wider, ([1], 2))):
        codec = SchemaCodec(changed(before, now))
        stored = bytes([number]) + before.encode(before.freeze(value))[1:]
        with pytest.raises(errors.UnknownFormat, match=f"schema id {number:02x}"):
            now.thaw(now.decode(codec.plain(stored)))


def test_when_no_id_is_left_the_next_change_is_refused_with_the_remedy():
    rows = [Types.ROW_NAMED(["a", "b"][:count], [INT, INT][:count]) for count in (1, 2)]
    found = Schemas(uid="op", name="total")
    for number in range(schemas.LAST_ID):
        found = changed(rows[number % 2], rows[1 - number % 2], found)
    codec = SchemaCodec(found)
    assert rows[1].decode(codec.plain(rows[0].encode((5,)))) == (5, None)
    assert codec.stamped(rows[1].encode((5, 6)))[0] == schemas.LAST_ID
    with pytest.raises(
        errors.StateMigrationError, match=r"'total' of operator 'op'.*take a canonical savepoint"
    ):
        changed(rows[1], rows[0], found)
