"""Scores of k samples, one value per instance with k verdicts: pass@k, pass^k and any@k.

``pass@4`` is the chance that at least one of 4 samples passes, ``pass^4`` that all of them do:
unbiased estimates from all samples with a verdict. ``any@4`` is whether one of the first 4 passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.analysis.metrics import PASS_RATE
from harness.config.run_file import of_k
from harness.store.columns import NOT_JUDGED, AttemptTable, changes


def explained(scores: str) -> list[str]:
    """Return a note on scores like pass@4; an empty list if no score (joined by "and") is one."""
    note = (
        "pass@k, pass^k: chance that one or all of k samples pass (unbiased); any@k: whether one "
        "of the first k does. A value per instance; those with fewer than k verdicts are excluded."
    )
    return [note] if any(of_k(score)[1] for score in scores.split(" and ")) else []


def most_samples(attempts: AttemptTable) -> int:
    """Return the largest number of samples of an instance; 0 for an empty table."""
    return int(np.bincount(attempts.instance[attempts.sample_starts()]).max(initial=0))


def has_score(table: AttemptTable, score: str) -> bool:
    """Return whether a table has a score; ``pass@4`` needs an instance with 4 samples."""
    return score in (PASS_RATE, *table.scores) or 0 < of_k(score)[1] <= most_samples(table)


def scored(samples: AttemptTable, score: str) -> AttemptTable:
    """Return the rows that a score is averaged over: samples or, for ``pass@4``, instances.

    An instance's value is in ``passed``; the run's own score of that name has precedence.
    """
    kind, k = of_k(score)
    if not k:
        return samples
    if score in samples.scores:
        return replace(samples, passed=np.nan_to_num(samples.scores[score], nan=NOT_JUDGED))
    rows = samples.take(changes(samples.instance))
    used = samples.take(samples.judged & ((samples.sample < k) | (kind != "any@")))
    drawn, passed = (
        np.bincount(of, minlength=len(samples.instances.digest))[rows.instance]
        for of in (used.instance, used.instance[used.passed == 1])
    )
    enough, values = drawn >= k, np.full(len(rows), np.nan)
    estimates = pass_hat_k if kind == "pass^" else pass_at_k
    *_, values[enough] = estimates(drawn[enough], passed[enough], k)
    return replace(rows, passed=np.nan_to_num(values, nan=NOT_JUDGED), scores={score: values})


def pass_at_k(
    drawn: NDArray[Any], passed: NDArray[Any], k_max: int
) -> Iterator[NDArray[np.float64]]:
    """Yield, for k = 1 … k_max, the (m,) probabilities that at least one of k samples passes.

    The unbiased estimate 1 - C(n - c, k) / C(n, k) of Chen et al. 2021, "Evaluating Large Language
    Models Trained on Code" (arXiv 2107.03374), equation 1. Of each instance, n ≥ k_max samples were
    ``drawn``, of which c have ``passed``; both are (m,).

    >>> [float(at_k[0].round(3)) for at_k in pass_at_k(np.array([3]), np.array([1]), 3)]
    [0.333, 0.667, 1.0]
    """
    for all_fail in pass_hat_k(drawn, drawn - passed, k_max):
        yield 1 - all_fail


def pass_hat_k(
    drawn: NDArray[Any], passed: NDArray[Any], k_max: int
) -> Iterator[NDArray[np.float64]]:
    """Yield the probabilities that all k samples pass, C(c, k) / C(n, k), as in `pass_at_k`.

    Yao et al. 2024, "τ-bench" (arXiv 2406.12045), section 3. Computed as a product of k factors of
    at most 1, the probabilities of successive draws without replacement, so that nothing overflows.
    """
    if len(drawn) and k_max > drawn.min():
        raise ValueError(f"k = {k_max} needs {k_max} samples of each instance")
    chance = np.ones(len(drawn))
    for taken in range(k_max):
        chance = chance * (np.maximum(passed - taken, 0) / (drawn - taken))
        yield chance
