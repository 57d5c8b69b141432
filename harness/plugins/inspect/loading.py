"""Loads tasks with Inspect, and refuses those with features that the harness does not have."""

from __future__ import annotations

import contextlib
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

from harness.errors import ConfigError, DataMissing, HarnessError
from harness.execution import check_execution
from harness.extras import import_extra
from harness.plugin_interface import calling

SOLVERS = frozenset(
    {"chain_of_thought", "generate", "multiple_choice", "prompt_template", "system_message"}
    | {"assistant_message", "user_message"}
)
GENERATING = frozenset({"generate", "multiple_choice"})
JUDGING = frozenset({"model_graded_fact", "model_graded_qa"})
NEEDS = {  # attributes of tasks and samples that the harness does not carry out
    "setup": "a setup solver",
    "sandbox": "a sandbox",
    "approval": "tool approval",
    "files": "files in a sandbox",
}


class InspectTaskParts(NamedTuple):
    """A task of Inspect, with its solvers and, by name, its scorers."""

    name: str
    solvers: list[Any]
    scorers: dict[str, Any]
    config: Any  # Inspect's GenerateConfig


class InspectSample(NamedTuple):
    """A sample of Inspect's data set, with its task."""

    task: InspectTaskParts
    sample: Any


def load(spec: str, args: dict[str, Any]) -> list[InspectSample]:
    """Return the samples of the tasks that ``spec`` names in Inspect's notation.

    Raises:
        ExecutionRefused: If these are not tasks of an installed package, and the command only reads
            runs.
    """
    file, package = spec.partition("@")[0], spec.partition("/")[0]
    installed = entry_points(group="inspect_ai").names
    if Path(file).exists() or package not in installed:
        check_execution(file)
    loader = import_extra("inspect_ai._eval.loader", "inspect")
    # Inspect prints its progress.
    with calling(f"Loading {spec!r} with Inspect"), contextlib.redirect_stdout(sys.stderr):
        tasks = loader.load_tasks([spec], args)
    if not tasks:
        raise DataMissing(f"Inspect finds no task {spec!r}.", "Write FILE.py or FILE.py@NAME.")
    found = []
    for task in tasks:
        parts = _parts(task)
        for number, sample in enumerate(task.dataset, start=1):
            _refuse(f"Inspect's task {task.name!r}, sample {number}", sample)
            if sample.id is None:
                sample.id = number
            found.append(InspectSample(parts, sample))
    return found


def _parts(task: Any) -> InspectTaskParts:
    where = f"Inspect's task {task.name!r}"
    _refuse(where, task)
    solvers = _chained(task.solver)
    names = [_name(solver) for solver in solvers]
    if unknown := [name for name in names if name not in SOLVERS]:
        raise _refused(where, f"the solver {unknown[0]!r}")
    if sum(name in GENERATING for name in names) != 1:
        raise _refused(where, "not exactly one answer of the model")
    scorers = {_name(scorer): scorer for scorer in task.scorer or ()}
    if judging := sorted(JUDGING & set(scorers)):
        remedy = "Use a judge of the harness (harness docs judges)."
        raise ConfigError(f"{where} needs the scorer {judging[0]!r}, a model.", remedy)
    if not scorers:
        raise _refused(where, "no scorer")
    return InspectTaskParts(task.name, solvers, scorers, task.config)


def _refuse(where: str, one: Any) -> None:
    """Raise ConfigError if a task or sample needs a feature that the harness does not have."""
    for name, what in NEEDS.items():
        if getattr(one, name, None):
            raise _refused(where, what)


def _refused(where: str, what: str) -> HarnessError:
    remedy = f"The harness runs tasks with one answer per sample, and with: {sorted(SOLVERS)}."
    return ConfigError(f"{where} has {what}.", remedy)


def _chained(solver: Any) -> list[Any]:
    chain = import_extra("inspect_ai.solver._chain", "inspect").Chain
    if isinstance(solver, chain | list):
        return [part for one in solver for part in _chained(one)]
    return [solver]


def _name(part: Any) -> str:
    """Return the name of a solver or scorer, without Inspect's own prefix."""
    info = import_extra("inspect_ai._util.registry", "inspect").registry_info(part)
    return str(info.name).removeprefix("inspect_ai/")
