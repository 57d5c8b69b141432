"""Reads which constraints a run's answers satisfy, and why others fail.

A rule checker, or a judge with criteria, lists the constraints in a score's
``details.constraints``. Details of any other form are ignored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct, structs
from msgspec.structs import asdict

from harness.analysis.breakdown import mean_by_group, rows_for_score
from harness.analysis.failures import MAX_TEXT_CHARS, ListedConstraint, ScoreDetails
from harness.analysis.metrics import PASS_RATE, SampleStatistic
from harness.plugins.comparisons.comparison import Comparison, adjusted, compare, pair
from harness.records import MAX_MAGNITUDE, SCHEMA_VERSION
from harness.store.columns import AttemptTable, TableBuilder, TableLine, name_digest
from harness.store.index import AttemptIndex
from harness.wording import truncate

LABEL = "constraint"  # The label whose groups are the kinds of constraint

MOST_KINDS = 500  # Maximum number of kinds counted separately; the rest are counted as `OTHERS`
OTHERS = "(others)"

MAX_REASONS = 100  # Maximum number of reasons, and of differences, reported per kind
MOST_DIFFERENT = 1_000  # Maximum number of distinct reasons, and of differences, counted per kind


class _Scored(Struct, gc=False):
    instance: str
    sample: int
    cluster: str
    groups: dict[str, str]
    scores: dict[str, ScoreDetails] = {}


@dataclass(slots=True)
class Misses:
    """Counts of reasons for failures, and of differences between observed values and targets."""

    off_by: Counter[float] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, constraint: ListedConstraint) -> None:
        """Count a failure's reason and, if both are numbers, observed minus target."""
        if _is_number(constraint.observed) and _is_number(constraint.target):
            try:
                difference = float(constraint.observed) - float(constraint.target)
            except OverflowError:  # numbers of hundreds of digits
                difference = inf
            if abs(difference) <= MAX_MAGNITUDE:
                _count(self.off_by, difference)
        if constraint.reason:
            _count(self.reasons, truncate(constraint.reason, MAX_TEXT_CHARS))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(counter: Counter[Any], value: float | str) -> None:
    if value in counter or len(counter) < MOST_DIFFERENT:
        counter[value] += 1


@dataclass(frozen=True, slots=True)
class ConstraintFindings:
    """Verdicts on the constraints of each sample's last answer, and the reasons for failures."""

    table: AttemptTable  # one row per constraint of a sample; `LABEL` groups them by kind
    misses: Mapping[str, Misses]  # by kind
    of: frozenset[tuple[str, int]]  # each constraint's score, and place in that score's list
    without: int  # number of samples without constraints, such as refused or failed ones

    def scored(self, score: str) -> ConstraintFindings:
        """Return the findings with each constraint's value of a score of k samples.

        Any other score leaves the findings as they are, with the verdict on each sample.
        """
        return replace(self, table=rows_for_score(self.table, score))

    def instances(self, names: Iterable[str]) -> dict[int, str]:
        """Map digests of table rows to the ids of their instances, for the ids in ``names``."""
        by_digest = {}
        for name in names:
            for score, place in self.of:
                by_digest[name_digest(_row_name(name, score, place))] = name
        return by_digest


NO_FINDINGS = ConstraintFindings(TableBuilder().build()[0], {}, frozenset(), 0)


def read_findings(index: AttemptIndex, round_: int | None = None) -> ConstraintFindings:
    """Read the constraints in each sample's last round up to ``round_`` (None: its last round)."""
    builder = TableBuilder()
    misses = dict[str, Misses]()
    positions = set[tuple[str, int]]()
    without = 0
    for line in index.read(_Scored, index.last_rounds(round_)):
        has_constraints = False
        for name, score in line.scores.items():
            for place, constraint in enumerate(score.constraints()):
                has_constraints = True
                kind = constraint_kind(constraint)
                if index.judgements is not None:
                    # A rule and a judge may list the same constraint; they are kept apart.
                    kind = f"{name}: {kind}"
                if kind not in misses and len(misses) >= MOST_KINDS:
                    kind = OTHERS
                missed = misses.setdefault(kind, Misses())
                if constraint.passed is False:
                    missed.add(constraint)
                positions.add((name, place))
                row = _row_name(line.instance, name, place)
                groups = {**line.groups, **constraint.labels, LABEL: kind}
                builder.add(table_line(row, line.sample, line.cluster, groups, constraint.passed))
        without += not has_constraints
    table, _ = builder.build()
    return ConstraintFindings(table, misses, frozenset(positions), without)


def _row_name(instance: str, score: str, place: int) -> str:
    return f"{instance}\0{score}\0{place}"


def table_line(
    name: str, sample: int, cluster: str, groups: Mapping[str, str], passed: bool | None
) -> TableLine:
    """Return a verdict as a line for `TableBuilder`. ``name`` identifies what was judged."""
    raw = msgspec.Raw(msgspec.json.encode(groups))
    return TableLine(SCHEMA_VERSION, name, sample, 1, raw, cluster, "ok", passed)


def constraint_kind(constraint: ListedConstraint) -> str:
    """Return a constraint's kind, or else its text with placeholders for quotations and numbers."""
    if constraint.kind:
        return constraint.kind[:MAX_TEXT_CHARS]
    without_texts = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", constraint.constraint[:MAX_TEXT_CHARS])
    return re.sub(r"\d+", "N", without_texts)


class ConstraintKind(SampleStatistic, frozen=True, kw_only=True):
    """Statistics of the constraints of one kind, or of one group of a label."""

    kind: str
    mean: float  # the share that is satisfied
    off_by: Mapping[float, int] = {}  # observed minus target, with frequencies
    reasons: Mapping[str, int] = {}  # with frequencies, the most frequent first

    @property
    def n_failed(self) -> int:
        """The number of constraints that are not satisfied."""
        return self.n - round(self.mean * self.n)


def kinds(findings: ConstraintFindings, label: str = LABEL) -> list[ConstraintKind]:
    """Return statistics of the groups of ``label`` that have verdicts, most failures first."""
    rows = []
    for (group,), met in mean_by_group(findings.table, PASS_RATE, label).items():
        if met.mean is None:
            continue
        misses = Misses()
        if label == LABEL:
            misses = findings.misses[group]
        off_by = dict(sorted(misses.off_by.most_common(MAX_REASONS)))
        reasons = dict(misses.reasons.most_common(MAX_REASONS))
        rows.append(ConstraintKind(kind=group, **asdict(met), off_by=off_by, reasons=reasons))
    return sorted(rows, key=lambda row: (-row.n_failed, row.kind))


class KindChange(Struct, frozen=True):
    """The comparison of two runs on the constraints of one kind."""

    comparison: Comparison
    fixed: list[str] = []  # instances with a constraint that the second run satisfies more often
    broken: list[str] = []  # instances with a constraint that it satisfies less often

    def untested(self) -> KindChange:
        """Return the means and counts alone, for runs whose kinds are not comparable."""
        means = structs.replace(
            self.comparison, p_value=None, p_adjusted=None, ci95=None, method="none"
        )
        return structs.replace(self, comparison=means)


def compare_kinds(
    first: ConstraintFindings,
    second: ConstraintFindings,
    names: Iterable[str] = (),
    cluster: str = "",
    shared: Iterable[str] = (),
) -> dict[str, KindChange]:
    """Compare two runs on each kind of constraint, most changed pairs first.

    Changed instances are listed if their ids are in ``names``. ``cluster`` is the label of the
    statistical unit (empty for the prompt). ``shared`` are the ids of the instances whose replies
    are the same in both runs.
    """
    same = np.fromiter(second.instances(shared), np.int64)
    pairs = pair(first.table, second.table).clustered_by(cluster).sharing(same)
    instances = second.instances(names)

    def named(digests: Iterable[int]) -> list[str]:
        return sorted({instances[digest] for digest in digests if digest in instances})

    parts = {kind: pairs.take(rows) for kind, rows in pairs.group(LABEL).items()}
    comparisons = adjusted([compare(part) for part in parts.values()], planned=False)
    changes = {}
    for (kind, part), comparison in zip(parts.items(), comparisons, strict=True):
        better, worse = part.moved()
        changes[kind] = KindChange(comparison, named(better), named(worse))

    def in_order(kind: str) -> tuple[int, str]:
        comparison = changes[kind].comparison
        return -comparison.better - comparison.worse, kind

    return {kind: changes[kind] for kind in sorted(changes, key=in_order)}
