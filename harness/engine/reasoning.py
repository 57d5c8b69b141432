"""Separates reasoning in the replies of all models, and in recorded attempts.

Replies are separated after they come from the cache, which keeps them as the provider sent them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from harness.calls.calls import Calls, ReplyUnsaved
from harness.errors import option
from harness.records import (
    CONSTRAINT_REFUSED,
    FINISH_REASONS,
    Attempt,
    Call,
    Logprobs,
    Request,
)
from harness.scoring.reasoning import Prompt, Reasoning, SeparatedReply, closing_mark

if TYPE_CHECKING:
    from harness.store.index import AttemptIndex  # NumPy takes 0.2 s to import

REASONING = "model.reasoning"
"""The run file's key for the marks of the evaluated model."""

MAX_SEARCHED_ATTEMPTS = 200  # first recorded attempts to search when a run is resumed

MarkCounts = Mapping[str, int]
"""The number of answers that begin with each unknown mark."""


@dataclass(eq=False)
class SeparatedCalls:
    """The top of a call stack: separates the reasoning of each reply.

    Args:
        calls: The layers below.
        reasoning: The marks of the model's reasoning.
        evaluated: Whether the model is the evaluated one. The user messages of other models, such
            as judges, quote texts, so that marks in them are no mentions.
        unknown: Counts the answers that begin with each unknown mark.
        unknown_reasons: Counts the replies with each unknown finish reason.
    """

    calls: Calls
    reasoning: Reasoning
    evaluated: bool = True
    unknown: Counter[str] = field(default_factory=Counter)
    unknown_reasons: Counter[str] = field(default_factory=Counter)

    async def __call__(self, request: Request) -> Call:
        """Make a call, and return it with a reply whose text is only the answer."""
        try:
            call = await self.calls(request)
        except ReplyUnsaved as error:
            error.call = self._separate(request, error.call)
            raise
        return self._separate(request, call)

    def _separate(self, request: Request, call: Call) -> Call:
        reply = call.reply
        if reply.finish_reason not in FINISH_REASONS:
            self.unknown_reasons[reply.finish_reason] += 1
        if (
            request.loglikelihoods
            or request.window
            or not self.reasoning.may_have_marks(reply.text)
        ):
            return call
        prompt = _prompt(request, self.evaluated)
        answer, reasoning = _separate_text(self.reasoning, reply.text, prompt, self.unknown)
        if reasoning is None:
            return call
        separated_reply = replace(
            reply,
            text=answer,
            reasoning=reply.reasoning or reasoning,
            logprobs=_answer_logprobs(reply.logprobs, reply.text, answer),
        )
        return replace(call, reply=separated_reply)


def _separate_text(
    reasoning: Reasoning, text: str, prompt: Prompt, unknown: Counter[str]
) -> SeparatedReply:
    """Separate a text, and count the unknown mark with which its answer begins, if any."""
    separated = reasoning.separate(text, prompt)
    mark = reasoning.unknown_mark(separated.answer, prompt)
    if mark is not None:
        unknown[mark] += 1
    return separated


def _prompt(request: Request, evaluated: bool) -> Prompt:
    messages = request.messages
    if not evaluated:
        texts = [message.content for message in messages if message.role == "system"]
        return Prompt(texts, decoding=request.decoding.specified_fields())
    # Each later round adds a turn of the user, after an answer. Earlier ones are shots.
    user_indices = [i for i, message in enumerate(messages) if message.role == "user"]
    round_number = request.origin.round
    prompt_end = len(messages)
    if len(user_indices) >= round_number:
        prompt_end = user_indices[-round_number] + 1
    opening = messages[:prompt_end]
    later_messages = messages[prompt_end:]
    return Prompt(
        [message.content for message in opening if message.role != "assistant"],
        request.decoding.specified_fields(),
        turns=[message.content for message in later_messages if message.role != "assistant"],
        answers=[message.content for message in later_messages if message.role == "assistant"],
        examples=[message.content for message in opening if message.role == "assistant"],
    )


def _answer_logprobs(logprobs: Logprobs | None, text: str, answer: str) -> Logprobs | None:
    """Return the log-probabilities of an answer that ends a text, or None if they are not known.

    The answer begins where the likeliest tokens spell the text before it.
    """
    if not logprobs:
        return None
    text_before = text.removesuffix(answer) if answer else text
    spelled = ""
    for position, tokens in enumerate(logprobs):
        if spelled == text_before:
            return logprobs[position:]
        spelled += tokens[0].token if tokens else ""
    return None


class RecordedReasoning:
    """Separates the reasoning in recorded attempts, which earlier versions may have left in.

    Attributes:
        separated: The number of attempts whose text has changed.
        unknown: The number of answers that begin with each unknown mark.
    """

    def __init__(self, reasoning: Reasoning) -> None:
        self.reasoning = reasoning
        self.separated = 0
        self.unknown: Counter[str] = Counter()

    def separate(self, attempt: Attempt, earlier: Sequence[Attempt]) -> Attempt:
        """Return an attempt without reasoning in its text.

        Args:
            attempt: The recorded attempt.
            earlier: The attempts in the sample's earlier rounds.
        """
        if not attempt.text or attempt.finish_reason == CONSTRAINT_REFUSED:
            return attempt
        if not self.reasoning.may_have_marks(attempt.text):
            return attempt
        if attempt.reasoning is not None:  # separated when it was read
            return attempt
        if attempt.request.get("loglikelihoods") or attempt.request.get("window"):
            return attempt
        prompt = _recorded_prompt(attempt, earlier)
        answer, reasoning = _separate_text(self.reasoning, attempt.text, prompt, self.unknown)
        if reasoning is None:
            return attempt
        self.separated += 1
        return replace(attempt, text=answer, reasoning=reasoning)


def _recorded_prompt(attempt: Attempt, earlier: Sequence[Attempt]) -> Prompt:
    first = earlier[0] if earlier else attempt
    messages = first.request.get("messages") or ()
    texts = [(message.get("role"), str(message.get("content") or "")) for message in messages]
    return Prompt(
        [text for role, text in texts if role != "assistant"],
        attempt.request.get("decoding") or {},
        turns=[earlier_round.feedback or "" for earlier_round in earlier],
        answers=[earlier_round.text or "" for earlier_round in earlier],
        examples=[text for role, text in texts if role == "assistant"],
    )


class RecordedAnswers:
    """A run's recorded attempts with their reasoning separated, for all scorers and judges.

    Args:
        index: The run's attempts.
        reasoning: The marks of the run's model.
    """

    def __init__(self, index: AttemptIndex, reasoning: Reasoning) -> None:
        self._index = index
        self._recorded = RecordedReasoning(reasoning)

    def separate(self, attempts: Iterable[Attempt]) -> Iterator[Attempt]:
        """Yield attempts of the run with their reasoning separated."""
        for attempt in attempts:
            earlier: Sequence[Attempt] = ()
            if attempt.round > 1:
                earlier = self.rounds(attempt.instance, attempt.sample, attempt.round)
            yield self._recorded.separate(attempt, earlier)

    def rounds(self, instance: str, sample: int, before: int) -> list[Attempt]:
        """Return a sample's attempts in the rounds before ``before``."""
        rounds: list[Attempt] = []
        for attempt in self._index.read_rounds(instance, sample, before):
            rounds.append(self._recorded.separate(attempt, rounds))
        return rounds


def reasoning_warning(attempts: AttemptIndex, reasoning: Reasoning) -> str:
    """Return a warning if a run's first recorded answers contain reasoning, else ""."""
    recorded = RecordedReasoning(reasoning)
    for attempt in attempts.read(
        Attempt, range(min(MAX_SEARCHED_ATTEMPTS, len(attempts))), judged=False
    ):
        if attempt.round == 1:
            recorded.separate(attempt, ())
    if not recorded.separated:
        return ""
    remedy = f"To score them without it: {option('rescore')}."
    return f"answers of earlier sessions contain reasoning, which was scored, too. {remedy}"


def mark_warnings(answers: MarkCounts, where: str = "model") -> Iterator[str]:
    """Yield a warning for each unknown mark with which answers begin.

    Args:
        answers: The number of answers, by mark.
        where: The key of the model's section in the run file.
    """
    flag = option("rescore") if where == "model" else option("fresh")
    for mark, count in sorted(answers.items()):
        subject = "1 answer begins" if count == 1 else f"{count:,} answers begin"
        yield (
            f"{subject} with {mark}, which is not known as a mark of reasoning. If it is one, what "
            f"follows was scored as the answer: set {where}.reasoning: "
            f"[known, ['{mark}', '{closing_mark(mark)}']] and run again with {flag}."
        )
