"""`harness judge`: score a run's answers with another judge."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, cast

import typer

from harness.cli.completion import judge_words
from harness.cli.console import say, show
from harness.cli.live import Display, attended, early_end
from harness.cli.options import outcomes
from harness.config.judges import JudgeSection, PanelSection
from harness.config.loading import read, refuse_secrets
from harness.config.settings import Settings
from harness.config.validation import validated
from harness.errors import ConfigError
from harness.report.run_tables import run_document
from harness.run.later_judge import (
    judge_later,
    prepare_judge,
    prepare_panel,
    registered_section,
    section_type,
)
from harness.store.judgements import JudgementOutcome
from harness.store.run_folder import RunFolder, find_run

REDRAWN: tuple[JudgementOutcome, ...] = ("unparseable", "refused", "empty")
"""What ``--retry`` takes."""

FORM = (
    "It must hold a judge: {name: …, model: {backend: …, name: …}}, or a panel: "
    "{as: …, of: [judge, judge]} (docs/judges.md)."
)


def judge(
    run: Annotated[
        str, typer.Argument(help="A run's name or its folder.", autocompletion=judge_words)
    ],
    judge: Annotated[str, typer.Option(metavar="FILE.yaml")],
    budget: Annotated[float | None, typer.Option(metavar="USD", min=0)] = None,
    retry: Annotated[str, typer.Option(metavar="OUTCOMES")] = "",
    gold: bool = False,
) -> None:
    """Score a run with another judge; run it again to judge only what is missing.

    Writes judgements.jsonl beside the attempts. The new scores are reported with the run's own and
    do not change what passed. Judgements of reference answers (--gold) are kept in the folder
    gold/, and 'harness show' compares the run with them. Exit codes: 0 finished, 1 calls failed,
    3 the budget is spent, 130 interrupted.

    'harness judge validate' measures how far a judge can be trusted; see its --help.

    Args:
        judge: A file with a judge's section, as in a run file's judges:, or the name of a judge
            that the run already has.
        budget: Maximum cost of the run with this judge (default: the run's budget).
        retry: Retry judgements with these outcomes, separated by commas: unparseable, refused,
            empty. Failed calls are always retried.
        gold: Judge the task's reference answers instead of the run's answers.
    """
    settings = Settings()
    retried = [cast("JudgementOutcome", one) for one in outcomes(retry, REDRAWN) if one != "error"]
    folder = find_run(settings.runs_dir, run)
    section = _section(folder, judge)
    job = (
        prepare_panel(folder, section, settings, references=gold)
        if isinstance(section, PanelSection)
        else prepare_judge(folder, section, settings, usd=budget, references=gold)
    )
    for name, text in job.warnings():
        say(f"{folder.name}: judge {name}: {text}")
    again = shlex.join(["harness", "judge", run, "--judge", judge, *["--gold"] * gold])
    again += "" if budget is None else f" --budget {budget}"
    with_retry = again + (f" --retry {','.join(retried)}" if retried else "")
    with Display({folder.name: folder.name}) as display:
        work = judge_later(
            job,
            lambda tally, stop, notices: display.watch(folder.name, tally, stop, notices),
            retried,
        )
        judged = attended(work, display, with_retry)
    show(run_document(judged.metrics))
    what = "reference answers" if gold else "answers"
    say(f"{job.name}: {judged.tally.finished:,} {what} judged in this session.")
    if judged.gone:
        say(f"{judged.gone:,} were skipped: their instances are no longer in the data set.")
    if judged.waiting:
        say(
            f"{judged.waiting:,} wait for judges of the panel that have not judged them. Run "
            "those judges first: harness judge RUN --judge NAME."
        )
    if code := early_end(judged.ended, judged.tally.budget, "--budget", with_retry):
        raise typer.Exit(code)
    failed = judged.tally.failed_judgements
    if failed:
        say(f"{failed:,} judgements failed; the last error: {judged.tally.last_error}.")
        # Without --retry: a judgement that failed while being retried is now a failed call.
        say(f"To repeat them: {again}")
    raise typer.Exit(1 if failed or judged.waiting else 0)


def _section(folder: RunFolder, judge: str) -> JudgeSection | PanelSection:
    """Return the section of the named judge, from a file or from the run. Raises ConfigError."""
    path = Path(judge)
    if path.suffix not in (".yaml", ".yml"):
        known = registered_section(folder, judge)
        if known is None:
            raise ConfigError(
                f"The run {folder.name!r} has no judge {judge!r}.", "Name its file (….yaml)."
            )
        return known
    tree = read(path, "judge", FORM)
    refuse_secrets(tree, str(path))
    return validated(section_type(tree), tree, str(path), FORM)
