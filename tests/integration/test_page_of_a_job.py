"""The job page in a real browser, in front of a real driver."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from support.drivers.page import expect_tile, watched

from sparkstate.control.client import ControlClient
from sparkstate.control.documents import SavepointPhase
from sparkstate_tools.drivers import driving, totals
from sparkstate_tools.parts import browser as browsers

pytestmark = [pytest.mark.spark, pytest.mark.browser]


def test_a_person_sees_the_running_job_and_takes_a_savepoint(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=3)
    document = driving.manifest(
        tmp_path, "totals.py", trigger={"processingTime": "200ms"}, stateBackend={"type": "rocksdb"}
    )
    with driving.Driver(tmp_path, document) as driver, driver.client() as client:
        driving.wait_for(
            lambda: client.status().rows_total >= len(rows), driving.PATIENCE_S, "all rows", driver.process
        )
        driving.wait_for(
            lambda: client.status().checkpoints_completed > 0,
            driving.PATIENCE_S,
            "a checkpoint",
            driver.process,
        )
        with (
            browsers.launched(browsers.chromium()) as chromium,
            watched(chromium, driver.address) as visit,
        ):
            page = visit(driving.TOKEN)
            expect(page.locator("body")).to_contain_text("RUNNING")
            expect(page.locator("body")).to_contain_text("job")
            assert driving.TOKEN not in page.url
            expect_tile(page, "Epoch", re.compile(r"\d"))
            look_at_the_operators(page, client, rows=len(rows))
            look_at_the_logs(page)
            page.get_by_role("button", name=re.compile("savepoint", re.IGNORECASE)).first.click()
            driving.wait_for(
                lambda: client.status().last_savepoint is not None,
                driving.PATIENCE_S,
                "the savepoint",
                driver.process,
            )
            expect(page.locator("body")).to_contain_text("savepoint-")
        taken = client.status().last_savepoint
        assert taken is not None and taken.trigger_id is not None
        stored = client.savepoint(taken.trigger_id)
        assert stored is not None and stored.status == SavepointPhase.COMPLETED
        client.cancel()
        driver.finish()


def look_at_the_operators(page: Page, client: ControlClient, rows: int) -> None:
    """The picture is the job's, and its figures are those of the status."""
    graph, status = client.graph(), client.status()
    assert [node.id for node in graph.nodes] == [
        "source:0", "operator:totals", "operator:groups", "side-output:totals/quiet",
        "sink:totals", "sink:totals-quiet", "sink:groups",
    ]  # fmt: skip
    assert {(edge.source, edge.target) for edge in graph.edges} == {
        ("source:0", "operator:totals"),
        ("operator:totals", "operator:groups"),
        ("operator:totals", "side-output:totals/quiet"),
        ("operator:totals", "sink:totals"),
        ("side-output:totals/quiet", "sink:totals-quiet"),
        ("operator:groups", "sink:groups"),
    }
    assert (graph.nodes[0].name, graph.nodes[1].detail) == ("file", "Totals by k")
    totals, groups = (node.figures for node in graph.nodes[1:3])
    assert totals is not None and groups is not None
    assert totals.rows_in_total == status.rows_total == rows
    assert groups.rows_in_total == groups.rows_out_total == rows
    assert totals.late_rows_total + groups.late_rows_total == status.late_rows_total
    assert totals.rows_in_per_s == pytest.approx(status.rows_per_s, rel=0.9)
    assert totals.state_rows and groups.state_rows and totals.busy_share is not None
    assert page.locator("#graph [data-node]").count() == len(graph.nodes)
    expect(page.locator("[data-operator='totals'] td").first).to_contain_text(f"{rows}")
    expect(page.locator("[data-operator='groups'] td").nth(1)).to_contain_text(f"{rows}")
    expect(page.locator("[data-series='state_bytes']")).to_contain_text(re.compile("KiB|MiB"))
    driving.wait_for(lambda: client.series().last > 0, driving.PATIENCE_S, "a point of the series")
    assert max(client.series().state_bytes, key=lambda value: value or 0)


def look_at_the_logs(page: Page) -> None:
    page.locator("#logs summary").click()
    expect(page.locator("#log-lines")).to_contain_text("the slots have started")
    page.get_by_label("Log", exact=True).select_option("slot-1")
    expect(page.locator("#log-lines")).to_contain_text("totals opens in slot 1")
    assert driving.TOKEN not in page.content()
