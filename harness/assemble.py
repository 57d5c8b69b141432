"""The only place that names concrete parts together: from a run file to a finished run.

>>> run = load(Path("configs/quickstart.yaml"))[""]  # doctest: +SKIP
>>> asyncio.run(execute(prepare(run, "quickstart", Settings()))).ended  # doctest: +SKIP
'finished'
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from harness.analysis.metrics import Metrics, to_json
from harness.analysis.summary import summarise
from harness.config.run_file import ModelSection, RunFile, TaskSection
from harness.config.settings import Settings, secret
from harness.datasets.folder import DataFolder, read_jsonl
from harness.errors import ConfigError
from harness.middleware.calls import Calls, FreeCalls, PaidCalls
from harness.middleware.concurrency import Concurrency
from harness.middleware.key import call_key
from harness.middleware.reply_file import ReplyFile
from harness.middleware.retry import Retry
from harness.middleware.stopping import Stop
from harness.plugins import kind
from harness.ports import Backend, Task
from harness.records import Call, Decoding, Request
from harness.schedule.outlook import Outlook, foresee
from harness.schedule.plan import Plan
from harness.schedule.polish import Polisher
from harness.schedule.runner import Runner
from harness.schedule.tally import Tally
from harness.store.attempts import AttemptWriter
from harness.store.ledger import Ledger
from harness.store.manifest import Manifest
from harness.store.reader import read_columns
from harness.store.run_folder import RunFolder, write_whole

Ending = Literal["finished", "interrupted", "failed"]

WORKERS_PER_SLOT = 4
"""Workers for each call in flight.

A worker that backs off, or waits for the same call of another, holds no slot:
there must be others to use it.
"""

POLISH_TOKENS = 2000
"""Most tokens of a polished text."""

Watch = Callable[[Tally, Stop], AbstractContextManager[Any]]
"""Shows a run's progress while it is entered, and may stop the run."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run, checked as far as it can be before any work."""

    run: RunFile
    folder: RunFolder
    task: Task[Any]
    backend: Backend
    settings: Settings
    polish: Backend | None = None

    @property
    def simulated(self) -> bool:
        """Whether no model is asked at all."""
        return "simulated" in self.backend.features


@dataclass(frozen=True, slots=True)
class Result:
    """How a session on a run ended, and the run's metrics then."""

    metrics: Metrics
    ended: Ending


def build_task(run: RunFile, settings: Settings) -> Task[Any]:
    """The task of a run file.

    Raises: ConfigError; DataMissing.
    """
    task: Task[Any] = kind("tasks").build(
        run.task.name, run.task.options, data=DataFolder(settings.data_dir)
    )
    return task


def build_backend(
    model: ModelSection,
    run: RunFile,
    task: Task[Any],
    settings: Settings,
    *,
    secret: Callable[[str], str] = secret,
) -> Backend:
    """The backend of a model that a run file names.

    Raises: ConfigError; SecretMissing; DataMissing.
    """
    data = DataFolder(settings.data_dir)
    backend: Backend = kind("backends").build(
        model.backend,
        model.options,
        secret=secret,
        read=lambda name: read_jsonl(data.file(name)),
        gold=_Golds(task),
        concurrency=run.limits.concurrency,
        timeout_s=run.limits.timeout_s,
        model=model.name,
    )
    return backend


class _Golds:
    """Gold answers by instance id; the task is read when the first is asked for."""

    def __init__(self, task: Task[Any]) -> None:
        self._task = task
        self._golds: dict[str, str | None] | None = None

    def __call__(self, instance: str) -> str | None:
        if self._golds is None:
            self._golds = {item.id: self._task.gold(item) for item in self._task.instances()}
        return self._golds.get(instance)


def prepare(
    run: RunFile,
    name: str,
    settings: Settings,
    *,
    secret: Callable[[str], str] = secret,
) -> Job:
    """Check a run file against its plug-ins, data, secrets and an earlier run of its name.

    Raises: a `harness.errors.UserError`.
    """
    folder = RunFolder(settings.runs_dir, name)
    run = _resolved(run)
    task = build_task(run, settings)
    backend = build_backend(run.model, run, task, settings, secret=secret)
    refuse_unsupported(run, backend)
    polish = None
    if run.polish is not None:
        if not hasattr(task, "kept"):
            raise ConfigError(
                f"The task {run.task.name!r} does not say what a polishing must keep.",
                "Remove polish from the run file.",
            )
        if not run.polish.name:
            raise ConfigError("polish.name is missing.", "Name the model that rewrites.")
        polish = build_backend(run.polish, run, task, settings, secret=secret)
    if folder.begun():
        folder.check_continues(run, task.fingerprint(), _resolved)
    return Job(run, folder, task, backend, settings, polish)


def refuse_unsupported(run: RunFile, backend: Backend) -> None:
    """Refuse what the backend does not take: nothing is dropped in silence.

    The run's seed is no decoding parameter: it also orders and simulates, and
    is sent where a provider takes one.

    Raises: ConfigError naming the key.
    """
    name = run.model.backend
    if backend.cacheable and not run.model.name:
        raise ConfigError(f"The backend {name!r} needs model.name.", "Name the model to ask.")
    refused = sorted(run.decoding.given().keys() - backend.features)
    if refused:
        keys = ", ".join(f"decoding.{key}" for key in refused)
        raise ConfigError(
            f"The backend {name!r} does not take {keys} (here: {backend.endpoint or 'offline'}).",
            "Remove it from the run file; docs/providers.md says what each one takes.",
        )
    if "max_tokens_required" in backend.features and run.decoding.max_tokens is None:
        raise ConfigError(f"The backend {name!r} needs decoding.max_tokens.", "Set it.")
    if "conversation" not in backend.features and run.rounds.max > 1:
        raise ConfigError(
            f"The backend {name!r} takes one prompt and no conversation.", "Set rounds.max to 1."
        )


def _resolved(run: RunFile) -> RunFile:
    """The run file with the defaults of its plug-ins' options filled in."""
    task = _options("tasks", run.task.name, run.task.options)
    return run.model_copy(
        update={
            "task": TaskSection(name=run.task.name, shots=run.task.shots, **task),
            "model": _resolved_model(run.model),
            "polish": _resolved_model(run.polish) if run.polish else None,
        }
    )


def _resolved_model(model: ModelSection) -> ModelSection:
    options = _options("backends", model.backend, model.options)
    return ModelSection(backend=model.backend, name=model.name, **options)


def _options(kind_name: str, name: str, options: dict[str, Any]) -> dict[str, Any]:
    checked: BaseModel = kind(kind_name).options(name, options)
    return checked.model_dump(mode="json")


@contextlib.contextmanager
def _calls(job: Job, backend: Backend, name: str, stop: Stop) -> Iterator[Calls]:
    """The call stack of a model, with slots of its own.

    name: the backend's.
    """
    limits = job.run.limits
    slots = Concurrency(backend, stop, most=limits.concurrency, timeout_s=limits.timeout_s)
    ask = Retry(slots, attempts=limits.attempts, sleep=stop.sleep)
    if not backend.cacheable:
        by_instance = "by_instance" in backend.features
        yield FreeCalls(ask, backend=name, endpoint=backend.endpoint, by_instance=by_instance)
        return
    with ReplyFile(replies_path(job.settings)) as replies:
        yield PaidCalls(ask, backend=name, endpoint=backend.endpoint, replies=replies)


@contextlib.contextmanager
def _polisher(job: Job, stop: Stop) -> Iterator[Polisher | None]:
    """The polisher of a run, None where it has none."""
    section, backend = job.run.polish, job.polish
    if section is None or backend is None:
        yield None
        return
    decoding = Decoding(
        temperature=0.0 if "temperature" in backend.features else None,
        max_tokens=POLISH_TOKENS if "max_tokens" in backend.features else None,
    )
    with _calls(job, backend, section.backend, stop) as calls:
        yield Polisher(calls, section.name, decoding, _cost(backend))


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
    with folder.hold():
        if folder.begun():  # again, now that nobody else can begin it
            folder.check_continues(job.run, job.task.fingerprint(), _resolved)
        folder.write_config(job.run)
        manifest = Manifest(folder, job.run, job.task.fingerprint(), simulated=job.simulated)
        manifest.begin()
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


def _conclude(folder: RunFolder, manifest: Manifest, ended: Ending) -> Metrics:
    manifest.end(ended)
    metrics = measure(folder)
    write_whole(folder.metrics, to_json(metrics))
    return metrics


async def _work(job: Job, manifest: Manifest, watch: Watch | None) -> Ending:
    run, folder = job.run, job.folder
    stop = Stop()
    try:
        with (
            AttemptWriter(folder.attempts) as writer,
            _calls(job, job.backend, run.model.backend, stop) as calls,
            _polisher(job, stop) as polish,
        ):
            ledger = Ledger(folder.attempts)
            plan = Plan(job.task, run, "seed" in job.backend.features)
            total, owed = plan.count(ledger)
            manifest.plan(total, owed)
            tally = Tally(owed, total - owed)
            runner = Runner(
                plan,
                calls,
                ledger=ledger,
                writer=writer,
                tally=tally,
                stop=stop,
                cost=_cost(job.backend),
                polish=polish,
            )
            try:
                with watch(tally, stop) if watch else nullcontext():
                    await runner.run(workers=WORKERS_PER_SLOT * run.limits.concurrency)
            finally:
                manifest.left(tally.owed - tally.finished)
    finally:
        await job.backend.aclose()
        if job.polish is not None:
            await job.polish.aclose()
    return "finished" if tally.finished == tally.owed else "interrupted"


def _cost(backend: Backend) -> Callable[[Call], float | None]:
    """What a call of a backend costs: nothing, or not known (there are no prices yet)."""
    cost = None if backend.cacheable else 0.0
    return lambda call: cost


def foresee_job(job: Job) -> Outlook:
    """What a job would do; no provider is asked, and no reply or attempt is written."""
    backend = job.backend
    by_instance = "by_instance" in backend.features

    def key(request: Request) -> str:
        return call_key(job.run.model.backend, backend.endpoint, request, by_instance=by_instance)

    plan = Plan(job.task, job.run, "seed" in backend.features)
    ledger = Ledger(job.folder.attempts)
    path = replies_path(job.settings)
    if not backend.cacheable or not path.exists():
        return foresee(plan, ledger, key, lambda _: False)
    with ReplyFile(path) as replies:
        return foresee(plan, ledger, key, lambda name: replies.get(name) is not None)


def measure(folder: RunFolder) -> Metrics:
    """The metrics of a run as its attempts are now."""
    manifest = folder.read_manifest()
    complete, planned = folder.progress()
    attempts, calls = read_columns(folder.attempts)
    return summarise(
        attempts,
        calls,
        run=folder.name,
        task=manifest.get("task", ""),
        model=manifest.get("model"),
        simulated=manifest.get("simulated", False),
        complete=complete,
        n_planned=planned,
    )
