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

Said = Mapping[str, Mapping[str, Score] | None]
"""Each judge's scores by their names: None of one that gave no verdict; none of one that the answer
was not put before."""

SATISFIED = 0.5
"""From this mean on a criterion is satisfied, as for a single judge."""


class Panel:
    """Judges that decide together.

    of: their names.
    by: ``majority`` of the verdicts, where a tie is no verdict; ``mean`` of the values (of
        criteria the probabilities), where true is 1 and false 0.
    passes_from: the least mean that passes; by default 0.5 of criteria, while means of scores
        then give no verdict. Where some scores have verdicts, it is a mark of these alone.
    quorum: how many judges must have a verdict; by default more than half of those that the
        answer was put before, and never more than these.
    """

    def __init__(
        self,
        of: Sequence[str],
        by: Literal["majority", "mean"] = "majority",
        passes_from: float | None = None,
        quorum: int | None = None,
    ) -> None:
        self.of = tuple(of)
        self._by, self._passes_from, self._quorum = by, passes_from, quorum

    def combine(self, said: Said) -> Mapping[str, Score]:
        """The panel's scores of an answer; none where it was put before none of the judges.

        Raises: Unparseable where too few of them gave a verdict.
        """
        asked = sum(scores is None or bool(scores) for scores in said.values())
        heard = {who: scores for who, scores in said.items() if scores}
        if not asked:
            return {}
        quorum = min(asked, self._quorum or asked // 2 + 1)
        if criteria := _same_criteria(heard):
            found = [self._criterion(several, quorum) for several in criteria]
            return criteria_scores(found, undecided="The panel comes to no verdict on: ")
        names = dict.fromkeys(name for scores in heard.values() for name in scores)
        votes = {
            name: {who: own[name] for who, own in heard.items() if name in own} for name in names
        }
        with_verdicts = {
            name
            for name, several in votes.items()
            if any(_verdict(score) is not None for score in several.values())
        }
        if self._by == "majority":
            scores = {
                name: self._voted(several, quorum)
                for name, several in votes.items()
                if name in with_verdicts
            }
        else:
            scores = {
                name: self._averaged(several, quorum, name in with_verdicts or not with_verdicts)
                for name, several in votes.items()
            }
        if all(score.value is None for score in scores.values()):
            raise Unparseable("The panel comes to no verdict: too few of its judges have one.")
        return scores

    def _averaged(self, votes: Mapping[str, Score], quorum: int, marked: bool) -> Score:
        """A score by the mean; marked: ``passes_from`` is a mark of this one."""
        value = _mean([_number(score.value) for score in votes.values()], quorum)
        mark = self._passes_from if marked else None
        passed = None if mark is None or value is None else value >= mark
        reason = f"The panel's mean is {value:g}, below {mark:g}." if passed is False else ""
        return Score(value, passed, reason, _said(votes))

    def _voted(self, votes: Mapping[str, Score], quorum: int) -> Score:
        """A score by the majority of the verdicts."""
        verdicts = {who: _verdict(score) for who, score in votes.items()}
        decided = _majority(list(verdicts.values()), quorum)
        reason = ""
        if decided is False:
            reasons = dict.fromkeys(
                votes[who].reason for who, one in verdicts.items() if one is False
            )
            reason = "\n".join(filter(None, reasons)) or "Most of the panel's judges say no."
        return Score(decided, decided, reason, _said(votes))

    def _criterion(self, told: Mapping[str, Mapping[str, Any]], quorum: int) -> dict[str, Any]:
        """One criterion of which each judge tells."""
        first = next(iter(told.values()))
        kept = {key: first[key] for key in ("constraint", "kind", "groups") if key in first}
        rules = {key: first[key] for key in ("rule", "rule_reason") if key in first}
        if all(one.get("decided_by") == "rule" for one in told.values()):
            rules["decided_by"] = "rule"
        if self._by == "mean":
            yes = {who: _probability(one) for who, one in told.items()}
            mean = _mean(list(yes.values()), quorum)
            mark = SATISFIED if self._passes_from is None else self._passes_from
            passed = None if mean is None else mean >= mark
            return {**kept, "passed": passed, "probability": mean, "panel": yes, **rules}
        verdicts = {who: one.get("passed") for who, one in told.items()}
        passed = _majority(list(verdicts.values()), quorum)
        decided = [one for one in verdicts.values() if one is not None]
        share = sum(decided) / len(decided) if passed is not None else None
        return {**kept, "passed": passed, "probability": share, "panel": verdicts, **rules}


def _majority(votes: Sequence[bool | None], quorum: int) -> bool | None:
    decided = [vote for vote in votes if vote is not None]
    yes = sum(decided)
    if len(decided) < quorum or 2 * yes == len(decided):
        return None
    return 2 * yes > len(decided)


def _mean(numbers: Sequence[float | None], quorum: int) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) / len(known) if len(known) >= quorum else None


def _said(votes: Mapping[str, Score]) -> dict[str, Any]:
    return {"panel": {who: score.value for who, score in votes.items()}}


def _same_criteria(
    heard: Mapping[str, Mapping[str, Score]],
) -> list[dict[str, Mapping[str, Any]]]:
    """Criterion by criterion what each judge tells; empty where they tell of different ones."""
    told = {who: _criteria(scores) for who, scores in heard.items()}
    texts = [[one["constraint"] for one in criteria] for criteria in told.values()]
    if not texts or not texts[0] or any(own != texts[0] for own in texts):
        return []
    return [
        {who: criteria[place] for who, criteria in told.items()} for place in range(len(texts[0]))
    ]


def _criteria(scores: Mapping[str, Score]) -> Sequence[Mapping[str, Any]]:
    """Those that a judge tells of, each with its text; a plug-in may tell of anything."""
    for score in scores.values():
        found = score.details.get("constraints")
        if isinstance(found, Sequence) and found and all(map(_is_criterion, found)):
            return found
    return []


def _is_criterion(found: object) -> bool:
    return (
        isinstance(found, Mapping)
        and isinstance(found.get("constraint"), str)
        and found.get("passed") in (True, False, None)
    )


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
