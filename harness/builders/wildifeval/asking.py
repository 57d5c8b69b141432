"""The questions and answers of stages, and the interface to the code that calls the models.

`harness.run.curation` implements `Asking`, with cache, retries, limits and budget. A repeated build
takes its answers from the cache and continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct

from harness.records import Decoding, Logprobs

T = TypeVar("T")

AnswerOutcome = Literal["ok", "truncated", "refused", "empty"]


class StageQuestion(Struct, frozen=True):
    """A prompt, and its subject: the id of a chat, or another name.

    The prompt is rendered on demand: those of all chats would fill the memory.
    """

    about: str
    text: Callable[[], str]


class StageAnswer(Struct, frozen=True):
    """A model's answer to a question.

    Attributes:
        outcome: How the call ended; ``refused`` also if the provider refused the question.
        logprobs: For the first positions, if requested; None after visible thinking, since these
            positions may belong to the thoughts.
    """

    outcome: AnswerOutcome
    text: str = ""
    logprobs: Logprobs | None = None


Look = Callable[[Sequence[StageAnswer]], None]
"""Looks at the first answers; raises to end a build in which more of them would be useless."""


class Asking(Protocol):
    """Asks the models of a build."""

    def gives_logprobs(self, stage: str) -> bool:
        """Return whether the model of a stage gives log-probabilities."""
        ...

    async def ask(
        self,
        stage: str,
        questions: Sequence[StageQuestion],
        decoding: Decoding,
        read: Callable[[StageAnswer], T],
        samples: int = 1,
        look: Look | None = None,
    ) -> list[list[T]]:
        """Ask all questions of a stage.

        Args:
            stage: Decides which model is asked.
            read: Reads one answer; pure.
            samples: Independent answers to each question.
            look: Looks at the first answers before the other questions are asked.

        Returns:
            The answers as parsed by ``read``: a list for each question, in their order.

        Raises:
            Stopping: The build was stopped, or its budget is spent.
            HarnessError: Calls failed; the same command repeats them.
        """
        ...

    def facts(self) -> Mapping[str, Any]:
        """Return what the manifest says about the models and their calls, by its keys."""
        ...
