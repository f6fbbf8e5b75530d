from __future__ import annotations

import pytest

from sparkstate import errors
from sparkstate.storage import layout, naming


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("/data/x/", "file:///data/x"),
        ("file:///data/../x", "file:///x"),
        ("file:/data", "file:///data"),
        ("file://localhost/data", "file:///data"),
        ("/with space", "file:///with%20space"),
        ("/job#1?", "file:///job%231%3F"),
        ("file:///job%231%3F", "file:///job%231%3F"),
        ("file:///with%20space", "file:///with%20space"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket//a//b/", "s3://bucket/a/b"),
        ("s3a://bucket/a", "s3://bucket/a"),
        ("s3://bucket/.a/b..", "s3://bucket/.a/b.."),
    ],
)
def test_each_place_has_one_url(given, normal):
    assert naming.normalise_url(given) == normal
    assert naming.normalise_url(normal) == normal


def test_a_relative_path_begins_at_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert naming.local_path(naming.normalise_url("state")) == tmp_path / "state"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "gs://b/x",
        "s3:///x",
        "s3:/bucket/x",
        "s3a:bucket/x",
        "s3://key:secret@bucket/x",
        "s3://bucket/./x",
        "s3://bucket/../x",
        "s3a://bucket/x/..",
        "file://host/x",
        "file:///data/job#1",
        "file:///data/job?1",
        "file:///data/job#",
    ],
)
def test_a_url_that_cannot_work_is_refused(url):
    with pytest.raises(errors.SpecInvalid) as caught:
        naming.normalise_url(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["a/b", "..", ".", "ü x", "a%2Fb", "a b"])
def test_any_name_becomes_one_safe_segment_and_no_two_become_the_same(name):
    quoted = naming.quote_segment(name)
    assert naming.check_key(quoted) == quoted
    assert "/" not in quoted
    assert quoted != naming.quote_segment(name + "x")


def test_ids_do_not_repeat():
    assert len({naming.random_id() for _ in range(1000)}) == 1000


def test_the_writer_of_a_data_file_is_told_from_its_path():
    assert layout.written_by("chk-7/" + layout.data_name(3, 7, "ab12")) == (3, 7)
    assert layout.written_by("shared/" + layout.data_name(3, 7, "ab12")) == (3, 7)
    for other in ("chk-7/_metadata", "log/000000000001", "shared/x", "chk-7/a/3-7-ab", "3-7-ab"):
        assert layout.written_by(other) is None
    assert layout.checkpoint_of_metadata("chk-7/_metadata") == 7
    assert layout.checkpoint_of_metadata("chk-7/x") is None
    assert layout.savepoint_folder("0123456789abcdef", "77") == "savepoint-012345-77"


@pytest.mark.parametrize("base", ["file:///data/with%20space", "s3://bucket/with space"])
def test_a_key_joined_to_a_url_comes_back_when_it_is_split(base):
    url = naming.join_url(base, "my savepoint")
    assert naming.normalise_url(url) == url
    assert naming.split_url(url) == (base, "my savepoint")
