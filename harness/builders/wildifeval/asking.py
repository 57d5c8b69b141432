"""What a stage needs of whoever asks its model: answers, in the order of the questions.

`harness.run.curation` asks, through cache, retries, limits and budget. A build that is repeated
takes its answers from the cache and continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct

from harness.builders.wildifeval.questions import Question
from harness.records import Decoding, Logprobs

T = TypeVar("T")

AnswerOutcome = Literal["ok", "truncated", "refused", "empty"]


class StageAnswer(Struct, frozen=True):
    """A model's answer to a question.

    Attributes:
        outcome: ``refused`` also where the provider refused the question.
        logprobs: Of the first positions, where they were asked for; None for a reply that came
            after thinking, whose first positions may be those of the thoughts.
    """

    outcome: AnswerOutcome
    text: str = ""
    logprobs: Logprobs | None = None


Look = Callable[[Sequence[StageAnswer]], None]
"""Looks at the first answers, and raises to end the build where more of them would be useless."""


class Asking(Protocol):
    """Asks the models of a build."""

    def gives_logprobs(self, stage: str) -> bool:
        """Whether the model of a stage gives log-probabilities."""
        ...

    async def ask(
        self,
        stage: str,
        questions: Sequence[Question],
        decoding: Decoding,
        read: Callable[[StageAnswer], T],
        samples: int = 1,
        look: Look | None = None,
    ) -> list[list[T]]:
        """Ask all questions of a stage.

        Args:
            stage: Decides which model is asked.
            questions: Worded when they are asked.
            decoding: How the model is to decode.
            read: Reads one answer; pure.
            samples: Independent answers to each question.
            look: Looks at the first answers before the other questions are asked.

        Returns:
            What ``read`` makes of the answers: a list for each question, in their order.

        Raises:
            Stopping: The build was stopped, or its budget is spent.
            HarnessError: Calls failed; the same command makes them again.
        """
        ...

    def facts(self) -> Mapping[str, Any]:
        """What the manifest says of the models and their calls, by its keys."""
        ...
