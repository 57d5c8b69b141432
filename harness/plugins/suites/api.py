"""`harness.evaluate`: evaluations in the Python API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, TypedDict, Unpack, get_args

from harness.api import execute_runs, finished, strict_options
from harness.config.settings import Settings
from harness.engine.run_files import task_section
from harness.errors import ConfigError, nearest
from harness.execution import executing
from harness.plugins.suites.suite import (
    TaskChoice,
    eval_command,
    evaluation,
    suite_path,
    write_suite,
)
from harness.report.runs import suite_document
from harness.report.table import TableDocument
from harness.results import RunResult, TableResult, data_frame, exported_frame
from harness.terminal.console import say
from harness.terminal.display import Display

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
            return exported_frame(self.runs.values(), rows == "attempts")
        if rows not in _SUITE_ROWS:
            problem = f"A data frame cannot have the rows {rows!r}."
            raise ConfigError(problem, nearest(str(rows), get_args(EvaluationRows)))
        kind, columns = _SUITE_ROWS[rows]
        every_record = list(self.document.records or ())
        if any("row" not in record for record in every_record):
            problem = "No installed plug-in brings the table of models and benchmarks."
            raise ConfigError(problem, "Choose the rows 'samples' or 'attempts'.")
        records = [record for record in every_record if record["row"] == kind]
        cells = [[record[column] for column in columns] for record in records]
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

    The published data is used, and downloaded at first use. If all models are simulated, or if a
    benchmark's data cannot be downloaded, built-in instances are used. An equivalent run file is
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
    return finished(display, partial(_evaluate, display, tasks, model, options))


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
    with executing():
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
    runs = await execute_runs(display, suite.runs, name, options, begin=begin)
    return EvaluationResult(runs)
