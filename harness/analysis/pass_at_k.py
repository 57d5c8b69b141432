"""pass@k, the chance that at least one of k samples passes, and pass^k, that all of them do.

The estimators are per instance; averaging over instances is up to the caller. Both take ``drawn``,
(m,) the number n of samples of each instance, at least ``k_max``; and ``passed``, (m,) how many c
of them passed. They yield (m,) the estimate for each k = 1 … k_max in turn.

>>> [float(at_k[0].round(3)) for at_k in pass_at_k(np.array([3]), np.array([1]), 3)]
[0.333, 0.667, 1.0]
>>> [float(hat_k[0].round(3)) for hat_k in pass_hat_k(np.array([3]), np.array([2]), 3)]
[0.667, 0.333, 0.0]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def pass_at_k(
    drawn: NDArray[Any], passed: NDArray[Any], k_max: int
) -> Iterator[NDArray[np.float64]]:
    """Yield the unbiased estimate 1 - C(n - c, k) / C(n, k).

    Chen et al. 2021, "Evaluating Large Language Models Trained on Code" (arXiv 2107.03374),
    equation 1.
    """
    for all_fail in pass_hat_k(drawn, drawn - passed, k_max):
        yield 1 - all_fail


def pass_hat_k(
    drawn: NDArray[Any], passed: NDArray[Any], k_max: int
) -> Iterator[NDArray[np.float64]]:
    """Yield the unbiased estimate C(c, k) / C(n, k).

    Yao et al. 2024, "τ-bench" (arXiv 2406.12045), section 3: how reliably an instance is solved,
    where pass@k says whether it can be. The quotient is the chance that k samples drawn from the n
    without replacement are all among the c, a product of k factors of at most 1: no binomial
    coefficient is computed, so nothing overflows.
    """
    if len(drawn) and k_max > drawn.min():
        raise ValueError(f"k = {k_max} needs {k_max} samples of each instance")
    chance = np.ones(len(drawn))
    for taken in range(k_max):
        chance = chance * (np.maximum(passed - taken, 0) / (drawn - taken))
        yield chance
