"""Executes runs, one after another: each session works off the unfinished samples of one run.

Some errors in the data appear only here, before the first call.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import harness
from harness.analysis.metrics import Metrics, encode_metrics
from harness.analysis.run_display import display_entries
from harness.calls.signals import Notices, Stop
from harness.config.settings import mask_url_keys
from harness.declarations import load_members
from harness.engine.assessment import LongAnswers, warning_lines
from harness.engine.call_stack import bind
from harness.engine.changes import check_changes, check_splitter
from harness.engine.job import Job, Rescore, ScoredAgain
from harness.engine.judges import Judges
from harness.engine.models import worker_count
from harness.engine.own_rows import with_own_rows
from harness.engine.plan import CachedDraws, RunPlan, UnfinishedSample, Work
from harness.engine.progress import Ending, Listener, Tally, Watch
from harness.engine.reasoning import unseparated
from harness.engine.recorder import AttemptRecorder, Observers
from harness.engine.samples import SampleRunner
from harness.engine.session import (
    Session,
    open_session,
    work_off,
)
from harness.engine.turns import Rewriter, UserTurns
from harness.errors import (
    AFFECTS_ALL_RUNS,
    ConfigError,
    DataInvalid,
    DataMissing,
    HarnessError,
    option,
)
from harness.plugin_loader import Kind
from harness.ports import Task, overrides_method
from harness.records import SCORING_VERSION, Instance, ObservedRun, Request
from harness.store.aggregates import write_aggregates
from harness.store.file_states import (
    ATTEMPTS,
    JUDGEMENTS,
    REDRAWS_KEY,
    REPEATED_KEY,
    SETTINGS_FILES,
    find_changed_file,
    incomplete_files,
    remove_states,
)
from harness.store.files import write_atomically
from harness.store.json_lines import JsonLinesWriter, LinesLost
from harness.store.judgements import Register, write_register
from harness.store.lost_lines import check_resumable, needs_rescoring, retried_outcomes
from harness.store.manifest import Manifest
from harness.store.run_folder import JUDGES, rehashed_inputs
from harness.store.runs import base_name
from harness.store.unrecorded import UNRECORDED_KEY
from harness.wording import format_count

if TYPE_CHECKING:
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
        async with contextlib.AsyncExitStack() as stack:
            session = await stack.enter_async_context(
                open_session(
                    job.models,
                    job.settings,
                    folder=job.folder,
                    usd=job.run.budget_usd,
                    shared=job.run.budget.shared,
                    base=base_name(job.folder, job.variant.name),
                    listed=job.variant.runs,
                    part=job.run.parsed_shard,
                )
            )
            if job.copies:
                report = session.notices.reporter("object store")
                uploaded = job.copies.uploaded(job.folder, session.replies, report)
                await stack.enter_async_context(uploaded)
            with rare_collections():
                return await _execute(job, session, listener)
    except (ConfigError, DataInvalid, DataMissing):
        if new:
            job.folder.remove_if_empty()
        raise


async def _execute(job: Job, session: Session, listener: Listener | None) -> Result:
    """Execute a run whose folder is locked."""
    folder = job.folder
    lost = check_resumable(folder, attempts=True)
    mixed = needs_rescoring(folder.read_manifest(), lost)
    # They are written now, and the register below only if it differs.
    remove_states(folder.path, {*SETTINGS_FILES} - {JUDGES})
    changes = check_changes(job)  # again, now that the folder is locked
    judges, register = _registered_judges(job)
    rescored = None
    if changes or mixed:
        rescore: Rescore = Kind("run_steps").load("rescore")
        rescored = rescore(job)
    run = with_own_rows(job.run, folder, job.settings)
    folder.write_config(run)
    notes = _notes(job, rescored)  # before the manifest gets this session's fingerprint
    manifest = Manifest(
        folder,
        run,
        job.fingerprint,
        simulated=any(model.simulated for model in job.answering_models),
        measure=run.measure or job.task.measure,
        variant=job.variant.name,
        variants=job.variant.listed,
        extends=job.variant.extends,
        varied=job.variant.varied,
        display=display_entries(run, job.data),
        run_id=session.run_id,
    )
    check_splitter(job.fingerprint, job.settings.cache_dir, simulated=manifest.simulated)
    was_killed = folder.has_attempts() and folder.count_unfinished() is None
    manifest.begin_session(sorted(job.retried), rescored._asdict() if rescored else {}, lost)
    observers = Observers(job.observers, session.notices)
    work = _SessionWork(job, session, manifest, judges, observers, lost, was_killed=was_killed)
    try:
        ended = await work.do(listener, notes)
    except BaseException as error:
        early: Ending = "interrupted" if isinstance(error, asyncio.CancelledError) else "failed"
        if isinstance(error, LinesLost):
            manifest.set_unfinished(max(1, folder.read_manifest().get("owed") or 0))
        metrics = None
        with contextlib.suppress(Exception):  # report the first error, not this one
            metrics = work.conclude(early, _problem(error))
        observers.run_ended(early, metrics)
        raise
    finally:
        job.data.release()
    if register is not None and find_changed_file(folder.path, [JUDGES]):
        write_register(folder.path, register)  # another program has changed the file
    metrics = work.conclude(ended, "")
    observers.run_ended(ended, metrics)
    return Result(metrics, ended, work.tally)


def _registered_judges(job: Job) -> tuple[Judges, Register] | tuple[None, None]:
    """Record the run's judges in its folder. Return them, and the register with later judges."""
    if not job.judges:
        if find_changed_file(job.folder.path, [JUDGES]):  # it has no judge that has judged
            (job.folder.path / JUDGES).unlink(missing_ok=True)
        return None, None
    judges = Judges(job.task, job.judges, job.run.panels)
    return judges, judges.register(job.folder)


def _notes(job: Job, rescored: ScoredAgain | None) -> dict[str, str]:
    """Return what the user should know before the work begins, by the source of the note."""
    notes: dict[str, str] = {}
    if rescored is not None:
        notes[""] = str(rescored)
    elif names := rehashed_inputs(
        job.folder.read_manifest().get("fingerprint", {}), job.fingerprint
    ):
        notes["code"] = (
            "This run was started by an earlier version, which hashed code differently: a change "
            f"of {', '.join(names)} since then is not noticed. If a check has changed, add "
            f"{option('rescore')}."
        )
    if job.only is not None:  # a smaller limit than that of an earlier session
        results = "The results cover all recorded answers"
        notes["limit"] = f"{results}. This session adds to {job.only:,} instances."
    return notes


def _problem(error: BaseException) -> str:
    """Return the text to record about an error, without an unexpected error's message."""
    if isinstance(error, HarnessError):
        return error.message
    if isinstance(error, asyncio.CancelledError):
        return ""
    return f"unexpected {type(error).__name__}"


class _SessionWork:
    """The work of one session of a run.

    Args:
        job: The run.
        session: Its cache, budget and limits.
        manifest: Its manifest.
        judges: Its judges, if it has any.
        observers: Learn of each attempt.
        lost: The files that had lost lines before the session.
        was_killed: Whether the session before was killed. It may have lost its last lines.
    """

    def __init__(
        self,
        job: Job,
        session: Session,
        manifest: Manifest,
        judges: Judges | None,
        observers: Observers,
        lost: set[str],
        *,
        was_killed: bool,
    ) -> None:
        self._job = job
        self._session = session
        self._manifest = manifest
        self._judges = judges
        self._observers = observers
        self._lost = lost
        self._unrestored = set(lost)  # those that may lack lines whose replies are in the cache
        if was_killed and retried_outcomes(job.folder.read_manifest()):
            self._unrestored.add(ATTEMPTS)
        if not job.judges:
            self._unrestored.discard(JUDGEMENTS)
        self.tally = Tally(rounds=job.run.rounds.max, budget=session.budget)

    async def do(self, listener: Listener | None, notes: dict[str, str]) -> Ending:
        """Make the missing judgements, then finish the samples. ``notes`` are by source."""
        job = self._job
        session = self._session
        tally = self.tally
        plan = job.plan()
        with contextlib.ExitStack() as stack:
            writer = stack.enter_context(
                JsonLinesWriter(job.folder.attempts, job.folder.line_sealer())
            )
            judging = stack.enter_context(self._open_judging())
            late = 0 if judging is None else len(judging.late)
            work = self._expect(plan, late)
            if plan.index is not None:
                self._count_earlier(plan, judging)
            workers = worker_count(job.answering_models, work.unfinished)
            self._manifest.record_plan(work.total, work.unfinished + work.later, job.unanswerable())
            recorder = AttemptRecorder(writer, tally, self._observers, session.answered)
            try:
                with self._reporting(listener):
                    self._observers.run_begun(self._observed_run())
                    self._report(notes, plan, work)
                    if judging is not None:
                        restore = JUDGEMENTS in self._unrestored
                        # New verdicts may change which rounds are missing.
                        plan = await judging.caught_up(job, plan, session, workers, restore=restore)
                        work = self._expect(plan, late)
                    runner = self._sample_runner(plan, recorder, judging, stack)
                    if ATTEMPTS in self._unrestored:  # before a round after a replaced answer
                        await self._restore(runner, workers)
                        runner.plan = self._read_plan(judging)
                        work = self._expect(runner.plan, tally.finished)
                    await self._finish(runner, workers)
            finally:
                recorder.release()
                self._manifest.set_unfinished(tally.left + work.later)
        for name, warning in warning_lines(recorder.score_warnings):
            session.notices.reporter(name)(warning)
        if failed := tally.failed_judgements:
            session.notices.reporter("judges")(
                f"{format_count(failed, 'judgement')} failed; the last error: "
                f"{tally.last_error.rstrip('.')}. Run again to repeat them."
            )
        return "finished" if not tally.left else session.ended

    async def _finish(self, runner: SampleRunner, workers: int) -> None:
        """Finish the unfinished samples, then restore what later draws are lost."""
        job = self._job
        session = self._session

        async def finish(sample: UnfinishedSample) -> None:
            self.tally.finish_sample(await runner.finish(sample))

        await work_off(runner.plan.unfinished(), finish, workers=workers, stop=session.stop)
        if ATTEMPTS in self._unrestored and await self._restore(runner, workers):
            self._unrestored.remove(ATTEMPTS)
        judging = runner.judging
        if JUDGEMENTS in self._unrestored and judging is not None and not session.stop.requested:
            await judging.restore(job.data, workers, session)
            self._unrestored.remove(JUDGEMENTS)

    def _expect(self, plan: RunPlan, judgements: int) -> Work:
        """Set how much work is expected: a plan's samples, and a number of judgements."""
        work = self._job.work(plan)
        work = work._replace(unfinished=work.unfinished + judgements)
        self.tally.expect(work.unfinished, work.already)
        return work

    @contextlib.contextmanager
    def _open_judging(self) -> Iterator[Judging | None]:
        if self._judges is None:
            yield None
            return
        from harness.engine.judging import Judging

        with Judging.of_run(
            self._judges,
            self._session,
            self._job.folder,
            self.tally,
            self._job.model.reasoning,
            lost_attempts=ATTEMPTS in self._lost,
        ) as judging:
            yield judging

    def _count_earlier(self, plan: RunPlan, judging: Judging | None) -> None:
        """Count what earlier sessions have paid for and found out."""
        assert plan.index is not None
        from harness.store.calls import read_calls  # NumPy takes 0.2 s to import

        self.tally.paid_before = read_calls(self._job.folder.attempts).paid_usd
        if not (judging and judging.decides):
            self.tally.record_earlier(plan.index)
        if plan.index.attempts.has_reply.any():
            self._session.answered.has_any = True
            self._session.earlier[self._job.model.where] = plan.answered

    @contextlib.contextmanager
    def _reporting(self, listener: Listener | None) -> Iterator[None]:
        """Let a listener and viewers watch the session."""
        session = self._session
        with contextlib.ExitStack() as stack:
            if listener is not None:
                stack.enter_context(listener(self.tally, session.stop, session.notices))
            watch: Watch
            for watch in load_members("run_steps", "watch"):
                stack.enter_context(watch(self._job.folder, self.tally, session))
            yield

    def _report(self, notes: dict[str, str], plan: RunPlan, work: Work) -> None:
        status = self._session.notices.reporter
        for source, note in notes.items():
            status(source)(note)
        same_rules = self._manifest.scoring == SCORING_VERSION
        if not same_rules and work.unfinished and overrides_method(self._job.task, Task.row_fields):
            status("scoring")(
                "The earlier answers were scored by an earlier version, which read some numbers, "
                "choices and scripts otherwise. To score all by the same rules, add "
                f"{option('rescore')}."
            )
        if plan.index is not None and (note := unseparated(plan.index, self._job.model.reasoning)):
            status("model, reasoning")(note)

    def _observed_run(self) -> ObservedRun:
        """Return the facts about the run that its observers receive."""
        model = self._job.model
        return ObservedRun(
            id=self._manifest.run_id,
            name=self._job.folder.name,
            task=self._job.run.task.name,
            backend=model.section.backend,
            model=model.section.name,
            endpoint=mask_url_keys(model.backend.endpoint),
            simulated=self._manifest.simulated,
            version=harness.__version__,
            config=self._job.run.model_dump(mode="json"),
        )

    def _sample_runner(
        self,
        plan: RunPlan,
        recorder: AttemptRecorder,
        judging: Judging | None,
        stack: contextlib.ExitStack,
    ) -> SampleRunner:
        """Build what runs the samples' rounds. Closing ``stack`` ends its processes."""
        job = self._job
        session = self._session
        paraphraser: Rewriter | None = None
        user: Callable[[Instance[Any]], UserTurns] | None = None
        if job.paraphraser is not None:
            paraphraser = job.paraphraser.rewriter(bind(session, job.paraphraser.model))
        if job.user is not None:
            user = partial(job.user.turns, job.task, bind(session, job.user.model))
        report = session.notices.reporter("scoring")
        long_answers = LongAnswers(job.task, job.run, job.settings, report)
        stack.callback(long_answers.close)
        return SampleRunner(
            plan,
            bind(session, job.model),
            recorder.record,
            session.stop,
            judging,
            paraphraser,
            long_answers,
            user,
        )

    async def _restore(self, runner: SampleRunner, workers: int) -> bool:
        """Restore lost answers from the cache, also those that were drawn again.

        Returns:
            Whether no answer that was drawn again is known to be missing.
        """
        job = self._job
        session = self._session

        def read() -> RunPlan:
            return self._read_plan(runner.judging, full=True)

        async def accepts(request: Request) -> bool:
            return await session.has_replies(job.model, [request])

        manifest = job.folder.read_manifest()
        draws = CachedDraws(
            read, retried_outcomes(manifest) | job.retried, manifest.get(REPEATED_KEY)
        )
        restored = -1
        while restored and not session.stop.requested:
            restored = 0
            unfinished = list(draws.next())
            cached = dataclasses.replace(runner, plan=draws.plan, accepts=accepts)

            async def draw(sample: UnfinishedSample, cached: SampleRunner = cached) -> None:
                nonlocal restored
                if rounds := await cached.finish(sample):
                    restored += 1
                    self.tally.expected += 1
                    self.tally.finish_sample(rounds)

            await work_off(iter(unfinished), draw, workers=max(1, workers), stop=session.stop)
        return not (session.stop.requested or draws.lacks())

    def _read_plan(self, judging: Judging | None, *, full: bool = False) -> RunPlan:
        """Return the plan of the unfinished work, with verdicts by judges if the run has any."""
        from harness.store.index import AttemptIndex  # NumPy takes 0.2 s to import

        plan = self._job.plan(full=full)
        if judging is None or plan.index is None:
            return plan
        return dataclasses.replace(plan, index=AttemptIndex(self._job.folder.attempts))

    def conclude(self, ended: Ending, problem: str) -> Metrics:
        """Record how the session ended, and write and return the run's metrics."""
        from harness.analysis.summary import compute_metrics  # not needed before the first call
        from harness.store.index import (
            AttemptIndex,
            count_run_redraws,
            lacks_judgements,
            read_attempts,
        )

        folder = self._job.folder
        manifest = self._manifest
        gc.collect()  # frees memory for reading the attempts
        manifest.end_session(ended, problem)
        if self._lost or UNRECORDED_KEY in folder.read_manifest():
            manifest.update({UNRECORDED_KEY: self._session.unrecorded(folder)})
        if self._lost:
            lacking = {*self._unrestored}
            if JUDGEMENTS in self._lost and lacks_judgements(folder):
                lacking.add(JUDGEMENTS)
            samples = read_attempts(folder.attempts).sample_starts().sum()
            if ATTEMPTS in self._lost and samples < manifest.finished_before:
                lacking.add(ATTEMPTS)
            manifest.record_incomplete(lacking)
        write_aggregates(folder.attempts, self._job.task)
        metrics = compute_metrics(folder)
        write_atomically(folder.metrics, encode_metrics(metrics))
        recorded = folder.read_manifest()
        counts: dict[str, object] = {}
        if not incomplete_files(recorded):
            if REDRAWS_KEY in recorded:
                counts[REDRAWS_KEY] = count_run_redraws(folder)
            if retried_outcomes(recorded):
                counts[REPEATED_KEY] = AttemptIndex(folder.attempts, judges=False).n_repeated
        manifest.record_states(counts)
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


OBJECTS_BETWEEN_COLLECTIONS = 50_000


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Collect cyclic garbage less often within a ``with`` block.

    With Python's default threshold, nearly all collections found nothing, but took a third of a
    run's CPU time. Objects that exist already are not examined, which would take 0.1 s.
    """
    before = gc.get_threshold()
    is_frozen = gc.get_freeze_count() > 0
    if before[0]:  # 0 means never
        gc.set_threshold(max(before[0], OBJECTS_BETWEEN_COLLECTIONS), *before[1:])
    if not is_frozen:
        gc.freeze()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not is_frozen:
            gc.unfreeze()
