"""Flink's ``Configuration``: keys and values as texts, typed when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkstate import errors
from sparkstate_spec import units


class Configuration:
    """A map of Flink's keys, with PyFlink's methods. Making one sets nothing: ``env.configure(configuration)`` does."""

    def __init__(self, other: Configuration | Mapping[str, str] | None = None) -> None:
        self._values: dict[str, str] = {}
        given = other.to_dict() if isinstance(other, Configuration) else other or {}
        for key, value in given.items():
            self.set_string(key, value)

    def set_string(self, key: str, value: str) -> Configuration:
        """Set a key. Raises ``TypeError`` unless both are texts."""
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"set_string({key!r}, …): key and value must be text, the value is {value!r}")
        self._values[key] = value
        return self

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set a whole number."""
        return self.set_string(key, str(_typed(key, value, int)))

    def set_float(self, key: str, value: float) -> Configuration:
        """Set a number."""
        return self.set_string(key, str(_typed(key, value, (int, float))))

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set a switch."""
        if not isinstance(value, bool):
            raise TypeError(f"the value of {key} is {value!r}; it must be True or False")
        return self.set_string(key, "true" if value else "false")

    def get_string(self, key: str, default_value: str | None = None) -> str | None:
        """The text of a key; ``default_value`` if it is not set."""
        return self._values.get(key, default_value)

    def get_integer(self, key: str, default_value: int) -> int:
        """A whole number. Raises ``SpecInvalid`` for any other text."""
        return int(self._number(key, default_value, int))

    def get_float(self, key: str, default_value: float) -> float:
        """A number. Raises ``SpecInvalid`` for any other text."""
        return float(self._number(key, default_value, float))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """A switch: true or false, in any case. Raises ``SpecInvalid`` for another text."""
        text = self._values.get(key, str(default_value)).lower()
        if text not in ("true", "false"):
            raise errors.SpecInvalid(f"{key} is {self._values[key]!r}; it must be true or false")
        return text == "true"

    def get_duration_ms(self, key: str, default_value: int) -> int:
        """A duration such as ``10 s``, in milliseconds. Raises ``SpecInvalid`` for any other text."""
        try:
            return units.flink_duration_ms(self._values[key]) if key in self._values else default_value
        except ValueError as error:
            raise errors.SpecInvalid(f"{key} {error}") from None

    def get_bytes(self, key: str, default_value: int) -> int:
        """A memory size such as ``64mb``, in bytes. Raises ``SpecInvalid`` for any other text."""
        try:
            return units.flink_bytes(self._values[key]) if key in self._values else default_value
        except ValueError as error:
            raise errors.SpecInvalid(f"{key} {error}") from None

    def contains_key(self, key: str) -> bool:
        """Whether a key is set."""
        return key in self._values

    def key_set(self) -> set[str]:
        """All keys."""
        return set(self._values)

    def remove_config(self, key: str) -> bool:
        """Forget a key; whether it was set."""
        return self._values.pop(key, None) is not None

    def add_all(self, other: Configuration) -> Configuration:
        """Take over all of another's keys."""
        self._values.update(other.to_dict())
        return self

    def to_dict(self) -> dict[str, str]:
        """A copy, as texts."""
        return dict(self._values)

    def _number(self, key: str, default: float, kind: type[int] | type[float]) -> float:
        try:
            return kind(self._values[key]) if key in self._values else default
        except ValueError:
            word = "a whole number" if kind is int else "a number"
            raise errors.SpecInvalid(f"{key} is {self._values[key]!r}; it must be {word}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]  # it has setters

    def __str__(self) -> str:
        return f"Configuration of {len(self._values)} keys"  # a value may be a secret

    __repr__ = __str__


def _typed(key: str, value: Any, kind: type | tuple[type, ...]) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"the value of {key} is {value!r}; it must be a number")
    return value
