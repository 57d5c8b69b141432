"""`harness show`: a run's metrics, answers, failures and constraints."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

import typer

from harness.analysis.comparable import read_run, refuse_unknown_label
from harness.analysis.constraints import (
    LABEL,
    ConstraintFindings,
    kinds,
    read_asked,
    read_findings,
    rejections,
)
from harness.analysis.failures import AnswerLine, read_deciding, read_failed
from harness.analysis.summary import measure
from harness.cli.options import Runs
from harness.config.settings import Settings
from harness.engine.run_files import runs_named
from harness.engine.task_answers import row_fields
from harness.errors import ConfigError, DataMissing
from harness.report.constraints import constraint_document, constraint_shares, rejection_document
from harness.report.run_tables import headed, run_document
from harness.report.runs import runs_table, suite_document
from harness.report.table import Note, Table, TableDocument
from harness.report.transcript import Rows, answers_document, failed_document, transcript
from harness.store.index import AttemptIndex, read_instance
from harness.store.lost_lines import warn_of_missing
from harness.store.run_folder import RunFolder
from harness.terminal.console import say, show_listing
from harness.terminal.console import show as show_document


def show(
    runs: Runs,
    instance: Annotated[str | None, typer.Option(metavar="ID")] = None,
    constraints: bool = False,
    by: Annotated[str | None, typer.Option(metavar="LABEL")] = None,
    rejected: bool = False,
    failed: bool = False,
    side_by_side: bool = False,
    form: Annotated[Literal["table", "json", "csv"], typer.Option("--format")] = "table",
) -> None:
    """Show a run's metrics, its failures, its constraints, or every attempt of one instance.

    Several runs, or the variants of a run file, are shown in one table: of their metrics or, with
    --constraints, of their constraints.

    Args:
        instance: Show all attempts of one instance in full.
        constraints: Show which constraints fail, and by how much.
        by: With --constraints: group by this label instead of by kind. With --rejected: show each
            group of this label.
        rejected: Show which schemas (decoding.constraint) the provider rejected, by keyword.
        failed: List the attempts that failed, and the reasons. With --instance: show only those.
            With --side-by-side: only the instances that failed in a run.
        side_by_side: Show the runs' answers side by side.
        form: Output format; json works for the metrics, --side-by-side, --failed and --instance,
            and csv, with the fields of your rows, for --side-by-side and --failed.
    """
    if by is not None and (instance is not None or not (constraints or rejected)):
        problem = "--by groups the constraints: use it with --constraints or --rejected."
        raise ConfigError(problem, f"harness show {runs[0]} --constraints --by {by}")
    attempts_shown = instance is not None or failed or side_by_side
    if sum((attempts_shown, constraints, rejected)) > 1:
        which = "--failed, --side-by-side and --instance, --constraints and --rejected"
        raise ConfigError(f"{which} cannot be combined.", "Give one of them.")
    if form != "table" and (constraints or rejected):
        problem = "--format json is for the metrics, --side-by-side, --failed and --instance."
        raise ConfigError(problem, "Remove it.")
    if form == "csv" and (instance is not None or not (failed or side_by_side)):
        problem = "--format csv is for --side-by-side and --failed."
        raise ConfigError(problem, f"For all: harness export {runs[0]} --output FILE.csv")
    folders = runs_named(runs, Settings())
    if len(folders) > 1 and (instance is not None or rejected):
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
        show_document(_shares(folders, by or LABEL) if constraints else _several(folders), form)
    elif constraints:
        show_document(headed(_constraints(folder, by or LABEL), measure(folder)))
    elif rejected:
        show_document(headed(_rejected(folder, by or ""), measure(folder)))
    else:  # recomputed, because a killed run has not written any metrics
        metrics = measure(folder)
        show_document(replace(run_document(metrics), data=metrics), form)


def _show_instance(folder: RunFolder, instance: str, form: str, *, failed: bool) -> None:
    attempts = read_instance(folder.attempts, instance)
    if not attempts:
        problem = f"The run {folder.name!r} has no attempts of the instance {instance!r}."
        raise DataMissing(problem, f"The ids are in {folder.attempts}.")
    if failed:
        attempts = [a for a in attempts if a.passed is False or a.outcome == "error"]
    show_listing(transcript(attempts), attempts, form)


def _show_failed(folders: Sequence[RunFolder], rows: Rows, form: str) -> None:
    documents = {folder.name: _failed(folder, rows) for folder in folders}
    if form == "table":
        for folder in folders:
            show_document(headed(documents[folder.name], measure(folder)))
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
    return list(read_deciding(index, AnswerLine, order[index.attempts.is_last_round()[order]]))


def _failed(folder: RunFolder, rows: Rows) -> TableDocument:
    index = AttemptIndex(folder.attempts)
    warn_of_missing(folder, index.attempts)
    turns = index.attempts.turns is not None
    return failed_document(read_failed(index, rows), len(index), folder.name, rows, turns=turns)


def _several(folders: Sequence[RunFolder]) -> TableDocument:
    metrics = {folder.name: measure(folder) for folder in folders}
    document = TableDocument(parts=[runs_table(metrics)])
    if len({run_metrics.task for run_metrics in metrics.values()}) > 1:
        document = suite_document(list(map(read_run, folders)))
    more = Note(f"One in full: harness show {folders[0].name}")
    return replace(document, parts=[*document.parts, more], data=metrics)


def _findings(folder: RunFolder, label: str) -> ConstraintFindings:
    findings = read_findings(AttemptIndex(folder.attempts))
    if not findings.table.judged.any():
        problem = f"The run {folder.name!r} has no scores of individual constraints."
        raise DataMissing(problem, f"Show its metrics: harness show {folder.name}")
    labels = findings.table.labels()
    if label not in labels:
        problem = f"--by: constraints of the run {folder.name!r} have no label {label!r}."
        raise ConfigError(problem, f"Its labels: {', '.join(sorted(labels))}.")
    return findings


def _constraints(folder: RunFolder, label: str) -> TableDocument:
    findings = _findings(folder, label)
    by_kind = kinds(findings, label)
    unlabelled = int(findings.table.judged.sum()) - sum(kind.n for kind in by_kind)
    return constraint_document(by_kind, findings.without, label, unlabelled)


def _shares(folders: Sequence[RunFolder], label: str) -> TableDocument:
    variants = [variant for variant, _ in map(read_run, folders)]
    tasks = dict.fromkeys(variant.metrics.task for variant in variants)
    if len(tasks) > 1:
        problem = f"The runs are of different tasks: {', '.join(tasks)}."
        raise ConfigError(problem, "Show the runs of each task separately.")
    by_run = {folder.name: kinds(_findings(folder, label), label) for folder in folders}
    marks = [f"{run.name}: {', '.join(run.marks)}" for run in variants if run.marks]
    return replace(constraint_shares(by_run, label), title=next(iter(tasks)), marks=marks)


def _rejected(folder: RunFolder, label: str) -> TableDocument:
    index = AttemptIndex(folder.attempts, judges=False)
    rejected = rejections(read_asked(index))
    if not rejected.n + rejected.n_failed:
        remedy = "Set decoding.constraint in the run file (harness docs providers)."
        raise DataMissing(f"The run {folder.name!r} did not constrain decoding.", remedy)
    if not label:
        return rejection_document(rejected)
    refuse_unknown_label("--by", label, {folder.name: index.attempts})
    parts: list[Table | Note] = []
    for group, _ in index.attempts.by(label):
        in_group = rejections(read_asked(index, {label: group}))
        parts += [Note(f"{label} {group}", "bold"), *rejection_document(in_group).parts]
    return TableDocument(parts=parts)
