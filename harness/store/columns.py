"""A run's attempts and calls as columns: a million of them are small.

Texts, requests, feedback and scores are not here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import fsum

import numpy as np
from numpy.typing import NDArray

from harness.records import Usage

Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

NOT_JUDGED = -1
"""In `AttemptTable.passed`: no verdict, which is not a failed one."""
UNKNOWN_TOKENS = -1
"""In `CallTable.tokens`: the provider did not count."""

TOKENS: tuple[str, ...] = Usage.__struct_fields__


@dataclass(frozen=True, slots=True)
class InstanceTable:
    """What is the same for all attempts of an instance: taken from its first line.

    ids: (m,) names, sorted.
    cluster: (m,) number of the statistical unit.
    grouping: (m,) which of ``groupings`` the instance has.
    groupings: the distinct mappings of label to group.
    """

    ids: tuple[str, ...]
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
    instances: shared by every selection of rows.
    """

    instance: Ints
    sample: Ints
    round: Ints
    outcome: NDArray[np.int8]
    passed: NDArray[np.int8]
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

    def take(self, rows: Bools | NDArray[np.intp]) -> AttemptTable:
        """The attempts of a mask or of ascending row numbers."""
        return replace(
            self,
            instance=self.instance[rows],
            sample=self.sample[rows],
            round=self.round[rows],
            outcome=self.outcome[rows],
            passed=self.passed[rows],
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
        # One stable sort instead of a mask per group: labels may have thousands of groups.
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(names) + 1))
        for number, name in enumerate(names):
            rows = order[ends[number] : ends[number + 1]]
            if len(rows):
                yield name, self.take(rows)


@dataclass(frozen=True, slots=True)
class CallTable:
    """The calls of a run, each once however many attempts share it.

    Calls of superseded lines are here too: they were paid for.

    tokens: (c, 4) in the order of `harness.records.Usage`, `UNKNOWN_TOKENS`
        where not counted.
    cost_usd: (c,) not a number where unknown.
    paid: (c,) by this run; the others had been paid for by another.
    """

    tokens: Ints
    cost_usd: NDArray[np.float64]
    paid: Bools

    def __len__(self) -> int:
        return len(self.cost_usd)

    def paid_usd(self) -> float:
        """What this run has paid, as far as the costs are known."""
        return fsum(self.cost_usd[self.paid & ~np.isnan(self.cost_usd)])
