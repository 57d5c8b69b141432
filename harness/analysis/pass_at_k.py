"""pass@k: the chance that at least one of k samples passes.

Owns the estimator for one instance; what is averaged over instances, and how
sure the average is, is for the caller.

>>> pass_at_k(np.array([3]), np.array([1]), 3).round(3).tolist()
[[0.333, 0.667, 1.0]]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def pass_at_k(drawn: NDArray[Any], passed: NDArray[Any], k_max: int) -> NDArray[np.float64]:
    """The unbiased estimate 1 - C(n - c, k) / C(n, k) for k = 1 … k_max.

    Chen et al. 2021, "Evaluating Large Language Models Trained on Code" (arXiv
    2107.03374), equation 1. The quotient is the chance that k samples taken
    from the n without replacement are all among the n - c failures, a product
    of k factors of at most 1: no binomial is computed, so nothing overflows.

    drawn: (m,) n, the samples of each instance, at least k_max.
    passed: (m,) c, how many of them passed.
    Returns: (m, k_max), column k - 1 holds pass@k.
    """
    if len(drawn) and k_max > drawn.min():
        raise ValueError(f"pass@{k_max} needs {k_max} samples of each instance")
    taken = np.arange(k_max)
    failures_left = np.maximum((drawn - passed)[:, None] - taken, 0)
    all_fail: NDArray[np.float64] = np.cumprod(failures_left / (drawn[:, None] - taken), axis=1)
    return 1 - all_fail
