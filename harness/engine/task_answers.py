"""The fields of the user's rows, which a run's task knows."""

from collections.abc import Callable, Mapping
from itertools import islice

from harness.config.settings import Settings
from harness.engine.other_runs import data_difference
from harness.engine.resolving import build_task
from harness.errors import DataInvalid, HarnessError
from harness.plugin_loader import kind
from harness.ports import Task, overrides
from harness.scoring.checks import is_file
from harness.store.run_folder import RunFolder

MOST_KEPT = 100_000  # maximum instances to hold in memory; nothing is known of further ones


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
