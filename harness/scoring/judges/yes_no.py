"""Does an answer satisfy what it has to? Each criterion is put before a model by itself.

For tasks that offer criteria (`harness.ports.Judged`), such as WildIFEval's. Where the judging
model tells log-probabilities, the probability of yes is read off its first tokens, greedily
decoded; where it does not, it is asked several times, and yes has the share of its votes. From
0.5 on a criterion is satisfied. A model that says neither abstains: that is no no.

    judges: [{name: yes_no, model: {backend: openai, preset: vllm, name: my-judge}}]
    judges: [{name: yes_no, votes: 5, model: {backend: anthropic, name: my-judge}}]
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from harness.errors import ConfigError, Unparseable
from harness.ports import LOGPROBS, Judged, Task
from harness.records import (
    Criterion,
    Decoding,
    Instance,
    Reply,
    Request,
    Score,
    TokenLogprob,
)
from harness.scoring.judges._asking import Asking, by_question, samplings, tagged
from harness.scoring.judges._votes import VOTES, share_of_yes, vote
from harness.scoring.judges._yes_probability import SATISFIED, TOKENS, yes_probability


class YesNo:
    """Asks of each criterion whether the answer satisfies it: yes or no.

    prompt: the name of a template in prompts/judges, or a file; it is given asked, text, criterion.
    votes: how often it is asked, to be counted; without it log-probabilities are read where the
        judging model tells them, and five votes are counted where it does not.
    temperature: of votes.
    max_tokens: of a reply.

    features: of the judging model's backend; None where nobody knows them.
    """

    def __init__(
        self,
        prompt: str = "yes_no",
        votes: int | None = None,
        temperature: float = 0.7,
        max_tokens: int = 5,
        *,
        task: Task[Any],
        model: str,
        features: Collection[str] | None = None,
    ) -> None:
        if not (hasattr(task, "criteria") and hasattr(task, "asked")):
            raise ConfigError(
                "The task does not say what an answer has to satisfy.",
                "Remove the judge, or give the task asked and criteria (docs/judges.md).",
            )
        if votes is not None and votes < 1:
            raise ConfigError("votes must be 1 or more.")
        if max_tokens < 1 or temperature < 0:
            raise ConfigError("max_tokens must be 1 or more, and temperature 0 or more.")
        self._task = cast("Judged[Any]", task)
        self._asking = Asking(prompt, {"criterion"}, task)
        self._model = model
        if votes is None and features is not None and LOGPROBS not in features:
            votes = VOTES
        self._votes = votes
        self._decoding = (
            Decoding(temperature=0.0, max_tokens=max_tokens, logprobs=TOKENS)
            if votes is None
            else Decoding(temperature=temperature, max_tokens=max_tokens)
        )

    def fingerprint(self) -> Mapping[str, str]:
        """What it asks with."""
        return {"prompt_sha256": self._asking.sha256}

    def requests(self, instance: Instance[Any], text: str) -> Sequence[Request]:
        """One for each criterion; of votes, each has a sample number of its own."""
        found: list[Request] = []
        for criterion in self._task.criteria(instance):
            messages = self._asking.about(
                instance, text, criterion=tagged(criterion.text, "criterion")
            )
            times = self._votes or 1
            found += samplings(instance, self._model, messages, self._decoding, times)
        return found

    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        """``strict``: whether all are satisfied; ``soft``: the share of those it decided on.

        Raises: Unparseable where no reply has log-probabilities that were asked for.
        """
        criteria = self._task.criteria(instance)
        if not criteria:
            raise Unparseable(f"{instance.id!r} has no criteria to decide on.")
        if self._votes is None:
            if all(reply.logprobs is None for reply in replies):
                raise Unparseable(
                    "The judging model told no log-probabilities.",
                    f"Let it vote: set the judge's votes: {VOTES}.",
                )
            decided = [_by_tokens(reply) for reply in replies]
        else:
            decided = [_by_votes(several) for several in by_question(replies, self._votes)]
        return _scores(criteria, decided)

    def simulated(self, request: Request) -> str:
        """Yes."""
        return "Yes"


def _by_tokens(reply: Reply) -> dict[str, Any]:
    """What one reply says of a criterion, with the tokens that it says it by."""
    first = reply.logprobs or ()
    found = yes_probability(first)
    if found is None:
        return {"probability": None, "tokens": _told(first[0] if first else ())}
    return {
        "probability": found.probability,
        "position": found.position,
        "tokens": _told(found.tokens),
    }


def _told(tokens: Sequence[TokenLogprob]) -> list[list[Any]]:
    return [[one.token, one.logprob] for one in tokens[:TOKENS]]


def _by_votes(replies: Sequence[Reply]) -> dict[str, Any]:
    votes = [vote(reply.text) for reply in replies]
    return {"probability": share_of_yes(votes), "votes": votes}


def _scores(
    criteria: Sequence[Criterion], decided: Sequence[Mapping[str, Any]]
) -> Mapping[str, Score]:
    constraints = [
        _constraint(criterion, found) for criterion, found in zip(criteria, decided, strict=True)
    ]
    unsatisfied = [one["constraint"] for one in constraints if one["passed"] is False]
    undecided = [one["constraint"] for one in constraints if one["passed"] is None]
    strict = False if unsatisfied else None if undecided else True
    reason = ""
    if unsatisfied:
        reason = "Not satisfied: " + "; ".join(unsatisfied)
    elif undecided:
        reason = "The judge said neither yes nor no of: " + "; ".join(undecided)
    n = len(constraints) - len(undecided)
    soft = (n - len(unsatisfied)) / n if n else None
    return {
        "strict": Score(strict, strict, reason, {"constraints": constraints}),
        "soft": Score(soft, None, "", {"decided": n, "abstained": len(undecided)}),
    }


def _constraint(criterion: Criterion, found: Mapping[str, Any]) -> dict[str, Any]:
    """A criterion in the form that `harness.store.findings` reads."""
    probability = found["probability"]
    kind = criterion.groups.get("category")
    return {
        "constraint": criterion.text,
        **({"kind": kind} if kind else {}),
        "passed": None if probability is None else probability >= SATISFIED,
        "groups": dict(criterion.groups),
        **found,
    }


plugin = YesNo
