"""Does the work of a run.

Some errors in the data appear only here, before the first call.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.analysis.run_display import recorded_display
from harness.engine import models
from harness.engine.assessment import ScoreWarnings, warning_lines, warnings_of
from harness.engine.call_stack import bind
from harness.engine.changes import check_changes
from harness.engine.checks import check_splitter
from harness.engine.crashes import HeldCrashes
from harness.engine.heartbeat import Heartbeat
from harness.engine.inline_rows import with_own_rows
from harness.engine.job import Job
from harness.engine.long_answers import LongAnswers
from harness.engine.observing import Observation, observed_run
from harness.engine.plan import OwedSample, Work
from harness.engine.pool import rare_collections, work_off
from harness.engine.progress import Ending, Listener, Tally, Verdicts
from harness.engine.reasoning import unseparated
from harness.engine.remote import uploaded
from harness.engine.samples import Samples
from harness.engine.session import Session, open_session
from harness.errors import ConfigError, DataInvalid, DataMissing, HarnessError, option
from harness.ports import Measured, Rowed
from harness.records import SCORING_VERSION, Attempt
from harness.store.aggregates import write_aggregates
from harness.store.files import write_whole
from harness.store.json_lines import JsonLinesWriter, LinesLost
from harness.store.manifest import Manifest
from harness.store.run_folder import RunFolder, unnoticed
from harness.wording import count_of

if TYPE_CHECKING:
    from harness.analysis.metrics import Metrics
    from harness.engine.judges import Judges
    from harness.engine.judging import Judging
    from harness.engine.paraphrase import Paraphraser
    from harness.engine.played_user import PlayedUser


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
        uploaded(job.remote, folder, session),
    ):
        with rare_collections():
            rescored = None
            changes = check_changes(job)  # again, now that the folder is locked
            judges = _registered_judges(job)
            if changes:
                from harness.engine.rescoring import rescore  # not imported for most runs

                rescored = rescore(job)
            run = with_own_rows(run, folder, job.settings)
            folder.write_config(run)
            earlier_code = _earlier_code(job)  # before the manifest gets this session's fingerprint
            own = job.task.measure if isinstance(job.task, Measured) else None
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
            manifest.begin(sorted(job.retried), rescored._asdict() if rescored else {})
            observation = Observation(job.observers, session.notices)
            try:
                notes = {"": str(rescored)} if rescored else {}
                if earlier_code and not rescored:
                    notes["code"] = earlier_code
                if job.only is not None:  # a smaller limit than that of an earlier session
                    results = "The results cover all recorded answers"
                    notes["limit"] = f"{results}. This session adds to {job.only:,} instances."
                ended, tally = await _work(
                    job, judges, session, manifest, observation, listener, notes
                )
            except BaseException as error:
                interrupted = isinstance(error, asyncio.CancelledError)
                early: Ending = "interrupted" if interrupted else "failed"
                metrics = None
                if isinstance(error, LinesLost):
                    manifest.left(max(1, folder.read_manifest().get("owed") or 0))
                with contextlib.suppress(Exception):  # report the first error, not this one
                    metrics = _conclude(job, manifest, early, _problem(error))
                observation.run_ended(early, metrics)
                raise
            finally:
                job.data.release()
            metrics = _conclude(job, manifest, ended)
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
    if same or not work.owed or not isinstance(job.task, Rowed):
        return ""
    return (
        "The earlier answers were scored by an earlier version, which read some numbers, choices "
        f"and scripts otherwise. To score all by the same rules, add {option('rescore')}."
    )


def _registered_judges(job: Job) -> Judges | None:
    """Record the run's judges in its folder, and return them."""
    if not job.judges:
        return None
    from harness.engine.judges import Judges

    judges = Judges(job.task, job.judges, job.run.panels)
    judges.register(job.folder)
    return judges


async def _work(
    job: Job,
    judges: Judges | None,
    session: Session,
    manifest: Manifest,
    observation: Observation,
    listener: Listener | None,
    notes: Mapping[str, str],
) -> tuple[Ending, Tally]:
    """Make the missing judgements, then finish the samples."""
    stop, plan = session.stop, job.plan()
    work = job.work(plan)
    tally = Tally(rounds=job.run.rounds.max, budget=session.budget)
    judging: Judging | None = None
    paraphraser: Paraphraser | None = None
    user: PlayedUser | None = None
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(JsonLinesWriter(job.folder.attempts))
        if judges is not None:
            from harness.engine.judging import Judging

            reasoning = job.model.reasoning
            judging = stack.enter_context(
                Judging.of_run(judges, session, job.folder, tally, reasoning)
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
            from harness.engine.paraphrase import Paraphraser

            second = bind(session, job.paraphraser)
            paraphraser = Paraphraser(job.task, second, job.run.polish.prompt)
        if job.user is not None:
            from harness.engine.played_user import PlayedUser

            user = PlayedUser(job.task, job.user, bind(session, job.user.model))

        score_warnings = ScoreWarnings()

        def write(attempt: Attempt, passed: bool | None, before: Verdicts) -> None:
            writer.append(attempt)
            score_warnings.update(warnings_of(attempt.scores))
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
                    plan, before = await judging.caught_up(job, plan, session, workers), plan
                    if plan is not before:  # new verdicts may change which rounds are missing
                        work = work._replace(owed=len(judging.late) + plan.count()[1])
                    tally.expect(work.owed, work.already)
                model = bind(session, job.model)
                report = session.notices.status("scoring")
                long = LongAnswers(job.task, job.run, job.settings, report)
                stack.callback(long.close)
                record = crashes.record
                samples = Samples(plan, model, record, stop, judging, paraphraser, long, user)

                async def finish(sample: OwedSample) -> None:
                    tally.finish_sample(await samples.work(sample))

                await work_off(plan.owed(), finish, workers=workers, stop=stop)
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


def _problem(error: BaseException) -> str:
    """Return the text to record about an error, without an unexpected error's message."""
    if isinstance(error, HarnessError):
        return error.message
    if isinstance(error, asyncio.CancelledError):
        return ""
    return f"unexpected {type(error).__name__}"


def _conclude(job: Job, manifest: Manifest, ended: Ending, problem: str = "") -> Metrics:
    """Record how the session ended, and write and return the run's metrics."""
    from harness.analysis.metrics import to_json
    from harness.analysis.summary import measure  # not needed before the first call

    gc.collect()  # frees memory for reading the attempts
    manifest.end(ended, problem)
    write_aggregates(job.folder.attempts, job.task)
    metrics = measure(job.folder)
    manifest.close(metrics.n_attempts)
    write_whole(job.folder.metrics, to_json(metrics))
    return metrics
