"""Finding the job's function: ``pythonFile`` or ``module:function``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import cloudpickle

from sparkstate import errors, user_errors
from sparkstate.settings import EntryPoint

JobFunction = Callable[..., Any]
_OF_A_PACKAGE: Final = (
    "; spec.pythonFile is loaded as a file without a package, and finds what lies beside it: write `from fns import …` "
    "in place of `from .fns import …`, or name the module of an installed package with spec.module"
)


def load(entry: EntryPoint) -> tuple[JobFunction, tuple[str, ...]]:
    """The function ``job(spark, params)`` and the folders that slots need on their Python path."""
    if entry.python_file is not None:
        return _from_file(Path(entry.python_file), entry.function)
    if entry.module is None:
        raise errors.SpecInvalid(
            "spec.pythonFile and spec.module are both missing; name the job's file or module"
        )
    try:
        module = importlib.import_module(entry.module)
    except ImportError as error:
        raise errors.SpecInvalid(
            f"spec.module is {entry.module!r}, which cannot be imported: {error}"
        ) from error
    except SystemExit as error:
        raise errors.UserCodeError(_left(entry.module, error)) from error
    return _function_of(module, entry.function, entry.module), ()


def folders(entry: EntryPoint) -> tuple[str, ...]:
    """The same folders, of a job whose code need not be loaded yet."""
    return () if entry.python_file is None else _beside(Path(entry.python_file))


def _beside(path: Path) -> tuple[str, ...]:
    """The folder of the file as it was named, and the one that symbolic links lead to. A ConfigMap is mounted as links
    into a folder that has another name in each pod, so an executor knows only the first. A link to a script elsewhere
    has its modules in the second."""
    return tuple(dict.fromkeys(str(each.parent) for each in (path.absolute(), path.resolve())))


def _from_file(path: Path, function: str) -> tuple[JobFunction, tuple[str, ...]]:
    if not path.is_file():
        raise errors.SpecInvalid(f"spec.pythonFile is {str(path)!r}; there is no such file")
    beside = _beside(path)
    sys.path[:0] = [folder for folder in beside if folder not in sys.path]
    name = f"sparkstate_job_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise errors.SpecInvalid(f"spec.pythonFile is {str(path)!r}; it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (SyntaxError, ImportError, NameError) as error:
        # No restart changes these. Any other error may come from what the code read meanwhile, and may pass.
        remedy = _OF_A_PACKAGE if "attempted relative import" in str(error) else ""
        raise errors.DeclarationError(
            f"{path} cannot be imported: {user_errors.describe(error)}{remedy}"
        ) from error
    except SystemExit as error:
        raise errors.UserCodeError(_left(str(path), error)) from error
    except Exception as error:
        raise errors.UserCodeError(
            f"{path} raised while it was imported: {user_errors.describe(error)}"
        ) from error
    # Slots cannot import a file by its path, so its functions travel by value.
    cloudpickle.register_pickle_by_value(module)
    return _function_of(module, function, str(path)), beside


def _left(where: str, error: SystemExit) -> str:
    """It ended the driver with the code of a job that has finished, although no row was read."""
    return (
        f"{where} called sys.exit({error.code!r}) while it was imported; its function declares the job, and the driver "
        'ends it: take the call out, or put it beneath `if __name__ == "__main__":`'
    )


def _function_of(module: Any, function: str, where: str) -> JobFunction:
    found = getattr(module, function, None)
    if not callable(found):
        raise errors.SpecInvalid(
            f"{where} has no function {function!r}; define `def {function}(spark, params)`"
        )
    return found  # type: ignore[no-any-return]
