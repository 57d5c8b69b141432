"""Builds judges from ``judges:`` and ``panels:`` in a run file, to be bound to a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from harness.config.judges import JudgeSection, PanelSection
from harness.config.run_file import RunFile
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
from harness.records import Instance, Outcome, Request
from harness.run.judging import BoundJudge, BoundJudges, judged_outcomes
from harness.run.models import Model, ModelBuilder
from harness.run.session import Session
from harness.scoring.panel import Panel
from harness.store.columns import name_digest
from harness.store.index import AttemptIndex
from harness.store.judgements import Register, RegisteredJudge, read_register, write_register
from harness.store.run_folder import RunFolder, find_run


@dataclass(frozen=True, slots=True)
class JudgeModel:
    """A judge of a run and its model."""

    section: JudgeSection
    judge: Judge
    model: Model

    @property
    def name(self) -> str:
        """Its name in the run."""
        return self.section.as_

    @property
    def decides(self) -> bool:
        """Return whether its scores may decide what passed."""
        return not isinstance(self.judge, Advising) or self.judge.verdicts

    @property
    def fingerprint(self) -> Mapping[str, str]:
        """What its judgements depend on besides its settings: its prompt's text, its weights."""
        return {
            key: value
            for part in (self.judge, self.model.backend)
            if isinstance(part, Fingerprinted)
            for key, value in part.fingerprint().items()
        }


def build_judge(
    section: JudgeSection, task_name: str, task: Task[Any], builder: ModelBuilder
) -> JudgeModel:
    """Build a judge of a run file, with its model."""
    where, plugins = f"judges.{section.as_}", kind("judges")
    runs = builder.resources.settings.runs_dir

    def reply(request: Request) -> str:  # asked only once the judge below is built
        assert isinstance(judge, Simulatable)
        return judge.simulated(request)

    simulates = isinstance(plugins.load(section.name), Simulatable)
    model = builder.build(section.model, f"{where}.model", reply if simulates else None)
    try:
        judge: Judge = plugins.build(
            section.name,
            section.options,
            task=task.for_judge(section.as_) if isinstance(task, JudgeRouting) else task,
            model=section.model.name,
            features=model.backend.features,
            answers=lambda name: answers_of(runs, name, task, simulated=model.simulated),
        )
    except ConfigError as error:
        about = f"{where}: " if task_name not in error.message else f"{where} (task {task_name}): "
        raise ConfigError(f"{about}{error.message}", error.remedy) from None
    if model.backend.cacheable and not section.model.name:
        raise ConfigError(f"{where}.model.name is missing.", "Name the model that judges.")
    if model.simulated and not isinstance(judge, Simulatable):
        raise ConfigError(
            f"{where}: the judge {section.name!r} cannot be simulated.", "Give it a model."
        )
    return JudgeModel(section, judge, model)


def build_judges(run: RunFile, task: Task[Any], builder: ModelBuilder) -> tuple[JudgeModel, ...]:
    """Build the judges of a run file, and check that they suit its panels."""
    judges = tuple(build_judge(one, run.task.name, task, builder) for one in run.judges)
    check_panels(run.panels, {one.name: registered_judge(one, decides=True) for one in judges})
    return judges


def registered_judge(judge: JudgeModel, *, decides: bool) -> RegisteredJudge:
    """Convert a judge to the form that ``judges.json`` records."""
    return RegisteredJudge(
        judge.section.model_dump(mode="json"),
        decides,
        judge.model.simulated,
        judge.fingerprint,
        judge.decides,
        decides_by_criteria(judge.judge),
    )


def check_panels(panels: Sequence[PanelSection], judges: Mapping[str, RegisteredJudge]) -> None:
    """Check that the judges of panels give the scores that the panels combine."""
    for panel in panels:
        where = f"panels.{panel.as_}"
        members = {name: judges[name] for name in panel.of}
        without = [name for name, judge in members.items() if not judge.verdicts]
        if panel.by == "majority" and without:
            raise ConfigError(
                f"{where}: {', '.join(without)} gives no verdicts to count.",
                "Set 'by: mean', or set passes_from for these judges.",
            )
        if len({judge.by_criteria for judge in members.values()}) > 1:
            raise ConfigError(
                f"{where}: some of its judges decide on criteria, and others do not.",
                "Define one panel for each kind.",
            )
        marked = [
            name for name, judge in members.items() if judge.verdicts and not judge.by_criteria
        ]
        if panel.by == "mean" and panel.passes_from is None and marked:
            raise ConfigError(
                f"{where}: {', '.join(marked)} decides what passes, and a mean without passes_from "
                "does not.",
                "Set the panel's passes_from, or remove it from the judges.",
            )


def register_judges(
    folder: RunFolder,
    task: Task[Any],
    judges: Sequence[JudgeModel],
    panels: Sequence[PanelSection] = (),
    *,
    later: bool = False,
) -> None:
    """Record which judges and panels a run has, before any of them is called.

    Those added ``later`` than the run file do not decide what passed.
    """
    before = read_register(folder.path)
    known = dict(before.judges)
    members = {name for panel in panels for name in panel.of}

    def decides(name: str, own: bool) -> bool:
        return (name in known and known[name].decides) if later else own

    for judge in judges:
        own = judge.decides and judge.name not in members
        known[judge.name] = registered_judge(judge, decides=decides(judge.name, own))
    for panel in panels:
        known[panel.as_] = RegisteredJudge(
            panel.model_dump(mode="json"),
            decides(panel.as_, True),
            any(known[name].simulated for name in panel.of),
        )
    register = Register(judged=judged_outcomes(task), judges=known)
    if register != before:
        write_register(folder.path, register)


def judge_warnings(
    task: Task[Any], judges: Sequence[JudgeModel], instances: Iterable[Instance[Any]]
) -> Iterator[tuple[str, str]]:
    """Yield, by their names, what judges know beforehand that they will not be able to judge."""
    for judge in judges:
        if isinstance(judge.judge, HasWarnings):
            text = judge.judge.warnings(filter(routed_to(task, judge.name), instances))
            if text:
                yield judge.name, text


def routed_to(task: Task[Any], judge: str) -> Callable[[Instance[Any]], bool]:
    """Return a test whether a judge of a run judges an instance, according to the task."""
    if not isinstance(task, JudgeRouting):
        return lambda _: True
    return lambda instance: task.judged_by(instance, judge)


def bind_judges(
    task: Task[Any],
    judges: Sequence[JudgeModel],
    panels: Sequence[PanelSection],
    session: Session,
) -> BoundJudges:
    """Bind the judges to their models' call stacks; members of a panel decide through it alone."""
    members = {name for panel in panels for name in panel.of}
    return BoundJudges(
        [
            BoundJudge(
                judge.name,
                judge.judge,
                session.bind(judge.model),
                judge.decides and judge.name not in members,
                routed_to(task, judge.name),
            )
            for judge in judges
        ],
        judged_outcomes(task),
        {one.as_: Panel(one.of, one.by, one.passes_from, one.quorum) for one in panels},
    )


class _Answer(msgspec.Struct, gc=False):
    instance: str
    outcome: Outcome
    text: str | None = None


class RunAnswers:
    """A run's answers, read on demand: the last answer of each instance's first sample."""

    def __init__(self, path: Path, task: Task[Any]) -> None:
        self._index = AttemptIndex(path, judges=False)
        self._row: dict[int, int] = {}
        self.failed = 0
        rows = self._index.last_rounds()
        rows = rows[self._index.attempts.sample[rows] == 0]
        outcomes = judged_outcomes(task)
        texts: list[bytes] = []
        for row, line in zip(rows.tolist(), self._index.read(_Answer, rows), strict=True):
            self.failed += line.outcome == "error"
            if line.outcome in outcomes:
                self._row[name_digest(line.instance)] = row
                texts.append(sha256(msgspec.json.encode([line.instance, line.text])).digest())
        self._sha256 = sha256(b"".join(sorted(texts))).hexdigest()

    def has(self, instance: Instance[Any]) -> bool:
        """Return whether there is an answer to an instance."""
        return name_digest(instance.id) in self._row

    def text(self, instance: Instance[Any]) -> str | None:
        """Read the answer to an instance; None if there is none."""
        row = self._row.get(name_digest(instance.id))
        if row is None:
            return None
        (line,) = self._index.read(_Answer, [row])
        return line.text or ""

    def fingerprint(self) -> Mapping[str, str]:
        """Return a hash over all answers."""
        return {"against_sha256": self._sha256}


def answers_of(runs: Path, name: str, task: Task[Any], *, simulated: bool) -> RunAnswers:
    """Return the answers of another, finished run on a task's data, to be compared with."""
    folder = find_run(runs, name)
    manifest = folder.read_manifest()
    if not folder.begun() or manifest.get("owed"):
        raise ConfigError(
            f"against: the run {name!r} is not finished.",
            "Run its file again first: answers made later would be missing here.",
        )
    if manifest.get("simulated") and not simulated:
        raise ConfigError(
            f"against: the answers of the run {name!r} are made up (SIMULATED).",
            "Name a run of a real model.",
        )
    if difference := data_difference(folder, task):
        raise ConfigError(
            f"against: the run {name!r} has another {difference}.", "Name a run of the same data."
        )
    answers = RunAnswers(folder.attempts, task)
    if answers.failed:  # once they are made the texts differ, and so does the judge
        raise ConfigError(
            f"against: {answers.failed:,} calls of the run {name!r} have failed.",
            "Run its file again: it repeats failed calls.",
        )
    return answers


def data_difference(folder: RunFolder, task: Task[Any]) -> str:
    """Describe how a run's data differs from a task's, by their fingerprints, if it does."""
    before = folder.read_manifest().get("fingerprint", {})
    for key, now in task.fingerprint().items():
        if key.startswith("dataset") and before.get(key, now) != now:
            return f"{key} ({before[key]}, now {now})"
    return ""
