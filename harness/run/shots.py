"""Few-shot prompts: an instance's round-1 messages with its shots before it.

Whatever has chosen them, a shot that shows the instance's answer is refused here once more.

>>> Shots(selection).messages(instance)  # doctest: +SKIP
(Message('user', '1 + 1?'), Message('assistant', '2'), Message('user', '2 + 2?'))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from harness.errors import ConfigError, ShotLeaks
from harness.ports import LeakAware
from harness.records import Instance, Message
from harness.run.shot_selection import Selection

Messages = tuple[Message, ...]


class Shots:
    """The shots of a run, written into its prompts as ``selection.section`` says."""

    def __init__(self, selection: Selection) -> None:
        self._task = selection.task
        self._selection = selection

    def messages(self, instance: Instance[Any]) -> Messages:
        """The round-1 messages of an instance.

        Raises: ShotLeaks for a shot that shows its answer; ConfigError where the form
            cannot hold the task's prompts.
        """
        shots = self._selection.of(instance)
        asked = self._task.messages(instance, ())
        parts = [(self._guarded(instance, asked, shot), self._gold(shot)) for shot in shots]
        form = self._selection.section.form
        if form == "task":
            return self._task.messages(instance, shots)
        system, asked = _parted(asked)
        turns = [_without_system(prompt, system) for prompt, _ in parts]
        golds = [gold for _, gold in parts]
        if form == "message":
            return (*system, Message("user", _one_text([*turns, asked], golds)))
        answered = [
            (*turn, Message("assistant", gold)) for turn, gold in zip(turns, golds, strict=True)
        ]
        return (*system, *(message for turn in answered for message in turn), *asked)

    def check(self, instances: Callable[[], Iterator[Instance[Any]]]) -> None:
        """Choose and form everything once, before any call is made.

        instances: gives a new pass over the run's instances.

        Raises: ConfigError, for an instance with too few shots too.
        """
        self._selection.check(instances())
        for instance in instances():
            self.messages(instance)

    @property
    def lacking(self) -> int:
        """Instances that get fewer shots than asked for, once `check` has looked."""
        return self._selection.lacking

    def fingerprint(self) -> Mapping[str, str]:
        """What the shots depend on, for the manifest."""
        return {"shots_sha256": self._selection.fingerprint()}

    def _guarded(self, instance: Instance[Any], asked: Messages, shot: Instance[Any]) -> Messages:
        """A shot's prompt, once it is sure that the shot shows nothing of the instance."""
        prompt = self._selection.pool.task.messages(shot, ())
        aware = self._task if isinstance(self._task, LeakAware) else None
        for leaks, why in (
            (shot.id == instance.id, "it is the instance itself"),
            (prompt == asked, "it has the same prompt"),
            (aware and aware.leaks(instance, shot), "its answer is right here too"),
        ):
            if leaks:
                raise ShotLeaks(
                    f"The shot {shot.id!r} gives the answer to {instance.id!r} away: {why}.",
                    "This is a fault of the harness's selection: please report it.",
                )
        return prompt

    def _gold(self, shot: Instance[Any]) -> str:
        gold = self._selection.pool.task.reference(shot)
        if gold is None:
            raise ShotLeaks(f"The shot {shot.id!r} has no answer to show.")
        return gold


def _parted(messages: Messages) -> tuple[Messages, Messages]:
    """The system messages at the beginning, and the rest."""
    first = next((n for n, found in enumerate(messages) if found.role != "system"), len(messages))
    return messages[:first], messages[first:]


def _without_system(prompt: Messages, system: Messages) -> Messages:
    own, turns = _parted(prompt)
    if own and own != system:
        raise ConfigError(
            "task.shots: a shot's system message is not that of the instance, which goes before "
            "all of them.",
            "Choose shots that share it by a label in within.",
        )
    return turns


def _one_text(prompts: Sequence[Messages], golds: Sequence[str]) -> str:
    """Each prompt with its answer in the next line, blank lines between, the last one open."""
    if any(len(prompt) != 1 or prompt[0].role != "user" for prompt in prompts):
        raise ConfigError(
            "task.shots: form 'message' cannot hold the task's prompts, which have several turns.",
            "Set task.shots.form to turns.",
        )
    *shown, asked = (prompt[0].content for prompt in prompts)
    pairs = [f"{prompt}\n{gold}\n\n" for prompt, gold in zip(shown, golds, strict=True)]
    return "".join((*pairs, asked))
