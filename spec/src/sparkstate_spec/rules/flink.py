"""The rules on ``spec.configuration``: the keys of Flink's that are refused, and why. They hold for
``spec.flinkConfiguration`` too, which is put into its place. For what becomes of all other keys, see ``answers``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping

from sparkstate_spec import configuration, fields
from sparkstate_spec.flink_tables import (
    CHOICES,
    FIXED,
    LATER,
    LOCATIONS,
    METRICS,
    NATIVE_METRICS,
    NOT_APPLICABLE,
    SECRETS,
    VALUES,
    understood,
)
from sparkstate_spec.rules.rule import SECRET_NAMES, Rule, View, no_secrets

PATH = f"spec.{configuration.NAME}"
OTHER = f"spec.{configuration.AS_IN_FLINK}"
SECRET = re.compile(SECRET_NAMES)


def _rule(name: str, message: str, broken: Callable[[Mapping[str, str], str], object]) -> Rule:
    """A rule that some keys break, each judged by itself; the note names them."""

    def found(view: View) -> list[str]:
        given = view.entries(PATH)
        return [key for key in given if broken(given, key)]

    return Rule(name, PATH, message, lambda view: bool(found(view)), lambda view: ", ".join(found(view)))


def _twice() -> Iterator[Rule]:
    """The old spelling and the new one of one key. A field beside its key wins."""
    for known in (one for one in fields.TABLE if len(one.flink) > 1):
        names = [f"configuration['{key}']" for key in known.flink]
        yield Rule(
            f"{known.path} once",
            PATH,
            f"{', '.join(names[:-1])} and {names[-1]} mean the same; keep one",
            lambda view, known=known: (  # type: ignore[misc]
                sum(key in view.entries(PATH) for key in known.flink) > 1
            ),
        )


def _unknown() -> Rule:
    answered = tuple(prefix for prefixes, _ in (*NOT_APPLICABLE, *LATER) for prefix in prefixes)
    starts = (*answered, *SECRETS)
    known = sorted(understood())

    def unknown(view: View) -> list[str]:
        return [key for key in view.entries(PATH) if key not in known and not key.startswith(starts)]

    def described(key: str) -> str:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.8)
        return f"{key}, did you mean {near[0]}?" if near else key

    return Rule(
        "known keys",
        PATH,
        "this version does not know a key; the description of each field names its keys (kubectl explain ssj.spec). "
        "Keys of an options factory of your own belong into stateBackend.options",
        lambda view: bool(unknown(view)),
        lambda view: ", ".join(described(key) for key in unknown(view)),
    )


def _values() -> Iterator[Rule]:
    kinds: dict[str, str] = {key: known.kind for key, known in fields.BY_KEY.items()}
    kinds |= {f"{METRICS}.{name}": "boolean" for name in NATIVE_METRICS}
    for kind, (pattern, message) in VALUES.items():
        matches = re.compile(re.sub(r"\$$", r"\\Z", pattern))
        yield _rule(
            f"values: {kind}",
            message,
            lambda given, key, kind=kind, matches=matches: (  # type: ignore[misc]
                kinds.get(key) == kind and not matches.search(given[key])
            ),
        )
    for keys, values, message in CHOICES:
        yield _rule(
            f"values of {keys[0]}",
            message,
            lambda given, key, keys=keys, values=values: key in keys and given[key] not in values,  # type: ignore[misc]
        )
    for pattern, wanted, message in LOCATIONS:
        yield _rule(
            f"locations: {message}",
            message,
            lambda given, key, pattern=pattern, wanted=wanted: (  # type: ignore[misc]
                kinds.get(key) == "location" and bool(re.search(pattern, given[key])) != wanted
            ),
        )


def _fixed(keys: tuple[str, ...], value: str, message: str) -> Rule:
    return _rule(message, message, lambda given, key: key in keys and given[key] != value)


ALL = (
    Rule(
        "one configuration",
        OTHER,
        "means the same as configuration; keep configuration, whose keys the API server judges, and write all keys "
        "there",
        lambda view: view.count(PATH, OTHER) > 1,
    ),
    *_twice(),
    Rule(
        "class or key",
        PATH,
        "spec.stateBackend.class and Flink's key for the state backend contradict one another; leave the key out",
        lambda view: (
            view["spec.stateBackend.class"] is not None
            and bool(view.entries(PATH).keys() & set(fields.BY_PATH[fields.BACKEND_TYPE].flink))
        ),
    ),
    *(_fixed(keys, value, message) for keys, value, message in FIXED),
    _rule(
        "no keys of S3",
        "keys are never written into a job; put them into a Secret and name it by s3.secretRef",
        lambda given, key: bool(key.startswith(SECRETS) or SECRET.search(key)),
    ),
    no_secrets(PATH)[1],
    _unknown(),
    *_values(),
)
