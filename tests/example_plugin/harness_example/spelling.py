"""A task: repeat a word. Gold answers pass, anything else fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.plugin import Task
from harness.records import Instance, Message, Score

WORDS = ("necessary", "rhythm", "accommodate")


class SpellingTask(Task[str]):
    """Three words to repeat.

    shout: ask for capitals.
    score_fails: raise an exception in place of a score.
    """

    on_truncated = "fail"

    def __init__(self, shout: bool = False, score_fails: bool = False) -> None:
        self._shout, self._score_fails = shout, score_fails

    def instances(self) -> Iterator[Instance[str]]:
        """One instance per word."""
        for word in WORDS:
            asked = word.upper() if self._shout else word
            yield Instance(word, asked, {"length": str(len(word))})

    def fingerprint(self) -> Mapping[str, str]:
        """The words are the code."""
        return {"words": ",".join(WORDS)}

    def messages(
        self, instance: Instance[str], shots: Sequence[Instance[str]]
    ) -> tuple[Message, ...]:
        """One turn."""
        return (Message("user", f"Repeat this word: {instance.data}"),)

    def score(self, instance: Instance[str], text: str) -> Mapping[str, Score]:
        """Exact match."""
        if self._score_fails:
            raise RuntimeError("a mistake in the plug-in")
        right = text.strip() == instance.data
        return {"exact": Score(right, right, "" if right else f"not {instance.data!r}")}

    def feedback(self, instance: Instance[str], text: str, scores: Mapping[str, Score]) -> str:
        """Say it again."""
        return f"That was wrong. Repeat this word: {instance.data}"

    def reference(self, instance: Instance[str]) -> str | None:
        """The word."""
        return instance.data
