"""Whether a judge ranks models as a reference does: Kendall's tau-b of their mean scores.

Both sides score the same answers by the same criteria, those that both tell of: *strict*, whether
all are satisfied (a no makes it 0, otherwise an abstention makes it null), and *soft*, the share of
those decided on which are (Lior et al. 2025, arXiv 2503.06573). An answer counts where both sides
have a value of it.

>>> rank_models(pairs, ["small", "large"])[1][0].tau_b  # doctest: +SKIP
1.0
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from harness.analysis.clustered import clustered_mean
from harness.analysis.judge_agreement import Figure
from harness.analysis.judge_pairs import VerdictPairs
from harness.analysis.ranking import tau_b

SCORES = ("strict", "soft")


class RunScores(Struct, frozen=True, kw_only=True):
    """A run's means of a score by the judge and by the reference, over the same answers."""

    run: str
    score: str
    judge: Figure
    reference: Figure


class RankingAgreement(Struct, frozen=True, kw_only=True):
    """How alike both sides rank the runs by a score.

    tau_b: null over fewer than two runs, and where all tie.
    p_value: two-sided, of no relation, exact without ties; null over fewer than three runs.
    n_runs: runs that both sides have a mean of.
    """

    score: str
    tau_b: float | None
    p_value: float | None
    n_runs: int


def rank_models(
    pairs: VerdictPairs, runs: Sequence[str]
) -> tuple[list[RunScores], list[RankingAgreement]]:
    """Each run's scores by both sides, and how alike they rank the runs.

    runs: the names by their places.
    """
    if not len(pairs):
        return [], []
    _, first, answer = np.unique(pairs.answer, return_index=True, return_inverse=True)
    sides = [_scores(verdicts, answer, len(first)) for verdicts in (pairs.judge, pairs.reference)]
    run, cluster = pairs.run[first], pairs.cluster[first]
    scores: list[RunScores] = []
    rankings: list[RankingAgreement] = []
    for score in SCORES:
        own, other = (side[score] for side in sides)
        both = ~np.isnan(own) & ~np.isnan(other)
        of_score = [
            RunScores(
                run=name,
                score=score,
                judge=_mean(own[rows], cluster[rows]),
                reference=_mean(other[rows], cluster[rows]),
            )
            for place, name in enumerate(runs)
            for rows in [both & (run == place)]
        ]
        scores += of_score
        rankings.append(_agreement(score, of_score))
    return scores, rankings


def _scores(
    verdicts: NDArray[np.int8], answer: NDArray[np.intp], n: int
) -> dict[str, NDArray[np.float64]]:
    """(n,) each answer's scores, not a number for none."""
    yes = np.bincount(answer, weights=verdicts == 1, minlength=n)
    no = np.bincount(answer, weights=verdicts == 0, minlength=n)
    total = np.bincount(answer, minlength=n)
    strict = np.where(no > 0, 0.0, np.where(yes == total, 1.0, np.nan))
    decided = yes + no
    soft = np.divide(yes, decided, out=np.full(n, np.nan), where=decided > 0)
    return {"strict": strict, "soft": soft}


def _mean(values: NDArray[np.float64], cluster: NDArray[np.intp]) -> Figure:
    estimate = clustered_mean(values, cluster)
    return Figure(
        mean=estimate.mean,
        stderr=estimate.stderr,
        ci95=estimate.ci95,
        n=estimate.n,
        n_clusters=estimate.n_clusters,
    )


def _agreement(score: str, runs: Sequence[RunScores]) -> RankingAgreement:
    # Sums in another order differ in the last bits, which are no ranking.
    both = [
        (round(one.judge.mean, 12), round(one.reference.mean, 12))
        for one in runs
        if one.judge.mean is not None and one.reference.mean is not None
    ]
    own, other = [one for one, _ in both], [one for _, one in both]
    found = tau_b(own, other)
    p_value = None
    if found is not None and len(both) > 2:
        from scipy.stats import kendalltau

        p_value = float(kendalltau(own, other).pvalue)
    return RankingAgreement(score=score, tau_b=found, p_value=p_value, n_runs=len(both))
