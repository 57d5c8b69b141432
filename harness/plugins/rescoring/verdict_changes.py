"""Records of re-scoring a run: the new scores, and the verdicts that changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from harness.records import Attempt, Outcome, Score, first_reason
from harness.store.json_lines import encode

GONE = "The instance is no longer in the data set, or has another prompt."


class Rescored(msgspec.Struct, frozen=True):
    """A line of ``scores.jsonl``: an attempt's new scores by rules, or why there are none."""

    v: int
    instance: str
    sample: int
    round: int
    outcome: Outcome
    passed: bool | None
    scores: Mapping[str, Score]
    error: str | None = None


class VerdictChange(NamedTuple):
    """A verdict that re-scoring changed, with the reason for the failure."""

    instance: str
    sample: int
    round: int
    before: bool | None
    after: bool | None
    reason: str


VerdictPair = tuple[bool | None, bool | None]  # (verdict before, verdict now)
VerdictCounts = Counter[VerdictPair]


_decode_scores = msgspec.json.Decoder(dict[str, Score]).decode


def same_scores(recorded: Mapping[str, Score], scored: Mapping[str, Score]) -> bool:
    """Return whether scores are the recorded ones, which the file has as floats."""
    before = line(recorded)
    now = line(scored)
    return now == before or line(_decode_scores(now)) == before


class VerdictChanges:
    """Counts of verdicts before and after re-scoring."""

    def __init__(self) -> None:
        self.verdicts: VerdictCounts = Counter()
        self.groups: dict[str, dict[str, VerdictCounts]] = {}
        self.left = 0  # failed calls, which are not re-scored
        self.gone = 0  # attempts whose instance is no longer in the data set, or has another prompt
        self.otherwise = 0  # attempts that keep their verdict, but not their outcome or scores

    def record(
        self, attempt: Attempt, scored: Rescored, verdicts: VerdictPair
    ) -> VerdictChange | None:
        """Count an attempt by its old and new verdicts. Return the change, if there is one.

        A failed call counts only in ``left``. ``verdicts`` combine rules and judges, unlike the
        verdicts in ``attempt`` and ``scored``, which are by rules only.
        """
        if attempt.outcome == "error":
            self.left += 1
            return None
        self.gone += scored.error == GONE
        self.verdicts[verdicts] += 1
        for label, group in attempt.groups.items():
            groups = self.groups.setdefault(label, {})
            if group not in groups:
                groups[group] = Counter()  # only if missing: this takes longer than the rest
            groups[group][verdicts] += 1
        if verdicts[0] is verdicts[1]:
            same = attempt.outcome == scored.outcome and same_scores(attempt.scores, scored.scores)
            self.otherwise += not same
            return None
        failed = attempt if verdicts[1] else scored
        outcome = "" if failed.outcome == "ok" else failed.outcome
        reason = first_reason(failed.scores) or failed.error or outcome
        return VerdictChange(attempt.instance, attempt.sample, attempt.round, *verdicts, reason)

    def add(self, changes: VerdictChanges) -> None:
        """Add the counts of other attempts of the run."""
        self.verdicts += changes.verdicts
        for label, groups in changes.groups.items():
            totals = self.groups.setdefault(label, {})
            for group, counts in groups.items():
                totals.setdefault(group, Counter()).update(counts)
        self.left += changes.left
        self.gone += changes.gone
        self.otherwise += changes.otherwise

    @property
    def changed(self) -> int:
        """The number of verdicts that changed."""
        return sum(n for (before, after), n in self.verdicts.items() if before is not after)

    @property
    def same(self) -> int:
        """The number of verdicts that did not change."""
        return self.verdicts.total() - self.changed


def line(value: object) -> bytes:
    """Encode a value as a line of ``scores.jsonl``."""
    return encode(value, order="deterministic")
