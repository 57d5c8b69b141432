"""Crashes of the system under test: which backends can crash, and when a crash counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from msgspec import structs

from harness.calls.code_errors import ModelAnswers
from harness.config.run_file import RunFile
from harness.engine.models import Model
from harness.engine.progress import NO_VERDICTS, Verdicts
from harness.errors import ConfigError
from harness.plugin_loader import FILE, kind
from harness.ports import APPLICATION, Backend
from harness.records import SCHEMA_VERSION, Attempt
from harness.store.run_folder import RunFolder

Record = Callable[[Attempt, bool | None, Verdicts], None]


def with_on_error(run: RunFile, model: Model, folder: RunFolder) -> tuple[RunFile, Model]:
    """Return a run file and its model with ``on_error`` filled in.

    By default, crashes count as failures if the backend is an application. A run that began in an
    earlier version, which excluded them, continues to do so.

    Raises:
        ConfigError: If crashes shall count, but the backend calls a provider.
    """
    section, value = run.model, run.model.on_error
    own_code = section.backend.endswith(FILE) or section.backend in kind("backends").registered()
    if value == "fail" and not (own_code or APPLICATION in model.backend.features):
        problem = f"model.on_error: fail is for your own application, not for {section.backend!r}."
        remedy = "Remove it: a provider's failed calls have no verdict, and are made again."
        raise ConfigError(problem, remedy)
    if value is None and is_application(own_code, model.backend):
        value = "fail"
        if folder.begun():
            value = folder.read_config().model.on_error or "exclude"
    section = section.model_copy(update={"on_error": value})
    return run.model_copy(update={"model": section}), replace(model, section=section)


def is_application(own_code: bool, backend: Backend) -> bool:
    """Return whether a backend is the system under test itself, rather than a way to reach it.

    It is if it is a function, or if it is the user's own class (``own_code``) and names no server.
    """
    return APPLICATION in backend.features or (own_code and not backend.endpoint)


class HeldCrashes:
    """Records attempts, but holds back crashes until any call of the run has been answered.

    If all calls crash, the cause is probably outside the prompts, such as a failed import or an
    outage. The crashes are then failed calls, which count for nothing and are made again.

    Args:
        record: Writes and counts an attempt, given its verdict and the sample's earlier ones.
        answered: Whether a call has been answered, in this session or an earlier one.
    """

    def __init__(self, record: Record, answered: ModelAnswers) -> None:
        self._record = record
        self._answered = answered
        self._held: list[Attempt] = []

    def record(self, attempt: Attempt, passed: bool | None, before: Verdicts) -> None:
        """Record an attempt, or hold it back if it is a crash and no call has been answered."""
        if self._answered.any:
            self.release()
        elif attempt.outcome == "crashed":
            self._held.append(attempt)
            return
        self._record(attempt, passed, before)

    def release(self) -> None:
        """Record the crashes still held: as failed calls, if no call has been answered."""
        for crash in self._held:
            attempt = crash
            if not self._answered.any:
                attempt = structs.replace(
                    crash, v=SCHEMA_VERSION, outcome="error", passed=None, scores={}
                )
            self._record(attempt, attempt.passed, NO_VERDICTS)
        self._held.clear()
