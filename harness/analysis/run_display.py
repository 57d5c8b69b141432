"""What tables and reports show of a run that its results do not contain, such as a paper's table.

It comes from the code of the run's task. If this code is a Python file, the display is recorded in
the manifest when the run is made, because reading a run executes no file that the run names.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from harness.analysis.metrics import task_plugin_name
from harness.config.identity import changeable_keys, tree_by_name
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
    """What tables and reports of a run show besides its results.

    That is the table, the claims and the meanings of groups in the benchmark's paper, and the
    task's names for fields.
    """

    fields: Mapping[str, Mapping[str, str]] = {}  # `Task.fields`, by encoding
    missing: str = ""  # why the display is empty, if the task cannot be loaded

    @property
    def weight_names(self) -> Mapping[str, str]:
        """The names of the scores that weight other scores in the paper's table, by the latter."""
        if self.table is None:
            return {}
        return {
            figure.score: figure.weight
            for figure in self.table.figures
            if figure.of == "score" and figure.weight
        }


NO_DISPLAY = RunDisplay()


def read_display(folder: RunFolder, encodings: Iterable[str] = ()) -> RunDisplay:
    """Return the display recorded in a run's manifest, or else that of its installed task.

    If a Python file would have to be executed, the result is empty, and a warning says how to
    record the display.

    Args:
        folder: The run's folder.
        encodings: The groups of the label ``encoding``, whose fields are included.

    Raises:
        DataInvalid: If the recorded display is damaged.
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
        return _task_display(plugin_class(task, Task), encodings)  # type: ignore[type-abstract]
    except ExecutionRefused as error:
        _warn_once(
            f"{folder.name}: its task's table and labels are missing, if it has any. {error}"
        )
        return NO_DISPLAY
    except HarnessError as error:
        return RunDisplay(missing=str(error))


_warn_once = cache(logger.warning)  # once for each run


def display_entries(run: RunFile, instances: Iterable[Instance[Any]]) -> dict[str, Any]:
    """Return manifest entries from which a run can be read without the user's code.

    They are the display of the task, and the keys that `Backend.may_change` allows to change. If
    the run file names no such code, the result is empty.

    Args:
        run: The resolved run file.
        instances: The run's instances.
    """
    entries: dict[str, Any] = {}
    tasks = kind("tasks")
    name = run.task.name
    if tasks.is_user_code(name):
        with wrap_errors(f"The display of the task {name!r}"):
            task = plugin_class(tasks.load(name), Task)  # type: ignore[type-abstract]
            encodings = set[str]()
            if task.claims is not None:
                encodings = {instance.groups.get("encoding", "") for instance in instances}
            display = msgspec.to_builtins(_task_display(task, encodings - {""}))
            msgspec.convert(display, RunDisplay)  # checks the types of the task's attributes
        entries[DISPLAY_KEY] = display
    tree = tree_by_name(run)
    with set_code_permission("refused"):
        free_without_code = changeable_keys(tree)
    if free := [key for key in changeable_keys(tree) if key not in free_without_code]:
        entries[FREE_KEYS_KEY] = free
    return entries


def _task_display(task: type[Task[Any]], encodings: Iterable[str]) -> RunDisplay:
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
