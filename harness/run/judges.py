"""From ``judges:`` to judges at work: each one's plug-in, its model, and its place in the run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config.judges import JudgeSection
from harness.config.panels import PanelSection
from harness.errors import ConfigError
from harness.plugins import kind
from harness.ports import (
    Advising,
    Fingerprinted,
    HasWarnings,
    Judge,
    JudgeRouting,
    Simulatable,
    Task,
    decides_by_criteria,
)
from harness.records import Instance
from harness.run.call_stack import Session, call_stack
from harness.run.judging import Judging, judged_outcomes
from harness.run.other_answers import answers_of
from harness.run.parts import Model
from harness.run.seats import SeatedJudge, SeatedPanel
from harness.run.tally import Tally
from harness.scoring.panel import Panel
from harness.store.json_lines import JsonLinesWriter
from harness.store.judgements import (
    JudgementOutcome,
    Register,
    RegisteredJudge,
    read_register,
    write_register,
)
from harness.store.run_folder import JUDGEMENTS, RunFolder

BuildModel = Callable[[Any, str, Any], Model]
"""A model of a section, the section's key, and what a simulated one replies."""


@dataclass(frozen=True, slots=True)
class JudgeModel:
    """A judge of a run and its model."""

    section: JudgeSection
    judge: Judge
    model: Model

    @property
    def name(self) -> str:
        """In the run."""
        return self.section.as_

    @property
    def decides(self) -> bool:
        """Whether its scores may have a say in what passed."""
        return not isinstance(self.judge, Advising) or self.judge.verdicts

    @property
    def fingerprint(self) -> Mapping[str, str]:
        """What its judgements depend on beside its settings: its prompt's text, its weights."""
        parts = [self.judge, self.model.backend]
        return {
            key: value
            for part in parts
            if isinstance(part, Fingerprinted)
            for key, value in part.fingerprint().items()
        }

    @property
    def simulated(self) -> bool:
        """Whether its answers are made up."""
        return "simulated" in self.model.backend.features


def build_judge(
    section: JudgeSection, task_name: str, task: Task[Any], model: BuildModel, runs: Path
) -> JudgeModel:
    """A judge of a run file, with its model.

    runs: the folder of all runs, for a judge that compares with another one's answers.

    Raises: a `harness.errors.UserError`.
    """
    where = f"judges.{section.as_}"
    seated: list[Any] = []  # a simulated model replies as its judge says, which is built after it
    simulates = isinstance(kind("judges").load(section.name), Simulatable)
    found = model(
        section.model,
        f"{where}.model",
        (lambda request: seated[0].simulated(request)) if simulates else None,
    )
    simulated = "simulated" in found.backend.features
    try:
        judge: Judge = kind("judges").build(
            section.name,
            section.options,
            task=task.for_judge(section.as_) if isinstance(task, JudgeRouting) else task,
            model=section.model.name,
            features=found.backend.features,
            answers=lambda name: answers_of(runs, name, task, made_up=simulated),
        )
    except ConfigError as error:
        about = f"{where}: " if task_name not in error.message else f"{where} (task {task_name}): "
        raise ConfigError(f"{about}{error.message}", error.remedy) from None
    seated.append(judge)
    if found.backend.cacheable and not section.model.name:
        raise ConfigError(f"{where}.model.name is missing.", "Name the model that judges.")
    if simulated and not isinstance(judge, Simulatable):
        raise ConfigError(
            f"{where}: the judge {section.name!r} does not say what a simulated model replies.",
            "Give it a model.",
        )
    return JudgeModel(section, judge, found)


def registered_judge(judge: JudgeModel, *, decides: bool) -> RegisteredJudge:
    """A judge as it is written down."""
    return RegisteredJudge(
        judge.section.model_dump(mode="json"),
        decides,
        judge.simulated,
        judge.fingerprint,
        judge.decides,
        decides_by_criteria(judge.judge),
    )


def check_panels(panels: Sequence[PanelSection], judges: Mapping[str, RegisteredJudge]) -> None:
    """That the judges of panels have what these combine.

    Raises: ConfigError.
    """
    for panel in panels:
        where = f"panels.{panel.as_}"
        members = {name: judges[name] for name in panel.of}
        without = [name for name, judge in members.items() if not judge.verdicts]
        if panel.by == "majority" and without:
            raise ConfigError(
                f"{where}: {', '.join(without)} gives no verdicts to count.",
                "Set 'by: mean', or give these judges a mark to pass.",
            )
        if len({judge.by_criteria for judge in members.values()}) > 1:
            raise ConfigError(
                f"{where}: some of its judges decide on criteria, and others do not.",
                "Make a panel of each kind.",
            )
        marked = [
            name for name, judge in members.items() if judge.verdicts and not judge.by_criteria
        ]
        if panel.by == "mean" and panel.passes_from is None and marked:
            raise ConfigError(
                f"{where}: {', '.join(marked)} decides on what passes, and a mean without a mark "
                "does not.",
                "Set the panel's passes_from, or take the judges' marks away.",
            )


def register_judges(
    folder: RunFolder,
    task: Task[Any],
    judges: Sequence[JudgeModel],
    panels: Sequence[PanelSection] = (),
    *,
    later: bool = False,
) -> None:
    """Write down which judges a run has, before any of them is asked.

    panels: of judges of the run.
    later: they are no judges of the run file, and have no say in what passed.

    Raises: StoreFailed.
    """
    before = read_register(folder.path)
    known = dict(before.judges)
    members = {name for panel in panels for name in panel.of}
    for judge in judges:
        old = known.get(judge.name)
        decides = judge.decides and judge.name not in members
        known[judge.name] = registered_judge(
            judge, decides=bool(old and old.decides) if later else decides
        )
    for panel in panels:
        old = known.get(panel.as_)
        known[panel.as_] = RegisteredJudge(
            panel.model_dump(mode="json"),
            bool(old and old.decides) if later else True,
            any(known[name].simulated for name in panel.of),
        )
    register = Register(judged=judged_outcomes(task), judges=known)
    if register != before:
        write_register(folder.path, register)


def foretold(
    task: Task[Any],
    judges: Sequence[JudgeModel],
    instances: Callable[[], Iterable[Instance[Any]]],
) -> Iterator[tuple[str, str]]:
    """What judges tell beforehand of the instances that they are for: their names, and texts.

    instances: those of the run, anew at each call.
    """
    for judge in judges:
        if not isinstance(judge.judge, HasWarnings):
            continue
        text = judge.judge.warnings(filter(calling(task, judge.name), instances()))
        if text:
            yield judge.name, text


def calling(task: Task[Any], judge: str) -> Callable[[Instance[Any]], bool]:
    """Which instances a judge of a run is for, by the task."""
    if not isinstance(task, JudgeRouting):
        return lambda _: True
    return lambda instance: task.judged_by(instance, judge)


def judging(
    folder: RunFolder,
    task: Task[Any],
    judges: Sequence[JudgeModel],
    session: Session,
    tally: Tally,
    stack: ExitStack,
    panels: Sequence[PanelSection] = (),
    retried: Collection[JudgementOutcome] = (),
) -> Judging:
    """Judges at work, each with a call stack of its own; their file is closed with the stack.

    retried: outcomes of judgements that are made again, besides failed ones.
    """
    members = {name for panel in panels for name in panel.of}
    seated = [
        SeatedJudge(
            judge.name,
            judge.judge,
            call_stack(judge.model, session),
            judge.model.section.name,
            judge.model.backend.features,
            judge.model.cost,
            judge.decides and judge.name not in members,
            calling(task, judge.name),
        )
        for judge in judges
    ]
    return Judging(
        seated,
        judged_outcomes(task),
        attempts=folder.attempts,
        writer=stack.enter_context(JsonLinesWriter(folder.path / JUDGEMENTS)),
        tally=tally,
        stop=session.stop,
        panels=[
            SeatedPanel(one.as_, Panel(one.of, one.by, one.passes_from, one.quorum))
            for one in panels
        ],
        retried=retried,
    )
