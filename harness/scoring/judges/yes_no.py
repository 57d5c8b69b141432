"""Does an answer satisfy what it has to? Each criterion is put before a model by itself.

For tasks that offer criteria (`harness.ports.Judged`), such as WildIFEval's. Where the judging
model tells log-probabilities, the probability of yes is read off its first tokens, greedily
decoded; where it does not, it is asked several times, and yes has the share of its votes. From
0.5 on a criterion is satisfied. A model that says neither abstains: that is no no. Where a rule
can decide a criterion (`harness.scoring.rules`), its verdict stands beside the judge's or in its
place.

    judges: [{name: yes_no, model: {backend: openai, preset: vllm, name: my-judge}}]
    judges: [{name: yes_no, votes: 5, model: {backend: anthropic, name: my-judge}}]
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, cast

from harness.errors import ConfigError, Unparseable
from harness.ports import LOGPROBS, Judged, Task
from harness.records import (
    Criterion,
    Decoding,
    Instance,
    Logprobs,
    Reply,
    Request,
    Score,
    TokenLogprob,
)
from harness.scoring.criteria import criteria_scores
from harness.scoring.judges._asking import Asking, by_question, samplings, tagged
from harness.scoring.judges._votes import VOTES, share_of_yes, vote
from harness.scoring.judges._yes_probability import SATISFIED, TOKENS, yes_probability
from harness.scoring.rules import Rule, recognise, rules_version

BY_RULE = "rule"
"""``decided_by`` of a criterion that the judge was not asked about; also the label of the rule."""


class YesNo:
    """Asks of each criterion whether the answer satisfies it: yes or no.

    prompt: the name of a template in prompts/judges, or a file; it is given asked, text, criterion.
    votes: how often it is asked, to be counted; without it log-probabilities are read where the
        judging model tells them, and five votes are counted where it does not.
    temperature: of votes.
    max_tokens: of a reply.
    rules: of a criterion that a rule can decide, the rule's verdict stands beside the judge's
        (beside), or the judge is not asked and the rule decides (skip).

    features: of the judging model's backend; None where nobody knows them.
    """

    by_criteria = True

    def __init__(
        self,
        prompt: str = "yes_no",
        votes: int | None = None,
        temperature: float = 0.7,
        max_tokens: int = 5,
        rules: Literal["beside", "skip"] = "beside",
        *,
        task: Task[Any],
        model: str,
        features: Collection[str] | None = None,
    ) -> None:
        if not isinstance(task, Judged):
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
        self._skips = rules == "skip"
        if votes is None and features is not None and LOGPROBS not in features:
            votes = VOTES
        self._votes = votes
        self._decoding = (
            Decoding(temperature=0.0, max_tokens=max_tokens, logprobs=TOKENS)
            if votes is None
            else Decoding(temperature=temperature, max_tokens=max_tokens)
        )

    def fingerprint(self) -> Mapping[str, str]:
        """What it asks with, and by which rules it does not."""
        rules = {"rules": rules_version()} if self._skips else {}
        return {"prompt_sha256": self._asking.sha256, **rules}

    def requests(self, instance: Instance[Any], text: str) -> Sequence[Request]:
        """One for each criterion that is asked; of votes, each has a sample number of its own."""
        found: list[Request] = []
        for criterion in self._task.criteria(instance):
            if self._skipped(recognise(criterion.text)):
                continue
            messages = self._asking.about(
                instance, text, criterion=tagged(criterion.text, "criterion")
            )
            times = self._votes or 1
            found += samplings(instance, self._model, messages, self._decoding, times)
        return found

    def parse(
        self, instance: Instance[Any], replies: Sequence[Reply], *, text: str | None = None
    ) -> Mapping[str, Score]:
        """``strict``: whether all are satisfied; ``soft``: the share of those decided on.

        text: the judged one, for the rules; without it they say nothing.

        Raises: Unparseable where no reply has log-probabilities that were asked for; where
            rules are to decide and have no text.
        """
        criteria = self._task.criteria(instance)
        if not criteria:
            raise Unparseable(f"{instance.id!r} has no criteria to decide on.")
        if self._votes is None:
            if replies and all(_logprobs(reply) is None for reply in replies):
                raise Unparseable(
                    "The judging model told no log-probabilities of an answer.",
                    f"Let it vote: set the judge's votes: {VOTES}.",
                )
            decided = [_by_tokens(reply) for reply in replies]
        else:
            decided = [_by_votes(several) for several in by_question(replies, self._votes)]
        rules = [recognise(criterion.text) for criterion in criteria]
        asked = [place for place, rule in enumerate(rules) if not self._skipped(rule)]
        if len(asked) < len(criteria) and text is None:
            raise Unparseable("Rules are to decide, and were not given the judged text.")
        said = dict(zip(asked, decided, strict=True))
        return criteria_scores(
            [
                _constraint(criterion, said.get(place), rule, text)
                for place, (criterion, rule) in enumerate(zip(criteria, rules, strict=True))
            ]
        )

    def _skipped(self, rule: Rule | None) -> bool:
        """Whether the judge is not asked of a criterion that has this rule."""
        return self._skips and rule is not None

    def simulated(self, request: Request) -> str:
        """Yes."""
        return "Yes"


def _logprobs(reply: Reply) -> Logprobs | None:
    """Those of the answer; None where they may be of what the model thought before it."""
    return None if reply.reasoning else reply.logprobs


def _by_tokens(reply: Reply) -> dict[str, Any]:
    """What one reply says of a criterion, with the tokens that it says it by."""
    first = _logprobs(reply) or ()
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


def _constraint(
    criterion: Criterion, found: Mapping[str, Any] | None, rule: Rule | None, text: str | None
) -> dict[str, Any]:
    """A criterion in the form that `harness.store.findings` reads.

    found: what the judge says; None where it was not asked.
    rule: what decides it, if anything does: the group ``rule`` has its name. Its verdict is
        ``rule`` where it stands beside the judge's, and ``passed`` where the judge was not asked:
        nobody is to take it for the judge's own.
    """
    groups, told = dict(criterion.groups), dict(found or {})
    if rule is not None and text is not None:
        verdict = rule.check(text)
        groups[BY_RULE] = rule.name
        if found is None:
            told |= {"probability": float(verdict.passed), "decided_by": BY_RULE}
        else:
            told["rule"] = verdict.passed
        if verdict.reason:
            told["rule_reason"] = verdict.reason
    probability = told["probability"]
    kind = criterion.groups.get("category")
    return {
        "constraint": criterion.text,
        **({"kind": kind} if kind else {}),
        "passed": None if probability is None else probability >= SATISFIED,
        "groups": groups,
        **told,
    }


plugin = YesNo
