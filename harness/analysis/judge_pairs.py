"""A judge's verdicts and a reference's, matched criterion by criterion.

Criteria are matched by their texts (and by position, if a text occurs twice). An abstention of the
judge is kept, as no verdict and never as a no; so is a judgement whose reply could not be read,
which counts as an abstention on all criteria of the reference. Criteria with a verdict of one side
only are counted and left out, and so are those that a rule decided instead of the judge: such a
verdict is not the judge's, and compared with rules it would always be right.

>>> pair_verdicts({"run": answers}, RULES).judge  # doctest: +SKIP
array([1, 0, -1], dtype=int8)
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from harness.analysis.inputs import Label
from harness.errors import ConfigError
from harness.store.columns import NOT_JUDGED, name_digest
from harness.store.constraints import JudgedAnswer, JudgeVerdict, Said

RULES = "rules"
"""The rules' verdicts as the reference."""
JUDGE = "judge"
"""Another judge as the reference: the second of an answer's judges."""

SILENT = frozenset({"unparseable", "refused", "empty"})
"""Outcomes of a completed judgement without a verdict; a failed call is not a judgement."""

Key = tuple[str, int]
"""A criterion's text, and its number among the criteria with that text."""
Side = Mapping[Key, bool | None]


class LeftOut(Struct, frozen=True, kw_only=True):
    """Criteria and labels that are excluded from all figures, by reason.

    Attributes:
        only_judge: Criteria without a verdict of the reference.
        only_reference: Criteria without a verdict of the judge: it has not judged the answer, its
            call failed, or the answer is not judged.
        by_rule: Criteria that a rule decided, so that the judge was not asked.
        unmatched: Labels of an instance, sample or criterion that the run does not have.
        superseded: Labels of a text that the run no longer has.
        other_runs: Labels of runs that were not named.
    """

    only_judge: int = 0
    only_reference: int = 0
    by_rule: int = 0
    unmatched: int = 0
    superseded: int = 0
    other_runs: int = 0


@dataclass(frozen=True, slots=True)
class VerdictPairs:
    """Criteria that both sides have, as columns of length n.

    Attributes:
        judge, reference: (n,) 1, 0, or `NOT_JUDGED` for an abstention.
        probability: (n,) the judge's probability of yes; NaN if unknown.
        cluster: (n,) number of the statistical unit, the same in all runs.
        run: (n,) number of the run.
        answer: (n,) number of the answer.
        grouping: (n,) index into ``groupings``.
        groupings: The distinct mappings of label to group.
        left_out: What is excluded from the pairs.
    """

    judge: NDArray[np.int8]
    reference: NDArray[np.int8]
    probability: NDArray[np.float64]
    cluster: NDArray[np.intp]
    run: NDArray[np.int32]
    answer: NDArray[np.int64]
    grouping: NDArray[np.int32]
    groupings: Sequence[Mapping[str, str]]
    left_out: LeftOut

    def __len__(self) -> int:
        return len(self.judge)

    @property
    def decided(self) -> NDArray[np.bool_]:
        """(n,) whether neither side abstained on a criterion."""
        decided: NDArray[np.bool_] = (self.judge != NOT_JUDGED) & (self.reference != NOT_JUDGED)
        return decided

    def labels(self) -> list[str]:
        """Return the labels that criteria can be grouped by."""
        return list(dict.fromkeys(label for groups in self.groupings for label in groups))

    def by(self, label: str) -> dict[str, NDArray[np.bool_]]:
        """Return a mask of the criteria in each group, sorted by group."""
        own = [groups.get(label) for groups in self.groupings]
        return {
            name: np.array([one == name for one in own], np.bool_)[self.grouping]
            for name in sorted({one for one in own if one is not None})
        }


def pair_verdicts(
    runs: Mapping[str, Iterable[JudgedAnswer]], reference: str | Sequence[Label]
) -> VerdictPairs:
    """Match a judge's verdicts with a reference's.

    Args:
        runs: Each run's answers; the judge is the first of an answer's judges.
        reference: `JUDGE`, `RULES`, or people's labels.

    Raises:
        ConfigError: A label does not name its run, or two are for one criterion.
    """
    labels = None if isinstance(reference, str) else _Labels(reference, list(runs))
    columns = _Columns()
    for place, (name, answers) in enumerate(runs.items()):
        for answer in answers:
            judged, silent = answer.said[0], False
            other: Side
            if labels is not None:
                other = labels.of(name, answer)
            elif reference == RULES:
                keyed = _keyed(judged).items()
                other = {key: found.rule for key, found in keyed if found.rule is not None}
            else:
                other = {key: found.passed for key, found in _keyed(answer.said[1]).items()}
                silent = _is_silent(answer.said[1])
            columns.add(place, answer, other, silent)
    return columns.pairs(labels)


class _Columns:
    """Collects the columns of `VerdictPairs`."""

    def __init__(self) -> None:
        self._judge, self._reference = array("b"), array("b")
        self._probability, self._cluster = array("d"), array("q")
        self._run, self._answer, self._grouping = array("i"), array("q"), array("i")
        self._groupings: dict[tuple[tuple[str, str], ...], int] = {}
        self._answers = self._only_judge = self._only_reference = self._by_rule = 0

    def add(self, run: int, answer: JudgedAnswer, other: Side, silent: bool) -> None:
        """Add an answer's criteria.

        Args:
            run: Number of the run.
            answer: The answer.
            other: The reference's verdicts.
            silent: Whether the reference's reply holds no verdict.
        """
        self._answers += 1
        own = _keyed(answer.said[0])
        own_silent = _is_silent(answer.said[0])
        for key in dict.fromkeys([*own, *other]):
            if key in own and own[key].by_rule:
                self._by_rule += 1
            elif key not in other and not silent:
                self._only_judge += 1
            elif key not in own and not own_silent:
                self._only_reference += 1
            else:
                self._row(run, answer, own.get(key, JudgeVerdict(key[0], None)), other.get(key))

    def _row(
        self, run: int, answer: JudgedAnswer, own: JudgeVerdict, reference: bool | None
    ) -> None:
        groups = tuple(sorted(own.groups.items()))
        self._judge.append(_code(own.passed))
        self._reference.append(_code(reference))
        known = own.probability is not None and own.passed is not None
        self._probability.append(own.probability or 0.0 if known else np.nan)
        self._cluster.append(name_digest(answer.cluster))
        self._run.append(run)
        self._answer.append(self._answers)
        self._grouping.append(self._groupings.setdefault(groups, len(self._groupings)))

    def pairs(self, labels: _Labels | None) -> VerdictPairs:
        _, cluster = np.unique(np.array(self._cluster, np.int64), return_inverse=True)
        return VerdictPairs(
            judge=np.array(self._judge, np.int8),
            reference=np.array(self._reference, np.int8),
            probability=np.array(self._probability, np.float64),
            cluster=cluster,
            run=np.array(self._run, np.int32),
            answer=np.array(self._answer, np.int64),
            grouping=np.array(self._grouping, np.int32),
            groupings=[dict(groups) for groups in self._groupings],
            left_out=LeftOut(
                only_judge=self._only_judge,
                only_reference=self._only_reference,
                by_rule=self._by_rule,
                unmatched=labels.unmatched if labels else 0,
                superseded=labels.superseded if labels else 0,
                other_runs=labels.other_runs if labels else 0,
            ),
        )


class _Labels:
    """People's labels by answer; counts those that match nothing."""

    def __init__(self, labels: Sequence[Label], runs: Sequence[str]) -> None:
        self._of: dict[tuple[str, str, int], list[Label]] = {}
        self.other_runs = self.superseded = self._unknown = 0
        for label in labels:
            if label.run is None and len(runs) > 1:
                raise ConfigError(
                    f"A label of {label.instance!r} does not name its run.",
                    'With several runs each label needs "run": "NAME".',
                )
            run = label.run or runs[0]
            if run in runs:
                self._of.setdefault((run, label.instance, label.sample), []).append(label)
            else:
                self.other_runs += 1

    @property
    def unmatched(self) -> int:
        """Count the labels that match nothing, once all answers were seen."""
        return self._unknown + sum(map(len, self._of.values()))

    def of(self, run: str, answer: JudgedAnswer) -> Side:
        """Return the labels of an answer, by the keys of the judge's verdicts."""
        found: dict[Key, bool | None] = {}
        keys = list(_keyed(answer.said[0]))
        for label in self._of.pop((run, answer.instance, answer.sample), []):
            if label.attempt not in (None, answer.attempt):
                self.superseded += 1
                continue
            matched = _matched(label.criterion, keys)
            if not matched:
                self._unknown += 1
            for key in matched:
                if key in found:
                    raise ConfigError(
                        f"Two labels of {answer.instance!r}, sample {answer.sample}, are for one "
                        f"criterion: {key[0]!r}.",
                        "Keep one of them.",
                    )
                found[key] = label.label
        return found


def _matched(criterion: int | str | None, keys: Sequence[Key]) -> list[Key]:
    """Return the judge's criteria that a label applies to; a new one if the judge has none."""
    if not keys:
        return [("" if criterion is None else str(criterion), 0)]
    if criterion is None:
        return list(keys) if len(keys) == 1 else []
    if isinstance(criterion, int):
        return list(keys[criterion : criterion + 1])
    text = _plain(criterion)
    return [key for key in keys if _plain(key[0]) == text]


def _plain(text: str) -> str:
    return " ".join(text.split())


def _keyed(said: Said | None) -> dict[Key, JudgeVerdict]:
    found: dict[Key, JudgeVerdict] = {}
    times: dict[str, int] = {}
    for verdict in said.verdicts if said else ():
        nth = times.get(verdict.criterion, 0)
        times[verdict.criterion] = nth + 1
        found[verdict.criterion, nth] = verdict
    return found


def _is_silent(said: Said | None) -> bool:
    return said is not None and not said.verdicts and said.outcome in SILENT


def _code(passed: bool | None) -> int:
    return NOT_JUDGED if passed is None else int(passed)
