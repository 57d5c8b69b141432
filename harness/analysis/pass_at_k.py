"""pass@k: the chance that at least one of k samples passes.

Owns the estimator for one instance; what is averaged over instances, and how
sure the average is, is for the caller.

>>> [float(at_k[0].round(3)) for at_k in pass_at_k(np.array([3]), np.array([1]), 3)]
[0.333, 0.667, 1.0]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def pass_at_k(
    drawn: NDArray[Any], passed: NDArray[Any], k_max: int
) -> Iterator[NDArray[np.float64]]:
    """The unbiased estimate 1 - C(n - c, k) / C(n, k) for k = 1 … k_max.

    Chen et al. 2021, "Evaluating Large Language Models Trained on Code" (arXiv
    2107.03374), equation 1. The quotient is the chance that k samples taken
    from the n without replacement are all among the n - c failures, a product
    of k factors of at most 1: no binomial is computed, so nothing overflows.

    drawn: (m,) n, the samples of each instance, at least k_max.
    passed: (m,) c, how many of them passed.
    Yields: (m,) pass@k for each k in turn.
    """
    if len(drawn) and k_max > drawn.min():
        raise ValueError(f"pass@{k_max} needs {k_max} samples of each instance")
    failures = drawn - passed
    all_fail = np.ones(len(drawn))
    for taken in range(k_max):
        all_fail *= np.maximum(failures - taken, 0) / (drawn - taken)
        yield 1 - all_fail
