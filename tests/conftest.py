"""Settings that every test shares. Helpers live in ``tests/support`` and in ``tools/``."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from sparkstate_tools.drivers import jvm

pytest_plugins = ["pytester", "support.faults"]

# Tests delete namespaces and replace CRDs: the cluster that a developer works with must be out of reach. Another
# one than ours is used only when SPARKSTATE_TEST_KUBECONFIG names it (sparkstate_tools.kubernetes.cluster).
os.environ["KUBECONFIG"] = os.devnull

# A transition of a phase that its table does not have ends the test, and the drivers and operators that tests start.
os.environ["SPARKSTATE_STRICT_LIVES"] = "1"

# JVMs that start fast; who wants others says so.
os.environ.setdefault(jvm.VARIABLE, jvm.options(os.environ))

# Generated examples are the same in every run of continuous integration, so that a failure can be repeated at
# once. On a developer's machine they differ from run to run, which finds more.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "ci", parent=settings.get_profile("local"), derandomize=True, print_blob=True, max_examples=40
)
# `make faults`: many more lives than a run of the whole suite has time for.
settings.register_profile("faults", parent=settings.get_profile("local"), max_examples=150, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
