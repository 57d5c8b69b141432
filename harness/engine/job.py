"""One run, with its parts, ready to execute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine import models
from harness.engine.plan import FewShotPrompts, HeldInstances, RunPlan, Work, run_instances
from harness.engine.recordings import recording_hashes
from harness.engine.resolving import code_hashes
from harness.engine.run_copies import RunCopies
from harness.engine.turns import user_role
from harness.errors import ConfigError
from harness.ports import Observer, Task
from harness.records import Instance, content_hash
from harness.store.run_folder import RunFolder

if TYPE_CHECKING:
    from harness.engine.judges import JudgeModel  # not imported for a run without judges
    from harness.engine.next_turn import PlayedUser


class FileVariant(NamedTuple):
    """The place of a run in a run file with several variants."""

    name: str = ""  # of the variant; empty if there are no variants
    runs: Sequence[str] = ()  # names of all runs of the file, which share a budget
    listed: Sequence[str] = ()  # all variants of the file


ONLY_VARIANT = FileVariant()


@dataclass(frozen=True)
class Job:
    """One run, checked and ready to execute."""

    run: RunFile
    folder: RunFolder
    task: Task[Any]
    data: HeldInstances
    model: models.Model
    settings: Settings
    paraphraser: models.Model | None = None  # rewrites instructions and feedback (``polish``)
    user: PlayedUser | None = None  # plays the user in conversations
    judges: tuple[JudgeModel, ...] = ()
    shots: FewShotPrompts | None = None
    # outcomes or finish reasons of attempts to retry
    retried: frozenset[str] = frozenset({"error"})
    variant: FileVariant = ONLY_VARIANT
    observers: Mapping[str, Observer] = field(default_factory=dict)  # by name
    rescore: bool = False  # if only the scoring has changed, score the run's answers again
    copies: RunCopies | None = None  # where the run is copied to as it grows
    only: int | None = None  # the number of instances to work on, if the run has a larger limit

    @property
    def models(self) -> list[models.Model]:
        """All models of the run."""
        second = [self.paraphraser] if self.paraphraser else []
        second += [self.user.model] if self.user else []
        return [self.model, *second, *(judge.model for judge in self.judges)]

    @property
    def instances(self) -> Iterable[Instance[Any]]:
        """The run's instances, in order of sampling."""
        return run_instances(self.run, self.data)

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        """Hashes and versions, by name, of all inputs of prompts and scores except the run file."""
        found = {**self.task.fingerprint(), **code_hashes(self.run)}
        found |= recording_hashes(self.run, self.settings)
        found |= self.model.backend.fingerprint()
        if self.shots:
            found["shots_sha256"] = self.shots.fingerprint()
        if self.user is not None:
            found["user_prompt_sha256"] = self.user.prompt.sha256
            hashes = self.user.model.backend.fingerprint()
            found |= {f"user_{key}": value for key, value in hashes.items()}
            roles = {one.id: user_role(self.task, one) for one in self.data}
            found["users_hash"] = content_hash(roles)
        for judge in self.judges:
            hashes = judge.fingerprint
            found |= {f"judge_{judge.name}_{key}": value for key, value in hashes.items()}
        if other := {key: value for key, value in found.items() if not isinstance(value, str)}:
            raise ConfigError(
                f"The fingerprint of a plug-in of this run has values that are not text: {other}.",
                "Make them text, then check the plug-in (harness docs plugins).",
            )
        return found

    def plan(self, *, whole: bool = False) -> RunPlan:
        """Return the plan of the unfinished work in this session or, if ``whole``, in the run."""
        index = None
        if self.folder.begun():
            from harness.store.index import AttemptIndex  # NumPy takes 0.2 s to import

            index = AttemptIndex(self.folder.attempts, judges=False)
        features = self.model.backend.features
        instances = self.instances
        if self.only is not None and not whole:
            fewer = self.run.model_copy(update={"limit": self.only})
            instances = run_instances(fewer, self.data)
        return RunPlan(self.task, self.run, instances, index, features, self.retried, self.shots)

    def unanswerable(self) -> int:
        """Return for how many instances a simulated model knows no answer."""
        if not self.model.simulated:
            return 0
        return sum(self.task.reference(one) is None for one in self.instances)

    def work(self, plan: RunPlan) -> Work:
        """Return the amount of work in the run, given the plan of this session."""
        total, owed = plan.count()
        if self.only is None:
            return Work(total, owed)
        whole = replace(self.plan(whole=True), index=plan.index)  # with the same verdicts
        total, left = whole.count()
        return Work(total, owed, left - owed)
