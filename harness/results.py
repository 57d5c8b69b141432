"""Results of the Python API: runs, comparisons, evaluations and decisions."""

from __future__ import annotations

import contextlib
import importlib
import io
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from harness.analysis.metrics import Metrics
from harness.analysis.summary import compute_metrics
from harness.config.run_file import RunFile
from harness.engine.resolving import row_fields
from harness.errors import ConfigError, DataMissing
from harness.plugin_loader import Kind
from harness.records import Attempt
from harness.report.run_tables import run_document
from harness.report.table import TableDocument
from harness.report.terminal import render_for_terminal
from harness.report.text import format_interval, format_with_error
from harness.store.index import AttemptIndex
from harness.store.lost_lines import warn_of_missing
from harness.store.run_folder import RunFolder

CONSOLE_WIDTH = 120  # of tables in a notebook, in characters
HTML_TEMPLATE = '<pre style="line-height: 1.25; white-space: pre; overflow-x: auto">{code}</pre>'


@dataclass(frozen=True)
class RunResult:
    """A saved run. Its ``config`` and ``metrics`` are read on first use."""

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
        """The run's metrics. If some samples are unfinished, ``metrics.complete`` is False."""
        return compute_metrics(self.folder)

    def attempts(self) -> list[Attempt]:
        """Return all attempts, ordered by instance, sample and round.

        Instances are in the order of your rows, or else of their ids (numbers by value).

        Raises:
            DataMissing: If there are none.
        """
        index = open_attempts(self.folder)
        return list(index.read(Attempt, index.rows_by_name(row_fields(self.folder))))

    def samples(self) -> list[Attempt]:
        """Return the last attempt of each sample, in the order of `attempts`.

        Raises:
            DataMissing: If there are no attempts.
        """
        index = open_attempts(self.folder)
        rows = index.rows_by_name(row_fields(self.folder))
        is_last = index.attempts.is_last_round()[rows]
        return list(index.read(Attempt, rows[is_last]))

    def to_frame(self, *, attempts: bool = False) -> Any:
        """Return a data frame with a row per sample and the columns of ``harness export``.

        Args:
            attempts: Return a row per attempt instead, with a column ``is_last``.

        Returns:
            A pandas data frame, or polars if pandas is not installed. Unknown values are null.

        Raises:
            ConfigError: If neither is installed.
            DataMissing: If there are no attempts.

        Examples:
            >>> frame = run.to_frame()  # doctest: +SKIP
            >>> frame.groupby("group_structure")["passed"].mean()  # doctest: +SKIP
        """
        return export_frame([self], attempts=attempts)

    def check(
        self,
        min: Mapping[str, float] | None = None,
        *,
        max: Mapping[str, float] | None = None,
        baseline: RunResult | str = "",
        max_drop: float | None = None,
        score: str = "",
        by: str = "",
        max_unjudged: float | None = None,
        too_few: Literal["pass", "fail"] | None = None,
    ) -> Any:
        """Check the run against bounds, as ``harness check`` does.

        Without ``min``, ``max`` and ``baseline``, the bounds are those of the run file's section
        ``check``, and the other arguments replace its values.

        Args:
            min: Minimum values by score, such as ``{"pass_rate": 0.9}``.
            max: Maximum values by score, or of ``cost`` and ``cost_per_sample`` (US dollars) and
                ``latency_p95`` or another percentile (seconds).
            baseline: The run to compare with, or its name.
            max_drop: How much the score may fall below the baseline's, such as 0.02.
            score: The compared score (default: the pass rate).
            by: Label whose groups must also meet the bounds.
            max_unjudged: Maximum share of samples without a verdict, such as 0.02 (default: 0).
            too_few: What the decision "too few to tell" counts as. By default, it is a separate
                outcome, for which the result is false.

        Returns:
            The decisions, in an object that is true if all bounds are met.

        Raises:
            ConfigError: If a score or the label is unknown, or there is no bound.
            DataMissing: If there is no such baseline.
            RunConflict: If a run is unfinished, or the baseline cannot be compared.

        Examples:
            >>> import harness
            >>> run = harness.run("quickstart", limit=13, progress=False)
            >>> run.check({"pass_rate": 0.9}).outcome
            'too few to tell'
        """
        path = str(baseline.path) if isinstance(baseline, RunResult) else baseline
        bounds: dict[str, Any] = {
            "min": dict(min or {}),
            "max": dict(max or {}),
            "baseline": path,
            "max_drop": max_drop,
            "score": score,
            "by": by,
            "max_unjudged": max_unjudged,
            "too_few": too_few,
        }
        decisions: Any = Kind("results").load("GateResult")
        return decisions.of(self, bounds)

    def __repr__(self) -> str:
        metrics = self.metrics
        primary = metrics.primary()
        text = f"{metrics.measure or 'pass rate'} {format_with_error(primary.mean, primary.stderr)}"
        if primary.ci95:
            text += f", 95% {format_interval(primary.ci95)}"
        text += f", n={primary.n:,}"
        if not metrics.complete:
            text += f", incomplete: {metrics.progress}"
        if metrics.simulated:
            text += ", simulated"
        return f"RunResult({self.name!r}, {text})"

    def _repr_html_(self) -> str:
        return render_document(run_document(self.metrics), html=True)


class TableResult(ABC):
    """A result that a terminal or notebook displays as tables."""

    @property
    @abstractmethod
    def document(self) -> TableDocument:
        """The document to display."""

    def to_frame(self) -> Any:
        """Return the document's records as a pandas or polars data frame.

        Raises:
            ConfigError: If neither library is installed.
        """
        records = list(self.document.records or ())
        columns = dict.fromkeys(key for record in records for key in record)
        return data_frame([[record.get(key) for key in columns] for record in records], columns)

    def __repr__(self) -> str:
        return render_document(self.document)

    def _repr_html_(self) -> str:
        return render_document(self.document, html=True)


def open_attempts(folder: RunFolder) -> AttemptIndex:
    """Open the index of a run's attempts, and warn if some are missing.

    Raises:
        DataMissing: If the run has no attempts.
    """
    index = AttemptIndex(folder.attempts)
    if not len(index.attempts):
        remedy = "Run its run file again: it resumes where it stopped."
        raise DataMissing(f"The run {folder.name!r} has no attempts to export.", remedy)
    warn_of_missing(folder, index.attempts)
    return index


def export_frame(runs: Iterable[RunResult], *, attempts: bool) -> Any:
    """Return a data frame of runs with the columns of ``harness export``.

    It has a row per sample or, if ``attempts`` is true, per attempt.
    """
    exported_rows: Any = Kind("results").load("ExportedRows")
    rows = exported_rows.of([run.folder for run in runs], attempts=attempts)
    return data_frame(list(rows), rows.columns)


def data_frame(rows: Sequence[Sequence[Any]], columns: Mapping[str, str | None]) -> Any:
    """Convert rows to a pandas or polars data frame.

    Args:
        rows: The cells of each row.
        columns: The SQL type of each column, such as ``BIGINT``, by name; None if unknown.

    Raises:
        ConfigError: If neither library is installed.
    """
    cells_by_column = zip(*rows, strict=True) if rows else ([] for _ in columns)
    frame = dict(zip(columns, map(list, cells_by_column), strict=True))
    with contextlib.suppress(ImportError):
        pandas = importlib.import_module("pandas")
        pandas_types = {"BIGINT": "Int64", "BOOLEAN": "boolean", "DOUBLE": "float64"}
        dtypes = {}
        for name, sql_type in columns.items():
            if sql_type in pandas_types:
                dtypes[name] = pandas_types[sql_type]
        return pandas.DataFrame(frame).astype(dtypes)
    with contextlib.suppress(ImportError):
        return importlib.import_module("polars").DataFrame(frame, strict=False)
    raise ConfigError("A data frame needs pandas or polars.", "Install one: pip install pandas")


def render_document(document: TableDocument, *, html: bool = False) -> str:
    """Render a document as text for a terminal or, if ``html`` is true, for a notebook."""
    from rich.console import Console

    console = Console(record=True, file=io.StringIO(), width=CONSOLE_WIDTH, force_jupyter=False)
    console.print(render_for_terminal(document))
    if html:
        return console.export_html(inline_styles=True, code_format=HTML_TEMPLATE)
    return console.export_text()


def __getattr__(name: str) -> Any:
    """Import a class that a plug-in declares in `Plugin.results`."""
    plugin_results = Kind("results")
    if name in plugin_results.names():
        return plugin_results.load(name)
    raise AttributeError(f"module 'harness.results' has no attribute {name!r}")
