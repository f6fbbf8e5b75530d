"""The operator compares the URLs of savepoints in a form of its own. A user writes one spelling, and the engine reports
another: both must be the same folder to the operator."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sparkstate.storage import naming
from sparkstate_operator.core import locations

SEGMENTS = st.lists(
    st.sampled_from(["a", "b c", "%41", "..", ".", "", "ü", "#", "?", "_metadata"]), max_size=5
)
PLACES = st.sampled_from(
    [
        "/mnt",
        "//mnt",
        "file:/mnt",
        "file:///mnt",
        "file:////mnt",
        "file://localhost/mnt",
        "s3://b",
        "s3a://b",
        "s3n://b",
    ]
)


@given(PLACES, SEGMENTS)
def test_the_engines_spelling_of_a_url_is_the_same_folder(place: str, segments: list[str]) -> None:
    url = "/".join([place, *segments])
    # The engine refuses such URLs: one ends at that character, and a bucket has no folders to step through.
    assume(not (place.startswith("file:") and {"#", "?"} & set(segments)))
    assume(not (place.startswith("s3") and {".", ".."} & set(segments)))
    assert locations.folder(url) == locations.folder(naming.normalise_url(url))


@pytest.mark.parametrize("name", ["sp-1", "a b", "%41", "ü"])
def test_two_folders_are_told_apart(tmp_path: Path, name: str) -> None:
    one, other = (naming.normalise_url(str(tmp_path / each)) for each in (name, f"{name}x"))
    assert locations.folder(one) != locations.folder(other)
    assert locations.folder(one) != locations.folder(f"{one}/deeper")
