"""The parts of the page that show the job at work: operators, series, logs, long work. A real browser draws them."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from support.drivers import drawn_job
from support.drivers.page import Open, boxes, contrast, painted_contrast, watched

from sparkstate import keys
from sparkstate.control import documents, picture, server
from sparkstate.control.picture import NodeKind
from sparkstate_tools.drivers.control_job import TOKEN, InMemoryJob, slot

pytestmark = pytest.mark.browser
WIDTHS = pytest.mark.parametrize("width", [400, 800, 1200, 2000])
EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>&amp;"


@pytest.fixture
def job() -> InMemoryJob:
    return drawn_job.job()


@pytest.fixture
def open_page(chromium: Browser, job: InMemoryJob) -> Iterator[Open]:
    with (
        server.ControlServer(job, keys.of_token(TOKEN)) as control,
        watched(chromium, control.address) as visit,
    ):
        yield visit


def drawn(page: Page) -> Page:
    """The page once everything is on it."""
    expect(page.locator("#graph svg")).to_be_visible()
    expect(page.locator("#series-charts svg")).to_have_count(7)
    return page


def texts_outside(page: Page) -> list[str]:
    """Texts of the picture that leave the card of their node, or touch another text of its line."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll('#graph [data-node]')].flatMap((group) => {
          const card = group.querySelector('.node').getBoundingClientRect();
          const texts = [...group.querySelectorAll('text')].map((each) => [each, each.getBoundingClientRect()]);
          const within = (box) => box.left >= card.left + 4 && box.right <= card.right - 4
            && box.top >= card.top && box.bottom <= card.bottom;
          const touches = (one, box) => texts.some(([other, its]) => other !== one
            && other.getAttribute('y') === one.getAttribute('y') && box.left < its.right && its.left < box.right);
          return texts.filter(([one, box]) => !within(box) || touches(one, box)).map(([one]) => one.textContent);
        })"""
    )
    return found


@WIDTHS
def test_the_picture_has_the_jobs_nodes_and_ways_and_no_two_nodes_overlap(
    open_page: Open, job: InMemoryJob, width: int
) -> None:
    job.drawn = drawn_job.wide(job.drawn)
    page = drawn(open_page(viewport={"width": width, "height": 900}))
    found = page.locator("#graph [data-node]").evaluate_all("all => all.map(each => each.dataset.node)")
    assert sorted(found) == sorted(node.id for node in job.drawn.nodes)
    edges = page.locator("#graph [data-edge]").evaluate_all("all => all.map(each => each.dataset.edge)")
    assert sorted(edges) == sorted(f"{edge.source}→{edge.target}" for edge in job.drawn.edges)
    cards = boxes(page, "#graph rect.node")
    apart = [
        one["right"] <= other["left"]
        or other["right"] <= one["left"]
        or one["bottom"] <= other["top"]
        or other["bottom"] <= one["top"]
        for number, one in enumerate(cards)
        for other in cards[:number]
    ]
    assert all(apart)
    (place,) = boxes(page, "#graph")
    assert all(card["left"] >= place["left"] and card["right"] <= place["right"] for card in cards)
    assert texts_outside(page) == []
    names = page.locator("#graph .node-name").all_text_contents()
    assert all(len(name.rstrip("…")) >= 3 for name in names), names


@WIDTHS
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_makes_the_page_wider_than_the_screen(open_page: Open, width: int, scheme: str) -> None:
    page = drawn(open_page(viewport={"width": width, "height": 900}, color_scheme=scheme))
    for summary in page.locator("summary").all():
        summary.click()
    expect(page.locator("#log-lines")).to_contain_text("lineage")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_picture_charts_progress_and_logs_can_be_read_in_light_and_dark(open_page: Open, scheme: str) -> None:
    page = drawn(open_page(color_scheme=scheme))
    page.locator("#logs summary").click()
    expect(page.locator("#log-lines")).to_contain_text("lineage")
    pairs = [
        *((text, ".node") for text in (".node-name", ".node-detail", ".node-figure")),
        *((text, ".card") for text in (".edge-label", ".axis", ".plot-title", ".series .axis")),
        *((text, ".card") for text in (".series figcaption", ".series output")),
        *((text, ".card") for text in (".progress p", ".progress .took", "#logs label")),
        ("#log-lines", "#log-lines"),
        ("#log-source", "#log-source"),
    ]
    for text, ground in pairs:
        assert contrast(page, text, ground) >= 4.5, (scheme, text)
    # 30 of 56 MiB are done; of what is no text, WCAG wants 3.
    assert painted_contrast(page, ".progress progress", 0.25, 0.8) >= 3, scheme
    assert contrast(page, ".share", ".share-track") >= 3, scheme


def test_the_figures_of_an_operator_are_those_of_the_document(open_page: Open, job: InMemoryJob) -> None:
    page = drawn(open_page())
    row = page.locator("[data-operator='rotation']")
    cells = ["2,150336,776", "2,171340,012", "12", "3", "50 MiB81,300 entries", "4,0444,101 fired", "31 %"]
    expect(row.locator("td")).to_have_text(cells)
    card = page.locator("[data-node='operator:rotation']")
    for text in (
        "2,150 in, 2,171 out /s",
        "50 MiB, 4,044 timers",
        "12 late, 3 dropped",
        "31 % of epoch time",
    ):
        expect(card).to_contain_text(text)
    track, share = boxes(page, "[data-node='operator:rotation'] :is(.share-track, .share)")
    assert share["width"] / track["width"] == pytest.approx(0.31, abs=0.01)
    expect(page.locator("[data-operator='alerts']")).to_contain_text("under 1 %")
    busier = drawn_job.ROTATION.figures.model_copy(update={"late_rows_total": 99, "busy_share": None})
    changed = drawn_job.ROTATION.model_copy(update={"figures": busier})
    job.drawn = job.drawn.model_copy(
        update={
            "nodes": tuple(
                changed if node.name == "rotation" and node.figures else node for node in job.drawn.nodes
            )
        }
    )
    expect(card).to_contain_text("99 late")
    expect(row.locator("td").last).to_have_text("–")


@pytest.mark.parametrize("width", [400, 2000])
def test_operator_state_stands_beneath_the_state_of_its_operator_and_beside_its_limit(
    open_page: Open, width: int
) -> None:
    page = drawn(open_page(viewport={"width": width, "height": 900}))
    line = page.locator("[data-operator='alerts'] [data-operator-state='rules']")
    expect(line).to_have_text("rules: 1,200 entries, 1 MiB in a slot")
    line.scroll_into_view_if_needed()
    expect(line).to_be_in_viewport(ratio=1)
    used = page.locator("[data-slot='1']").get_by_text("operator state 1 MiB of 32 MiB")
    used.scroll_into_view_if_needed()
    expect(used).to_be_in_viewport(ratio=1)
    expect(page.locator("[data-slot='0']")).not_to_contain_text("operator state")


def test_the_metrics_of_functions_stand_beside_their_operators(open_page: Open) -> None:
    page = drawn(open_page())
    expect(page.locator("#operators #metric-rows tr")).to_have_count(2)
    expect(page.locator("#operators #metric-rows")).to_contain_text("9 values of 2 to 31, 10 on average")


def test_an_operator_may_have_several_inputs_and_a_job_many_operators(
    open_page: Open, job: InMemoryJob
) -> None:
    sources = [drawn_job.node(NodeKind.SOURCE, f"kafka-{number}") for number in range(3)]
    chain = [
        drawn_job.node(NodeKind.OPERATOR, f"operator-{number}", "Step by key", picture.OperatorFigures())
        for number in range(12)
    ]
    ways = [(source, chain[0], 1.5) for source in sources]
    ways += [(one, other, 0.0) for one, other in itertools.pairwise(chain)]
    ways += [(chain[0], chain[11], 7.0)]
    job.drawn = drawn_job.graph_of(*ways)
    page = drawn(open_page(viewport={"width": 400, "height": 900}))
    expect(page.locator("#graph [data-node]")).to_have_count(15)
    expect(page.locator("#graph [data-edge]")).to_have_count(15)
    (first, last) = boxes(
        page, "[data-node='operator:operator-0'] .node, [data-node='operator:operator-11'] .node"
    )
    assert first["bottom"] <= last["top"]


def test_edges_that_lead_nowhere_or_in_a_circle_do_not_stop_the_page(
    open_page: Open, job: InMemoryJob
) -> None:
    one, other = (drawn_job.node(NodeKind.OPERATOR, name, "", picture.OperatorFigures()) for name in "ab")
    aside = [drawn_job.node(NodeKind.SOURCE, f"aside-{number}") for number in range(3)]
    circle = drawn_job.graph_of((one, other, 1.0), (other, one, 1.0), *((each, one, None) for each in aside))
    lost = picture.GraphEdge(source="operator:a", target="operator:gone")
    for width in (360, 1200):
        job.drawn = circle.model_copy(update={"edges": (*circle.edges, lost)})
        page = open_page(viewport={"width": width, "height": 900})
        expect(page.locator("#graph [data-node]")).to_have_count(5)
        expect(page.locator("#phase")).to_have_text("RUNNING")
        expect(page.locator("#banner")).to_be_hidden()


def test_a_job_that_has_not_declared_itself_has_no_picture(open_page: Open, job: InMemoryJob) -> None:
    job.drawn, job.points = picture.JobGraph(), {}
    job.update(user_metrics=())
    page = open_page()
    expect(page.locator("#phase")).to_have_text("RUNNING")
    expect(page.locator("#operators")).to_be_hidden()
    expect(page.locator("#series")).to_be_hidden()


def test_the_series_show_the_newest_value_gaps_and_recoveries(open_page: Open, job: InMemoryJob) -> None:
    page = drawn(open_page())
    newest = job.points["memory_bytes"][-1]
    assert newest is not None
    expect(page.locator("[data-series='memory_bytes']")).to_have_text(f"{newest / 2**20:.0f} MiB")
    rows = page.locator("figure", has=page.locator("[data-series='rows_per_s']"))
    expect(rows.locator("path.series-line")).to_have_count(2)  # one on either side of the gap
    expect(rows.locator(".cut")).to_have_count(1)
    expect(rows.locator("svg")).to_have_attribute(
        "aria-label", re.compile("^Rows per second: .* last, between")
    )
    expect(page.locator(".series-limit")).to_have_count(1)
    page.locator("#series summary").click()
    expect(page.locator("#series-rows tr")).to_have_count(60)


def test_only_new_points_are_asked_for_and_those_of_another_driver_begin_anew(
    open_page: Open, job: InMemoryJob
) -> None:
    job.points = drawn_job.points(30)
    page = open_page(None)
    asked: list[str] = []
    page.on("request", lambda request: "/series" in request.url and asked.append(request.url))
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Show the job").click()
    drawn(page)
    job.points = {name: (*values, 7.0) for name, values in job.points.items()}
    expect(page.locator("[data-series='rows_per_s']")).to_have_text("7.0")
    assert [url.partition("?")[2] for url in asked[:2]] == ["after=0", "after=30"]
    job.points = {"rows_per_s": (5.0, 4.0)}
    expect(page.locator("[data-series='rows_per_s']")).to_have_text("4.0")
    expect(page.locator("[data-series='lag_ms']")).to_have_text("–")


def test_the_last_lines_are_asked_for_while_somebody_looks(open_page: Open, job: InMemoryJob) -> None:
    page = drawn(open_page())
    asked: list[str] = []
    page.on("request", lambda request: "/logs/" in request.url and asked.append(request.url))
    expect(page.locator("#log-lines")).to_be_hidden()
    assert asked == []
    page.locator("#logs summary").click()
    expect(page.locator("#log-lines")).to_contain_text("lineage 00aa11bb")
    page.get_by_label("Log", exact=True).select_option("slot-0")
    expect(page.locator("#log-lines")).to_contain_text("line 199 of slot 0")
    assert page.locator("#log-lines").evaluate("each => each.scrollTop > 0")  # the newest are in sight
    job.update(slots=(slot(0), slot(1), slot(2)))
    page.get_by_label("Log", exact=True).select_option("slot-2")
    expect(page.locator("#log-problem")).to_contain_text("there is no log of 'slot-2' now")
    expect(page.locator("#log-lines")).to_have_text("")  # and not the lines of slot 0
    expect(page.locator("#banner")).to_be_hidden()
    page.get_by_label("Log", exact=True).select_option("slot-1")
    expect(page.locator("#log-problem")).to_have_text("No line yet.")


def test_long_work_shows_bytes_and_the_time_left(open_page: Open, job: InMemoryJob) -> None:
    page = drawn(open_page())
    item = page.locator("[data-progress='savepoint']")
    expect(item).to_contain_text("Storing savepoint before-upgrade")
    expect(item).to_contain_text("30 MiB of 56 MiB, 12.0 s left")
    assert item.locator("progress").evaluate("bar => bar.position") == pytest.approx(30 / 56)
    restore = documents.Progress(
        kind=documents.LongWorkKind.RESTORE, since_ms=0, done_bytes=0, total_bytes=0, left_ms=None
    )
    rescale = restore.model_copy(update={"slots_before": 2, "slots_after": 3})
    job.update(progress=(restore, rescale))
    expect(page.locator("#progress li")).to_have_text(
        ["Restoring the state0 B of 0 B", "Rescaling from 2 to 3 slots: restoring the state0 B of 0 B"]
    )
    job.update(progress=())
    expect(page.locator("#progress")).to_be_hidden()


def test_hostile_names_and_lines_are_text_and_never_markup(open_page: Open, job: InMemoryJob) -> None:
    evil = [drawn_job.node(kind, EVIL + kind.value, EVIL) for kind in (NodeKind.SOURCE, NodeKind.SIDE_OUTPUT)]
    evil.insert(1, drawn_job.node(NodeKind.OPERATOR, EVIL, EVIL, picture.OperatorFigures()))
    job.drawn = drawn_job.graph_of((evil[0], evil[1], 1.0), (evil[1], evil[2], None))
    job.logs["driver"] = (EVIL, "\u202e\x1b[31mred")
    job.update(
        progress=(
            documents.Progress(
                kind=documents.LongWorkKind.SAVEPOINT, name=EVIL, since_ms=0, done_bytes=1, total_bytes=2
            ),
        ),
        user_metrics=(documents.UserMetric(operator=EVIL, name=EVIL, kind="counter", count=1),),
    )
    page = drawn(open_page())
    page.locator("#logs summary").click()
    expect(page.locator("#log-lines")).to_contain_text(EVIL)
    expect(page.locator("#operator-rows th")).to_contain_text(EVIL)
    expect(page.locator("#progress-list")).to_contain_text(EVIL)
    expect(page.locator("#graph title").first).to_contain_text(EVIL)
    assert page.locator("main img, main script, svg img, svg script").count() == 0


@pytest.mark.parametrize("width", [400, 1200])
def test_the_keyboard_reaches_every_control_in_order_and_is_caught_nowhere(
    open_page: Open, width: int
) -> None:
    page = drawn(open_page(viewport={"width": width, "height": 900}))
    for summary in page.locator("summary").all():
        summary.click()
    expect(page.locator("#log-lines")).to_contain_text("lineage")
    wanted = page.evaluate(
        """() => [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')]
        .filter((each) => each.checkVisibility()).map((each, index) => (each.dataset.stop = String(index)))"""
    )
    page.locator("[data-stop='0']").focus()
    page.keyboard.press("Shift+Tab")
    reached = []
    for _ in wanted:
        page.keyboard.press("Tab")
        stop = page.evaluate(
            """() => { const on = document.activeElement; const style = getComputedStyle(on);
            return [on.dataset.stop ?? on.outerHTML, style.outlineStyle !== 'none',
                    on.getAttribute('aria-label') || on.getAttribute('aria-labelledby') || on.labels?.length
                    || on.textContent.trim() || '']; }"""
        )
        assert stop[1], f"{stop[0]} does not show that it has the focus"
        assert stop[2], f"{stop[0]} has no name"
        reached.append(stop[0])
    assert reached == wanted
    page.keyboard.press("Tab")
    assert page.evaluate(
        "document.activeElement === document.body || !document.activeElement.dataset.stop"
    ) or (page.evaluate("document.activeElement.dataset.stop") == "0")


def test_summaries_and_logs_open_by_the_keyboard(open_page: Open) -> None:
    page = drawn(open_page())
    page.locator("#logs summary").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#log-lines")).to_contain_text("lineage")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#log-lines")).to_contain_text("line 199")


def test_nothing_on_the_page_moves(open_page: Open) -> None:
    page = drawn(open_page(reduced_motion="reduce"))
    assert page.evaluate("document.getAnimations().length") == 0
    style = json.loads(
        page.evaluate(
            """JSON.stringify([...document.querySelectorAll('*')].map((each) => getComputedStyle(each))
            .filter((each) => each.animationName !== 'none' || each.transitionDuration !== '0s').length)"""
        )
    )
    assert style == 0
