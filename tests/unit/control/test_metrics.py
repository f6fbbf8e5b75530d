from __future__ import annotations

import httpx
from prometheus_client import parser

from sparkstate.control import documents, metrics, port, server
from sparkstate_tools.drivers import control_job

RULES = documents.OperatorStateSize(
    operator="judged", state="rules", kind="broadcast", elements=12, size_bytes=4200
)


class FixedClock:
    def now_ms(self) -> int:
        return control_job.NOW_MS + 60_000

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError("metrics do not wait")


def values(text: str) -> dict[str, float]:
    return {
        sample.name + "".join(f"[{value}]" for _, value in sorted(sample.labels.items())): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_scrape_reads_the_job_as_it_is_now() -> None:
    job = control_job.InMemoryJob()
    registry = metrics.JobMetrics(job, FixedClock())
    assert "sparkstate_epoch " not in registry.render().decode()  # no epoch yet: no sample rather than a zero
    job.update(
        epoch=12,
        rows_total=500,
        late_rows_total=7,
        dropped_rows_total=3,
        rows_per_s=21.5,
        lag_ms=4300,
        watermark_ms=1_000_000,
        state_bytes=77,
        restarts=2,
        checkpoints_completed=5,
        checkpoints_failed=1,
        last_checkpoint=control_job.checkpoint(4, state_bytes=9000, uploaded_bytes=100),
        slots=(control_job.slot(0), control_job.slot(1, alive=False)),
    )
    got = values(registry.render().decode())
    assert got["sparkstate_epoch"] == 12
    assert got["sparkstate_rows_total"] == 500
    assert got["sparkstate_late_rows_total"] == 7
    assert got["sparkstate_dropped_rows_total"] == 3
    assert got["sparkstate_rows_per_second"] == 21.5
    assert got["sparkstate_watermark_lag_seconds"] == 4.3
    assert got["sparkstate_watermark_timestamp_seconds"] == 1000
    assert got["sparkstate_restarts_total"] == 2
    assert got["sparkstate_checkpoints_completed_total"] == 5
    assert got["sparkstate_checkpoints_failed_total"] == 1
    assert got["sparkstate_last_checkpoint_size_bytes[full]"] == 9000
    assert got["sparkstate_last_checkpoint_size_bytes[delta]"] == 100
    assert got["sparkstate_last_checkpoint_age_seconds"] == 40
    assert got["sparkstate_slot_up[0]"] == 1
    assert got["sparkstate_slot_up[1]"] == 0
    assert got["sparkstate_slot_memory_bytes[budget][0]"] == 268_435_456
    assert got["sparkstate_slot_state_bytes[1]"] == job.current.slots[1].state_bytes


def test_no_age_is_below_0_after_a_clock_that_was_set_back() -> None:
    job = control_job.InMemoryJob()
    later = FixedClock().now_ms() + 3_600_000
    away = documents.StorageAway(url="s3://a", doing="read", since_ms=later, failures=1, message="")
    job.update(last_checkpoint=control_job.checkpoint(4, trigger_ms=later), storage_away=(away,))
    got = values(metrics.JobMetrics(job, FixedClock()).render().decode())
    assert got["sparkstate_last_checkpoint_age_seconds"] == 0
    assert got["sparkstate_storage_away_seconds[s3://a]"] == 0


def test_each_operator_state_of_a_slot_is_a_sample_beside_its_bound() -> None:
    job = control_job.InMemoryJob()
    memory = documents.SlotMemory(operator_state=4200, operator_state_limit=1 << 25)
    job.update(slots=(control_job.slot(0, operator_states=(RULES,), memory=memory),))
    got = values(metrics.JobMetrics(job, FixedClock()).render().decode())
    assert got["sparkstate_slot_operator_state_bytes[broadcast][judged][0][rules]"] == 4200
    assert got["sparkstate_slot_operator_state_elements[broadcast][judged][0][rules]"] == 12
    assert got["sparkstate_slot_memory_bytes[operator_state][0]"] == 4200
    assert got["sparkstate_slot_memory_bytes[operator_state_limit][0]"] == 1 << 25


def test_the_end_of_a_bounded_input_is_no_timestamp() -> None:
    job = control_job.InMemoryJob()
    job.update(watermark_ms=documents.END_OF_INPUT_WATERMARK)
    text = metrics.JobMetrics(job, FixedClock()).render().decode()
    assert "sparkstate_watermark_timestamp_seconds " not in text


def test_durations_are_counted_as_they_are_observed() -> None:
    registry = metrics.JobMetrics(control_job.InMemoryJob(), FixedClock())
    registry.observe_epoch(0.3)
    registry.observe_epoch(3.0)
    registry.observe_checkpoint(control_job.checkpoint(1, duration_ms=900, sync_pause_ms=20))
    registry.observe_checkpoint(
        control_job.checkpoint(2, kind=documents.CheckpointKind.SAVEPOINT, duration_ms=4000)
    )
    registry.observe_checkpoint(control_job.checkpoint(3, status=documents.CheckpointStatus.FAILED))
    got = values(registry.render().decode())
    assert got["sparkstate_epoch_duration_seconds_count"] == 2
    assert got["sparkstate_epoch_duration_seconds_bucket[0.25]"] == 0
    assert got["sparkstate_epoch_duration_seconds_bucket[0.5]"] == 1
    assert got["sparkstate_checkpoint_duration_seconds_count[checkpoint]"] == 1
    assert got["sparkstate_checkpoint_duration_seconds_sum[savepoint]"] == 4
    assert got["sparkstate_checkpoint_pause_seconds_sum[checkpoint]"] == 0.02


def test_native_metrics_pass_through_under_their_own_names() -> None:
    job = control_job.InMemoryJob()
    job.samples = [
        port.Sample("estimate-num-keys", 5, {"slot": "0"}),
        port.Sample("estimate-num-keys", 7, {"slot": "1"}),
        port.Sample("rocksdb.block-cache-usage", 9, {"slot": "0"}),
        port.Sample("backend.open-files", 3, {"slot": "0"}),
    ]
    got = values(metrics.JobMetrics(job, FixedClock()).render().decode())
    assert got["sparkstate_rocksdb_estimate_num_keys[0]"] == 5
    assert got["sparkstate_rocksdb_estimate_num_keys[1]"] == 7
    assert got["sparkstate_rocksdb_block_cache_usage[0]"] == 9
    assert got["sparkstate_backend_open_files[0]"] == 3


def test_every_metric_has_help_a_base_unit_and_our_prefix() -> None:
    job = control_job.InMemoryJob()
    numbers = {"count": 1, "rate": 1, "sum": 1, "least": 1, "largest": 1}
    job.own_metrics = [
        port.SlotMetric(0, documents.UserMetric(operator="op", name=kind, kind=kind, **numbers))
        for kind in ("counter", "gauge", "meter", "distribution")
    ]
    job.update(
        slots=(control_job.slot(0, operator_states=(RULES,)),),
        last_checkpoint=control_job.checkpoint(1),
        epoch=1,
        storage_away=(documents.StorageAway(url="s3://b", doing="checkpoints", since_ms=1),),
        lag_ms=1,
        watermark_ms=1,
    )
    text = metrics.JobMetrics(job, FixedClock()).render().decode()
    families = list(parser.text_string_to_metric_families(text))
    assert {family.name for family in families} >= set(metrics.GAUGES) - {"sparkstate_incarnation"}
    for family in families:
        assert family.name.startswith("sparkstate_")
        assert family.documentation.endswith(".")
        assert not family.name.endswith(("_ms", "_mb", "_kb"))


def test_two_jobs_in_one_process_do_not_share_a_registry() -> None:
    first = metrics.JobMetrics(control_job.InMemoryJob(), FixedClock())
    second = metrics.JobMetrics(control_job.InMemoryJob(), FixedClock())
    first.observe_epoch(1)
    assert values(second.render().decode())["sparkstate_epoch_duration_seconds_count"] == 0


def test_the_endpoint_serves_what_the_driver_observed(
    caller: httpx.Client, control: server.ControlServer
) -> None:
    control.metrics.observe_epoch(1.5)
    answer = caller.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert values(answer.text)["sparkstate_epoch_duration_seconds_sum"] == 1.5


def test_metrics_that_functions_made_are_shown_by_slot_whatever_their_names() -> None:
    job = control_job.InMemoryJob()
    odd = 'a "b"\\c, é {x="y"}'
    job.own_metrics = [
        port.SlotMetric(slot, documents.UserMetric(operator="op", name=odd, kind="counter", count=slot - 3))
        for slot in (0, 1)
    ]
    job.own_metrics += [
        port.SlotMetric(0, documents.UserMetric(operator="op", name="g", kind="gauge", least=2, largest=2)),
        port.SlotMetric(0, documents.UserMetric(operator="op", name="none", kind="gauge")),
        port.SlotMetric(0, documents.UserMetric(operator="op", name="m", kind="meter", count=9, rate=0.5)),
        port.SlotMetric(
            0,
            documents.UserMetric(
                operator="op", name="d", kind="distribution", count=2, sum=30, least=10, largest=20
            ),
        ),
    ]
    text = metrics.JobMetrics(job, FixedClock()).render().decode()
    found = {
        (sample.name, sample.labels["metric"], sample.labels["slot"]): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("sparkstate_user_")
    }
    prefix = "sparkstate_user_"
    assert found == {
        (f"{prefix}counter", odd, "0"): -3,
        (f"{prefix}counter", odd, "1"): -2,
        (f"{prefix}gauge", "g", "0"): 2,
        (f"{prefix}meter_events_total", "m", "0"): 9,
        (f"{prefix}meter_events_per_second", "m", "0"): 0.5,
        (f"{prefix}distribution_values", "d", "0"): 2,
        (f"{prefix}distribution_sum", "d", "0"): 30,
        (f"{prefix}distribution_least", "d", "0"): 10,
        (f"{prefix}distribution_largest", "d", "0"): 20,
    }
