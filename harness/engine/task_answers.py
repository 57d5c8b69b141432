"""Facts that a run's task knows: references, the scored part of a reply, and rows' fields."""

from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import islice
from typing import Any

from harness.config.settings import Settings
from harness.engine.resolving import build_task, data_difference
from harness.engine.turns import as_of
from harness.errors import DataInvalid, HarnessError
from harness.plugin_loader import kind
from harness.ports import Task, overrides
from harness.records import Instance
from harness.scoring.checks import is_file
from harness.store.run_folder import RunFolder

MOST_KEPT = 100_000  # maximum instances to hold in memory; nothing is known of further ones


class RecordedTask:
    """The task of a run, whose data is read when first needed."""

    def __init__(self, task: Task[Any]) -> None:
        self._task = task

    @cached_property
    def _instances(self) -> dict[str, Instance[Any]]:
        try:
            return {one.id: one for one in islice(self._task.instances(), MOST_KEPT)}
        except HarnessError:  # the data cannot be read any more
            return {}

    def reference(self, instance: str, turn: int = 1) -> str | None:
        """Return the reference answer to an instance's turn, or None if none is known."""
        known = self._asked(instance, turn)
        return None if known is None else self._task.expected_answer(known)

    def _asked(self, instance: str, turn: int) -> Instance[Any] | None:
        known = self._instances.get(instance)
        return None if known is None else as_of(self._task, known, [""] * (turn - 1))

    def extracted(self, instance: str, text: str, turn: int = 1) -> str | None:
        """Return the scored part of a reply, or None if it is the whole reply or is unknown."""
        known = self._asked(instance, turn)
        if known is None:
            return None
        part = self._task.extracted(known, text)
        return None if part is None or part.strip() == text.strip() else part


def row_fields(
    folder: RunFolder, warn: Callable[[str], object] = lambda _: None
) -> Mapping[str, Mapping[str, object]]:
    """Return the fields of the user's rows by instance, or {} if there are none.

    If the rows cannot be read, the result is {}, and ``warn`` is called with the reason.
    """
    try:
        return _row_fields(folder, Settings())
    except HarnessError as error:
        warn(f"{folder.name}: the fields of its rows are left out. {error}")
        return {}


def _row_fields(folder: RunFolder, settings: Settings) -> dict[str, Mapping[str, object]]:
    run = folder.read_config()
    name = run.task.name
    if is_file(name) or name not in kind("tasks").names():  # a run of another tool
        return {}
    if not overrides(kind("tasks").load(name), Task.row_fields):
        return {}
    # Checks may be Python files, and reading a run must not execute them.
    options = {key: value for key, value in run.task.options.items() if key != "checks"}
    without = {"task": run.task.with_options(options), "judges": []}
    task = build_task(run.model_copy(update=without), settings, judged=False)
    if data_difference(folder, task):
        raise DataInvalid("The file has changed since the run.")
    rows = dict(islice(task.row_fields(), MOST_KEPT + 1))
    if len(rows) > MOST_KEPT:
        raise DataInvalid(f"There are more than {MOST_KEPT:,}.")
    return rows


def task_of(folder: RunFolder, settings: Settings) -> RecordedTask | None:
    """Return the task of a run, for reading its data but not for scoring.

    The result is None if the data has changed or anything is missing, or if the task needs code
    that a command which only reads runs does not execute.
    """
    try:
        run = folder.read_config()
        task = build_task(run.model_copy(update={"judges": []}), settings, judged=False)
        return None if data_difference(folder, task) else RecordedTask(task)
    except HarnessError:
        return None
