"""What judges say of the gold answers, beside what they say of a run's own.

Owns the pairing: the model's answers to an instance, averaged, less the gold answer to it, over
the instances that have both. It is the comparison of two runs (`harness.analysis.comparison`), of
which the first is the golds.

>>> gold_scores(attempts, golds)["coherence.score"].difference  # doctest: +SKIP
-0.4
"""

from __future__ import annotations

import numpy as np

from harness.analysis.clustered import clustered_mean
from harness.analysis.comparison import compare
from harness.analysis.metrics import GoldScore
from harness.analysis.pairing import pair
from harness.store.columns import AttemptTable


def gold_scores(attempts: AttemptTable, golds: AttemptTable) -> dict[str, GoldScore]:
    """Of each score that golds have.

    attempts: the run's.
    """
    found = {}
    for name in golds.scores:
        measured = golds.measured(name)
        values = golds.scores[name][measured]
        estimate = clustered_mean(values, golds.cluster[measured])
        if estimate.mean is None:
            continue
        pairs = compare(pair(golds, attempts, score=name))
        fractions = bool(np.all((values >= 0) & (values <= 1)))
        found[name] = GoldScore(
            mean=estimate.mean,
            stderr=estimate.stderr,
            ci95=estimate.ci95 if fractions else estimate.ci95_unbounded,
            n=estimate.n,
            n_clusters=estimate.n_clusters,
            not_measured=len(golds) - estimate.n,
            n_pairs=pairs.n,
            n_pair_clusters=pairs.n_clusters,
            difference=pairs.difference,
            difference_stderr=pairs.stderr,
            difference_ci95=pairs.ci95,
        )
    return found
