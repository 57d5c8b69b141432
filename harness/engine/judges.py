"""The judges of a run file (``judges:``, ``panels:``), and the requests that they make."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from msgspec.structs import replace

from harness.config.run_file import RunFile
from harness.config.sections import JudgeSection, PanelSection
from harness.config.settings import Settings
from harness.datasets.folder import DataFolder, prompt_files
from harness.declarations import declarations
from harness.engine.assessment import UNANSWERED, judged_outcomes, reply_outcome
from harness.engine.models import Model, ModelBuilder
from harness.errors import ConfigError
from harness.plugin_loader import Kind, kind
from harness.ports import (
    DECODING_PARAMETERS,
    LOGPROBS,
    Judge,
    Task,
    decides_by_criteria,
    overrides_method,
)
from harness.prompts import is_prompt_path
from harness.records import (
    SCHEMA_VERSION,
    Attempt,
    Call,
    Instance,
    Origin,
    Question,
    Reply,
    Request,
    Score,
)
from harness.store.judgements import (
    Register,
    RegisteredJudge,
    read_unchanged_register,
    write_register,
)
from harness.store.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class JudgeModel:
    """A configured judge, its model, and the task whose answers it scores."""

    section: JudgeSection
    judge: Judge
    model: Model
    task: Task[Any]

    @property
    def name(self) -> str:
        """The judge's name within its run."""
        return self.section.as_

    @property
    def decides(self) -> bool:
        """Whether the judge's scores can decide which answers pass."""
        return self.judge.verdicts

    @property
    def fingerprint(self) -> Mapping[str, str]:
        """Hashes, by name, of data that judgements depend on."""
        return {**self.judge.fingerprint(), **self.model.backend.fingerprint()}

    def can_score(self, instance: Instance[Any]) -> bool:
        """Return whether the task lets this judge score an instance."""
        return self.task.judged_by(instance, self.name)

    def requests(
        self, instance: Instance[Any], attempt: Attempt, calls: Sequence[Call] = (), redraw: int = 0
    ) -> list[Request]:
        """Return the requests that the judge makes next about an attempt, if any.

        Args:
            instance: The instance of the turn that the attempt answers.
            attempt: The attempt.
            calls: The judge's calls about the attempt so far.
            redraw: The number of earlier judgements of the attempt, whose replies are not reused.
        """
        text = attempt.text or ""
        model = self.model
        questions: Sequence[Question] = ()
        if not calls and self.can_score(instance):
            questions = self.judge.questions(instance, text)
        elif calls:
            questions = self.judge.next_questions(instance, text, _judged_replies(calls))
        origin = Origin(attempt.instance, attempt.sample, attempt.round)
        remedy = "Use another model, or set model.preset to its server (harness docs providers)."
        requests = []
        for question in questions:
            decoding = model.supported_decoding(
                question.decoding, f"The judge {self.name!r}", remedy
            )
            for sample in range(question.samples):
                request = Request(
                    model.section.name, question.messages, decoding, sample, origin, redraw=redraw
                )
                requests.append(request)
        return requests

    def first_requests(self, instance: Instance[Any], text: str, sample: int = 0) -> list[Request]:
        """Return the first requests that the judge makes about an answer.

        Args:
            instance: The instance of the turn that is answered.
            text: The answer.
            sample: The sample's number, from 0.
        """
        attempt = Attempt(
            v=SCHEMA_VERSION,
            instance=instance.id,
            sample=sample,
            round=1,
            groups={},
            cluster="",
            request={},
            outcome="ok",
            started_at=0.0,
            ended_at=0.0,
            text=text,
        )
        return self.requests(instance, attempt)

    def parse(
        self, instance: Instance[Any], attempt: Attempt, calls: Sequence[Call]
    ) -> Mapping[str, Score]:
        """Return the scores in the replies, or {} if the judge does not score the instance.

        Raises:
            Unparseable: If the replies contain no verdict.
        """
        if not self.can_score(instance):
            return {}
        text_argument = {"text": attempt.text or ""} if _parse_takes_text(type(self.judge)) else {}
        return self.judge.parse(instance, _judged_replies(calls), **text_argument)


@cache  # it is called for each attempt
def _parse_takes_text(judge: type[Judge]) -> bool:
    return "text" in inspect.signature(judge.parse).parameters


def _judged_replies(calls: Sequence[Call]) -> list[Reply]:
    replies = []
    for call in calls:
        reply = call.reply
        # "No, I will not" is a refusal, not a verdict: the judge receives it as empty.
        if reply_outcome(reply) in UNANSWERED:
            reply = replace(reply, text="", logprobs=None)
        replies.append(reply)
    return replies


@dataclass(frozen=True, slots=True)
class Judges:
    """Judges and panels that score the answers to a task."""

    task: Task[Any]
    models: Sequence[JudgeModel]
    panels: Sequence[PanelSection] = ()

    @property
    def names(self) -> list[str]:
        """The names of the judges, followed by those of the panels."""
        return [*(judge.name for judge in self.models), *(panel.as_ for panel in self.panels)]

    @property
    def deciding(self) -> list[str]:
        """The names of the deciding judges that are in no panel, and of the panels."""
        members = set[str]().union(*(panel.of for panel in self.panels))
        deciding = [judge.name for judge in self.models if judge.decides]
        judge_names = [name for name in deciding if name not in members]
        return [*judge_names, *(panel.as_ for panel in self.panels)]

    def register(self, folder: RunFolder, *, later: bool = False) -> Register:
        """Record judges and panels in ``judges.json``, and return its content.

        The content of a file that was edited is dropped.

        Args:
            folder: The run's folder.
            later: Whether they are added to an existing run, and thus do not decide.
        """
        recorded = read_unchanged_register(folder.path)
        judges = dict(recorded.judges)
        deciding = {*self.deciding}
        if later:
            deciding = {name for name, judge in judges.items() if judge.decides}
        for judge in self.models:
            judges[judge.name] = register_entry(judge, decides=judge.name in deciding)
        for panel in self.panels:
            simulated = any(judges[name].simulated for name in panel.of)
            section = panel.model_dump(mode="json")
            judges[panel.as_] = RegisteredJudge(section, panel.as_ in deciding, simulated)
        register = Register(judged=judged_outcomes(self.task), judges=judges)
        if register != recorded:
            write_register(folder.path, register)
        return register


def prompt_data_sets(sections: Iterable[JudgeSection]) -> list[str]:
    """Return the names of the data sets that contain prompts of judges."""
    prompts = [section.options.get("prompt") for section in sections]
    names: list[str] = []
    for declaration in declarations():
        data_sets = declaration.plugin.judge_prompts
        names += [data_set for prompt, data_set in data_sets.items() if prompt in prompts]
    return names


def build_judge(
    section: JudgeSection, task_name: str, task: Task[Any], builder: ModelBuilder
) -> JudgeModel:
    """Build a judge and its model from its section in a run file.

    Args:
        section: The section.
        task_name: The name of the task, for messages.
        task: The task whose answers the judge scores.
        builder: Builds the model.

    Raises:
        ConfigError: If the judge, its model or the task does not suit the others.
    """
    where = f"judges.{section.as_}"

    def simulated_reply(request: Request) -> str:  # only called once the judge below is built
        return judge.simulated(request)

    simulates = overrides_method(kind("judges").load(section.name), Judge.simulated)
    model = builder.build(section.model, f"{where}.model", simulated_reply if simulates else None)
    settings = builder.resources.settings
    features = model.backend.features
    data = DataFolder(settings.data_dir, builder.run_file_folder)
    try:
        judge = _build_plugin(section, task, settings, data, features, simulated=model.simulated)
    except ConfigError as error:
        prefix = f"{where} (task {task_name})" if task_name in error.message else where
        raise ConfigError(f"{prefix}: {error.message}", error.remedy) from None
    if model.backend.cacheable and not section.model.name:
        raise ConfigError(f"{where}.model.name is missing.", "Name the model that judges.")
    if model.simulated and not overrides_method(judge, Judge.simulated):
        problem = f"{where}: the judge {section.name!r} cannot be simulated."
        remedy = "Give it a real model, or give its class the method 'simulated'."
        raise ConfigError(problem, f"{remedy} 'harness docs plugins' describes it.")
    return JudgeModel(section, judge, model, task)


def _build_plugin(
    section: JudgeSection,
    task: Task[Any],
    settings: Settings,
    data: DataFolder,
    features: frozenset[str],
    *,
    simulated: bool,
) -> Judge:
    options = dict(section.options)
    prompt = options.get("prompt")
    if isinstance(prompt, str) and is_prompt_path(prompt):
        options["prompt"] = data.next_to_run_file(prompt)
    if data_sets := prompt_data_sets([section]):
        [prompt_file] = prompt_files(data_sets[0], settings.data_dir).values()
        options["prompt"] = str(prompt_file)

    def read_answers(run_name: str) -> Any:
        build_answers = Kind("section_builders").load("judges.against")
        return build_answers(settings.runs_dir, run_name, task, simulated=simulated)

    judge: Judge = kind("judges").build(
        section.name,
        options,
        task=task.for_judge(section.as_),
        model=section.model.name,
        features=features,
        answers=read_answers,
    )
    return judge


def judge_fingerprint(
    section: JudgeSection, task: Task[Any], settings: Settings, data: DataFolder, *, simulated: bool
) -> Mapping[str, str]:
    """Return the hashes, by name, of a judge's inputs without its model, such as its prompt.

    Args:
        section: The judge's section.
        task: The task.
        settings: The settings.
        data: The data folder.
        simulated: Whether the judge's model is simulated.

    Raises:
        ConfigError, DataMissing: If the judge cannot be built.
    """
    features = DECODING_PARAMETERS | {LOGPROBS}
    judge = _build_plugin(section, task, settings, data, features, simulated=simulated)
    return judge.fingerprint()


def build_judges(run: RunFile, task: Task[Any], builder: ModelBuilder) -> tuple[JudgeModel, ...]:
    """Build the judges of a run file, and check that they fit its panels."""
    judges = tuple(build_judge(section, run.task.name, task, builder) for section in run.judges)
    entries = {judge.name: register_entry(judge, decides=True) for judge in judges}
    check_panels(run.panels, entries)
    return judges


def register_entry(judge: JudgeModel, *, decides: bool) -> RegisteredJudge:
    """Return a judge's entry for ``judges.json``."""
    return RegisteredJudge(
        judge.section.model_dump(mode="json"),
        decides,
        judge.model.simulated,
        judge.fingerprint,
        judge.decides,
        decides_by_criteria(judge.judge),
    )


JudgeScores = Mapping[str, Mapping[str, Score] | None]
"""Maps each judge to its scores by name, None if it gave no verdict, or {} if it was not asked."""


class JudgePanel(Protocol):
    """Combines the scores of several judges.

    A package declares, as ``panels`` of its `section_builders`, a function that returns one, given
    a `PanelSection`.
    """

    @property
    def of(self) -> Sequence[str]:
        """The names of the judges."""

    def combine(self, judged: JudgeScores) -> Mapping[str, Score]:
        """Return the panel's scores by name, or {} if no judge was asked.

        Raises:
            Unparseable: If no score gets a value.
        """


def build_panel(section: PanelSection) -> JudgePanel:
    """Build a panel from its section in a run file."""
    build: Callable[[PanelSection], JudgePanel] = Kind("section_builders").load("panels")
    return build(section)


def check_panels(panels: Sequence[PanelSection], judges: Mapping[str, RegisteredJudge]) -> None:
    """Raise ConfigError if a panel does not fit the kinds of its judges' scores."""
    for panel in panels:
        deciding = [name for name in panel.of if judges[name].verdicts]
        undeciding = [name for name in panel.of if name not in deciding]
        with_pass_mark = [name for name in deciding if not judges[name].by_criteria]
        problem = ""
        if panel.by == "majority" and undeciding:
            problem = f"{', '.join(undeciding)} gives no verdicts to count."
            remedy = "Set 'by: mean', or set passes_from for these judges."
        elif len({judges[name].by_criteria for name in panel.of}) > 1:
            problem = "some of its judges decide on criteria, and others do not."
            remedy = "Define one panel for each kind."
        elif panel.by == "mean" and panel.passes_from is None and with_pass_mark:
            names = ", ".join(with_pass_mark)
            problem = f"{names} decides what passes, but a mean without passes_from does not."
            remedy = "Set the panel's passes_from, or remove it from the judges."
        if problem:
            raise ConfigError(f"panels.{panel.as_}: {problem}", remedy)


def judge_warnings(
    judges: Sequence[JudgeModel], instances: Iterable[Instance[Any]]
) -> Iterator[tuple[str, str]]:
    """Yield (judge name, warning) for each judge that warns about its instances."""
    for judge in judges:
        if warning := judge.judge.warnings(filter(judge.can_score, instances)):
            yield judge.name, warning
