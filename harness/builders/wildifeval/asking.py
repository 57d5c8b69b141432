"""The questions and answers of stages, and the interface to the code that calls the models.

`harness.run.curation` implements `Asking`, with cache, retries, limits and budget. A repeated build
takes its answers from the cache and continues where it stopped.

>>> Questions(["a", "b"], lambda name: Question(name, f"Who is {name}?"))[1].text
'Who is b?'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar, overload

from msgspec import Struct

from harness.records import Decoding, Logprobs

T = TypeVar("T")

AnswerOutcome = Literal["ok", "truncated", "refused", "empty"]


class StageQuestion(Struct, frozen=True):
    """A prompt, and its subject: the id of a chat, or another name."""

    about: str
    text: str


class Questions(Sequence[StageQuestion]):
    """Questions whose prompts are rendered on demand: all of them would fill the memory.

    Args:
        of: The subjects of the questions.
        question: Builds the question for a subject; pure.
    """

    def __init__(self, of: Sequence[T], question: Callable[[T], StageQuestion]) -> None:
        self._of: Sequence[Any] = of
        self._question: Callable[[Any], StageQuestion] = question

    def __len__(self) -> int:
        return len(self._of)

    @overload
    def __getitem__(self, place: int) -> StageQuestion: ...

    @overload
    def __getitem__(self, place: slice) -> Questions: ...

    def __getitem__(self, place: int | slice) -> StageQuestion | Questions:
        if isinstance(place, slice):
            return Questions(self._of[place], self._question)
        return self._question(self._of[place])


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
            questions: The questions.
            decoding: How the model decodes.
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
