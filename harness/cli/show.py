"""`harness show`: a run's metrics, its base constraints, or one instance's attempts."""

from __future__ import annotations

from harness.analysis.forensics import kinds
from harness.assemble import measure
from harness.cli.console import output
from harness.config.settings import Settings
from harness.errors import DataMissing
from harness.report.constraint_table import constraint_table
from harness.report.run_tables import heading, run_tables
from harness.report.transcript import transcript
from harness.store.findings import read_findings
from harness.store.reader import read_instance
from harness.store.run_folder import find_run
from harness.store.whole import read_places


def show_run(name: str) -> None:
    """Print a run's metrics, computed anew: a killed run has written none."""
    output.print(run_tables(measure(find_run(Settings().runs_dir, name))))


def show_constraints(name: str) -> None:
    """Print how often each kind of base constraint is met.

    Raises: DataMissing where the run's scores tell of none.
    """
    folder = find_run(Settings().runs_dir, name)
    findings = read_findings(folder.attempts, read_places(folder.attempts))
    found = kinds(findings)
    if not found:
        raise DataMissing(
            f"The scores of the run {folder.name!r} tell of no base constraints.",
            f"See them all: harness show {folder.name}",
        )
    output.print(heading(measure(folder)))
    output.print(constraint_table(found, findings.without))


def show_instance(name: str, instance: str) -> None:
    """Print an instance's attempts in full.

    Raises: DataMissing where the run has none of it.
    """
    folder = find_run(Settings().runs_dir, name)
    attempts = read_instance(folder.attempts, instance)
    if not attempts:
        raise DataMissing(
            f"The run {folder.name!r} has no attempt on an instance {instance!r}.",
            f"The ids are in {folder.attempts}.",
        )
    output.print(transcript(attempts))
