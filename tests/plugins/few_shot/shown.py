"""A toy task for few-shot prompts, and a shortcut to select its shots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from harness.config.sections import ShotsSection
from harness.plugin import Task
from harness.plugins.few_shot.shots import Mistakes, Shots
from harness.records import Instance, Message, Score


class Fact(NamedTuple):
    """A question and its answer; ``right`` is whether the answer passes the task's check."""

    asked: str
    gold: str | None
    right: bool = True


def fact(name: str, asked: str = "", gold: str | None = "?", **more: Any) -> Instance[Fact]:
    right = more.pop("right", True)
    answer = f"{name}!" if gold == "?" else gold
    return Instance(name, Fact(asked or f"{name}?", answer, right), more)


class Facts(Task[Fact]):
    """Asks for facts; a shot leaks an answer if both answers are the same."""

    on_truncated = "fail"

    def __init__(
        self, *instances: Instance[Fact], system: str = "", user_messages: int = 1
    ) -> None:
        self.all = instances
        self.system = system
        self.user_messages = user_messages

    def instances(self) -> Iterator[Instance[Fact]]:
        yield from self.all

    def fingerprint(self) -> Mapping[str, str]:
        return {"dataset": "facts"}

    def messages(
        self, instance: Instance[Fact], shots: Sequence[Instance[Fact]]
    ) -> tuple[Message, ...]:
        before = "".join(f"{shot.data.asked}={shot.data.gold};" for shot in shots)
        asked = (Message("user", before + instance.data.asked),) * self.user_messages
        return (Message("system", self.system), *asked) if self.system else asked

    def score(self, instance: Instance[Fact], text: str) -> Mapping[str, Score]:
        passed = instance.data.right and text == instance.data.gold
        return {"exact": Score(passed, passed)}

    def feedback(self, instance: Instance[Fact], text: str, scores: Mapping[str, Score]) -> str:
        return "No."

    def reference(self, instance: Instance[Fact]) -> str | None:
        return instance.data.gold

    def leaks(self, instance: Instance[Fact], shot: Instance[Fact]) -> bool:
        return instance.data.gold == shot.data.gold


def selection(
    task: Any, *, pool: Any = None, mistakes: Mistakes | None = None, **section: Any
) -> Shots:
    """A selection of one shot, with the given keys of ``task.shots``."""
    keys = ShotsSection.model_validate({"n": 1} | section)
    return Shots(task, keys, pool or task, mistakes)


def chosen(selected: Shots, number: int = 0) -> list[str]:
    """The ids of the shots of an instance."""
    instance = list(selected.task.instances())[number]
    return [shot.id for shot in selected.of(instance)]
