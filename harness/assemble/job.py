"""One run, from its run file to its metrics."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any, Literal

from harness.analysis.metrics import Metrics, to_json
from harness.assemble.call_stack import Session, call_stack
from harness.assemble.few_shot import build_shots
from harness.assemble.measuring import measure
from harness.assemble.parts import (
    Model,
    Rates,
    build_model,
    build_task,
    refuse_unpriced,
    refuse_unsupported,
    resolved,
    state_limits,
)
from harness.config.prices import load_prices
from harness.config.run_file import RunFile
from harness.config.settings import Settings, secret
from harness.errors import ConfigError
from harness.middleware.budget import Budget
from harness.middleware.cache.reply_file import ReplyFile
from harness.middleware.key import call_key
from harness.middleware.notices import Notices
from harness.middleware.stopping import Stop
from harness.ports import Task
from harness.records import Decoding, Outcome, Request
from harness.schedule.outlook import Outlook, foresee
from harness.schedule.plan import Plan
from harness.schedule.polish import Polisher
from harness.schedule.runner import Runner
from harness.schedule.shots import Shots
from harness.schedule.tally import Tally
from harness.store.attempts import AttemptWriter
from harness.store.ledger import Ledger
from harness.store.manifest import Manifest
from harness.store.reader import read_payments
from harness.store.run_folder import RunFolder, write_whole

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

    @property
    def simulated(self) -> bool:
        """Whether no model is asked at all."""
        return "simulated" in self.model.backend.features

    @property
    def models(self) -> list[Model]:
        """Every model of the run."""
        return [self.model, *([self.polish] if self.polish else [])]


@dataclass(frozen=True, slots=True)
class Result:
    """How a session on a run ended, and the run's metrics then."""

    metrics: Metrics
    ended: Ending


def prepare(
    run: RunFile,
    name: str,
    settings: Settings,
    *,
    secret: Callable[[str], str] = secret,
    rates: Rates | None = None,
    retried: Collection[Outcome] = (),
    sharing: Sequence[str] = (),
    variant: str = "",
) -> Job:
    """Check a run file against its plug-ins, data, secrets and an earlier run of its name.

    rates: of this process, where other runs of it use the same models.
    retried: outcomes whose attempts are made again, besides failed ones.
    sharing: names of the runs that the budget is shared with: the variants of one file.
    variant: which of them this one is.

    Raises: a `harness.errors.UserError`.
    """
    folder = RunFolder(settings.runs_dir, name)
    run = resolved(run)
    task = build_task(run, settings)
    prices, rates = load_prices(settings.prices), rates or Rates()

    def model(section: Any) -> Model:
        return build_model(section, run, task, settings, prices=prices, rates=rates, secret=secret)

    first = model(run.model)
    refuse_unsupported(run, first.backend, task)
    second = None
    if run.polish is not None:
        if not hasattr(task, "kept"):
            raise ConfigError(
                f"The task {run.task.name!r} does not say what a polishing must keep.",
                "Remove polish from the run file.",
            )
        if not run.polish.name:
            raise ConfigError("polish.name is missing.", "Name the model that rewrites.")
        second = model(run.polish)
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
    )
    if run.budget.usd is not None:
        refuse_unpriced(run, job.models, prices)
    if folder.begun():
        folder.check_continues(run, fingerprint(job), resolved)
    if job.shots is not None:
        job.shots.check(_plan(job).instances)
    return job


def fingerprint(job: Job) -> dict[str, str]:
    """What a run's prompts and scores depend on, beside its run file."""
    return {**job.task.fingerprint(), **(job.shots.fingerprint() if job.shots else {})}


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
            measure=getattr(job.task, "measure", None),
            variant=job.variant,
        )
        manifest.begin(sorted(job.retried))
        ended: Ending = "failed"
        try:
            ended = await _work(job, manifest, watch)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                ended = "interrupted"
            with contextlib.suppress(Exception):  # the first error is the one to tell
                _conclude(folder, manifest, ended)
            raise
        return Result(_conclude(folder, manifest, ended), ended)


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


async def _work(job: Job, manifest: Manifest, watch: Watch | None) -> Ending:
    run, folder, stop, notices = job.run, job.folder, Stop(), Notices()
    paid = any(model.backend.cacheable for model in job.models)
    try:
        with (
            AttemptWriter(folder.attempts) as writer,
            ReplyFile(replies_path(job.settings), notice=notices.teller("cache"))
            if paid
            else nullcontext() as replies,
        ):
            budget = _budget(job, manifest.id, replies, stop)
            state_limits(job.models)  # now, and not before: another variant may have stated its own
            session = Session(manifest.id, stop, notices, replies, budget)
            ledger = Ledger(folder.attempts)
            plan = _plan(job)
            total, owed = plan.count(ledger)
            manifest.plan(total, owed)
            tally = Tally(owed, total - owed, budget=budget)
            runner = Runner(
                plan,
                call_stack(job.model, session),
                ledger=ledger,
                writer=writer,
                tally=tally,
                stop=stop,
                cost=job.model.cost,
                polish=_polisher(job, session),
            )
            try:
                with watch(tally, stop, notices) if watch else nullcontext():
                    await runner.run(workers=WORKERS_PER_SLOT * run.limits.concurrency)
            finally:
                manifest.left(tally.owed - tally.finished)
    finally:
        for model in job.models:
            await model.backend.aclose()
    if tally.finished == tally.owed:
        return "finished"
    return "budget" if budget is not None and budget.ended else "interrupted"


def _plan(job: Job) -> Plan:
    sends_seed = "seed" in job.model.backend.features
    return Plan(job.task, job.run, sends_seed, job.retried, job.shots)


def _budget(job: Job, run_id: str, replies: ReplyFile | None, stop: Stop) -> Budget | None:
    usd = job.run.budget.usd
    if usd is None or replies is None:
        return None
    runs = [(job.folder, run_id), *((folder, folder.run_id()) for folder in job.sharing)]
    paid = [_paid(folder, replies.booked(name or "")) for folder, name in runs]
    return Budget(usd, fsum(spent for spent, _ in paid), stop, unsure=fsum(u for _, u in paid))


def _paid(folder: RunFolder, booked: Mapping[bytes, float]) -> tuple[float, float]:
    """What a run has spent, and how much of that is for calls without an answer.

    The book knows the calls that failed and may be billed. It is in the cache,
    which may have been cleared, and begins with the budget, which may have been
    set later: the calls that it lacks are in the attempts.
    """
    recorded = read_payments(folder.attempts)
    unsure = fsum(usd for key, usd in booked.items() if key not in recorded)
    known = fsum(booked.get(key, usd) for key, usd in recorded.items())
    return known + unsure, unsure


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


def foresee_job(job: Job, before: Collection[str] = ()) -> Outlook:
    """What a job would do; no provider is asked, and no reply or attempt is written.

    before: names of calls that will have been made by then, by the variants that come first.
    """
    backend = job.model.backend
    by_instance = "by_instance" in backend.features

    def key(request: Request) -> str:
        return call_key(job.run.model.backend, backend.endpoint, request, by_instance=by_instance)

    plan = _plan(job)
    ledger = Ledger(job.folder.attempts)
    price = job.model.price.cost if job.model.price else None
    path = replies_path(job.settings)
    if not backend.cacheable:
        return foresee(plan, ledger, key, lambda _: False, price)
    if not path.exists():
        return foresee(plan, ledger, key, lambda name: name in before, price)
    with ReplyFile(path) as replies:
        return foresee(
            plan,
            ledger,
            key,
            lambda name: name in before or replies.get(name) is not None,
            price,
        )
