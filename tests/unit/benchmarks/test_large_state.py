"""The large-state job and its independent calculation agree, and the check sees every kind of mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.examples import example

from sparkstate import errors
from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness
from sparkstate_tools.large_state import check, generate
from sparkstate_tools.large_state import plan as plans

job = example.load(example.ROOT / "benchmarks" / "large_state" / "job.py")
Row = tuple[int, int, int]


@pytest.fixture(scope="module")
def plan() -> plans.Plan:
    return plans.Plan(keys=300, value_bytes=50, passes=4, rows_per_file=70)


@pytest.fixture(scope="module")
def rows(plan) -> list[Row]:
    """What the job itself puts out."""
    chain = job.Chain(plan.value_bytes)
    with KeyedProcessHarness(chain, key=lambda row: row.k, key_type=Types.LONG()) as harness:
        for keys, values in plan.records():
            assert len(set(keys.tolist())) == len(keys)
            harness.process_elements(
                [({"k": k, "v": v}, None) for k, v in zip(keys.tolist(), values.tolist(), strict=True)]
            )
        return harness.output()


def verdict(plan: plans.Plan, rows: list[Row], folder: Path) -> dict[str, Any]:
    names = ("k", "count", "checksum")
    table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(names)})
    pq.write_table(table, folder / "part.parquet")
    found: dict[str, Any] = check.check(plan, folder)
    return found


def test_the_job_puts_out_what_the_plan_alone_foretells(plan, rows, tmp_path):
    found = verdict(plan, rows, tmp_path)
    assert found["equal"]
    assert found["rows"] == len(rows) > plan.keys
    assert {row[0] for row in rows} == set(range(plan.keys))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rows: rows[:-1],
        lambda rows: [*rows, rows[3]],
        lambda rows: [*rows[:-1], rows[0]],
        lambda rows: [(rows[0][0], rows[0][1], rows[0][2] + 1), *rows[1:]],
        lambda rows: [(rows[0][0] + 1, *rows[0][1:]), *rows[1:]],
    ],
    ids=["a row is missing", "one is there twice", "one instead of another", "a checksum", "a key"],
)
def test_a_wrong_output_is_seen(plan, rows, tmp_path, spoil):
    assert not verdict(plan, spoil(rows), tmp_path)["equal"]


def test_a_damaged_value_in_state_stops_the_job():
    chain = job.Chain(50)
    with KeyedProcessHarness(chain, key=lambda row: row.k, key_type=Types.LONG()) as harness:
        harness.process_element({"k": 1, "v": 2})
        chain.noise = bytes(len(chain.noise))
        with pytest.raises(errors.UserCodeError, match="not the one that was written last"):
            harness.process_element({"k": 1, "v": 3})


def test_the_input_is_written_file_by_file_with_its_plan(plan, tmp_path):
    count = generate.write(plan, tmp_path)
    files = sorted(tmp_path.glob("*.parquet"))
    assert len(files) == count
    assert plans.Plan.load(tmp_path) == plan
    assert sum(pq.read_metadata(path).num_rows for path in files) == sum(len(k) for k, _ in plan.records())
    assert [path.stat().st_mtime for path in files] == sorted(path.stat().st_mtime for path in files)
