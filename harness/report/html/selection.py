"""Which instances' attempts go into the page, and in which order.

Where there are too many, whole instances are left out, in an order that has nothing
to do with what they are and that is the same for all runs: the page then holds a
fair sample of every group, and each of its instances with all runs.

>>> select([run.places for run in runs], 50_000).rows[0]  # doctest: +SKIP
array([2, 3, 0, 1])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.store.index import AttemptIndex


@dataclass(frozen=True, slots=True)
class Selection:
    """What is taken of several runs.

    digest: (m,) of the instances, in the order of the page.
    rows: of each run's places, instance by instance in that order.
    counts: of each run, (m,) how many of the rows each instance has.
    n_instances: how many there are to take from.
    """

    digest: NDArray[np.int64]
    rows: Sequence[NDArray[np.intp]]
    counts: Sequence[NDArray[np.intp]]
    n_instances: int


def select(runs: Sequence[AttemptIndex], most: int | None) -> Selection:
    """The instances of the runs: in the first run's order, then what only the others have.

    most: attempts of any one run; None for all. One instance is taken in any case.
    """
    every = _in_order(runs)
    taken = every if most is None else every[_within(every, runs, most)]
    rows, counts = [], []
    for run in runs:
        place = _places_of(run, taken)
        chosen = np.flatnonzero(place >= 0)
        rows.append(chosen[np.argsort(place[chosen], kind="stable")])
        counts.append(np.bincount(place[chosen], minlength=len(taken)))
    return Selection(taken, rows, counts, len(every))


def _in_order(runs: Sequence[AttemptIndex]) -> NDArray[np.int64]:
    """(n,) digests of all instances, as the files of the runs begin them."""
    digests = [run.attempts.instances.digest[run.attempts.instance[run.in_order()]] for run in runs]
    every, first = np.unique(np.concatenate([np.zeros(0, np.int64), *digests]), return_index=True)
    return every[np.argsort(first, kind="stable")]


def _within(every: NDArray[np.int64], runs: Sequence[AttemptIndex], most: int) -> NDArray[np.intp]:
    """Ascending places of the instances that are taken: the first ones by digest."""
    order = np.argsort(every, kind="stable")
    n = len(every)
    for run in runs:
        place = _places_of(run, every)
        so_far = np.cumsum(np.bincount(place, minlength=len(every))[order])
        n = min(n, int(np.searchsorted(so_far, most, side="right")))
    return np.sort(order[: max(1, n)])


def _places_of(run: AttemptIndex, digests: NDArray[np.int64]) -> NDArray[np.intp]:
    """(n,) place among the digests of the instance of each of a run's attempts, or -1."""
    if not len(digests):
        return np.full(len(run.attempts), -1, np.intp)
    order = np.argsort(digests, kind="stable")
    own = run.attempts.instances.digest
    at = np.minimum(np.searchsorted(digests, own, sorter=order), len(digests) - 1)
    place = np.where(digests[order[at]] == own, order[at], -1)
    of_attempts: NDArray[np.intp] = place[run.attempts.instance]
    return of_attempts
