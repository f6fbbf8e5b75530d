"""Opens the job's functions in a process of its own, as a slot does: without Spark, with the job's modules alone.

A function that cannot be loaded there, or that ends its process, fails the check and not whoever asked for it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle

from sparkstate import errors
from sparkstate.compatibility import declaration
from sparkstate.compatibility.declaration import DeclaredOperator
from sparkstate.keygroups import KeySpace
from sparkstate.operators.spec import KeyedSpec
from sparkstate.settings import StateBackendSettings


@dataclass(frozen=True)
class OpeningRequest:
    """The arguments of ``declaration.of_operators``, without its clock."""

    specs: tuple[KeyedSpec, ...]
    key_space: KeySpace
    slots: int
    parameters: dict[str, str]
    backend: StateBackendSettings = declaration.EITHER


@dataclass(frozen=True)
class Failure:
    """The error with which the opening ended."""

    kind: str
    message: str


def opened(request: bytes, python_path: Sequence[str]) -> tuple[DeclaredOperator, ...]:
    """The declared states of the operators in a pickled :class:`OpeningRequest`. ``python_path`` has the folders with
    the job's modules. The functions' own prints go to standard error.

    Raises ``DeclarationError`` and ``UserCodeError``.
    """
    done = subprocess.run(
        [sys.executable, "-m", "sparkstate.compatibility"],
        input=json.dumps(list(python_path)).encode() + b"\n" + request,
        stdout=subprocess.PIPE,
        check=False,
        env={"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", **os.environ},
    )
    if done.returncode != 0 or not done.stdout:
        raise errors.UserCodeError(
            f"the process that opens the job's functions ended with {done.returncode} and no answer; they may not end "
            "it in open()"
        )
    answer: Any = cloudpickle.loads(done.stdout)
    if isinstance(answer, Failure):
        raise getattr(errors, answer.kind, errors.SparkstateError)(answer.message)
    found: tuple[DeclaredOperator, ...] = answer
    return found
