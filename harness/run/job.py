"""One run, from its run file to its metrics."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harness.analysis.metrics import Metrics, to_json
from harness.backends._processes import OwnedServers
from harness.calls.reply_cache import ReplyCache
from harness.calls.signals import Notices, Stop
from harness.config.prices import load_prices
from harness.config.run_file import RunFile
from harness.config.settings import Settings, secret
from harness.errors import ConfigError
from harness.ports import OWN_DRAWS, Fingerprinted, Measured, Paraphrasable, Task
from harness.records import Decoding, Outcome
from harness.run.call_stack import Session, call_stack
from harness.run.few_shot import build_shots
from harness.run.measuring import measure
from harness.run.parts import (
    Model,
    Rates,
    build_model,
    build_task,
    owned_servers,
    refuse_unbounded,
    refuse_unpriced,
    resolved,
    state_limits,
)
from harness.run.plan import Plan
from harness.run.polish import Polisher
from harness.run.runner import Runner
from harness.run.shots import Shots
from harness.run.spending import budget_of
from harness.run.tally import Tally
from harness.run.unsupported import refuse_unsupported
from harness.store.files import write_whole
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from harness.store.manifest import Manifest
from harness.store.run_folder import RunFolder

if TYPE_CHECKING:
    from harness.run.judges import JudgeModel  # a run without judges spares the import
    from harness.run.judging import Judging

Ending = Literal["finished", "interrupted", "budget", "failed"]
"""How a session ends; ``budget``: what is left of it cannot pay for the next call."""

WORKERS_PER_SLOT = 4
"""Workers for each call in flight.

A worker that backs off, or waits for the same call of another, holds no slot:
there must be others to use it.
"""

OBJECTS_BETWEEN_COLLECTIONS = 50_000

POLISH_TOKENS = 2000
"""Most tokens of a polished text."""

Watch = Callable[[Tally, Stop, Notices], AbstractContextManager[Any]]
"""Shows a run's progress while it is entered, and may stop the run."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run, checked as far as it can be before any work.

    retried: outcomes whose attempts are made again.
    sharing: runs that the budget is shared with (the other variants of a file).
    variant: of its file; empty where that has none.
    shots: of a few-shot run, None for a zero-shot one.
    judges: in the order of the run file.
    """

    run: RunFile
    folder: RunFolder
    task: Task[Any]
    model: Model
    settings: Settings
    polish: Model | None = None
    retried: frozenset[Outcome] = frozenset({"error"})
    sharing: tuple[RunFolder, ...] = ()
    variant: str = ""
    shots: Shots | None = None
    judges: tuple[JudgeModel, ...] = ()

    @property
    def simulated(self) -> bool:
        """Whether answers are made up: the model's, or a judge's."""
        judging = [judge.model for judge in self.judges]
        return any("simulated" in model.backend.features for model in (self.model, *judging))

    @property
    def models(self) -> list[Model]:
        """Every model of the run."""
        polish = [self.polish] if self.polish else []
        return [self.model, *polish, *(judge.model for judge in self.judges)]

    @property
    def workers(self) -> int:
        """How many work at it: a worker awaits the judges of its attempt, too."""
        judging = sum(judge.model.limits.concurrency for judge in self.judges)
        return WORKERS_PER_SLOT * (self.model.limits.concurrency + judging)


@dataclass(frozen=True, slots=True)
class Result:
    """How a session on a run ended, and the run's metrics then.

    failed_judgements: of this session: calls of judges that failed.
    """

    metrics: Metrics
    ended: Ending
    failed_judgements: int = 0


def prepare(
    run: RunFile,
    name: str,
    settings: Settings,
    *,
    secret: Callable[[str], str] = secret,
    rates: Rates | None = None,
    servers: OwnedServers | None = None,
    retried: Collection[Outcome] = (),
    sharing: Sequence[str] = (),
    variant: str = "",
) -> Job:
    """Check a run file against its plug-ins, data, secrets and an earlier run of its name.

    rates, servers: of this process, where other runs of it use the same models.
    retried: outcomes whose attempts are made again, besides failed ones.
    sharing: names of the runs that the budget is shared with: the variants of one file.
    variant: which of them this one is.

    Raises: a `harness.errors.UserError`.
    """
    folder = RunFolder(settings.runs_dir, name)
    run = resolved(run)
    task = build_task(run, settings)
    prices, rates = load_prices(settings.prices), rates or Rates()
    servers = servers or owned_servers(settings)

    def model(section: Any, where: str = "model", reply: Any = None) -> Model:
        return build_model(
            *(section, run, task, settings),
            prices=prices,
            rates=rates,
            secret=secret,
            servers=servers,
            logs=folder.servers,
            where=where,
            reply=reply,
        )

    first = model(run.model)
    refuse_unsupported(run, first.backend, task)
    second = None
    if run.polish is not None:
        if not isinstance(task, Paraphrasable):
            raise ConfigError(
                f"The task {run.task.name!r} does not say what a polishing must keep.",
                "Remove polish from the run file.",
            )
        if not run.polish.name:
            raise ConfigError("polish.name is missing.", "Name the model that rewrites.")
        second = model(run.polish, "polish")
    judges: tuple[JudgeModel, ...] = ()
    if run.judges:
        from harness.run.judges import build_judge, check_panels, registered_judge

        judges = tuple(
            build_judge(section, run.task.name, task, model, settings.runs_dir)
            for section in run.judges
        )
        registered = {judge.name: registered_judge(judge, decides=True) for judge in judges}
        check_panels(run.panels, registered)
    job = Job(
        run,
        folder,
        task,
        first,
        settings,
        second,
        retried=frozenset({"error", *retried}),
        sharing=tuple(RunFolder(settings.runs_dir, other) for other in sharing if other != name),
        variant=variant,
        shots=build_shots(run, task, settings, folder, sharing),
        judges=judges,
    )
    if run.budget.usd is not None:
        refuse_unpriced(job.models, prices)
        refuse_unbounded(run, first)
    if folder.begun():
        folder.check_continues(run, fingerprint(job), resolved)
    if job.shots is not None:
        job.shots.check(plan_of(job).instances)
    return job


def fingerprint(job: Job) -> dict[str, str]:
    """What a run's prompts and scores depend on, beside its run file."""
    backend = job.model.backend
    return {
        **job.task.fingerprint(),
        **(backend.fingerprint() if isinstance(backend, Fingerprinted) else {}),
        **(job.shots.fingerprint() if job.shots else {}),
        **{
            f"judge_{judge.name}_{key}": value
            for judge in job.judges
            for key, value in judge.fingerprint.items()
        },
    }


def replies_path(settings: Settings) -> Path:
    """Where the paid replies of all runs are."""
    return settings.cache_dir / "replies.sqlite"


async def execute(job: Job, watch: Watch | None = None) -> Result:
    """Do what a run owes, then write its metrics.

    The metrics are written however the session ends, by an error too.

    watch: shows the progress.

    Raises: a `harness.errors.HarnessError`; everything answered so far is kept.
    """
    folder = job.folder
    with folder.hold(), _rare_collections():
        if folder.begun():  # again, now that nobody else can begin it
            folder.check_continues(job.run, fingerprint(job), resolved)
        folder.write_config(job.run)
        manifest = Manifest(
            folder,
            job.run,
            fingerprint(job),
            simulated=job.simulated,
            measure=job.task.measure if isinstance(job.task, Measured) else None,
            variant=job.variant,
        )
        manifest.begin(sorted(job.retried))
        ended: Ending = "failed"
        try:
            ended, unjudged = await _work(job, manifest, watch)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                ended = "interrupted"
            with contextlib.suppress(Exception):  # the first error is the one to tell
                _conclude(folder, manifest, ended)
            raise
        return Result(_conclude(folder, manifest, ended), ended, unjudged)


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for garbage in cycles less often while entered.

    By default Python looks after every 700 new objects. The calls in flight hold
    many times that, and so nearly all of a look finds nothing and all modules are
    walked over and over: a third of a run's CPU time.
    """
    first, *others = gc.get_threshold()
    if first:  # 0 is: never
        gc.set_threshold(max(first, OBJECTS_BETWEEN_COLLECTIONS), *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)


def _conclude(folder: RunFolder, manifest: Manifest, ended: Ending) -> Metrics:
    gc.collect()  # what the calls have left in cycles is room for the reading of the attempts
    manifest.end(ended)
    metrics = measure(folder)
    write_whole(folder.metrics, to_json(metrics))
    return metrics


async def _work(job: Job, manifest: Manifest, watch: Watch | None) -> tuple[Ending, int]:
    """How it ended, and how many judgements failed."""
    run, folder, stop, notices = job.run, job.folder, Stop(), Notices()
    paid = any(model.backend.cacheable for model in job.models)
    try:
        with (
            JsonLinesWriter(folder.attempts) as writer,
            ReplyCache(replies_path(job.settings), notice=notices.status("cache"))
            if paid
            else nullcontext() as replies,
            contextlib.ExitStack() as stack,
        ):
            sharing = [(shared, shared.run_id() or "") for shared in job.sharing]
            runs = [(folder, manifest.id), *sharing]
            budget = budget_of(run.budget.usd, runs, replies, stop)
            state_limits(job.models)  # now, and not before: another variant may have stated its own
            session = Session(manifest.id, stop, notices, replies, budget)
            ledger = AttemptIndex(folder.attempts, judges=False)
            plan = plan_of(job)
            total, owed = plan.count(ledger)
            tally = Tally(owed, total - owed, budget=budget)
            judging = _judging(job, session, tally, stack) if job.judges else None
            if judging is not None:
                late = judging.late
                tally.owed, tally.already = owed + late, max(0, total - owed - late)
            manifest.plan(total, tally.owed)
            try:
                with watch(tally, stop, notices) if watch else nullcontext():
                    if judging is not None:
                        _foretell(job, plan, notices)
                        plan = await _caught_up(job, judging, plan, ledger, tally)
                    runner = Runner(
                        plan,
                        call_stack(job.model, session),
                        ledger=ledger,
                        writer=writer,
                        tally=tally,
                        stop=stop,
                        cost=job.model.cost,
                        polish=_polisher(job, session),
                        judging=judging,
                    )
                    await runner.run(workers=job.workers)
            finally:
                manifest.left(tally.owed - tally.finished)
            if judging is not None and judging.failed:
                notices.status("judges")(judging.told())
    finally:
        for model in job.models:
            await model.backend.aclose()
    unjudged = judging.failed if judging is not None else 0
    if tally.finished == tally.owed:
        return "finished", unjudged
    return "budget" if budget is not None and budget.ended else "interrupted", unjudged


def _judging(job: Job, session: Session, tally: Tally, stack: contextlib.ExitStack) -> Judging:
    """The judges of a run at work; their file is open for as long as the stack is."""
    from harness.run.judges import judging, register_judges

    register_judges(job.folder, job.task, job.judges, job.run.panels)
    return judging(job.folder, job.task, job.judges, session, tally, stack, job.run.panels)


def _foretell(job: Job, plan: Plan, notices: Notices) -> None:
    """Say what judges tell beforehand, before anything is paid for."""
    from harness.run.judges import foretold

    for name, text in foretold(job.task, job.judges, plan.instances):
        notices.status(f"judge {name}")(text)


async def _caught_up(
    job: Job, judging: Judging, plan: Plan, ledger: AttemptIndex, tally: Tally
) -> Plan:
    """The plan, once all that is there has been judged: that may say what more is owed."""
    late = judging.late
    await judging.catch_up(job.task, job.workers)
    if not judging.decides or job.run.rounds.max == 1 or not len(ledger):
        return plan
    plan = replace(plan, passed=AttemptIndex(job.folder.attempts).passed)
    tally.owed = late + plan.count(ledger)[1]
    return plan


def plan_of(job: Job) -> Plan:
    """What a job has to do."""
    features = job.model.backend.features
    return Plan(
        job.task,
        job.run,
        "seed" in features,
        job.retried,
        job.shots,
        own_draws=OWN_DRAWS in features,
    )


def _polisher(job: Job, session: Session) -> Polisher | None:
    """The polisher of a run, None where it has none."""
    model = job.polish
    if model is None:
        return None
    features = model.backend.features
    decoding = Decoding(
        temperature=0.0 if "temperature" in features else None,
        max_tokens=POLISH_TOKENS if "max_tokens" in features else None,
    )
    return Polisher(call_stack(model, session), model.section.name, decoding, model.cost)
