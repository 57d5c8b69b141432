"""`harness judge validate`: compare a judge's verdicts with a reference's."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from harness.analysis.comparable import Variant, differing, read_run, refuse_incomparable
from harness.analysis.inputs import Label, read_labels
from harness.analysis.judge_pairs import JUDGE, RULES, pair_verdicts
from harness.analysis.judge_validation import JudgeValidation, validate
from harness.analysis.judge_verdicts import judges_with_verdicts, read_answers
from harness.analysis.self_preference import notes
from harness.cli import SETTINGS
from harness.cli.console import output
from harness.cli.options import Runs
from harness.config.settings import Settings
from harness.errors import ConfigError, DataMissing, nearest
from harness.report.judges import validation_document
from harness.report.table import as_json
from harness.report.terminal import terminal
from harness.store.files import replacing
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder, find_runs

FORMATS = ("table", "json")
PICTURES = (".svg", ".png", ".pdf")
MOST_NAMED = 4
"""Runs in a picture's title."""
LABELS = (".jsonl", ".json")


app = typer.Typer(add_completion=False, **SETTINGS)


@app.command("validate")
def validate_judge(
    runs: Runs,
    judge: Annotated[
        str,
        typer.Option(metavar="NAME", help="The judge's name in the runs (default: the only one)."),
    ] = "",
    against: Annotated[
        str,
        typer.Option(
            metavar="REFERENCE",
            help="Another judge of the runs, a file of human labels (….jsonl), or 'rules' for rule "
            "checkers, where they apply (default: the only other judge).",
        ),
    ] = "",
    by: Annotated[
        str,
        typer.Option(metavar="LABEL", help="Also show groups of criteria, such as category."),
    ] = "",
    form: Annotated[str, typer.Option("--format", help="Output format: table or json.")] = "table",
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the calibration curve: .svg, .png or .pdf."),
    ] = None,
) -> None:
    """Measure how far a judge agrees with a reference.

    Shows accuracy, Cohen's kappa, the confusion matrix, calibration, and for several runs how
    similarly both rank them. Answers that only one side judged are counted and left out; an
    abstention is not a no.
    """
    show_validation(runs, ValidationAsked(judge, against, by), form, figure)


class ValidationAsked(NamedTuple):
    """What to validate.

    Attributes:
        judge: Its name in the runs; empty for the only one.
        against: Another judge's name, a file of labels, or `RULES`; empty for the only other judge.
        by: A label of the criteria; empty for none.
    """

    judge: str = ""
    against: str = ""
    by: str = ""


def show_validation(
    names: Sequence[str], asked: ValidationAsked, form: str = "table", figure: Path | None = None
) -> None:
    """Print how well a judge's verdicts agree with a reference's.

    Args:
        names: Names of runs, or of run files for all of their variants.
        asked: What to validate.
        form: The output format.
        figure: A file for the calibration curve; its suffix decides the format.
    """
    if form not in FORMATS:
        raise ConfigError(f"There is no format {form!r}.", nearest(form, FORMATS))
    if figure is not None and figure.suffix not in PICTURES:
        raise ConfigError(f"--figure: {figure.name} ends in none of {', '.join(PICTURES)}.")
    found = _validated(find_runs(Settings().runs_dir, names), asked)
    if form == "table":
        output.print(terminal(validation_document(found)))
    else:  # not folded: the output may be a file
        sys.stdout.write(as_json(validation_document(found)))
    if figure is not None:
        _draw(found, figure)


def _draw(found: JudgeValidation, path: Path) -> None:
    """Write the calibration curve.

    Raises:
        DataMissing: The judge's probabilities are not known.
        StoreFailed: The file cannot be written.
    """
    from harness.report.figure import DRAW, ImageOptions
    from harness.report.figures.calibration import calibration_figure

    curve = calibration_figure(found)
    if curve is None:
        raise DataMissing(
            f"--figure: the probabilities of {found.judge!r} are not known.",
            "A judge reports them from log-probabilities or votes (docs/judges.md).",
        )
    subtitle = ", ".join(found.runs[:MOST_NAMED])
    image = DRAW[path.suffix.removeprefix(".")](curve, ImageOptions(subtitle=subtitle))
    with replacing(
        path, "Free some space, fix the permissions, or name another file."
    ) as temporary:
        temporary.write_bytes(image)


def _validated(folders: Sequence[RunFolder], asked: ValidationAsked) -> JudgeValidation:
    variants = [read_run(folder)[0] for folder in folders]
    if len(variants) > 1:
        refuse_incomparable(variants[0], variants[1:])
    judges, reference = _sides(folders, asked)
    answers = {
        folder.name: read_answers(AttemptIndex(folder.attempts), judges) for folder in folders
    }
    return validate(
        pair_verdicts(answers, reference),
        judge=judges[0],
        reference=judges[1] if len(judges) > 1 else asked.against,
        runs=[variant.name for variant in variants],
        label=asked.by,
        marks=list(dict.fromkeys(mark for variant in variants for mark in variant.marks)),
        notes=[
            *(list(differing(variants[0], variants[1:])) if len(variants) > 1 else []),
            *_self_preferences(variants, judges),
        ],
    )


def _self_preferences(variants: Sequence[Variant], judges: Sequence[str]) -> list[str]:
    """Return, for each run, notes on compared judges that may prefer their own family."""
    return [
        f"{variant.name}: {note}."
        for variant in variants
        for note in notes(variant.metrics, judges)
    ]


def _sides(
    folders: Sequence[RunFolder], asked: ValidationAsked
) -> tuple[list[str], str | list[Label]]:
    """Return the judges whose verdicts are read, and the reference.

    Raises:
        ConfigError: It is ambiguous which judges are meant, or a run lacks one.
    """
    known = [judges_with_verdicts(folder.attempts) for folder in folders]
    common = [judge for judge in known[0] if all(judge in own for own in known)]
    labels = Path(asked.against).suffix in LABELS
    others = not labels and asked.against != RULES
    judge = asked.judge
    if not judge:
        left = [one for one in common if one != asked.against]
        if len(left) != 1:
            raise ConfigError(f"--judge: which judge should be validated? {_choices(left)}")
        judge = left[0]
    _refuse_unknown("--judge", judge, folders, known)
    if not others:
        return [judge], read_labels(Path(asked.against)) if labels else RULES
    other = asked.against
    if not other:
        left = [one for one in common if one != judge]
        if len(left) != 1:
            raise ConfigError(
                f"--against: what is the reference? {_choices(left)}",
                f"Or name a file of labels (….jsonl), or {RULES}.",
            )
        other = left[0]
    if other == judge:
        raise ConfigError(f"{judge!r} agrees with itself.", "Name another judge after --against.")
    _refuse_unknown("--against", other, folders, known)
    return [judge, other], JUDGE


def _choices(judges: Sequence[str]) -> str:
    if not judges:
        return "The runs have no verdicts of such a judge."
    return f"Judges with verdicts: {', '.join(judges)}."


def _refuse_unknown(
    option: str, judge: str, folders: Sequence[RunFolder], known: Sequence[Sequence[str]]
) -> None:
    for folder, own in zip(folders, known, strict=True):
        if judge not in own:
            raise ConfigError(
                f"{option}: the run {folder.name!r} has no verdicts of a judge {judge!r}.",
                nearest(judge, own) or "Judge the run first: harness judge RUN --judge FILE.yaml.",
            )
