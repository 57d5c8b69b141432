"""Copies of runs elsewhere, from which another machine can continue them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import cast

from harness.config.settings import Settings
from harness.declarations import declared_members
from harness.engine.session import Session
from harness.errors import ConfigError
from harness.store.run_folder import RunFolder
from harness.store.runs import run_name


class RunCopies(ABC):
    """The base class of a place for copies of runs.

    A plug-in declares as one of its ``run_copies`` a function that takes the settings and returns
    an instance.
    """

    @abstractmethod
    def set_aside(self, name: str) -> None:
        """Rename the copy of a run, if any, so that a new run can have its name."""

    @abstractmethod
    def pull(self, folder: RunFolder) -> str:
        """Bring a run's folder up to date. Return a message for the user, or "" if nothing changed.

        If both the folder and its copy have changed, the folder is kept under a dated name.
        """

    @abstractmethod
    def uploaded(self, folder: RunFolder, session: Session) -> AbstractAsyncContextManager[None]:
        """Hold the lease of a run in an ``async with`` block, and upload the run as it grows."""


def run_copies(settings: Settings) -> RunCopies | None:
    """Return the place that the settings name for copies of runs, if any.

    Raises:
        ConfigError: If no plug-in can use it, or the settings do not suffice.
    """
    if not settings.runs_url:
        return None
    for members in declared_members("run_copies").values():
        return cast("RunCopies", members[0].load()(settings))
    problem = "HARNESS_RUNS_URL is set, but no plug-in copies runs."
    raise ConfigError(problem, "Install one, or unset the variable.")


def set_copies_aside(settings: Settings, base: str, variants: Iterable[str]) -> None:
    """Rename the copies of a run file's runs, so that new runs can have their names."""
    if (copies := run_copies(settings)) is not None:
        for variant in variants:
            copies.set_aside(run_name(base, variant))
