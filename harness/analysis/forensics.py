"""Which base constraints fail, and by how much."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class ConstraintKind(Struct, frozen=True, kw_only=True):
    """How often the constraints of one kind are met, over samples' last rounds.

    kind: the constraint with its values left out: "with exactly N words".
    n, n_clusters: constraints that were checked, and the statistical units they come from.
    n_failed: of them.
    rate: share that is met, each constraint weighing the same.
    stderr, ci95: clustered, as in `harness.analysis.metrics.Rate`.
    off_by: of the failed ones that want one number and observed one: observed minus wanted,
        to how many; at most `MOST_MISSES`, the most frequent.
    reasons: of failed ones, the most frequent first: "98 of 100 words", to how many.
    """

    kind: str
    n: int
    n_clusters: int
    n_failed: int
    rate: float
    stderr: float | None
    ci95: tuple[float, float] | None
    off_by: Mapping[float, int] = {}
    reasons: Mapping[str, int] = {}


MOST_MISSES = 100
