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
from typing import Annotated, Any, NamedTuple, TypeVar

import typer

from harness.analysis.metrics import Metrics
from harness.calls.budget import Budget
from harness.cli.options import Limit, Overrides, outcomes
from harness.cli.verbs import next_steps, run_files
from harness.config.run_file import RunFile
from harness.config.settings import Settings, read_secret
from harness.declarations import load_members
from harness.engine.executor import Execution, Result, execute_all
from harness.engine.infrastructure import set_copies_aside
from harness.engine.job import Confirm, Job, ShowPlans
from harness.engine.models import Resources, ignored_urls
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
    if shard and (part := next(iter(runs.values())).parsed_shard):
        base = shard_base_name(base, part)
    if batch or detach:
        runs = {variant: run.with_batches(detach=detach) for variant, run in runs.items()}
    names: list[str] = [*OUTCOMES[1:]]  # all but ok
    if retry:
        folders = [RunFolder(settings.runs_dir, run_name(base, variant)) for variant in runs]
        names += sorted(_finish_reasons(folders).difference(OUTCOMES))
    options = ExecutionOptions(
        dry_run=dry_run, retried=outcomes(retry, names), yes=yes, rescore=rescore, fresh=fresh
    )
    carry_out(runs, base, repeated_command(), settings, options)


def _finish_reasons(folders: Iterable[RunFolder]) -> set[str]:
    """Return the finish reasons of the runs' attempts."""
    from harness.store.index import AttemptIndex  # NumPy takes 0.2 s to import

    reasons = set[str]()
    for folder in folders:
        if folder.has_attempts():
            reasons |= AttemptIndex(folder.attempts, judges=False).finish_reasons()
    return reasons


def repeated_command() -> str:
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
    begin: Callable[[], None] = lambda: None,
) -> None:
    """Check and execute the runs or, in a dry run, show their plans."""
    missing: list[str] = []
    folders = [RunFolder(settings.runs_dir, run_name(base, variant)) for variant in runs]
    finished = not options.fresh and all(folder.count_unfinished() == 0 for folder in folders)
    lookup = _collecting(missing) if options.dry_run or finished else read_secret
    with Resources(settings, lookup) as resources:
        prepared = partial(
            prepare_all, runs, resources=resources, retried=options.retried, extends=options.table
        )
        root = settings.runs_dir
        if options.dry_run:
            show_plans: ShowPlans = Kind("run_steps").load("dry_run")
            by_variant: dict[str, Job] = {}
            if not options.fresh:
                try:
                    by_variant = prepared(base, rescore=options.rescore)
                except RunConflict as conflict:
                    say(f"{conflict} This is the plan of a new run.", "yellow")
            by_variant = by_variant or prepared(unused_base(root, base, ["", *runs]))
            jobs = list(by_variant.values())
            _say_warnings(jobs)
            show_plans(jobs, missing, base)
            return
        with move_runs_aside(root, base, runs) if options.fresh else nullcontext("") as earlier:
            if options.fresh:
                set_copies_aside(settings, base, runs)
            prepare_data(runs, base, resources)
            jobs = list(prepared(base, rescore=options.rescore).values())
            if missing and any(job.has_calls_left() for job in jobs):
                read_secret(missing[0])
            _say_warnings(jobs)
            confirm: Confirm
            for confirm in load_members("run_steps", "confirm"):
                confirm(jobs, settings, options.yes)
            begin()
        if earlier:
            say(f"The earlier run is kept as {earlier}.")
        raise typer.Exit(_run_all(jobs, base, command, options.table))


def _say_warnings(jobs: Iterable[Job]) -> None:
    """Warn about ignored base URLs, repeated samples, and unsuitable prompts and checks."""
    jobs = list(jobs)
    warnings = [warning for job in jobs for warning in ignored_urls(job.models)]
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
    faults = [fault for job in jobs for fault in job.task.prompt_errors()]
    for fault in dict.fromkeys(faults):
        say(f"Check the task: {fault}", "yellow")


DETACHED = 4  # exit code of a run that has left while its batches are at work


def _run_all(jobs: Sequence[Job], base: str, command: str, table: bool) -> int:
    """Execute the jobs, which ``command`` resumes, and return the exit code."""
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
                code = max(code, _say_ended(execution, execution.result, command, display))
        not_run = [job.folder.name for job in jobs[len(results) + len(failed) :]]
        if display.interrupted and code <= 1 and not_run:
            say(f"Interrupted. To continue: {command}")
            code = INTERRUPTED
        if code in (BUDGET_SPENT, INTERRUPTED) and not_run:
            say(f"Not run: {join_first(not_run, 20)}.")

    try:
        with Display({job.folder.name: job.variant.name for job in jobs}) as display:
            attended(work(display), display, command)
    finally:  # printed below the display
        has_attempts = any(metrics.n_attempts for metrics in results.values())
        if results and (code != DETACHED or has_attempts):
            done = len(results) == len(jobs) and code not in (INTERRUPTED, DETACHED)
            _show(jobs, results, base, done=done, table=table)
    if failed:
        n = f"{len(failed):,} of {len(jobs):,} runs failed"
        say(f"{n}: {', '.join(failed)}. To continue only the unfinished runs: {command}")
    return code


def _say_ended(execution: Execution, result: Result, command: str, display: Display) -> int:
    """Print what a user should know about a run's end, and return its exit code."""
    job = execution.job
    name = job.folder.name
    tally = result.tally
    metrics = result.metrics
    _say_saved(job)
    for caution in metrics.cautions:
        explained = caution == metrics.unanswerable and job.run.task.name == "jsonl"
        hint = " A row's target or gold is one (harness docs jsonl)." * explained
        say(f"{name}: {caution}{hint}")
    if execution.detached and not display.interrupted:
        waiting = "1 sample waits" if tally.left == 1 else f"{tally.left:,} samples wait"
        say(f"{name}: {waiting} for batches, which may take a day.")
        say(f"To see if they have ended, and to continue: {command}")
        return DETACHED
    if code := early_end(result.ended, tally.budget, "budget.usd", command):
        return code
    attempts = metrics.n_attempts
    n_unparseable = metrics.outcomes["unparseable"]
    if 0 < attempts <= MANY * n_unparseable:
        problem = f"{n_unparseable:,} of {attempts:,} answers could not be parsed"
        if n_unparseable == attempts:
            problem = "No answer could be parsed"
        reading = next_steps(f" To read them: harness show {name} --failed")
        say(f"{name}: {problem}.{reading}", "yellow")
        settings = str((job.run.task.options, next(iter(job.instances)).data))
        if "json_schema" in settings:
            # Not needed before the last call.
            from harness.analysis.failures import fence_hint
            from harness.store.index import AttemptIndex

            if hint := fence_hint(AttemptIndex(job.folder.attempts), settings):
                say(hint)
    n_truncated = metrics.outcomes["truncated"]
    if 0 < attempts <= MANY * n_truncated:
        share = f"{n_truncated:,} of {attempts:,} answers"
        say(f"{name}: {share} reached the token limit: see decoding.max_tokens.", "yellow")
    say_verdictless(name, tally, "and run again with --fresh.")
    if crashes := metrics.outcomes.get("crashed", 0):
        say(
            f"{name}: {crashes:,} of {attempts:,} attempts crashed: they count as failed.", "yellow"
        )
        _say_errors(tally, "crashed")
        retry = command if "--retry" in command else f"{command} --retry crashed"
        reading = next_steps(f"To read them: harness show {name} --failed. ")
        say(f"{reading}To try them again: {retry}")
    if failed := metrics.outcomes["error"]:
        say(f"{name}: {format_count(failed, 'attempt')} failed:")
        _say_errors(tally, "error")
        say(f"To retry them: {command}")
    elif tally.failed_judgements:  # the run's notice reported them
        say(f"To retry the failed judgements: {command}")
    elif tally.expected == 0 and job.is_application and not job.rescore:
        change = "change model.version and " if job.model.caching == "shared" else ""
        say(
            f"{name}: nothing was asked, because all answers of your application are recorded. If "
            f"it, or a file that it reads, has changed, {change}ask again: {command} --fresh"
        )
    lost = job.folder.progress()[0] and not metrics.complete  # the metrics' warning reported it
    return int(bool(failed or tally.failed_judgements) or lost or _mostly_undecided(job, metrics))


def _mostly_undecided(job: Job, metrics: Metrics) -> bool:
    """Return, with a message, whether deciding judges gave no verdict on half of the samples."""
    missing = metrics.overall.missing
    if not missing or 2 * missing < metrics.n_samples:
        return False
    if not read_register(job.folder.path).deciding:
        return False
    counts = f"{missing:,} of {metrics.n_samples:,} samples have no verdict"
    covered = ": the pass rate covers only the others" if metrics.overall.n else ""
    say(f"{job.folder.name}: {counts}{covered}.", "yellow")
    return True


def _say_errors(tally: Tally, outcome: Outcome) -> None:
    """Print the session's most frequent errors of attempts with an outcome."""
    counts = Counter({error: n for (kind, error), n in tally.errors.items() if kind == outcome})
    kinds = [kind for kind in counts.most_common() if kind[0] != OTHER_ERRORS][:5]
    for error, count in kinds:
        say(f"  {count:,} x {error}")
    if more := counts.total() - sum(count for _, count in kinds):
        say(f"  and {more:,} with other errors")


def _say_saved(job: Job) -> None:
    """Print how much the prompt caches of the run's models saved."""
    for model in {id(model): model for model in job.models}.values():
        usage = model.prefixes.usage
        if not (usage.cached_input_tokens or usage.cache_write_tokens):
            continue
        saved = model.prefixes.saved_usd
        money = ""
        if model.price:
            money = (
                f" cost {format_usd(-saved)} more" if saved < 0 else f" saved {format_usd(saved)}"
            )
        say(
            f"{job.folder.name}: The prompt cache of {model.section.name}{money}: "
            f"{usage.cached_input_tokens:,} tokens read, {usage.cache_write_tokens:,} written."
        )


def _show(
    jobs: Sequence[Job], results: Mapping[str, Metrics], base: str, *, done: bool, table: bool
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
        show(suite_document(folders, brief=not done))
    else:
        show(runs_table(results))
    in_full = f"one in full: harness show {first.folder.name}"
    say(next_steps(f"Results in {first.settings.runs_dir}", in_full))
    if done and as_suite:
        table_command = f"The table again: harness table {base} --intervals"
        _say_steps(table_command, f"every pair tested: harness matrix {base}")
    elif done and not as_suite:
        _compare([job.folder for job in jobs], results.values(), base)


def _compare(folders: Sequence[RunFolder], results: Iterable[Metrics], base: str) -> None:
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
            _say_steps(details, f"for a page to share: harness report {base}")
    grouped = set.intersection(*({*metrics.groups} for metrics in results))
    by_group = [f"by group: harness ablation {base}"] if grouped else []
    _say_steps(f"The answers: harness show {base} --side-by-side", *by_group)


def _say_steps(*hints: str) -> None:
    if steps := next_steps(*hints):
        say(steps)


def _collecting(missing: list[str]) -> Callable[[str], str]:
    """Return a function that returns a secret, or adds its variable to ``missing``."""

    def lookup(variable: str) -> str:
        try:
            return read_secret(variable)
        except SecretMissing:
            missing.append(variable)
            return ""

    return lookup


T = TypeVar("T")

BUDGET_SPENT = 3  # exit code
INTERRUPTED = 130  # exit code after Ctrl-C
MANY = 10  # a judge gets a warning if one in this many judgements has no verdict
REASONING = "for a reasoning model, such as 2000, and votes: 5 in yes_no"


def attended(work: Coroutine[Any, Any, T], display: Display, command: str) -> T:
    """Do a command's work, and return its result.

    ``command``, which resumes the work, is printed if the work is interrupted, or fails after a
    run has begun. An interruption ends the program with the exit code 130.
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


def early_end(ended: Ending, budget: Budget | None, key: str, command: str) -> int:
    """If a session ended early, print why and that ``command`` resumes it. Return the exit code."""
    if ended == "budget" and budget is not None:
        calls = "calls without a recorded cost (failed, cut off, uncounted or of a deleted run)"
        unsure = f", {format_exact_usd(budget.unsure_usd)} of it for {calls}"
        spent = (
            f"{format_exact_usd(budget.spent_usd)} is spent{unsure if budget.unsure_usd else ''}"
        )
        call = f"the next call, which may cost {format_exact_usd(budget.unmet_usd)}"
        say(f"The budget of {format_usd(budget.usd)} cannot pay for {call}: {spent}. Raise {key}.")
        larger = re.sub(r"(budget\.usd=|--budget[ =])\S+", r"\1…", command)
        say(f"Then, to continue: {larger}")
        return BUDGET_SPENT
    if ended == "interrupted":
        say(f"Interrupted. To continue: {command}")
        return INTERRUPTED
    return 0


def say_verdictless(run: str, tally: Tally, remedy: str) -> None:
    """Print which judges often give no verdict, and why. ``remedy`` ends the advice.

    Panels that often pass on a split vote are printed as well.
    """
    for panel, n in tally.split_passes.items():
        total = tally.judgements[panel]
        if n and n * MANY >= total:
            share = f"{n:,} of {total:,} judgements pass what its judges are split on"
            say(f"{run}: panel {panel}: {share}. Set a higher passes_from to fail it.", "yellow")
    for (judge, outcome), n in tally.verdictless.items():
        total = tally.judgements[judge]
        if n * MANY < total:
            continue
        reason = tally.reasons[judge, outcome]
        share = f"{n:,} of {total:,} judgements are {outcome} and have no verdict"
        say(f"{run}: judge {judge}: {share}. {reason}".rstrip(), "yellow")
        if outcome == "empty" and reason:
            say(f"Set the judge's max_tokens higher ({REASONING}), {remedy}")
