"""Position bias in multiple choice: whether an option's place affects how often it is chosen."""

from __future__ import annotations

from string import ascii_uppercase

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from harness.analysis.clustered import clustered_mean, clustered_rate
from harness.analysis.distributions import chi_squared_tail
from harness.analysis.failures import ScoreDetails
from harness.analysis.metrics import PositionBias, PositionRates, Statistic
from harness.scoring import CHOICE
from harness.store.columns import AttemptTable
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder


class _Places(Struct, gc=False):
    chosen: int
    right: int
    of: int


class _Details(Struct, gc=False):
    positions: _Places


class _Line(Struct, gc=False):
    cluster: str
    scores: dict[str, ScoreDetails] = {}


_decode = msgspec.json.Decoder(_Details).decode


def measured_positions(
    folder: RunFolder, attempts: AttemptTable, index: AttemptIndex | None
) -> PositionBias | None:
    """Return the position bias of a run, or None without a score of choices or an index."""
    if index is None or CHOICE not in attempts.scores:
        return None
    return read_positions(index)


def read_positions(index: AttemptIndex) -> PositionBias | None:
    """Return the position bias in a run's first answers, or None if no answer has positions.

    Answers without a choice, and those to prompts that do not show the options, are ``missing``.
    """
    rows = index.last_rounds(1)
    answers: list[_Places] = []
    clusters: list[int] = []
    numbers: dict[str, int] = {}
    for line in index.read(_Line, rows, judged=False):
        places = next(filter(None, map(_places, line.scores.values())), None)
        if places is not None:
            answers.append(places)
            clusters.append(numbers.setdefault(line.cluster, len(numbers)))
    if not answers:
        return None
    chosen, right = (
        np.array([getattr(answer, name) for answer in answers], np.intp)
        for name in ("chosen", "right")
    )
    n_options = max(answer.of for answer in answers)
    return position_bias(chosen, right, np.array(clusters, np.intp), n_options, len(rows))


def _places(score: ScoreDetails) -> _Places | None:
    try:
        places = _decode(score.details).positions
    except (msgspec.MsgspecError, RecursionError):
        return None
    low, high = sorted((places.chosen, places.right))
    return places if low >= 0 and high < places.of <= len(ascii_uppercase) else None


def position_bias(
    chosen: NDArray[np.intp],
    right: NDArray[np.intp],
    clusters: NDArray[np.intp],
    n_options: int,
    n_answers: int,
) -> PositionBias:
    """Compute the position bias of n answers.

    The test is that of Stuart (1955, Biometrika 42) and Maxwell (1970, British J. Psychiatry 116)
    for marginal homogeneity: that each position is chosen as often as it has the right option. It
    depends on wrong answers only. Its covariance is computed over clusters, since samples of one
    prompt are not independent.

    Args:
        chosen: (n,) The position of the option that each answer chooses, from 0.
        right: (n,) The position of the right option for each answer.
        clusters: (n,) The index of each answer's cluster.
        n_options: The number of positions.
        n_answers: The number of all answers, of which those without a position are missing.
    """
    places = np.arange(n_options)
    excess = (chosen[:, None] == places).astype(float) - (right[:, None] == places)
    totals = np.zeros((int(clusters.max()) + 1, n_options))
    np.add.at(totals, clusters, excess)
    covariance = totals.T @ totals
    total = totals.sum(axis=0)
    degrees = int(np.linalg.matrix_rank(covariance))
    squared = float(total @ np.linalg.pinv(covariance, hermitian=True) @ total)
    rates = []
    for place in places.tolist():
        picked = (chosen == place).astype(float)
        correct = right == place
        over = clustered_mean(excess[:, place], clusters)
        passed = (
            clustered_rate(picked[correct], clusters[correct]) if correct.any() else Statistic()
        )
        rates.append(PositionRates(
            option=ascii_uppercase[place],
            n_right=int(correct.sum()),
            chosen=clustered_rate(picked, clusters),
            excess=over.to_mean_statistic(-1, 1),
            passed=passed,
        ))  # fmt: skip
    return PositionBias(
        n=len(chosen),
        n_clusters=len(totals),
        missing=n_answers - len(chosen),
        positions=rates,
        chi_squared=squared if degrees else None,
        degrees=degrees,
        p_value=chi_squared_tail(degrees, squared) if degrees else None,
    )
