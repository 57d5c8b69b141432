"""Resolves the models and the task that a run file names, and the plug-ins' defaults."""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from harness.config.run_file import RunFile
from harness.config.sections import JudgeSection, ModelSection
from harness.config.settings import Settings
from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, nearest
from harness.plugin_interface import parameters
from harness.plugin_loader import CODE, FILE, kind
from harness.ports import Task, decides_by_criteria

S = TypeVar("S", bound=ModelSection)


def named_model(text: str) -> dict[str, Any]:
    """Return the ``model:`` section for a model named ``BACKEND/NAME`` or ``PRESET/NAME``.

    A backend's name without a model is accepted too, as in ``simulated``, and so are a simulated
    model's accuracy, as in ``simulated/0.8``, and the path of a Python file with a backend.
    """
    if text.endswith(FILE):
        return {"backend": str(Path(text).absolute()), "name": Path(text).stem}
    where, _, name = text.partition("/")
    backends = kind("backends").names()
    if where == "simulated" and re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)", name):
        if not 0 <= float(name) <= 1:
            problem = f"{text!r:.60} names an accuracy that is not from 0 to 1."
            raise ConfigError(problem, "Write one such as simulated/0.8.")
        return {"backend": where, "name": name, "accuracy": float(name)}
    from harness.backends.openai import PRESETS  # loads an HTTP client

    if where in PRESETS and PRESETS[where].responses_only(name):
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
    raise ConfigError(problem, f"{form} {nearest(where, {*backends, *PRESETS})}")


def refuse_other_address(
    tree: Mapping[str, Any], where: str, model: str, overrides: Sequence[str]
) -> None:
    """Raise ConfigError if replacing the run file's model would send calls to another server.

    ``model`` is refused if the run file ``tree`` sets the URL of a server, unless ``overrides`` say
    which URL to use, or its backend, such as ``simulated``, has no URL. ``where`` names the run
    file.
    """
    section = tree.get("model")
    url = section.get("base_url") if isinstance(section, Mapping) else None
    if not url or any(one.startswith("model.base_url=") for one in overrides):
        return
    backend = kind("backends").load(named_model(model)["backend"])
    if "base_url" in parameters(backend, given=False):
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

    The names begin with `CODE`. Earlier versions hashed otherwise, under names without it.
    """
    models = [run.model, *(judge.model for judge in run.judges)]
    models += [run.polish] if run.polish else []
    models += [run.user.model] if run.user else []
    named = [("tasks", run.task.name)]
    named += [("backends", model.backend) for model in models]
    named += [("judges", judge.name) for judge in run.judges]
    hashes: dict[str, str] = {}
    for kind_name, name in named:
        if digest := kind(kind_name).own_sha256(name):
            hashes[f"{CODE}{kind_name}/{name}_sha256"] = digest
    return hashes


def resolved(run: RunFile) -> RunFile:
    """Return the run file with the defaults of its plug-ins' options filled in."""
    task = partial(_options, "tasks", run.task.name)
    shots = run.task.shots
    if shots.source:
        given = task({**run.task.options, **shots.source})
        shots = shots.model_copy(update={"source": {key: given[key] for key in shots.source}})
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
    named = {"name": section.name, "as": section.as_, "model": _resolved(section.model)}
    return JudgeSection.model_validate({**options, **named})


def _resolved(section: S) -> S:
    fields = {field: getattr(section, field) for field in type(section).model_fields}
    names = parameters(kind("backends").load(section.backend), given=False)
    options = _options("backends", section.backend, section.plugin_options(names))
    if section.version is None and isinstance(options.get("version"), str):
        fields["version"] = options["version"]  # the default of the plug-in's option
    return type(section)(**options | fields)


def _options(kind_name: str, name: str, options: dict[str, Any]) -> dict[str, Any]:
    return kind(kind_name).options(name, options).model_dump(mode="json")
