"""``make demo`` on less input: the same steps, kills and comparisons."""

import re
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.timeout(620)
def test_the_demonstration_survives_its_kills_and_is_equal_record_for_record(tmp_path):
    command = [
        *(sys.executable, "-m", "sparkstate_tools.demo", "--output", str(tmp_path)),
        *("--rows", "50000", "--files", "50", "--interval", "0.5"),
    ]

    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)

    told = done.stdout
    assert done.returncode == 0, told + done.stderr
    assert re.search(r"kill -9 slot-1 \(process \d+\) in phase checkpoint-upload of epoch \d+", told)
    assert re.search(r"kill -9 driver \(process \d+\) in phase commit of epoch \d+", told)
    assert told.count("RECOVERED from the loss of") == 2
    assert told.count("equal record for record") >= 6
    assert "restored from the savepoint of epoch" in told
    assert re.search(r"^PASS: 50,000 rows", told, re.MULTILINE)
    assert (tmp_path / "index.html").read_text().count("<svg") == 4
