"""A data set from chats: from a curation file to the models that its stages ask, at work.

Each stage has a call stack as a run has: cache, retries, limits, and one budget over all of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from harness.builders.folder import refuse_other
from harness.builders.stages import Stages, key_of, locked_stages
from harness.builders.wildifeval import FILES, KIND, Built, build, screened, stages_folder
from harness.builders.wildifeval.asking import Asking
from harness.builders.wildifeval.journal import read_costs
from harness.builders.wildifeval.outlook import StageOutlook, outlook
from harness.builders.wildifeval.prompts import Prompts
from harness.builders.wildifeval.simulation import simulated_reply
from harness.builders.wildifeval.stage_model import StageModel
from harness.calls.budget import Budget
from harness.calls.reply_cache import ReplyCache
from harness.calls.signals import Notices, Stop, Stopping
from harness.config.curation import Curation, StageName
from harness.config.prices import load_prices
from harness.config.run_file import RunFile
from harness.config.settings import Settings, secret
from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataMissing
from harness.run.call_stack import Session, call_stack
from harness.run.job import WORKERS_PER_SLOT, replies_path
from harness.run.parts import (
    Model,
    Rates,
    build_model,
    owned_servers,
    refuse_unpriced,
    state_limits,
)
from harness.run.spending import spent
from harness.run.tally import Tally
from harness.tasks.wildifeval import WildIFEvalTask

Watch = Callable[[str, Tally, Stop, Notices], AbstractContextManager[Any]]
"""Shows the progress of a stage, by its name, while it is entered, and may stop the build."""


@dataclass(frozen=True, slots=True)
class CurationJob:
    """A build, checked as far as it can be before any work.

    sources: files of chats; out: the folder to make.
    models: by the stages' names, in their order; stages of one section share one.
    """

    curation: Curation
    sources: tuple[Path, ...]
    out: Path
    models: dict[StageName, Model]
    settings: Settings


@dataclass(frozen=True, slots=True)
class CurationEnd:
    """How a session of a build has ended.

    built: None but where it is finished. budget: None where it has none.
    """

    ended: Literal["finished", "interrupted", "budget"]
    built: Built | None
    budget: Budget | None


def stage_names(curation: Curation) -> list[StageName]:
    """The stages that ask a model, in their order."""
    first: list[StageName] = ["toxicity"] if curation.screen.toxicity == "model" else []
    return [*first, "filter", "decompose", "categories", "domains"]


def prepare_curation(
    curation: Curation,
    sources: Sequence[Path],
    out: Path,
    settings: Settings,
    *,
    secret: Callable[[str], str] = secret,
) -> CurationJob:
    """Check a curation against its plug-ins, prompts, sources and secrets.

    Raises: a `harness.errors.UserError`.
    """
    for source in sources:
        if not source.is_file():
            raise DataMissing(f"There is no file {source}.", "Check the path.")
    refuse_other(out, KIND, FILES)
    Prompts(curation.prompts)
    run = RunFile(
        task={"name": KIND},
        model=curation.model,
        limits=curation.limits,
        seed=curation.seed,
    )
    task = WildIFEvalTask(data=DataFolder(settings.data_dir))
    prices, rates, servers = load_prices(settings.prices), Rates(), owned_servers(settings)
    built: dict[str, Model] = {}
    models: dict[StageName, Model] = {}
    for name in stage_names(curation):
        where = f"models.{name}" if name in curation.models else "model"
        if where not in built:
            built[where] = build_model(
                curation.models.get(name, curation.model),
                *(run, task, settings),
                prices=prices,
                rates=rates,
                secret=secret,
                servers=servers,
                logs=stages_folder(out) / "servers",
                where=where,
                reply=simulated_reply,
            )
        model = models[name] = built[where]
        if model.backend.cacheable and not model.section.name:
            raise ConfigError(f"{where}.name is missing.", "Name the model to ask.")
        if "recorded" in model.backend.features:
            raise ConfigError(f"{where}: a recording cannot be asked.", "Give the stage a model.")
    if curation.budget.usd is not None:
        refuse_unpriced(list(built.values()), prices)
    return CurationJob(curation, tuple(sources), out, models, settings)


def foresee_curation(job: CurationJob, told: Callable[[str], None]) -> list[StageOutlook]:
    """What a build would ask. The chats are screened for it, which asks nobody.

    Raises: as `harness.builders.wildifeval.screened`.
    """
    with locked_stages(stages_folder(job.out), job.out) as stages:
        found = screened(job.sources, job.curation, stages, told)
    session = Session("", Stop(), Notices(), None, None)
    return outlook(
        job.curation, found.chats, Prompts(job.curation.prompts), _stage_models(job, session)
    )


async def curate(
    job: CurationJob, watch: Watch | None = None, told: Callable[[str], None] = lambda _: None
) -> CurationEnd:
    """Build the data set, or go on with it.

    told: is told what is done that asks nobody.

    Raises: a `harness.errors.HarnessError`; everything answered so far is kept.
    """
    stop, notices = Stop(), Notices()
    models = list({id(model): model for model in job.models.values()}.values())
    paid = any(model.backend.cacheable for model in models)

    @contextlib.contextmanager
    def shown(stage: str, tally: Tally) -> Iterator[None]:
        with watch(stage, tally, stop, notices) if watch else nullcontext():
            yield

    try:
        with (
            locked_stages(stages_folder(job.out), job.out) as stages,
            ReplyCache(replies_path(job.settings), notice=notices.status("cache"))
            if paid
            else nullcontext() as replies,
        ):
            name = stages.result("name", key_of(), str, lambda: uuid4().hex)
            budget = _budget(job.curation.budget.usd, stages, name, replies, stop)
            state_limits(models)
            session = Session(name, stop, notices, replies, budget)
            asked = _stage_models(job, session)
            asking = Asking(
                stages.folder,
                asked,
                seed=job.curation.seed,
                stop=stop,
                watch=shown,
                budget=budget,
            )
            try:
                built = await build(
                    *(job.curation, job.sources, job.out, asking, asked, stages), told=told
                )
            except Stopping:
                spent_all = budget is not None and budget.ended
                return CurationEnd("budget" if spent_all else "interrupted", None, budget)
            return CurationEnd("finished", built, budget)
    finally:
        for model in models:
            await model.backend.aclose()


def _stage_models(job: CurationJob, session: Session) -> dict[str, StageModel]:
    stacks = {id(model): call_stack(model, session) for model in job.models.values()}
    return {
        name: StageModel(
            calls=stacks[id(model)],
            backend=model.section.backend,
            endpoint=model.backend.endpoint,
            name=model.section.name,
            features=model.backend.features,
            cost=model.cost,
            price=model.price,
            workers=WORKERS_PER_SLOT * model.limits.concurrency,
        )
        for name, model in job.models.items()
    }


def _budget(
    usd: float | None, stages: Stages, name: str, replies: ReplyCache | None, stop: Stop
) -> Budget | None:
    """The budget of a build with what its earlier sessions have spent."""
    if usd is None or replies is None:
        return None
    known, unsure = spent(read_costs(stages.folder), replies.booked(name))
    return Budget(usd, known, stop, unsure=unsure)
