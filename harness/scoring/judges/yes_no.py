"""Judges whether an answer satisfies its criteria, asking about each criterion separately.

This is for tasks with criteria (`Task.criteria`), such as WildIFEval. A criterion is
satisfied if the probability of yes is at least 0.5. The probability is read from the
log-probabilities of greedy decoding or, without these or if ``votes`` is set, is the share of yes
votes. A reply that says neither yes nor no is an abstention, not a no.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from typing_extensions import override

from harness.errors import ConfigError, Unparseable
from harness.ports import LOGPROBS, Task, overrides
from harness.records import (
    Criterion,
    Decoding,
    Instance,
    Question,
    Reply,
    Request,
    Score,
    TokenLogprob,
)
from harness.scoring import judges
from harness.scoring.judges import (
    TOKENS,
    VOTES,
    JudgePrompt,
    PromptJudge,
    criteria_scores,
    fenced,
    mean,
    vote,
)


class YesNo(PromptJudge):
    """Asks for each criterion whether the answer satisfies it: yes or no.

    Args:
        prompt: Name of a built-in template, or a file. Fields: text, criterion, asked.
        votes: Number of votes. By default, log-probabilities are read if the judge's backend
            returns them; otherwise there are five votes.
        temperature: Sampling temperature of votes.
        max_tokens: Maximum tokens of a reply.
    """

    by_criteria = True

    def __init__(
        self,
        prompt: str = "yes_no",
        votes: int | None = None,
        temperature: float = 0.7,
        max_tokens: int = 5,
        *,
        task: Task[Any],
        features: Collection[str] | None = None,
    ) -> None:
        if not overrides(task, Task.criteria):
            raise ConfigError(
                "The task does not say what an answer has to satisfy.",
                "Remove it, or give the task instruction and criteria (harness docs plugins).",
            )
        if votes is not None and votes < 1:
            raise ConfigError("votes must be 1 or more.")
        if votes is None and features is not None and LOGPROBS not in features:
            votes = VOTES
        decoding = Decoding(temperature, max_tokens)
        super().__init__(JudgePrompt(prompt, {"criterion"}, task), decoding, votes or 1)
        if votes is None:
            self.decoding = Decoding(0.0, max_tokens, logprobs=TOKENS)
        self._task = task
        self._votes = votes

    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        """Return one question for each criterion."""
        return [
            self.question(instance, text, criterion=fenced(criterion.text, "criterion"))
            for criterion in self._task.criteria(instance)
        ]

    def parse(
        self, instance: Instance[Any], replies: Sequence[Reply], *, text: str | None = None
    ) -> Mapping[str, Score]:
        """Return the scores ``strict`` and ``soft`` (see `criteria_scores`).

        Raises:
            Unparseable: If there are no criteria, or if none of the replies has the required
                log-probabilities.
        """
        criteria = self._task.criteria(instance)
        if not criteria:
            raise Unparseable(f"{instance.id!r} has no criteria to decide on.")
        if self._votes is not None:
            decided = [_by_votes(ballot) for ballot in self.by_question(replies)]
        elif replies and all(reply.reasoning or reply.logprobs is None for reply in replies):
            raise Unparseable(
                "The judging model returned no log-probabilities of an answer.",
                f"Let it vote: set the judge's votes: {VOTES}.",
            )
        else:
            decided = [_by_tokens(reply) for reply in replies]
        verdicts = zip(criteria, decided, strict=True)
        return criteria_scores([_constraint(*verdict) for verdict in verdicts])

    @override
    def simulated(self, request: Request) -> str:
        """Return "Yes"."""
        return "Yes"


def _by_votes(ballot: Sequence[Reply]) -> dict[str, Any]:
    votes = [vote(reply.text) for reply in ballot]
    return {"probability": mean(votes), "votes": votes}


def _by_tokens(reply: Reply) -> dict[str, Any]:
    # After reasoning, the log-probabilities may belong to the reasoning.
    logprobs = () if reply.reasoning else reply.logprobs or ()
    yes = judges.yes_probability(logprobs)
    if yes is None:
        return {"probability": None, "tokens": _written(logprobs[0] if logprobs else ())}
    tokens = _written(yes.tokens)
    return {"probability": yes.probability, "position": yes.position, "tokens": tokens}


def _written(tokens: Sequence[TokenLogprob]) -> list[list[str | float]]:
    return [[token.token, token.logprob] for token in tokens[:TOKENS]]


def _constraint(criterion: Criterion, details: Mapping[str, Any]) -> dict[str, Any]:
    """Return a criterion with its verdict, in the form that `harness.analysis` reads."""
    probability = details["probability"]
    kind = criterion.groups.get("category")
    return {
        "constraint": criterion.text,
        **({"kind": kind} if kind else {}),
        "passed": None if probability is None else probability >= judges.SATISFIED,
        "groups": dict(criterion.groups),
        **details,
    }


plugin = YesNo
