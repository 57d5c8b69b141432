"""Builds the judges of a run file (``judges:``, ``panels:``) and binds them to a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.config.run_file import RunFile
from harness.config.sections import JudgeSection, PanelSection
from harness.datasets.folder import JUDGE_PROMPTS
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
from harness.records import Instance, Request
from harness.run.judging import BoundJudge, BoundJudges, judged_outcomes
from harness.run.models import Model, ModelBuilder
from harness.run.other_runs import answers_of
from harness.run.session import Session
from harness.scoring.panel import Panel
from harness.store.judgements import Register, RegisteredJudge, read_register, write_register
from harness.store.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class JudgeModel:
    """A configured judge and its model."""

    section: JudgeSection
    judge: Judge
    model: Model

    @property
    def name(self) -> str:
        """The judge's name within its run."""
        return self.section.as_

    @property
    def decides(self) -> bool:
        """Whether the judge's scores can help to decide which answers pass."""
        return not isinstance(self.judge, Advising) or self.judge.verdicts

    @property
    def fingerprint(self) -> Mapping[str, str]:
        """Hashes, by name, of inputs that judgements depend on besides the judge's section.

        These are, for example, the hashes of prompts and of local model weights.
        """
        found: dict[str, str] = {}
        for part in (self.judge, self.model.backend):
            found |= part.fingerprint() if isinstance(part, Fingerprinted) else {}
        return found


def published_prompts(sections: Iterable[JudgeSection]) -> list[str]:
    """Return the names of the data sets of published prompts that judges use."""
    prompts = [section.options.get("prompt") for section in sections]
    return [name for prompt, name in JUDGE_PROMPTS.items() if prompt in prompts]


def build_judge(
    section: JudgeSection, task_name: str, task: Task[Any], builder: ModelBuilder
) -> JudgeModel:
    """Build a judge and its model from its section in a run file."""
    where, plugins = f"judges.{section.as_}", kind("judges")
    runs = builder.resources.settings.runs_dir

    def reply(request: Request) -> str:  # only called once the judge below is built
        assert isinstance(judge, Simulatable)
        return judge.simulated(request)

    simulates = isinstance(plugins.load(section.name), Simulatable)
    model = builder.build(section.model, f"{where}.model", reply if simulates else None)
    options = dict(section.options)
    if published := published_prompts([section]):
        from harness.datasets.fetch import prompt_files  # reading the catalogue takes a while

        [file] = prompt_files(published[0], builder.resources.settings.data_dir).values()
        options["prompt"] = str(file)
    try:
        judge: Judge = plugins.build(
            section.name,
            options,
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
    """Build the judges of a run file, and check that they fit its panels."""
    judges = tuple(build_judge(one, run.task.name, task, builder) for one in run.judges)
    check_panels(run.panels, {one.name: registered_judge(one, decides=True) for one in judges})
    return judges


def registered_judge(judge: JudgeModel, *, decides: bool) -> RegisteredJudge:
    """Return a judge's entry for ``judges.json``.

    ``decides`` says whether its verdicts help to decide which answers pass in this run.
    """
    return RegisteredJudge(
        judge.section.model_dump(mode="json"),
        decides,
        judge.model.simulated,
        judge.fingerprint,
        judge.decides,
        decides_by_criteria(judge.judge),
    )


def check_panels(panels: Sequence[PanelSection], judges: Mapping[str, RegisteredJudge]) -> None:
    """Raise ConfigError if a panel cannot combine the kinds of score that its judges return."""
    for panel in panels:
        members = {name: judges[name] for name in panel.of}
        without = [name for name, one in members.items() if not one.verdicts]
        marked = [name for name, one in members.items() if one.verdicts and not one.by_criteria]
        problem = ""
        if panel.by == "majority" and without:
            problem = f"{', '.join(without)} gives no verdicts to count."
            remedy = "Set 'by: mean', or set passes_from for these judges."
        elif len({one.by_criteria for one in members.values()}) > 1:
            problem = "some of its judges decide on criteria, and others do not."
            remedy = "Define one panel for each kind."
        elif panel.by == "mean" and panel.passes_from is None and marked:
            decides = f"{', '.join(marked)} decides what passes"
            problem = f"{decides}, but a mean without passes_from does not."
            remedy = "Set the panel's passes_from, or remove it from the judges."
        if problem:
            raise ConfigError(f"panels.{panel.as_}: {problem}", remedy)


def register_judges(
    folder: RunFolder,
    task: Task[Any],
    judges: Sequence[JudgeModel],
    panels: Sequence[PanelSection] = (),
    *,
    later: bool = False,
) -> None:
    """Record judges and panels in the run's ``judges.json``.

    With ``later``, judges that are not yet recorded do not help to decide which answers pass.
    """
    before = read_register(folder.path)
    known = dict(before.judges)
    members = {name for panel in panels for name in panel.of}
    deciding = {one.name for one in judges if one.decides and one.name not in members}
    deciding |= {panel.as_ for panel in panels}
    if later:
        deciding = {name for name, one in known.items() if one.decides}
    for judge in judges:
        known[judge.name] = registered_judge(judge, decides=judge.name in deciding)
    for panel in panels:
        simulated = any(known[name].simulated for name in panel.of)
        section = panel.model_dump(mode="json")
        known[panel.as_] = RegisteredJudge(section, panel.as_ in deciding, simulated)
    register = Register(judged=judged_outcomes(task), judges=known)
    if register != before:
        write_register(folder.path, register)


def judge_warnings(
    task: Task[Any], judges: Sequence[JudgeModel], instances: Iterable[Instance[Any]]
) -> Iterator[tuple[str, str]]:
    """Yield (judge name, warning) for each judge that warns about the instances it scores."""
    for one in judges:
        if isinstance(one.judge, HasWarnings):
            text = one.judge.warnings(filter(routed_to(task, one.name), instances))
            if text:
                yield one.name, text


def routed_to(task: Task[Any], judge: str) -> Callable[[Instance[Any]], bool]:
    """Return a function that says whether the task lets the named judge score an instance."""
    return lambda instance: not isinstance(task, JudgeRouting) or task.judged_by(instance, judge)


def bind_judges(
    task: Task[Any], judges: Sequence[JudgeModel], panels: Sequence[PanelSection], session: Session
) -> BoundJudges:
    """Bind each judge to the call stack of its model.

    A judge that is a member of a panel does not decide which answers pass: its panel does.
    """
    members = {name for panel in panels for name in panel.of}
    bound = []
    for one in judges:
        decides, routed = one.decides and one.name not in members, routed_to(task, one.name)
        bound.append(BoundJudge(one.name, one.judge, session.bind(one.model), decides, routed))
    combining = {one.as_: Panel(one.of, one.by, one.passes_from, one.quorum) for one in panels}
    return BoundJudges(bound, judged_outcomes(task), combining)
