"""How groups rank the runs, and how alike these rankings are.

Each group of a label orders the runs by their values on it; so does the score over everything, and
so do scores that others have published. Kendall's tau-b says how alike two orders are, as in
section 4.3 (figure 7b) and appendix D of Lior et al. 2025 (arXiv 2503.06573). The label may be the
instances' (``domain``, ``n_constraints``: the score's mean) or the constraints' that a judge has
judged (``category``: the share of constraints that are met, with an error clustered by task).

>>> induced_rankings(runs, "pass_rate", "domain").taus[0].tau_b  # doctest: +SKIP
0.82
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

from msgspec import Struct

from harness.analysis.pair_matrix import Run, Value, value_of
from harness.analysis.question import PASS_RATE
from harness.analysis.ranking import tau_b
from harness.errors import ConfigError, nearest
from harness.store.columns import AttemptTable

MOST_GROUPS = 60
"""Of a label: the rankings of more are no table."""

Kind = Literal["all", "group", "external"]


class Scoring(Struct, frozen=True, kw_only=True):
    """What orders the runs.

    kind: ``all``: the score over everything; ``group``: a group of the label; ``external``:
        published scores.
    values: by run; null where it has none. Of published ones without error and n.
    """

    name: str
    kind: Kind
    values: list[Value | None]


class Tau(Struct, frozen=True, kw_only=True):
    """How alike two scorings order the runs.

    first, second: their places among the scorings.
    tau_b: over the runs that both have a value of; null over fewer than two, and where all tie.
    p_value: two-sided, of no relation, exact without ties; null over fewer than three.
    n_runs: so many.
    """

    first: int
    second: int
    tau_b: float | None
    p_value: float | None
    n_runs: int


class JudgedTables(NamedTuple):
    """What a judge says of each run's constraints.

    judge: its name in the runs.
    tables: of each run (`harness.store.judged_constraints.JudgedConstraints.table`).
    without: of each run, samples of which it tells of none.
    """

    judge: str
    tables: Sequence[AttemptTable]
    without: Sequence[int]


class InducedRankings(Struct, frozen=True, kw_only=True):
    """The scorings of the runs, and the taus of each two.

    label: empty where there are published scores alone.
    of: whether the groups are the instances' or the judged constraints'.
    judge: whose verdicts on constraints these are; empty for none.
    without: of each run, samples of which that judge tells of no constraint.
    unmatched: models of the published scores that are none of the runs'.
    """

    label: str
    of: Literal["instances", "constraints"]
    judge: str
    without: list[int]
    score: str
    scorings: list[Scoring]
    taus: list[Tau]
    unmatched: list[str]


def induced_rankings(
    runs: Sequence[Run],
    score: str = PASS_RATE,
    label: str = "",
    *,
    judged: JudgedTables | None = None,
    external: Mapping[str, Mapping[str, float]] | None = None,
    round_: int | None = None,
) -> InducedRankings:
    """The rankings of runs by the groups of a label and by published scores.

    score: orders the runs over everything and, where the label is the instances', on each group.
    label: empty for none.
    judged: the constraints, where the label is theirs.
    external: scoring to model, or run, to its score.

    Raises: ConfigError for a label with too many groups.
    """
    overall = Scoring(name=score, kind="all", values=[value_of(t, score, round_) for _, t in runs])
    scorings = [overall]
    if label and judged is not None:
        scorings += _by_group(judged.tables, PASS_RATE, label, None)
    elif label:
        scorings += _by_group([table for _, table in runs], score, label, round_)
    unmatched: set[str] = set()
    for name, scores in (external or {}).items():
        found = [_published(scores, run) for run in runs]
        unmatched |= scores.keys() - {key for key, _ in found}
        values = [value for _, value in found]
        scorings.append(Scoring(name=name, kind="external", values=values))
    return InducedRankings(
        label=label,
        of="constraints" if judged else "instances",
        judge=judged.judge if judged else "",
        without=list(judged.without) if judged else [],
        score=score,
        scorings=scorings,
        taus=[
            _tau(first, second, scorings) for first, second in combinations(range(len(scorings)), 2)
        ],
        unmatched=sorted(unmatched),
    )


def refuse_unknown_label(
    label: str, tables: Sequence[AttemptTable], names: Sequence[str], others: Sequence[str] = ()
) -> None:
    """Refuse a label that a run does not have. others: labels to be named, too.

    Raises: ConfigError.
    """
    for table, name in zip(tables, names, strict=True):
        if label not in table.labels():
            raise ConfigError(
                f"--by: the run {name!r} has no label {label!r}.",
                nearest(label, [*table.labels(), *others]),
            )


def _by_group(
    tables: Sequence[AttemptTable], score: str, label: str, round_: int | None
) -> list[Scoring]:
    values = [
        {group: value_of(rows, score, round_) for group, rows in table.by(label)}
        for table in tables
    ]
    groups = sorted({group for found in values for group in found}, key=_in_order)
    if len(groups) > MOST_GROUPS:
        raise ConfigError(
            f"--by: the label {label!r} has {len(groups):,} groups, more than {MOST_GROUPS}.",
            "Name a coarser one.",
        )
    return [
        Scoring(name=group, kind="group", values=[found.get(group) for found in values])
        for group in groups
    ]


def _in_order(group: str) -> tuple[int, str]:
    return (int(group) if group.isdecimal() else -1), group


def _published(scores: Mapping[str, float], run: Run) -> tuple[str, Value | None]:
    """What was found for a run, and by which name: its own, else that of its model."""
    variant = run[0]
    for name in (variant.name, variant.metrics.model or ""):
        if name in scores:
            value = Value(mean=scores[name], stderr=None, ci95=None, n=0, n_clusters=0)
            return name, value
    return "", None


def _tau(first: int, second: int, scorings: Sequence[Scoring]) -> Tau:
    both = [
        # Sums in another order differ in the last bits, which are no ranking.
        (round(one.mean, 12), round(other.mean, 12))
        for one, other in zip(scorings[first].values, scorings[second].values, strict=True)
        if one is not None and one.mean is not None
        if other is not None and other.mean is not None
    ]
    ours, theirs = [one for one, _ in both], [other for _, other in both]
    found = tau_b(ours, theirs)
    p_value = None
    if found is not None and len(both) > 2:
        from scipy.stats import kendalltau

        p_value = float(kendalltau(ours, theirs).pvalue)
    return Tau(first=first, second=second, tau_b=found, p_value=p_value, n_runs=len(both))
