"""From the name of a backend's class to an object of it.

Only the job's manifest and code name a class; a snapshot never does.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType

from sparkstate import errors
from sparkstate.backends.custom.factory import BackendContext, BackendFactory
from sparkstate.settings import StateBackendSettings

BASE = "sparkstate.backend_api.BackendFactory"
_AWAY = (ConnectionError, TimeoutError)


def refused(name: str | None, why: str) -> errors.BackendRefused:
    """The error for a class that cannot be a backend."""
    return errors.BackendRefused(f"{_said(name)}: {why}")


def unavailable(name: str | None, why: str) -> errors.BackendUnavailable:
    """The error for a class that may be a backend, and cannot say so now."""
    return errors.BackendUnavailable(f"{_said(name)}: {why}")


def _said(name: str | None) -> str:
    return f"the state backend {name!r} (spec.stateBackend.class)"


def load_class(name: str | None) -> type[BackendFactory]:
    """The class of that name: ``module:Class`` or ``module.Class``. Its module is imported, which runs its code.

    Raises :class:`errors.BackendRefused` with the remedy for a class that does not exist, or cannot be a backend.
    """
    module_name, class_name = _parts(name)
    found = getattr(module := _import(name, module_name), class_name, None)
    if not isinstance(found, type):
        raise refused(name, f"the module {module_name} has no class {class_name}{_instead(module)}")
    if not issubclass(found, BackendFactory):
        raise refused(
            name,
            f"the class does not derive from {BASE} (its bases: {_bases(found)}); derive it from that class, or from "
            "RowBackendFactory beside it",
        )
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        raise refused(name, f"the class does not implement {', '.join(missing)}; write every abstract method")
    return found


def make_factory(settings: StateBackendSettings, directory: Path) -> BackendFactory:
    """An object of the class that ``settings`` name. ``directory`` is made, and becomes its own.

    Raises as :func:`load_class`; :class:`errors.BackendRefused` for a constructor that raises, and
    :class:`errors.BackendUnavailable` where it says that something it needs is away.
    """
    backend = load_class(settings.class_name)
    directory.mkdir(parents=True, exist_ok=True)
    memory = settings.fixed_memory_bytes or settings.managed_memory_bytes
    context = BackendContext(options=dict(settings.options), directory=directory, memory_bytes=memory)
    try:
        return backend(context)
    except _AWAY as error:
        raise unavailable(
            settings.class_name,
            f"its constructor cannot reach what it needs: {type(error).__name__}: {error}",
        ) from error
    except (Exception, SystemExit) as error:
        given = f"the options {', '.join(sorted(settings.options))}" if settings.options else "no options"
        raise refused(
            settings.class_name,
            f"its constructor raised {type(error).__name__}: {error} (it was given {given}); correct the class, or "
            "its stateBackend.options",
        ) from error


def _parts(name: str | None) -> tuple[str, str]:
    text = (name or "").strip()
    module_name, _, class_name = text.rpartition(":" if ":" in text else ".")
    if not module_name or not class_name.isidentifier():
        raise refused(
            name, "write the module and the class, as in my_backend:MyBackend or my_backend.MyBackend"
        )
    return module_name, class_name


def _import(name: str | None, module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise refused(
                name,
                f"there is no module {error.name}; put its file beside the job's pythonFile, or install it in the "
                "job's image, for driver and executors alike",
            ) from error
        raise _not_importable(name, module_name, error) from error
    except (Exception, SystemExit) as error:
        raise _not_importable(name, module_name, error) from error


def _not_importable(name: str | None, module_name: str, error: BaseException) -> errors.BackendRefused:
    return refused(
        name,
        f"importing {module_name} raised {type(error).__name__}: {error}; the module has to be importable in a slot, "
        "without Spark",
    )


def _instead(module: ModuleType) -> str:
    known = sorted(
        each.__name__
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, BackendFactory) and not inspect.isabstract(each)
    )
    return f"; it has the backend {', '.join(known)}" if known else f" that derives from {BASE}"


def _bases(found: type) -> str:
    return ", ".join(base.__name__ for base in found.__bases__)
