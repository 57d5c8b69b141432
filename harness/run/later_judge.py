"""A judge for a run that is there already: from its section to its judgements.

It judges every answer of the run that it has not judged yet, and its scores stand beside what
the run was made with; what has passed stays what it was. Or it judges the gold answers to the
run's instances, apart from them (`harness.store.references`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

from harness.analysis.metrics import Metrics, to_json
from harness.calls.reply_cache import ReplyCache
from harness.calls.signals import Notices, Stop
from harness.config.identity import judge_conflicts
from harness.config.judges import JudgeSection, judge_section
from harness.config.panels import PanelSection, panel_section
from harness.config.prices import load_prices
from harness.config.settings import Settings, secret
from harness.errors import ConfigError, DataMissing, RunConflict
from harness.ports import Task
from harness.run.call_stack import Session
from harness.run.golds import prepare_golds
from harness.run.job import Watch, replies_path
from harness.run.judges import (
    JudgeModel,
    build_judge,
    check_panels,
    judging,
    register_judges,
)
from harness.run.measuring import measure
from harness.run.other_answers import other_data
from harness.run.parts import (
    Model,
    Rates,
    build_model,
    build_task,
    owned_servers,
    refuse_unpriced,
    resolved_judge,
    state_limits,
)
from harness.run.spending import budget_of
from harness.run.tally import Tally
from harness.store.files import write_whole
from harness.store.judgements import JudgementOutcome, RegisteredJudge, read_register
from harness.store.run_folder import RunFolder

WORKERS_PER_SLOT = 4


@dataclass(frozen=True, slots=True)
class LaterJudge:
    """A judge and the run that it is to judge, checked as far as it can be before any work.

    judge: with its model; None where it is a panel of judges that the run has.
    usd: what the run may cost with it, None for no cap.
    golds: the gold answers are judged, and not the run's.
    """

    folder: RunFolder
    task: Task[Any]
    judge: JudgeModel | None
    settings: Settings
    usd: float | None
    panel: PanelSection | None = None
    golds: bool = False

    @property
    def name(self) -> str:
        """Of the judge or panel, in the run."""
        return self.judge.name if self.judge else self.panel.as_ if self.panel else ""


@dataclass(frozen=True, slots=True)
class Judged:
    """How a session of a judge has ended.

    judged: attempts it has judged in this session; failed: of them, those whose calls failed.
    gone: attempts whose instances the data set has no more: nobody can judge them.
    waiting: attempts that a panel's judges have still to judge.
    """

    ended: Literal["finished", "interrupted", "budget"]
    judged: int
    failed: int
    gone: int
    waiting: int
    metrics: Metrics


def registered(folder: RunFolder, name: str) -> JudgeSection | PanelSection | None:
    """The section of a judge or panel that the run has had already."""
    found = read_register(folder.path).judges.get(name)
    return None if found is None else section_of(dict(found.section))


def section_of(raw: object) -> JudgeSection | PanelSection:
    """What a file holds: a panel has ``of``, a judge has not.

    Raises: ValueError naming the key; no value is quoted.
    """
    is_panel = isinstance(raw, dict) and "of" in raw and "model" not in raw
    return panel_section(raw) if is_panel else judge_section(raw)


def prepare_judge(
    folder: RunFolder,
    section: JudgeSection,
    settings: Settings,
    *,
    usd: float | None = None,
    golds: bool = False,
    secret: Callable[[str], str] = secret,
) -> LaterJudge:
    """Check a judge against its plug-ins, the run, and what it was before in it.

    usd: what the run may cost with it; None for the run's own budget.
    golds: judge the gold answers in the place of the run's.

    Raises: a `harness.errors.UserError`.
    """
    section = resolved_judge(section)
    task = _task_of(folder, settings, [section])
    run = folder.read_config()
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

    judge = build_judge(section, run.task.name, task, model, settings.runs_dir)
    if before is not None and before.fingerprint and before.fingerprint != judge.fingerprint:
        keys = before.fingerprint.keys() | judge.fingerprint.keys()
        differing = [
            key for key in sorted(keys) if before.fingerprint.get(key) != judge.fingerprint.get(key)
        ]
        raise RunConflict(
            f"The judge {judge.name!r} of the run {folder.name!r} was asked with another "
            f"{', '.join(differing)}.",
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
    return LaterJudge(folder, task, judge, settings, usd, golds=golds)


def prepare_panel(
    folder: RunFolder, section: PanelSection, settings: Settings, *, golds: bool = False
) -> LaterJudge:
    """Check a panel against the judges that the run has, and what it was before in it.

    golds: of the gold answers in the place of the run's.

    Raises: a `harness.errors.UserError`.
    """
    task = _task_of(folder, settings)
    known = read_register(folder.path).judges
    judges = {name: one for name, one in known.items() if not one.members}
    try:
        section.check_members(judges)
    except ValueError as error:
        raise ConfigError(
            f"The run {folder.name!r}: {error}.", f"Its judges: {', '.join(judges) or 'none'}."
        ) from None
    check_panels([section], judges)
    before = known.get(section.as_)
    if before is not None and dict(before.section) != section.model_dump(mode="json"):
        raise RunConflict(
            f"The run {folder.name!r} has another judge {section.as_!r}.",
            "Give this one a name of its own, with 'as: NAME' in its section.",
        )
    return LaterJudge(folder, task, None, settings, None, section, golds)


def _panels_with(folder: RunFolder, judge: str) -> list[PanelSection]:
    """The panels of a run that a judge is in: what it says anew is theirs, too."""
    known = read_register(folder.path).judges.values()
    return [panel_section(dict(one.section)) for one in known if judge in one.members]


def _task_of(
    folder: RunFolder, settings: Settings, later: Sequence[JudgeSection] = ()
) -> Task[Any]:
    """The task of a run whose answers are to be judged, with the data that it was made with."""
    if not folder.begun():
        raise DataMissing(
            f"The run {folder.name!r} has no attempts to judge.", "Run its run file again."
        )
    task = build_task(folder.read_config(), settings, later=later)
    if key := other_data(folder, task):
        raise RunConflict(
            f"The run {folder.name!r} was made with another {key}.",
            "Bring back the data that it was made with.",
        )
    return task


def _refuse_other_judge(folder: RunFolder, section: JudgeSection, before: RegisteredJudge) -> None:
    if before.members:
        raise RunConflict(
            f"{section.as_!r} is a panel of the run {folder.name!r}.",
            "Give this judge a name of its own, with 'as: NAME' in its section.",
        )
    differing = judge_conflicts(resolved_judge(judge_section(dict(before.section))), section)
    if differing:
        raise RunConflict(
            f"The run {folder.name!r} has a judge {section.as_!r} with other values of: "
            f"{', '.join(differing)}.",
            "Give this one a name of its own, with 'as: NAME' in its section.",
        )


async def judge_later(
    job: LaterJudge, watch: Watch | None = None, retried: Collection[JudgementOutcome] = ()
) -> Judged:
    """Judge what the judge has not judged yet, then write the run's metrics.

    retried: outcomes of judgements that are made again, besides failed ones.

    Raises: a `harness.errors.HarnessError`; everything judged so far is kept.
    """
    folder, stop, notices = job.folder, Stop(), Notices()
    judges = [job.judge] if job.judge else []
    panels = [job.panel] if job.panel else _panels_with(folder, job.name)
    name = folder.run_id() or folder.name
    paid = any(judge.model.backend.cacheable for judge in judges)
    with folder.hold():
        try:
            place, combining = folder, panels
            if job.golds:
                place, combining = prepare_golds(folder, job.task, job.judge, panels)
            register_judges(folder, job.task, judges, panels, later=True)
            with (
                ReplyCache(replies_path(job.settings), notice=notices.status("cache"))
                if paid
                else nullcontext() as replies,
                ExitStack() as stack,
            ):
                budget = budget_of(job.usd, [(folder, name)], replies, stop)
                state_limits([judge.model for judge in judges])
                session = Session(name, stop, notices, replies, budget)
                tally = Tally(0, budget=budget)
                working = judging(
                    *(place, job.task, judges, session, tally, stack, combining, retried)
                )
                tally.owed = working.late
                with watch(tally, stop, notices) if watch else nullcontext():
                    most = sum(judge.model.limits.concurrency for judge in judges)
                    await working.catch_up(job.task, WORKERS_PER_SLOT * max(1, most))
        finally:
            for judge in judges:
                await judge.model.backend.aclose()
            metrics = measure(folder)
            write_whole(folder.metrics, to_json(metrics))
    left = tally.owed - tally.finished - working.pending
    gone = left if not stop.requested else 0
    ended: Literal["finished", "interrupted", "budget"] = "finished"
    if left > gone:
        ended = "budget" if budget is not None and budget.ended else "interrupted"
    return Judged(ended, tally.finished, working.failed, gone, working.pending, metrics)
