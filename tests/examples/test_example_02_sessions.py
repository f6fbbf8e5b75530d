"""The session job, reading files:

both operators, late rows, idle alarms, against a calculation by sorting.
"""

from collections import Counter

import pyarrow.parquet as pq
import pytest
from support.examples import sessions

from sparkstate_tools.demo import oracle

pytestmark = pytest.mark.spark


@pytest.fixture
def regular():
    return sessions.clicks.make_clicks(users=60, days=2)


@pytest.fixture
def late(regular):
    return sessions.clicks.make_late_clicks(regular, 12)


@pytest.mark.timeout(400)
def test_sessions_landing_pages_late_rows_and_idle_alarms_are_exact(regular, late, tmp_path):
    sessions.clicks.write_files(sessions.clicks.with_late_clicks(regular, late), tmp_path / "input", 12)
    params = {"input": str(tmp_path / "input"), "idle_seconds": "3"}
    job = sessions.process(tmp_path, "sessions-test", params)
    job.start()
    try:
        totals = Counter(one.user for one in regular)
        job.wait_until("an idle alarm for every user", lambda: idle_totals(tmp_path) == totals, 240)
        job.request("POST", "/v1/savepoints", json={"trigger_id": "end", "stop": True, "drain": True})
        assert job.wait(120) == 0, job.last_words()
    finally:
        job.stop()

    assert sessions.check(tmp_path, regular, late) > 200
    alarms = sessions.found(tmp_path, "idle", ("user", "clicks"))
    assert set(alarms.values()) == {1}
    assert {user: max(count for who, count in alarms if who == user) for user in totals} == totals


def idle_totals(folder):
    """The largest number of clicks that an idle alarm has told of each user so far."""
    largest = Counter()
    for path in oracle.committed_files(folder / "output" / "idle"):
        for row in pq.read_table(path).to_pylist():
            largest[row["user"]] = max(largest[row["user"]], row["clicks"])
    return largest
