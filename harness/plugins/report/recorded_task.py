"""Facts that a run's task knows: references, and the scored part of a reply."""

from functools import cached_property
from itertools import islice
from typing import Any

from harness.config.settings import Settings
from harness.engine.resolving import MOST_KEPT, build_task, data_difference
from harness.engine.turns import as_of
from harness.errors import HarnessError
from harness.ports import Task
from harness.records import Instance
from harness.store.run_folder import RunFolder


class RecordedTask:
    """The task of a run, whose data is read when first needed."""

    def __init__(self, task: Task[Any]) -> None:
        self._task = task

    @cached_property
    def _instances(self) -> dict[str, Instance[Any]]:
        try:
            return {instance.id: instance for instance in islice(self._task.instances(), MOST_KEPT)}
        except HarnessError:  # the data cannot be read any more
            return {}

    def reference(self, instance: str, turn: int = 1) -> str | None:
        """Return the reference answer to an instance's turn, or None if none is known."""
        as_asked = self._asked(instance, turn)
        return None if as_asked is None else self._task.expected_answer(as_asked)

    def _asked(self, instance: str, turn: int) -> Instance[Any] | None:
        recorded = self._instances.get(instance)
        return None if recorded is None else as_of(self._task, recorded, [""] * (turn - 1))

    def extracted(self, instance: str, text: str, turn: int = 1) -> str | None:
        """Return the scored part of a reply, or None if it is the whole reply or is unknown."""
        as_asked = self._asked(instance, turn)
        if as_asked is None:
            return None
        part = self._task.extracted(as_asked, text)
        return None if part is None or part.strip() == text.strip() else part


def task_of(folder: RunFolder, settings: Settings) -> RecordedTask | None:
    """Return the task of a run, for reading its data but not for scoring.

    The result is None if the data has changed or anything is missing, or if the task needs code
    that a command which only reads runs does not execute.
    """
    try:
        run = folder.read_config()
        task = build_task(run.model_copy(update={"judges": []}), settings, judged=False)
        return None if data_difference(folder, task.fingerprint()) else RecordedTask(task)
    except HarnessError:
        return None
