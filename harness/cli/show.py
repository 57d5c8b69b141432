"""`harness show`: a run's metrics, its base constraints, or one instance's attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from harness.analysis.constraints import LABEL, kinds, read_findings
from harness.analysis.judge_agreement import rule_agreement
from harness.analysis.rejections import read_asked, rejections
from harness.analysis.summary import measure
from harness.cli.console import output
from harness.cli.options import Run
from harness.config.settings import Settings
from harness.errors import ConfigError, DataMissing, nearest
from harness.report.constraints import constraint_document, rejection_document
from harness.report.judges import rule_agreement_document
from harness.report.run_tables import headed, run_document
from harness.report.table import TableDocument
from harness.report.terminal import terminal
from harness.report.transcript import transcript
from harness.store.index import AttemptIndex, read_instance
from harness.store.run_folder import RunFolder, find_run


def show(
    run: Run,
    instance: Annotated[
        str | None, typer.Option(metavar="ID", help="Show all attempts of one instance in full.")
    ] = None,
    constraints: Annotated[
        bool,
        typer.Option("--constraints", help="Show which base constraints fail, and by how much."),
    ] = False,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL", help="With --constraints: group by this label, not by their kind."
        ),
    ] = None,
    rejected: Annotated[
        bool,
        typer.Option(
            "--rejected", help="Show which schemas (decoding.constraint) the provider rejected."
        ),
    ] = False,
    rules: Annotated[
        bool,
        typer.Option("--rules", help="Show how often judges and rules agree, rule by rule."),
    ] = False,
) -> None:
    """Show a run's metrics, its base constraints, or every attempt of one instance."""
    show_asked(
        run, instance=instance, constraints=constraints, by=by, rejected=rejected, rules=rules
    )


def show_asked(
    name: str,
    *,
    instance: str | None,
    constraints: bool,
    by: str | None,
    rejected: bool,
    rules: bool,
) -> None:
    """Print a run's metrics, its constraints, or the attempts of one instance.

    Args:
        name: The run's name or folder.
        instance: Show the attempts of this instance.
        constraints: Show how often base constraints are met.
        by: Label to group the constraints by.
        rejected: Show which schemas the provider rejected.
        rules: Show how often judges and rules agree.
    """
    if by is not None and (instance is not None or not constraints):
        raise ConfigError(
            "--by groups the base constraints: use it with --constraints.",
            f"harness show {name} --constraints --by {by}",
        )
    if sum((instance is not None, constraints, rejected, rules)) > 1:
        raise ConfigError("--instance, --constraints, --rejected and --rules exclude each other.")
    if instance is not None:
        show_instance(name, instance)
    elif constraints:
        show_constraints(name, LABEL if by is None else by)
    elif rejected:
        show_rejected(name)
    elif rules:
        show_rules(name)
    else:
        show_run(name)


def show_run(name: str) -> None:
    """Print a run's metrics, recomputed because a killed run has not written any."""
    output.print(terminal(run_document(measure(find_run(Settings().runs_dir, name)))))


def show_constraints(name: str, label: str = LABEL) -> None:
    """Print how often base constraints are met, by kind or by the groups of a label.

    Raises:
        DataMissing: None of the run's scores lists constraints.
        ConfigError: None of the constraints has the label.
    """
    folder = find_run(Settings().runs_dir, name)
    findings = read_findings(AttemptIndex(folder.attempts))
    n_judged = int(findings.table.judged.sum())
    if not n_judged:
        raise DataMissing(
            f"The run {folder.name!r} has no scores of base constraints.",
            f"Show its metrics: harness show {folder.name}",
        )
    _refuse_unknown(label, findings.table.labels(), folder.name)
    found = kinds(findings, label)
    unlabelled = n_judged - sum(one.n for one in found)
    _print(constraint_document(found, findings.without, label, unlabelled), folder)


def show_rejected(name: str) -> None:
    """Print which schemas the provider rejected, by their keywords.

    Raises:
        DataMissing: The run did not constrain decoding.
    """
    folder = find_run(Settings().runs_dir, name)
    found = rejections(read_asked(AttemptIndex(folder.attempts, judges=False)))
    if not found.n + found.n_failed:
        raise DataMissing(
            f"The run {folder.name!r} did not constrain decoding.",
            "Set decoding.constraint in the run file (docs/providers.md).",
        )
    _print(rejection_document(found), folder)


def show_rules(name: str) -> None:
    """Print how often the run's judges and the rules agree on a constraint.

    Raises:
        DataMissing: No judge decided on a criterion that a rule can check.
    """
    folder = find_run(Settings().runs_dir, name)
    found = rule_agreement(folder.attempts)
    if not found:
        raise DataMissing(
            f"No judge of the run {folder.name!r} decided on a criterion that a rule can check.",
            "The judge yes_no does, for tasks with criteria (docs/wildifeval.md).",
        )
    _print(rule_agreement_document(found), folder)


def _print(document: TableDocument, folder: RunFolder) -> None:
    output.print(terminal(headed(document, measure(folder))))


def _refuse_unknown(label: str, labels: Sequence[str], run: str) -> None:
    """Refuse an unknown label.

    Raises:
        ConfigError: The label is unknown; the message has the nearest one and all others.
    """
    if label in labels:
        return
    remedy, known = nearest(label, labels), ", ".join(sorted(labels))
    raise ConfigError(
        f"--by: the base constraints of the run {run!r} have no label {label!r}.",
        remedy if known in remedy else f"{remedy} Its labels: {known}.",
    )


def show_instance(name: str, instance: str) -> None:
    """Print an instance's attempts in full.

    Raises:
        DataMissing: The run has no attempts of the instance.
    """
    folder = find_run(Settings().runs_dir, name)
    attempts = read_instance(folder.attempts, instance)
    if not attempts:
        raise DataMissing(
            f"The run {folder.name!r} has no attempts of the instance {instance!r}.",
            f"The ids are in {folder.attempts}.",
        )
    output.print(transcript(attempts))
