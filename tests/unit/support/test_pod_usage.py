"""The CPU time of a pod is found in both versions of control groups, and never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkstate_tools.kubernetes import pod_usage

NODE, UID = "sst-abc-n1", "5d0e4a4e-8f0c-4c59-9d0c-6a4b8f0b9a10"


def written(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(text)


@pytest.mark.parametrize("hierarchy", ["cpuacct", "cpu,cpuacct"])
def test_version_1_counts_nanoseconds_in_a_hierarchy_of_its_own(tmp_path: Path, hierarchy: str) -> None:
    group = tmp_path / hierarchy / NODE / "kubepods" / "burstable" / f"pod{UID}"
    written(group / "cpuacct.usage", "1234567890\n")
    written(tmp_path / "memory" / NODE / "kubepods" / f"pod{UID}" / "memory.usage_in_bytes", "1\n")
    assert pod_usage.cpu_us(NODE, UID, tmp_path) == 1_234_567


@pytest.mark.parametrize("of_class", ["", "burstable", "besteffort"])
def test_version_2_counts_microseconds_beside_everything_else(tmp_path: Path, of_class: str) -> None:
    group = tmp_path / NODE / "kubepods" / of_class / f"pod{UID}"
    written(group / "cpu.stat", "usage_usec 7654321\nuser_usec 7000000\nsystem_usec 654321\n")
    assert pod_usage.cpu_us(NODE, UID, tmp_path) == 7_654_321


def test_a_pod_that_is_not_on_the_node_is_named(tmp_path: Path) -> None:
    (tmp_path / "cpuacct" / NODE / "kubepods").mkdir(parents=True)
    with pytest.raises(pod_usage.MissingUsage, match=UID):
        pod_usage.cpu_us(NODE, UID, tmp_path)


def test_without_a_hierarchy_that_counts_cpu_time_it_says_what_to_mount(tmp_path: Path) -> None:
    with pytest.raises(pod_usage.MissingUsage, match="mount it"):
        pod_usage.cpu_us(NODE, UID, tmp_path)
