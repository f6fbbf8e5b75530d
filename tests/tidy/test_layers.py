"""The drawing of the layers is true, and the tool that says so can say no."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.repository import tree

SHARED = "Engine and operator know nothing of each other; they share the reading of the spec and documented formats"
PLANTED = {
    "errors.py": ("from sparkstate import settings", "Engine: each layer knows only those below it"),
    "new_module_of_no_layer.py": ("", "Engine: each layer knows only those below it"),
    "operators/state/overlay.py": (
        "from sparkstate.operators import memory",
        "Engine: under operators each floor knows only those below it",
    ),
    "slots/outputs.py": (
        "from sparkstate.operators.keyed import keyed_operator",
        "Engine: the kinds of operators have one importer, sparkstate.operators.kinds",
    ),
    "backends/hashmap/__init__.py": (
        "from sparkstate.backends import rocksdb",
        "Engine: the state backends do not know each other",
    ),
    "storage/local.py": (
        "from sparkstate.storage import s3",
        "Engine: the two kinds of storage do not know each other",
    ),
    "driver/__init__.py": (
        "from sparkstate import testing",
        "Engine: the harness for users is for tests, and needs no Spark",
    ),
    "testing/__init__.py": (
        "from sparkstate import spark",
        "Engine: the harness runs without Spark, REST and command line",
    ),
    "manifest/__init__.py": (
        "import sparkstate_operator",
        SHARED,
    ),
    "keygroups.py": ("import pyspark", "PySpark only in sparkstate.spark"),
    "operators/state/handles.py": (
        "import sparkstate_compiled",
        "sparkstate_compiled only in sparkstate.operators.compiled: the engine runs without it",
    ),
    "state/__init__.py": ("import rocksdict", "rocksdict only in sparkstate.backends.rocksdb"),
    "log/__init__.py": ("import botocore.exceptions", "boto3 and botocore only in sparkstate.storage.s3"),
    "runner/__init__.py": ("import uvicorn", "FastAPI and uvicorn only in sparkstate.control"),
    "sinks/__init__.py": ("import click", "click only in the command line of each distribution"),
    "serde/__init__.py": ("import httpx", "httpx only in the engine's client of the control endpoint"),
    "slots/__init__.py": ("import cryptography", "cryptography only in sparkstate.slots.channel"),
}
PLANTED_IN_THE_OPERATOR = {
    "queue.py": (
        "import kopf",
        "kopf only in sparkstate_operator.watching.handlers: it watches, nothing else",
    ),
    "answers.py": ("import aiohttp", "aiohttp only in the operator's edges and watches"),
    "events.py": ("import kubernetes", "The Kubernetes client only in sparkstate_operator.edges.kube"),
    "errors.py": (
        "from sparkstate_operator import model",
        "Operator: lead, reconcile, write and watch, read, decide, compute",
    ),
    "new_module_of_no_layer.py": ("", "Operator: lead, reconcile, write and watch, read, decide, compute"),
    "core/quota.py": (
        "from sparkstate_operator import observe",
        "Operator: models and arithmetic reach no edge",
    ),
    "decide/progress.py": (
        "import asyncio",
        "Operator: deciding and building children are pure: they reach no edge",
    ),
    "inventory.py": (
        "from sparkstate_operator import decide",
        "Operator: who hears, looks, builds or writes decides nothing",
    ),
    "observe.py": (
        "from sparkstate_operator import reconcile",
        "Operator: lead, reconcile, write and watch, read, decide, compute",
    ),
}
PLANTED_IN_THE_SPEC = {
    "problems.py": ("from sparkstate import errors", "Spec: one reading for both sides, which knows neither"),
    "quantities.py": (
        "import sparkstate_tools",
        "What is published knows nothing of the tools that only the checkout has",
    ),
    "units.py": (
        "from sparkstate_spec import fields",
        "Spec: units, fields, Flink's keys, layers, and the rules above them",
    ),
}
PLACES = {
    **{f"engine/src/sparkstate/{name}": planted for name, planted in PLANTED.items()},
    **{f"operator/src/sparkstate_operator/{name}": each for name, each in PLANTED_IN_THE_OPERATOR.items()},
    **{f"spec/src/sparkstate_spec/{name}": each for name, each in PLANTED_IN_THE_SPEC.items()},
}
CONTRACTS = {contract for _, contract in PLACES.values()}


def verdicts(folder: Path) -> Mapping[str, str]:
    """What import-linter says of a copy of the sources: KEPT or BROKEN by contract."""
    linter = Path(sys.executable).parent / "lint-imports"
    environment = {
        "PYTHONPATH": ":".join(str(folder / project / "src") for project in tree.PROJECTS),
        "COLUMNS": "200",
    }
    done = subprocess.run(
        [linter, "--no-cache", "--no-logo", "--config", folder / ".importlinter"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found = dict(re.findall(r"^(.+?) (KEPT|BROKEN)\b", done.stdout, re.MULTILINE))
    assert found, done.stdout + done.stderr
    return found


def copy_of_the_sources(folder: Path) -> Path:
    for project in tree.PROJECTS:
        shutil.copytree(
            tree.ROOT / project / "src",
            folder / project / "src",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    shutil.copy(tree.ROOT / ".importlinter", folder)
    return folder


@pytest.fixture(scope="module")
def as_it_is(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    return verdicts(copy_of_the_sources(tmp_path_factory.mktemp("sources")))


@pytest.fixture(scope="module")
def with_violations(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    folder = copy_of_the_sources(tmp_path_factory.mktemp("planted"))
    for name, (line, _) in PLACES.items():
        with (folder / name).open("a") as file:
            file.write(f"\n{line}\n")
    return verdicts(folder)


def test_every_contract_is_kept(as_it_is: Mapping[str, str]) -> None:
    assert [contract for contract, verdict in as_it_is.items() if verdict == "BROKEN"] == []


def test_every_contract_has_a_planted_violation(as_it_is: Mapping[str, str]) -> None:
    assert set(as_it_is) == CONTRACTS


@pytest.mark.parametrize("contract", sorted(CONTRACTS))
def test_a_planted_violation_is_reported(contract: str, with_violations: Mapping[str, str]) -> None:
    assert with_violations[contract] == "BROKEN"
