"""Which base constraints fail, by how much, and which of them another run fixed or broke.

>>> kinds(read_findings(path, places))[0].kind  # doctest: +SKIP
'with exactly N characters'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from harness.analysis.clustered import clustered_mean, rate_interval
from harness.analysis.comparison import Comparison, adjusted, compare
from harness.analysis.pairing import Pairs, pair
from harness.store.constraints import LABEL, Findings, Misses

MOST_REASONS = 100
"""Of a kind, and of its misses by number: the most frequent."""


class ConstraintKind(Struct, frozen=True, kw_only=True):
    """How often the constraints of one kind are met, over samples' last rounds.

    kind: the constraint with its values left out: "with exactly N words"; or the group of
        another label that they are parted by.
    n, n_clusters: constraints that were checked, and the statistical units they come from.
    n_failed: of them.
    rate: share that is met, each constraint weighing the same.
    stderr, ci95: clustered, as in `harness.analysis.metrics.Rate`.
    off_by: of the failed ones that want one number and observed one: observed minus wanted,
        to how many.
    reasons: of failed ones, the most frequent first: "98 of 100 words", to how many. This and
        ``off_by`` are counted by kind, and empty for the groups of another label.
    """

    kind: str
    n: int
    n_clusters: int
    n_failed: int
    rate: float
    stderr: float | None
    ci95: tuple[float, float] | None
    off_by: Mapping[float, int] = {}
    reasons: Mapping[str, int] = {}


def kinds(findings: Findings, label: str = LABEL) -> list[ConstraintKind]:
    """The kinds of constraints, those that fail most often first.

    label: what they are parted by instead: one of the instances', or of the constraints' own.
        A constraint without it is in none.
    """
    found = []
    for group, rows in findings.table.by(label):
        judged = rows.take(rows.judged)
        estimate = clustered_mean(judged.passed, judged.cluster)
        if estimate.mean is None:
            continue
        misses = findings.misses[group] if label == LABEL else Misses()
        n_passed = int(judged.passed.sum())
        found.append(
            ConstraintKind(
                kind=group,
                n=estimate.n,
                n_clusters=estimate.n_clusters,
                n_failed=estimate.n - n_passed,
                rate=estimate.mean,
                stderr=estimate.stderr,
                ci95=rate_interval(estimate, n_passed),
                off_by=dict(sorted(misses.off_by.most_common(MOST_REASONS))),
                reasons=dict(misses.reasons.most_common(MOST_REASONS)),
            )
        )
    return sorted(found, key=lambda one: (-one.n_failed, one.kind))


class KindChange(Struct, frozen=True, kw_only=True):
    """What the second of two runs did to the constraints of one kind.

    comparison: a pair is a constraint of an instance; its value the share of samples that meet it.
    fixed, broken: instances that have one which is met more often, and less often, where
        their names were given.
    """

    comparison: Comparison
    fixed: list[str] = []
    broken: list[str] = []


def compare_kinds(
    first: Findings, second: Findings, names: Iterable[str] = (), cluster: str = ""
) -> dict[str, KindChange]:
    """Kind to what the second run did to it; those of which most were broken and fixed first.

    names: of instances, for `KindChange.fixed` and ``broken``.
    cluster: label of the statistical unit; empty for the prompt.

    The p values are a search over kinds, adjusted by Benjamini and Hochberg.
    """
    pairs = pair(first.table, second.table)
    if cluster:
        pairs = pairs.clustered_by(cluster)
    instances = second.instances(names)

    def named(some: Pairs, rows: NDArray[np.bool_]) -> list[str]:
        found = (instances.get(int(digest)) for digest in some.digest[rows])
        return sorted({name for name in found if name is not None})

    parts = {kind: pairs.take(rows) for kind, rows in pairs.group(LABEL).items()}
    compared = adjusted([compare(part) for part in parts.values()], planned=False)
    changes = {
        kind: KindChange(
            comparison=comparison,
            fixed=named(part, part.difference > 0),
            broken=named(part, part.difference < 0),
        )
        for (kind, part), comparison in zip(parts.items(), compared, strict=True)
    }
    moved = {kind: one.comparison.better + one.comparison.worse for kind, one in changes.items()}
    return {kind: changes[kind] for kind in sorted(changes, key=lambda kind: (-moved[kind], kind))}
