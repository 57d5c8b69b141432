"""Combines the scores of several judges into a panel's scores.

A panel of small models from different families agrees with people better than a single large judge
does, and does not favour one family's style. This finding and both methods (majority and mean) are
from Verga et al. 2024, "Replacing Judges with Juries" (arXiv 2404.18796).

>>> panel = Panel(["a", "b", "c"])
>>> yes, no = Score(True, True), Score(False, False)
>>> panel.combine({"a": {"good": yes}, "b": {"good": no}, "c": {"good": yes}})["good"].passed
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from msgspec.structs import replace

from harness.config.sections import PanelSection
from harness.engine.judges import JudgeScores
from harness.errors import Unparseable
from harness.records import SPLIT_KEY, Score
from harness.scoring.judges import (
    MIN_YES_PROBABILITY,
    criteria_scores,
    mean_of_decided,
    threshold_score,
)

_NO_VERDICT = "The panel's judges tie, or too few of them decide"
SHARED = ("constraint", "kind", "groups", "rule")  # of a criterion, the same for all judges


@dataclass(frozen=True)
class Panel:
    """A panel that combines the verdicts of several judges into one.

    Args:
        of: Names of the judges.
        by: ``majority`` of the verdicts (a tie gives no verdict), or ``mean`` of the values (for
            criteria: of the probabilities), with true as 1 and false as 0.
        passes_from: Lowest mean that passes. Default: 0.5 for criteria, no verdict for other
            scores. If the judges give verdicts on only some of their scores, it applies to those.
        quorum: Number of judges that must have a verdict (for ``mean``, a value). If fewer were
            asked, all of them must. Default: more than half of those asked.
    """

    of: Sequence[str]
    by: Literal["majority", "mean"] = "majority"
    passes_from: float | None = None
    quorum: int | None = None

    def combine(self, judged: JudgeScores) -> Mapping[str, Score]:
        """Return the panel's scores by name, or {} if no judge was asked.

        If the judges decide on the same criteria, the scores are those of `criteria_scores`.
        Otherwise, with ``majority``, scores on which no judge has a verdict are omitted.

        Raises:
            Unparseable: If no score gets a value and the judges do not decide on the same criteria.
        """
        n_asked = sum(scores is None or bool(scores) for scores in judged.values())
        if not n_asked:
            return {}
        scores_by_judge = {judge: scores for judge, scores in judged.items() if scores}
        quorum = min(n_asked, self.quorum or n_asked // 2 + 1)
        if criteria := _same_criteria(scores_by_judge):
            return self._on_criteria(criteria, quorum)
        votes: dict[str, dict[str, Score]] = {}  # by the score's name and judge
        for judge, judge_scores in scores_by_judge.items():
            for name, score in judge_scores.items():
                votes.setdefault(name, {})[judge] = score
        decisive = set()
        for name, by_judge in votes.items():
            if set(map(_verdict, by_judge.values())) != {None}:
                decisive.add(name)
        scores = {}
        for name, by_judge in votes.items():
            if self.by == "mean":
                scores[name] = self._mean(by_judge, quorum, name in decisive or not decisive)
            elif name in decisive:
                scores[name] = _by_majority(by_judge, quorum)
        if all(score.value is None for score in scores.values()):
            raise Unparseable("The panel reaches no verdict: too few of its judges have one.")
        return scores

    @property
    def _mark(self) -> float:
        """The lowest mean probability at which a criterion is satisfied."""
        return MIN_YES_PROBABILITY if self.passes_from is None else self.passes_from

    def _on_criteria(
        self, criteria: Sequence[Mapping[str, Mapping[str, Any]]], quorum: int
    ) -> dict[str, Score]:
        entries = []
        split = False
        for by_judge in criteria:
            entry = self._criterion(by_judge, quorum)
            entries.append(entry)
            votes = [*entry["panel"].values()]
            if self.by == "mean" and _is_split(entry["probability"], self._mark, votes):
                split = True
        scores = criteria_scores(entries, undecided=f"{_NO_VERDICT} on: ")
        return {name: _marked(score, split) for name, score in scores.items()}

    def _mean(self, votes: Mapping[str, Score], quorum: int, has_mark: bool) -> Score:
        values: list[float | None] = []
        share = True
        for score in votes.values():
            if score.value is None:
                values.append(None)
                continue
            values.append(float(score.value))
            share &= isinstance(score.value, bool) or score.share is True
        value = _mean(values, quorum)
        mark = self.passes_from if has_mark else None
        reason = f"The panel's mean is {value or 0:g}, below {mark or 0:g}."
        combined = threshold_score(value, mark, reason, _details(votes), share=share)
        return _marked(combined, _is_split(value, mark, values))

    def _criterion(self, judged: Mapping[str, Mapping[str, Any]], quorum: int) -> dict[str, Any]:
        votes: dict[str, Any]
        if self.by == "mean":
            votes = {judge: _probability(entry) for judge, entry in judged.items()}
            share = _mean([*votes.values()], quorum)
            passed = None if share is None else share >= self._mark
        else:
            votes = {judge: entry.get("passed") for judge, entry in judged.items()}
            share = _mean([*votes.values()], quorum)
            passed = _majority([*votes.values()], quorum)
        first = next(iter(judged.values()))
        shared = {key: first[key] for key in SHARED if key in first}
        return {**shared, "passed": passed, "probability": share, "panel": votes}


def build_panel(section: PanelSection) -> Panel:
    """Build a panel from its section in a run file."""
    return Panel(section.of, section.by, section.passes_from, section.quorum)


def _by_majority(votes: Mapping[str, Score], quorum: int) -> Score:
    verdict = _majority([_verdict(score) for score in votes.values()], quorum)
    reason = ""
    if verdict is None:
        reason = f"{_NO_VERDICT}."
    elif not verdict:
        against = [score.reason for score in votes.values() if _verdict(score) is False]
        distinct = dict.fromkeys(filter(None, against))
        reason = "\n".join(distinct) or "Most of the panel's judges say no."
    return Score(verdict, verdict, reason, _details(votes))


def _majority(votes: Sequence[bool | None], quorum: int) -> bool | None:
    decided = [vote for vote in votes if vote is not None]
    yes = sum(decided)
    if len(decided) < quorum or 2 * yes == len(decided):
        return None
    return 2 * yes > len(decided)


def _mean(numbers: Sequence[float | None], quorum: int) -> float | None:
    return mean_of_decided(numbers) if len(numbers) - numbers.count(None) >= quorum else None


def _is_split(value: float | None, mark: float | None, numbers: Sequence[float | None]) -> bool:
    """Return whether a mean that just reaches the mark is that of judges who disagree."""
    return value is not None and value == mark and len({*numbers} - {None}) > 1


def _marked(score: Score, split: bool) -> Score:
    if not split:
        return score
    return replace(score, details={**score.details, SPLIT_KEY: True})


def _details(votes: Mapping[str, Score]) -> dict[str, Any]:
    return {"panel": {judge: score.value for judge, score in votes.items()}}


def _same_criteria(
    scores_by_judge: Mapping[str, Mapping[str, Score]],
) -> list[dict[str, Mapping[str, Any]]]:
    """Return every judge's entry for each criterion, or [] if the criteria differ."""
    entries = []
    texts = set()
    for scores in scores_by_judge.values():
        criteria = _criteria(scores)
        entries.append(criteria)
        texts.add(tuple(entry["constraint"] for entry in criteria))
    if len(texts) != 1:
        return []
    by_criterion = zip(*entries, strict=True)
    return [dict(zip(scores_by_judge, several, strict=True)) for several in by_criterion]


def _criteria(scores: Mapping[str, Score]) -> Sequence[Mapping[str, Any]]:
    """Return a judge's entries on criteria, or [] if there are none."""
    for score in scores.values():
        entries = score.details.get("constraints")
        if isinstance(entries, Sequence) and entries and all(map(_is_criterion, entries)):
            return entries
    return []


def _is_criterion(entry: object) -> bool:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("constraint"), str):
        return False
    return entry.get("passed") in (True, False, None)


def _verdict(score: Score) -> bool | None:
    if score.passed is None and isinstance(score.value, bool):
        return score.value
    return score.passed


def _probability(criterion: Mapping[str, Any]) -> float | None:
    """Return the probability of yes, or else the verdict as a number (None if undecided)."""
    probability = criterion.get("probability")
    if isinstance(probability, int | float):
        return float(probability)
    passed = criterion.get("passed")
    return None if passed is None else float(passed)
