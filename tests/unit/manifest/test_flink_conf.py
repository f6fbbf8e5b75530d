"""Flink's own configuration file, given to a job as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sparkstate import errors
from sparkstate.manifest import flink_conf, load, resolve

CONF = Path(__file__).parents[2] / "support/flink/confs/flink-conf-1.15.yaml"


def test_a_file_is_read_line_by_line_as_flink_does() -> None:
    text = "# head\n\na.b: true  # why\nenv.java.opts: -Dx=y:z -Dk: v\n'quoted': 'x'\n".replace(
        "'quoted'", "q"
    )
    assert flink_conf.parse(text) == {"a.b": "true", "env.java.opts": "-Dx=y:z -Dk: v", "q": "x"}


def test_the_nested_form_of_flink_2_means_the_same_keys() -> None:
    text = (
        "state:\n  backend:\n    type: rocksdb\n    rocksdb:\n      localdir:\n        - /a\n        - /b\n"
    )
    assert flink_conf.parse(text) == {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": "/a;/b",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a.b: 1\nnonsense secret\n", "line 2 is not of the form 'key: value'"),
        ("a.b:\n  - [1\n", "is not valid YAML"),
        ("a.b: 1\na.b: 2\n", "line 2: a.b appears twice; keep one"),
        ("- a\n- b\n", "it is not a map of keys and values"),
        ("a:\n  - b: 1\n", "a is a list of more than texts"),
        ("a:\n  b: 1\n  c: 2\n  b: 3\n", "line 2: b appears twice; keep one"),
        ("a:\n  b: 1\na.b: 2\n", "a.b appears twice; keep one"),
        ("b:\na: " + "[" * 5000, "it is nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_by_its_line_and_shows_no_value(text: str, said: str) -> None:
    with pytest.raises(errors.SpecInvalid) as raised:
        flink_conf.parse(text)
    assert said in str(raised.value)
    assert "secret" not in str(raised.value)


@given(text=st.text(alphabet="ab: .#\n'\"-[]{}&*!%@\t", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = flink_conf.parse(text)
    except errors.SpecInvalid:
        return
    assert all(isinstance(each, str) for pair in found.items() for each in pair)


def manifest(folder: Path, **spec: object) -> Path:
    document = {
        "apiVersion": "sparkstate.io/v1alpha1",
        "kind": "StatefulSparkJob",
        "metadata": {"name": "flights"},
        "spec": {"pythonFile": "job.py", **spec},
    }
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_configuration_of_1_15_becomes_settings_with_its_keys_as_their_origins(tmp_path: Path) -> None:
    (tmp_path / "flink-conf.yaml").write_text(CONF.read_text())
    found = resolve(load(manifest(tmp_path), ["spec.configuration=@flink-conf.yaml"]))
    job = found.settings
    assert (job.backend.type, job.slots, job.checkpoint.interval_s) == ("hashmap", 2, 10.0)
    assert job.checkpoint.storage == "file:///CHECKPOINTS"
    assert found.origins["checkpointing.retained"] == "job (state.checkpoints.num-retained)"
    assert any("filesystem is a name from before Flink 1.13" in notice for notice in found.notices)
    assert any("execution.checkpointing.unaligned" in notice for notice in found.notices)


def test_code_fields_and_keys_count_in_this_order(tmp_path: Path) -> None:
    (tmp_path / "conf.yaml").write_text(
        "state.backend: rocksdb\nstate.checkpoints.dir: /c\nparallelism.default: 5\n"
    )
    path = manifest(tmp_path, slots=3, configuration={"state.backend.type": "hashmap"})
    job = resolve(load(path, ["spec.configuration=@conf.yaml"])).settings
    assert (job.slots, job.backend.type, job.checkpoint.storage) == (3, "hashmap", "/c")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.SpecInvalid, match=r"nowhere\.yaml cannot be read"):
        load(manifest(tmp_path), ["spec.configuration=@nowhere.yaml"])


def test_checkpoints_in_memory_become_settings_and_say_what_would_be_lost(tmp_path: Path) -> None:
    keys = {"state.checkpoint-storage": "jobmanager", "state.backend": "rocksdb"}
    found = resolve(load(manifest(tmp_path, configuration=keys)))
    job = found.settings
    assert (job.checkpoint.storage, job.checkpoint.max_state_bytes) == ("memory://driver", 5 * 1024 * 1024)
    assert (job.backend.type, job.backend.local_recovery) == ("rocksdb", False)
    assert any(
        "When the driver's process ends, state and source position are lost" in n for n in found.notices
    )


def test_the_old_name_of_the_memory_backend_means_its_storage_where_no_other_is_named(tmp_path: Path) -> None:
    name = "org.apache.flink.runtime.state.memory.MemoryStateBackendFactory"
    alone = resolve(load(manifest(tmp_path, configuration={"state.backend": name}))).settings
    assert (alone.backend.type, alone.checkpoint.storage) == ("hashmap", "memory://driver")
    both = {"state.backend": "jobmanager", "state.checkpoints.dir": "s3://bucket/a"}
    assert (
        resolve(load(manifest(tmp_path, configuration=both))).settings.checkpoint.storage == "s3://bucket/a"
    )
    with pytest.raises(errors.SpecInvalid, match=r"checkpointing\.storage: is missing"):
        resolve(load(manifest(tmp_path, configuration={"state.backend": "filesystem"})))


BOMB = "a: &a\n" + "".join(f"  - x{number}\n" for number in range(9))
for level in range(1, 20):
    BOMB += f"b{level}: &b{level}\n"
    BOMB += "".join(f"  k{number}: *{'a' if level == 1 else f'b{level - 1}'}\n" for number in range(9))


def test_aliases_that_stand_for_more_than_a_memory_holds_are_refused(tmp_path: Path) -> None:
    assert len(BOMB) < 4096
    (tmp_path / "config.yaml").write_text(BOMB)
    with pytest.raises(
        errors.SpecInvalid, match=r"config\.yaml: .* more than 10,000 parts .* alias"
    ) as raised:
        load(manifest(tmp_path), ["spec.configuration=@config.yaml"])
    assert "x1" not in str(raised.value)


def test_an_alias_that_stands_for_little_is_read() -> None:
    text = "restart-strategy:\n  type: &kind none\nx:\n  y: *kind\n"
    assert flink_conf.parse(text) == {"restart-strategy.type": "none", "x.y": "none"}


SECTIONS = {"state": {"backend": {"type": "rocksdb"}, "checkpoints.dir": "/c"}, "parallelism.default": 3}


def test_flinks_own_name_of_the_map_takes_sections_and_plain_values(tmp_path: Path) -> None:
    found = resolve(load(manifest(tmp_path, flinkConfiguration={**SECTIONS, "rest": {"port": 8081}})))
    job = found.settings
    assert (job.backend.type, job.slots, job.checkpoint.storage) == ("rocksdb", 3, "/c")
    assert found.origins["slots"] == "job (flinkConfiguration: parallelism.default)"
    assert any(
        notice.startswith("spec.flinkConfiguration: rest.port: no meaning") for notice in found.notices
    )


@pytest.mark.parametrize("spelling", ["configuration", "flinkConfiguration"])
@pytest.mark.parametrize(
    "own",
    [
        {"flinkConfiguration": SECTIONS},
        {
            "configuration": {
                "state.backend.type": "rocksdb",
                "state.checkpoints.dir": "/c",
                "parallelism.default": "3",
            }
        },
        {},
    ],
    ids=["sections", "texts", "none"],
)
def test_set_means_the_map_that_the_manifest_has(
    tmp_path: Path, own: dict[str, object], spelling: str
) -> None:
    (tmp_path / "conf.yaml").write_text(
        "state.backend: filesystem\nstate.checkpoints.dir: /d\nexecution.checkpointing.num-retained: 7\n"
    )
    given_ = [
        f"spec.{spelling}=@conf.yaml",
        f"spec.{spelling}.parallelism.default=4",
        f"spec.{spelling}.execution.checkpointing.interval=10 s",
        f"spec.{spelling}['state.backend.rocksdb.thread.num']=2",
    ]
    found = load(manifest(tmp_path, **own), given_)
    wanted = next(iter(own), spelling)
    assert [name for name in found.spec if name.lower().endswith("configuration")] == [wanted]
    job = resolve(found).settings
    assert (job.slots, job.checkpoint.interval_s, job.checkpoint.retained) == (4, 10.0, 7)
    assert job.checkpoint.storage == ("/c" if own else "/d")
    assert job.backend.type == ("rocksdb" if own else "hashmap")


def test_set_takes_a_key_or_the_whole_map_away(tmp_path: Path) -> None:
    path = manifest(tmp_path, flinkConfiguration=SECTIONS)
    assert resolve(load(path, ["spec.flinkConfiguration.parallelism.default=null"])).settings.slots == 2
    gone = load(path, ["spec.configuration=null", "spec.checkpointing.storage=/c"])
    assert resolve(gone).settings.backend.type == "hashmap"


def test_a_manifest_with_both_maps_is_refused_and_told_which_to_keep(tmp_path: Path) -> None:
    path = manifest(tmp_path, flinkConfiguration=SECTIONS, configuration={"state.backend": "rocksdb"})
    with pytest.raises(errors.SpecInvalid, match="means the same as configuration; keep configuration"):
        load(path)


def test_the_old_name_of_the_memory_backend_means_its_storage_in_sections_too(tmp_path: Path) -> None:
    found = resolve(load(manifest(tmp_path, flinkConfiguration={"state": {"backend": "jobmanager"}})))
    assert found.settings.checkpoint.storage == "memory://driver"
