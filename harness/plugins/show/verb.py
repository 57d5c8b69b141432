"""`harness show`: a run's metrics, answers, failures and constraints."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

import typer

from harness.analysis.failures import read_without_advisory_scores
from harness.analysis.summary import compute_metrics
from harness.cli.options import Runs
from harness.cli.verbs import import_place
from harness.config.settings import Settings
from harness.declarations import declared_views
from harness.engine.resolving import row_fields
from harness.engine.run_files import find_named_runs
from harness.errors import ConfigError, DataMissing
from harness.plugins.show.transcript import (
    AnswerLine,
    Rows,
    answers_document,
    failed_document,
    read_failed,
    transcript,
)
from harness.report.run_tables import add_title, run_document
from harness.report.runs import runs_table, suite_document
from harness.report.table import Note, TableDocument
from harness.store.index import AttemptIndex, read_attempts, read_instance
from harness.store.lost_lines import warn_of_missing
from harness.store.run_folder import RunFolder
from harness.terminal.console import print_listing, say
from harness.terminal.console import show as show_document


def show(
    runs: Runs,
    instance: Annotated[str | None, typer.Option(metavar="ID")] = None,
    by: Annotated[str, typer.Option(metavar="LABEL")] = "",
    failed: bool = False,
    side_by_side: bool = False,
    form: Annotated[Literal["table", "json", "csv"], typer.Option("--format")] = "table",
    **views: bool,
) -> None:
    """Show a run's metrics, its failures, its constraints, or every attempt of one instance.

    Several runs, or the variants of a run file, are shown in one table: of their metrics or, with
    --constraints, of their constraints.

    Args:
        instance: Show all attempts of one instance in full.
        by: With --constraints: group by this label instead of by kind. With --rejected: show each
            group of this label.
        failed: List the attempts that failed, and the reasons. With --instance: show only those.
            With --side-by-side: only the instances that failed in a run.
        side_by_side: Show the runs' answers side by side.
        form: Output format; json works for the metrics, --side-by-side, --failed and --instance,
            and csv, with the fields of your rows, for --side-by-side and --failed.
    """
    chosen = [name for name, is_chosen in views.items() if is_chosen]
    flags = [f"--{name.replace('_', '-')}" for name in views]
    if by and (instance is not None or not chosen):
        problem = f"--by groups what a view shows: use it with {' or '.join(flags)}."
        remedy = f"harness show {runs[0]} {flags[0]} --by {by}" if flags else ""
        raise ConfigError(problem, remedy)
    attempts_shown = instance is not None or failed or side_by_side
    if attempts_shown + len(chosen) > 1:
        which = ", ".join(["--failed, --side-by-side and --instance", *flags])
        raise ConfigError(f"{which} cannot be combined.", "Give one of them.")
    if form != "table" and chosen:
        problem = "--format json is for the metrics, --side-by-side, --failed and --instance."
        raise ConfigError(problem, "Remove it.")
    if form == "csv" and (instance is not None or not (failed or side_by_side)):
        problem = "--format csv is for --side-by-side and --failed."
        raise ConfigError(problem, f"For all: harness export {runs[0]} --output FILE.csv")
    folders = find_named_runs(runs, Settings())
    if chosen:
        view = import_place(declared_views()[chosen[0]].target)
        show_document(view(folders, by))
        return
    if len(folders) > 1 and instance is not None:
        problem = f"That is shown for one run, not for {len(folders)}."
        names = ", ".join(folder.name for folder in folders)
        raise ConfigError(problem, f"Name one: {names}.")
    folder = folders[0]
    rows: dict[str, Mapping[str, object]] = {}  # the user's own, by instance
    if side_by_side or failed:
        warn = [say] if form == "csv" else []  # others use the order of the rows only
        for run in folders:
            rows |= row_fields(run, *warn)
    if side_by_side:
        answers = {run.name: _last_answers(run, rows) for run in folders}
        show_document(answers_document(answers, failed=failed, own=rows), form)
    elif instance is not None:
        _show_instance(folder, instance, form, failed=failed)
    elif failed:
        _show_failed(folders, rows, form)
    elif len(folders) > 1:
        show_document(_several(folders), form)
    else:  # recomputed, because a killed run has not written any metrics
        metrics = compute_metrics(folder)
        show_document(replace(run_document(metrics), data=metrics), form)


def _show_instance(folder: RunFolder, instance: str, form: str, *, failed: bool) -> None:
    warn_of_missing(folder, read_attempts(folder.attempts))
    attempts = read_instance(folder.attempts, instance)
    if not attempts:
        problem = f"The run {folder.name!r} has no attempts of the instance {instance!r}."
        raise DataMissing(problem, f"The ids are in {folder.attempts}.")
    if failed:
        attempts = [a for a in attempts if a.passed is False or a.outcome == "error"]
    print_listing(transcript(attempts), attempts, form)


def _show_failed(folders: Sequence[RunFolder], rows: Rows, form: str) -> None:
    documents = {folder.name: _failed(folder, rows) for folder in folders}
    if form == "table":
        for folder in folders:
            show_document(add_title(documents[folder.name], compute_metrics(folder)))
        return
    records: list[Mapping[str, object]] = []
    for document in documents.values():
        records += document.records or ()
    data: object = {name: document.data for name, document in documents.items()}
    if len(folders) == 1:
        data = documents[folders[0].name].data
    show_document(TableDocument(parts=[], records=records, data=data), form)


def _last_answers(folder: RunFolder, rows: Rows) -> list[AnswerLine]:
    index = AttemptIndex(folder.attempts)
    warn_of_missing(folder, index.attempts)
    order = index.rows_by_name(rows)
    return list(
        read_without_advisory_scores(
            index, AnswerLine, order[index.attempts.is_last_round()[order]]
        )
    )


def _failed(folder: RunFolder, rows: Rows) -> TableDocument:
    index = AttemptIndex(folder.attempts)
    warn_of_missing(folder, index.attempts)
    turns = index.attempts.turns is not None
    return failed_document(read_failed(index, rows), len(index), folder.name, rows, turns=turns)


def _several(folders: Sequence[RunFolder]) -> TableDocument:
    metrics = {folder.name: compute_metrics(folder) for folder in folders}
    document = TableDocument(parts=[runs_table(metrics)])
    if len({read_run_metrics.task for read_run_metrics in metrics.values()}) > 1:
        document = suite_document(folders)
    more = Note(f"One in full: harness show {folders[0].name}")
    return replace(document, parts=[*document.parts, more], data=metrics)
