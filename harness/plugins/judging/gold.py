"""Judges' scores of the data set's reference answers, compared with those of a run's answers."""

from __future__ import annotations

from msgspec.structs import asdict

from harness.analysis.breakdown import mean_score
from harness.analysis.metrics import ReferenceScore
from harness.plugins.comparisons.comparison import compare, pair
from harness.store.columns import AttemptTable
from harness.store.index import AttemptIndex, read_attempts
from harness.store.run_folder import RunFolder, references_folder


def read_reference_scores(
    folder: RunFolder, attempts: AttemptTable, index: AttemptIndex | None
) -> dict[str, ReferenceScore] | None:
    """Return the scores of a run's judged reference answers, or None if none are judged."""
    references = references_folder(folder)
    if not references.path.is_dir():
        return None
    return reference_scores(attempts, read_attempts(references.attempts))


def reference_scores(attempts: AttemptTable, references: AttemptTable) -> dict[str, ReferenceScore]:
    """Return each score's mean over the reference answers, and the run's difference from it."""
    scores = {}
    for name in references.scores:
        mean = mean_score(references, name)
        if not mean.n:
            continue
        pairs = compare(pair(references, attempts, score=name))
        scores[name] = ReferenceScore(
            **asdict(mean),
            n_pairs=pairs.n,
            n_pair_clusters=pairs.n_clusters,
            difference=pairs.difference,
            difference_stderr=pairs.stderr,
            difference_ci95=pairs.ci95,
        )
    return scores
