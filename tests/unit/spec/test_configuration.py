"""Flink's keys as Flink's Kubernetes operator spells them: ``flinkConfiguration``, with sections and plain values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.specs import hostile, near

from sparkstate_spec import answers, configuration, layers, rules
from sparkstate_spec.given import JOB
from sparkstate_spec.rules import flink

SECTIONS = {
    "parallelism.default": 4,
    "state": {"backend.type": "rocksdb", "backend": {"rocksdb": {"localdir": ["/a", "/b"]}}},
    "execution.checkpointing": {"incremental": False, "interval": "10 s"},
    "state.backend.rocksdb.memory.write-buffer-ratio": 0.4,
}
FLAT = {
    "parallelism.default": "4",
    "state.backend.type": "rocksdb",
    "state.backend.rocksdb.localdir": "/a;/b",
    "execution.checkpointing.incremental": "false",
    "execution.checkpointing.interval": "10 s",
    "state.backend.rocksdb.memory.write-buffer-ratio": "0.4",
}


def test_sections_numbers_switches_and_lists_are_flinks_texts_by_whole_keys() -> None:
    assert configuration.flat(SECTIONS) == FLAT
    assert list(configuration.flat(SECTIONS)) == list(FLAT), "in the order in which they are written"


def test_the_keys_set_the_same_fields_as_in_configuration_and_their_origin_names_the_map() -> None:
    plain = layers.fold({"configuration": FLAT}, JOB)
    found = layers.fold({"flinkConfiguration": SECTIONS}, JOB)
    assert {path: leaf.value for path, leaf in found.items()} == {
        path: leaf.value for path, leaf in plain.items()
    }
    assert plain["slots"].source == "job (parallelism.default)"
    assert found["slots"].source == "job (flinkConfiguration: parallelism.default)"


def test_each_key_is_answered_and_the_answer_knows_its_map() -> None:
    found = answers.of(
        {"flinkConfiguration": {"rest.port": 8081, "slots": {}, "parallelism": {"default": 3}}}
    )
    assert [(each.key, each.outcome, each.spelling) for each in found] == [
        ("rest.port", "no meaning here", "flinkConfiguration"),
        ("parallelism.default", "applied", "flinkConfiguration"),
    ]


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"a": {"b": None}}, "a.b is empty; give it a value or leave it out"),
        ({"a": [{"b": 1}]}, "a is a list of more than texts; write it as texts"),
        ({"a": {"b": "1"}, "a.b": "2"}, "a.b appears twice; keep one"),
        ({f"a{number}": "1" for number in range(101)}, "must have at most 100 entries (it has 101)"),
        ({"a": {"b": "x" * 1025}}, "must have at most 1024 characters in a value (a.b)"),
        ({"a": {"b": b"x"}}, "a.b is neither text, a number, true or false; write it in quotes"),
        (["a"], "must be a mapping of keys and values"),
    ],
    ids=["empty", "list", "twice", "many", "long", "bytes", "no map"],
)
def test_a_map_that_cannot_be_read_is_one_finding_by_its_key(given_: Any, said: str) -> None:
    (found,) = rules.broken({"spec": {"flinkConfiguration": given_}}, flink.ALL)
    assert str(found) == f"spec.flinkConfiguration: {said}"


def test_a_finding_names_the_map_that_is_written() -> None:
    both = {"state": {"checkpoints.dir": "s3://b/a"}, "execution.checkpointing.dir": "s3://b/c", "x": 1}
    found = [str(one) for one in rules.broken({"spec": {"flinkConfiguration": both}}, flink.ALL)]
    assert found[0].startswith(
        "spec.flinkConfiguration: flinkConfiguration['execution.checkpointing.dir'] and "
        "flinkConfiguration['state.checkpoints.dir'] mean the same; keep one"
    )
    assert found[1].startswith("spec.flinkConfiguration: this version does not know a key")


def test_one_of_the_two_maps_is_enough_and_the_finding_says_which_to_keep() -> None:
    spec = {"configuration": {"parallelism.default": "3"}, "flinkConfiguration": {}}
    (found,) = rules.broken({"spec": spec}, flink.ALL)
    assert str(found) == (
        "spec.flinkConfiguration: means the same as configuration; keep configuration, whose keys the API server "
        "judges, and write all keys there"
    )


def laughs(levels: int, leaf: Any) -> dict[str, Any]:
    """What YAML makes of nine aliases to nine aliases, and so on: few objects that stand for many."""
    node = leaf
    for _ in range(levels):
        node = {f"k{number}": node for number in range(9)}
    return {"a": node}


@pytest.mark.parametrize("leaf", ["lol", {}, ["lol"] * 9], ids=["texts", "nothing", "lists"])
def test_a_map_that_stands_for_more_than_a_memory_holds_is_refused(leaf: Any) -> None:
    with pytest.raises(
        ValueError, match=r"with each YAML alias .* in full; write out the few keys that count"
    ):
        configuration.flat(laughs(20, leaf))


def test_long_texts_and_a_map_within_itself_come_to_an_end_too() -> None:
    text = "x" * 100_000
    own: dict[str, Any] = {}
    own["a"] = own
    for tree in ({"a": [text] * 9_000}, {f"k{number}": text for number in range(100)}, own):
        with pytest.raises(ValueError, match="write out the few keys that count"):
            configuration.flat(tree)


@given(tree=hostile.ANY)
def test_any_value_is_read_as_texts_or_refused(tree: Any) -> None:
    try:
        found = configuration.flat(tree)
    except ValueError:
        return
    assert all(isinstance(each, str) for pair in found.items() for each in pair)


@given(keys=near.CONFIGURATION)
def test_sections_mean_what_whole_keys_mean(keys: dict[str, str]) -> None:
    assert configuration.flat(near.sections(keys)) == keys


@given(keys=st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=4))
def test_whole_keys_are_taken_as_they_are(keys: dict[str, str]) -> None:
    assert configuration.flat(keys) == keys
