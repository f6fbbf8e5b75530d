"""Which changes of key columns leave keys in their key groups, and which do not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from support.storage.checkpoints import inline_shard, metadata

from sparkstate.checkpoint import key_columns
from sparkstate.checkpoint import metadata as codec
from sparkstate.checkpoint.key_columns import KeyColumn

FIXTURES = Path(__file__).parent / "fixtures"


def columns(*texts: str) -> tuple[KeyColumn, ...]:
    """Of texts like ``user int``."""
    return tuple(KeyColumn(name=name, type=kind) for name, kind in (text.split(" ") for text in texts))


def changed(before: tuple[KeyColumn, ...], now: tuple[KeyColumn, ...]) -> list[tuple[str, str, str]]:
    return [(each.field, each.before, each.now) for each in key_columns.changes("op", before, now)]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("int", "bigint"),
        ("bigint", "smallint"),
        ("float", "double"),
        ("decimal(10,2)", "decimal(10,3)"),
        ("decimal(18,2)", "decimal(19,2)"),
    ],
)
def test_a_type_of_another_hash_is_a_change_of_that_column(before: str, now: str) -> None:
    one, other = columns("country string", f"user {before}"), columns("country string", f"user {now}")
    assert changed(one, other) == [("type of key column 'user'", before, now)]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("int", "smallint"),
        ("tinyint", "int"),
        ("bigint", "bigint"),
        ("decimal(10,2)", "decimal(18,2)"),
        ("decimal(19,2)", "decimal(38,2)"),
    ],
)
def test_types_of_one_hash_take_each_others_place(before: str, now: str) -> None:
    assert changed(columns(f"user {before}"), columns(f"user {now}")) == []


def test_another_order_of_the_same_columns_is_a_change_and_another_name_is_none() -> None:
    assert changed(columns("a int", "b smallint"), columns("b int", "a int")) == [
        ("order of key columns", "a, b", "b, a")
    ]
    assert changed(columns("a int", "b int"), columns("c int", "b int")) == []


def test_other_types_in_the_slots_are_left_to_the_states_which_name_them() -> None:
    assert changed(columns("user int"), columns("user string")) == []
    assert changed(columns("user int"), columns("user int", "country string")) == []
    assert changed(columns("a int", "b string"), columns("b string", "a int")) == []


def test_the_refusal_names_operator_column_types_and_remedy() -> None:
    (change,) = key_columns.changes("clicks", columns("user int"), columns("account bigint"))
    told = change.message("s3://b/chk-1")
    assert told.startswith(
        "s3://b/chk-1 has state of operator 'clicks' whose type of key column 'account' was int and"
    )
    assert "is now bigint" in told
    assert "Cast the column to int before it becomes a key, or give the operator another uid" in told


def test_metadata_keeps_them_in_the_version_that_older_readers_read() -> None:
    full = metadata([inline_shard(0)], key_columns={"op": columns("user int", "at timestamp_ntz")})
    data = codec.encode(full)
    assert data[5] == 1
    assert codec.decode(data, "x") == full
    payload = msgspec.msgpack.decode(data[48:])
    assert payload["key_columns"] == {
        "op": [{"name": "user", "type": "int"}, {"name": "at", "type": "timestamp_ntz"}]
    }


def test_a_snapshot_of_an_older_version_has_none() -> None:
    older = codec.decode((FIXTURES / "v3" / "chk-9" / "_metadata").read_bytes(), "chk-9/_metadata")
    assert older.key_columns == {}
