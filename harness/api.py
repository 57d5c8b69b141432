"""The Python API: run, read and compare runs, and define plug-ins, in a script or notebook.

>>> import harness
>>> run = harness.run("quickstart", limit=13)  # doctest: +SKIP
>>> run.metrics.pass_rate, len(run.samples())  # doctest: +SKIP
(0.8269230769230769, 52)
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

from harness.analysis.comparable import read_run, refuse_unknown
from harness.analysis.gate import Decision, Gate, Outcome, check_run
from harness.analysis.metrics import Metrics
from harness.analysis.run_comparison import ComparisonOptions, RunComparison, compare_runs
from harness.analysis.summary import measure
from harness.cli.check import section
from harness.cli.live import Display
from harness.cli.run import fetch_published
from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.errors import ConfigError
from harness.exchange.exported_run import ExportedRows, exported_run
from harness.plugins import checker_of, register
from harness.records import Attempt
from harness.report.comparison import comparison_document
from harness.report.gate import gate_document, gate_line
from harness.report.run_tables import run_document
from harness.report.table import TableDocument
from harness.report.terminal import terminal
from harness.report.text import with_error
from harness.run.job import execute, prepare_all, read_runs
from harness.run.models import Resources
from harness.store.run_folder import RunFolder, find_run, fresh_base

P = TypeVar("P", bound=type[Any])

WIDTH = 120  # of a table in a notebook, in characters
CODE = '<pre style="line-height: 1.25; white-space: pre; overflow-x: auto">{code}</pre>'


class RunOptions(TypedDict, total=False):
    """Options of `run` and `run_all`, all of them optional."""

    model: str  # the model to use instead of the file's, such as "openai/gpt-4o-mini"
    overrides: Mapping[str, Any]  # values by dotted key: {"decoding.temperature": 0}
    variant: str  # run only this one of the file's variants
    limit: int  # maximum number of instances, taken round-robin over groups
    name: str  # the run's name (default: the file's, and the model's if given)
    fresh: bool  # start a new run beside an earlier one of this name
    progress: bool  # show the progress (default: True)


@dataclass(frozen=True)
class RunResult:
    """A run in its folder. ``config`` and ``metrics`` are read once, at their first use."""

    folder: RunFolder

    @property
    def name(self) -> str:
        """The run's name."""
        return self.folder.name

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.folder.path

    @cached_property
    def config(self) -> RunFile:
        """The run file, with defaults filled in."""
        return self.folder.read_config()

    @cached_property
    def metrics(self) -> Metrics:
        """The run's metrics. ``metrics.complete`` is False if some samples are unfinished."""
        return measure(self.folder)

    def attempts(self) -> list[Attempt]:
        """Return all attempts, in order of instance, sample and round."""
        return [attempt for rounds in self._rounds() for attempt in rounds]

    def samples(self) -> list[Attempt]:
        """Return the last attempt of each sample, in order of instance and sample."""
        return [rounds[-1] for rounds in self._rounds()]

    def _rounds(self) -> Iterator[list[Attempt]]:
        return exported_run(self.folder).samples(Attempt)

    def to_frame(self, *, attempts: bool = False) -> Any:
        """Return a row per sample, with the columns of ``harness export``, as a data frame.

        Args:
            attempts: Return a row per attempt, with a column ``is_last``.

        Returns:
            A pandas data frame, or polars if pandas is not installed. Unknown values are null.
        """
        rows = ExportedRows([exported_run(self.folder)], attempts=attempts)
        return _frame(list(rows), rows.columns)

    def check(
        self,
        min: Mapping[str, float] | None = None,
        *,
        baseline: RunResult | str = "",
        max_drop: float | None = None,
        score: str = "",
        by: str = "",
    ) -> GateResult:
        """Return the decisions on the run's bounds, as ``harness check`` does.

        Args:
            min: Minimum values by score, such as ``{"pass_rate": 0.9}``. Without any bound,
                those of the run file's ``check:`` are used.
            baseline: The run to compare with, or its name.
            max_drop: How much the score may fall below the baseline's, such as 0.02.
            score: The compared score (default: the pass rate).
            by: Label whose groups must keep the bounds, too.

        Returns:
            The decisions; the object is true if all bounds are kept.

        Raises:
            ConfigError: If a score or the label is unknown.
            RunConflict: If a run is unfinished, or the baseline cannot be compared.
        """
        path = str(baseline.path) if isinstance(baseline, RunResult) else baseline
        given = {"min": dict(min or {}), "baseline": path, "max_drop": max_drop}
        asked = section(self.config.check, given | {"score": score, "by": by})
        return GateResult(check_run(self.folder, asked, Settings().runs_dir))

    def __repr__(self) -> str:
        overall = self.metrics.overall
        rate = with_error(overall.pass_rate, overall.stderr)
        begun = "" if self.metrics.complete else f", incomplete: {self.metrics.progress}"
        simulated = ", simulated" if self.metrics.simulated else ""
        return f"RunResult({self.name!r}, pass rate {rate}, n={overall.n:,}{begun}{simulated})"

    def _repr_html_(self) -> str:
        return _text(run_document(self.metrics), html=True)


@dataclass(frozen=True)
class ComparisonResult:
    """Runs compared with a baseline. ``found`` has all figures."""

    found: RunComparison

    @cached_property
    def document(self) -> TableDocument:
        """The comparison's tables and notes (`harness.report.table` formats them)."""
        return comparison_document(self.found)

    def to_frame(self) -> Any:
        """Return the differences as a pandas or polars data frame, with a row per run and group."""
        records = list(self.document.records or ())
        columns = dict.fromkeys(key for record in records for key in record)
        return _frame([[record.get(key) for key in columns] for record in records], columns)

    def __repr__(self) -> str:
        return _text(self.document)

    def _repr_html_(self) -> str:
        return _text(self.document, html=True)


@dataclass(frozen=True)
class GateResult:
    """The decisions on a run's bounds. This object is true if all bounds are kept."""

    found: Gate

    @property
    def outcome(self) -> Outcome:
        """The worst of the decisions: "failed", "too few to tell", or "passed"."""
        return self.found.outcome

    @property
    def decisions(self) -> Sequence[Decision]:
        """The decision on each bound, with the instances ``needed`` if there are too few."""
        return self.found.decisions

    def __bool__(self) -> bool:
        return self.outcome == "passed"

    def __repr__(self) -> str:
        return gate_line(self.found)

    def _repr_html_(self) -> str:
        return _text(gate_document(self.found), html=True)


def run(file: str | Path | Mapping[str, Any], **options: Unpack[RunOptions]) -> RunResult:
    """Run a run file that has no variants, or one ``variant`` of any other, and return the run.

    Arguments and errors are those of `run_all`.
    """
    variant = _only_variant(file, options)
    return run_all(file, **options)[variant]


async def arun(file: str | Path | Mapping[str, Any], **options: Unpack[RunOptions]) -> RunResult:
    """Do what `run` does, without blocking the running event loop."""
    variant = _only_variant(file, options)
    return (await arun_all(file, **options))[variant]


def run_all(
    file: str | Path | Mapping[str, Any], **options: Unpack[RunOptions]
) -> dict[str, RunResult]:
    """Run a run file, or continue it where it was interrupted, in a script or a notebook.

    Args:
        file: A run file's path, the name of a shipped one ("quickstart"), or its content.
        options: See `RunOptions`.

    Returns:
        The runs by variant, which is "" for a file without variants. After a spent budget or a
        failed call, ``metrics`` says what is missing, and the same call continues the run.

    Raises:
        HarnessError: If a run cannot start or continue. All replies so far are saved.
        KeyboardInterrupt: After Ctrl-C, once the calls in flight have ended.
    """
    display = Display({}, shown=options.get("progress", True))
    work = partial(_run_all, display, file, **options)
    try:
        notebook = asyncio.get_running_loop().is_running()
    except RuntimeError:
        notebook = False
    if not notebook:
        return asyncio.run(work())
    with ThreadPoolExecutor(1, "harness") as pool:  # beside its event loop
        found = pool.submit(lambda: asyncio.run(work()))
        try:
            return found.result()
        except KeyboardInterrupt:
            display.interrupt()
            raise


async def arun_all(
    file: str | Path | Mapping[str, Any], **options: Unpack[RunOptions]
) -> dict[str, RunResult]:
    """Do what `run_all` does, without blocking the running event loop."""
    return await _run_all(Display({}, shown=options.get("progress", True)), file, **options)


async def _run_all(
    display: Display, file: str | Path | Mapping[str, Any], **options: Unpack[RunOptions]
) -> dict[str, RunResult]:
    settings = Settings()
    base, runs = read_runs(
        file,
        model=options.get("model", ""),
        further=options.get("overrides", {}),
        limit=options.get("limit"),
    )
    base = options.get("name") or base
    if options.get("fresh"):
        base = fresh_base(settings.runs_dir, base, list(runs))
    only = options.get("variant", "")
    refuse_unknown(only, runs, f"The run file has no variant {only!r}.")
    fetch_published([run for name, run in runs.items() if only in ("", name)], settings)
    with Resources(settings) as resources:
        jobs = prepare_all(runs, base, resources, only=only)
        with display.of({job.folder.name: name for name, job in jobs.items()}):
            for job in jobs.values():
                result = await execute(job, partial(display.watch, job.folder.name))
                if display.interrupted:
                    raise KeyboardInterrupt
                if result.ended == "budget":
                    break
    return {variant: RunResult(job.folder) for variant, job in jobs.items()}


def _only_variant(file: str | Path | Mapping[str, Any], options: RunOptions) -> str:
    further = options.get("overrides", {})
    _, runs = read_runs(file, model=options.get("model", ""), further=further)
    variant = options.get("variant", "")
    if not variant and list(runs) != [""]:
        remedy = f"Name a variant, or use run_all, which returns all: {', '.join(runs)}."
        raise ConfigError("The run file has variants.", remedy)
    return variant


def open_run(name: str) -> RunResult:
    """Return an existing run, given its name or its folder's path.

    Raises:
        DataMissing: If there is no such run.
    """
    return RunResult(find_run(Settings().runs_dir, name))


def compare(
    *runs: RunResult | str, score: str = "", by: str = "", round: int | None = None
) -> ComparisonResult:
    """Return a comparison of runs with the first one, instance by instance.

    Args:
        runs: Two or more runs, or their names.
        score: Score to use (default: the task's primary metric).
        by: Label whose groups are also compared.
        round: Use each sample's last round up to this one (default: its last round).

    Raises:
        ConfigError: If there are fewer than two runs, or a score, label or round is unknown.
        RunConflict: If the runs cannot be compared.
    """
    opened = [one if isinstance(one, RunResult) else open_run(one) for one in runs]
    if len(opened) < 2:
        raise ConfigError("Fewer than two runs to compare.", "Give two or more, or their names.")
    asked = ComparisonOptions(score=score, round=round, by=by)
    return ComparisonResult(compare_runs([read_run(one.folder) for one in opened], asked))


def checker(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function as a checker under its name, and return it (docs/plugins.md)."""
    register("checkers", function.__name__, checker_of(function))
    return function


def task(plugin: P) -> P:
    """Register a class as a task, ``MyTask`` as ``my``, and return it (docs/plugins.md)."""
    register("tasks", _snake(plugin.__name__, "Task"), plugin)
    return plugin


def judge(plugin: P) -> P:
    """Register a class as a judge, ``MyJudge`` as ``my``, and return it (docs/plugins.md)."""
    register("judges", _snake(plugin.__name__, "Judge"), plugin)
    return plugin


def _snake(name: str, suffix: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removesuffix(suffix) or name).lower()


def _frame(rows: Sequence[Sequence[Any]], columns: Mapping[str, str | None]) -> Any:
    """Return rows as a pandas or else polars data frame. ``columns`` maps names to SQL types."""
    cells = zip(*rows, strict=True) if rows else ([] for _ in columns)
    found = dict(zip(columns, map(list, cells), strict=True))
    with contextlib.suppress(ImportError):
        pandas = importlib.import_module("pandas")
        types = {"BIGINT": "Int64", "BOOLEAN": "boolean", "DOUBLE": "float64"}
        wanted = {name: types[kind] for name, kind in columns.items() if kind in types}
        return pandas.DataFrame(found).astype(wanted)
    with contextlib.suppress(ImportError):
        return importlib.import_module("polars").DataFrame(found, strict=False)
    raise ConfigError("A data frame needs pandas or polars.", "Install one: pip install pandas")


def _text(document: TableDocument, *, html: bool = False) -> str:
    from rich.console import Console

    console = Console(record=True, file=io.StringIO(), width=WIDTH, force_jupyter=False)
    console.print(terminal(document))
    return (
        console.export_html(inline_styles=True, code_format=CODE) if html else console.export_text()
    )
