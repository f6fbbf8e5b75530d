from __future__ import annotations

import pydantic
import pytest

from sparkstate.control import documents


def status(**fields: object) -> documents.JobStatus:
    return documents.JobStatus.model_validate({"job_uid": "u", "name": "n", "phase": "RUNNING", **fields})


def test_the_watermark_before_the_first_one_leaves_as_null() -> None:
    assert status(watermark_ms=documents.NO_WATERMARK).watermark_ms is None
    assert status(watermark_ms=-1).watermark_ms == -1
    assert status(watermark_ms=documents.END_OF_INPUT_WATERMARK).watermark_ms == 2**63 - 1


def test_the_watermarks_are_those_of_the_functions_module() -> None:
    functions = pytest.importorskip("sparkstate.functions")
    assert functions.MIN_WATERMARK == documents.NO_WATERMARK
    assert functions.MAX_WATERMARK == documents.END_OF_INPUT_WATERMARK


def test_a_reader_ignores_fields_of_a_newer_server() -> None:
    assert status(something_new=1) == status()


def test_a_request_with_an_unknown_field_is_refused() -> None:
    with pytest.raises(pydantic.ValidationError, match="something_new"):
        documents.SavepointRequest.model_validate({"something_new": 1})


def test_documents_cannot_be_changed_and_survive_json() -> None:
    one = status(slots=[{"index": 0, "shards": [0, 1], "memory": {"budget": 5}}])
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        one.epoch = 3
    assert documents.JobStatus.model_validate_json(one.model_dump_json()) == one
