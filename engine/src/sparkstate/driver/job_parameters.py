"""The manifest's ``params``, as the job's function gets them."""

from __future__ import annotations

from typing import Any

from sparkstate import errors


class UnknownParameter(errors.DeclarationError, KeyError):
    """The job's code reads a parameter that the manifest does not have. It is a ``KeyError`` too, which code with a
    default of its own may catch."""

    __str__ = Exception.__str__


class JobParameters(dict[str, str]):
    """A dict in every other way. Its copy in a slot is one of Python's own. A library that asks for exactly that type,
    as ``yaml.safe_dump`` does, takes ``dict(params)``."""

    def __missing__(self, name: str) -> str:
        """Raises ``UnknownParameter``."""
        known = f"it has {', '.join(self)}" if self else "it is empty"
        raise UnknownParameter(
            f"spec.params has no {name!r}; {known}: correct the name, or add the parameter to the manifest"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)
