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
from harness.config.run_file import RunFile
from harness.config.settings import mask_url_keys
from harness.declarations import load_members
from harness.engine.assessment import LongAnswerAssessor, warning_lines
from harness.engine.call_stack import bind
from harness.engine.changes import check_changes, warn_of_splitter
from harness.engine.inline_rows import copy_inline_rows
from harness.engine.job import Job, Rescore, ScoredAgain
from harness.engine.judges import Judges
from harness.engine.models import worker_count
from harness.engine.plan import CachedDraws, RunPlan, UnfinishedSample, Work
from harness.engine.progress import Ending, Listener, Tally, Watch
from harness.engine.reasoning import reasoning_warning
from harness.engine.recorder import AttemptRecorder, Observers
from harness.engine.samples import SampleRunner
from harness.engine.session import (
    Session,
    open_session,
    process_all,
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
from harness.store.unrecorded import UNRECORDED_KEY
from harness.wording import format_count

if TYPE_CHECKING:
    from harness.engine.judging import Judging


@dataclass(frozen=True, slots=True)
class SessionResult:
    """How a run's session ended, its progress counters, and the whole run's metrics."""

    metrics: Metrics
    ending: Ending
    tally: Tally


async def execute(job: Job, listener: Listener | None = None) -> SessionResult:
    """Finish a run's unfinished samples, and write its metrics.

    The metrics are written even if the run fails or is interrupted. A new run that is refused
    before its first call leaves nothing behind.

    Args:
        job: The run.
        listener: Watches the session, and may stop it.
    """
    is_new = not job.folder.exists()
    try:
        async with contextlib.AsyncExitStack() as stack:
            opening = open_session(
                job.models, job.settings, folder=job.folder, budget=job.budget_terms
            )
            session = await stack.enter_async_context(opening)
            if job.copies:
                report = session.notices.reporter("object store")
                upload_session = job.copies.upload_session(job.folder, session.replies, report)
                await stack.enter_async_context(upload_session)
            with infrequent_garbage_collection():
                return await _execute_locked(job, session, listener)
    except (ConfigError, DataInvalid, DataMissing):
        if is_new:
            job.folder.remove_if_empty()
        raise


async def _execute_locked(job: Job, session: Session, listener: Listener | None) -> SessionResult:
    """Execute a run whose folder is locked."""
    folder = job.folder
    damaged_files = check_resumable(folder, attempts=True)
    must_rescore = needs_rescoring(folder.read_manifest(), damaged_files)
    # They are written now, and the register below only if it differs.
    remove_states(folder.path, {*SETTINGS_FILES} - {JUDGES})
    changes = check_changes(job)  # again, now that the folder is locked
    judges, register = _register_judges(job)
    rescoring: ScoredAgain | None = None
    if changes or must_rescore:
        rescore: Rescore = Kind("run_steps").load("rescore")
        rescoring = rescore(job)
    run = copy_inline_rows(job.run, folder, job.settings)
    folder.write_config(run)
    notes = _session_notes(job, rescoring)  # before the manifest gets this session's fingerprint
    manifest = _build_manifest(job, run, session.run_id)
    warn_of_splitter(job.fingerprint, job.settings.cache_dir, simulated=manifest.simulated)
    was_killed = folder.has_attempts() and folder.count_unfinished() is None
    manifest.begin_session(
        sorted(job.retried), rescoring._asdict() if rescoring else {}, damaged_files
    )
    work = _SessionWork(job, session, manifest, judges, damaged_files, was_killed=was_killed)
    try:
        ending = await work.run(listener, notes)
    except BaseException as error:
        work.conclude_failed(error)
        raise
    finally:
        job.data.release()
    if register is not None and find_changed_file(folder.path, [JUDGES]):
        write_register(folder.path, register)  # another program has changed the file
    return SessionResult(work.conclude(ending, ""), ending, work.tally)


def _register_judges(job: Job) -> tuple[Judges, Register] | tuple[None, None]:
    """Record the run's judges in its folder. Return them, and the register with later judges."""
    if not job.judges:
        if find_changed_file(job.folder.path, [JUDGES]):  # no judge of it has judged
            (job.folder.path / JUDGES).unlink(missing_ok=True)
        return None, None
    judges = Judges(job.task, job.judges, job.run.panels)
    return judges, judges.register(job.folder)


def _build_manifest(job: Job, run: RunFile, run_id: str) -> Manifest:
    return Manifest(
        job.folder,
        run,
        job.fingerprint,
        simulated=any(model.simulated for model in job.answering_models),
        measure=run.measure or job.task.measure,
        variant=job.variant.name,
        variants=job.variant.variant_names,
        extends=job.variant.extends,
        varied=job.variant.varied_keys,
        display=display_entries(run, job.data),
        run_id=run_id,
    )


def _session_notes(job: Job, rescoring: ScoredAgain | None) -> dict[str, str]:
    """Return what the user should know before the session begins, by the source of the note."""
    notes: dict[str, str] = {}
    if rescoring is not None:
        notes[""] = str(rescoring)
    elif names := rehashed_inputs(
        job.folder.read_manifest().get("fingerprint", {}), job.fingerprint
    ):
        notes["code"] = (
            "This run was started by an earlier version, which hashed code differently: a change "
            f"of {', '.join(names)} since then is not noticed. If a check has changed, add "
            f"{option('rescore')}."
        )
    if job.session_limit is not None:
        coverage = "The results cover all recorded answers"
        notes["limit"] = f"{coverage}. This session adds to {job.session_limit:,} instances."
    return notes


def _recorded_problem(error: BaseException) -> str:
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
        damaged_files: The files that had lost lines before the session.
        was_killed: Whether the session before was killed. It may have lost its last lines.
    """

    def __init__(
        self,
        job: Job,
        session: Session,
        manifest: Manifest,
        judges: Judges | None,
        damaged_files: set[str],
        *,
        was_killed: bool,
    ) -> None:
        self._job = job
        self._session = session
        self._manifest = manifest
        self._judges = judges
        self._observers = Observers(job.observers, session.notices)
        self._damaged_files = damaged_files
        # Those that may lack lines whose replies are in the cache
        self._files_to_restore = set(damaged_files)
        if was_killed and retried_outcomes(job.folder.read_manifest()):
            self._files_to_restore.add(ATTEMPTS)
        if not job.judges:
            self._files_to_restore.discard(JUDGEMENTS)
        self._work = Work(0, 0)
        self.tally = Tally(rounds=job.run.rounds.max, budget=session.budget)

    async def run(self, listener: Listener | None, notes: dict[str, str]) -> Ending:
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
            n_unjudged = 0 if judging is None else len(judging.missing)
            work = self._expect(plan, n_unjudged)
            if plan.index is not None:
                self._count_earlier_sessions(plan, judging)
            workers = worker_count(job.answering_models, work.unfinished)
            remaining = work.unfinished + work.beyond_limit
            self._manifest.record_plan(work.total, remaining, job.count_unanswerable())
            recorder = AttemptRecorder(writer, tally, self._observers, session.answered)
            try:
                with self._watchers(listener):
                    self._observers.run_begun(self._observed_run())
                    self._report_notes(notes, plan)
                    if judging is not None:
                        restore = JUDGEMENTS in self._files_to_restore
                        # New verdicts may change which rounds are missing.
                        plan = await judging.catch_up_plan(
                            job, plan, session, workers, restore=restore
                        )
                        self._expect(plan, n_unjudged)
                    runner = self._build_runner(plan, recorder, judging, stack)
                    if ATTEMPTS in self._files_to_restore:  # before a round after a replaced answer
                        await self._restore_attempts(runner, workers)
                        runner.plan = self._read_plan(judging)
                        self._expect(runner.plan, tally.finished)
                    await self._finish_samples(runner, workers)
            finally:
                recorder.release()
                self._manifest.set_unfinished(tally.unfinished + self._work.beyond_limit)
        self._report_problems(recorder)
        return "finished" if not tally.unfinished else session.early_ending

    async def _finish_samples(self, runner: SampleRunner, workers: int) -> None:
        """Finish the unfinished samples, then restore the lost lines of later draws."""
        job = self._job
        session = self._session

        async def finish(sample: UnfinishedSample) -> None:
            self.tally.finish_sample(await runner.finish(sample))

        await process_all(runner.plan.unfinished(), finish, workers=workers, stop=session.stop)
        if ATTEMPTS in self._files_to_restore and await self._restore_attempts(runner, workers):
            self._files_to_restore.remove(ATTEMPTS)
        judging = runner.judging
        if judging is None or session.stop.requested:
            return
        if JUDGEMENTS in self._files_to_restore:
            await judging.restore(job.data, workers, session)
            self._files_to_restore.remove(JUDGEMENTS)

    def _expect(self, plan: RunPlan, n_judgements: int) -> Work:
        """Set the expected amount of work: a plan's samples, and a number of judgements."""
        work = self._job.count_work(plan)
        self._work = work._replace(unfinished=work.unfinished + n_judgements)
        self.tally.expect(self._work.unfinished, self._work.finished)
        return self._work

    @contextlib.contextmanager
    def _open_judging(self) -> Iterator[Judging | None]:
        if self._judges is None:
            yield None
            return
        from harness.engine.judging import Judging

        session = self._session
        folder = self._job.folder
        with JsonLinesWriter(folder.path / JUDGEMENTS, folder.line_sealer()) as writer:
            yield Judging(
                self._judges,
                partial(bind, session),
                folder.attempts,
                writer,
                self.tally,
                self._job.model.reasoning,
                notices=session.notices,
                lost_attempts=ATTEMPTS in self._damaged_files,
            )

    def _count_earlier_sessions(self, plan: RunPlan, judging: Judging | None) -> None:
        """Count the payments and verdicts of earlier sessions."""
        assert plan.index is not None
        from harness.store.calls import read_calls  # NumPy takes 0.2 s to import

        self.tally.paid_before = read_calls(self._job.folder.attempts).paid_usd
        if not (judging and judging.decides):
            self.tally.record_earlier(plan.index)
        if plan.index.attempts.has_reply.any():
            self._session.answered.has_any = True
            self._session.earlier[self._job.model.where] = plan.first_answered_request

    @contextlib.contextmanager
    def _watchers(self, listener: Listener | None) -> Iterator[None]:
        """Let a listener, and the viewers of plug-ins, watch the session."""
        session = self._session
        with contextlib.ExitStack() as stack:
            if listener is not None:
                stack.enter_context(listener(self.tally, session.stop, session.notices))
            watch: Watch
            for watch in load_members("run_steps", "watch"):
                stack.enter_context(watch(self._job.folder, self.tally, session))
            yield

    def _report_notes(self, notes: dict[str, str], plan: RunPlan) -> None:
        reporter = self._session.notices.reporter
        for source, note in notes.items():
            reporter(source)(note)
        has_same_rules = self._manifest.scoring == SCORING_VERSION
        has_rows = overrides_method(self._job.task, Task.row_fields)
        if self._work.unfinished and has_rows and not has_same_rules:
            reporter("scoring")(
                "The earlier answers were scored by an earlier version, which read some numbers, "
                "choices and scripts otherwise. To score all by the same rules, add "
                f"{option('rescore')}."
            )
        if plan.index is not None:
            reporter("model, reasoning")(reasoning_warning(plan.index, self._job.model.reasoning))

    def _report_problems(self, recorder: AttemptRecorder) -> None:
        reporter = self._session.notices.reporter
        for name, warning in warning_lines(recorder.score_warnings):
            reporter(name)(warning)
        if n_failed := self.tally.failed_judgements:
            reporter("judges")(
                f"{format_count(n_failed, 'judgement')} failed; the last error: "
                f"{self.tally.last_error.rstrip('.')}. Run again to repeat them."
            )

    def _observed_run(self) -> ObservedRun:
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

    def _build_runner(
        self,
        plan: RunPlan,
        recorder: AttemptRecorder,
        judging: Judging | None,
        stack: contextlib.ExitStack,
    ) -> SampleRunner:
        """Build the runner of samples. Closing ``stack`` ends its processes."""
        job = self._job
        session = self._session
        paraphraser: Rewriter | None = None
        user: Callable[[Instance[Any]], UserTurns] | None = None
        if job.paraphraser is not None:
            paraphraser = job.paraphraser.rewriter(bind(session, job.paraphraser.model))
        if job.user is not None:
            user = partial(job.user.turns, job.task, bind(session, job.user.model))
        report = session.notices.reporter("scoring")
        long_answers = LongAnswerAssessor(job.task, job.run, job.settings, report)
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

    async def _restore_attempts(self, runner: SampleRunner, workers: int) -> bool:
        """Restore lost answers from the cache, including those that were drawn again.

        Returns:
            False if an answer that was drawn again is known to be missing.
        """
        job = self._job
        session = self._session

        def read_plan() -> RunPlan:
            return self._read_plan(runner.judging, full=True)

        async def is_cached(request: Request) -> bool:
            return await session.has_replies(job.model, [request])

        manifest = job.folder.read_manifest()
        retried = retried_outcomes(manifest) | job.retried
        draws = CachedDraws(read_plan, retried, manifest.get(REPEATED_KEY))
        n_restored = -1
        while n_restored and not session.stop.requested:
            n_restored = 0
            samples = list(draws.next_samples())
            cache_runner = dataclasses.replace(runner, plan=draws.plan, accepts=is_cached)

            async def restore(
                sample: UnfinishedSample, cache_runner: SampleRunner = cache_runner
            ) -> None:
                nonlocal n_restored
                if rounds := await cache_runner.finish(sample):
                    n_restored += 1
                    self.tally.expected += 1
                    self.tally.finish_sample(rounds)

            await process_all(iter(samples), restore, workers=max(1, workers), stop=session.stop)
        return not (session.stop.requested or draws.has_missing())

    def _read_plan(self, judging: Judging | None, *, full: bool = False) -> RunPlan:
        """Return the plan of the unfinished work, with verdicts by judges if the run has any."""
        from harness.store.index import AttemptIndex  # NumPy takes 0.2 s to import

        plan = self._job.plan(full=full)
        if judging is None or plan.index is None:
            return plan
        return dataclasses.replace(plan, index=AttemptIndex(self._job.folder.attempts))

    def conclude(self, ending: Ending, problem: str) -> Metrics:
        """Record how the session ended, write the run's metrics, and report them to observers."""
        metrics = self._write_metrics(ending, problem)
        self._observers.run_ended(ending, metrics)
        return metrics

    def conclude_failed(self, error: BaseException) -> None:
        """Record that the session ended with an error, as far as possible."""
        ending: Ending = "interrupted" if isinstance(error, asyncio.CancelledError) else "failed"
        if isinstance(error, LinesLost):
            self._manifest.set_unfinished(max(1, self._job.folder.read_manifest().get("owed") or 0))
        metrics = None
        with contextlib.suppress(Exception):  # report the first error, not this one
            metrics = self._write_metrics(ending, _recorded_problem(error))
        self._observers.run_ended(ending, metrics)

    def _write_metrics(self, ending: Ending, problem: str) -> Metrics:
        from harness.analysis.summary import compute_metrics  # not needed before the first call

        folder = self._job.folder
        manifest = self._manifest
        gc.collect()  # frees memory for reading the attempts
        manifest.end_session(ending, problem)
        if self._damaged_files or UNRECORDED_KEY in folder.read_manifest():
            manifest.update({UNRECORDED_KEY: self._session.unrecorded_calls(folder)})
        counts = self._record_losses()
        write_aggregates(folder.attempts, self._job.task)
        metrics = compute_metrics(folder)
        write_atomically(folder.metrics, encode_metrics(metrics))
        manifest.record_states(counts)
        return metrics

    def _record_losses(self) -> dict[str, object]:
        """Record which damaged files still lack lines.

        Returns:
            The numbers of repeated judgements and answers, by the manifest's key, if no file lacks
            lines. A later session can thereby notice lost repetitions.
        """
        from harness.store.index import (
            AttemptIndex,
            count_run_redraws,
            lacks_judgements,
            read_attempts,
        )

        folder = self._job.folder
        if self._damaged_files:
            incomplete = {*self._files_to_restore}
            if JUDGEMENTS in self._damaged_files and lacks_judgements(folder):
                incomplete.add(JUDGEMENTS)
            n_samples = read_attempts(folder.attempts).sample_starts().sum()
            if ATTEMPTS in self._damaged_files and n_samples < self._manifest.finished_before:
                incomplete.add(ATTEMPTS)
            self._manifest.record_incomplete(incomplete)
        content = folder.read_manifest()
        counts: dict[str, object] = {}
        if incomplete_files(content):
            return counts
        if REDRAWS_KEY in content:
            counts[REDRAWS_KEY] = count_run_redraws(folder)
        if retried_outcomes(content):
            counts[REPEATED_KEY] = AttemptIndex(folder.attempts, judges=False).n_repeated
        return counts


NamedListener = Callable[[str, Tally, Stop, Notices], AbstractContextManager[Any]]
"""A `Listener` to several runs, which also takes the name of the run."""


class Execution(NamedTuple):
    """How a run ended in this command: with a result or, if the run itself failed, an error."""

    job: Job
    result: SessionResult | None
    error: HarnessError | None = None

    @property
    def is_detached(self) -> bool:
        """Whether the run has ended early because all its calls are with the provider."""
        deferral = self.job.model.deferral
        was_interrupted = self.result is not None and self.result.ending == "interrupted"
        return was_interrupted and deferral is not None and deferral.detaches


async def execute_all(
    jobs: Sequence[Job], listener: NamedListener, interrupted: Callable[[], bool]
) -> AsyncIterator[Execution]:
    """Execute runs, and yield how each ended.

    If one of several runs fails, the others are executed nevertheless. If a run is interrupted or
    spends the budget, no other is started.

    Args:
        jobs: The runs.
        listener: Watches the runs.
        interrupted: Returns whether the user has interrupted the command.

    Raises:
        HarnessError: If the only run fails, or a failure affects all runs.
    """
    for job in jobs:
        try:
            execution = Execution(job, await execute(job, partial(listener, job.folder.name)))
        except HarnessError as error:
            if len(jobs) == 1 or isinstance(error, AFFECTS_ALL_RUNS):
                raise
            execution = Execution(job, None, error)
        yield execution
        ended_early = execution.result is not None and execution.result.ending != "finished"
        if interrupted() or (ended_early and not execution.is_detached):
            return


OBJECTS_BETWEEN_COLLECTIONS = 50_000


@contextlib.contextmanager
def infrequent_garbage_collection() -> Iterator[None]:
    """Collect cyclic garbage less often within a ``with`` block.

    With Python's default threshold, nearly all collections found nothing, but took a third of a
    run's CPU time. Objects that exist already are not examined, which would take 0.1 s.
    """
    thresholds = gc.get_threshold()
    is_frozen = gc.get_freeze_count() > 0
    if thresholds[0]:  # 0 means never
        gc.set_threshold(max(thresholds[0], OBJECTS_BETWEEN_COLLECTIONS), *thresholds[1:])
    if not is_frozen:
        gc.freeze()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        if not is_frozen:
            gc.unfreeze()
