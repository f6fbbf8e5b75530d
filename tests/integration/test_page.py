"""The page that a person looks at, in a real browser against a real endpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Request, expect
from support.drivers.page import Open, boxes, contrast, expect_tile, watched

from sparkstate import errors, keys
from sparkstate.control import client, documents, server
from sparkstate_tools.drivers import control_job
from sparkstate_tools.drivers.control_job import TOKEN, InMemoryJob, checkpoint, slot

pytestmark = pytest.mark.browser


@pytest.fixture
def job() -> InMemoryJob:
    status = documents.JobStatus(
        job_uid="uid-1",
        name="rotations",
        namespace="flights",
        phase=documents.DriverPhase.RUNNING,
        backend="rocksdb",
        incarnation=3,
        epoch=1210,
        rows_total=336_776,
        rows_per_s=2150.4,
        watermark_ms=1_388_500_000_000,
        lag_ms=4_300,
        state_bytes=56 * 1024 * 1024,
        slots=(slot(0), slot(1)),
        checkpoints_completed=2,
        last_checkpoint=checkpoint(2),
    )
    made = InMemoryJob(status)
    made.history = [checkpoint(1), checkpoint(2)]
    return made


@pytest.fixture
def control(job: InMemoryJob) -> Iterator[server.ControlServer]:
    with server.ControlServer(job, keys.of_token(TOKEN)) as running:
        yield running


@pytest.fixture
def open_page(chromium: Browser, control: server.ControlServer) -> Iterator[Open]:
    with watched(chromium, control.address) as visit:
        yield visit


def test_the_page_shows_the_jobs_figures(open_page: Open) -> None:
    page = open_page()
    expect(page.get_by_role("heading", name="flights/rotations")).to_be_visible()
    expect(page.locator("#phase")).to_have_text("RUNNING")
    expect(page.locator("#job-facts")).to_contain_text("incarnation 3 · rocksdb")
    expect(page).to_have_title("rotations · running · sparkstate")
    expect_tile(page, "Epoch", "1,210 336,776 rows")
    expect_tile(page, "Rows per second", re.compile(r"^2,150"))
    expect_tile(page, "Watermark lag", "4.3 s 2013-12-31 14:26 UTC")
    expect_tile(page, "State", "56 MiB in 2 slots")
    expect_tile(page, "Last checkpoint", re.compile(r"number 2, epoch 10$"))


def test_the_token_leaves_the_address_bar_and_travels_as_a_header_only(
    open_page: Open, control: server.ControlServer, chromium: Browser
) -> None:
    requests: list[Request] = []
    page = open_page(None)
    page.on("request", lambda request: requests.append(request))  # noqa: PLW0108  playwright marks its handlers
    page.goto("about:blank")
    page.goto(f"{control.address}/ui#token={TOKEN}")  # also by the short path, which leads on
    expect(page.locator("#job")).to_be_visible()
    expect(page).to_have_url(f"{control.address}/ui/")
    asked = [request for request in requests if "/v1/" in request.url]
    assert asked
    for request in asked:
        assert request.header_value("authorization") == f"Bearer {TOKEN}"
    for request in requests:
        assert TOKEN not in request.url.partition("#")[0]
        assert TOKEN not in (request.header_value("referer") or "")
        assert request.header_value("cookie") is None
        if "/v1/" not in request.url:
            assert request.header_value("authorization") is None
    assert page.evaluate("document.cookie + Object.values(localStorage).join()") == ""
    page.reload()
    expect(page.locator("#job")).to_be_visible()  # the tab still has it


def test_the_link_that_the_client_gives_opens_the_page(
    open_page: Open, control: server.ControlServer
) -> None:
    page = open_page(None)
    with client.ControlClient(control.address, TOKEN) as talking:
        page.goto("about:blank")
        page.goto(talking.page_url)
    expect(page.locator("#phase")).to_have_text("RUNNING")


def test_a_wrong_token_is_said_and_the_right_one_can_be_entered(open_page: Open) -> None:
    page = open_page("wrong-token-0123456789")
    expect(page.locator("#ask-why")).to_contain_text("The token was refused")
    expect(page.locator("#job")).to_be_hidden()
    assert "flights" not in page.content()
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Show the job").click()
    expect(page.locator("#job")).to_be_visible()
    expect(page.locator("#ask")).to_be_hidden()
    assert page.get_by_label("Token").input_value() == ""


def test_without_a_token_the_page_asks_for_one_and_asks_the_job_nothing(
    open_page: Open, control: server.ControlServer
) -> None:
    page = open_page(None)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    expect(page.get_by_label("Token")).to_be_focused()
    expect(page.locator("#ask")).to_contain_text("sparkstate status --open")
    assert not [url for url in asked if "/v1/" in url]


def test_the_chart_grows_with_a_new_checkpoint(open_page: Open, job: InMemoryJob) -> None:
    page = open_page()
    columns = page.locator("#chart g[data-checkpoint]")
    expect(columns).to_have_count(2)
    expect(page.locator("#readout")).to_contain_text("Checkpoint 2")
    new = checkpoint(
        3, duration_ms=2_500, sync_pause_ms=40, state_bytes=80 * 2**20, uploaded_bytes=20 * 2**20
    )
    job.history.append(new)
    job.update(last_checkpoint=new, checkpoints_completed=3)
    expect(columns).to_have_count(3)
    expect(page.locator("#readout")).to_contain_text("2.5 s, epoch paused 40 ms · 80 MiB, uploaded 20 MiB")
    expect(page.locator("#checkpoint-counts")).to_have_text("3 completed")
    last = page.locator("#chart g[data-checkpoint='3']")
    full, delta = (float(last.locator(f".{name}").get_attribute("height")) for name in ("full", "delta"))
    assert full == pytest.approx(4 * delta, rel=0.01)
    first = page.locator("#chart g[data-checkpoint='1'] .duration")
    ratio = float(last.locator(".duration").get_attribute("height")) / float(first.get_attribute("height"))
    assert ratio == pytest.approx(2_500 / job.history[0].duration_ms, rel=0.01)


def test_failed_running_and_savepoint_columns_can_be_told_apart(open_page: Open, job: InMemoryJob) -> None:
    nothing = {
        "duration_ms": None,
        "sync_pause_ms": None,
        "state_bytes": None,
        "uploaded_bytes": None,
        "path": None,
    }
    failed = documents.CheckpointStatus.FAILED
    job.history += [
        checkpoint(3, status=failed, failure="StorageUnavailable: s3://b answered 503", **nothing),
        checkpoint(4, kind=documents.CheckpointKind.SAVEPOINT),
        checkpoint(5, status=documents.CheckpointStatus.IN_PROGRESS, **nothing),
    ]
    page = open_page()
    expect(page.locator("#chart g[data-status='FAILED'] .failed")).to_have_count(2)
    expect(page.locator("#chart g[data-checkpoint='4'] .savepoint")).to_have_count(1)
    expect(page.locator("#chart g[data-status='IN_PROGRESS'] .running")).to_have_count(2)
    expect(page.locator("#readout")).to_contain_text("Checkpoint 5")
    page.locator("#chart g[data-checkpoint='3'] .hit").hover()
    expect(page.locator("#readout")).to_contain_text("failed: StorageUnavailable: s3://b answered 503")
    page.get_by_text("As a table").click()
    expect(page.locator("#checkpoint-rows tr")).to_have_count(5)
    expect(page.locator("#checkpoint-rows tr").first).to_contain_text("IN_PROGRESS")


def test_a_long_history_shows_its_newest_part_within_the_page(open_page: Open, job: InMemoryJob) -> None:
    job.history = [checkpoint(number) for number in range(1, 201)]
    page = open_page()
    expect(page.locator("#chart g[data-checkpoint]")).to_have_count(60)
    expect(page.locator("#chart g[data-checkpoint='200']")).to_have_count(1)
    chart, inside = boxes(page, "#chart, #chart g[data-checkpoint='200'] .full")
    assert inside["right"] <= chart["right"]


def test_slots_show_state_and_memory_against_their_budget(open_page: Open, job: InMemoryJob) -> None:
    mib = 2**20
    tight = documents.SlotMemory(budget=100 * mib, cache=80 * mib, write_buffers=30 * mib)
    job.update(
        slots=(
            slot(0, memory=documents.SlotMemory(budget=200 * mib, cache=30 * mib, write_buffers=20 * mib)),
            slot(1, memory=tight),
            slot(2, memory=documents.SlotMemory(cache=5 * mib), alive=False, pid=None),
        )
    )
    page = open_page()
    first, second, third = (page.locator(f"[data-slot='{index}']") for index in range(3))
    expect(first).to_contain_text("50 MiB of 200 MiB (25 %)")
    expect(first).to_contain_text("worker-1 pid 4000")
    expect(first).to_contain_text("0–7")
    meter = first.get_by_role("meter", name="Memory")
    memory = "[data-slot='0'] [role='meter'][aria-label='Memory']"
    whole, *used = boxes(page, f"{memory}, {memory} i")
    assert sum(bar["width"] for bar in used) / whole["width"] == pytest.approx(0.25, abs=0.02)
    expect(meter).not_to_have_class(re.compile("over"))
    expect(second).to_contain_text("110 MiB of 100 MiB (110 %)")
    expect(second.get_by_role("meter", name="Memory")).to_have_class(re.compile("over"))
    expect(third).to_contain_text("gone")
    expect(third).to_contain_text("5 MiB, without a budget")


def test_metrics_of_the_jobs_own_have_a_table_when_there_are_any(open_page: Open, job: InMemoryJob) -> None:
    page = open_page()
    expect(page.locator("#metrics")).to_be_hidden()
    shown: list[tuple[str, dict[str, float], str]] = [
        ("counter", {"count": 1_234}, "1,234"),
        ("gauge", {"least": 2, "largest": 7.5}, "2 to 7.5"),
        ("meter", {"count": 90, "rate": 1.5}, "90, 1.5 per second"),
        (
            "distribution",
            {"count": 4, "sum": 10, "least": 1, "largest": 4},
            "4 values of 1 to 4, 2.5 on average",
        ),
        ("distribution", {"count": 0}, "no value yet"),
    ]
    made = [documents.UserMetric(operator="op", name="a.<b>m</b>", kind=k, **n) for k, n, _ in shown]
    job.update(user_metrics=tuple(made))
    texts = [f"opa.<b>m</b>{kind}{text}" for kind, _, text in shown]
    expect(page.locator("#metric-rows tr")).to_have_text(texts)
    expect(page.locator("#metrics")).to_be_visible()


def test_a_recovery_appears_with_its_cause_and_how_long_it_took(open_page: Open, job: InMemoryJob) -> None:
    page = open_page()
    expect(page.locator("#recoveries")).to_have_text("No recovery: nothing has failed.")
    lost = documents.Recovery(
        at_ms=control_job.NOW_MS, cause="SlotLost: slot 1 (pid 4001) is gone", incarnation=4
    )
    job.update(phase=documents.DriverPhase.RECOVERING, restarts=1, recoveries=(lost,))
    expect(page.locator("#phase")).to_have_text("RECOVERING")
    expect(page.locator("#recoveries")).to_contain_text("under way")
    back = lost.model_copy(update={"duration_ms": 2_900, "restored_from": "file:///c/chk-2"})
    job.update(phase=documents.DriverPhase.RUNNING, recoveries=(back,))
    expect(page.locator("#recoveries")).to_contain_text("took 2.9 s")
    expect(page.locator("#recoveries")).to_contain_text("slot 1 (pid 4001) is gone")
    expect(page.locator("#recoveries")).to_contain_text("incarnation 4, from file:///c/chk-2")
    expect_tile(page, "Restarts", re.compile(r"^1\s"))


def test_of_many_recoveries_the_newest_are_shown_and_all_restarts_counted(
    open_page: Open, job: InMemoryJob
) -> None:
    many = [
        documents.Recovery(at_ms=number, cause=f"cause {number}", duration_ms=1, incarnation=number)
        for number in range(1, 31)
    ]
    job.update(recoveries=tuple(many), restarts=1_250)
    page = open_page()
    items = page.locator("#recoveries > li")
    expect(items).to_have_count(11)
    expect(items.first).to_contain_text("cause 30")
    expect(items.last).to_have_text("and 20 earlier")
    expect(page.locator("#restarts")).to_have_text("1,250 restarts in this driver's life")


def test_a_lost_driver_is_said_and_its_return_noticed(
    open_page: Open, control: server.ControlServer, job: InMemoryJob
) -> None:
    page = open_page()
    expect(page.locator("#phase")).to_have_text("RUNNING")
    control.stop()
    expect(page.locator("#banner")).to_contain_text("The driver does not answer")
    expect(page.locator("#job")).to_be_visible()  # what was known stays readable
    job.update(epoch=9_999)
    with server.ControlServer(job, keys.of_token(TOKEN), port=control.port):
        expect(page.locator("#banner")).to_be_hidden()
        expect_tile(page, "Epoch", re.compile(r"^9,999"))


def test_an_error_of_the_job_is_shown_with_its_remedy(open_page: Open, job: InMemoryJob) -> None:
    page = open_page()
    job.raises = errors.SlotLost("slot 1 is gone")
    expect(page.locator("#banner")).to_contain_text("slot 1 is gone (wait: the job restarts")


def test_a_failed_job_shows_its_last_failure(open_page: Open, job: InMemoryJob) -> None:
    failure = documents.Failure(
        at_ms=control_job.NOW_MS, reason="UserCodeError", message="row 7: division by zero"
    )
    job.update(phase=documents.DriverPhase.FAILED, last_failure=failure)
    page = open_page()
    expect(page.locator("#banner")).to_have_text("UserCodeError: row 7: division by zero")
    expect(page.locator("#phase")).to_have_class(re.compile("bad"))
    expect(page.get_by_role("button", name="Take a savepoint")).to_be_disabled()


def test_a_job_that_knows_nothing_yet_shows_dashes(open_page: Open, job: InMemoryJob) -> None:
    job.current = documents.JobStatus(job_uid="u", name="new", phase=documents.DriverPhase.STARTING)
    job.history = []
    page = open_page()
    expect(page.locator("#slot-rows")).to_have_text("No slot yet.")
    expect(page.locator("#readout")).to_have_text("No checkpoint yet.")
    expect(page.locator("#savepoints")).to_have_text("No savepoint yet.")
    expect_tile(page, "Epoch", "– 0 rows")
    expect_tile(page, "Watermark lag", "– no watermark yet")
    expect_tile(page, "Last checkpoint", "– none yet")
    assert not re.search(r"NaN|undefined|null|Infinity|Invalid", page.locator("body").inner_text())


def test_the_end_of_a_bounded_input_is_no_date(open_page: Open, job: InMemoryJob) -> None:
    job.update(watermark_ms=documents.END_OF_INPUT_WATERMARK, lag_ms=None)
    expect_tile(open_page(), "Watermark lag", "– the input has ended")


def test_a_storage_that_is_away_is_named(open_page: Open, job: InMemoryJob) -> None:
    place = documents.StorageAway(url="s3://bucket/out", doing="publish", since_ms=0, message="no answer")
    job.update(storage_away=(place,))
    expect(open_page().locator("#about")).to_contain_text("s3://bucket/out")


def test_what_a_job_says_is_text_and_never_markup(open_page: Open, job: InMemoryJob) -> None:
    evil = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    job.update(
        name=evil,
        notices=(evil,),
        sinks=(evil,),
        recoveries=(documents.Recovery(at_ms=0, cause=evil, incarnation=1),),
        slots=(slot(0, host=evil),),
        storage_away=(documents.StorageAway(url=evil, doing=evil, since_ms=0, message=evil),),
    )
    job.history = [checkpoint(1, kind=documents.CheckpointKind.SAVEPOINT, path=evil)]
    page = open_page()
    expect(page.locator("#job-name")).to_have_text(f"flights/{evil}")
    expect(page.locator("#about")).to_contain_text(evil)
    assert page.locator("main img, main script").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast_in_light_and_dark(open_page: Open, job: InMemoryJob, scheme: str) -> None:
    page = open_page(color_scheme=scheme)
    expect(page.locator("#job")).to_be_visible()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor").startswith("rgb(1")
    assert dark == (scheme == "dark")
    pairs = [
        ("h1", "body"),
        ("#job-facts", "body"),
        (".under", ".card"),
        ("td", ".card"),
        ("#phase", "#phase"),
    ]
    for text, ground in [*pairs, ("#savepoint", "#savepoint"), (".tiles dt", ".tiles > div")]:
        assert contrast(page, text, ground) >= 4.5, (scheme, text)


def test_the_page_fits_a_narrow_screen(open_page: Open) -> None:
    page = open_page(viewport={"width": 360, "height": 800})
    expect(page.locator("#chart svg")).to_be_visible()
    page.wait_for_function("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_the_chart_follows_the_width_of_the_window(open_page: Open) -> None:
    page = open_page(viewport={"width": 1200, "height": 800})
    expect(page.locator("#chart svg")).to_have_attribute("viewBox", re.compile(r"^0 0 (1\d\d\d|[89]\d\d) "))
    page.set_viewport_size({"width": 600, "height": 800})
    expect(page.locator("#chart svg")).to_have_attribute("viewBox", re.compile(r"^0 0 [45]\d\d "))
