"""``make demo`` on less input: the same steps, kills and comparisons."""

import re
import subprocess
import sys

import pytest
from support import example

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize(
    ("slot_phase", "driver_phase"),
    [("checkpoint-upload", "commit"), ("finish", "checkpoint-publish")],
)
@pytest.mark.timeout(420)
def test_the_demonstration_survives_its_kills_and_is_equal_record_for_record(
    slot_phase, driver_phase, tmp_path
):
    command = [
        *(sys.executable, str(example.SCRIPTS / "demo"), "--output", str(tmp_path)),
        *("--rows", "60000", "--files", "60", "--interval", "0.5"),
        *("--slot-phase", slot_phase, "--driver-phase", driver_phase),
    ]

    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)

    told = done.stdout
    assert done.returncode == 0, told + done.stderr
    assert re.search(rf"kill -9 slot-1 \(process \d+\) in phase {slot_phase} of epoch \d+", told)
    assert re.search(rf"kill -9 driver \(process \d+\) in phase {driver_phase} of epoch \d+", told)
    assert told.count("RECOVERED from the loss of") == 2
    assert told.count("equal record for record") == 6
    assert "restored from the savepoint of epoch" in told
    assert re.search(r"^PASS: 60,000 rows", told, re.MULTILINE)
    first_recovery = re.search(r"\[ *([\d.]+) s\] RECOVERED", told)
    assert first_recovery is not None
    assert float(first_recovery[1]) < 60
    assert (tmp_path / "index.html").read_text().count("<svg") == 4
