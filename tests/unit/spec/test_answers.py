"""Each key of a Flink configuration gets an answer: its field, or why there is none."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.faults import tried

from sparkstate.manifest import flink_conf
from sparkstate_spec import answers, flink_tables, rules
from sparkstate_spec.rules import flink

CONF = Path(__file__).parents[2] / "support/flink/confs/flink-conf-1.15.yaml"


def of(key: str, text: str, **spec: object) -> answers.Answer:
    (found,) = answers.of({**spec, "configuration": {key: text}})
    return found


@pytest.mark.parametrize(
    ("key", "text", "outcome", "said"),
    [
        ("parallelism.default", "4", "applied", "spec.slots"),
        ("execution.checkpointing.incremental", "TRUE", "applied", "spec.stateBackend.incremental"),
        ("execution.checkpointing.unaligned", "true", "no meaning here", "the end of an epoch is the barrier"),
        ("execution.checkpointing.mode", "AT_LEAST_ONCE", "no meaning here", "exactly-once"),
        ("execution.checkpointing.max-concurrent-checkpoints", "4", "no meaning here", "one checkpoint"),
        ("jobmanager.rpc.port", "6123", "no meaning here", "Flink's own processes"),
        ("state.backend.changelog.enabled", "true", "not yet", "not in this version, so the job is refused"),
        ("state.backend.changelog.enabled", "false", "no meaning here", "asks for what happens anyway"),
        ("dstl.dfs.base-path", "s3://b/x", "not yet", "the changelog state backend is not in this version"),
        ("state.backend", "forst", "not yet", "others are not in this version"),
        ("execution.savepoint-restore-mode", "CLAIM", "not yet", "claim modes other than NO_CLAIM"),
        ("state.checkpoints.num-retained", "many", "refused", "a count must be a whole number"),
        ("execution.checkpointing.intervall", "1 s", "refused", "did you mean execution.checkpointing.interval?"),
        ("state.backend.rocksdb.options-factory", "shop:Options", "applied", "spec.stateBackend.optionsFactory"),
        ("my.custom.rocksdb.block.restart-interval", "16", "refused", "belong into stateBackend.options"),
        ("state.backend.rocksdb.metrics.num-snapshots", "false", "no meaning here", "the metric is off"),
    ],
)  # fmt: skip
def test_a_key_is_answered_by_its_field_or_by_the_reason(
    key: str, text: str, outcome: str, said: str
) -> None:
    found = of(key, text)
    assert (found.outcome, said in found.text) == (outcome, True), found


def test_a_field_counts_more_than_its_key_and_the_answer_says_so() -> None:
    found = of("parallelism.default", "4", slots=3)
    assert (found.outcome, found.text) == ("overridden", "spec.slots is given, and counts more")


@pytest.mark.parametrize(
    ("name", "new"),
    [
        ("jobmanager", "hashmap"),
        ("filesystem", "hashmap"),
        ("org.apache.flink.runtime.state.memory.MemoryStateBackendFactory", "hashmap"),
        ("FsStateBackend", "hashmap"),
        ("JobManager", "hashmap"),
        ("FILESYSTEM", "hashmap"),
        ("org.apache.flink.contrib.streaming.state.RocksDBStateBackendFactory", "rocksdb"),
    ],
)
def test_an_old_name_of_a_backend_is_applied_with_the_new_form(name: str, new: str) -> None:
    found = of("state.backend", name)
    assert found.outcome == "applied"
    assert f"write state.backend.type: {new} and execution.checkpointing.storage: " in found.text


@pytest.mark.parametrize(
    "name",
    [
        "hashmap",
        "HashMap",
        "RocksDB",
        "rocksdb",
        "org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory",
    ],
)
def test_a_name_of_today_is_not_deprecated(name: str) -> None:
    assert "deprecated" not in of("state.backend", name).text


def test_rocksdbs_keys_have_no_meaning_beside_hashmap() -> None:
    key = "state.backend.rocksdb.predefined-options"
    both = {"state.backend": "hashmap", key: "DEFAULT"}
    assert [each.outcome for each in answers.of({"configuration": both})] == ["applied", "no meaning here"]
    assert of(key, "DEFAULT", stateBackend={"type": "rocksdb"}).outcome == "applied"


def test_every_key_of_a_configuration_of_1_15_is_answered_and_none_stops_the_job() -> None:
    conf = flink_conf.read(CONF)
    found = {each.key: each for each in answers.of({"configuration": conf})}
    assert list(found) == list(conf)
    assert {each.outcome for each in found.values()} == {"applied", "no meaning here", "not yet"}
    assert [each for each in found.values() if "refused" in each.text] == []


@given(
    key=st.sampled_from(
        sorted({*flink_tables.understood(), "rest.port", "dstl.x", "a.b", "s3.secret-key", "x.password"})
    ),
    text=st.text(max_size=20) | st.sampled_from(["true", "10 s", "64mb", "3", "rocksdb", "s3://b/x"]),
)
@hypothesis.settings(max_examples=tried(300))
def test_an_answer_says_whether_the_rules_take_the_key_and_never_shows_a_secret(key: str, text: str) -> None:
    found = of(key, text)
    broken = rules.broken({"spec": {"configuration": {key: text}}}, flink.ALL)
    assert bool(broken) == (found.outcome == "refused" or "so the job is refused" in found.text)
    if flink.SECRET.search(key):
        assert found.outcome == "refused"
        assert found.value == ""
