"""A run to export, and the conversations of its samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from harness.records import Attempt
from harness.store.index import AttemptIndex

Turn = dict[str, str]
"""``role`` and ``content``."""


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """A run to export."""

    name: str
    task: str
    model: str | None
    simulated: bool
    index: AttemptIndex

    def samples(self) -> Iterator[list[Attempt]]:
        """Yield the attempts of each sample by round, instance by instance."""
        attempts = self.index.read(Attempt)
        for _, rounds in groupby(attempts, lambda attempt: (attempt.instance, attempt.sample)):
            yield list(rounds)


def prompt(rounds: Sequence[Attempt]) -> list[Turn]:
    """Return the messages of the first round; empty if the sample's first line is a later
    round's.
    """
    return [
        {"role": str(message["role"]), "content": str(message["content"])}
        for message in rounds[0].request.get("messages", ())
    ]


def conversation(rounds: Sequence[Attempt]) -> list[Turn]:
    """Return what the last answer replies to: the prompt, and earlier rounds' answers and
    feedback.
    """
    turns = prompt(rounds)
    for attempt in rounds[:-1]:
        turns.append({"role": "assistant", "content": attempt.text or ""})
        if attempt.feedback is not None:
            turns.append({"role": "user", "content": attempt.feedback})
    return turns
