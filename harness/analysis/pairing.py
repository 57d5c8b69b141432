"""Two runs side by side: the instances that both have, with a value of each.

Owns what is a pair. The unit is the instance: the mean of its samples in each
run, so that k samples are one pair and not k². What only one run has, and what
was not judged, is counted and left out, never taken for a failure.

>>> pairs = pair(zero_shot, few_shot)  # doctest: +SKIP
>>> len(pairs), pairs.only_first  # doctest: +SKIP
(2080, 0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.analysis.paired import ROUNDING
from harness.analysis.question import PASS_RATE
from harness.store.columns import AttemptTable, Bools, Ints, rows_by

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Instances that both runs have a value of, sorted by digest.

    digest: (n,) names of the instances (`harness.store.columns.name_digest`).
    first, second: (n,) mean value of the instance's samples in each run.
    samples: (n, 2) how many samples these are means of.
    cluster: (n,) statistical unit.
    grouping: (n,) which of ``groupings`` the instance has.
    verdicts: whether values are shares of passed samples.
    only_first, only_second: instances that just one run has.
    not_judged: instances that both have, and one of them no value of. These three are None
        of a part of the pairs.
    """

    digest: NDArray[np.int64]
    first: Floats
    second: Floats
    samples: Ints
    cluster: Ints
    grouping: Ints
    groupings: tuple[Mapping[str, str], ...]
    verdicts: bool
    only_first: int | None
    only_second: int | None
    not_judged: int | None

    def __len__(self) -> int:
        return len(self.digest)

    @property
    def binary(self) -> bool:
        """Whether every value is one sample's verdict."""
        return self.verdicts and bool((self.samples == 1).all())

    @property
    def rounding(self) -> float:
        """What is no more than this is what rounding leaves of nothing."""
        largest = max(float(np.abs(v).max(initial=0.0)) for v in (self.first, self.second))
        return ROUNDING * max(1.0, largest)

    @property
    def difference(self) -> Floats:
        """(n,) second minus first; 0 where only the order of a sum differs."""
        difference = self.second - self.first
        return np.where(np.abs(difference) > self.rounding, difference, 0.0)

    def take(self, rows: Bools | Ints) -> Pairs:
        """The pairs of a mask or of row numbers."""
        return replace(
            self,
            digest=self.digest[rows],
            first=self.first[rows],
            second=self.second[rows],
            samples=self.samples[rows],
            cluster=self.cluster[rows],
            grouping=self.grouping[rows],
            only_first=None,
            only_second=None,
            not_judged=None,
        )

    def group(self, label: str) -> Mapping[str, Ints]:
        """Group of a label to the rows of its pairs, sorted; those without it are in none."""
        names = sorted({groups[label] for groups in self.groupings if label in groups})
        number = {name: place for place, name in enumerate(names)}
        of_grouping = np.array(
            [number[groups[label]] if label in groups else -1 for groups in self.groupings],
            dtype=np.intp,
        )
        code = of_grouping[self.grouping]
        return {names[place]: rows for place, rows in rows_by(code, len(names))}

    def clustered_by(self, label: str) -> Pairs:
        """With a coarser statistical unit: the group of a label.

        Groups that share a unit are one: a label may be no coarser than the prompt.
        """
        names = {name: number for number, name in enumerate(self.group(label))}
        codes = np.array([names.get(g.get(label, ""), -1) for g in self.groupings], dtype=np.int32)
        cluster = codes[self.grouping]
        # What has no such label stays in the unit that it has.
        alone = cluster < 0
        cluster[alone] = len(names) + self.cluster[alone]
        return replace(self, cluster=_joint(self.cluster, cluster))


def pair(
    first: AttemptTable, second: AttemptTable, *, score: str = PASS_RATE, round_: int | None = None
) -> Pairs:
    """Pair two runs by instance.

    score: its name; `PASS_RATE` for the verdict.
    round_: each sample's last round up to this one counts, so that one which stopped on
        its pass stays passed; None for its last one.
    """
    ours, theirs = (_by_instance(table, score, round_) for table in (first, second))
    both, at_first, at_second = np.intersect1d(
        first.instances.digest, second.instances.digest, assume_unique=True, return_indices=True
    )
    there = [np.zeros(len(table.instances.digest), np.bool_) for table in (first, second)]
    for mask, table in zip(there, (first, second), strict=True):
        mask[table.instance] = True
    common = there[0][at_first] & there[1][at_second]
    n_first, n_second = ours.samples[at_first], theirs.samples[at_second]
    judged = common & (n_first > 0) & (n_second > 0)
    rows_first, rows_second = at_first[judged], at_second[judged]
    samples = np.stack([n_first[judged], n_second[judged]], axis=1).astype(np.int32)
    return Pairs(
        digest=both[judged],
        first=ours.total[rows_first] / samples[:, 0],
        second=theirs.total[rows_second] / samples[:, 1],
        samples=samples,
        cluster=_joint(first.instances.cluster[rows_first], second.instances.cluster[rows_second]),
        grouping=first.instances.grouping[rows_first],
        groupings=first.instances.groupings,
        verdicts=score == PASS_RATE,
        only_first=int(there[0].sum() - common.sum()),
        only_second=int(there[1].sum() - common.sum()),
        not_judged=int(common.sum() - judged.sum()),
    )


@dataclass(frozen=True, slots=True)
class _Sums:
    """(m,) sum and number of the values of each instance."""

    total: Floats
    samples: NDArray[np.int64]


def _by_instance(table: AttemptTable, score: str, round_: int | None) -> _Sums:
    reached = table if round_ is None else table.take(table.round <= round_)
    chosen = reached.last_rounds()
    if score == PASS_RATE:
        chosen = chosen.take(chosen.judged)
        values: NDArray[Any] = chosen.passed
    elif score in chosen.scores:
        chosen = chosen.take(chosen.measured(score))
        values = chosen.scores[score]
    else:
        chosen = chosen.take(np.zeros(len(chosen), np.bool_))
        values = np.zeros(0)
    m = len(table.instances.digest)
    return _Sums(
        np.bincount(chosen.instance, weights=values, minlength=m).astype(np.float64),
        np.bincount(chosen.instance, minlength=m),
    )


def _joint(first: Ints, second: Ints) -> Ints:
    """Units that hold together what is one unit in either."""
    if len(first) == 0:
        return first
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = int(first.max()) + 1
    shape = (n + int(second.max()) + 1,) * 2
    graph = coo_array((np.ones(len(first), np.int8), (first, n + second)), shape=shape)
    _, component = connected_components(graph, directed=False)
    joint: Ints = component[first].astype(np.int32)
    return joint
