"""Which options bound an epoch: Spark ignores one that is misspelt, and the whole input would be one epoch."""

from __future__ import annotations

import pytest

from sparkstate.spark import source_limits


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        ("file", "maxFilesPerTrigger"),
        ("file", "maxbytespertrigger"),
        ("kafka", "maxOffsetsPerTrigger"),
        ("rate-micro-batch", "rowsPerBatch"),
        ("kinesis", "maxRecordsPerTrigger"),
    ],
)
def test_the_options_that_a_source_has_bound_it(kind: str, option: str) -> None:
    assert source_limits.is_bounded(kind, ["path", option])


SLIPS = {
    (
        "file",
        "maxFilePerTrigger",
    ): "maxFilePerTrigger is not an option of 'x'; did you mean maxFilesPerTrigger?",
    (
        "file",
        "maxFilesPerTriger",
    ): "maxFilesPerTriger is not an option of 'x'; did you mean maxFilesPerTrigger?",
    (
        "file",
        "maxBytePerTrigger",
    ): "maxBytePerTrigger is not an option of 'x'; did you mean maxBytesPerTrigger?",
    ("file", "maxFileAge"): "set maxFilesPerTrigger or maxBytesPerTrigger",
    ("file", "rowsPerBatch"): "set maxFilesPerTrigger or maxBytesPerTrigger",
    (
        "kafka",
        "maxFilesPerTrigger",
    ): "maxFilesPerTrigger is not an option of 'x'; did you mean maxOffsetsPerTrigger?",
    ("kafka", "minOffsetsPerTrigger"): "set maxOffsetsPerTrigger",
    ("kafka", "maxTriggerDelay"): "set maxOffsetsPerTrigger",
    ("kafka", "maxRecordsPerPartition"): "set maxOffsetsPerTrigger",
    ("rate-micro-batch", "rowPerBatch"): "rowPerBatch is not an option of 'x'; did you mean rowsPerBatch?",
    ("kinesis", "maxAge"): "set maxFilesPerTrigger or maxBytesPerTrigger",
}


@pytest.mark.parametrize(("kind", "option"), SLIPS)
def test_any_other_option_is_no_bound_and_a_slip_is_told_the_right_name(kind: str, option: str) -> None:
    assert not source_limits.is_bounded(kind, [option])
    assert source_limits.remedy(kind, "x", [option]) == SLIPS[kind, option]
