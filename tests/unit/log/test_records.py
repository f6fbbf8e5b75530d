from __future__ import annotations

import hashlib

import msgspec
import pytest

from sparkstate import errors
from sparkstate.log import records

ENTRY = records.Entry(
    number=7,
    writer="w",
    timestamp_ms=1234,
    record=records.CheckpointCommitted(
        checkpoint_id=3,
        path="chk-3/_metadata",
        checksum="sha256:00",
        epoch=12,
        incarnation=2,
        timestamp_ms=1200,
    ),
)
GOLDEN_HEAD = "53534c4700010000"
GOLDEN_PAYLOAD = (
    "84a66e756d62657207a6777269746572a177ac74696d657374616d705f6d73cd04d2a67265636f726487"
    "a474797065aa636865636b706f696e74ad636865636b706f696e745f696403a470617468af63686b2d33"
    "2f5f6d65746164617461a8636865636b73756da97368613235363a3030a565706f63680cab696e636172"
    "6e6174696f6e02ac74696d657374616d705f6d73cd04b0"
)
ALL = [
    records.Claim(attempt=1, life=2, driver="me"),
    records.Claim(attempt=1, life=2, driver="me", released=True),
    records.Incarnation(number=1, restored_from="s3://x", slots=4),
    ENTRY.record,
    records.SavepointStarted(trigger_id="t", url="u", checkpoint_id=4, incarnation=1),
    records.SavepointCommitted(
        trigger_id="t", url="u", checksum="c", checkpoint_id=4, epoch=9, incarnation=1, timestamp_ms=5
    ),
    records.Closed(savepoint_url="u", trigger_id="t", attempt=1),
    records.Tombstone(paths=("a", "b"), checkpoints=(1,), savepoints=("u",), reason="subsumed"),
    records.Tombstone(published=7, reason="published"),
    records.SavepointsDeleted(savepoints=("u",)),
]


def test_the_bytes_of_an_entry_are_those_of_version_1():
    payload = bytes.fromhex(GOLDEN_PAYLOAD)
    golden = (
        bytes.fromhex(GOLDEN_HEAD)
        + len(payload).to_bytes(8, "big")
        + hashlib.sha256(payload).digest()
        + payload
    )
    assert records.encode(ENTRY) == golden
    assert records.decode(golden, "log/7") == ENTRY


@pytest.mark.parametrize("record", ALL, ids=lambda record: type(record).__name__)
def test_every_kind_of_record_comes_back_as_it_was(record):
    entry = records.Entry(number=1, writer="w", timestamp_ms=1, record=record)
    assert records.decode(records.encode(entry), "x") == entry


def test_every_kind_of_record_is_tried():
    assert {type(record) for record in ALL} == set(records.Record.__args__)


def test_any_flipped_byte_is_found():
    data = records.encode(ENTRY)
    for position in range(len(data)):
        if position in (6, 7):  # reserved
            continue
        damaged = bytearray(data)
        damaged[position] ^= 0x55
        with pytest.raises(errors.StorageError, match="log/7"):
            records.decode(bytes(damaged), "log/7")


def test_any_cut_is_found():
    data = records.encode(ENTRY)
    for length in range(len(data)):
        with pytest.raises(errors.CorruptData, match="log/7"):
            records.decode(data[:length], "log/7")
    with pytest.raises(errors.CorruptData, match="should hold"):
        records.decode(data + b"x", "log/7")


def test_a_newer_format_is_no_damage_and_says_what_to_use():
    data = bytearray(records.encode(ENTRY))
    data[4:6] = (9).to_bytes(2, "big")
    with pytest.raises(errors.StorageError, match=r"version 9, this sparkstate reads 1 to 1; use") as caught:
        records.decode(bytes(data), "log/7")
    assert not isinstance(caught.value, errors.CorruptData)


def test_a_payload_that_fits_no_record_is_damage():
    from sparkstate.log import framing

    payload = msgspec.msgpack.encode(
        {"number": 1, "writer": "w", "timestamp_ms": 1, "record": {"type": "other"}}
    )
    with pytest.raises(errors.CorruptData, match="does not fit"):
        records.decode(framing.frame(records.MAGIC, 1, payload), "log/1")


def test_a_field_added_later_with_a_default_does_not_break_this_reader():
    from sparkstate.log import framing

    payload = msgspec.msgpack.decode(msgspec.msgpack.encode(ENTRY))
    payload["record"]["added_later"] = 1
    data = framing.frame(records.MAGIC, 1, msgspec.msgpack.encode(payload))
    assert records.decode(data, "x") == ENTRY


def test_the_token_is_ordered_by_attempt_then_life():
    token = records.Token
    assert token(2, 1) > token(1, 99) > token(1, 98)
