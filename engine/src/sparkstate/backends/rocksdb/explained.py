"""The effective options of RocksDB by Flink's keys, each with the source that decided it. Opens and loads nothing."""

from __future__ import annotations

from typing import Any

from sparkstate.backends.rocksdb import effective, keys, memory, predefined
from sparkstate.settings import StateBackendSettings

DEFAULT = "built-in"


def rows(settings: StateBackendSettings) -> list[tuple[str, str, str]]:
    """(key, value, origin). The origin is ``managed memory``, ``options``, the predefined set's name, or ``built-in``.

    An options factory is code of the job, which does not run here; it may decide otherwise. Raises
    :class:`errors.SpecInvalid` as the slot would.
    """
    plan = memory.plan(settings)
    chosen = effective.resolve(settings, plan, None, [])
    own = keys.parse(settings.options).own
    parts = {"db": chosen.db, "column": chosen.column, "table": chosen.table}
    named = {keys.short(key) for key in settings.options}
    preset = predefined.SETS[settings.predefined_options.upper()]

    def origin(name: str, part: str, option: str) -> str:
        if plan.bounded and option in effective.MANAGED:
            return "managed memory"
        if name in named:
            return "options"
        return settings.predefined_options.upper() if option in preset.get(part, {}) else DEFAULT

    found = [
        (name, _text(parts[key.part].get(key.option)), origin(name, key.part, key.option))
        for name, key in keys.KEYS.items()
    ]
    return found + [
        (name, _text(value), "options" if name in named else DEFAULT) for name, value in own.items()
    ]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ";".join(f"{name}_COMPRESSION" for name in value)
    return "" if value is None else str(value)
