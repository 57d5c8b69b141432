"""The comparison of runs in Python."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from harness.config.settings import Settings
from harness.engine.run_files import find_named_runs
from harness.errors import ConfigError, python_style
from harness.plugins.comparisons.comparable import read_run
from harness.plugins.comparisons.comparison_document import comparison_document
from harness.plugins.comparisons.run_comparison import (
    ComparisonOptions,
    RunComparison,
    compare_runs,
)
from harness.report.table import TableDocument
from harness.results import RunResult, TableResult
from harness.store.run_folder import RunFolder


@dataclass(frozen=True, repr=False)
class ComparisonResult(TableResult):
    """Runs that are compared with a baseline. ``found`` holds all figures."""

    found: RunComparison

    @cached_property
    def document(self) -> TableDocument:
        """The tables and notes of the comparison."""
        return comparison_document(self.found)


def compare(
    *runs: RunResult | str, score: str = "", by: str = "", round: int | None = None
) -> ComparisonResult:
    """Compare runs with the first of them, instance by instance, and return the comparison.

    Args:
        runs: Two or more runs. Each is a `RunResult`, or a name or path for `open_run`. The name or
            path of a run file with variants stands for all of its runs.
        score: Score to use (default: the task's primary metric).
        by: Label whose groups are also compared.
        round: Use each sample's last round up to this one (default: its last round).

    Raises:
        ConfigError: If there are fewer than two runs, or a score, label or round is unknown.
        DataMissing: If there is no such run.
        RunConflict: If the runs cannot be compared.

    Examples:
        >>> import harness
        >>> one = harness.run("quickstart", limit=13, progress=False)
        >>> two = harness.run("quickstart", model="simulated/0.2", limit=13, progress=False)
        >>> harness.compare(one, two, by="structure")  # doctest: +ELLIPSIS
        quickstart: SIMULATED
        ...
    """
    settings = Settings()
    folders: list[RunFolder] = []
    for run in runs:
        folders += [run.folder] if isinstance(run, RunResult) else find_named_runs([run], settings)
    if len(folders) < 2:
        raise ConfigError("Fewer than two runs to compare.", "Pass two or more, or their names.")
    comparison = ComparisonOptions(score=score, round=round, by=by)
    with python_style():
        return ComparisonResult(compare_runs([read_run(folder) for folder in folders], comparison))
