"""What tables and reports show of a run that its results do not contain, such as a paper's table.

It comes from the code of the run's task. If that is a Python file, it is recorded in the manifest
when the run is made, because reading a run executes no file that the run names.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from harness.analysis.metrics import task_plugin_name
from harness.config.identity import by_name, free_keys
from harness.config.run_file import RunFile
from harness.errors import DataInvalid, HarnessError
from harness.execution import ExecutionRefused, set_code_permission
from harness.plugin_interface import wrap_errors
from harness.plugin_loader import kind
from harness.ports import Paper, PaperTable, Task, plugin_class
from harness.records import Instance
from harness.store.run_folder import RunFolder

DISPLAY_KEY, FREE_KEYS_KEY = "display", "free_keys"  # in a manifest

logger = logging.getLogger("harness")


class RunDisplay(Paper, frozen=True, kw_only=True):
    """What tables and reports show of a run that its results do not contain."""

    fields: Mapping[str, Mapping[str, str]] = {}  # `Task.fields`, by encoding
    missing: str = ""  # why there is none, if the task is not installed

    @property
    def weights(self) -> Mapping[str, str]:
        """The scores that hold the weights of the paper's weighted scores, by these scores."""
        figures = self.table.figures if self.table else ()
        weighted = [figure for figure in figures if figure.of == "score" and figure.weight]
        return {figure.score: figure.weight for figure in weighted}


NO_DISPLAY = RunDisplay()


def read_display(folder: RunFolder, encodings: Iterable[str] = ()) -> RunDisplay:
    """Return what is recorded, or else what the run's installed task says.

    ``encodings`` are the groups of the label ``encoding``. If a Python file would have to be
    executed, the result is empty, and a warning says how to record it.

    Raises:
        DataInvalid: If the record is damaged.
    """
    manifest = folder.read_manifest()
    if DISPLAY_KEY in manifest:
        try:
            return msgspec.convert(manifest[DISPLAY_KEY], RunDisplay)
        except msgspec.ValidationError as error:
            problem = f"{folder.manifest}: {DISPLAY_KEY} is damaged ({error})."
            remedy = f"Remove it; harness score {folder.name} writes it again."
            raise DataInvalid(problem, remedy) from None
    try:
        task = kind("tasks").load(task_plugin_name(manifest.get("task", "")))
        return _display_from_task(plugin_class(task, Task), encodings)  # type: ignore[type-abstract]
    except ExecutionRefused as error:
        _warn_once(
            f"{folder.name}: its task's table and labels are missing, if it has any. {error}"
        )
        return NO_DISPLAY
    except HarnessError as error:
        return RunDisplay(missing=str(error))


_warn_once = cache(logger.warning)  # once for each run


def display_entries(run: RunFile, instances: Iterable[Instance[Any]]) -> dict[str, Any]:
    """Return the entries of a manifest that replace the code which the run file names.

    These are the display of a task, and the keys that may change because a backend says so.
    """
    recorded: dict[str, Any] = {}
    tasks = kind("tasks")
    name = run.task.name
    if tasks.is_user_code(name):
        with wrap_errors(f"The display of the task {name!r}"):
            task = plugin_class(tasks.load(name), Task)  # type: ignore[type-abstract]
            encodings = set[str]()
            if task.claims is not None:
                encodings = {instance.groups.get("encoding", "") for instance in instances}
            display = msgspec.to_builtins(_display_from_task(task, encodings - {""}))
            msgspec.convert(display, RunDisplay)  # what its members return may be of any type
        recorded[DISPLAY_KEY] = display
    tree = by_name(run)
    with set_code_permission("refused"):
        without_code = free_keys(tree)
    if free := [key for key in free_keys(tree) if key not in without_code]:
        recorded[FREE_KEYS_KEY] = free
    return recorded


def _display_from_task(task: type[Task[Any]], encodings: Iterable[str]) -> RunDisplay:
    fields: dict[str, dict[str, str]] = {}
    if task.claims is not None:
        fields = {encoding: dict(task.fields(encoding)) for encoding in encodings}
    return RunDisplay(
        table=task.table if isinstance(task.table, PaperTable) else None,
        claims=task.claims,
        fields=fields,
        effects=task.effects,
        group_meanings=task.group_meanings,
    )
