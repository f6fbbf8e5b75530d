"""Stamped values: their bytes, their description, and what a change of the time-to-live does to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkstate import errors
from sparkstate.serde import expiring, types
from sparkstate.serde.expiring import END_OF_TIME, NO_STAMP, ExpiringType, Times, TimeToLive
from sparkstate.serde.types import Types

STAMPS = st.integers(-(2**63), 2**63 - 1)
TTLS = st.builds(TimeToLive, st.integers(1, 2**63 - 1), st.booleans())


@given(stamp=STAMPS, value=st.none() | st.integers(-(2**63), 2**63 - 1))
def test_a_stamped_value_comes_back_from_its_bytes(stamp, value):
    stored_type = ExpiringType(Types.LONG(), TimeToLive(5))
    data = stored_type.encode((stamp, value))
    assert stored_type.decode(data) == (stamp, value)
    assert expiring.stamp_of(data) == stamp


def test_the_bytes_of_a_stamped_value_stay_as_they_are():
    stored_type = ExpiringType(Types.LONG(), TimeToLive(5))
    assert stored_type.encode((1_700_000_000_000, 7)).hex() == "ff8000018bcfe568000007"
    assert stored_type.encode((NO_STAMP, None)).hex() == "ff0000000000000000"
    assert stored_type.describe() == "TTL(processing,5) LONG"
    assert ExpiringType(Types.LONG(), TimeToLive(5, True)).describe() == "TTL(event,5) LONG"


@given(ttl=TTLS)
def test_a_description_is_parsed_to_an_equal_type(ttl):
    for value_type in (Types.LONG(), Types.MAP(Types.STRING(), Types.LIST(Types.LONG()))):
        stored_type = ExpiringType(value_type, ttl)
        parsed = types.parse(stored_type.describe())
        assert parsed == stored_type
        assert expiring.ttl_of(parsed) == ttl
        assert expiring.value_type_of(parsed) == value_type


@pytest.mark.parametrize(
    "description",
    [
        "TTL(processing,0) LONG",
        "TTL(ingestion,5) LONG",
        "TTL(event,5)LONG",
        "TTL(event,5) ",
        "TTL(event,99999999999999999999) LONG",
        "TTL(event,5) " * 10_000 + "LONG",
        "LIST<TTL(event,5) LONG>",
    ],
    ids=["zero", "third time", "no blank", "no type", "long", "nested", "within"],
)
def test_what_is_no_description_is_refused(description):
    with pytest.raises(errors.CorruptData):
        types.parse(description)


@pytest.mark.parametrize("data", [b"", b"\x00\x07", b"\xff\x00\x01"])
def test_bytes_without_a_stamp_are_corrupt(data):
    with pytest.raises(errors.CorruptData, match="no stamp"):
        ExpiringType(Types.LONG(), TimeToLive(5)).decode(data)


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"\xff\x00\x01", b"\xff\x80\x00\x00", b"\xff" * 8, b"\x00" * 12, b"\xfe" + b"\xff" * 11],
    ids=["nothing", "mark", "long ago", "part", "one byte less", "no mark", "other mark"],
)
@pytest.mark.parametrize("cutoff", [NO_STAMP, 0, 2**63 - 1])
def test_damage_is_reported_and_never_taken_for_a_value_that_has_expired(data, cutoff):
    with pytest.raises(errors.CorruptData, match="no stamp"):
        expiring.expired_bytes(cutoff)(data)
    before, event = TimeToLive(5), TimeToLive(5, True)
    for after in (None, event, TimeToLive(9)):
        convert = expiring.converter(before, after, Times(cutoff, cutoff))
        assert convert is not None
        with pytest.raises(errors.CorruptData, match="no stamp"):
            convert(data)


def test_a_reader_that_knows_no_stamps_refuses_stamped_bytes():
    data = ExpiringType(Types.LONG(), TimeToLive(5)).encode((3, 7))
    with pytest.raises(errors.UnknownFormat):
        Types.LONG().decode(data)


@given(ttl=TTLS, now=STAMPS, stamp=STAMPS)
def test_bytes_expire_as_stamps_do(ttl, now, stamp):
    cutoff = ttl.cutoff(now)
    data = ExpiringType(Types.LONG(), ttl).encode((stamp, 1))
    expired = now not in (NO_STAMP, END_OF_TIME) and stamp != NO_STAMP and stamp + ttl.length_ms <= now
    assert expiring.is_live(stamp, cutoff) is not expired
    assert expiring.expired_bytes(cutoff)(data) is expired


@given(before=st.none() | TTLS, after=st.none() | TTLS, stamp=STAMPS, times=st.builds(Times, STAMPS, STAMPS))
def test_a_value_keeps_its_stamp_unless_the_time_is_another(before, after, stamp, times):
    def of(ttl):
        return Types.LONG() if ttl is None else ExpiringType(Types.LONG(), ttl)

    stored = 7 if before is None else (stamp, 7)
    convert = expiring.converter(before, after, times)
    data = of(before).encode(stored)
    found = data if convert is None else convert(data)
    if before is not None and not expiring.is_live(stamp, before.cutoff(times.by(before))):
        # Left as it is only where the new rule judges it as expired too.
        shorter = after is not None and after.length_ms <= before.length_ms
        assert found is None or (shorter and after.in_event_time == before.in_event_time)
        return
    assert found is not None
    now_stored = of(after).decode(found)
    if after is None:
        assert now_stored == 7
    elif before is not None and before.in_event_time == after.in_event_time:
        assert now_stored == (stamp, 7)
    else:
        now = times.by(after)
        assert now_stored == (NO_STAMP if now == END_OF_TIME else now, 7)
