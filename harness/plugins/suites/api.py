"""`harness.evaluate`, in the Python API, and its suites.

A suite is a run file with a matrix: several models on several benchmarks.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, get_args

import yaml

from harness.api import execute_runs, run_blocking, strict_options
from harness.config import shipped
from harness.config.loading import expand_variants, set_key
from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.datasets.catalogue import catalogue
from harness.datasets.row_formats import is_row_file
from harness.declarations import named_tasks
from harness.engine.resolving import parse_model_name
from harness.engine.run_files import task_section
from harness.errors import ConfigError, option, suggest_name
from harness.execution import set_code_permission
from harness.plugin_loader import PYTHON_SUFFIX, kind
from harness.ports import Task, overrides_method
from harness.records import content_hash
from harness.report.runs import suite_document
from harness.report.table import TableDocument
from harness.results import RunResult, TableResult, data_frame, export_frame
from harness.store.files import make_folder, write_atomically
from harness.store.run_folder import RunFolder
from harness.store.runs import to_run_name
from harness.terminal.console import say
from harness.terminal.display import Display

TaskChoice = str | Mapping[str, Any]
"""The name of a benchmark, a file of rows, or a section ``task`` of a run file."""

Tasks = TaskChoice | Sequence[TaskChoice]

EvaluationRows = Literal["results", "differences", "ranks", "correlations", "samples", "attempts"]

_CI95 = ("ci95_low", "ci95_high")
_SUITE_ROWS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "results": ("value", ("model", "benchmark", "score", "value", *_CI95, "n")),
    "differences": (
        "difference",
        ("model", "benchmark", "score", "value", *_CI95, "p_value", "p_adjusted", "n"),
    ),
    "ranks": ("average_rank", ("model", "value", *_CI95)),
    "correlations": ("tau_b", ("benchmark", "value", "n")),
}
"""For each kind of row of an evaluation: its name in the document's records, and its columns."""


@dataclass(frozen=True, repr=False)
class EvaluationResult(TableResult):
    """The runs of an evaluation by "TASK.MODEL", one per model and benchmark.

    If the budget was spent before a run started, that run is omitted.
    """

    runs: Mapping[str, RunResult]

    @property
    def run(self) -> RunResult:
        """The only run of the evaluation.

        Raises:
            ConfigError: If there are several runs.
        """
        if len(self.runs) > 1:
            problem = f"There are {len(self.runs)} runs."
            raise ConfigError(problem, f"Choose one of .runs: {', '.join(self.runs)}.")
        return next(iter(self.runs.values()))

    @cached_property
    def document(self) -> TableDocument:
        """The table of models and benchmarks, with its notes."""
        return suite_document([run.folder for run in self.runs.values()])

    def to_frame(self, rows: EvaluationRows = "results") -> Any:
        """Return a pandas or polars data frame with one kind of row.

        Args:
            rows: "results" (one row per model and benchmark), "differences" (from the first model,
                per benchmark), "ranks" (a model's average rank), "correlations" (of two
                benchmarks), or "samples" or "attempts" of all runs, as `RunResult.to_frame`
                returns them.

        Raises:
            ConfigError: If there is no such kind of row, or neither library is installed.
            DataMissing: If ``rows`` are samples or attempts, and a run has none.
        """
        if rows in ("samples", "attempts"):
            return export_frame(self.runs.values(), attempts=rows == "attempts")
        if rows not in _SUITE_ROWS:
            problem = f"A data frame cannot have the rows {rows!r}."
            raise ConfigError(problem, suggest_name(str(rows), get_args(EvaluationRows)))
        kind, columns = _SUITE_ROWS[rows]
        cells = []
        for record in self.document.records or ():
            if "row" not in record:
                problem = "No installed plug-in brings the table of models and benchmarks."
                raise ConfigError(problem, "Choose the rows 'samples' or 'attempts'.")
            if record["row"] == kind:
                cells.append([record[column] for column in columns])
        return data_frame(cells, dict.fromkeys(columns))


class EvaluateOptions(TypedDict, total=False):
    """Options of `evaluate`, which its docstring explains."""

    overrides: Mapping[str, Any]
    limit: int
    budget: float
    judge: str
    name: str
    fresh: bool
    rescore: bool
    progress: bool


@strict_options(EvaluateOptions)
def evaluate(
    tasks: Tasks, model: str | Sequence[str], **options: Unpack[EvaluateOptions]
) -> EvaluationResult:
    """Evaluate models on benchmarks, as ``harness eval`` does, and return the runs.

    The published data is used, and downloaded at first use. Built-in instances are used if all
    models are simulated, and for benchmarks without a public download. An equivalent run file is
    written to the folder of runs. To resume an incomplete evaluation, call this function again.

    Args:
        tasks: One or more benchmarks. Each is a name that ``harness tasks`` lists, a file of rows,
            or a run file's section ``task``: {"rows": rows, "checks": [function], "as": "NAME"}.
        model: A model, or several: "BACKEND/NAME" or "PRESET/NAME".
        overrides: Values by dotted key, for all runs.
        limit: Maximum number of instances of each benchmark.
        budget: Maximum cost of all runs together, in US dollars.
        judge: The model that judges the benchmarks that need a judge.
        name: Prefix of the runs' names, NAME.TASK.MODEL (default: "eval").
        fresh: Start new runs, and keep the earlier ones of this name as NAME-DATE.
        rescore: If only the scoring has changed, score the recorded answers again.
        progress: Show the progress.

    Raises:
        HarnessError: If a run cannot start or continue. The replies so far are saved, and the other
            runs have ended, unless the error concerns them, too.
        KeyboardInterrupt: After Ctrl-C, once the calls in flight have ended.

    Examples:
        >>> import harness
        >>> found = harness.evaluate("collie", "simulated/0.8", limit=13, progress=False)
        >>> found.run  # doctest: +ELLIPSIS
        RunResult('eval.collie.simulated-0.8', pass rate 0.846 ± 0.104, 95% 0.546-0.981, n=13, ...)
    """
    display = Display({}, visible=options.get("progress", True))
    return run_blocking(display, partial(_evaluate, display, tasks, model, options))


@strict_options(EvaluateOptions)
async def aevaluate(
    tasks: Tasks, model: str | Sequence[str], **options: Unpack[EvaluateOptions]
) -> EvaluationResult:
    """Do the same as `evaluate`, without blocking the running event loop."""
    return await _evaluate(
        Display({}, visible=options.get("progress", True)), tasks, model, options
    )


async def _evaluate(
    display: Display, tasks: Tasks, model: str | Sequence[str], options: EvaluateOptions
) -> EvaluationResult:
    if not isinstance(tasks, str | Mapping | list | tuple):
        problem = f"The tasks are of the type {type(tasks).__name__!r}."
        remedy = 'For a data frame of rows: {"rows": frame.to_dict("records"), "checks": …}.'
        raise ConfigError(problem, remedy)
    functions: dict[str, Callable[..., Any]] = {}  # the checks of all tasks
    choices: list[TaskChoice] = []
    for task in [tasks] if isinstance(tasks, str | Mapping) else tasks:
        choices.append(task if isinstance(task, str) else task_section(task, functions))
    models = [model] if isinstance(model, str) else list(model)
    changes = dict(options.get("overrides", {}))
    with set_code_permission("allowed"):
        suite = evaluation(
            choices,
            models,
            changes,
            judge=options.get("judge", ""),
            limit=options.get("limit"),
            budget=options.get("budget"),
        )
    name = options.get("name", "eval")
    for note in suite.notes:
        say(note, "yellow")
    path = suite_path(Settings().runs_dir, name)
    command = eval_command(choices, models, name, options, changes)
    begin = partial(write_suite, path, suite.tree, command)
    runs = await execute_runs(display, suite.runs, name, options, on_start=begin)
    return EvaluationResult(runs)


RUN_FILE = (".yaml", ".yml")  # suffixes
MAX_TOKENS_KEY = "decoding.max_tokens"
MAX_TOKENS = 2048  # of an answer: some providers need a limit, and so does an estimate of the cost

_MARK = "# Unless you change it, that command replaces this file. Content: "


class Evaluation(NamedTuple):
    """A run file for several benchmarks and models, its runs, and notes for the user."""

    tree: dict[str, Any]  # the equivalent run file, as nested mappings
    runs: dict[str, RunFile]  # by variant, TASK.MODEL
    notes: list[str]  # for the user to read before the runs start


class _ChosenTask(NamedTuple):
    """A benchmark of an evaluation."""

    section: Mapping[str, Any]  # ``task`` of the run file
    short: str  # its name, for the names of runs
    own_data: bool = True  # whether the data is not the harness's
    numbered: bool = False  # whether equal names get numbers


def evaluation(
    tasks: Sequence[TaskChoice],
    models: Sequence[str],
    changes: Mapping[str, Any],
    *,
    judge: str = "",
    limit: int | None = None,
    budget: float | None = None,
) -> Evaluation:
    """Return the runs of each task with each model.

    Published data is used unless all models are simulated or ``changes`` has ``task.dataset``.

    Args:
        tasks: The benchmarks.
        models: Names of models, as in `parse_model_name`.
        changes: Overrides for all runs: values by dotted key.
        judge: Name of the judges' model, for benchmarks that need a judge.
        limit: Maximum number of instances in each run.
        budget: Budget in US dollars for all runs together.
    """
    for model in models:
        if not isinstance(model, str):
            problem = f"{model!r:.60} is not the name of a model."
            remedy = "Register a function with @harness.backend, and pass its name."
            raise ConfigError(problem, remedy)
    chosen = _chosen(tasks)
    simulated = all(model.partition("/")[0] == "simulated" for model in models)
    published = not simulated and "task.dataset" not in changes
    tree = _tree(chosen, models, judge, published)
    if MAX_TOKENS_KEY in changes:
        _remove_max_tokens(tree["matrix"])
    if limit is not None:
        tree["limit"] = limit
    if budget is not None:
        tree["budget"] = {"usd": budget}
    runs = expand_variants(tree, "harness eval", values=changes)
    for key, value in changes.items():
        set_key(tree, key, value)
    if len(models) > 1:
        _check_model_options(runs.values(), [key for key in changes if key.startswith("model.")])
    notes: list[str] = []
    for task in chosen:
        notes += _notes(task, runs, published, "task.path" in changes)
    return Evaluation(tree, runs, notes)


def _notes(
    task: _ChosenTask, runs: Mapping[str, RunFile], published: bool, own_path: bool
) -> Iterable[str]:
    name = task.section["name"]
    if published and not (own_path or task.own_data) and not _published_option(name):
        yield f"{name}: our own instances, not the published data (harness docs eval)."
    judged = [run.task.name for run in runs.values() if run.judges]
    if judge_of(name) and name not in judged:
        yield f"{name} needs a judge for a full verdict: set {option('judge', 'BACKEND/NAME')}."


def _published_option(task: str) -> str:
    """Return the value of a task's option ``dataset`` for its published data, or ""."""
    return catalogue()[task].option if task in catalogue() else ""


def _tree(
    tasks: Sequence[_ChosenTask], models: Sequence[str], judge: str, published: bool
) -> dict[str, Any]:
    """Return a suite's run file, as nested mappings."""
    task_names = _names(tasks)
    task_keys = []
    for task, name in zip(tasks, task_names, strict=True):
        task_keys.append(_task_keys(task, name, judge, published))
    model_sections = [parse_model_name(model) for model in models]
    matrix = {
        "task": _axis("task", task_names, task_keys),
        "model": _axis("model", models, map(_model_keys, model_sections)),
    }
    max_tokens: int | None = MAX_TOKENS
    setting = [axis for axis in matrix.values() if _sets_max_tokens(axis)]
    if len(setting) == len(matrix):
        max_tokens = None  # only one axis may set it
        _remove_max_tokens(matrix)
    return {
        "task": {"name": tasks[0].section["name"]},
        "model": {"backend": model_sections[0]["backend"]},
        "decoding": {"max_tokens": max_tokens},
        "matrix": matrix,
    }


def _sets_max_tokens(axis: Mapping[str, Mapping[str, Any]]) -> bool:
    return any(MAX_TOKENS_KEY in keys for keys in axis.values())


def _remove_max_tokens(matrix: Mapping[str, Mapping[str, dict[str, Any]]]) -> None:
    for axis in matrix.values():
        for keys in axis.values():
            keys.pop(MAX_TOKENS_KEY, None)


def _task_keys(task: _ChosenTask, run_name: str, judge: str, published: bool) -> dict[str, Any]:
    """Return the keys that a task sets in its runs."""
    section = dict(task.section)
    name = section["name"]
    keys: dict[str, Any] = {}
    if published and _published_option(name):
        keys["task.dataset"] = _published_option(name)
    if run_name != name:
        section["as"] = run_name
    keys |= _dotted("task", section)
    judge_name = judge_of(name) if judge else ""
    if judge_name:
        keys["judges"] = [{"name": judge_name, "model": parse_model_name(judge)}]
    named = named_tasks().get(name)
    if named is not None and named.limits_answers:
        keys[MAX_TOKENS_KEY] = None
    return keys


def _model_keys(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's keys. If it is the user's own code, a limit that it lacks is not set."""
    backends = kind("backends")
    name = section["backend"]
    keys = _dotted("model", section)
    if name.endswith(PYTHON_SUFFIX) or name in backends.registered():
        features = getattr(backends.load(name), "features", None)
        if isinstance(features, frozenset) and "max_tokens" not in features:
            keys[MAX_TOKENS_KEY] = None
    return keys


def _dotted(section: str, tree: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{section}.{key}": value for key, value in tree.items()}


def _chosen(tasks: Sequence[TaskChoice]) -> list[_ChosenTask]:
    """Return the tasks' sections. A name's prefix also applies to later names without a prefix."""
    chosen = []
    latest = ""
    for task in tasks:
        if not isinstance(task, str):
            short = str(task.get("as") or task["name"])
            chosen.append(_ChosenTask(task, short, numbered=not task.get("as")))
            continue
        prefix, colon, data_name = task.partition(":")
        if colon and prefix in named_tasks():
            latest = prefix
        else:
            data_name = task
        suffix = Path(task).suffix
        if latest:
            named = named_tasks()[latest]
            short = re.sub(named.left_out, "", data_name)
            chosen.append(_ChosenTask({"name": latest, named.option: data_name}, short))
        elif is_row_file(task) and suffix not in RUN_FILE:
            section = {"name": "jsonl", "path": str(Path(task).resolve())}
            chosen.append(_ChosenTask(section, Path(task).name.partition(".")[0]))
        else:
            _check_task(task, suffix)
            chosen.append(
                _ChosenTask({"name": task}, task, own_data=task in ("jsonl", *named_tasks()))
            )
    return chosen


def _names(tasks: Sequence[_ChosenTask]) -> list[str]:
    """Return the tasks' names in names of runs. Equal names of sections are numbered."""
    names: list[str] = []
    for task in tasks:
        name = to_run_name(task.short)
        if task.numbered:
            numbered = re.compile(rf"{re.escape(name)}(-\d+)?")
            same = sum(numbered.fullmatch(earlier) is not None for earlier in names)
            if same:
                name = f"{name}-{same + 1}"
        names.append(name)
    return names


def _check_model_options(runs: Iterable[RunFile], keys: Sequence[str]) -> None:
    """Raise ConfigError if one of several models lacks an option that is set for all of them."""
    for run in runs if keys else ():
        try:
            kind("backends").validate_options(run.model.backend, run.model.options)
        except ConfigError as error:
            raise ConfigError(
                f"{', '.join(keys)} applies to all models. {error.message}",
                "For options of one model, write a run file with 'matrix: {model: {NAME: {backend: "
                "…, name: …, base_url: …}, …}}' (harness docs run-files).",
            ) from None


def _check_task(name: str, suffix: str) -> None:
    task_names = kind("tasks").names()
    if suffix in RUN_FILE:
        raise ConfigError(f"{name} is a run file.", f"Use harness run {name} --model MODEL.")
    if suffix and suffix != ".py":
        forms = "Rows are read from .jsonl, .json, .csv, .tsv, .xlsx and .parquet files "
        forms += "(harness docs jsonl)."
        raise ConfigError(f"{name} is neither a task nor a file of rows.", forms)
    if name not in task_names:
        remedy = suggest_name(name, task_names)
        if name in shipped.names():
            remedy = f"It is a run file: harness run {name} --model MODEL."
        elif not get_close_matches(name, task_names, n=1):
            remedy += " 'harness tasks' describes them. Your own rows: harness eval FILE.jsonl."
        raise ConfigError(f"There is no task named {name!r}.", remedy)


def judge_of(task: str) -> str:
    """Return the name of the judge that a task needs, or "" if it needs none."""
    plugin = kind("tasks").load(task)
    if task in kind("judges").names():
        return task
    judged = overrides_method(plugin, Task.criteria) and not overrides_method(
        plugin, Task.judged_by
    )
    return "yes_no" if judged else ""


def _axis(
    what: str, names: Iterable[str], changes: Iterable[dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return an axis of the matrix: each name, as it appears in runs' names, with its changes."""
    axis: dict[str, dict[str, Any]] = {}
    for name, change in zip(names, changes, strict=True):
        key = to_run_name(name)
        if key in axis:
            remedy = f"Name each {what} once, or write a run file (harness docs eval)."
            raise ConfigError(f"Two {what}s have runs named {key!r}.", remedy)
        axis[key] = change
    return axis


def eval_command(
    tasks: Sequence[TaskChoice],
    models: Sequence[str],
    name: str,
    options: Mapping[str, Any],
    changes: Mapping[str, Any],
) -> str:
    """Return the command for a call of ``harness.evaluate``, or a note if there is none."""
    names = [task for task in tasks if isinstance(task, str)]
    if len(names) < len(tasks):
        return "harness.evaluate(...) in Python"
    words = ["harness", "eval", ",".join(names), "--model", ",".join(models), "--name", name]
    for key in ("limit", "budget", "judge"):
        if options.get(key):
            words += [f"--{key}", str(options[key])]
    for key, value in changes.items():
        words += ["-o", f"{key}={json.dumps(value)}"]
    return shlex.join(words)


def suite_path(runs_dir: Path, name: str) -> Path:
    """Return the path of the run file of the evaluation ``name``."""
    return runs_dir / f"{RunFolder(runs_dir, name).name}.yaml"


def write_suite(path: Path, tree: Mapping[str, Any], command: str) -> None:
    """Write a suite's run file, with the command that generated it as a comment.

    An existing file is replaced only if this function wrote it and nobody has edited it.
    """
    body = yaml.safe_dump(tree, sort_keys=False, default_flow_style=None, width=100)
    if path.exists():
        _, mark, marked = path.read_text("utf-8", "replace").partition(_MARK)
        digest, _, earlier_body = marked.partition("\n")
        if not mark or digest != content_hash(earlier_body):
            problem = f"{path} was edited, or not written by this command: it is kept."
            remedy = f"Run it (harness run {path}), rename it, or use {option('name', 'NEW')}."
            raise ConfigError(problem, remedy)
    make_folder(path.parent)
    comment = " ".join(command.split())
    write_atomically(path, f"# {comment}\n{_MARK}{content_hash(body)}\n{body}".encode())
