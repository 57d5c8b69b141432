"""A judge for a run that is there already: from its section to its judgements.

It judges every answer of the run that it has not judged yet, and its scores stand beside what
the run was made with; what has passed stays what it was.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

from harness.analysis.metrics import Metrics, to_json
from harness.assemble.call_stack import Session
from harness.assemble.job import Watch, replies_path
from harness.assemble.judges import JudgeModel, build_judge, judging, register_judges
from harness.assemble.measuring import measure
from harness.assemble.parts import (
    Model,
    Rates,
    build_model,
    build_task,
    owned_servers,
    refuse_unpriced,
    resolved_judge,
    state_limits,
)
from harness.assemble.spending import budget_of
from harness.config.identity import judge_conflicts
from harness.config.prices import load_prices
from harness.config.run_file import JudgeSection, judge_section
from harness.config.settings import Settings, secret
from harness.errors import ConfigError, DataMissing, RunConflict
from harness.middleware.cache.reply_file import ReplyFile
from harness.middleware.notices import Notices
from harness.middleware.stopping import Stop
from harness.ports import Task
from harness.schedule.tally import Tally
from harness.store.judgements import RegisteredJudge, read_register
from harness.store.run_folder import RunFolder, write_whole

WORKERS_PER_SLOT = 4


@dataclass(frozen=True, slots=True)
class LaterJudge:
    """A judge and the run that it is to judge, checked as far as it can be before any work.

    usd: what the run may cost with it, None for no cap.
    """

    folder: RunFolder
    task: Task[Any]
    judge: JudgeModel
    settings: Settings
    usd: float | None


@dataclass(frozen=True, slots=True)
class Judged:
    """How a session of a judge has ended.

    judged: attempts it has judged in this session; failed: of them, those whose calls failed.
    gone: attempts whose instances the data set has no more: nobody can judge them.
    """

    ended: Literal["finished", "interrupted", "budget"]
    judged: int
    failed: int
    gone: int
    metrics: Metrics


def registered(folder: RunFolder, name: str) -> JudgeSection | None:
    """The section of a judge that the run has had already."""
    found = read_register(folder.path).judges.get(name)
    return None if found is None else judge_section(dict(found.section))


def prepare_judge(
    folder: RunFolder,
    section: JudgeSection,
    settings: Settings,
    *,
    usd: float | None = None,
    secret: Callable[[str], str] = secret,
) -> LaterJudge:
    """Check a judge against its plug-ins, the run, and what it was before in it.

    usd: what the run may cost with it; None for the run's own budget.

    Raises: a `harness.errors.UserError`.
    """
    if not folder.begun():
        raise DataMissing(
            f"The run {folder.name!r} has no attempts to judge.", "Run its run file again."
        )
    run = folder.read_config()
    task = build_task(run, settings)
    _refuse_other_data(folder, task)
    section = resolved_judge(section)
    before = read_register(folder.path).judges.get(section.as_)
    if before is not None:
        _refuse_other_judge(folder, section, before)
    prices = load_prices(settings.prices)

    def model(of: Any, where: str, reply: Any) -> Model:
        return build_model(
            *(of, run, task, settings),
            prices=prices,
            rates=Rates(),
            secret=secret,
            servers=owned_servers(settings),
            logs=folder.servers,
            where=where,
            reply=reply,
        )

    judge = build_judge(section, run.task.name, task, model)
    if before is not None and before.fingerprint and before.fingerprint != judge.fingerprint:
        raise RunConflict(
            f"The judge {judge.name!r} of the run {folder.name!r} was asked with another prompt.",
            "Give this one another name by 'as:'.",
        )
    if judge.simulated and not folder.read_manifest().get("simulated"):
        raise ConfigError(
            f"The judge {judge.name!r} is simulated, and the run {folder.name!r} is not.",
            "Made-up scores have no place beside real answers: give the judge a model.",
        )
    usd = run.budget.usd if usd is None else usd
    if usd is not None:
        refuse_unpriced([judge.model], prices)
    return LaterJudge(folder, task, judge, settings, usd)


def _refuse_other_data(folder: RunFolder, task: Task[Any]) -> None:
    before = folder.read_manifest().get("fingerprint", {})
    for key, now in task.fingerprint().items():
        if key.startswith("dataset") and before.get(key, now) != now:
            raise RunConflict(
                f"The run {folder.name!r} was made with another {key} ({before[key]}, now {now}).",
                "Bring back the data that it was made with.",
            )


def _refuse_other_judge(folder: RunFolder, section: JudgeSection, before: RegisteredJudge) -> None:
    differing = judge_conflicts(resolved_judge(judge_section(dict(before.section))), section)
    if differing:
        raise RunConflict(
            f"The run {folder.name!r} has a judge {section.as_!r} with other values of: "
            f"{', '.join(differing)}.",
            "Give this one a name of its own, with 'as: NAME' in its section.",
        )


async def judge_later(job: LaterJudge, watch: Watch | None = None) -> Judged:
    """Judge what the judge has not judged yet, then write the run's metrics.

    Raises: a `harness.errors.HarnessError`; everything judged so far is kept.
    """
    folder, judge, stop, notices = job.folder, job.judge, Stop(), Notices()
    name = folder.run_id() or folder.name
    with folder.hold():
        register_judges(folder, job.task, [judge], later=True)
        try:
            with (
                ReplyFile(replies_path(job.settings), notice=notices.teller("cache"))
                if judge.model.backend.cacheable
                else nullcontext() as replies,
                ExitStack() as stack,
            ):
                budget = budget_of(job.usd, [(folder, name)], replies, stop)
                state_limits([judge.model])
                session = Session(name, stop, notices, replies, budget)
                tally = Tally(0, budget=budget)
                working = judging(folder, job.task, [judge], session, tally, stack)
                tally.owed = working.late
                with watch(tally, stop, notices) if watch else nullcontext():
                    workers = WORKERS_PER_SLOT * judge.model.limits.concurrency
                    await working.catch_up(job.task, workers)
        finally:
            await judge.model.backend.aclose()
            metrics = measure(folder)
            write_whole(folder.metrics, to_json(metrics))
    left = tally.owed - tally.finished
    gone = left if not stop.requested else 0
    ended: Literal["finished", "interrupted", "budget"] = "finished"
    if left > gone:
        ended = "budget" if budget is not None and budget.ended else "interrupted"
    return Judged(ended, tally.finished, working.failed, gone, metrics)
