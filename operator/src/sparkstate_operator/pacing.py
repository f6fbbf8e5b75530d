"""How often drivers are asked and progress is written, by how many jobs there are.

What an idle job costs is small, what thousands of them cost is not. All together are asked and written at a rate that
has a bound, so that beyond a number of jobs each of them waits longer: operator and API server cost the same however
many there are. What must not wait is no poll: a pod that fails, a driver that is no longer ready (its readiness probe
fails while it pauses or recovers) and a changed spec are events of the watches.
"""

from __future__ import annotations

from sparkstate_operator.config import Config


def listen_s(config: Config, jobs: int) -> float:
    """Between two polls of one driver, among so many jobs."""
    return max(config.listen_s, jobs / config.polls_per_s)


def progress_s(config: Config, jobs: int) -> float:
    """Between two writes of one job's progress, among so many jobs."""
    return max(config.progress_s, jobs / config.progress_writes_per_s)
