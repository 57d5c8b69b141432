"""The conversation of a sample: its prompt, and each round's answer with what was said of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from harness.exchange.attempt_rows import ExportedRun
from harness.records import Attempt

Turn = dict[str, str]
"""``role`` and ``content``."""


def samples(run: ExportedRun) -> Iterator[list[Attempt]]:
    """The attempts of each sample by round, instance by instance.

    Raises: as `harness.store.index.AttemptIndex.read`.
    """
    attempts = run.places.read(Attempt)
    for _, rounds in groupby(attempts, lambda attempt: (attempt.instance, attempt.sample)):
        yield list(rounds)


def prompt(rounds: Sequence[Attempt]) -> list[Turn]:
    """The messages of the first round; none where the sample's first line is a later round's."""
    return [
        {"role": str(message["role"]), "content": str(message["content"])}
        for message in rounds[0].request.get("messages", ())
    ]


def followed(rounds: Sequence[Attempt]) -> list[Turn]:
    """The prompt, and each round's answer and the feedback on it, but for those after the last."""
    turns = prompt(rounds)
    for attempt in rounds[:-1]:
        turns.append({"role": "assistant", "content": attempt.text or ""})
        if attempt.feedback is not None:
            turns.append({"role": "user", "content": attempt.feedback})
    return turns
