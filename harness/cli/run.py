"""`harness run`: execute the runs of a run file, one after another.

Other commands that call models end as it does: with its exit codes, and what to do next.
"""

import asyncio
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import typer

from harness.analysis.metrics import Metrics
from harness.calls.budget import Budget
from harness.cli.options import Limit, Overrides, parse_outcomes
from harness.cli.verbs import next_steps, run_files
from harness.config.run_file import RunFile
from harness.config.settings import Settings, read_secret
from harness.declarations import load_members
from harness.engine.executor import Execution, SessionResult, execute_all
from harness.engine.infrastructure import set_copies_aside
from harness.engine.job import Confirm, Job, ShowPlans
from harness.engine.models import Resources, ignored_url_warnings
from harness.engine.preparation import prepare_all, prepare_data
from harness.engine.progress import OTHER_ERRORS, Ending, Tally
from harness.engine.run_files import read_runs
from harness.errors import HarnessError, RunConflict, SecretMissing
from harness.plugin_loader import Kind
from harness.records import OUTCOMES, Outcome
from harness.report.text import format_usd
from harness.store.judgements import read_register
from harness.store.run_folder import RunFolder
from harness.store.runs import move_runs_aside, run_name, shard_base_name, unused_base
from harness.terminal.console import output, say, show
from harness.terminal.display import Display, format_exact_usd
from harness.wording import format_count, join_first


def run(
    file: Annotated[str, typer.Argument(autocompletion=run_files)],
    model: Annotated[str, typer.Option("-m", "--model", metavar="MODEL")] = "",
    option: Overrides = None,
    limit: Limit = None,
    shard: Annotated[str, typer.Option(metavar="N/COUNT")] = "",
    name: str | None = None,
    fresh: bool = False,
    rescore: bool = False,
    batch: bool = False,
    detach: bool = False,
    dry_run: bool = False,
    retry: Annotated[str, typer.Option(metavar="OUTCOMES")] = "",
    yes: bool = False,
) -> None:
    """Run a run file, or continue it where it was interrupted.

    Exit codes: 0 finished, 1 failed, some calls failed, or half of the samples have no verdict, 3
    the budget is spent, 4 detached, 130 interrupted.

    Args:
        file: A run file (YAML), or the name of one that 'harness configs' lists.
        model: Use this model: BACKEND/NAME or PRESET/NAME, such as openai/gpt-4o-mini.
        option: Set a key, such as model.name; repeatable.
        limit: Run at most N instances, round-robin over groups.
        shard: Work on one of COUNT disjoint parts of the run, such as 3/16; see 'harness merge'.
        name: The run's name (default: the file's name; with --model, also the model's).
        fresh: Start a new run, and keep the earlier one of this name as NAME-DATE.
        rescore: If only the checks or their data have changed, score the recorded answers again.
        batch: Make the calls in the provider's batches: cheaper, but they may take a day.
        detach: Like --batch, but end when all calls are in batches; repeat the command to continue.
        dry_run: Print the plan and estimated cost without running.
        retry: Retry attempts with these outcomes, separated by commas: truncated, refused, empty,
            unparseable, crashed. Failed calls (error) are always retried. A finish reason, as in
            the run's attempts, may be named too.
        yes: Do not ask before a run that may cost more than HARNESS_ASK_ABOVE_USD.
    """
    settings = Settings()
    changes = {"shard": shard} if shard else {}
    base, runs = read_runs(file, model=model, overrides=option or [], further=changes, limit=limit)
    base = name or base
    if shard and (parsed_shard := next(iter(runs.values())).parsed_shard):
        base = shard_base_name(base, parsed_shard)
    if batch or detach:
        runs = {variant: run.with_batches(detach=detach) for variant, run in runs.items()}
    retryable: list[str] = [*OUTCOMES[1:]]  # all but ok
    if retry:
        folders = [RunFolder(settings.runs_dir, run_name(base, variant)) for variant in runs]
        retryable += sorted(_finish_reasons(folders).difference(OUTCOMES))
    options = ExecutionOptions(
        dry_run=dry_run,
        retried=parse_outcomes(retry, retryable),
        yes=yes,
        rescore=rescore,
        fresh=fresh,
    )
    carry_out(runs, base, resume_command(), settings, options)


def _finish_reasons(folders: Iterable[RunFolder]) -> set[str]:
    """Return the finish reasons of the runs' attempts."""
    from harness.store.index import AttemptIndex  # NumPy takes 0.2 s to import

    reasons = set[str]()
    for folder in folders:
        if folder.has_attempts():
            reasons |= AttemptIndex(folder.attempts, judges=False).finish_reasons()
    return reasons


def resume_command() -> str:
    """Return this process's command line without options for the first session only."""
    words = [word for word in sys.argv[1:] if word not in ("--fresh", "--rescore")]
    return shlex.join(["harness", *words])


class ExecutionOptions(NamedTuple):
    """How runs are executed."""

    dry_run: bool = False  # only show the plans
    retried: Collection[str] = ()  # outcomes or finish reasons to retry
    yes: bool = False  # do not ask for confirmation
    rescore: bool = False  # if only the scoring has changed, score the recorded answers again
    fresh: bool = False  # start new runs, and keep the earlier ones under a dated name
    table: bool = False  # show the results in one table of models and benchmarks


def carry_out(
    runs: Mapping[str, RunFile],
    base: str,
    command: str,
    settings: Settings,
    options: ExecutionOptions,
    on_start: Callable[[], None] = lambda: None,
) -> None:
    """Check and execute runs or, in a dry run, show their plans.

    Args:
        runs: The runs by variant.
        base: The base of their names.
        command: The command that resumes them.
        settings: The settings.
        options: How to execute them.
        on_start: Called once the runs are checked and confirmed.

    Raises:
        typer.Exit: At the end, with the exit code.
    """
    missing_secrets: list[str] = []
    folders = [RunFolder(settings.runs_dir, run_name(base, variant)) for variant in runs]
    are_finished = not options.fresh and all(folder.count_unfinished() == 0 for folder in folders)
    lookup = read_secret
    if options.dry_run or are_finished:
        lookup = partial(_find_secret, missing_secrets)
    with Resources(settings, lookup) as resources:
        prepare_runs = partial(
            prepare_all, runs, resources=resources, retried=options.retried, extends=options.table
        )
        root = settings.runs_dir
        if options.dry_run:
            _show_plans(prepare_runs, runs, base, options, root, missing_secrets)
            return
        with move_runs_aside(root, base, runs) if options.fresh else nullcontext("") as earlier:
            if options.fresh:
                set_copies_aside(settings, base, runs)
            prepare_data(runs, base, resources)
            jobs = list(prepare_runs(base, rescore=options.rescore).values())
            if missing_secrets and any(job.has_calls_left() for job in jobs):
                read_secret(missing_secrets[0])
            _print_warnings(jobs)
            confirm: Confirm
            for confirm in load_members("run_steps", "confirm"):
                confirm(jobs, settings, options.yes)
            on_start()
        if earlier:
            say(f"The earlier run is kept as {earlier}.")
        raise typer.Exit(_run_all(jobs, base, command, table=options.table))


def _show_plans(
    prepare_runs: Callable[..., dict[str, Job]],
    runs: Mapping[str, RunFile],
    base: str,
    options: ExecutionOptions,
    root: Path,
    missing_secrets: list[str],
) -> None:
    """Show the plans of runs, as new ones if the existing ones cannot continue."""
    show_plans: ShowPlans = Kind("run_steps").load("dry_run")
    by_variant: dict[str, Job] = {}
    if not options.fresh:
        try:
            by_variant = prepare_runs(base, rescore=options.rescore)
        except RunConflict as conflict:
            say(f"{conflict} This is the plan of a new run.", "yellow")
    by_variant = by_variant or prepare_runs(unused_base(root, base, ["", *runs]))
    jobs = list(by_variant.values())
    _print_warnings(jobs)
    show_plans(jobs, missing_secrets, base)


def _print_warnings(jobs: Sequence[Job]) -> None:
    """Warn about ignored base URLs, repeated samples, and unsuitable prompts and checks."""
    warnings = [warning for job in jobs for warning in ignored_url_warnings(job.models)]
    for warning in dict.fromkeys(warnings):
        say(warning, "yellow")
    greedy = [job for job in jobs if job.repeats_samples]
    if greedy:
        names = ", ".join(job.folder.name for job in greedy)
        k = max(job.run.samples for job in greedy)
        say(
            f"{names}: samples: {k:,} at temperature 0. A model then gives (nearly) the same "
            f"answer each time: further samples cost calls, but are no further tries, and pass@{k} "
            "is no measure of asking again. Set decoding.temperature above 0.",
            "yellow",
        )
    prompt_errors = [error for job in jobs for error in job.task.prompt_errors()]
    for error in dict.fromkeys(prompt_errors):
        say(f"Check the task: {error}", "yellow")


DETACHED = 4  # exit code of a run that has left while its batches are at work


def _run_all(jobs: Sequence[Job], base: str, command: str, *, table: bool) -> int:
    """Execute runs, show their results, and return the exit code.

    Args:
        jobs: The runs.
        base: The base of their names.
        command: The command that resumes them.
        table: Whether to show the results in one table of models and benchmarks.
    """
    results: dict[str, Metrics] = {}
    failed: list[str] = []
    code = 0

    async def work(display: Display) -> None:
        nonlocal code
        async for execution in execute_all(jobs, display.watch, lambda: display.interrupted):
            if execution.result is None:
                failed.append(execution.job.folder.name)
                say(f"{failed[-1]} failed: {execution.error}", "red")
                code = max(code, 1)
            else:
                results[execution.job.variant.name] = execution.result.metrics
                code = max(code, _print_ending(execution, execution.result, command, display))
        not_run = [job.folder.name for job in jobs[len(results) + len(failed) :]]
        if display.interrupted and code <= 1 and not_run:
            say(f"Interrupted. To continue: {command}")
            code = INTERRUPTED
        if code in (BUDGET_SPENT, INTERRUPTED) and not_run:
            say(f"Not run: {join_first(not_run, 20)}.")

    try:
        with Display({job.folder.name: job.variant.name for job in jobs}) as display:
            run_with_display(work(display), display, command)
    finally:  # printed below the display
        has_attempts = any(metrics.n_attempts for metrics in results.values())
        if results and (code != DETACHED or has_attempts):
            is_complete = len(results) == len(jobs) and code not in (INTERRUPTED, DETACHED)
            _show_results(jobs, results, base, is_complete=is_complete, table=table)
    if failed:
        count = f"{len(failed):,} of {len(jobs):,} runs failed"
        say(f"{count}: {', '.join(failed)}. To continue only the unfinished runs: {command}")
    return code


def _print_ending(
    execution: Execution, result: SessionResult, command: str, display: Display
) -> int:
    """Print what a user should know about a run's end, and return its exit code."""
    job = execution.job
    name = job.folder.name
    tally = result.tally
    metrics = result.metrics
    _print_cache_savings(job)
    for caution in metrics.cautions:
        has_missing_target = caution == metrics.unanswerable and job.run.task.name == "jsonl"
        hint = " A row's target or gold is one (harness docs jsonl)." * has_missing_target
        say(f"{name}: {caution}{hint}")
    if execution.is_detached and not display.interrupted:
        verb = "1 sample waits" if tally.unfinished == 1 else f"{tally.unfinished:,} samples wait"
        say(f"{name}: {verb} for batches, which may take a day.")
        say(f"To see if they have ended, and to continue: {command}")
        return DETACHED
    if code := print_early_end(result.ending, tally.budget, "budget.usd", command):
        return code
    _print_unread_answers(job, metrics)
    print_verdictless(name, tally, "and run again with --fresh.")
    _print_crashes(name, metrics, tally, command)
    n_failed = metrics.outcomes["error"]
    if n_failed:
        say(f"{name}: {format_count(n_failed, 'attempt')} failed:")
        _print_errors(tally, "error")
        say(f"To retry them: {command}")
    elif tally.failed_judgements:  # the run's notice reported them
        say(f"To retry the failed judgements: {command}")
    elif tally.expected == 0 and job.is_application and not job.rescore:
        change = "change model.version and " if job.model.caching == "shared" else ""
        say(
            f"{name}: nothing was asked, because all answers of your application are recorded. If "
            f"it, or a file that it reads, has changed, {change}ask again: {command} --fresh"
        )
    if n_failed or tally.failed_judgements:
        return 1
    if job.folder.progress()[0] and not metrics.complete:  # the metrics' warning reported it
        return 1
    if _is_mostly_undecided(job, metrics):
        _print_undecided(name, metrics)
        return 1
    return 0


def _print_unread_answers(job: Job, metrics: Metrics) -> None:
    """Warn if many answers could not be parsed, or were truncated."""
    name = job.folder.name
    n_attempts = metrics.n_attempts
    n_unparseable = metrics.outcomes["unparseable"]
    if 0 < n_attempts <= WARN_FROM_ONE_IN * n_unparseable:
        problem = f"{n_unparseable:,} of {n_attempts:,} answers could not be parsed"
        if n_unparseable == n_attempts:
            problem = "No answer could be parsed"
        reading = next_steps(f" To read them: harness show {name} --failed")
        say(f"{name}: {problem}.{reading}", "yellow")
        task_settings = str((job.run.task.options, next(iter(job.instances)).data))
        if "json_schema" in task_settings:
            # Not needed before the last call.
            from harness.analysis.failures import fence_hint
            from harness.store.index import AttemptIndex

            if hint := fence_hint(AttemptIndex(job.folder.attempts), task_settings):
                say(hint)
    n_truncated = metrics.outcomes["truncated"]
    if 0 < n_attempts <= WARN_FROM_ONE_IN * n_truncated:
        share = f"{n_truncated:,} of {n_attempts:,} answers"
        say(f"{name}: {share} reached the token limit: see decoding.max_tokens.", "yellow")


def _print_crashes(name: str, metrics: Metrics, tally: Tally, command: str) -> None:
    n_crashed = metrics.outcomes.get("crashed", 0)
    if not n_crashed:
        return
    share = f"{n_crashed:,} of {metrics.n_attempts:,} attempts"
    say(f"{name}: {share} crashed: they count as failed.", "yellow")
    _print_errors(tally, "crashed")
    retry = command if "--retry" in command else f"{command} --retry crashed"
    reading = next_steps(f"To read them: harness show {name} --failed. ")
    say(f"{reading}To try them again: {retry}")


def _is_mostly_undecided(job: Job, metrics: Metrics) -> bool:
    """Return whether deciding judges gave no verdict on half of the samples."""
    n_missing = metrics.overall.missing
    if not n_missing or 2 * n_missing < metrics.n_samples:
        return False
    return bool(read_register(job.folder.path).deciding)


def _print_undecided(name: str, metrics: Metrics) -> None:
    counts = f"{metrics.overall.missing:,} of {metrics.n_samples:,} samples have no verdict"
    coverage = ": the pass rate covers only the others" if metrics.overall.n else ""
    say(f"{name}: {counts}{coverage}.", "yellow")


def _print_errors(tally: Tally, outcome: Outcome) -> None:
    """Print the session's most frequent errors of attempts with an outcome."""
    counts = Counter({error: n for (kind, error), n in tally.errors.items() if kind == outcome})
    top_errors = [(error, n) for error, n in counts.most_common() if error != OTHER_ERRORS][:5]
    for error, n in top_errors:
        say(f"  {n:,} x {error}")
    if n_others := counts.total() - sum(n for _, n in top_errors):
        say(f"  and {n_others:,} with other errors")


def _print_cache_savings(job: Job) -> None:
    """Print how much the prompt caches of the run's models saved."""
    for model in {id(model): model for model in job.models}.values():
        usage = model.prefixes.usage
        if not (usage.cached_input_tokens or usage.cache_write_tokens):
            continue
        saved_usd = model.prefixes.saved_usd
        savings = ""
        if model.price:
            savings = f" saved {format_usd(saved_usd)}"
            if saved_usd < 0:
                savings = f" cost {format_usd(-saved_usd)} more"
        say(
            f"{job.folder.name}: The prompt cache of {model.section.name}{savings}: "
            f"{usage.cached_input_tokens:,} tokens read, {usage.cache_write_tokens:,} written."
        )


def _show_results(
    jobs: Sequence[Job],
    results: Mapping[str, Metrics],
    base: str,
    *,
    is_complete: bool,
    table: bool,
) -> None:
    # Not needed before the first call.
    from harness.report.run_tables import run_summary
    from harness.report.runs import runs_table, suite_document

    first = next(job for job in jobs if job.variant.name in results)
    if len(jobs) == 1:
        show(run_summary(*results.values()))
        all_tables = f"in full: harness show {first.folder.name}"
        say(next_steps(f"Results in {first.folder.path}", all_tables))
        return
    as_suite = table or len({job.run.task.label for job in jobs}) > 1
    if as_suite:
        folders = [job.folder for job in jobs if job.variant.name in results]
        show(suite_document(folders, brief=not is_complete))
    else:
        show(runs_table(results))
    in_full = f"one in full: harness show {first.folder.name}"
    say(next_steps(f"Results in {first.settings.runs_dir}", in_full))
    if is_complete and as_suite:
        table_command = f"The table again: harness table {base} --intervals"
        _print_next_steps(table_command, f"every pair tested: harness matrix {base}")
    elif is_complete:
        _show_comparison([job.folder for job in jobs], results.values(), base)


def _show_comparison(folders: Sequence[RunFolder], results: Iterable[Metrics], base: str) -> None:
    from harness.report.runs import variants_document  # not needed before the first call

    try:
        document = variants_document(folders)
    except HarnessError as error:
        say(f"Not compared: {error.message}")
    else:
        if document is not None:
            output.print()
            show(document)
            details = f"For details: harness compare {base}"
            _print_next_steps(details, f"for a page to share: harness report {base}")
    common_groups = set.intersection(*({*metrics.groups} for metrics in results))
    by_group = [f"by group: harness ablation {base}"] if common_groups else []
    _print_next_steps(f"The answers: harness show {base} --side-by-side", *by_group)


def _print_next_steps(*hints: str) -> None:
    if steps := next_steps(*hints):
        say(steps)


def _find_secret(missing: list[str], variable: str) -> str:
    """Return a secret. If it is not set, return "", and add its variable to ``missing``."""
    try:
        return read_secret(variable)
    except SecretMissing:
        missing.append(variable)
        return ""


T = TypeVar("T")

BUDGET_SPENT = 3  # exit code
INTERRUPTED = 130  # exit code after Ctrl-C
WARN_FROM_ONE_IN = 10  # there is a warning if one in this many answers or judgements has a problem
REASONING_ADVICE = "for a reasoning model, such as 2000, and votes: 5 in yes_no"


def run_with_display(work: Coroutine[Any, Any, T], display: Display, command: str) -> T:
    """Do a command's work in an event loop, and return its result.

    Args:
        work: The work.
        display: Its progress display.
        command: The command that resumes the work. It is printed if the work is interrupted, or
            fails after a run has begun.

    Raises:
        typer.Exit: With the exit code 130, if the work is interrupted.
    """
    try:
        from uvloop import new_event_loop
    except ImportError:  # not available on this platform
        new_event_loop = None  # type: ignore[assignment]
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(work)
    except (asyncio.CancelledError, KeyboardInterrupt):
        say(f"Stopped. To continue: {command}")
        raise typer.Exit(INTERRUPTED) from None
    except HarnessError:
        if display.tallies:
            say(f"To continue: {command}")
        raise


def print_early_end(ended: Ending, budget: Budget | None, key: str, command: str) -> int:
    """If a session ended early, print why and how to continue. Return the exit code, or 0.

    Args:
        ended: How the session ended.
        budget: Its budget, if it has one.
        key: The key or option that sets the budget, for the message.
        command: The command that resumes the session.
    """
    if ended == "budget" and budget is not None:
        uncosted = "calls without a recorded cost (failed, cut off, uncounted or of a deleted run)"
        unsure = f", {format_exact_usd(budget.unsure_usd)} of it for {uncosted}"
        spent = (
            f"{format_exact_usd(budget.spent_usd)} is spent{unsure if budget.unsure_usd else ''}"
        )
        call = f"the next call, which may cost {format_exact_usd(budget.unmet_usd)}"
        say(f"The budget of {format_usd(budget.usd)} cannot pay for {call}: {spent}. Raise {key}.")
        new_command = re.sub(r"(budget\.usd=|--budget[ =])\S+", r"\1…", command)
        say(f"Then, to continue: {new_command}")
        return BUDGET_SPENT
    if ended == "interrupted":
        say(f"Interrupted. To continue: {command}")
        return INTERRUPTED
    return 0


def print_verdictless(run: str, tally: Tally, remedy: str) -> None:
    """Print which judges often give no verdict, and which panels often pass on a split vote.

    Args:
        run: The run's name.
        tally: The counts of its judgements.
        remedy: The end of the advice to set higher limits.
    """
    for panel, n in tally.split_passes.items():
        total = tally.judgements[panel]
        if n and n * WARN_FROM_ONE_IN >= total:
            share = f"{n:,} of {total:,} judgements pass what its judges are split on"
            say(f"{run}: panel {panel}: {share}. Set a higher passes_from to fail it.", "yellow")
    for (judge, outcome), n in tally.verdictless.items():
        total = tally.judgements[judge]
        if n * WARN_FROM_ONE_IN < total:
            continue
        reason = tally.reasons[judge, outcome]
        share = f"{n:,} of {total:,} judgements are {outcome} and have no verdict"
        say(f"{run}: judge {judge}: {share}. {reason}".rstrip(), "yellow")
        if outcome == "empty" and reason:
            say(f"Set the judge's max_tokens higher ({REASONING_ADVICE}), {remedy}")
