"""`harness run`: execute the runs of a run file, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, cast

import typer
from rich.text import Text

from harness.analysis.metrics import Metrics
from harness.calls.signals import Notices, Stop
from harness.cli.completion import run_files
from harness.cli.console import messages, output
from harness.cli.interrupt import interruptible
from harness.cli.live import Display
from harness.config.loading import load
from harness.config.run_file import RunFile
from harness.config.settings import Settings, secret
from harness.errors import ConfigError, HarnessError, SecretMissing, nearest
from harness.ports import PromptChecked
from harness.records import OUTCOMES, Outcome
from harness.report.text import inert_text
from harness.run.job import FileVariant, Job, Result, execute, prepare
from harness.run.models import Resources
from harness.run.pool import Tally
from harness.store.run_folder import fresh_base, run_name

BUDGET_SPENT = 3
INTERRUPTED = 130

REDRAWN = [outcome for outcome in OUTCOMES if outcome != "ok"]
"""What ``--retry`` takes."""

_MOST_NAMED = 6
"""Most runs named in a suggested command."""

T = TypeVar("T")


def run(
    file: Annotated[Path, typer.Argument(help="The run file (YAML).", autocompletion=run_files)],
    option: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--override",
            metavar="KEY=VALUE",
            help="Set a key, such as model.name; repeatable.",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Run at most N instances, round-robin over groups."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The run's name (default: the file's).")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start a new run beside an earlier one of this name.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the plan and estimated cost without running."),
    ] = False,
    retry: Annotated[
        str,
        typer.Option(
            metavar="OUTCOMES",
            help="Retry attempts with these outcomes, separated by commas: truncated, refused, "
            "empty, unparseable. Failed calls (error) are always retried.",
        ),
    ] = "",
) -> None:
    """Run a run file, or continue it where it was interrupted.

    Exit codes: 0 finished, 1 failed or some attempts failed, 3 the budget is spent, 130
    interrupted.
    """
    raise typer.Exit(
        run_file(file, option or [], limit, name, fresh=fresh, dry_run=dry_run, retry=retry)
    )


def run_file(
    file: Path,
    overrides: Sequence[str],
    limit: int | None,
    name: str | None,
    *,
    fresh: bool,
    dry_run: bool,
    retry: str = "",
) -> int:
    """Run every variant of a file.

    Args:
        file: The run file.
        overrides: Keys to set, as KEY=VALUE.
        limit: Most instances; None for all.
        name: The run's name; empty for the file's.
        fresh: Start a new run beside an earlier one of this name.
        dry_run: Print the plan without running.
        retry: Outcomes of attempts to retry, separated by commas.

    Returns:
        The exit code: 0 finished, 1 some attempts failed, 3 the budget is spent, 130 interrupted.
    """
    settings = Settings()
    runs = load(file, overrides, {} if limit is None else {"limit": limit})
    base = name or file.stem
    if fresh:
        base = fresh_base(settings.runs_dir, base, list(runs))
    missing: list[str] = []
    with Resources(settings, _without(missing) if dry_run else secret) as resources:
        jobs = _prepared(runs, base, resources, _outcomes(retry))
        _warn_of_prompts(jobs)
        if dry_run:
            from harness.cli.outlook import show_dry_runs

            show_dry_runs(jobs, missing)
            return 0
        return _run_all(jobs, base, _again(file, overrides, limit, base, retry))


def _prepared(
    runs: Mapping[str, RunFile], base: str, resources: Resources, retried: frozenset[Outcome]
) -> list[Job]:
    """Prepare and check the variants of a file."""
    names = [run_name(base, variant) for variant in runs]
    jobs = []
    for name, (variant, run) in zip(names, runs.items(), strict=True):
        with _of(variant):
            jobs.append(
                prepare(
                    run,
                    name,
                    resources.settings,
                    resources=resources,
                    retried=retried,
                    variant=FileVariant(variant, names),
                )
            )
    return jobs


def _run_all(jobs: Sequence[Job], base: str, again: str) -> int:
    """Run the jobs one after the other, and return the exit code.

    Args:
        jobs: A job for each variant.
        base: The run file's name.
        again: The command to continue.
    """
    names = [job.folder.name for job in jobs]
    variants = [job.variant.name for job in jobs]
    results: dict[str, Metrics] = {}
    code = 0
    try:
        with Display(dict(zip(names, variants, strict=True)), messages) as display:
            for variant, job in zip(variants, jobs, strict=True):
                ended = _run(job, again, display)
                if ended.result is not None:
                    results[variant] = ended.result.metrics
                code = max(code, ended.code)
                last = job is jobs[-1]
                if ended.stopped and not last and code not in (INTERRUPTED, BUDGET_SPENT):
                    messages.print(Text(f"Interrupted. To continue: {again}"), soft_wrap=True)
                    code = INTERRUPTED
                if code in (INTERRUPTED, BUDGET_SPENT):
                    break
    except KeyboardInterrupt:  # between two runs
        messages.print(Text(f"Stopped. To continue: {again}"), soft_wrap=True)
        code = INTERRUPTED
    finally:  # below the display, not inside it
        _show(results, jobs, base)
    if len(results) == len(jobs) > 1 and code != INTERRUPTED:
        _compare(names, base)
    return code


def _warn_of_prompts(jobs: Sequence[Job]) -> None:
    """Warn where a prompt does not ask for what its parser reads, before anything is paid for."""
    tasks = [job.task for job in jobs if isinstance(job.task, PromptChecked)]
    if not tasks:
        return
    from harness.scoring.prompt_check import check_prompt

    faults = dict.fromkeys(fault for task in tasks for fault in check_prompt(task))
    for fault in faults:
        said = Text("The prompt and its parser: ", style="yellow").append_text(inert_text(fault))
        messages.print(said, soft_wrap=True)


def _show(results: Mapping[str, Metrics], jobs: Sequence[Job], base: str) -> None:
    """Print the tables of a run; for several runs, one row each."""
    if not results:
        return
    # Not needed before the first call.
    from harness.report.run_tables import run_document
    from harness.report.runs import runs_table
    from harness.report.terminal import terminal

    if len(jobs) == 1:
        output.print(terminal(run_document(*results.values())))
        messages.print(Text(f"Results in {jobs[0].folder.path}"), soft_wrap=True)
        return
    output.print(terminal(runs_table(results)))
    first = jobs[0].folder.name
    line = f"Results in {jobs[0].settings.runs_dir}; all of one: harness show {first}"
    messages.print(Text(line), soft_wrap=True)


def _compare(names: Sequence[str], base: str) -> None:
    """Compare the runs with the first, if they are comparable."""
    from harness.cli.compare import compared
    from harness.report.comparison import comparison_document
    from harness.report.terminal import terminal

    more = f"harness compare {shlex.join(names)}"
    try:
        found = compared(names)
    except HarnessError as error:
        messages.print(Text(f"Not compared: {error.message}"), soft_wrap=True)
        more = ""
    else:
        output.print()
        output.print(terminal(comparison_document(found, brief=True)))
    if len(names) > _MOST_NAMED:
        more = ""
    gains = f"To compare by the groups of a label: harness ablation {base}"
    for line in filter(None, (more and f"More: {more}", gains)):
        messages.print(Text(line), soft_wrap=True)


@contextlib.contextmanager
def _of(variant: str) -> Iterator[None]:
    """Name the variant in errors of its run file."""
    try:
        yield
    except ConfigError as error:
        if not variant:
            raise
        raise ConfigError(f"Variant {variant!r}: {error.message}", error.remedy) from None


def _outcomes(names: str) -> frozenset[Outcome]:
    """Parse the outcomes of ``--retry``.

    Raises:
        ConfigError: An outcome does not exist.
    """
    found = set()
    for name in filter(None, (part.strip() for part in names.split(","))):
        outcome = "error" if name == "errors" else name
        if outcome not in REDRAWN:
            raise ConfigError(f"--retry: there is no outcome {name!r}.", nearest(name, REDRAWN))
        found.add(outcome)
    return frozenset(cast("set[Outcome]", found))


def _again(file: Path, overrides: Sequence[str], limit: int | None, name: str, retry: str) -> str:
    """Return the command that continues a run."""
    words = ["harness", "run", str(file)]
    for text in overrides:
        words += ["-o", text]
    if limit is not None:
        words += ["--limit", str(limit)]
    if name != file.stem:
        words += ["--name", name]
    if retry:
        words += ["--retry", retry]
    return shlex.join(words)


class _Ended(NamedTuple):
    """How a run ended.

    Attributes:
        result: None if it was stopped immediately.
        stopped: Whether the user stopped it, even if nothing was left to do.
    """

    code: int
    result: Result | None = None
    stopped: bool = False


class _Progress:
    """Shows a run's progress; records whether work has begun and whether the user stopped it."""

    def __init__(self, display: Display, name: str) -> None:
        self._display, self._name = display, name
        self.begun = self.ended = False

    @contextlib.contextmanager
    def __call__(self, tally: Tally, stop: Stop, notices: Notices) -> Iterator[None]:
        self.begun = True

        def end() -> None:
            self.ended = True
            stop.request()

        with interruptible(end), self._display.watch(self._name, tally, stop, notices):
            yield


def _run(job: Job, again: str, display: Display) -> _Ended:
    progress = _Progress(display, job.folder.name)

    def say(text: str) -> None:
        messages.print(Text(text), soft_wrap=True)

    try:
        result: Result = _event_loop(execute(job, progress))
    except (asyncio.CancelledError, KeyboardInterrupt):
        say(f"Stopped. To continue: {again}")
        return _Ended(INTERRUPTED)
    except HarnessError:
        if progress.begun:
            say(f"To continue: {again}")
        raise
    if result.ended == "interrupted":
        say(f"Interrupted. To continue: {again}")
        return _Ended(INTERRUPTED, result)
    if result.ended == "budget":
        say(f"{_spent(result.tally)} Then, to continue: {again}")
        return _Ended(BUDGET_SPENT, result)
    failed = result.metrics.outcomes["error"]
    if failed:
        say(f"{job.folder.name}: {failed:,} attempts failed:")
        for error, count in result.tally.errors.most_common(5):
            say(f"  {count:,} x {inert_text(error).plain}")
        say(f"To retry them: {again}")
        return _Ended(1, result, progress.ended)
    if result.tally.failed_judgements:  # the run's notice reported it
        say(f"To retry the failed judgements: {again}")
    return _Ended(int(bool(result.tally.failed_judgements)), result, progress.ended)


def _spent(tally: Tally) -> str:
    budget = tally.budget
    assert budget is not None
    unsure = f", ${budget.unsure:,.4f} of it for failed calls that may be billed"
    return (
        f"The budget of {_usd(budget.usd)} cannot pay for the next call, which may cost "
        f"${budget.wanted:,.4f}: ${budget.spent:,.4f} is spent{unsure if budget.unsure else ''}. "
        "Raise budget.usd."
    )


def _usd(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:,.4f}"


def _event_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to the end, on uvloop if it is installed."""
    try:
        from uvloop import new_event_loop
    except ImportError:  # not available on this platform
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


def _without(missing: list[str]) -> Callable[[str], str]:
    """Return a secret look-up for a dry run, which needs none: missing ones are only noted."""

    def lookup(variable: str) -> str:
        try:
            return secret(variable)
        except SecretMissing:
            if variable not in missing:
                missing.append(variable)
            return ""

    return lookup
