"""Does the work of a run.

Some errors in the data appear only here, before the first call.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.analysis.run_display import recorded_display
from harness.calls.signals import Notices, Stop
from harness.engine import models
from harness.engine.assessment import ScoreWarnings, warning_lines, warnings_of
from harness.engine.call_stack import bind
from harness.engine.changes import check_changes, check_splitter
from harness.engine.crashes import HeldCrashes
from harness.engine.heartbeat import Heartbeat
from harness.engine.job import Job
from harness.engine.long_answers import LongAnswers
from harness.engine.next_turn import TurnStrategy
from harness.engine.observing import Observation, observed_run
from harness.engine.plan import OwedSample, RunPlan, Work
from harness.engine.progress import Ending, Listener, Tally, Verdicts
from harness.engine.reasoning import unseparated
from harness.engine.restoring import CachedDraws, is_cached
from harness.engine.run_files import with_own_rows
from harness.engine.samples import Rewriter, Samples
from harness.engine.session import Session, open_session, rare_collections, work_off
from harness.errors import (
    AFFECTS_ALL_RUNS,
    ConfigError,
    DataInvalid,
    DataMissing,
    HarnessError,
    option,
)
from harness.plugin_loader import Kind
from harness.ports import Task, overrides
from harness.records import SCORING_VERSION, Attempt, Instance, Request
from harness.store.aggregates import write_aggregates
from harness.store.file_states import (
    ATTEMPTS,
    JUDGEMENTS,
    REDRAWS,
    REPEATED,
    SETTINGS,
    changed_file,
    forget_states,
    lacking_files,
)
from harness.store.files import write_whole
from harness.store.json_lines import JsonLinesWriter, LinesLost
from harness.store.judgements import Register, write_register
from harness.store.lost_lines import needs_rescoring, refuse_changed, retried_outcomes
from harness.store.manifest import Manifest
from harness.store.run_folder import JUDGES, RunFolder, unnoticed
from harness.wording import count_of

if TYPE_CHECKING:
    from harness.analysis.metrics import Metrics
    from harness.engine.judges import Judges
    from harness.engine.judging import Judging


@dataclass(frozen=True, slots=True)
class Result:
    """How a run's session ended, its progress counters, and the whole run's metrics."""

    metrics: Metrics
    ended: Ending
    tally: Tally


async def execute(job: Job, listener: Listener | None = None) -> Result:
    """Do a run's unfinished work, and return how it ended.

    The metrics are written even if the run fails or is interrupted. A new run that is refused
    before its first call leaves nothing behind.
    """
    new = not job.folder.exists()
    try:
        return await _execute(job, listener)
    except (ConfigError, DataInvalid, DataMissing):
        if new:
            job.folder.remove_unbegun()
        raise


async def _execute(job: Job, listener: Listener | None) -> Result:
    run, folder, runs = job.run, job.folder, job.settings.runs_dir
    async with (
        open_session(
            job.models,
            job.settings,
            folder=folder,
            usd=run.budget_usd,
            shared=run.budget.shared,
            sharing=[RunFolder(runs, name) for name in job.variant.runs if name != folder.name],
        ) as session,
        job.copies.uploaded(folder, session) if job.copies else contextlib.nullcontext(),
    ):
        with rare_collections():
            rescored = None
            lost = refuse_changed(folder, attempts=True)
            mixed = needs_rescoring(folder.read_manifest(), lost)
            # They are written now, and the register below only if it differs.
            forget_states(folder.path, {*SETTINGS} - {JUDGES})
            changes = check_changes(job)  # again, now that the folder is locked
            judges, register = _registered_judges(job)
            if changes or mixed:
                from harness.engine.rescoring import rescore  # not imported for most runs

                rescored = rescore(job)
            run = with_own_rows(run, folder, job.settings)
            folder.write_config(run)
            earlier_code = _earlier_code(job)  # before the manifest gets this session's fingerprint
            own = job.task.measure
            manifest = Manifest(
                folder,
                run,
                job.fingerprint,
                simulated=any(model.simulated for model in job.models if model.where != "polish"),
                measure=run.measure or own,
                variant=job.variant.name,
                variants=job.variant.listed,
                display=recorded_display(run, job.data),
                run_id=session.run_id,
            )
            check_splitter(job.fingerprint, job.settings.cache_dir, simulated=manifest.simulated)
            manifest.begin(sorted(job.retried), rescored._asdict() if rescored else {}, lost)
            observation = Observation(job.observers, session.notices)
            # Files with lost lines whose later draws are not restored yet
            retried = retried_outcomes(folder.read_manifest())
            unrestored = lost - (set() if retried else {ATTEMPTS})
            unrestored -= set() if job.judges else {JUDGEMENTS}
            try:
                notes = {"": str(rescored)} if rescored else {}
                if earlier_code and not rescored:
                    notes["code"] = earlier_code
                if job.only is not None:  # a smaller limit than that of an earlier session
                    results = "The results cover all recorded answers"
                    notes["limit"] = f"{results}. This session adds to {job.only:,} instances."
                ended, tally = await _work(
                    job, judges, session, manifest, observation, listener, notes, lost, unrestored
                )
            except BaseException as error:
                interrupted = isinstance(error, asyncio.CancelledError)
                early: Ending = "interrupted" if interrupted else "failed"
                metrics = None
                if isinstance(error, LinesLost):
                    manifest.left(max(1, folder.read_manifest().get("owed") or 0))
                with contextlib.suppress(Exception):  # report the first error, not this one
                    metrics = _conclude(job, manifest, early, _problem(error), lost, unrestored)
                observation.run_ended(early, metrics)
                raise
            finally:
                job.data.release()
            if register is not None and changed_file(folder.path, [JUDGES]):
                write_register(folder.path, register)  # another program has changed the file
            metrics = _conclude(job, manifest, ended, "", lost, unrestored)
            observation.run_ended(ended, metrics)
            return Result(metrics, ended, tally)


def _earlier_code(job: Job) -> str:
    """Return a warning if it is unknown whether a run's code has changed, else ""."""
    names = unnoticed(job.folder.read_manifest().get("fingerprint", {}), job.fingerprint)
    if not names:
        return ""
    return (
        "This run was started by an earlier version, which hashed code differently: a change of "
        f"{', '.join(names)} since then is not noticed. If a check has changed, add "
        f"{option('rescore')}."
    )


def _mixed_scoring(job: Job, manifest: Manifest, work: Work) -> str:
    """Return a warning if a session would score by other rules than those before it, else ""."""
    same = manifest.scoring == SCORING_VERSION
    if same or not work.owed or not overrides(job.task, Task.row_fields):
        return ""
    return (
        "The earlier answers were scored by an earlier version, which read some numbers, choices "
        f"and scripts otherwise. To score all by the same rules, add {option('rescore')}."
    )


def _registered_judges(job: Job) -> tuple[Judges, Register] | tuple[None, None]:
    """Record the run's judges in its folder. Return them, and the register with later judges."""
    if not job.judges:
        if changed_file(job.folder.path, [JUDGES]):  # it has no judge that has judged
            (job.folder.path / JUDGES).unlink(missing_ok=True)
        return None, None
    from harness.engine.judges import Judges

    judges = Judges(job.task, job.judges, job.run.panels)
    return judges, judges.register(job.folder)


async def _work(
    job: Job,
    judges: Judges | None,
    session: Session,
    manifest: Manifest,
    observation: Observation,
    listener: Listener | None,
    notes: Mapping[str, str],
    lost: Collection[str],
    unrestored: set[str],
) -> tuple[Ending, Tally]:
    """Make the missing judgements, then finish the samples.

    Names of files are removed from ``unrestored`` when their lost later draws are restored.
    """
    stop, plan = session.stop, job.plan()
    work = job.work(plan)
    tally = Tally(rounds=job.run.rounds.max, budget=session.budget)
    judging: Judging | None = None
    paraphraser: Rewriter | None = None
    user: Callable[[Instance[Any]], TurnStrategy] | None = None
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(JsonLinesWriter(job.folder.attempts, job.folder.seal()))
        if judges is not None:
            from harness.engine.judging import Judging

            reasoning = job.model.reasoning
            judging = stack.enter_context(
                Judging.of_run(
                    *(judges, session, job.folder, tally, reasoning),
                    lost_attempts=ATTEMPTS in lost,
                )
            )
            work = work._replace(owed=work.owed + len(judging.late))
        tally.expect(work.owed, work.already)
        if plan.index is not None:
            from harness.store.calls import read_calls  # NumPy takes 0.2 s to import

            tally.paid_before = read_calls(job.folder.attempts).paid_usd
            if not (judging and judging.decides):
                tally.record_earlier(plan.index)
        asked = [one for one in job.models if one.where != "polish"]
        workers = models.worker_count(asked, work.owed)
        manifest.plan(work.total, work.owed + work.later, job.unanswerable())
        if job.paraphraser is not None and job.run.polish is not None:
            second = bind(session, job.paraphraser)
            build_paraphraser = Kind("section_builders").load("polish")
            paraphraser = build_paraphraser(job.task, second, job.run.polish.prompt)
        if job.user is not None:
            user = partial(job.user.turns, job.task, bind(session, job.user.model))

        score_warnings = ScoreWarnings()

        def write(attempt: Attempt, passed: bool | None, before: Verdicts) -> None:
            writer.append(attempt)
            for named_warning in warnings_of(attempt.scores):
                score_warnings[named_warning] += 1
            tally.record(attempt, passed, before)
            observation.attempt(attempt)

        if plan.index is not None and plan.index.attempts.replied.any():
            session.answered.any = True
            session.earlier[job.model.where] = plan.answered
        crashes = HeldCrashes(write, session.answered)
        try:
            watching = listener(tally, stop, session.notices) if listener else None
            with watching or contextlib.nullcontext(), Heartbeat(job.folder, tally, session):
                observation.run_begun(observed_run(job, manifest))
                for source, note in notes.items():
                    session.notices.status(source)(note)
                if note := _mixed_scoring(job, manifest, work):
                    session.notices.status("scoring")(note)
                if plan.index is not None and (
                    note := unseparated(plan.index, job.model.reasoning)
                ):
                    session.notices.status("model, reasoning")(note)
                if judging is not None:
                    plan, before = (
                        await judging.caught_up(
                            job, plan, session, workers, restore=JUDGEMENTS in unrestored
                        ),
                        plan,
                    )
                    if plan is not before:  # new verdicts may change which rounds are missing
                        work = job.work(plan)
                        work = work._replace(owed=work.owed + len(judging.late))
                    tally.expect(work.owed, work.already)
                model = bind(session, job.model)
                report = session.notices.status("scoring")
                long = LongAnswers(job.task, job.run, job.settings, report)
                stack.callback(long.close)
                record = crashes.record
                samples = Samples(plan, model, record, stop, judging, paraphraser, long, user)
                if ATTEMPTS in unrestored:  # before anything is paid for that was replaced
                    await _restore(job, samples, session, tally, workers)
                    samples.plan = plan = _read_plan(job, judging)
                    work = job.work(plan)
                    work = work._replace(owed=work.owed + tally.finished)
                    tally.expect(work.owed, work.already)

                async def finish(sample: OwedSample) -> None:
                    tally.finish_sample(await samples.work(sample))

                await work_off(plan.owed(), finish, workers=workers, stop=stop)
                if ATTEMPTS in unrestored and await _restore(job, samples, session, tally, workers):
                    unrestored.remove(ATTEMPTS)
                if JUDGEMENTS in unrestored and judging is not None and not stop.requested:
                    await judging.restore(job.data, workers, session)
                    unrestored.remove(JUDGEMENTS)
        finally:
            crashes.release()
            manifest.left(tally.left + work.later)
    for name, warning in warning_lines(score_warnings):
        session.notices.status(name)(warning)
    if failed := tally.failed_judgements:
        session.notices.status("judges")(
            f"{count_of(failed, 'judgement')} failed; the last error: "
            f"{tally.last_error.rstrip('.')}. Run again to repeat them."
        )
    return "finished" if not tally.left else session.ended, tally


async def _restore(
    job: Job,
    samples: Samples,
    session: Session,
    tally: Tally,
    workers: int,
) -> bool:
    """Restore lost answers from the cache, also those that were drawn again.

    Returns:
        Whether no answer that was drawn again is known to be missing.
    """

    def read() -> RunPlan:
        return _read_plan(job, samples.judging, whole=True)

    async def accepts(request: Request) -> bool:
        return await is_cached(session, job.model, [request])

    manifest = job.folder.read_manifest()
    draws = CachedDraws(read, retried_outcomes(manifest) | job.retried, manifest.get(REPEATED))
    restored = -1
    while restored and not session.stop.requested:
        restored = 0
        owed = list(draws.next())
        again = dataclasses.replace(samples, plan=draws.plan, accepts=accepts)

        async def draw(sample: OwedSample, again: Samples = again) -> None:
            nonlocal restored
            if rounds := await again.work(sample):
                restored += 1
                tally.owed += 1
                tally.finish_sample(rounds)

        await work_off(iter(owed), draw, workers=max(1, workers), stop=session.stop)
    return not (session.stop.requested or draws.lacks())


def _read_plan(job: Job, judging: Judging | None, *, whole: bool = False) -> RunPlan:
    """Return the plan of the unfinished work, with verdicts by judges if the run has any."""
    from harness.store.index import AttemptIndex  # NumPy takes 0.2 s to import

    plan = job.plan(whole=whole)
    if judging is None or plan.index is None:
        return plan
    return dataclasses.replace(plan, index=AttemptIndex(job.folder.attempts))


def _problem(error: BaseException) -> str:
    """Return the text to record about an error, without an unexpected error's message."""
    if isinstance(error, HarnessError):
        return error.message
    if isinstance(error, asyncio.CancelledError):
        return ""
    return f"unexpected {type(error).__name__}"


def _conclude(
    job: Job,
    manifest: Manifest,
    ended: Ending,
    problem: str,
    lost: Collection[str],
    unrestored: Collection[str],
) -> Metrics:
    """Record how the session ended, and write and return the run's metrics.

    ``lost`` are the files that had lost lines before the session, and ``unrestored`` those of them
    that may still lack answers which were drawn again.
    """
    from harness.analysis.metrics import to_json
    from harness.analysis.summary import measure  # not needed before the first call
    from harness.store.index import (
        AttemptIndex,
        count_redraws,
        lacks_judgements,
        read_attempts,
    )

    gc.collect()  # frees memory for reading the attempts
    manifest.end(ended, problem)
    if lost:
        lacking = {*unrestored}
        if JUDGEMENTS in lost and lacks_judgements(job.folder):
            lacking.add(JUDGEMENTS)
        samples = read_attempts(job.folder.attempts).sample_starts().sum()
        if ATTEMPTS in lost and samples < manifest.finished_before:
            lacking.add(ATTEMPTS)
        manifest.lacks(lacking)
    write_aggregates(job.folder.attempts, job.task)
    metrics = measure(job.folder)
    write_whole(job.folder.metrics, to_json(metrics))
    recorded = job.folder.read_manifest()
    counts: dict[str, object] = {}
    if REDRAWS in recorded and not lacking_files(recorded):
        counts[REDRAWS] = count_redraws(job.folder)
    if retried_outcomes(recorded) and not lacking_files(recorded):
        counts[REPEATED] = AttemptIndex(job.folder.attempts, judges=False).repeated
    manifest.close(counts)
    return metrics


NamedListener = Callable[[str, Tally, Stop, Notices], AbstractContextManager[Any]]
"""A `Listener` to several runs, which is also given the name of the run."""


class Execution(NamedTuple):
    """How a run ended in this command: with a result or, if it failed by itself, an error."""

    job: Job
    result: Result | None
    error: HarnessError | None = None

    @property
    def detached(self) -> bool:
        """Whether the run has left while its calls are with the provider."""
        later = self.job.model.later
        ended = self.result is not None and self.result.ended
        return ended == "interrupted" and later is not None and later.leaves


async def execute_all(
    jobs: Sequence[Job], listener: NamedListener, interrupted: Callable[[], bool]
) -> AsyncIterator[Execution]:
    """Execute runs, and yield how each ended.

    If one of several runs fails by itself, the others are executed nevertheless. If a run is
    interrupted or spends the budget, no other is started.

    Args:
        jobs: The runs.
        listener: Watches the runs.
        interrupted: Returns whether the user has interrupted the command.

    Raises:
        HarnessError: If the only run fails, or a failure concerns all runs.
    """
    for job in jobs:
        try:
            execution = Execution(job, await execute(job, partial(listener, job.folder.name)))
        except HarnessError as error:
            if len(jobs) == 1 or isinstance(error, AFFECTS_ALL_RUNS):
                raise
            execution = Execution(job, None, error)
        yield execution
        early = execution.result is not None and execution.result.ended != "finished"
        if interrupted() or (early and not execution.detached):
            return
