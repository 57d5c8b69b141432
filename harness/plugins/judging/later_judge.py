"""Lets a judge or panel score all answers of an existing run that it has not judged yet.

A judge added later does not change which answers passed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel

from harness.analysis.metrics import Metrics, encode_metrics
from harness.analysis.summary import compute_metrics
from harness.config.identity import conflicting_judge_keys
from harness.config.sections import JudgeSection, PanelSection
from harness.config.settings import Settings
from harness.config.validation import validate
from harness.engine.assessment import judged_outcomes
from harness.engine.call_stack import bind
from harness.engine.judges import JudgeModel, Judges, build_judge, check_panels, judge_warnings
from harness.engine.judging import Judging, MissingJudgements
from harness.engine.models import Model, ModelBuilder, Resources, check_prices, worker_count
from harness.engine.plan import CachedInstances
from harness.engine.progress import Ending, Listener, Tally
from harness.engine.reasoning import RecordedAnswers
from harness.engine.resolving import build_task, data_difference, resolve_judge_defaults
from harness.engine.session import NO_BUDGET, BudgetTerms, open_session
from harness.engine.turns import instance_of_attempt, max_turns
from harness.errors import ConfigError, DataMissing, RunConflict
from harness.plugin_loader import drop_removed_options
from harness.plugins.estimates.estimate import EstimateRange, JudgeCalls, cached_replies
from harness.plugins.judging.recorded_references import Unit, read_units, record_references
from harness.ports import Task
from harness.records import Attempt, Instance, Request
from harness.scoring.reasoning import KEEP, Reasoning
from harness.store.file_states import (
    JUDGED_REFERENCES,
    RESULT_FILES,
    compute_states,
    record_incomplete,
    record_redraws,
    record_states,
    remove_states,
)
from harness.store.files import write_atomically, write_json
from harness.store.index import AttemptIndex, count_run_redraws, lacks_judgements
from harness.store.json_lines import JsonLinesWriter
from harness.store.judgements import JudgementOutcome, RegisteredJudge, read_register
from harness.store.lost_lines import check_resumable, check_settings
from harness.store.run_folder import JUDGEMENTS, JUDGES, RunFolder, references_folder
from harness.store.runs import base_name
from harness.store.unrecorded import UNRECORDED_KEY

S = TypeVar("S", bound=BaseModel)

RENAME = "Give this one another name with 'as: NAME' in its section."


@dataclass(frozen=True, slots=True)
class LaterJudge:
    """A judge or panel that is to judge an existing run."""

    folder: RunFolder
    judges: Judges  # one judge, or one panel
    data: CachedInstances
    settings: Settings
    budget: BudgetTerms = NO_BUDGET  # of the run's total cost, including earlier payments
    references: bool = False  # judge the reference answers instead of the run's answers

    @property
    def reasoning(self) -> Reasoning:
        """The marks of the reasoning in the answers, as for `harness score`."""
        return Reasoning(KEEP if self.references else self.folder.read_config().model.reasoning)

    @property
    def name(self) -> str:
        """The name of the judge or panel in the run."""
        return self.judges.names[0]

    @property
    def model(self) -> Model | None:
        """The judge's model, or None for a panel."""
        return next((judge.model for judge in self.judges.models), None)

    def warnings(self) -> Iterator[tuple[str, str]]:
        """Yield (judge name, warning) for each warning of the judge about the run's instances."""
        if self.judges.models:
            units = read_units(self.folder.attempts)
            present = [instance for instance in self.data if instance.id in units]
            yield from judge_warnings(self.judges.models, present)

    def missing_requests(
        self, retried: Collection[JudgementOutcome] = ()
    ) -> Iterator[Sequence[Request]]:
        """Yield the judge's first requests about each answer that it has yet to judge.

        Answers whose judgement failed or has one of the ``retried`` outcomes are included.
        """
        if not self.judges.models:
            return
        (judge,) = self.judges.models
        place = references_folder(self.folder) if self.references else self.folder
        if judge.name in read_register(place.path).judges:
            missing = MissingJudgements(place.attempts, [judge.name], self.reasoning, retried)
            for attempt in missing.attempts(self.judges.task, self.data):
                redraw = attempt.redraws[judge.name]
                yield judge.requests(attempt.instance, attempt.answer, redraw=redraw)
        elif self.references:
            for instance, _, text in _references(self, judge):
                yield judge.first_requests(instance, text)
        else:
            index = AttemptIndex(self.folder.attempts, judges=False)
            answers = RecordedAnswers(index, self.reasoning)
            task = self.judges.task
            outcomes = judged_outcomes(task)
            for instance in self.data:
                attempts = index.read(Attempt, index.find_rows(instance.id), judged=False)
                for answer in answers.separate(attempts):
                    if answer.outcome in outcomes:
                        yield judge.requests(
                            instance_of_attempt(task, instance, answer, answers), answer
                        )

    def estimate(self, retried: Collection[JudgementOutcome] = ()) -> tuple[int, EstimateRange]:
        """Return the number and the cost in US dollars of the judge's missing calls.

        Only the judge's first question about each answer counts. An unknown price counts as 0.
        """
        if self.model is None:
            return 0, EstimateRange()
        (judge,) = self.judges.models
        seen = set[str]()
        with cached_replies([self.model], self.settings) as reply:
            run_id = self.folder.run_id()
            calls = JudgeCalls(judge, lambda name: reply(name) is not None, run_id)
            for requests in self.missing_requests(retried):
                calls.add(requests, seen)
        return round(calls.total.calls.high), calls.total.usd or EstimateRange()


@dataclass(frozen=True, slots=True)
class JudgingEnd:
    """The outcome of a judging session."""

    ended: Ending
    tally: Tally
    gone: int  # attempts whose instances are no longer in the data set
    waiting: int  # attempts that a panel cannot judge before its members do
    metrics: Metrics


def registered_section(folder: RunFolder, name: str) -> JudgeSection | PanelSection | None:
    """Return the section of a judge or panel of the run, or None if the name is unknown."""
    judge = read_register(folder.path).judges.get(name)
    return None if judge is None else _registered(folder, judge, section_type(judge.section))


def _registered(folder: RunFolder, judge: RegisteredJudge, section: type[S]) -> S:
    path = folder.path / JUDGES
    section_without_removed = drop_removed_options(judge.section)
    return validate(
        section, section_without_removed, str(path), "Remove it, then run or judge again."
    )


def section_type(tree: Mapping[str, Any]) -> type[JudgeSection] | type[PanelSection]:
    """Return `PanelSection` for a section with ``of`` but no ``model``, else `JudgeSection`."""
    return PanelSection if "of" in tree and "model" not in tree else JudgeSection


def prepare_judge(
    folder: RunFolder,
    section: JudgeSection,
    settings: Settings,
    *,
    usd: float | None = None,
    references: bool = False,
) -> LaterJudge:
    """Check a judge that is to judge an existing run, and build its model.

    ``usd`` caps the run's total cost in US dollars (default: the run's own budget). With
    ``references``, the reference answers are judged instead.
    """
    section = resolve_judge_defaults(section)
    task = _task_of(folder, settings, [section])
    run = folder.read_config()
    data = CachedInstances(task)
    resources = Resources(settings)
    before = read_register(folder.path).judges.get(section.as_)
    differing: list[str] = []
    if before is not None:
        if before.members:
            raise RunConflict(f"{section.as_!r} is a panel of the run {folder.name!r}.", RENAME)
        old = resolve_judge_defaults(_registered(folder, before, JudgeSection))
        differing += conflicting_judge_keys(old, section)
    builder = ModelBuilder(resources, run.limits, folder.servers, task, data, run.folder)
    judge = build_judge(section, run.task.name, task, builder)
    if before is not None and before.fingerprint:
        hashes = before.fingerprint.items() ^ judge.fingerprint.items()
        differing += sorted({key for key, _ in hashes})
    if differing:
        raise RunConflict(
            f"The run {folder.name!r} has a judge {section.as_!r} with different values of: "
            f"{', '.join(differing)}.",
            RENAME,
        )
    if judge.model.simulated and not folder.read_manifest().get("simulated"):
        raise ConfigError(
            f"The judge {judge.name!r} is simulated, and the run {folder.name!r} is not.",
            "Simulated scores must not mix with real answers: give the judge a model.",
        )
    if usd is None:
        budget = BudgetTerms(
            run.budget_usd, run.budget.shared, base_name(folder), shard=run.parsed_shard
        )
    else:
        budget = BudgetTerms(usd)
    if budget.usd is not None:
        check_prices([judge.model], resources)
    return LaterJudge(folder, Judges(task, [judge]), data, settings, budget, references)


def prepare_panel(
    folder: RunFolder, section: PanelSection, settings: Settings, *, references: bool = False
) -> LaterJudge:
    """Check a panel of a run's judges. If ``references``, it is to judge the reference answers."""
    task = _task_of(folder, settings)
    registered = read_register(folder.path).judges
    judges = {name: judge for name, judge in registered.items() if not judge.members}
    try:
        section.check_members(judges)
    except ValueError as error:
        raise ConfigError(
            f"The run {folder.name!r}: {error}.", f"Its judges: {', '.join(judges) or 'none'}."
        ) from None
    check_panels([section], judges)
    before = registered.get(section.as_)
    if before is not None and dict(before.section) != section.model_dump(mode="json"):
        raise RunConflict(f"The run {folder.name!r} has a different judge {section.as_!r}.", RENAME)
    panel = Judges(task, [], [section])
    return LaterJudge(folder, panel, CachedInstances(task), settings, references=references)


def _task_of(
    folder: RunFolder, settings: Settings, later: Sequence[JudgeSection] = ()
) -> Task[Any]:
    if not folder.has_attempts():
        raise DataMissing(
            f"The run {folder.name!r} has no attempts to judge.", "Run its run file again."
        )
    task = build_task(folder.read_config(), settings, more_judges=later)
    difference = data_difference(folder, task.fingerprint())
    if difference:
        problem = f"The run {folder.name!r} was made with a different {difference}."
        raise RunConflict(problem, "Restore the data that it was made with.")
    return task


async def judge_later(
    job: LaterJudge, listener: Listener | None = None, retried: Collection[JudgementOutcome] = ()
) -> JudgingEnd:
    """Make judgements that are missing, failed or in ``retried``, and update the run's metrics."""
    folder = job.folder
    place = job.folder
    if not job.references or references_folder(folder).path.exists():
        check_settings(folder.path)
    models = [judge.model for judge in job.judges.models]
    async with open_session(models, job.settings, folder=folder, budget=job.budget) as session:
        lost = check_resumable(folder)
        if job.references:
            remove_states(folder.path, JUDGED_REFERENCES)
        else:
            record_incomplete(folder.path, lost)
            record_states(folder.path, compute_states(folder.path, [JUDGEMENTS], grow=True))
        try:
            # New judgements also affect the panels that include the judge.
            registered = read_register(folder.path).judges.values()
            panels = []
            for registered_judge in registered:
                if job.name in registered_judge.members:
                    panels.append(_registered(folder, registered_judge, PanelSection))
            judges = combined = replace(job.judges, panels=job.judges.panels or panels)
            if job.references:
                place, combined = _write_references(job, judges)
            judges.register(folder, later=True)
            tally = Tally(budget=session.budget)
            seal = bytes if job.references else folder.line_sealer()
            with JsonLinesWriter(place.path / JUDGEMENTS, seal) as writer:
                judging = Judging(
                    *(combined, partial(bind, session), place.attempts, writer, tally),
                    job.reasoning,
                    retried=retried,
                    notices=session.notices,
                )
                tally.expected = len(judging.missing)
                with listener(tally, session.stop, session.notices) if listener else nullcontext():
                    workers = worker_count(models, tally.expected)
                    waiting = await judging.catch_up(job.data, workers, session)
                    if lost and not job.references:
                        await judging.restore(job.data, workers, session)
        finally:
            written = list(JUDGED_REFERENCES if job.references else [JUDGEMENTS])
            if not job.references and not (lost and lacks_judgements(folder)):
                record_incomplete(folder.path, ())
                record_redraws(folder.path, count_run_redraws(folder))
            record_states(folder.path, compute_states(folder.path, written))
            manifest = folder.read_manifest()
            if lost or UNRECORDED_KEY in manifest:
                counts = msgspec.to_builtins(session.unrecorded_calls(folder))
                write_json(folder.manifest, manifest | {UNRECORDED_KEY: counts})
            metrics = compute_metrics(folder)
            write_atomically(folder.metrics, encode_metrics(metrics))
            record_states(folder.path, compute_states(folder.path, RESULT_FILES))
    left = tally.unfinished - waiting
    lost_instances = left if not session.stop.requested else 0
    ended: Ending = "finished" if left == lost_instances else session.early_ending
    return JudgingEnd(ended, tally, lost_instances, waiting, metrics)


def _write_references(job: LaterJudge, judges: Judges) -> tuple[RunFolder, Judges]:
    """Write reference answers to a folder. Return it and the judges that can score them."""
    place = references_folder(job.folder)
    judge_names = {
        *read_register(place.path).judges,
        *(judge_model.name for judge_model in judges.models),
    }
    complete = [panel for panel in judges.panels if judge_names.issuperset(panel.of)]
    for judge in judges.models:
        references = [(unit, text) for _, unit, text in _references(job, judge)]
        if not references:
            raise DataMissing(
                f"There is no reference answer to any instance of the run {job.folder.name!r} "
                f"that the judge {judge.name!r} judges.",
                "Omit --gold to judge the run's own answers.",
            )
        record_references(place, references)
    if not (judges.models or complete):
        problem = "The judges of the panel have not all judged the reference answers."
        raise DataMissing(problem, "Run each of these judges first: harness judge … --gold.")
    scoring = replace(judges, panels=complete)
    scoring.register(place, later=True)
    return place, scoring


def _references(job: LaterJudge, judge: JudgeModel) -> Iterator[tuple[Instance[Any], Unit, str]]:
    units = read_units(job.folder.attempts)
    for instance in job.data:
        unit = units.get(instance.id)
        task = job.judges.task
        if unit is None or max_turns(task, instance) > 1 or not judge.can_score(instance):
            continue
        text = task.reference(instance)
        if text and text.strip() and judge.judge.questions(instance, text):
            yield instance, unit, text
