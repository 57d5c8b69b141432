"""Permission to execute the code that run files and runs' folders name.

A run's folder may come from somebody else, so a command that only reads runs executes no file that
a folder names. Code is therefore refused unless the command needs it (`set_code_permission`).
Everything that executes such code calls `check_execution` first. Installed packages need no
permission.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Literal

from harness.errors import ConfigError

Permission = Literal["refused", "allowed", "reported"]
"""Whether code is refused, executed, or executed after a message that names its file.

The name of a file in or next to a run's folder, or anywhere in the user's folder of runs, is always
logged before it is executed.
"""

_permission: ContextVar[Permission] = ContextVar("permission", default="refused")

logger = logging.getLogger("harness.execution")  # a separate logger for the pytest plug-in


class ExecutionRefused(ConfigError):
    """A file with code was not executed, because the command only reads runs."""


def code_permission() -> Permission:
    """Return the permission that applies now."""
    return _permission.get()


@contextlib.contextmanager
def set_code_permission(permission: Permission) -> Iterator[None]:
    """Set the permission in a ``with`` block or for the calls of a decorated function."""
    token = _permission.set(permission)
    try:
        yield
    finally:
        _permission.reset(token)


def report_executions() -> None:
    """Log the name of each file from now on before it is executed.

    This is for commands that execute code named by a saved run, which may come from somebody else.
    """
    if code_permission() == "allowed":
        _permission.set("reported")


def check_execution(path: str | Path) -> None:
    """Check that a Python file may be executed, and log its name if that must be reported.

    Raises:
        ExecutionRefused: If the command only reads runs.
    """
    current = code_permission()
    if current == "refused":
        problem = f"{path} contains code, which is not executed to read a run."
        remedy = "If you trust it: harness run FILE and harness score RUN execute it."
        raise ExecutionRefused(problem, remedy)
    if current == "reported" or is_in_run_folder(path) or _is_among_runs(path):
        _warn_of_execution(Path(path).absolute())


@functools.cache
def _warn_of_execution(path: Path) -> None:
    logger.warning(f"Executing {path}, and what it imports")


def is_in_run_folder(path: str | Path) -> bool:
    """Return whether a file or folder lies in the folder of a run, which may be damaged."""
    return any(map(_is_run_folder, Path(path).resolve().parents))


def _is_run_folder(folder: Path) -> bool:
    if (folder / "attempts.jsonl").exists():
        return True
    return (folder / "config.yaml").exists() and (folder / "manifest.json").exists()


_runs_roots: set[Path] = set()


def set_runs_root(root: Path) -> None:
    """Log the name of each file below a folder of runs from now on before it is executed."""
    _runs_roots.add(root.resolve())


def _is_among_runs(path: str | Path) -> bool:
    """Return whether a file lies below the user's folder of runs, or next to a run's folder.

    The latter may be a copied folder of runs.
    """
    resolved = Path(path).resolve()
    if _runs_roots.intersection(resolved.parents):
        return True
    try:
        return any(map(_is_run_folder, resolved.parent.iterdir()))
    except OSError:
        return False
