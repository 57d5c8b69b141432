"""`harness judge`: score a run's answers with another judge."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from harness.calls.signals import Notices, Stop
from harness.cli.completion import judge_words
from harness.cli.console import messages, output
from harness.cli.interrupt import interruptible
from harness.cli.live import Display
from harness.cli.validate import app as validate_app
from harness.config.judges import JudgeSection, PanelSection
from harness.config.loading import read
from harness.config.settings import Settings
from harness.errors import ConfigError, HarnessError, nearest
from harness.report.run_tables import run_document
from harness.report.terminal import terminal
from harness.report.text import inert_text
from harness.run.later_judge import (
    JudgingEnd,
    judge_later,
    prepare_judge,
    prepare_panel,
    registered_section,
    section_of,
)
from harness.run.pool import Tally
from harness.store.judgements import JudgementOutcome
from harness.store.run_folder import RunFolder, find_run

BUDGET_SPENT = 3
INTERRUPTED = 130
FORM = (
    "It must hold a judge: {name: …, model: {backend: …, name: …}}, or a panel: "
    "{as: …, of: [judge, judge]} (docs/judges.md)."
)


class JudgeCommand(TyperCommand):
    """`harness judge`, which becomes `harness judge validate` if its first word is ``validate``.

    A run called ``validate`` is judged by its folder's path: ``harness judge runs/validate``.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:  # typer does not export the class
        """Build the context of the command that the arguments ask for."""
        if args[:1] != ["validate"]:
            return super().make_context(info_name, args, parent, **extra)
        command = typer.main.get_command(validate_app)
        return command.make_context(f"{info_name} validate", args[1:], parent, **extra)


def judge(
    run: Annotated[
        str, typer.Argument(help="A run's name or its folder.", autocompletion=judge_words)
    ],
    judge: Annotated[
        str,
        typer.Option(
            metavar="FILE.yaml",
            help="A file with a judge's section, as in a run file's judges:, or the name of a "
            "judge that the run already has.",
        ),
    ],
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="USD",
            min=0,
            help="Most that the run may cost with this judge (default: the run's budget).",
        ),
    ] = None,
    retry: Annotated[
        str,
        typer.Option(
            metavar="OUTCOMES",
            help="Retry judgements with these outcomes, separated by commas: unparseable, refused, "
            "empty. Failed calls are always retried.",
        ),
    ] = "",
    gold: Annotated[
        bool,
        typer.Option(
            "--gold", help="Judge the task's reference answers instead of the run's answers."
        ),
    ] = False,
) -> None:
    """Score a run with another judge; run it again to judge only what is missing.

    Writes judgements.jsonl beside the attempts. The new scores are reported with the run's own and
    do not change what passed. Judgements of reference answers (--gold) are kept in the folder
    gold/, and 'harness show' compares the run with them. Exit codes: 0 finished, 1 calls failed,
    3 the budget is spent, 130 interrupted.

    'harness judge validate' measures how far a judge can be trusted; see its --help.
    """
    raise typer.Exit(judge_run(run, judge, budget=budget, golds=gold, retry=retry))


judge.command_class = JudgeCommand  # type: ignore[attr-defined]


def judge_run(
    name: str, judge: str, *, budget: float | None, golds: bool = False, retry: str = ""
) -> int:
    """Judge a run with a judge from a file, or with one that it already has.

    Args:
        name: The run's name or folder.
        judge: The file, or the judge's name in the run.
        budget: US dollars that the run may cost with this judge; None for the run's own budget.
        golds: Judge the task's reference answers instead of the run's answers.
        retry: Outcomes of judgements to retry, separated by commas.

    Returns:
        The exit code: 0 finished, 1 calls failed, 3 the budget is spent, 130 interrupted.
    """
    settings, retried = Settings(), _outcomes(retry)
    folder = find_run(settings.runs_dir, name)
    section = _section(folder, judge)
    job = (
        prepare_panel(folder, section, settings, references=golds)
        if isinstance(section, PanelSection)
        else prepare_judge(folder, section, settings, usd=budget, references=golds)
    )
    for judge_name, text in job.warnings():
        _say(f"{folder.name}: judge {judge_name}: {text}")
    words = ["harness", "judge", name, "--judge", judge, *(["--gold"] if golds else [])]
    words += [] if budget is None else ["--budget", str(budget)]
    again = shlex.join(words)
    with_retry = shlex.join([*words, "--retry", ",".join(retried)]) if retried else again
    begun = False

    @contextlib.contextmanager
    def watch(tally: Tally, stop: Stop, notices: Notices) -> Iterator[None]:
        nonlocal begun
        begun = True
        shown = display.watch(folder.name, tally, stop, notices)
        with interruptible(stop.request), shown:
            yield

    with Display({folder.name: folder.name}, messages) as display:
        try:
            judged = asyncio.run(judge_later(job, watch, retried))
        except (asyncio.CancelledError, KeyboardInterrupt):
            _say(f"Stopped. To continue: {with_retry}")
            return INTERRUPTED
        except HarnessError:
            if begun:
                _say(f"To continue: {with_retry}")
            raise
    output.print(terminal(run_document(judged.metrics)))
    what = "reference answers" if golds else "answers"
    return _conclude(judged, f"{job.name}: {judged.tally.finished:,} {what}", again, with_retry)


REDRAWN: tuple[JudgementOutcome, ...] = ("unparseable", "refused", "empty")
"""What ``--retry`` takes."""


def _outcomes(names: str) -> list[JudgementOutcome]:
    """Parse the outcomes of ``--retry``.

    Raises:
        ConfigError: An outcome does not exist.
    """
    named = [part.strip() for part in names.split(",") if part.strip()]
    for name in named:
        if name not in (*REDRAWN, "error"):
            raise ConfigError(f"--retry: there is no outcome {name!r}.", nearest(name, REDRAWN))
    return [outcome for outcome in REDRAWN if outcome in named]


def _section(folder: RunFolder, judge: str) -> JudgeSection | PanelSection:
    """Return the section of the named judge, from a file or from the run.

    Raises:
        ConfigError: The run has no such judge, or the file is not valid.
    """
    path = Path(judge)
    if path.suffix not in (".yaml", ".yml"):
        known = registered_section(folder, judge)
        if known is None:
            raise ConfigError(
                f"The run {folder.name!r} has no judge {judge!r}.", "Name its file (….yaml)."
            )
        return known
    try:
        return section_of(read(path, "judge", FORM))
    except ValueError as error:
        raise ConfigError(f"{path}: {error}.", FORM) from None


def _conclude(judged: JudgingEnd, what: str, again: str, with_retry: str) -> int:
    """Report how judging ended, and return the exit code.

    Args:
        judged: The result.
        what: What was judged, in the plural.
        again: The command that retries failed calls.
        with_retry: The command that continues, including ``--retry``. It differs from `again`
            because a judgement that failed while being retried now counts as a failed call.
    """
    _say(f"{what} judged in this session.")
    if judged.gone:
        _say(f"{judged.gone:,} were skipped: their instances are no longer in the data set.")
    if judged.waiting:
        _say(
            f"{judged.waiting:,} wait for judges of the panel that have not judged them. Run "
            "those judges first: harness judge RUN --judge NAME."
        )
    if judged.ended == "budget":
        budget = judged.tally.budget
        assert budget is not None
        _say(
            f"The budget of ${budget.usd:,.4f} cannot pay for the next call, which may cost "
            f"${budget.wanted:,.4f}: ${budget.spent:,.4f} is spent. Raise --budget. "
            f"Then, to continue: {with_retry}"
        )
        return BUDGET_SPENT
    if judged.ended == "interrupted":
        _say(f"Interrupted. To continue: {with_retry}")
        return INTERRUPTED
    if failed := judged.tally.failed_judgements:
        _say(f"{failed:,} judgements failed; the last error: {judged.tally.last_error}.")
        _say(f"To repeat them: {again}")
        return 1
    return int(judged.waiting > 0)


def _say(text: str) -> None:
    messages.print(inert_text(text), soft_wrap=True)
