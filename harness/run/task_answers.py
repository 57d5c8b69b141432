"""Facts that a run's task knows about answers: references, and the scored part of a reply."""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from typing import Any

from harness.config.settings import Settings
from harness.errors import HarnessError
from harness.ports import Extracting, Targeted, Task
from harness.records import Instance
from harness.run.models import build_task
from harness.run.other_runs import data_difference
from harness.scoring.checks import is_file
from harness.store.run_folder import RunFolder

MOST_KEPT = 100_000  # maximum instances to hold in memory; nothing is known of further ones


class RecordedTask:
    """The task of a run. Its data is read when it is first needed."""

    def __init__(self, task: Task[Any]) -> None:
        self._task = task

    @cached_property
    def _instances(self) -> dict[str, Instance[Any]]:
        try:
            return {one.id: one for one in islice(self._task.instances(), MOST_KEPT)}
        except HarnessError:  # the data cannot be read any more
            return {}

    def reference(self, instance: str) -> str | None:
        """Return an instance's reference answer, or None if none is known."""
        task, known = self._task, self._instances.get(instance)
        if known is None:
            return None
        return task.expected_answer(known) if isinstance(task, Targeted) else task.reference(known)

    def extracted(self, instance: str, text: str) -> str | None:
        """Return the scored part of a reply, or None if that is all of it, nothing or unknown."""
        known = self._instances.get(instance)
        if known is None or not isinstance(self._task, Extracting):
            return None
        part = self._task.extracted(known, text)
        return None if part is None or part.strip() == text.strip() else part


def task_of(folder: RunFolder, settings: Settings) -> RecordedTask | None:
    """Return the task of a run, for reading its data but not for scoring.

    The result is None if the data or a plug-in is missing or has changed, or if the run file names
    Python files, because reading a run must not execute them.
    """
    try:
        run = folder.read_config()
        checks = run.task.options.get("checks") or []
        named = [key for check in checks for key in ([check] if isinstance(check, str) else check)]
        if any(is_file(str(name)) for name in (run.task.name, *named)):
            return None
        task = build_task(run.model_copy(update={"judges": []}), settings, judged=False)
        return None if data_difference(folder, task) else RecordedTask(task)
    except HarnessError:
        return None
