"""Several runs against one of them: over all instances, and by the groups of a label.

Owns what is one family of tests. The runs over all instances are one, and of two
runs the groups of a label: planned, adjusted by Holm. Groups of several runs are
a search, adjusted by Benjamini and Hochberg.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from harness.analysis.comparable import (
    CONFOUNDED,
    Variant,
    confounded,
    differing,
    refuse_incomparable,
)
from harness.analysis.comparison import Comparison, adjusted, compare
from harness.analysis.forensics import KindChange, compare_kinds
from harness.analysis.pairing import Pairs, pair
from harness.analysis.question import PASS_RATE
from harness.analysis.ranking import Ranking, rank_groups
from harness.errors import ConfigError, nearest
from harness.store.columns import AttemptTable
from harness.store.constraints import Findings


class Asked(Struct, frozen=True, kw_only=True):
    """What is compared, and how.

    score: its name, or `PASS_RATE`.
    round: each sample's last one up to it counts; None for the last.
    by: label for groups; empty for none.
    cluster: label of the statistical unit; empty for the prompt.
    """

    score: str = PASS_RATE
    round: int | None = None
    by: str = ""
    cluster: str = ""


class Against(Struct, frozen=True, kw_only=True):
    """A run against the baseline.

    marks: why it may not be what it seems (INCOMPLETE, SIMULATED).
    groups: group of the label to the comparison on its instances.
    ranking: of the groups by the two runs; null without a label.
    better_digests, worse_digests: of the instances in which the run is more, and less.
    better, worse: their names, where they were asked for.
    constraints: kind of base constraint to what became of it, where that was asked for.
    without_constraints: samples of the baseline, and of the run, whose scores tell of none
        (refused, empty, failed): they are not among the pairs of ``constraints``.
    """

    run: str
    marks: list[str]
    overall: Comparison
    groups: dict[str, Comparison] = {}
    ranking: Ranking | None = None
    better_digests: list[int] = []
    worse_digests: list[int] = []
    better: list[str] = []
    worse: list[str] = []
    constraints: dict[str, KindChange] = {}
    without_constraints: tuple[int, int] = (0, 0)


class RunComparison(Struct, frozen=True, kw_only=True):
    """The runs against their baseline.

    notes: sentences on what the runs differ in.
    """

    task: str
    baseline: str
    marks: list[str]
    asked: Asked
    others: list[Against]
    notes: list[str]


def compare_runs(
    runs: Sequence[tuple[Variant, AttemptTable]], asked: Asked, baseline: str = ""
) -> RunComparison:
    """Compare the runs with one of them.

    runs: two or more; baseline: the name of one of them, by default the first.

    Raises: ConfigError; RunConflict where they cannot be compared.
    """
    names = [variant.name for variant, _ in runs]
    if baseline and baseline not in names:
        raise ConfigError(f"--baseline {baseline!r} is none of the runs.", nearest(baseline, names))
    place = names.index(baseline) if baseline else 0
    base, table = runs[place]
    others = [run for number, run in enumerate(runs) if number != place]
    refuse_incomparable(base, [variant for variant, _ in others])
    _refuse_unknown(runs, table, asked)
    pairings = [
        _clustered(pair(table, other, score=asked.score, round_=asked.round), asked.cluster)
        for _, other in others
    ]
    found = [
        _against(base, variant, pairs, asked)
        for (variant, _), pairs in zip(others, pairings, strict=True)
    ]
    overall = adjusted([one.overall for one in found])
    found = [
        replace(one, overall=comparison) for one, comparison in zip(found, overall, strict=True)
    ]
    return RunComparison(
        task=base.metrics.task,
        baseline=base.name,
        marks=base.marks,
        asked=asked,
        others=_groups_adjusted(found),
        notes=list(differing(base, [variant for variant, _ in others])),
    )


def with_names(found: RunComparison, names: Mapping[int, str]) -> RunComparison:
    """With the names of the instances that differ, sorted.

    names: digest to name; those that are not there are left out.
    """

    def of(digests: Sequence[int]) -> list[str]:
        return sorted(names[digest] for digest in digests if digest in names)

    others = [
        replace(one, better=of(one.better_digests), worse=of(one.worse_digests))
        for one in found.others
    ]
    return replace(found, others=others)


def with_constraints(
    found: RunComparison, findings: Mapping[str, Findings], names: Iterable[str] = ()
) -> RunComparison:
    """With what became of the base constraints, by kind.

    findings: of each run by its name, the baseline's too.
    names: of instances, to be told which.
    """
    base, known = findings[found.baseline], list(names)
    others = [
        replace(
            one,
            constraints=compare_kinds(base, findings[one.run], known, found.asked.cluster),
            without_constraints=(base.without, findings[one.run].without),
        )
        for one in found.others
    ]
    return replace(found, others=others)


def _clustered(pairs: Pairs, label: str) -> Pairs:
    return pairs.clustered_by(label) if label else pairs


def _against(base: Variant, variant: Variant, pairs: Pairs, asked: Asked) -> Against:
    groups = {}
    if asked.by:
        groups = {name: compare(pairs.take(rows)) for name, rows in pairs.group(asked.by).items()}
    return Against(
        run=variant.name,
        marks=[*([CONFOUNDED] if confounded(base, variant) else []), *variant.marks],
        overall=compare(pairs),
        groups=groups,
        ranking=rank_groups(pairs, asked.by) if len(groups) > 1 else None,
        better_digests=_digests(pairs, pairs.difference > 0),
        worse_digests=_digests(pairs, pairs.difference < 0),
    )


def _digests(pairs: Pairs, rows: NDArray[np.bool_]) -> list[int]:
    return [int(digest) for digest in pairs.digest[rows]]


def _groups_adjusted(found: Sequence[Against]) -> list[Against]:
    """With the p values of all groups adjusted, as the module says."""
    every = [comparison for one in found for comparison in one.groups.values()]
    waiting = iter(adjusted(every, planned=len(found) == 1))
    return [replace(one, groups={name: next(waiting) for name in one.groups}) for one in found]


def _refuse_unknown(
    runs: Sequence[tuple[Variant, AttemptTable]], base: AttemptTable, asked: Asked
) -> None:
    labels = base.labels()  # pairs have the groups that the baseline says
    for label, option in ((asked.by, "--by"), (asked.cluster, "--cluster")):
        if label and label not in labels:
            raise ConfigError(
                f"{option}: the runs have no label {label!r}.", nearest(label, labels)
            )
    for variant, table in runs:
        if asked.score != PASS_RATE and asked.score not in table.scores:
            raise ConfigError(
                f"The run {variant.name!r} has no score {asked.score!r}.",
                nearest(asked.score, [PASS_RATE, *table.scores]),
            )
    last = max((int(table.round.max()) for _, table in runs if len(table)), default=1)
    if asked.round is not None and asked.round > last:
        raise ConfigError(
            f"None of the runs has a round {asked.round}: the last one is round {last}.",
            "Leave --round out for each sample's last one.",
        )
