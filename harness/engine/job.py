"""One run, with its parts, ready to execute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from harness.config.run_file import RunFile
from harness.config.sections import UserSection
from harness.config.settings import Settings
from harness.engine.infrastructure import RunCopies
from harness.engine.judges import JudgeModel
from harness.engine.models import Model
from harness.engine.plan import CachedInstances, FewShotPrompts, RunPlan, Work, run_instances
from harness.engine.resolving import code_hashes, recording_hashes
from harness.engine.session import BoundModel, BudgetTerms
from harness.engine.turns import Rewriter, UserTurns, user_role
from harness.errors import ConfigError
from harness.plugin_loader import kind
from harness.ports import APPLICATION, Observer, Task
from harness.prompts import Template
from harness.records import Instance, Message, Origin, Request, UserRole, content_hash
from harness.store.judgements import FAILED_OUTCOMES
from harness.store.run_folder import RunFolder
from harness.store.runs import base_name
from harness.wording import format_count


class FileVariant(NamedTuple):
    """A run's variant in its run file, and the file's other variants."""

    name: str = ""  # empty if there are no variants
    run_names: Sequence[str] = ()  # of all runs of the file, which share a budget
    variant_names: Sequence[str] = ()  # of the file or, if it extends an evaluation, of that
    extends: bool = False  # whether earlier runs of other variants still belong to the evaluation
    varied_keys: Sequence[str] = ()  # keys of the task in which the runs of the file differ


ONLY_VARIANT = FileVariant()


class ParaphrasingModel(Protocol):
    """The configured model that paraphrases instructions and feedback.

    A package declares, as ``polish`` of its `section_builders`, a function that returns one, given
    the run file and the run's `ModelBuilder`.
    """

    @property
    def model(self) -> Model:
        """The model."""

    def rewriter(self, bound: BoundModel) -> Rewriter:
        """Return the rewriter that calls a model through its call stack."""


class PlayedUser(Protocol):
    """The configured model that plays the user in conversations.

    A package declares, as ``user`` of its `section_builders`, a function that returns one, given
    the section, the run's `ModelBuilder` and its seed.
    """

    @property
    def section(self) -> UserSection:
        """The section of the run file."""

    @property
    def model(self) -> Model:
        """The model."""

    @property
    def prompt(self) -> Template:
        """The prompt."""

    def request(self, role: UserRole, messages: Sequence[Message], origin: Origin) -> Request:
        """Return the request for the user's next turn in a conversation."""

    def turns(self, task: Task[Any], bound: BoundModel, instance: Instance[Any]) -> UserTurns:
        """Return the user's turns in an instance.

        Args:
            task: The task.
            bound: The user's model with its call stack.
            instance: The instance.
        """


@dataclass(frozen=True)
class Job:
    """One run, checked and ready to execute."""

    run: RunFile
    folder: RunFolder
    task: Task[Any]
    data: CachedInstances
    model: Model
    settings: Settings
    paraphraser: ParaphrasingModel | None = None  # rewrites instructions and feedback (``polish``)
    user: PlayedUser | None = None  # plays the user in conversations
    judges: tuple[JudgeModel, ...] = ()
    shots: FewShotPrompts | None = None
    retried: frozenset[str] = frozenset({"error"})  # outcomes and finish reasons to retry
    variant: FileVariant = ONLY_VARIANT
    observers: Mapping[str, Observer] = field(default_factory=dict)  # by name
    rescore: bool = False  # if only the scoring has changed, score the run's answers again
    copies: RunCopies | None = None  # where the run is copied to as it grows
    session_limit: int | None = None  # instances to work on, if the run has a larger limit

    @property
    def models(self) -> list[Model]:
        """All models of the run."""
        models = [self.model]
        if self.paraphraser is not None:
            models.append(self.paraphraser.model)
        if self.user is not None:
            models.append(self.user.model)
        return [*models, *(judge.model for judge in self.judges)]

    @property
    def answering_models(self) -> list[Model]:
        """All models except the one that paraphrases."""
        return [model for model in self.models if model.where != "polish"]

    @property
    def repeats_samples(self) -> bool:
        """Whether the run draws several samples from a model at temperature 0."""
        run = self.run
        if run.samples == 1 or run.decoding.temperature != 0:
            return False
        if self.user is not None or self.paraphraser is not None:  # the prompts may vary
            return False
        features = self.model.backend.features
        if "recorded" in features or "temperature" not in features:
            return False
        return not (self.model.simulated or self.is_application)

    @property
    def is_application(self) -> bool:
        """Whether the user's own code answers: it may change without a change of the run file."""
        is_own_code = kind("backends").is_user_code(self.run.model.backend)
        return is_own_code or APPLICATION in self.model.backend.features

    @property
    def budget_terms(self) -> BudgetTerms:
        """The run's budget, and the runs that share it."""
        run = self.run
        base = base_name(self.folder, self.variant.name)
        shared_name = run.budget.shared
        return BudgetTerms(
            run.budget_usd, shared_name, base, self.variant.run_names, run.parsed_shard
        )

    @property
    def instances(self) -> Iterable[Instance[Any]]:
        """The run's instances, in order of sampling."""
        return run_instances(self.run, self.data)

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        """Hashes and versions, by name, of all inputs of prompts and scores except the run file."""
        hashes = {**self.task.fingerprint(), **code_hashes(self.run)}
        hashes |= recording_hashes(self.run, self.settings)
        hashes |= self.model.backend.fingerprint()
        if self.shots:
            hashes["shots_sha256"] = self.shots.fingerprint()
        if self.user is not None:
            hashes["user_prompt_sha256"] = self.user.prompt.sha256
            for key, value in self.user.model.backend.fingerprint().items():
                hashes[f"user_{key}"] = value
            roles = {instance.id: user_role(self.task, instance) for instance in self.data}
            hashes["users_hash"] = content_hash(roles)
        for judge in self.judges:
            for key, value in judge.fingerprint.items():
                hashes[f"judge_{judge.name}_{key}"] = value
        if invalid := {key: value for key, value in hashes.items() if not isinstance(value, str)}:
            problem = "The fingerprint of a plug-in of this run has values that are not text"
            remedy = "Make them text, then check the plug-in (harness docs plugins)."
            raise ConfigError(f"{problem}: {invalid}.", remedy)
        return hashes

    def plan(self, *, full: bool = False) -> RunPlan:
        """Return the plan of this session's unfinished work or, if ``full``, of the run's."""
        index = None
        if self.folder.has_attempts():
            from harness.store.index import AttemptIndex  # NumPy takes 0.2 s to import

            index = AttemptIndex(self.folder.attempts, judges=False)
        features = self.model.backend.features
        instances = self.instances
        if self.session_limit is not None and not full:
            limited = self.run.model_copy(update={"limit": self.session_limit})
            instances = run_instances(limited, self.data)
        return RunPlan(self.task, self.run, instances, index, features, self.retried, self.shots)

    def count_unanswerable(self) -> int:
        """Count the instances to which a simulated model knows no answer."""
        if not self.model.simulated:
            return 0
        return sum(self.task.reference(instance) is None for instance in self.instances)

    def count_work(self, plan: RunPlan) -> Work:
        """Return the amount of work in the run, given the plan of this session."""
        total, unfinished = plan.count_samples()
        if self.session_limit is None:
            return Work(total, unfinished)
        full_plan = replace(self.plan(full=True), index=plan.index)  # with the same verdicts
        run_total, run_unfinished = full_plan.count_samples()
        return Work(run_total, unfinished, run_unfinished - unfinished)

    def has_calls_left(self) -> bool:
        """Return whether calls of the run remain, including failed ones to repeat."""
        if not self.folder.has_attempts() or self.plan().count_samples()[1]:
            return True
        from harness.store.index import AttemptIndex  # NumPy takes 0.2 s to import

        index = AttemptIndex(self.folder.attempts, partial=True)
        judge_names = [judge.name for judge in self.judges]
        if not index.judgements:
            return bool(judge_names)
        return bool(index.missing_judgements(judge_names, FAILED_OUTCOMES))


ShowPlans = Callable[[Sequence[Job], Sequence[str], str], None]
"""The step ``dry_run``: shows the plans of runs instead of executing them.

It takes the runs, the names of missing environment variables with secrets, and the prefix of the
runs' names.
"""

Confirm = Callable[[Sequence[Job], Settings, bool], None]
"""The step ``confirm``: is called before runs start, and raises an error to prevent it.

It takes the runs, the settings, and whether to skip questions to the user. All plug-ins' functions
are called.
"""


class ScoredAgain(NamedTuple):
    """How many attempts were scored again, and what changed."""

    attempts: int
    changed: int  # verdicts of rules and judges together
    revalued: int  # answers with a score whose value changed
    dropped: int  # later rounds that no longer count, because the feedback before them has changed

    def __str__(self) -> str:
        later = f", {self.dropped:,} later rounds followed other feedback" if self.dropped else ""
        scored = f"{self.attempts:,} recorded answers were scored again"
        changed = f"{format_count(self.changed, 'verdict')} changed"
        if self.revalued != self.changed:
            changed += f", and scores of {format_count(self.revalued, 'answer')}"
        return f"{scored}: {changed}{later}."


Rescore = Callable[[Job], ScoredAgain]
"""The step ``rescore``: scores a run's recorded answers again, because its checks have changed."""
