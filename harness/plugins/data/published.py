"""Downloads published data sets before the runs that need them start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.datasets.catalogue import DataSet, Original, catalogue, data_set
from harness.engine.judges import published_prompts
from harness.engine.models import ModelBuilder, Resources, build_models
from harness.errors import DataMissing, HarnessError
from harness.plugins.data.fetch import Progress, fetch, in_nltk_folder, summary
from harness.store.run_folder import RunFolder
from harness.store.runs import run_name
from harness.terminal.console import messages, say


def fetch_published(runs: Mapping[str, RunFile], base: str, resources: Resources) -> None:
    """Download the published data sets and prompts that the runs need, unless they are installed.

    The runs are given by variant, and their names begin with ``base``. Before a data set is
    downloaded, the runs' models are built, so that a missing API key is reported first. Other data
    that an installed data set needs is downloaded only if none of the runs has begun, because a run
    must keep its verdicts. Nothing is downloaded if HARNESS_FETCH is false.
    """
    settings = resources.settings
    task_datasets = {
        (run.task.name, run.task.options.get("dataset", "builtin")) for run in runs.values()
    }
    published = {pair for pair in task_datasets if pair[1] != "builtin"}
    if judges := [judge for run in runs.values() for judge in run.judges]:
        fetch_prompts(published_prompts(judges), settings)
    if not published or not settings.fetch:
        return
    has_begun = any(RunFolder(settings.runs_dir, run_name(base, name)).begun() for name in runs)
    missing: dict[str, tuple[DataSet, bool]] = {}  # by name; True if a task cannot run without it
    for task, dataset in sorted(published):
        data_set = catalogue().get(task)
        if data_set is None or not data_set.option or data_set.option != dataset:
            continue
        absent = summary(data_set, settings.data_dir) == "no"
        if absent:
            missing[data_set.name] = data_set, True
        for name in data_set.needs if absent or not has_begun else ():
            needed = catalogue()[name]
            if summary(needed, settings.data_dir) == "no" and not in_nltk_folder(needed):
                missing[needed.name] = needed, False
    if missing:
        for name, run in runs.items():
            logs = RunFolder(settings.runs_dir, run_name(base, name)).servers
            build_models(run, ModelBuilder(resources, run.limits, logs, beside=run.folder))
    for to_install, required in missing.values():
        say(f"Fetching {to_install.name} ({to_install.licence}) from {to_install.home}")
        try:
            install(to_install, settings.data_dir)
        except HarnessError as error:
            if required:
                own_data = "Or use our own instances: -o task.dataset=builtin."
                remedy = f"{error.remedy} {own_data}".strip()
                raise DataMissing(error.message, remedy) from None
            say(f"{error.message} To try again: harness data fetch {to_install.name}", "yellow")


def fetch_prompts(names: Iterable[str], settings: Settings) -> None:
    """Download missing data sets of published prompts, unless HARNESS_FETCH is false."""
    if not settings.fetch:
        return
    for dataset in map(data_set, names):
        if summary(dataset, settings.data_dir) != "yes":
            say(f"Fetching {dataset.name} ({dataset.licence}) from {dataset.home}")
            try:
                install(dataset, settings.data_dir)
            except DataMissing as error:
                command = f"Or, when there is a network: harness data fetch {dataset.name}."
                raise DataMissing(error.message, f"{error.remedy} {command}") from None


def install(dataset: DataSet, root: Path, mirror: str | None = None) -> list[str]:
    """Fetch a data set into the data folder ``root``, and show a progress bar for each file.

    ``mirror`` is the URL of a folder with the original files as NAME/FILE (default: their own
    URLs). Return the paths of the created files, relative to ``root``: none if all are installed.

    Raises:
        DataInvalid: If a file differs from the published one.
        DataMissing: If a file cannot be downloaded or written.
        UserError: If another process is fetching the data set.
    """
    from rich import progress  # not needed unless a file is missing

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.DownloadColumn(),
    )
    with progress.Progress(*columns, console=messages, disable=not messages.is_terminal) as bars:

        def progress_bar(original: Original) -> Progress:
            bar = bars.add_task(original.name, total=original.size)
            return lambda there, total: bars.update(bar, completed=there, total=total)

        return fetch(dataset, root, mirror, progress_bar)
