"""`harness judge`, `harness judge validate` and `harness errors`: judges, and labels by people."""

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from harness.analysis.self_preference import self_preference_warnings
from harness.cli.options import RUN, By, JsonFormat, Runs, check_picture, parse_outcomes
from harness.cli.run import print_early_end, print_verdictless, run_with_display
from harness.cli.verbs import VerbGroup, run_names
from harness.config.loading import check_no_secrets
from harness.config.sections import JudgeSection, PanelSection
from harness.config.settings import Settings
from harness.config.validation import validate as validate_section
from harness.config.yaml_text import read_mapping
from harness.engine.judges import prompt_data_sets
from harness.engine.run_files import find_named_run, find_named_runs
from harness.errors import ConfigError, RunConflict, StoreFailed, suggest_name
from harness.execution import report_executions
from harness.plugin_loader import Kind
from harness.plugins.comparisons.comparable import read_run, refuse_incomparable
from harness.plugins.comparisons.judge_verdicts import judges_with_verdicts, read_answers
from harness.plugins.comparisons.run_differences import differing
from harness.plugins.data.fetch import fetch_prompts
from harness.plugins.estimates.confirm import confirm_calls
from harness.plugins.judging import error_labels, later_judge
from harness.plugins.judging.references import (
    JUDGE,
    RULES,
    Label,
    keep_labels,
    pair_verdicts,
    read_labels,
)
from harness.plugins.judging.validation import judges_document, validation_document
from harness.plugins.judging.validation import validate as agreement
from harness.report.run_tables import run_document
from harness.store.index import AttemptIndex
from harness.store.judgements import REDRAWN_OUTCOMES
from harness.store.run_folder import RunFolder
from harness.terminal.console import ExactOutput, say, show
from harness.terminal.display import Display
from harness.wording import format_count

FORM = "Write a judge, {name: …, model: {…}}, or a panel, {as: …, of: […]} (harness docs judges)."


def judge(
    run: Annotated[str, typer.Argument(metavar="RUN", help=RUN, autocompletion=run_names)],
    judge: Annotated[str, typer.Option(metavar="FILE.yaml")],
    budget: Annotated[float | None, typer.Option(metavar="USD", min=0)] = None,
    retry: Annotated[str, typer.Option(metavar="OUTCOMES")] = "",
    gold: bool = False,
    yes: bool = False,
) -> None:
    """Score a run with another judge; repeat the command to judge the remaining answers.

    Writes judgements.jsonl next to the attempts. The new scores are reported next to the run's own
    scores, and do not change which answers passed. Judgements of reference answers (--gold) are
    stored in the folder gold/, and 'harness show' compares the run with them. Exit codes: 0
    finished, 1 failed or some calls failed, 3 the budget is spent, 130 interrupted.

    'harness judge validate' measures how far a judge can be trusted; see its --help.

    Args:
        judge: A file with a judge's section, as in a run file's judges:, or the name of a judge
            that the run already has.
        budget: Maximum cost of the run with this judge (default: the run's budget).
        retry: Retry judgements with these outcomes, separated by commas: unparseable, refused,
            empty. Failed calls are always retried.
        gold: Judge the task's reference answers instead of the run's answers.
        yes: Do not ask before judgements that may cost more than HARNESS_ASK_ABOVE_USD.
    """
    report_executions()
    settings = Settings()
    retried = parse_outcomes(retry, REDRAWN_OUTCOMES)
    folder = find_named_run(run, settings)
    section = _judge_section(folder, judge)
    if isinstance(section, JudgeSection):
        fetch_prompts(prompt_data_sets([section]), settings)
    if isinstance(section, PanelSection):
        job = later_judge.prepare_panel(folder, section, settings, references=gold)
    else:
        job = later_judge.prepare_judge(folder, section, settings, usd=budget, references=gold)
    for name, text in job.warnings():
        say(f"{folder.name}: judge {name}: {text}")
    if job.model is not None:
        confirm_calls(job.model, partial(job.estimate, retried), job.budget.usd, settings, yes)
    command = shlex.join(["harness", "judge", run, "--judge", judge])
    if gold:
        command += " --gold"
    if budget is not None:
        command += f" --budget {budget}"
    with_retry = command
    if retried:
        with_retry += f" --retry {','.join(retried)}"
    with Display({folder.name: folder.name}) as display:
        watch = partial(display.watch, folder.name)
        judged = run_with_display(later_judge.judge_later(job, watch, retried), display, with_retry)
    show(run_document(judged.metrics))
    what = "reference answers" if gold else "answers"
    say(f"{job.name}: {judged.tally.finished:,} {what} judged in this session.")
    if judged.gone:
        say(f"{judged.gone:,} were skipped: their instances are no longer in the data set.")
    if judged.waiting:
        remedy = "Run those judges first: harness judge RUN --judge NAME."
        say(f"{judged.waiting:,} are waiting for judges of the panel. {remedy}")
    if code := print_early_end(judged.ended, judged.tally.budget, "--budget", with_retry):
        raise typer.Exit(code)
    print_verdictless(folder.name, judged.tally, "and give it another name (as: NAME).")
    failed = judged.tally.failed_judgements
    if failed:
        how_many = f"{format_count(failed, 'judgement')} failed"
        say(f"{how_many}; the last error: {judged.tally.last_error}.")
        # Without --retry: a judgement that failed during a retry counts as a failed call now.
        say(f"To retry them: {command}")
    raise typer.Exit(1 if failed or judged.waiting else 0)


def _judge_section(folder: RunFolder, judge: str) -> JudgeSection | PanelSection:
    """Return the section in a YAML file, or of a judge that the run already has."""
    path = Path(judge)
    if path.suffix not in (".yaml", ".yml"):
        if (registered := later_judge.registered_section(folder, judge)) is None:
            problem = f"The run {folder.name!r} has no judge {judge!r}."
            raise ConfigError(problem, "Name its file (….yaml).")
        return registered
    tree = read_mapping(path, "judge", FORM)
    check_no_secrets(tree, str(path))
    return validate_section(later_judge.section_type(tree), tree, str(path), FORM)


LABELS = (".jsonl", ".json")


def validate(
    runs: Runs,
    judge: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    against: Annotated[str, typer.Option(metavar="REFERENCE")] = "",
    by: By = "",
    form: JsonFormat = "table",
    figure: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
) -> None:
    """Measure how far a judge agrees with a reference.

    Shows accuracy, Cohen's kappa, the confusion matrix, calibration and, for several runs, how
    similarly the judge and the reference rank them. Answers that only one side judged are excluded,
    and their number is shown. An abstention does not count as a no.

    Args:
        judge: The judge's name in the runs (default: the only one); repeatable, to compare judges.
        against: Another judge of the runs, a file of human labels (….jsonl), or 'rules' for rule
            checkers, where they apply (default: the only other judge). Labels are copied to the
            runs' folders, so that reports show the agreement.
        figure: Draw the calibration curve: .svg, .png or .pdf.
    """
    check_picture("--figure", figure)
    candidates = judge or [""]
    if len(candidates) > 1 and (by or figure):
        raise ConfigError("--by and --figure are for one judge.", "Name one --judge.")
    folders = find_named_runs(runs, Settings())
    variants = [read_run(folder)[0] for folder in folders]
    first = variants[0]
    others = variants[1:]
    shared_notes: list[str] = []
    if others:
        refuse_incomparable(first, others)
        shared_notes += differing(first, others)
    marks: dict[str, None] = {}
    for variant in variants:
        marks |= dict.fromkeys(variant.marks)
    indices = {folder.name: AttemptIndex(folder.attempts) for folder in folders}
    validations = []
    labels = dict[str, list[Label]]()
    for candidate in candidates:
        judges, reference = _sides(folders, candidate, against)
        answers = {name: read_answers(index, judges) for name, index in indices.items()}
        self_notes = []
        for variant in variants:
            self_notes += [
                f"{variant.name}: {note}."
                for note in self_preference_warnings(variant.metrics, judges)
            ]
        validation = agreement(
            pair_verdicts(answers, reference),
            judge=judges[0],
            reference=judges[1] if len(judges) > 1 else against,
            runs=[variant.name for variant in variants],
            label=by,
            marks=list(marks),
            notes=[*shared_notes, *self_notes],
        )
        validations.append(validation)
        if isinstance(reference, list):
            labels[judges[0]] = reference
    if len(validations) == 1:
        document = validation_document(validations[0])
    else:
        document = judges_document(validations)
    show(document, form)
    try:
        for name, of_judge in labels.items():
            for folder in folders:
                keep_labels(folder, name, Path(against).name, of_judge)
    except (RunConflict, StoreFailed) as error:  # a run that grows, or that may only be read
        say(f"The labels are not kept with the run: {error.message}")
    if figure is not None:
        Kind("figures").load("calibration")(figure, validations[0])


def _sides(
    folders: Sequence[RunFolder], judge: str, against: str
) -> tuple[list[str], str | list[Label]]:
    """Return the judge to validate, and the reference: a judge, ``RULES`` or human labels."""
    judges_by_run = {folder.name: judges_with_verdicts(folder.attempts) for folder in folders}
    common = list(judges_by_run[folders[0].name])
    for judges in judges_by_run.values():
        common = [name for name in common if name in judges]

    def chosen(option: str, name: str, excluded: str, question: str) -> str:
        """Return the named judge, or else the only judge of all runs besides ``excluded``."""
        candidates = [candidate for candidate in common if candidate != excluded]
        if not name and len(candidates) != 1:
            remedy = "The runs have no verdicts of such a judge."
            if candidates:
                remedy = f"Judges with verdicts: {', '.join(candidates)}."
            raise ConfigError(f"{option}: {question}", remedy)
        name = name or candidates[0]
        for run, judges in judges_by_run.items():
            if name not in judges:
                problem = f"{option}: the run {run!r} has no verdicts of a judge {name!r}."
                judge_it = "Judge the run first: harness judge RUN --judge FILE.yaml."
                raise ConfigError(problem, suggest_name(name, judges) or judge_it)
        return name

    judge = chosen("--judge", judge, against, "which judge should be validated?")
    if Path(against).suffix in LABELS:
        return [judge], read_labels(Path(against))
    if against == RULES:
        return [judge], RULES
    question = "what is the reference? A file of labels (….jsonl), rules, or a judge."
    reference = chosen("--against", against, judge, question)
    if reference == judge:
        raise ConfigError(
            f"{judge!r} cannot be compared with itself.", "Name another judge after --against."
        )
    return [judge, reference], JUDGE


errors = VerbGroup("errors")


@errors.verb("draw")
def draw(
    runs: Runs,
    n: Annotated[int, typer.Option("-n", min=1)] = 10,
    by: Annotated[str, typer.Option(metavar="LABEL")] = "",
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Print a sheet (CSV) of failed answers to label; write it to a file with '>'.

    Args:
        n: Number of failures per run, or with --by per group.
        by: Draw from each group of this label, such as task.
        seed: Seed of the draw.
    """
    folders = find_named_runs(runs, Settings())
    failures: list[error_labels.Failure] = []
    for folder in folders:
        failures += error_labels.draw(folder, n, by, seed)
    ExactOutput().write(error_labels.write_sheet(failures))


@errors.verb("tally")
def tally(sheets: list[Path], form: JsonFormat = "table") -> None:
    """Count the kinds of error in a filled-in sheet.

    Args:
        sheets: The sheet, and optionally another person's labels of the same failures.
    """
    if len(sheets) > 2:
        raise ConfigError("A tally takes one or two sheets.", "Name no more than two.")
    first, *others = map(error_labels.read_sheet, sheets)
    show(error_labels.error_document(error_labels.tally(first, *others)), form)
