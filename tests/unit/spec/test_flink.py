"""Flink's keys: which field each means, and how its value is read."""

from __future__ import annotations

from typing import Any

import pytest

from sparkstate_spec import fields, flink, flink_tables

SAMPLES: dict[fields.Kind, tuple[tuple[str, Any], ...]] = {
    "duration": (("10 min", "10m"), ("500", "500ms"), ("3 d", "72h"), ("90s", "1m30s")),
    "memory": (("64mb", "64Mi"), ("20 kb", "20Ki"), ("7", "7"), ("1g", "1Gi")),
    "boolean": (("true", True), ("false", False)),
    "integer": (("12", 12),),
    "number": (("0.25", 0.25), ("2", 2.0)),
    "location": (("s3://bucket/a", "s3://bucket/a"),),
    "paths": (("/a", ["/a"]), ("/a,/b:/c", ["/a", "/b", "/c"]), (" /a ; /b", ["/a", "/b"])),
    "text": (("s3://bucket/a", "s3://bucket/a"),),
}
WITH_KEYS = [one for one in fields.TABLE if one.flink]


@pytest.mark.parametrize("known", WITH_KEYS, ids=lambda known: str(known.path))
def test_every_spelling_of_a_key_means_its_field_and_reads_its_value(known: fields.Field) -> None:
    for key in known.flink:
        assert fields.BY_KEY[key] is known
    for text, value in (*SAMPLES[known.kind], *known.words.items()):
        assert flink.read(known, text) == value


def test_no_field_has_two_lines_and_no_key_two_fields() -> None:
    assert len(fields.BY_PATH) == len(fields.TABLE)
    assert len(fields.BY_KEY) == sum(len(one.flink) for one in fields.TABLE)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("stateBackend.type", {"jobmanager": "hashmap", "filesystem": "hashmap", "rocksdb": "rocksdb"}),
        ("stateBackend.timerService", {"HEAP": "heap", "ROCKSDB": "rocksdb"}),
        ("savepoints.formatType", {"CANONICAL": "canonical", "NATIVE": "native"}),
        (
            "restart.strategy",
            {
                "off": "none",
                "disable": "none",
                "fixeddelay": "fixed-delay",
                "exponentialdelay": "exponential-delay",
                "failurerate": "failure-rate",
            },
        ),
    ],
)
def test_flinks_words_become_ours(path: str, words: dict[str, str]) -> None:
    known = fields.BY_PATH[path]
    assert {text: flink.read(known, text) for text in words} == words


def test_a_key_is_understood_once() -> None:
    assert len(set(flink_tables.understood())) == len(flink_tables.understood())


def test_what_a_key_may_say_reads_as_its_kind() -> None:
    assert set(flink_tables.VALUES) < set(flink.READERS)
    assert {one.kind for one in fields.TABLE} == set(flink.READERS)
