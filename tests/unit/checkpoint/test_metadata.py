from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace
from support.storage.checkpoints import inline_shard, metadata

from sparkstate import errors
from sparkstate.checkpoint import Committable
from sparkstate.checkpoint import metadata as codec
from sparkstate.handles import FileHandle

FULL = metadata(
    [inline_shard(0), inline_shard(1)],
    source_watermarks={"flights": 17},
    committables=(
        Committable(
            sink="out", slot=0, staged="a.tmp", final="a", size=3, checksum="sha256:" + "0" * 64, rows=2
        ),
    ),
    source_position=FileHandle(name="position", size=1, checksum="sha256:" + "a" * 64, path="chk-1/1-1-x"),
    trigger_id="t",
    closed=True,
    drained=True,
)


def test_metadata_comes_back_as_it_was():
    assert codec.decode(codec.encode(FULL), "x") == FULL


def test_output_that_an_older_version_staged_has_no_url():
    current = replace(FULL.committables[0], url="file:///out")
    older = {key: value for key, value in msgspec.to_builtins(current).items() if key != "url"}
    assert msgspec.convert(older, Committable) == FULL.committables[0]


def test_it_begins_with_its_magic_and_version():
    assert codec.encode(FULL)[:8] == b"SSMD\x00\x01\x00\x00"


def test_any_flipped_byte_is_found():
    data = codec.encode(FULL)
    for position in range(len(data)):
        if position in (6, 7):
            continue
        damaged = bytearray(data)
        damaged[position] ^= 0xFF
        with pytest.raises(errors.StorageError, match="chk-1"):
            codec.decode(bytes(damaged), "chk-1/_metadata")


def test_a_newer_version_is_no_damage():
    data = bytearray(codec.encode(FULL))
    data[5] = codec.FORMAT_VERSION + 1
    with pytest.raises(errors.StorageError, match="newer one") as caught:
        codec.decode(bytes(data), "chk-1/_metadata")
    assert not isinstance(caught.value, errors.CorruptData)


def with_file(**changes):
    shard = inline_shard(0)
    return metadata([replace(shard, files=(replace(shard.files[0], **changes),))])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        pytest.param(metadata([inline_shard(0), inline_shard(0)]), "each of 0 to 1 once", id="a shard twice"),
        pytest.param(with_file(name="../../etc/passwd"), "not a plain file name", id="a name that leaves"),
        pytest.param(with_file(name=".."), "not a plain file name", id="parent as a name"),
        pytest.param(with_file(inline=None, path="../x"), "not a valid object name", id="a path that leaves"),
        pytest.param(with_file(inline=None, path="/etc/x"), "not a valid object name", id="an absolute path"),
        pytest.param(with_file(checksum="md5:1"), "sha256", id="another checksum"),
        pytest.param(with_file(path="chk-1/x"), "either a path or inline", id="both path and bytes"),
        pytest.param(with_file(inline=None), "either a path or inline", id="neither path nor bytes"),
        pytest.param(with_file(size=4), "its size is 4", id="a wrong inline size"),
        pytest.param(with_file(inline=None, path="x", offset=-1), "negative", id="a negative offset"),
    ],
)
def test_what_contradicts_itself_is_neither_written_nor_read(wrong, words):
    from sparkstate.log import framing

    with pytest.raises(errors.CorruptData, match=words):
        codec.encode(wrong)
    payload = codec._ENCODER.encode(wrong)
    with pytest.raises(errors.CorruptData, match=words):
        codec.decode(framing.frame(codec.MAGIC, codec.FORMAT_VERSION, payload), "x")


def test_the_objects_it_needs_are_those_with_a_path():
    assert FULL.paths() == {"chk-1/1-1-x"}
    assert len(list(FULL.files())) == 3


def test_only_a_large_source_position_needs_the_newer_version():
    """An older sparkstate must not sweep away the files that it does not know of, so it must not read such a one."""
    part = FileHandle(
        name="position-00",
        size=3,
        checksum=codec.checksum(b"abc"),
        path="shared/x",
        shared=True,
        identity="i",
    )
    small, large = metadata([inline_shard(0)]), metadata([inline_shard(0)], source_files=(part,))
    assert (codec.encode(small)[5], codec.encode(large)[5]) == (1, 2)
    assert codec.decode(codec.encode(large), "x").source_files == (part,)
    assert large.paths() == small.paths() | {"shared/x"}
