"""The button of the page that takes a savepoint, in a real browser against a real endpoint."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from support.drivers.page import Open, watched

from sparkstate import keys
from sparkstate.control import documents, server
from sparkstate.control.documents import SavepointPhase
from sparkstate_tools.drivers.control_job import TOKEN, InMemoryJob, checkpoint

pytestmark = pytest.mark.browser
SAVED = "file:///s/savepoint-3"


@pytest.fixture
def job() -> InMemoryJob:
    return InMemoryJob()


@pytest.fixture
def open_page(chromium: Browser, job: InMemoryJob) -> Iterator[Open]:
    with (
        server.ControlServer(job, keys.of_token(TOKEN)) as control,
        watched(chromium, control.address) as visit,
    ):
        yield visit


def ask(page: Page) -> None:
    page.get_by_role("button", name="Take a savepoint").click()


def finish(job: InMemoryJob) -> None:
    """The only savepoint that was asked for has completed."""
    (request,) = job.requests()
    job.finish_savepoint(request.trigger_id, status=SavepointPhase.COMPLETED, location=SAVED)


def expect_result(page: Page, text: str) -> None:
    expect(page.locator("#savepoint-result")).to_contain_text(text)


def test_the_button_takes_a_savepoint_and_follows_it_to_its_end(open_page: Open, job: InMemoryJob) -> None:
    page = open_page()
    button = page.get_by_role("button", name="Take a savepoint")
    button.click()
    expect(button).to_be_disabled()
    expect(page.locator("#savepoint-result")).to_contain_text("waiting for the end of the epoch")
    (request,) = job.requests()
    assert (request.stop, request.drain, request.target_directory) == (False, False, None)
    assert request.trigger_id is not None
    job.history.append(checkpoint(3, kind=documents.CheckpointKind.SAVEPOINT, path="file:///s/savepoint-3"))
    job.finish_savepoint(
        request.trigger_id, status=documents.SavepointPhase.COMPLETED, location="file:///s/savepoint-3"
    )
    expect(page.locator("#savepoint-result")).to_have_text("Saved: file:///s/savepoint-3")
    expect(page.locator("#savepoints")).to_contain_text("file:///s/savepoint-3")
    expect(button).to_be_enabled()


def test_a_savepoint_that_fails_says_why(open_page: Open, job: InMemoryJob) -> None:
    page = open_page()
    page.get_by_role("button", name="Take a savepoint").click()
    expect(page.locator("#savepoint-result")).to_be_visible()
    (request,) = job.requests()
    assert request.trigger_id is not None
    job.finish_savepoint(request.trigger_id, status=documents.SavepointPhase.FAILED, failure="s3://b is away")
    expect(page.locator("#savepoint-result")).to_have_text("Failed: s3://b is away")


def test_a_lost_answer_while_a_savepoint_is_under_way_is_no_failure(
    open_page: Open, job: InMemoryJob
) -> None:
    page = open_page()
    ask(page)
    expect_result(page, "waiting for the end of the epoch")
    page.route("**/v1/savepoints/*", lambda route: route.abort("connectionreset"), times=1)
    expect_result(page, "not known yet (no connection), asking again")
    expect(page.get_by_role("button", name="Take a savepoint")).to_be_disabled()
    expect_result(page, "waiting for the end of the epoch")
    away = documents.Problem(
        error="the log is away", reason="StorageUnavailable", remedy="wait"
    ).model_dump_json()
    page.route("**/v1/savepoints/*", lambda route: route.fulfill(status=503, body=away), times=1)
    expect_result(page, "not known yet (the log is away), asking again")
    finish(job)
    expect_result(page, f"Saved: {SAVED}")


def test_a_request_whose_answer_is_lost_is_followed_by_its_id(open_page: Open, job: InMemoryJob) -> None:
    def lose(route: Route) -> None:
        route.fetch()
        route.abort("connectionreset")

    page = open_page()
    page.route("**/v1/savepoints", lose)
    ask(page)
    expect_result(page, "not known yet (no connection), asking again")
    expect_result(page, "waiting for the end of the epoch")
    finish(job)
    expect_result(page, f"Saved: {SAVED}")


def test_a_request_that_never_came_has_failed(open_page: Open, job: InMemoryJob) -> None:
    page = open_page()
    page.route("**/v1/savepoints", lambda route: route.abort("connectionreset"))
    ask(page)
    expect_result(page, "Failed: the request was lost")
    assert job.requests() == []
    page.unroute("**/v1/savepoints")
    ask(page)
    expect_result(page, "waiting for the end of the epoch")


def test_the_key_read_is_told_which_key_it_needs_and_the_key_can_be_entered(
    open_page: Open, job: InMemoryJob
) -> None:
    known = keys.of_token(TOKEN)
    page = open_page(known.read)
    ask(page)
    expect(page.locator("#admin-why")).to_have_text(
        "Taking a savepoint needs the key admin; this key may only read."
    )
    field, button = page.get_by_label("Key admin"), page.get_by_role("button", name="Take it with this key")
    expect(field).to_be_focused()
    expect(page.locator("#savepoint-result")).to_be_hidden()
    field.fill("admin-0123456789abcdef")
    button.click()
    expect(page.locator("#admin-why")).to_have_text(
        "Taking a savepoint needs the key admin; the key was refused."
    )
    expect(page.locator("#job")).to_be_visible()  # the page still has its own key
    assert job.requests() == []
    field.fill(known.admin)
    button.click()
    expect(page.locator("#admin")).to_be_hidden()
    expect_result(page, "waiting for the end of the epoch")
    finish(job)
    expect_result(page, f"Saved: {SAVED}")
    assert field.input_value() == ""
