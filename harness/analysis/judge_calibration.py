"""Whether a judge's probabilities mean what they say, and whether it is surer where it is right.

>>> probability = np.array([0.95, 0.85, 0.15, 0.05])
>>> found = calibration(probability, np.array([1, 0, 0, 0]), np.arange(4))
>>> round(found.expected_error, 3), len(found.bins)
(0.275, 10)
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from harness.analysis.judge_agreement import Figure, linearised, rate

BINS = 10
SATISFIED = 0.5
"""From this probability on the judge says yes."""


class Bin(Struct, frozen=True, kw_only=True):
    """Criteria to which the judge gives similar probabilities of yes.

    low, high: from low on, and below high; the last bin has 1, too.
    mean_probability: null for none.
    yes: the share of them to which the reference says yes.
    """

    low: float
    high: float
    n: int
    mean_probability: float | None
    yes: Figure


class Calibration(Struct, frozen=True, kw_only=True):
    """A judge's probabilities against a reference.

    n: criteria that both decided on, of which the judge's probability is known.
    bins: of equal width.
    expected_error: of calibration; null over nothing.
    mean_confidence: mean probability of its own verdict; to be held against its accuracy.
    confidence_covariance: of that probability with the verdict's being right.
    """

    n: int
    bins: list[Bin]
    expected_error: float | None
    mean_confidence: float | None
    confidence_covariance: Figure


def calibration(
    probability: NDArray[np.float64],
    reference: NDArray[np.integer],
    cluster: NDArray[np.integer],
) -> Calibration:
    """The calibration of probabilities.

    The curve is that of DeGroot and Fienberg (1983), "The Comparison and Evaluation of
    Forecasters"; the expected calibration error that of Naeini, Cooper and Hauskrecht (2015),
    "Obtaining Well Calibrated Probabilities Using Bayesian Binning": the sum over bins of the
    share of the criteria in it times the distance of mean probability and share of yes. Over few
    criteria it is above 0 by chance alone.

    probability: (n,) of yes, by the judge.
    reference: (n,) 1 or 0.
    cluster: (n,) number of the statistical unit.
    """
    n = len(probability)
    edges = np.arange(BINS + 1) / BINS  # and not sums of 0.1, which miss 0.3
    place = np.searchsorted(edges[1:-1], probability, side="right")
    bins: list[Bin] = []
    error = 0.0
    for number in range(BINS):
        rows = place == number
        yes = rate(reference[rows] == 1, cluster[rows])
        mean = float(probability[rows].mean()) if yes.n else None
        if mean is not None and yes.mean is not None:
            error += yes.n / n * abs(mean - yes.mean)
        bins.append(
            Bin(
                low=float(edges[number]),
                high=float(edges[number + 1]),
                n=yes.n,
                mean_probability=mean,
                yes=yes,
            )
        )
    confidence = np.maximum(probability, 1 - probability)
    right = (probability >= SATISFIED) == (reference == 1)
    return Calibration(
        n=n,
        bins=bins,
        expected_error=error if n else None,
        mean_confidence=float(confidence.mean()) if n else None,
        confidence_covariance=confidence_covariance(confidence, right, cluster),
    )


def confidence_covariance(
    confidence: NDArray[np.float64], right: NDArray[np.bool_], cluster: NDArray[np.integer]
) -> Figure:
    """How far a judge is surer where it is right.

    The mean of (c - mean c)(r - mean r), c the probability of its own verdict, max(p, 1 - p), and
    r 1 where it is right, else 0: the covariance of forecast and outcome in the decomposition of
    the Brier score by Yates (1982), "External Correspondence", for the forecast "I am right".
    Above 0 the confidence tells right from wrong. It is at most 1/8, as c is from 1/2 to 1 (half
    of that of 2 |p - 1/2|). The error is that of its linearisation, clustered.

    confidence: (n,) from 0.5 to 1.
    right: (n,) whether the verdict is the reference's.
    """
    if not len(confidence):
        return Figure(mean=None, stderr=None, ci95=None, n=0, n_clusters=0)
    products = (confidence - confidence.mean()) * (right - right.mean())
    value = float(products.mean())
    return linearised(value, products - value, cluster, low=-0.125, high=0.125)
