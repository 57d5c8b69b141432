"""Permission to execute the code that run files and runs' folders name.

A run's folder may come from somebody else, so a command that only reads runs executes no file that
a folder names. Code is therefore refused unless the command needs it (`executing`). Whatever
executes such code asks first (`check_execution`). Installed packages need no permission.
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

A file in or beside a run's folder, or anywhere in the user's folder of runs, is always named before
it is executed.
"""

_permission: ContextVar[Permission] = ContextVar("permission", default="refused")

logger = logging.getLogger("harness.execution")  # of its own, for the pytest plug-in


class ExecutionRefused(ConfigError):
    """A file with code was not executed, because the command only reads runs."""


def permission() -> Permission:
    """Return the present permission."""
    return _permission.get()


@contextlib.contextmanager
def executing(permission: Permission = "allowed") -> Iterator[None]:
    """Set the permission in a ``with`` block or for the calls of a decorated function."""
    token = _permission.set(permission)
    try:
        yield
    finally:
        _permission.reset(token)


def report_executions() -> None:
    """From now on, name each file before it is executed: the run that names it may be foreign.

    Whether it is cannot be known: a run's folder may say anything.
    """
    if permission() == "allowed":
        _permission.set("reported")


def check_execution(path: str | Path) -> None:
    """Refuse or report the execution of the code at ``path``, unless it is allowed.

    Raises:
        ExecutionRefused: If the command only reads runs.
    """
    present = permission()
    if present == "refused":
        problem = f"{path} contains code, which is not executed to read a run."
        remedy = "If you trust it: harness run FILE and harness score RUN execute it."
        raise ExecutionRefused(problem, remedy)
    if present == "reported" or in_run_folder(path) or _among_runs(path):
        _report(Path(path).absolute())


@functools.cache
def _report(path: Path) -> None:
    logger.warning(f"Executing {path}, and what it imports")


def in_run_folder(path: str | Path) -> bool:
    """Return whether a file or folder lies in a run's folder, which may be damaged."""
    return any(map(_is_run_folder, Path(path).resolve().parents))


def _is_run_folder(folder: Path) -> bool:
    if (folder / "attempts.jsonl").exists():
        return True
    return (folder / "config.yaml").exists() and (folder / "manifest.json").exists()


_runs_roots: set[Path] = set()


def set_runs_root(root: Path) -> None:
    """From now on, name each file below this folder of runs before it is executed."""
    _runs_roots.add(root.resolve())


def _among_runs(path: str | Path) -> bool:
    """Return whether a file lies below the user's folder of runs, or beside other runs.

    A folder of runs may have come as a whole.
    """
    resolved = Path(path).resolve()
    if _runs_roots.intersection(resolved.parents):
        return True
    try:
        return any(map(_is_run_folder, resolved.parent.iterdir()))
    except OSError:
        return False
