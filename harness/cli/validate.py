"""`harness judge validate`: compare a judge's verdicts with a reference's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.analysis.comparable import differing, read_run, refuse_incomparable
from harness.analysis.inputs import Label, read_labels
from harness.analysis.judge_pairs import JUDGE, RULES, pair_verdicts
from harness.analysis.judge_validation import JudgeValidation
from harness.analysis.judge_validation import validate as agreement
from harness.analysis.judge_verdicts import judges_with_verdicts, read_answers
from harness.analysis.self_preference import notes
from harness.cli.console import show
from harness.cli.options import By, JsonFormat, Runs
from harness.config.settings import Settings
from harness.errors import ConfigError, DataMissing, nearest
from harness.report.judges import validation_document
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder, find_runs

PICTURES = (".svg", ".png", ".pdf")
MOST_NAMED = 4
"""Runs in a picture's title."""
LABELS = (".jsonl", ".json")


def validate(
    runs: Runs,
    judge: Annotated[str, typer.Option(metavar="NAME")] = "",
    against: Annotated[str, typer.Option(metavar="REFERENCE")] = "",
    by: By = "",
    form: JsonFormat = "table",
    figure: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
) -> None:
    """Measure how far a judge agrees with a reference.

    Shows accuracy, Cohen's kappa, the confusion matrix, calibration, and for several runs how
    similarly both rank them. Answers that only one side judged are counted and excluded; an
    abstention is not a no.

    Args:
        judge: The judge's name in the runs (default: the only one).
        against: Another judge of the runs, a file of human labels (….jsonl), or 'rules' for rule
            checkers, where they apply (default: the only other judge).
        figure: Draw the calibration curve: .svg, .png or .pdf.
    """
    if figure is not None and figure.suffix not in PICTURES:
        raise ConfigError(f"--figure: {figure.name} ends in none of {', '.join(PICTURES)}.")
    folders = find_runs(Settings().runs_dir, runs)
    variants = [read_run(folder)[0] for folder in folders]
    first, others = variants[0], variants[1:]
    if others:
        refuse_incomparable(first, others)
    judges, reference = _sides(folders, judge, against)
    answers = {one.name: read_answers(AttemptIndex(one.attempts), judges) for one in folders}
    own = [f"{one.name}: {note}." for one in variants for note in notes(one.metrics, judges)]
    found = agreement(
        pair_verdicts(answers, reference),
        judge=judges[0],
        reference=judges[1] if len(judges) > 1 else against,
        runs=[variant.name for variant in variants],
        label=by,
        marks=list(dict.fromkeys(mark for variant in variants for mark in variant.marks)),
        notes=[*(differing(first, others) if others else []), *own],
    )
    show(validation_document(found), form)
    if figure is not None:
        _draw(found, figure)


def _draw(found: JudgeValidation, path: Path) -> None:
    """Write the calibration curve."""
    from harness.cli.report import write_image
    from harness.report.figures.calibration import calibration_figure

    curve = calibration_figure(found)
    if curve is None:
        raise DataMissing(
            f"--figure: the probabilities of {found.judge!r} are not known.",
            "A judge reports them from log-probabilities or votes (docs/judges.md).",
        )
    write_image(path, curve, ", ".join(found.runs[:MOST_NAMED]))


def _sides(
    folders: Sequence[RunFolder], judge: str, against: str
) -> tuple[list[str], str | list[Label]]:
    """Return the judges whose verdicts are read, and the reference. Raises ConfigError."""
    known = [judges_with_verdicts(folder.attempts) for folder in folders]
    common = [judge for judge in known[0] if all(judge in own for own in known)]
    labels = Path(against).suffix in LABELS
    if not judge:
        judge = _only(
            [one for one in common if one != against], "--judge: which judge should be validated?"
        )
    _refuse_unknown("--judge", judge, folders, known)
    if labels or against == RULES:
        return [judge], read_labels(Path(against)) if labels else RULES
    if not against:
        against = _only(
            [one for one in common if one != judge],
            f"--against: what is the reference? A file of labels (….jsonl), {RULES}, or a judge.",
        )
    if against == judge:
        raise ConfigError(f"{judge!r} agrees with itself.", "Name another judge after --against.")
    _refuse_unknown("--against", against, folders, known)
    return [judge, against], JUDGE


def _only(judges: Sequence[str], question: str) -> str:
    if len(judges) != 1:
        known = f"Judges with verdicts: {', '.join(judges)}."
        none = "The runs have no verdicts of such a judge."
        raise ConfigError(question, known if judges else none)
    return judges[0]


def _refuse_unknown(
    option: str, judge: str, folders: Sequence[RunFolder], known: Sequence[Sequence[str]]
) -> None:
    for folder, own in zip(folders, known, strict=True):
        if judge not in own:
            raise ConfigError(
                f"{option}: the run {folder.name!r} has no verdicts of a judge {judge!r}.",
                nearest(judge, own) or "Judge the run first: harness judge RUN --judge FILE.yaml.",
            )
