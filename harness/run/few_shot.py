"""From ``task.shots`` to a run's shots: the pool they come from, and an earlier run's mistakes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.errors import ConfigError, DataMissing
from harness.ports import Task
from harness.run.mistakes import Mistakes
from harness.run.parts import build_task
from harness.run.shot_selection import Pool, Selection
from harness.run.shots import Shots
from harness.store.run_folder import RunFolder, find_run


def build_shots(
    run: RunFile,
    task: Task[Any],
    settings: Settings,
    folder: RunFolder,
    siblings: Collection[str] = (),
) -> Shots | None:
    """The shots of a run, None for a zero-shot run, which costs nothing here.

    folder: the run's own, whose mistakes it cannot learn from.
    siblings: names of the variants of its file, which may grow before it begins.

    Raises: ConfigError; DataMissing.
    """
    section = run.task.shots
    if not section.n:
        return None
    if run.polish is not None and section.form != "turns":
        raise ConfigError(
            f"polish would rewrite the shots too, where task.shots.form is {section.form!r}.",
            "Set task.shots.form to turns, or remove polish from the run file.",
        )
    source = task
    if section.source:
        source = build_task(run, settings, section.source, judged=False)
    mistakes = None
    if section.run is not None:
        if section.run in siblings and section.run != folder.name:
            raise ConfigError(
                f"task.shots.run: {section.run!r} is a variant of the same file, whose errors may "
                "be others by the time that this one begins.",
                "Run it from a file of its own first, and name that run.",
            )
        mistakes = Mistakes(_earlier(section.run, run, task, settings, folder).attempts)
    return Shots(Selection(task, section, Pool(source), mistakes))


def _earlier(
    name: str, run: RunFile, task: Task[Any], settings: Settings, folder: RunFolder
) -> RunFolder:
    """The folder of the run whose mistakes are to be learnt from."""
    try:
        earlier = find_run(settings.runs_dir, name)
    except DataMissing as error:
        raise ConfigError(f"task.shots.run: {error.message}", error.remedy) from None
    if earlier.path.resolve() == folder.path.resolve():
        raise ConfigError(
            f"task.shots.run: {name!r} is this run itself.", "Name one that was made before."
        )
    if not earlier.begun():
        raise ConfigError(
            f"task.shots.run: the run {name!r} has no attempts yet.", "Let it make some first."
        )
    manifest = earlier.read_manifest()
    if manifest.get("simulated") and run.model.backend != "simulated":
        raise ConfigError(
            f"task.shots.run: the answers of the run {name!r} are made up (SIMULATED), and so are "
            "its errors.",
            "Name a run of a real model.",
        )
    before: dict[str, str] = {"task": manifest["task"], **manifest["fingerprint"]}
    now = {"task": run.task.name, **task.fingerprint()}
    for key in ("task", *sorted(key for key in now if key.startswith("dataset"))):
        if before.get(key) != now[key]:
            raise ConfigError(
                f"task.shots.run: the run {name!r} has another {key} than this one.",
                "Name a run of the same task and data set.",
            )
    return earlier
