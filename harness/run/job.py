"""One run: `prepare` checks its run file and builds its parts, and `execute` does the work.

Some errors in the data appear only in `execute`, before the first call.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.analysis.run_display import recorded_display
from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.errors import ConfigError, DataInvalid, DataMissing, HarnessError, RunConflict, option
from harness.ports import Fingerprinted, Measured, Observer, Rowed, Task
from harness.records import SCORING_VERSION, Attempt, Instance, content_hash
from harness.run import models
from harness.run.assessment import ScoreWarnings, warning_lines, warnings_of
from harness.run.checks import check_changes, check_splitter, check_supported
from harness.run.crashes import HeldCrashes, with_on_error
from harness.run.heartbeat import Heartbeat
from harness.run.long_answers import LongAnswers
from harness.run.observing import Observation, build_observers, observed_run
from harness.run.plan import HeldInstances, OwedSample, RunPlan, Work, run_instances
from harness.run.pool import rare_collections, work_off
from harness.run.progress import Ending, Listener, Tally, Verdicts
from harness.run.reasoning import unseparated
from harness.run.recordings import recording_hashes
from harness.run.remote import remote_runs, uploaded
from harness.run.resolving import build_task, code_hashes, resolved
from harness.run.run_files import with_own_rows
from harness.run.samples import Samples
from harness.run.session import Session, open_session
from harness.run.turns import user_role
from harness.store.aggregates import write_aggregates
from harness.store.files import write_whole
from harness.store.json_lines import JsonLinesWriter
from harness.store.manifest import Manifest
from harness.store.run_folder import RunFolder
from harness.store.runs import run_name

if TYPE_CHECKING:
    from harness.analysis.metrics import Metrics
    from harness.run.judges import JudgeModel  # not imported for a run without judges
    from harness.run.judging import Judging
    from harness.run.paraphrase import Paraphraser
    from harness.run.played_user import PlayedUser, UserModel
    from harness.run.shots import Shots
    from harness.store.remote import RemoteRuns  # needs the extra


class FileVariant(NamedTuple):
    """The place of a run in a run file with several variants."""

    name: str = ""  # of the variant; empty if there are no variants
    runs: Sequence[str] = ()  # names of all runs of the file, which share a budget
    listed: Sequence[str] = ()  # all variants of the file


ONLY_VARIANT = FileVariant()


@dataclass(frozen=True)
class Job:
    """One run, checked and ready to execute."""

    run: RunFile
    folder: RunFolder
    task: Task[Any]
    data: HeldInstances
    model: models.Model
    settings: Settings
    paraphraser: models.Model | None = None  # rewrites instructions and feedback (``polish``)
    user: UserModel | None = None  # plays the user in conversations
    judges: tuple[JudgeModel, ...] = ()
    shots: Shots | None = None
    # outcomes or finish reasons of attempts to retry
    retried: frozenset[str] = frozenset({"error"})
    variant: FileVariant = ONLY_VARIANT
    observers: Mapping[str, Observer] = field(default_factory=dict)  # by name
    rescore: bool = False  # if only the scoring has changed, score the run's answers again
    remote: RemoteRuns | None = None  # where the run is copied to as it grows
    only: int | None = None  # the number of instances to work on, if the run has a larger limit

    @property
    def models(self) -> list[models.Model]:
        """All models of the run."""
        second = [self.paraphraser] if self.paraphraser else []
        second += [self.user.model] if self.user else []
        return [self.model, *second, *(judge.model for judge in self.judges)]

    @property
    def instances(self) -> Iterable[Instance[Any]]:
        """The run's instances, in order of sampling."""
        return run_instances(self.run, self.data)

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        """Hashes and versions, by name, of all inputs of prompts and scores except the run file."""
        found = {**self.task.fingerprint(), **code_hashes(self.run)}
        found |= recording_hashes(self.run, self.settings)
        if isinstance(self.model.backend, Fingerprinted):
            found |= self.model.backend.fingerprint()
        if self.shots:
            found["shots_sha256"] = self.shots.fingerprint()
        if self.user is not None:
            found["user_prompt_sha256"] = self.user.prompt.sha256
            if isinstance(backend := self.user.model.backend, Fingerprinted):
                found |= {f"user_{key}": value for key, value in backend.fingerprint().items()}
            roles = {one.id: user_role(self.task, one) for one in self.data}
            found["users_hash"] = content_hash(roles)
        for judge in self.judges:
            hashes = judge.fingerprint.items()
            found |= {f"judge_{judge.name}_{key}": value for key, value in hashes}
        if other := {key: value for key, value in found.items() if not isinstance(value, str)}:
            raise ConfigError(
                f"The fingerprint of a plug-in of this run has values that are not text: {other}.",
                "Make them text, then check the plug-in with harness.testing.",
            )
        return found

    def plan(self, *, whole: bool = False) -> RunPlan:
        """Return the plan of the unfinished work in this session or, if ``whole``, in the run."""
        index = None
        if self.folder.begun():
            from harness.store.index import AttemptIndex  # NumPy takes 0.2 s to import

            index = AttemptIndex(self.folder.attempts, judges=False)
        features = self.model.backend.features
        instances = self.instances
        if self.only is not None and not whole:
            fewer = self.run.model_copy(update={"limit": self.only})
            instances = run_instances(fewer, self.data)
        return RunPlan(self.task, self.run, instances, index, features, self.retried, self.shots)

    def unanswerable(self) -> int:
        """Return for how many instances a simulated model knows no answer."""
        if not self.model.simulated:
            return 0
        return sum(self.task.reference(one) is None for one in self.instances)

    def work(self, plan: RunPlan) -> Work:
        """Return the amount of work in the run, given the plan of this session."""
        total, owed = plan.count()
        if self.only is None:
            return Work(total, owed)
        total, left = self.plan(whole=True).count()
        return Work(total, owed, left - owed)


@dataclass(frozen=True, slots=True)
class Result:
    """How a run's session ended, its progress counters, and the whole run's metrics."""

    metrics: Metrics
    ended: Ending
    tally: Tally


def prepare(
    run: RunFile,
    name: str,
    settings: Settings,
    *,
    resources: models.Resources | None = None,
    retried: Collection[str] = (),
    variant: FileVariant = ONLY_VARIANT,
    rescore: bool = False,
) -> Job:
    """Check a run file, and build its task, models, judges and shots.

    ``resources`` are shared with other runs of this process (default: new ones). Failed calls, and
    attempts whose outcome or finish reason is in ``retried``, are to be made again. ``variant`` is
    the run's place in a file of several runs. With ``rescore``, a run whose scoring alone has
    changed is scored again.
    """
    folder, remote = RunFolder(settings.runs_dir, name), remote_runs(settings)
    if remote is not None:
        remote.pull(folder)
    resources = resources or models.Resources(settings)
    run, only = resolved(run), None
    if folder.begun():
        limit, before = run.limit, folder.read_config().limit
        if limit is not None and (before is None or before > limit):
            run, only = run.model_copy(update={"limit": before}), limit
    task = build_task(run, settings)
    data = HeldInstances(task)
    asked = run_instances(run, data)
    builder = models.ModelBuilder(
        *(resources, run.limits, folder.servers, task, asked), run.folder, run.part
    )
    run, model = with_on_error(run, builder.build(run.model), folder)
    check_supported(run, model, task)
    paraphraser = builder.build(run.polish, "polish") if run.polish else None
    user = None
    judges: tuple[JudgeModel, ...] = ()
    shots = None
    if run.user:
        from harness.run.played_user import build_user

        user = build_user(run.user, builder, run.seed)
    if run.judges:
        from harness.run.judges import build_judges

        judges = build_judges(run, task, builder)
    if run.task.shots.n:
        from harness.run.shots import build_shots

        shots = build_shots(run, task, settings, folder, variant.runs)
    job = Job(
        *(run, folder, task, data, model, settings),
        paraphraser=paraphraser,
        user=user,
        judges=judges,
        shots=shots,
        retried=frozenset({"error", *retried}),
        variant=variant,
        observers=build_observers(settings),
        rescore=rescore,
        remote=remote,
        only=only,
    )
    if run.budget.usd is not None:
        models.check_prices(job.models, resources)
    check_changes(job)
    if shots is not None:
        shots.check(job.instances)
    return job


def prepare_all(
    runs: Mapping[str, RunFile],
    base: str,
    resources: models.Resources,
    retried: Collection[str] = (),
    only: str = "",
    *,
    rescore: bool = False,
    extends: bool = False,
) -> dict[str, Job]:
    """Prepare the runs of a file, and return them by variant.

    A run is named ``BASE.VARIANT``, or ``BASE`` in a file without variants. ``only`` selects one
    variant. ``extends`` says whether earlier runs of other variants still belong to these runs.

    Raises:
        RunConflict: If a run changed, or the base of new variants is the name of another run.
    """
    names = [run_name(base, variant) for variant in runs]
    root = resources.settings.runs_dir
    new = not any(RunFolder(root, name).exists() for name in names)
    if new and RunFolder(root, base).exists():
        problem = f"There is a run named {base!r}, so this name cannot stand for variants."
        raise RunConflict(problem, f"Choose another name ({option('name', 'NEW')}).")
    prepared = partial(prepare, resources=resources, retried=retried, rescore=rescore)
    jobs: dict[str, Job] = {}
    for name, (variant, run) in zip(names, runs.items(), strict=True):
        if only not in ("", variant):
            continue
        member = FileVariant(variant, names, () if extends else [*filter(None, runs)])
        settings = resources.settings
        try:
            jobs[variant] = job = prepared(run, name, settings, variant=member)
            job.fingerprint  # noqa: B018 (a missing package ends all runs before the first call)
        except ConfigError as error:
            where = f"Variant {variant!r}: " if variant else ""
            raise ConfigError(f"{where}{error.message}", error.remedy) from None
    return jobs


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
            if check_changes(job):  # again, now that the folder is locked
                from harness.run.rescoring import rescore  # not imported for most runs

                rescored = rescore(job)
            run = with_own_rows(run, folder, job.settings)
            folder.write_config(run)
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
                if job.only is not None:  # a smaller limit than that of an earlier session
                    results = "The results cover all recorded answers"
                    notes["limit"] = f"{results}. This session adds to {job.only:,} instances."
                ended, tally = await _work(job, session, manifest, observation, listener, notes)
            except BaseException as error:
                interrupted = isinstance(error, asyncio.CancelledError)
                early: Ending = "interrupted" if interrupted else "failed"
                metrics = None
                with contextlib.suppress(Exception):  # report the first error, not this one
                    metrics = _conclude(job, manifest, early, _problem(error))
                observation.run_ended(early, metrics)
                raise
            finally:
                job.data.release()
            metrics = _conclude(job, manifest, ended)
            observation.run_ended(ended, metrics)
            return Result(metrics, ended, tally)


def _mixed_scoring(job: Job, manifest: Manifest, work: Work) -> str:
    """Return a warning if a session would score by other rules than those before it, else ""."""
    same = manifest.scoring == SCORING_VERSION
    if same or not work.owed or not isinstance(job.task, Rowed):
        return ""
    return (
        "The earlier answers were scored by an earlier version, which read some numbers, choices "
        f"and scripts otherwise. To score all by the same rules, add {option('rescore')}."
    )


async def _work(
    job: Job,
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
        if job.judges:
            from harness.run.judges import Judges
            from harness.run.judging import Judging

            judges = Judges(job.task, job.judges, job.run.panels)
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
            from harness.run.paraphrase import Paraphraser

            second = session.bind(job.paraphraser)
            paraphraser = Paraphraser(job.task, second, job.run.polish.prompt)
        if job.user is not None:
            from harness.run.played_user import PlayedUser

            user = PlayedUser(job.task, job.user, session.bind(job.user.model))

        score_warnings = ScoreWarnings()

        def write(attempt: Attempt, passed: bool | None, before: Verdicts) -> None:
            writer.append(attempt)
            score_warnings.update(warnings_of(attempt.scores))
            tally.record(attempt, passed, before)
            observation.attempt(attempt)

        if plan.index is not None and plan.index.attempts.replied.any():
            session.answered.any = True
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
                model = session.bind(job.model)
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
            f"{failed:,} judgement{'s' * (failed != 1)} failed; the last error: "
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
