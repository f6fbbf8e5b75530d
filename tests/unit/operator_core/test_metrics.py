"""The operator's metrics, as scrapes read them."""

from __future__ import annotations

import sys
import threading
import time

from sparkstate_operator.metrics import Metrics


def test_two_scrapes_at_once_count_the_jobs_of_phases_that_were_never_seen_before() -> None:
    metrics = Metrics()
    wrong: list[Exception] = []
    end_s = time.monotonic() + 1.0

    def scrape(name: str) -> None:
        number = 0
        while time.monotonic() < end_s and number < 300:
            number += 1
            try:
                metrics.count_jobs([f"{name}-{number}"])
            except Exception as error:
                wrong.append(error)

    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=scrape, args=(name,)) for name in ("a", "b", "c")]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch_s)
    assert wrong == []


def test_a_phase_that_no_job_is_in_any_more_is_shown_as_none() -> None:
    metrics = Metrics()
    metrics.count_jobs(["Running", "Running", "Starting"])
    metrics.count_jobs(["Running"])
    shown = metrics.text().decode()
    assert 'sparkstate_operator_jobs{phase="Running"} 1.0' in shown
    assert 'sparkstate_operator_jobs{phase="Starting"} 0.0' in shown
