"""A judge: asks a model whether a text is polite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import Unparseable
from harness.plugin import Judge
from harness.records import Decoding, Instance, Message, Question, Reply, Score
from harness.scoring.judges import fenced

PROMPT = "Is the text between the tags polite? Answer yes or no.\n{}"


class PolitenessJudge(Judge):
    """Yes or no."""

    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        """One question."""
        message = Message("user", PROMPT.format(fenced(text)))
        return [Question((message,), Decoding(temperature=0.0, max_tokens=1))]

    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        """Yes passes, no fails, anything else is no verdict."""
        said = replies[0].text.strip().strip(".").lower()
        if said not in ("yes", "no"):
            raise Unparseable(f"{said!r} is neither yes nor no")
        return {"polite": Score(said == "yes", said == "yes")}
