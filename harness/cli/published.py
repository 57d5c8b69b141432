"""Downloads the published data of runs before they start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from harness.cli.console import say
from harness.config.run_file import RunFile
from harness.errors import DataMissing, HarnessError
from harness.run.models import ModelBuilder, Resources, build_models
from harness.store.run_folder import RunFolder, run_name

if TYPE_CHECKING:
    from harness.datasets.fetch import DataSet


def fetch_published(runs: Mapping[str, RunFile], base: str, resources: Resources) -> None:
    """Download the published data sets that the runs' tasks read and that are not installed.

    The runs' names begin with ``base``. Before a download, their models are built, so that a
    missing key is found first. The other data that a data set needs (`DataSet.needs`) comes with
    it, or later if none of the runs has begun: a begun run must keep its verdicts. If this other
    data cannot be had, only a warning is printed. HARNESS_FETCH=false prevents all downloads.
    """
    settings = resources.settings
    asked = {(run.task.name, run.task.options.get("dataset", "builtin")) for run in runs.values()}
    named = {pair for pair in asked if pair[1] != "builtin"}
    if not named or not settings.fetch:
        return
    from harness.cli.data import install  # not needed for a built-in set
    from harness.datasets.fetch import in_nltk_folder, published, summary

    begun = any(RunFolder(settings.runs_dir, run_name(base, name)).begun() for name in runs)
    missing: dict[str, tuple[DataSet, bool]] = {}  # by name; True if a task cannot run without it
    for task, dataset in sorted(named):
        own, *needs = published(task, dataset) or (None,)
        if own is None:
            continue
        absent = summary(own, settings.data_dir) == "no"
        if absent:
            missing[own.name] = own, True
        for found in needs if absent or not begun else ():
            if summary(found, settings.data_dir) == "no" and not in_nltk_folder(found):
                missing[found.name] = found, False
    if missing:
        for name, run in runs.items():
            logs = RunFolder(settings.runs_dir, run_name(base, name)).servers
            build_models(run, ModelBuilder(resources, run.limits, logs))
    for found, required in missing.values():
        say(f"Fetching {found.name} ({found.licence}) from {found.home}")
        try:
            install(found, settings.data_dir)
        except HarnessError as error:
            if required:
                own_data = "Or use our own instances: -o task.dataset=builtin."
                remedy = f"{error.remedy} {own_data}".strip()
                raise DataMissing(error.message, remedy) from None
            say(f"{error.message} To try again: harness data fetch {found.name}", "yellow")
