"""``StateTtlConfig``: PyFlink's builder, its defaults, and what it refuses."""

from __future__ import annotations

import datetime
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparkstate
from sparkstate import StateTtlConfig, Time, Types, ValueStateDescriptor, errors
from sparkstate.serde import expiring
from sparkstate.state.ttl import TtlConfigBuilder
from sparkstate.state.ttl_options import IncrementalCleanupStrategy, RocksdbCompactFilterCleanupStrategy

Update, Visibility = StateTtlConfig.UpdateType, StateTtlConfig.StateVisibility
Characteristic = StateTtlConfig.TtlTimeCharacteristic


def test_the_defaults_are_flinks():
    config = StateTtlConfig.new_builder(Time.seconds(1)).build()
    assert config.get_ttl() == Time.seconds(1)
    assert config.get_update_type() is Update.OnCreateAndWrite
    assert config.get_state_visibility() is Visibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is Characteristic.ProcessingTime
    cleanup = config.get_cleanup_strategies()
    assert config.is_enabled()
    assert cleanup.is_cleanup_in_background()
    assert not cleanup.in_full_snapshot()
    assert not cleanup.in_rocksdb_compact_filter()
    assert cleanup.get_incremental_cleanup_strategy() is None


def test_pyflinks_example_runs_as_it_stands():
    ttl_config = (
        StateTtlConfig.new_builder(Time.seconds(1))
        .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
        .set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)
        .set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)
        .cleanup_full_snapshot()
        .cleanup_incrementally(10, True)
        .cleanup_in_rocksdb_compact_filter(1000, Time.hours(1))
        .disable_cleanup_in_background()
        .set_ttl(Time.days(1))
        .build()
    )
    descriptor = ValueStateDescriptor("text state", Types.STRING())
    descriptor.enable_time_to_live(ttl_config)
    cleanup = ttl_config.get_cleanup_strategies()
    incremental = cleanup.get_incremental_cleanup_strategy()
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (10, True)
    compact = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
    assert compact.get_query_time_after_num_entries() == 1000
    assert compact.get_periodic_compaction_time() == Time.hours(1)
    assert cleanup.in_full_snapshot()
    assert not cleanup.is_cleanup_in_background()
    assert descriptor.stored_type.describe() == "TTL(processing,86400000) STRING"
    assert pickle.loads(pickle.dumps(ttl_config)) == ttl_config


def test_short_forms_mean_what_the_long_ones_do():
    one = StateTtlConfig.new_builder("2 hours").update_ttl_on_read_and_write().use_event_time()
    other = StateTtlConfig.new_builder(datetime.timedelta(hours=2)).set_update_type(Update.OnReadAndWrite)
    other.set_ttl_time_characteristic(Characteristic.EventTime)
    assert one.build() == other.build()
    one.update_ttl_on_create_and_write().use_processing_time().return_expired_if_not_cleaned_up()
    assert one.never_return_expired().build() == StateTtlConfig.new_builder(7_200_000).build()


def test_disabled_means_no_stamps():
    descriptor = ValueStateDescriptor("v", Types.LONG())
    descriptor.enable_time_to_live(
        StateTtlConfig.new_builder(Time.seconds(1)).set_update_type(Update.Disabled).build()
    )
    assert descriptor.stored_type.describe() == "LONG"


def test_the_facade_has_both_names():
    assert sparkstate.StateTtlConfig is StateTtlConfig
    assert sparkstate.Time is Time


@pytest.mark.parametrize(
    "length",
    [
        0, -1, None, True, 1.5, float("nan"), float("inf"), "", "5", "-1 s", "1 s 2", "٣ s", "9" * 30 + " d", b"1 s",
        2**63, Time(0), Time(-1), Time(2**70), Time(None), Time(1.5), Time("5"), Time.seconds("1"), Time(True),
        datetime.timedelta(0), datetime.timedelta(seconds=-1), datetime.timedelta(microseconds=1), [1], object(),
    ],
    ids=repr,
)  # fmt: skip
def test_a_length_of_time_that_is_none_is_refused_with_its_value(length):
    for make in (
        StateTtlConfig.new_builder,
        StateTtlConfig.new_builder(1).set_ttl,
        lambda given: StateTtlConfig.new_builder(1).cleanup_in_rocksdb_compact_filter(1, given),
    ):
        with pytest.raises(errors.StateError, match="StateTtlConfig"):
            make(length)


@pytest.mark.parametrize(
    "length", [1, Time(2**63 - 2), datetime.timedelta(days=999_999_999), "9223372036854775806 ms"]
)
def test_the_longest_and_the_shortest_lengths_are_good(length):
    config = StateTtlConfig.new_builder(length).build()
    descriptor = ValueStateDescriptor("v", Types.LONG())
    descriptor.enable_time_to_live(config)
    ttl = expiring.ttl_of(descriptor.stored_type)
    assert ttl is not None
    assert not expiring.is_live(0, ttl.cutoff(ttl.length_ms))
    assert expiring.is_live(1, ttl.cutoff(ttl.length_ms))


CLEANUP = StateTtlConfig.CleanupStrategies


@pytest.mark.parametrize(
    "arguments",
    [
        {"ttl": 1000}, {"ttl": "1 hour"}, {"ttl": None}, {"ttl": Time(0)}, {"ttl": Time("5")},
        {"ttl": datetime.timedelta(hours=1)}, {"update_type": 1}, {"update_type": None}, {"state_visibility": "Never"},
        {"time_characteristic": Update.OnReadAndWrite}, {"cleanup_strategies": None}, {"cleanup_strategies": "fast"},
        {"cleanup_strategies": CLEANUP(incremental=IncrementalCleanupStrategy(0, True))},
        {"cleanup_strategies": CLEANUP(incremental=IncrementalCleanupStrategy(None, True))},
        {"cleanup_strategies": CLEANUP(compact_filter=RocksdbCompactFilterCleanupStrategy(-1))},
        {"cleanup_strategies": CLEANUP(compact_filter=RocksdbCompactFilterCleanupStrategy(1, Time(-5)))},
    ],
    ids=str,
)  # fmt: skip
def test_a_config_that_is_made_without_the_builder_is_checked_too(arguments):
    with pytest.raises(errors.StateError, match="StateTtlConfig"):
        StateTtlConfig(**{"ttl": Time(1), **arguments})


GARBAGE = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.lists(st.none())
    | st.sampled_from([Update.Disabled, Visibility.NeverReturnExpired, Characteristic.EventTime, Time(5)])
)  # fmt: skip
METHODS = sorted(
    name for name, value in vars(TtlConfigBuilder).items() if callable(value) and not name.startswith("_")
)


@given(calls=st.lists(st.tuples(st.sampled_from(METHODS), st.lists(GARBAGE, max_size=3)), max_size=5))
def test_the_builder_refuses_what_it_does_not_know_and_stays_usable(calls):
    builder = StateTtlConfig.new_builder(1)
    for name, arguments in calls:
        before, complaint = builder.build(), ""
        try:
            getattr(builder, name)(*arguments)
        except (TypeError, errors.StateError) as error:
            complaint = str(error)
        if complaint:
            assert "StateTtlConfig" in complaint or "argument" in complaint  # too many of them, or too few
            assert builder.build() == before
        config = builder.build()
        assert config.get_ttl().to_milliseconds() >= 1
        descriptor = ValueStateDescriptor("v", Types.LONG())
        descriptor.enable_time_to_live(config)
        assert (descriptor.stored_type == descriptor.type_info) is not config.is_enabled()


@pytest.mark.parametrize("config", [None, "1 hour", Time.hours(1), StateTtlConfig.new_builder(1)])
def test_a_descriptor_takes_a_config_alone(config):
    with pytest.raises(errors.StateError, match="state 'v': its time-to-live is"):
        ValueStateDescriptor("v", Types.LONG()).enable_time_to_live(config)
