"""The job page in a real browser, in front of a real driver."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect
from support.drivers.page import expect_tile, watched

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
