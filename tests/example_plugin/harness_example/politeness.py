"""A judge: asks a model whether a text is polite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import Unparseable
from harness.records import Decoding, Instance, Message, Origin, Reply, Request, Score


class PolitenessJudge:
    """Yes or no.

    model: the judging model's name, which the harness hands over.
    """

    def __init__(self, *, model: str = "judge") -> None:
        self._model = model

    def requests(self, instance: Instance[Any], text: str) -> Sequence[Request]:
        """One question."""
        asked = f"Is the text between the lines polite? Answer yes or no.\n---\n{text}\n---"
        return [
            Request(
                self._model,
                (Message("user", asked),),
                Decoding(temperature=0.0, max_tokens=1),
                0,
                Origin(instance.id, 0, 1),
            )
        ]

    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        """Yes passes, no fails, anything else is no verdict."""
        said = replies[0].text.strip().strip(".").lower()
        if said not in ("yes", "no"):
            raise Unparseable(f"{said!r} is neither yes nor no")
        return {"polite": Score(said == "yes", said == "yes")}
