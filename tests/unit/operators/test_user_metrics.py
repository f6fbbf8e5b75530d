"""Metrics that a function makes of its own, and what else PyFlink's RuntimeContext tells."""

from __future__ import annotations

import msgspec
import pytest

from sparkstate import errors
from sparkstate.functions import Context, KeyedProcessFunction, OnTimerContext
from sparkstate.operators import user_metrics
from sparkstate.operators.user_metrics import Reading, UserMetrics
from sparkstate.serde.types import Types
from sparkstate.slots import protocol
from sparkstate.testing import KeyedProcessHarness


class Counts(KeyedProcessFunction):
    """PyFlink's annotations and names, as its documentation writes them."""

    def open(self, ctx):
        self.ctx = ctx
        group = ctx.get_metrics_group()
        self.rows = group.counter("rows")
        self.open_rows = group.add_group("state").gauge("open", lambda: self.last)
        self.last = 0
        self.seen = group.add_group("kind", "click").meter("seen", time_span_in_seconds=10)
        self.size = group.distribution("size")

    def process_element(self, value, ctx: KeyedProcessFunction.Context):
        self.rows.inc()
        self.rows.inc(2)
        self.rows.dec()
        self.seen.mark_event()
        self.size.update(value[1])
        self.last = value[1]

    def on_timer(self, timestamp, ctx: KeyedProcessFunction.OnTimerContext):
        pass


def made(function, **options):
    return KeyedProcessHarness(function, key=lambda row: row[0], key_type=Types.STRING(), **options)


def test_contexts_have_pyflinks_names():
    assert KeyedProcessFunction.Context is Context
    assert KeyedProcessFunction.OnTimerContext is OnTimerContext


def test_a_counter_a_gauge_a_meter_and_a_distribution_show_what_was_counted():
    function = Counts()
    with made(function) as harness:
        assert harness.metrics()["rows"] == Reading("rows", "counter", count=0)
        harness.process_elements([(("a", 4), None), (("b", 10), None), (("a", 1), None)])
        shown = harness.metrics()
    assert shown["rows"] == Reading("rows", "counter", count=6)
    assert function.rows.get_count() == 6
    assert shown["state.open"] == Reading("state.open", "gauge", least=1, largest=1)
    assert shown["kind.click.seen"].count == function.seen.get_count() == 3
    assert shown["size"] == Reading("size", "distribution", count=3, sum=15, least=1, largest=10)


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")], ids=str)
@pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "between", "last"])
def test_a_distribution_counts_a_value_that_is_not_finite_and_leaves_it_out_otherwise(odd, place):
    metrics = UserMetrics("u")
    sizes = metrics.group().distribution("size")
    sizes.update(odd)
    assert metrics.read(0.0) == [Reading("size", "distribution", count=1, sum=0)]
    values = [5.0, 10**40]
    values.insert(place, odd)
    for value in values:
        sizes.update(value)
    assert metrics.read(0.0) == [
        Reading("size", "distribution", count=4, sum=5.0 + 10**40, least=5, largest=1e40)
    ]


def test_after_a_restore_the_metrics_begin_anew():
    with made(Counts()) as harness:
        harness.process_element(("a", 4))
        harness.restore(harness.snapshot())
        assert harness.metrics()["rows"].count == 0


def test_the_runtime_context_tells_task_attempt_and_parameters():
    function = Counts()
    with made(function, uid="clicks", job_parameters={"gap": "30"}) as harness:
        assert function.ctx.get_task_name_with_subtasks() == "clicks (1/1)"
        assert function.ctx.get_attempt_number() == 0
        assert function.ctx.get_job_parameter("gap", "5") == "30"
        assert function.ctx.get_job_parameter("other", "5") == "5"
        harness.restore(harness.snapshot())
        assert function.ctx.get_attempt_number() == 1


def test_the_rate_of_a_meter_is_that_of_its_time_span():
    metrics = UserMetrics("u")
    meter = metrics.group().meter("m", 10)
    rates = []
    for second in range(1, 31):
        if second <= 15:
            meter.mark_event(6)
        (shown,) = metrics.read(float(second))
        rates.append(shown.rate)
    assert rates[14] == 6
    assert rates[19] == pytest.approx(3)
    assert rates[29] == 0
    assert meter.get_count() == 90


def test_a_meter_that_is_looked_at_all_the_time_remembers_no_more_and_tells_the_same():
    metrics = UserMetrics("u")
    meter = metrics.group().meter("m", 60)
    for look in range(1, 20_001):  # 200 looks a second
        meter.mark_event(3)
        (shown,) = metrics.read(look / 200)
        assert len(meter._seen) <= 103
    assert shown.rate == pytest.approx(600, rel=0.02)


def test_the_same_name_is_the_same_metric_and_of_one_kind():
    group = UserMetrics("u").group()
    group.add_group("a").counter("b").inc()
    again = group.add_group("a").counter("b")
    again.inc()
    assert again.get_count() == 2
    with pytest.raises(errors.StateError, match=r"metric 'a.b' is a counter and cannot be a meter"):
        group.add_group("a").meter("b")


def test_metrics_whose_names_are_made_of_data_work_and_are_not_all_shown(caplog):
    metrics = UserMetrics("u")
    for number in range(user_metrics.MOST_SHOWN + 20):
        metrics.group().counter(f"user {number}").inc()
    assert len(metrics.read(0.0)) == user_metrics.MOST_SHOWN
    assert metrics.not_shown == 20
    assert len([record for record in caplog.records if "do not make names of data" in record.message]) == 1


@pytest.mark.parametrize("name", ["", None, 5, "a\nb", "\ud800", "\x00", "n" * 201], ids=repr)
def test_a_name_that_no_report_can_carry_is_refused(name):
    group = UserMetrics("u").group()
    for make in (group.counter, group.meter, group.distribution, lambda name: group.gauge(name, int)):
        with pytest.raises(errors.StateError, match="name"):
            make(name)
    if name != "n" * 201:
        with pytest.raises(errors.StateError, match="name"):
            group.add_group(name)


@pytest.mark.parametrize("span", [0, -1])
def test_a_meter_without_a_time_span_is_refused(span):
    with pytest.raises(errors.StateError, match="above 0"):
        UserMetrics("u").group().meter("m", span)


def test_numbers_that_no_report_can_carry_are_left_out_and_the_report_is_whole():
    metrics = UserMetrics("u")
    group = metrics.group()
    group.counter("huge").inc(10**400)
    group.distribution("huge too").update(10**400)
    group.gauge("text", lambda: "many")
    group.gauge("broken", lambda: 1 / 0)
    metrics.refresh_gauges()
    shown = {reading.name: reading for reading in metrics.read(0.0)}
    assert shown["huge"].count is None
    assert shown["huge too"].sum is shown["huge too"].least is None
    assert shown["text"].largest is shown["broken"].largest is None
    for reading in shown.values():
        msgspec.msgpack.encode(
            protocol.UserMetric(operator="u", name=reading.name, kind=reading.kind, count=reading.count)
        )


def test_a_gauge_is_asked_at_the_end_of_an_epoch_and_its_error_fails_nothing():
    class Broken(KeyedProcessFunction):
        def open(self, ctx):
            ctx.get_metrics_group().gauge("g", lambda: {}["no"])

        def process_element(self, value, ctx):
            yield value

    with made(Broken()) as harness:
        harness.process_element(("a",))
        assert harness.output() == [("a",)]
        assert harness.metrics()["g"] == Reading("g", "gauge")
