"""How an error of the user's code is shown: class and text, the line that it came from, and the stack for a log."""

from __future__ import annotations

import functools
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import PurePath
from types import FrameType
from typing import Final

_TEXT_CHARACTERS = 10_000
"""Of an error's text: some libraries put all that they were given into it, and each rejected row holds it."""
_FRAMES: Final = 50
"""Of one stack: a recursion without an end has a thousand."""
_OURS: Final = frozenset({"sparkstate", "sparkstate_compiled", "sparkstate_spec"})
_PYTHON: Final = ("<frozen ", *(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib")))
"""Python's own code."""
_SITES: Final = frozenset({"site-packages", "dist-packages"})


def describe(error: BaseException) -> str:
    """Class, text and line of an error, as any column and any log can have it, whatever its author has put into the
    text: ``KeyError: 'limit' (job.py:22 in process_element)``."""
    return f"{_without_line(error)}{line_of(error)}"


def line_of(error: BaseException) -> str:
    """The line of the user's code that raised, as the end of a message: `` (job.py:22 in process_element)``. Empty if
    no such code was running. A file in a package has its folders there in front.

    That is the innermost line outside of libraries. Where the job itself is installed as a library, it is the innermost
    one of the package that sparkstate called.
    """
    frames = [each for each in traceback.walk_tb(error.__traceback__) if _is_of_the_user(each[0])]
    if not frames:
        return ""
    own = [each for each in frames if not _is_installed(_origin(each[0]))]
    called = _package(frames[0][0])
    frame, line = (own or [each for each in frames if _package(each[0]) == called])[-1]
    return f" ({_file(frame)}:{line} in {frame.f_code.co_name})".encode(errors="backslashreplace").decode()


def is_raised_by_us(error: BaseException) -> bool:
    """Whether our code has raised it, itself or by a call of Python's own code."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if not _is_of_python(frame)]
    return bool(frames) and _is_ours(frames[-1])


def log_stack(error: BaseException) -> None:
    """Write the stack of an error to standard error, and those of the errors that it came from."""
    print(stack_of(error), file=sys.stderr, flush=True)


def stack_of(error: BaseException) -> str:
    """As Python shows it, the last error last. Errors that it came from are shown without their texts, which their
    author may have replaced because of a secret in them."""
    chain = list(_chain(error))
    parts = []
    for each in reversed(chain):
        stack = traceback.StackSummary.extract(traceback.walk_tb(each.__traceback__), limit=-_FRAMES)
        told = _without_line(each) if each is error else type(each).__qualname__
        parts.append(f"Traceback (most recent call last):\n{''.join(stack.format())}{told}")
    return "\n\nwhich led to:\n\n".join(parts)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and those that it came from, as far as its author shows them."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)


def _without_line(error: BaseException) -> str:
    try:
        text = str(error)
    except (Exception, SystemExit) as failure:
        text = f"(its text cannot be read: {type(failure).__qualname__})"
    if len(text) > _TEXT_CHARACTERS:
        text = text[:_TEXT_CHARACTERS] + "…"
    return f"{type(error).__qualname__}: {text}".encode(errors="backslashreplace").decode()


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _package(frame: FrameType) -> str:
    return _module(frame).partition(".")[0]


def _is_of_the_user(frame: FrameType) -> bool:
    """Or of a library that the user has installed."""
    return not _is_ours(frame) and not _is_of_python(frame) and not _is_generated(frame)


def _is_ours(frame: FrameType) -> bool:
    return _package(frame) in _OURS


def _is_of_python(frame: FrameType) -> bool:
    file = _origin(frame)
    return file.startswith(_PYTHON) and not _is_installed(file)


def _is_generated(frame: FrameType) -> bool:
    """Whether its code has no file and nobody typed it, such as that of a dataclass. A prompt and a notebook are the
    module ``__main__``, in which only the methods of a dataclass are generated."""
    name = frame.f_code.co_name
    is_typed = _module(frame) == "__main__" and not name.startswith("__")
    return frame.f_code.co_filename.startswith("<") and not is_typed


def _origin(frame: FrameType) -> str:
    """The file of its code. Of code in a compiled library, which knows its source by a name alone, that library."""
    file = frame.f_code.co_filename
    return file if file.startswith(("/", "<")) else str(frame.f_globals.get("__file__") or file)


@functools.lru_cache(maxsize=1024)
def _is_installed(file: str) -> bool:
    return not _SITES.isdisjoint(PurePath(file).parts)


def _file(frame: FrameType) -> str:
    """The file's name, with as many folders as its module has packages around it."""
    path = PurePath(frame.f_code.co_filename)
    folders = _module(frame).count(".") + (path.stem == "__init__")
    return "/".join(path.parts[-1 - folders :])
