"""Reading what containers printed, as containerd writes it down."""

from __future__ import annotations

from support.kubernetes.pod_logs import complaints, printed

LOG = """\
2026-01-01T00:00:00Z stdout F {"level": "info"}
2026-01-01T00:00:01Z stdout P {"level":
2026-01-01T00:00:01Z stderr F a traceback
2026-01-01T00:00:01Z stdout F  "error"}
2026-01-01T00:00:02Z stdout F
2026-01-01T00:00:03Z stdout F {"lev"""


def test_a_long_line_is_put_together_and_an_unfinished_one_waits() -> None:
    assert list(printed(LOG)) == ['{"level": "info"}', "a traceback", '{"level": "error"}', ""]


def test_errors_and_what_is_no_structured_log_are_complaints() -> None:
    assert complaints(printed(LOG)) == ["a traceback", '{"level": "error"}', ""]
