"""A run's attempts and calls as columns: a million of them are small.

Texts, requests, feedback and the reasons of scores are not here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from harness.records import Usage

Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
Values = NDArray[np.float64] | NDArray[np.int8]
"""Of a score: numbers, not a number where there is none; or 1, 0 and `NOT_JUDGED`."""

NOT_JUDGED = -1
"""In `AttemptTable.passed`: no verdict, which is not a failed one."""


@lru_cache(maxsize=4096)  # names come again and again, and more would cost a run its memory
def name_digest(name: str) -> int:
    """64 bits that stand in columns for the name of an instance or a cluster.

    They are the same in every process. Among a million names, the odds that any two
    have the same are 1 in 10^7.
    """
    digest = blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


@dataclass(frozen=True, slots=True)
class InstanceTable:
    """What is the same for all attempts of an instance: taken from its first attempt.

    digest: (m,) `name_digest` of the names, ascending.
    cluster: (m,) number of the statistical unit.
    grouping: (m,) which of ``groupings`` the instance has.
    groupings: the distinct mappings of label to group.
    """

    digest: NDArray[np.int64]
    cluster: Ints
    grouping: Ints
    groupings: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class AttemptTable:
    """Attempts as columns of length n, sorted by (instance, sample, round), each key once.

    instance: (n,) row of the instance in ``instances``.
    sample: (n,) from 0.
    round: (n,) from 1.
    outcome: (n,) index into `harness.records.OUTCOMES`.
    passed: (n,) 1, 0 or `NOT_JUDGED`.
    scores: (n,) values of each score by its name.
    instances: shared by every selection of rows.
    """

    instance: Ints
    sample: Ints
    round: Ints
    outcome: NDArray[np.int8]
    passed: NDArray[np.int8]
    scores: Mapping[str, Values]
    instances: InstanceTable

    def __len__(self) -> int:
        return len(self.instance)

    @property
    def cluster(self) -> Ints:
        """(n,) statistical unit of each attempt."""
        return self.instances.cluster[self.instance]

    @property
    def judged(self) -> Bools:
        """(n,) which attempts have a verdict."""
        judged: Bools = self.passed != NOT_JUDGED
        return judged

    def measured(self, name: str) -> Bools:
        """(n,) which attempts have a value of a score."""
        values = self.scores[name]
        measured: Bools = values != NOT_JUDGED if values.dtype == np.int8 else ~np.isnan(values)
        return measured

    def take(self, rows: Bools | Ints) -> AttemptTable:
        """The attempts of a mask or of ascending row numbers."""
        if rows.dtype == np.bool_ and rows.all():
            return self
        return replace(
            self,
            instance=self.instance[rows],
            sample=self.sample[rows],
            round=self.round[rows],
            outcome=self.outcome[rows],
            passed=self.passed[rows],
            scores={name: values[rows] for name, values in self.scores.items()},
        )

    def sample_starts(self) -> Bools:
        """(n,) true at the first row of each sample."""
        starts = np.ones(len(self), dtype=np.bool_)
        starts[1:] = (np.diff(self.instance) != 0) | (np.diff(self.sample) != 0)
        return starts

    def last_rounds(self) -> AttemptTable:
        """One row for each sample: its last round in the file."""
        return self.take(np.append(self.sample_starts()[1:], True)[: len(self)])

    def labels(self) -> list[str]:
        """What the attempts can be grouped by, in the order of the instances' own labels."""
        return list(dict.fromkeys(label for groups in self.instances.groupings for label in groups))

    def by(self, label: str) -> Iterator[tuple[str, AttemptTable]]:
        """The attempts of each group of a label, sorted by group; those without it are left out."""
        groupings = self.instances.groupings
        names = sorted({groups[label] for groups in groupings if label in groups})
        code = {name: number for number, name in enumerate(names)}
        of_grouping = np.array(
            [code[groups[label]] if label in groups else -1 for groups in groupings], dtype=np.intp
        )
        codes = of_grouping[self.instances.grouping[self.instance]]
        for number, rows in rows_by(codes, len(names)):
            yield names[number], self.take(rows)


def rows_by(codes: NDArray[np.integer], n: int) -> Iterator[tuple[int, Ints]]:
    """The rows of each number below n that any row has, ascending.

    codes: (m,) number of each row's group, from 0; -1 for a row that is in none.

    >>> [(number, rows.tolist()) for number, rows in rows_by(np.array([2, -1, 0, 2]), 3)]
    [(0, [2]), (2, [0, 3])]
    """
    # One stable sort instead of a mask per group: labels may have thousands of groups.
    order = np.argsort(codes, kind="stable").astype(np.int32)
    ends = np.searchsorted(codes[order], np.arange(n + 1))
    for number in range(n):
        rows = order[ends[number] : ends[number + 1]]
        if len(rows):
            yield number, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTotals:
    """The calls of a run, each counted once however many attempts share it.

    Calls of superseded lines are counted too: they were paid for.

    n: how many there are.
    usage: tokens of the calls that were counted; None where there are calls and
        none was counted.
    n_without_usage: calls whose tokens are not known.
    known_cost_usd: of the calls whose cost is known.
    paid_usd: the part of it that this run has paid; the rest was there already.
    n_without_cost: calls whose cost is not known.
    model: those of the run's own model (and of the one that polishes); None of a run without
        judges, whose calls all are.
    judges: those of each judge by its name. A call that two of them share is with both.
    """

    n: int
    usage: Usage | None
    n_without_usage: int
    known_cost_usd: float
    paid_usd: float
    n_without_cost: int
    model: CallTotals | None = None
    judges: Mapping[str, CallTotals] = field(default_factory=dict)


NO_CALLS = CallTotals(
    n=0, usage=None, n_without_usage=0, known_cost_usd=0.0, paid_usd=0.0, n_without_cost=0
)
"""Of a run that made none, or of which they are not asked."""
