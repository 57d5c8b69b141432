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


def parse_model_name(text: str) -> dict[str, Any]:
    """Return the section ``model`` for a model named ``BACKEND/NAME`` or ``PRESET/NAME``.

    A backend's name without a model is accepted too, as in ``simulated``, and so are a simulated
    model's accuracy, as in ``simulated/0.8``, and the path of a Python file with a backend.
    """
    if text.endswith(PYTHON_SUFFIX):
        return {"backend": str(Path(text).absolute()), "name": Path(text).stem}
    provider, _, name = text.partition("/")
    backends = kind("backends").names()
    if provider == "simulated" and re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)", name):
        if not 0 <= float(name) <= 1:
            problem = f"{text!r:.60} names an accuracy that is not from 0 to 1."
            raise ConfigError(problem, "Write one such as simulated/0.8.")
        return {"backend": provider, "name": name, "accuracy": float(name)}
    if provider in PRESETS and PRESETS[provider].needs_responses_api(name):
        return {"backend": "openai_responses", "preset": provider, "name": name}
    if provider in backends and name:
        return {"backend": provider, "name": name}
    if provider in PRESETS:
        if not name:
            raise ConfigError(f"Which model of {provider}?", f"Write {provider}/NAME.")
        return {"backend": "openai", "preset": provider, "name": name}
    if provider in backends:
        return {"backend": provider, "name": provider}
    form = "Models are named BACKEND/NAME or PRESET/NAME, such as openai/gpt-4o-mini."
    problem = f"There is no backend or preset named {provider!r}."
    raise ConfigError(problem, f"{form} {suggest_name(provider, {*backends, *PRESETS})}")


def check_same_server(
    tree: Mapping[str, Any], where: str, model: str, overrides: Sequence[str]
) -> None:
    """Raise ConfigError if replacing the run file's model would send calls to another server.

    That is so if the run file sets a server's URL, and no override does, unless the backend of the
    new model, such as ``simulated``, has no URL.

    Args:
        tree: The content of the run file.
        where: The name of the run file, for messages.
        model: The new model's name.
        overrides: ``KEY=VALUE`` overrides.
    """
    section = tree.get("model")
    if not isinstance(section, Mapping):
        return
    url = section.get("base_url")
    if not url or any(text.startswith("model.base_url=") for text in overrides):
        return
    backend = kind("backends").load(parse_model_name(model)["backend"])
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
    more_judges: Collection[JudgeSection] = (),
    *,
    with_judges: bool = True,
) -> Task[Any]:
    """Build the task of a run file.

    Args:
        run: The run file.
        settings: The settings.
        options: Options that replace those of the run file.
        more_judges: Judges besides those of the run file.
        with_judges: Whether the task must support the judges.
    """
    judges = {
        judge.as_: decides_by_criteria(kind("judges").load(judge.name))
        for judge in (*run.judges, *more_judges)
    }
    task: Task[Any] = kind("tasks").build(
        run.task.name,
        {**run.task.options, **(options or {})},
        data=DataFolder(settings.data_dir, run.folder),
        judges=judges if with_judges else None,
        panels={panel.as_: panel.of for panel in run.panels},
    )
    return task


def code_hashes(run: RunFile) -> dict[str, str]:
    """Return the hashes of a run's plug-ins that are registered or in Python files, by name.

    The names begin with `CODE_HASH_PREFIX`. Earlier versions computed other hashes without it.
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


def resolve_defaults(run: RunFile) -> RunFile:
    """Fill in the defaults of the options of a run file's plug-ins."""
    task_options = partial(_options_with_defaults, "tasks", run.task.name)
    shots = run.task.shots
    if shots.source:
        options = task_options({**run.task.options, **shots.source})
        shots = shots.model_copy(update={"source": {key: options[key] for key in shots.source}})
    polish = run.polish and _resolve_model(run.polish)
    user = run.user and run.user.model_copy(update={"model": _resolve_model(run.user.model)})
    return run.model_copy(
        update={
            "task": run.task.with_options(task_options(run.task.options), shots=shots),
            "model": _resolve_model(run.model),
            "polish": polish,
            "user": user,
            "judges": tuple(map(resolve_judge_defaults, run.judges)),
        }
    )


def resolve_judge_defaults(section: JudgeSection) -> JudgeSection:
    """Fill in the defaults of the options of a judge's plug-ins."""
    options = _options_with_defaults("judges", section.name, section.options)
    fields = {"name": section.name, "as": section.as_, "model": _resolve_model(section.model)}
    return JudgeSection.model_validate({**options, **fields})


def _resolve_model(section: S) -> S:
    fields = {field: getattr(section, field) for field in type(section).model_fields}
    names = option_parameters(kind("backends").load(section.backend))
    options = _options_with_defaults("backends", section.backend, section.plugin_options(names))
    if section.version is None and isinstance(options.get("version"), str):
        fields["version"] = options["version"]  # the default of the plug-in's option
    return type(section)(**options | fields)


def _options_with_defaults(kind_name: str, name: str, options: dict[str, Any]) -> dict[str, Any]:
    return kind(kind_name).validate_options(name, options).model_dump(mode="json")


# Recordings that a run replays. A recording may grow between the sessions of a run. If it has
# changed otherwise, the run's scores are those of other answers.

RECORDING = "recording_sha256"
"""Suffix of a recording's name in a fingerprint. The value is the file's SHA-256 and size."""


def recording_hashes(run: RunFile, settings: Settings) -> dict[str, str]:
    """Return the hash of each recording that a model of the run replays, by fingerprint name."""
    paths = _recording_paths(run, settings).items()
    return {name: _hash_prefix(path, path.stat().st_size) for name, path in paths}


def replace_grown_hashes(
    fingerprint: Mapping[str, str], folder: RunFolder, run: RunFile, settings: Settings
) -> dict[str, str]:
    """Replace the hash of each recording that has only grown by its earlier hash.

    Args:
        fingerprint: The run's present fingerprint, which is not changed itself.
        folder: The run's folder, with the earlier fingerprint.
        run: The run file.
        settings: The settings.
    """
    earlier = folder.read_manifest().get("fingerprint", {})
    hashes = dict(fingerprint)
    for name, path in _recording_paths(run, settings).items():
        earlier_hash = earlier.get(name, "")
        size = int(earlier_hash.partition(":")[2] or 0)
        if 0 < size < path.stat().st_size and _hash_prefix(path, size) == earlier_hash:
            hashes[name] = earlier_hash
    return hashes


def _recording_paths(run: RunFile, settings: Settings) -> dict[str, Path]:
    """Return recordings by fingerprint name, such as ``judge_good_recording_sha256``."""
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


def _hash_prefix(path: Path, size: int) -> str:
    """Return the SHA-256 of a file's first ``size`` bytes, and the size."""
    digest = hashlib.sha256()
    remaining = size
    with path.open("rb") as file:
        while remaining and (block := file.read(min(remaining, 1 << 20))):
            digest.update(block)
            remaining -= len(block)
    return f"{digest.hexdigest()}:{size}"


def find_referenced_run(
    runs: Path, name: str, fingerprint: Mapping[str, str], key: str, *, simulated: bool
) -> RunFolder:
    """Find another run that a run file names.

    Args:
        runs: The runs folder.
        name: The other run's name.
        fingerprint: Of the task: the other run must have the same data.
        key: The run file's key that names the run, for messages.
        simulated: Whether the other run's model may be simulated.

    Raises:
        ConfigError: If there is no such run, or it does not suit.
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
    """Describe how a run's data differs from that of a task, or return "" if it does not.

    Args:
        folder: The run's folder.
        fingerprint: The task's fingerprint.
    """
    recorded = folder.read_manifest().get("fingerprint", {})
    for key, digest in fingerprint.items():
        if key.startswith(("dataset", "documents")) and recorded.get(key, digest) != digest:
            return describe_change(key, recorded[key], digest)
    return ""


MAX_ROWS_IN_MEMORY = (
    100_000  # maximum instances to hold in memory; nothing is known of further ones
)


def row_fields(
    folder: RunFolder, warn: Callable[[str], object] = lambda _: None
) -> Mapping[str, Mapping[str, object]]:
    """Return the fields of a run's rows by instance, or {} if it has no rows of the user's.

    Args:
        folder: The run's folder.
        warn: Receives the reason if the rows cannot be read, which also returns {}.
    """
    try:
        return _read_row_fields(folder, Settings())
    except HarnessError as error:
        warn(f"{folder.name}: the fields of its rows are left out. {error}")
        return {}


def _read_row_fields(folder: RunFolder, settings: Settings) -> dict[str, Mapping[str, object]]:
    run = folder.read_config()
    name = run.task.name
    if is_python_file(name) or name not in kind("tasks").names():  # a run of another tool
        return {}
    if not overrides_method(kind("tasks").load(name), Task.row_fields):
        return {}
    # Checks may be Python files, and reading a run must not execute them.
    options = {key: value for key, value in run.task.options.items() if key != "checks"}
    without_checks = {"task": run.task.with_options(options), "judges": []}
    task = build_task(run.model_copy(update=without_checks), settings, with_judges=False)
    if data_difference(folder, task.fingerprint()):
        raise DataInvalid("The file has changed since the run.")
    rows = dict(islice(task.row_fields(), MAX_ROWS_IN_MEMORY + 1))
    if len(rows) > MAX_ROWS_IN_MEMORY:
        raise DataInvalid(f"There are more than {MAX_ROWS_IN_MEMORY:,}.")
    return rows
