"""The plan that configures a slot: its place, its operators, its sinks, its backend and storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkstate import settings
from sparkstate.keygroups import KeySpace
from sparkstate.operators.base import Spec
from sparkstate.sinks.file_sink import FileSink


@dataclass(frozen=True, kw_only=True)
class SinkPlan:
    """A sink of ours that takes the output ``tag`` (None = main) of operator ``operator``."""

    uid: str
    operator: str
    tag: str | None
    sink: FileSink


@dataclass(frozen=True, kw_only=True)
class SlotPlan:
    """Carried as a cloudpickle in ``protocol.Configure``: operators hold the user's functions."""

    slot: int
    slots: int
    incarnation: int
    lineage: str
    key_space: KeySpace
    operators: tuple[Spec, ...]
    """In topological order."""
    sinks: tuple[SinkPlan, ...]
    backend: settings.StateBackendSettings
    storage_url: str
    s3: settings.S3Settings
    inline_threshold_bytes: int
    write_buffer_bytes: int
    max_state_bytes: int = 0
    """Of a state whose checkpoints lie in the driver's memory."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The manifest's ``params``, which functions may ask for."""
