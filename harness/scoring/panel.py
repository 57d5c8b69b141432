"""A panel: judges of a run that decide together, by majority or mean. It asks nobody anything.

Judges that tell of the same criteria (`harness.scoring.criteria`) are combined criterion by
criterion, and the scores follow from these; of other judges each score is combined by its name.
A panel of several small models from different families agrees with people better than one large
judge, and prefers no family's style: Verga et al. 2024, "Replacing Judges with Juries"
(arXiv 2404.18796), which the two ways of combining are from, too.

>>> panel = Panel(["a", "b", "c"])
>>> yes, no = Score(True, True), Score(False, False)
>>> panel.combine({"a": {"good": yes}, "b": {"good": no}, "c": {"good": yes}})["good"].passed
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from harness.errors import Unparseable
from harness.records import Score
from harness.scoring.criteria import criteria_scores

Said = Mapping[str, Mapping[str, Score]]
"""Each member's scores by their names; of a member that gave no verdict, nothing."""

SATISFIED = 0.5
"""From this mean on a criterion is satisfied, as for a single judge."""


class Panel:
    """Judges that decide together.

    of: their names.
    by: ``majority`` of the verdicts, where a tie is no verdict; ``mean`` of the values (of
        criteria the probabilities), where true is 1 and false 0.
    passes_from: the least mean that passes; without it, means of scores give no verdict.
    quorum: how many members must have a verdict; by default more than half.
    """

    def __init__(
        self,
        of: Sequence[str],
        by: Literal["majority", "mean"] = "majority",
        passes_from: float | None = None,
        quorum: int | None = None,
    ) -> None:
        self.of = tuple(of)
        self._by, self._passes_from = by, passes_from
        self._quorum = len(self.of) // 2 + 1 if quorum is None else quorum

    def combine(self, said: Said) -> Mapping[str, Score]:
        """The panel's scores of an answer; none where no member was to judge it.

        Raises: Unparseable where too few members gave a verdict.
        """
        if said and not any(said.values()):
            return {}  # none of them was to judge it
        if criteria := _same_criteria(said):
            return criteria_scores([self._criterion(several) for several in criteria])
        names = dict.fromkeys(name for scores in said.values() for name in scores)
        scores: dict[str, Score] = {}
        for name in names:
            votes = {who: own[name] for who, own in said.items() if name in own}
            if self._by == "mean" or any(_verdict(score) is not None for score in votes.values()):
                scores[name] = self._score(votes)
        if all(score.value is None for score in scores.values()):
            raise Unparseable(
                f"Fewer than {self._quorum} of the panel's judges agree on a verdict."
            )
        return scores

    def _score(self, votes: Mapping[str, Score]) -> Score:
        details = {"panel": {who: score.value for who, score in votes.items()}}
        if self._by == "mean":
            value = self._mean({who: _number(score.value) for who, score in votes.items()})
            mark = self._passes_from
            passed = None if mark is None or value is None else value >= mark
            reason = f"The panel's mean is {value:g}, below {mark:g}." if passed is False else ""
            return Score(value, passed, reason, details)
        verdicts = {who: _verdict(score) for who, score in votes.items()}
        decided = self._majority(verdicts)
        reason = ""
        if decided is False:
            reasons = dict.fromkeys(votes[who].reason for who, one in verdicts.items() if not one)
            reason = "\n".join(filter(None, reasons)) or "Most of the panel's judges say no."
        return Score(decided, decided, reason, details)

    def _criterion(self, told: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """One criterion of which each member tells."""
        first = next(iter(told.values()))
        kept = {key: first[key] for key in ("constraint", "kind", "groups") if key in first}
        rules = {key: first[key] for key in ("rule", "rule_reason") if key in first}
        if all(one.get("decided_by") == "rule" for one in told.values()):
            rules["decided_by"] = "rule"
        verdicts = {who: one.get("passed") for who, one in told.items()}
        if self._by == "mean":
            yes = {who: _probability(one) for who, one in told.items()}
            mean = self._mean(yes)
            passed = None if mean is None else mean >= SATISFIED
            return {**kept, "passed": passed, "probability": mean, "panel": yes, **rules}
        passed = self._majority(verdicts)
        decided = [one for one in verdicts.values() if one is not None]
        share = sum(decided) / len(decided) if passed is not None else None
        return {**kept, "passed": passed, "probability": share, "panel": verdicts, **rules}

    def _majority(self, votes: Mapping[str, bool | None]) -> bool | None:
        decided = [vote for vote in votes.values() if vote is not None]
        yes = sum(decided)
        if len(decided) < self._quorum or 2 * yes == len(decided):
            return None
        return 2 * yes > len(decided)

    def _mean(self, numbers: Mapping[str, float | None]) -> float | None:
        known = [number for number in numbers.values() if number is not None]
        return sum(known) / len(known) if len(known) >= self._quorum else None


def _same_criteria(said: Said) -> list[dict[str, Mapping[str, Any]]]:
    """Criterion by criterion what each member tells; empty where they tell of different ones."""
    told = {who: _criteria(scores) for who, scores in said.items() if scores}
    texts = [[one.get("constraint") for one in criteria] for criteria in told.values()]
    if not texts or not texts[0] or any(own != texts[0] for own in texts):
        return []
    return [
        {who: criteria[place] for who, criteria in told.items()} for place in range(len(texts[0]))
    ]


def _criteria(scores: Mapping[str, Score]) -> Sequence[Mapping[str, Any]]:
    for score in scores.values():
        found = score.details.get("constraints") if isinstance(score.details, Mapping) else None
        if isinstance(found, Sequence) and found and all(isinstance(one, Mapping) for one in found):
            return found
    return []


def _verdict(score: Score) -> bool | None:
    if score.passed is not None:
        return score.passed
    return score.value if isinstance(score.value, bool) else None


def _number(value: bool | float | None) -> float | None:
    return None if value is None else float(value)


def _probability(criterion: Mapping[str, Any]) -> float | None:
    """That of yes; of a judge that tells none, 1 or 0 by its verdict."""
    found = criterion.get("probability")
    if isinstance(found, int | float):
        return float(found)
    passed = criterion.get("passed")
    return None if passed is None else float(passed)
