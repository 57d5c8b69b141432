"""Resolves what a run file names: its models, its task, the plug-ins' defaults, and other runs."""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from harness.backends.openai import PRESETS
from harness.config.run_file import RunFile
from harness.config.sections import JudgeSection, ModelSection
from harness.config.settings import Settings
from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid, DataMissing, HarnessError, suggest_name
from harness.plugin_interface import option_parameters
from harness.plugin_loader import CODE_HASH_PREFIX, PYTHON_SUFFIX, kind
from harness.ports import Task, decides_by_criteria, overrides_method
from harness.scoring.checks import is_python_file
from harness.store.run_folder import RunFolder, describe_change
from harness.store.runs import find_run

S = TypeVar("S", bound=ModelSection)


def named_model(text: str) -> dict[str, Any]:
    """Return the ``model:`` section for a model named ``BACKEND/NAME`` or ``PRESET/NAME``.

    A backend's name without a model is accepted too, as in ``simulated``, and so are a simulated
    model's accuracy, as in ``simulated/0.8``, and the path of a Python file with a backend.
    """
    if text.endswith(PYTHON_SUFFIX):
        return {"backend": str(Path(text).absolute()), "name": Path(text).stem}
    where, _, name = text.partition("/")
    backends = kind("backends").names()
    if where == "simulated" and re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)", name):
        if not 0 <= float(name) <= 1:
            problem = f"{text!r:.60} names an accuracy that is not from 0 to 1."
            raise ConfigError(problem, "Write one such as simulated/0.8.")
        return {"backend": where, "name": name, "accuracy": float(name)}
    if where in PRESETS and PRESETS[where].needs_responses_api(name):
        return {"backend": "openai_responses", "preset": where, "name": name}
    if where in backends and name:
        return {"backend": where, "name": name}
    if where in PRESETS:
        if not name:
            raise ConfigError(f"Which model of {where}?", f"Write {where}/NAME.")
        return {"backend": "openai", "preset": where, "name": name}
    if where in backends:
        return {"backend": where, "name": where}
    form = "Models are named BACKEND/NAME or PRESET/NAME, such as openai/gpt-4o-mini."
    problem = f"There is no backend or preset named {where!r}."
    raise ConfigError(problem, f"{form} {suggest_name(where, {*backends, *PRESETS})}")


def refuse_other_address(
    tree: Mapping[str, Any], where: str, model: str, overrides: Sequence[str]
) -> None:
    """Raise ConfigError if replacing the run file's model would send calls to another server.

    ``model`` is refused if the run file ``tree`` sets the URL of a server, unless ``overrides`` say
    which URL to use, or its backend, such as ``simulated``, has no URL. ``where`` names the run
    file.
    """
    section = tree.get("model")
    if not isinstance(section, Mapping):
        return
    url = section.get("base_url")
    if not url or any(text.startswith("model.base_url=") for text in overrides):
        return
    backend = kind("backends").load(named_model(model)["backend"])
    if "base_url" in option_parameters(backend):
        raise ConfigError(
            f"{where} sends its calls to {url}, and the model {model!r} would be called elsewhere.",
            "To keep the address: -o model.name=NAME instead of -m. To use the provider's own: "
            "-o model.base_url=null as well.",
        )


def build_task(
    run: RunFile,
    settings: Settings,
    options: Mapping[str, Any] | None = None,
    later: Collection[JudgeSection] = (),
    *,
    judged: bool = True,
) -> Task[Any]:
    """Build the task of a run file.

    ``options`` replace options of the run file, and ``later`` are further judges. If ``judged`` is
    false, the task need not support the judges.
    """
    judges = {
        judge.as_: decides_by_criteria(kind("judges").load(judge.name))
        for judge in (*run.judges, *later)
    }
    task: Task[Any] = kind("tasks").build(
        run.task.name,
        {**run.task.options, **(options or {})},
        data=DataFolder(settings.data_dir, run.folder),
        judges=judges if judged else None,
        panels={panel.as_: panel.of for panel in run.panels},
    )
    return task


def code_hashes(run: RunFile) -> dict[str, str]:
    """Return the hashes of a run's plug-ins that are registered or in Python files, by name.

    The names begin with `CODE_HASH_PREFIX`. Earlier versions used other hashes and no prefix.
    """
    plugins = [("tasks", run.task.name), ("backends", run.model.backend)]
    if run.polish:
        plugins.append(("backends", run.polish.backend))
    if run.user:
        plugins.append(("backends", run.user.model.backend))
    for judge in run.judges:
        plugins.append(("backends", judge.model.backend))
        plugins.append(("judges", judge.name))
    hashes: dict[str, str] = {}
    for kind_name, name in plugins:
        if digest := kind(kind_name).user_code_sha256(name):
            hashes[f"{CODE_HASH_PREFIX}{kind_name}/{name}_sha256"] = digest
    return hashes


def resolved(run: RunFile) -> RunFile:
    """Return the run file with the defaults of its plug-ins' options filled in."""
    task = partial(_options, "tasks", run.task.name)
    shots = run.task.shots
    if shots.source:
        options = task({**run.task.options, **shots.source})
        shots = shots.model_copy(update={"source": {key: options[key] for key in shots.source}})
    return run.model_copy(
        update={
            "task": run.task.with_options(task(run.task.options), shots=shots),
            "model": _resolved(run.model),
            "polish": _resolved(run.polish) if run.polish else None,
            "user": run.user and run.user.model_copy(update={"model": _resolved(run.user.model)}),
            "judges": tuple(map(resolved_judge, run.judges)),
        }
    )


def resolved_judge(section: JudgeSection) -> JudgeSection:
    """Return a judge's section with the defaults of its plug-ins' options filled in."""
    options = _options("judges", section.name, section.options)
    fields = {"name": section.name, "as": section.as_, "model": _resolved(section.model)}
    return JudgeSection.model_validate({**options, **fields})


def _resolved(section: S) -> S:
    fields = {field: getattr(section, field) for field in type(section).model_fields}
    names = option_parameters(kind("backends").load(section.backend))
    options = _options("backends", section.backend, section.plugin_options(names))
    if section.version is None and isinstance(options.get("version"), str):
        fields["version"] = options["version"]  # the default of the plug-in's option
    return type(section)(**options | fields)


def _options(kind_name: str, name: str, options: dict[str, Any]) -> dict[str, Any]:
    return kind(kind_name).validate_options(name, options).model_dump(mode="json")


# Recordings that a run replays. A recording may grow between the sessions of a run. If it has
# changed otherwise, the run's scores are those of other answers.

RECORDING = "recording_sha256"
"""The end of a recording's name in a fingerprint. The value is the file's SHA-256 and size."""


def recording_hashes(run: RunFile, settings: Settings) -> dict[str, str]:
    """Return the hash of each recording that a model of the run replays, by name."""
    recordings = _recordings(run, settings).items()
    return {name: _hash(path, path.stat().st_size) for name, path in recordings}


def if_grown(
    fingerprint: Mapping[str, str], folder: RunFolder, run: RunFile, settings: Settings
) -> dict[str, str]:
    """Return a fingerprint with the earlier hash of each recording that has only grown."""
    earlier = folder.read_manifest().get("fingerprint", {})
    same = dict(fingerprint)
    for name, path in _recordings(run, settings).items():
        before = earlier.get(name, "")
        size = int(before.partition(":")[2] or 0)
        if 0 < size < path.stat().st_size and _hash(path, size) == before:
            same[name] = before
    return same


def _recordings(run: RunFile, settings: Settings) -> dict[str, Path]:
    """Return the files by their names in a fingerprint, such as ``judge_good_recording_sha256``."""
    models: dict[str, ModelSection] = {"": run.model}
    for judge in run.judges:
        models[f"judge_{judge.as_}_"] = judge.model
    if run.user is not None:
        models["user_"] = run.user.model
    paths = {}
    for prefix, model in models.items():
        path = model.options.get("path")
        if model.backend == "replay" and isinstance(path, str):
            with suppress(DataMissing):
                paths[prefix + RECORDING] = DataFolder(settings.data_dir, run.folder).file(path)
    return paths


def _hash(path: Path, size: int) -> str:
    """Return the SHA-256 of a file's first ``size`` bytes, and the size."""
    digest = hashlib.sha256()
    left = size
    with path.open("rb") as file:
        while left and (block := file.read(min(left, 1 << 20))):
            digest.update(block)
            left -= len(block)
    return f"{digest.hexdigest()}:{size}"


def other_run(
    runs: Path, name: str, fingerprint: Mapping[str, str], key: str, *, simulated: bool
) -> RunFolder:
    """Return the other run that a run file names under ``key``.

    It must have been made with the data of a task with this ``fingerprint``, and by a real model
    unless ``simulated``.
    """
    try:
        folder = find_run(runs, name)
    except DataMissing as error:
        raise ConfigError(f"{key}: {error.message}", error.remedy) from None
    if folder.read_manifest().get("simulated") and not simulated:
        problem = f"{key}: the answers of the run {name!r} come from a simulated model."
        raise ConfigError(problem, "Name a run of a real model.")
    if difference := data_difference(folder, fingerprint):
        problem = f"{key}: the run {name!r} has a different {difference}."
        raise ConfigError(problem, "Name a run of the same data.")
    return folder


def data_difference(folder: RunFolder, fingerprint: Mapping[str, str]) -> str:
    """Describe how a run's data differs from that of a task's fingerprint, or return ""."""
    before = folder.read_manifest().get("fingerprint", {})
    for key, now in fingerprint.items():
        if key.startswith(("dataset", "documents")) and before.get(key, now) != now:
            return describe_change(key, before[key], now)
    return ""


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
    if is_python_file(name) or name not in kind("tasks").names():  # a run of another tool
        return {}
    if not overrides_method(kind("tasks").load(name), Task.row_fields):
        return {}
    # Checks may be Python files, and reading a run must not execute them.
    options = {key: value for key, value in run.task.options.items() if key != "checks"}
    without = {"task": run.task.with_options(options), "judges": []}
    task = build_task(run.model_copy(update=without), settings, judged=False)
    if data_difference(folder, task.fingerprint()):
        raise DataInvalid("The file has changed since the run.")
    rows = dict(islice(task.row_fields(), MOST_KEPT + 1))
    if len(rows) > MOST_KEPT:
        raise DataInvalid(f"There are more than {MOST_KEPT:,}.")
    return rows
