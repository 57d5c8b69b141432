"""What judges say of gold answers as text, for tables in a terminal and on a page.

>>> cells(ReferenceScore(mean=7.9, stderr=0.2, n=10, n_clusters=10))
['10', '7.900 ± 0.200', '0', 'n/a', 'n/a']
"""

from __future__ import annotations

from harness.analysis.metrics import ReferenceScore
from harness.report.cells import UNKNOWN, figure, with_error

HEADINGS = ("n", "mean ± s.e.", "pairs", "run - gold ± s.e.", "95%")


def cells(gold: ReferenceScore) -> list[str]:
    """The figures of a score, under `HEADINGS`; the last two are of the pairs."""
    difference = between = UNKNOWN
    if gold.difference is not None:
        difference = f"{gold.difference:+.3f} ± {figure(gold.difference_stderr)}"
    if gold.difference_ci95 is not None:
        low, high = gold.difference_ci95
        between = f"{low:+.3f} to {high:+.3f}"
    mean = with_error(gold.mean, gold.stderr)
    return [f"{gold.n:,}", mean, f"{gold.n_pairs:,}", difference, between]
