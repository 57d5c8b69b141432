"""How often a judge agrees with a reference: confusion, accuracy, Cohen's kappa, with intervals.

Abstentions are counted in the confusion and are in no other figure.

>>> found = agreement(np.array([1, 1, 0, -1]), np.array([1, 0, 0, 1]), np.arange(4))
>>> round(found.accuracy.mean, 3), round(found.kappa.mean, 3), found.confusion.abstained_yes
(0.667, 0.4, 1)
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from harness.analysis.clustered import clustered_mean, rate_interval
from harness.store.columns import NOT_JUDGED


class Figure(Struct, frozen=True, kw_only=True):
    """A figure and how sure it is.

    mean: null where it is not defined, as over nothing.
    stderr, ci95: clustered; null where they cannot be estimated.
    n, n_clusters: verdicts that it is made of, and in how many clusters.
    """

    mean: float | None
    stderr: float | None
    ci95: tuple[float, float] | None
    n: int
    n_clusters: int


class Confusion(Struct, frozen=True, kw_only=True):
    """Criteria by what the judge says, and, after the underscore, the reference."""

    yes_yes: int
    yes_no: int
    no_yes: int
    no_no: int
    abstained_yes: int
    abstained_no: int


class Agreement(Struct, frozen=True, kw_only=True):
    """How a judge's verdicts stand to a reference's.

    accuracy: share of the criteria decided by both on which both say the same.
    kappa: Cohen's; null where chance alone would agree always: both say the same of everything.
    sensitivity: share of the reference's yes that the judge says yes to; specificity: of its no,
        no. Both of what the judge decided on.
    reference_abstained: criteria on which the reference abstains; they are in no other figure.
    """

    accuracy: Figure
    kappa: Figure
    sensitivity: Figure
    specificity: Figure
    confusion: Confusion
    reference_abstained: int


def agreement(
    judge: NDArray[np.integer], reference: NDArray[np.integer], cluster: NDArray[np.integer]
) -> Agreement:
    """The agreement of verdicts.

    judge, reference: (n,) 1, 0, `NOT_JUDGED`.
    cluster: (n,) number of the statistical unit.
    """
    decided = (judge != NOT_JUDGED) & (reference != NOT_JUDGED)
    own, other, unit = judge[decided] == 1, reference[decided] == 1, cluster[decided]

    def count(says: int, is_: int) -> int:
        return int(np.count_nonzero((judge == says) & (reference == is_)))

    return Agreement(
        accuracy=rate(own == other, unit),
        kappa=cohens_kappa(own, other, unit),
        sensitivity=rate(own[other], unit[other]),
        specificity=rate(~own[~other], unit[~other]),
        confusion=Confusion(
            yes_yes=count(1, 1),
            yes_no=count(1, 0),
            no_yes=count(0, 1),
            no_no=count(0, 0),
            abstained_yes=count(NOT_JUDGED, 1),
            abstained_no=count(NOT_JUDGED, 0),
        ),
        reference_abstained=int(np.count_nonzero(reference == NOT_JUDGED)),
    )


def rate(values: NDArray[np.bool_], cluster: NDArray[np.integer]) -> Figure:
    """The share of true values, with its clustered interval."""
    estimate = clustered_mean(values, cluster)
    return Figure(
        mean=estimate.mean,
        stderr=estimate.stderr,
        ci95=rate_interval(estimate, int(values.sum())) if estimate.n else None,
        n=estimate.n,
        n_clusters=estimate.n_clusters,
    )


def cohens_kappa(
    judge: NDArray[np.bool_], reference: NDArray[np.bool_], cluster: NDArray[np.integer]
) -> Figure:
    """Agreement beyond chance.

    Cohen 1960, "A Coefficient of Agreement for Nominal Scales", equation 1,

        kappa = (p_o - p_e) / (1 - p_e),

    p_o the share of agreement, p_e what two raters of these shares of yes would have by chance.
    The error is that of its linearisation in the shares, which for independent verdicts is the
    large-sample error of Fleiss, Cohen and Everitt (1969), here clustered
    (`harness.analysis.clustered`).

    judge, reference: (n,) whether each says yes.
    """
    n = len(judge)
    if not n:
        return Figure(mean=None, stderr=None, ci95=None, n=0, n_clusters=0)
    agree = (judge == reference).astype(np.float64)
    observed, own, other = float(agree.mean()), float(judge.mean()), float(reference.mean())
    chance = own * other + (1 - own) * (1 - other)
    if chance == 1:
        return Figure(mean=None, stderr=None, ci95=None, n=n, n_clusters=len(np.unique(cluster)))
    kappa = (observed - chance) / (1 - chance)
    by_chance = (2 * other - 1) * (judge - own) + (2 * own - 1) * (reference - other)
    linear = (agree - observed) / (1 - chance) - (1 - observed) / (1 - chance) ** 2 * by_chance
    return linearised(kappa, linear, cluster, low=-1.0, high=1.0)


def linearised(
    value: float,
    influence: NDArray[np.float64],
    cluster: NDArray[np.integer],
    *,
    low: float,
    high: float,
) -> Figure:
    """A figure with the clustered error of its linearisation.

    influence: (n,) what each verdict adds to it, times n; 0 in the mean.
    low, high: the figure cannot be beyond them.
    """
    estimate = clustered_mean(influence, cluster)
    interval = estimate.ci95_unbounded
    if interval is not None:
        interval = max(low, value + interval[0]), min(high, value + interval[1])
    return Figure(
        mean=value,
        stderr=estimate.stderr,
        ci95=interval,
        n=estimate.n,
        n_clusters=estimate.n_clusters,
    )
