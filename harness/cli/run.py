"""`harness run`: a run file's runs, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from rich.text import Text

from harness.assemble import Job, Rates, Result, execute, foresee_job, prepare
from harness.cli.console import messages, output
from harness.cli.interrupt import interruptible
from harness.cli.live import progress
from harness.cli.outlook import show_outlook
from harness.config.loading import load
from harness.config.settings import Settings, secret
from harness.errors import ConfigError, HarnessError, SecretMissing, nearest
from harness.middleware.notices import Notices
from harness.middleware.stopping import Stop
from harness.records import OUTCOMES, Outcome
from harness.report.tables import run_tables
from harness.report.transcript import inert_text
from harness.schedule.tally import Tally
from harness.store.run_folder import fresh_base, run_name

BUDGET_SPENT = 3
INTERRUPTED = 130

REDRAWN = [outcome for outcome in OUTCOMES if outcome != "ok"]
"""What ``--retry`` takes."""

T = TypeVar("T")


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
    """Run every variant of a file; returns the exit code.

    retry: outcomes whose attempts are made again, with commas between.

    0: all done. 1: done, but attempts failed. 3: the budget is spent. 130: interrupted.

    Raises: a `harness.errors.HarnessError`.
    """
    settings = Settings()
    runs = load(file, overrides, {} if limit is None else {"limit": limit})
    base = name or file.stem
    if fresh:
        base = fresh_base(settings.runs_dir, base, list(runs))
    missing: list[str] = []
    names = [run_name(base, variant) for variant in runs]
    rates, retried = Rates(), _outcomes(retry)
    jobs = [
        prepare(
            run,
            name,
            settings,
            secret=_without(missing) if dry_run else secret,
            rates=rates,
            retried=retried,
            sharing=names,
        )
        for name, run in zip(names, runs.values(), strict=True)
    ]
    if dry_run:
        for job in jobs:
            show_outlook(job, foresee_job(job), missing)
        return 0
    again = _again(file, overrides, limit, base, retry)
    code = 0
    for job in jobs:
        code = max(code, _run(job, again))
        if code in (INTERRUPTED, BUDGET_SPENT):
            break
    return code


def _outcomes(names: str) -> frozenset[Outcome]:
    """The outcomes that a user names.

    Raises: ConfigError.
    """
    found = set()
    for name in filter(None, (part.strip() for part in names.split(","))):
        outcome = "error" if name == "errors" else name
        if outcome not in REDRAWN:
            raise ConfigError(f"--retry: there is no outcome {name!r}.", nearest(name, REDRAWN))
        found.add(outcome)
    return frozenset(cast("set[Outcome]", found))


def _again(file: Path, overrides: Sequence[str], limit: int | None, name: str, retry: str) -> str:
    """The command that continues a run."""
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


def _run(job: Job, again: str) -> int:
    tallies: list[Tally] = []

    @contextlib.contextmanager
    def watch(tally: Tally, stop: Stop, notices: Notices) -> Iterator[None]:
        tallies.append(tally)
        shown = progress(job.folder.name, tally, stop, notices, messages)
        with interruptible(stop.request), shown:
            yield

    try:
        result: Result = _event_loop(execute(job, watch))
    except (asyncio.CancelledError, KeyboardInterrupt):
        messages.print(Text(f"Stopped. To continue: {again}"), soft_wrap=True)
        return INTERRUPTED
    except HarnessError:
        if tallies:  # work had begun
            messages.print(Text(f"To continue: {again}"), soft_wrap=True)
        raise
    output.print(run_tables(result.metrics))
    messages.print(Text(f"Results in {job.folder.path}"), soft_wrap=True)
    if result.ended == "interrupted":
        messages.print(Text(f"Interrupted. To continue: {again}"), soft_wrap=True)
        return INTERRUPTED
    if result.ended == "budget":
        messages.print(Text(f"{_spent(tallies[0])} Then, to continue: {again}"), soft_wrap=True)
        return BUDGET_SPENT
    failed = result.metrics.outcomes["error"]
    if failed:
        messages.print(Text(f"{failed:,} attempts failed:"), soft_wrap=True)
        for error, count in tallies[0].errors.most_common(5):
            messages.print(Text(f"  {count:,} x {inert_text(error).plain}"), soft_wrap=True)
        messages.print(Text(f"To try them again: {again}"), soft_wrap=True)
        return 1
    return 0


def _spent(tally: Tally) -> str:
    budget = tally.budget
    assert budget is not None
    unsure = f", ${budget.unsure:,.4f} of it for failed calls that may be billed"
    return (
        f"The budget of {_usd(budget.usd)} cannot pay for the next call, which may cost "
        f"${budget.wanted:,.4f}: ${budget.spent:,.4f} are spent{unsure if budget.unsure else ''}. "
        "Raise budget.usd."
    )


def _usd(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:,.4f}"


def _event_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, on uvloop where it is there."""
    try:
        from uvloop import new_event_loop
    except ImportError:  # not made for this platform
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


def _without(missing: list[str]) -> Callable[[str], str]:
    """Secrets for a dry run, which needs none: those that are not set are only noted."""

    def lookup(variable: str) -> str:
        try:
            return secret(variable)
        except SecretMissing:
            missing.append(variable)
            return ""

    return lookup
