"""Earlier names of the fields of a row, and of the constants of an enum, as their author declares them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sparkstate import errors


def checked(
    owner: str,
    part: str,
    names: Collection[str],
    aliases: Mapping[str, str | Sequence[str]],
    dropped: Sequence[str],
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Aliases by name, and the names that are dropped. ``owner`` has a ``part`` of each of the ``names``; both are
    words for errors.

    Raises ``StateError`` for contradictions.
    """
    given = {name: (old,) if isinstance(old, str) else tuple(old or ()) for name, old in aliases.items()}
    require_parts("aliases", owner, part, names, given)
    old_names = [old for each in given.values() for old in each]
    gone = (dropped,) if isinstance(dropped, str) else tuple(dropped)
    for old in (*old_names, *gone):
        if not isinstance(old, str):
            raise errors.StateError(f"{old!r} is not the name of an earlier {part}; give text")
        if old in names or [*old_names, *gone].count(old) > 1:
            raise errors.StateError(
                f"the earlier {part} {old!r} is named twice: a name can be a {part} of the {owner}, an alias of one "
                f"{part}, or dropped"
            )
    return given, gone


def require_parts(
    argument: str, owner: str, part: str, names: Collection[str], said: Mapping[str, object]
) -> None:
    """Raise ``StateError`` if ``said`` has a name that the owner does not have."""
    wrong = [name for name in said if name not in names]
    if wrong:
        raise errors.StateError(
            f"{argument}={said!r}: the {owner} has no {part} {wrong[0]!r}; its {part}s are {list(names)}"
        )
