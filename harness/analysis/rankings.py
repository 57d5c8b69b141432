"""Measures with Kendall's tau-b how similarly two runs rank groups, or two scorings rank runs.

The method is that of section 4.3 (figure 7b) and appendix D of Lior et al. 2025 (arXiv 2503.06573).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, permutations
from math import erfc, sqrt
from typing import Literal, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from harness.analysis.breakdown import value_of, values_by
from harness.analysis.comparable import Run, scored_runs
from harness.analysis.comparison import Floats, Pairs
from harness.analysis.metrics import PASS_RATE, SampleStatistic
from harness.errors import ConfigError
from harness.store.columns import AttemptTable, Ints

MAX_GROUPS = 60  # a table with more groups would be unreadable

MAX_ORDERED = 7  # runs up to which all orders (of 7 runs, 5,040) are compared
MAX_EXACT = 33  # runs up to which the p value without ties is exact; SciPy's limit too
MAX_OUTER = 300  # Items up to which all pairs are compared, in quadratic time and memory


def tau_b(first: Floats, second: Floats) -> float | None:
    """Return Kendall's tau-b of two scorings of the same items, or None if either is constant.

    Kendall 1945, "The Treatment of Ties in Ranking Problems".
    """
    found, *untied = _pairs(first, second)
    if not all(untied):
        return None
    return max(-1.0, min(1.0, found / sqrt(untied[0]) / sqrt(untied[1])))


def _pairs(first: Floats, second: Floats) -> tuple[int, int, int]:
    """Return concordant minus discordant pairs, and the untied pairs of each scoring."""
    if len(first) <= MAX_OUTER:  # all pairs, which is fast
        one, other = (np.sign(np.subtract.outer(values, values)) for values in (first, second))
        found, *untied = (int(both.sum()) // 2 for both in (one * other, one**2, other**2))
        return found, untied[0], untied[1]
    # As in Knight 1966, "A Computer Method for Calculating Kendall's Tau with Ungrouped Data".
    one, other = (np.unique(values, return_inverse=True)[1] for values in (first, second))
    pairs = len(first) * (len(first) - 1) // 2
    counts = [np.unique(v, return_counts=True)[1] for v in (one, other, one * len(other) + other)]
    tied, tied_other, tied_in_both = (int((t * (t - 1)).sum()) // 2 for t in counts)
    discordant = _inversions(other[np.lexsort((other, one))])
    found = pairs - tied - tied_other + tied_in_both - 2 * discordant
    return found, pairs - tied, pairs - tied_other


def _inversions(ranks: Ints) -> int:
    """Return how many pairs are in descending order.

    Each pair is counted at the highest bit in which its two ranks differ.
    """
    total = 0
    for bit in reversed(range(int(ranks.max()).bit_length())):
        above, one = ranks >> bit + 1, ranks >> bit & 1
        ones = np.cumsum(one) - one  # before this rank
        begins = np.diff(above, prepend=-1) > 0  # a new group of ranks that share the higher bits
        ones -= np.maximum.accumulate(np.where(begins, ones, 0))
        total += int(ones[one == 0].sum())
        ranks = ranks[np.argsort(ranks >> bit, kind="stable")]
    return total


def _p_value(first: Floats, second: Floats) -> float:
    """Return the two-sided p value of tau-b for at least three runs.

    For many runs, it is based on a normal distribution with the variance of Kendall 1970, "Rank
    Correlation Methods", section 4.
    """
    n, pairs = len(first), len(first) * (len(first) - 1) // 2
    if n <= MAX_ORDERED:
        # The normal distribution gives four tied runs half of the smallest possible p value.
        one, other = (np.sign(np.subtract.outer(values, values)) for values in (first, second))
        orders = np.array(list(permutations(range(n))))
        every = (one * other[orders[:, :, None], orders[:, None, :]]).sum(axis=(1, 2))
        return float(np.mean(abs(every) >= abs(every[0])))
    found, *untied = _pairs(first, second)
    if n <= MAX_EXACT and untied == [pairs, pairs]:
        share = np.ones(1)  # of all orders of m runs, by their number of discordant pairs
        for m in range(2, n + 1):
            share = np.convolve(share, np.full(m, 1 / m))
        return min(1.0, 2 * float(share[: (pairs - abs(found)) // 2 + 1].sum()))
    ties = [np.unique(values, return_counts=True)[1] for values in (first, second)]
    tied1, tied2 = (float((t * (t - 1)).sum()) for t in ties)
    triples1, triples2 = (float((t * (t - 1) * (t - 2)).sum()) for t in ties)
    less = sum(float((t * (t - 1) * (2 * t + 5)).sum()) for t in ties)
    variance = (
        (n * (n - 1) * (2 * n + 5) - less) / 18
        + tied1 * tied2 / (2 * n * (n - 1))
        + triples1 * triples2 / (9 * n * (n - 1) * (n - 2))
    )
    return erfc(abs(found) / sqrt(2 * variance))


class RankCorrelation(Struct, frozen=True, kw_only=True):
    """Kendall's tau-b of two scorings, over the runs that have a value in both."""

    tau_b: float | None  # None if all runs tie in a scoring
    p_value: float | None  # two-sided; null for fewer than three runs
    n_runs: int


def rank_correlation(values: Iterable[tuple[float | None, float | None]]) -> RankCorrelation:
    """Return Kendall's tau-b and its p value for the pairs in which neither value is None."""
    both = [(one, other) for one, other in values if one is not None and other is not None]
    # Sums in a different order differ in the last bits, which should not decide a rank.
    first, second = np.round(np.reshape(both, (-1, 2)), 12).T
    found = tau_b(first, second)
    p_value = None if found is None or len(both) < 3 else _p_value(first, second)
    return RankCorrelation(tau_b=found, p_value=p_value, n_runs=len(both))


class Ranking(Struct, frozen=True, kw_only=True):
    """How similarly two runs rank a label's groups. Tau-b is None if all groups tie in a run.

    Tau-b has no interval. Groups that are near each other change places by chance, so tau-b of the
    measured means is closer to 0 than that of the true means. A bootstrap, whose draws have even
    more noise, gives an interval around the wrong value: with 8 groups of 30 instances and equal
    true ranks (tau-b 1), it never contained 1.
    """

    tau_b: float | None
    n_groups: int


def rank_groups(pairs: Pairs, label: str) -> Ranking:
    """Compare how two runs rank the groups of a label."""
    parts = pairs.group(label).values()
    means = [[values[rows].mean() for rows in parts] for values in (pairs.first, pairs.second)]
    # Sums in a different order differ in the last bits, which should not decide a rank.
    first, second = (np.round(of_run, 12) for of_run in means)
    return Ranking(tau_b=tau_b(first, second), n_groups=len(parts))


SATISFIED = "share of constraints satisfied"
"""What the values of a group of constraints are. Each constraint counts once."""


class Scoring(Struct, frozen=True, kw_only=True):
    """The runs' values in one scoring: overall, in one group, or as published."""

    name: str
    kind: Literal["all", "group", "external"]
    score: str  # what the values are means of: a score, `SATISFIED`, or "" for published ones
    values: list[SampleStatistic | None]  # one per run; published ones have no error and no n


class Tau(RankCorrelation, frozen=True, kw_only=True):
    """The rank correlation of two scorings, which are given by their indices."""

    first: int
    second: int


class JudgedTables(NamedTuple):
    """A judge's verdicts on constraints: the result of `read_judged` for each run."""

    judge: str
    of_runs: Sequence[tuple[AttemptTable, int]]


class InducedRankings(Struct, frozen=True, kw_only=True):
    """The scorings of the runs, and tau-b for each pair of scorings."""

    label: str
    of: Literal["instances", "constraints"]
    judge: str  # the judge that decided on the constraints; empty for groups of instances
    without: list[int]  # by run, the number of samples without a verdict on constraints
    score: str
    scorings: list[Scoring]
    taus: list[Tau]
    unmatched: list[str]  # models in the published scores that match no run


def induced_rankings(
    runs: Sequence[Run],
    score: str = PASS_RATE,
    label: str = "",
    *,
    judged: JudgedTables | None = None,
    external: Mapping[str, Mapping[str, float]] | None = None,
    round_: int | None = None,
) -> InducedRankings:
    """Rank runs overall, by group and as published, and compute tau-b for each pair of rankings.

    Args:
        runs: The runs.
        score: The score to rank by, as in `scored_runs`.
        label: Rank the runs in each group of this label as well; empty for none.
        judged: If given, the groups are those of the constraints that a judge decided on.
        external: Published scores, by benchmark and then by the name of a run or model.
        round_: As in `scored_runs`.
    """
    runs, name, score = scored_runs(runs, score, round_)
    tables = [table for _, table in runs]
    overall: list[SampleStatistic | None] = [value_of(table, score) for table in tables]
    scorings = [Scoring(name=name, kind="all", score=name, values=overall)]
    if label and judged is not None:
        verdicts = [table for table, _ in judged.of_runs]
        scorings += _by_group(verdicts, PASS_RATE, label, SATISFIED)
    elif label:
        scorings += _by_group(tables, score, label, name)
    unmatched: set[str] = set()
    for benchmark, scores in (external or {}).items():
        # Published under the run's name, or else under its model's.
        known = [v.name if v.name in scores else v.metrics.model or "" for v, _ in runs]
        values = [SampleStatistic(mean=scores[one]) if one in scores else None for one in known]
        unmatched |= scores.keys() - set(known)
        scorings.append(Scoring(name=benchmark, kind="external", score="", values=values))
    means = [[one.mean if one else None for one in each.values] for each in scorings]
    taus = []
    for one, other in combinations(range(len(scorings)), 2):
        found = rank_correlation(zip(means[one], means[other], strict=True))
        taus.append(Tau(first=one, second=other, **asdict(found)))
    return InducedRankings(
        label=label,
        of="constraints" if judged else "instances",
        judge=judged.judge if judged else "",
        without=[without for _, without in judged.of_runs] if judged else [],
        score=name,
        scorings=scorings,
        taus=taus,
        unmatched=sorted(unmatched),
    )


def refuse_many_groups(label: str, n: int) -> None:
    """Raise ConfigError if a label has too many groups (``n``) for a table."""
    if n > MAX_GROUPS:
        problem = f"--by: the label {label!r} has {n:,} groups, more than {MAX_GROUPS}."
        raise ConfigError(problem, "Name a coarser label.")


def _by_group(tables: Sequence[AttemptTable], score: str, label: str, name: str) -> list[Scoring]:
    """Return the scorings by group of a label; ``name`` says what their values are."""
    values = [
        {group: one for (group,), one in values_by(table, score, label).items()} for table in tables
    ]

    def in_order(group: str) -> tuple[int, str]:
        return (int(group) if group.isdecimal() else -1), group

    groups = sorted({group for found in values for group in found}, key=in_order)
    refuse_many_groups(label, len(groups))
    return [
        Scoring(name=group, kind="group", score=name, values=[found.get(group) for found in values])
        for group in groups
    ]
