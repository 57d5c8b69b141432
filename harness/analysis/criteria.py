"""What the criteria of a data set ask for.

>>> describe([({}, [Criterion("Use a list.", {"category": "Format"})])]).openings
{'use': 1}
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import log

from msgspec import Struct

from harness.records import Criterion

CATEGORY = "category"
NONE = "(none)"
"""The group of a criterion without the label."""

_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")


class Together(Struct, frozen=True, kw_only=True):
    """Two groups of criteria: the tasks that ask for both, and their PMI, null for -∞."""

    first: str
    second: str
    n: int
    pmi: float | None


class CriteriaDescription(Struct, frozen=True, kw_only=True):
    """What the criteria of a data set ask for.

    The statistics of section 3 of Lior et al. 2025, "WildIFEval" (arXiv 2503.06573): the
    distribution of categories, overall and by the number of constraints (figures 2a and 11),
    opening words (figure 4b; there only verbs by NLTK's tagger, here all words), and which
    categories are asked for together (figure 3). Counts are in falling order, those by number in
    rising order; ``n_distinct`` is of texts, ``mean`` of criteria per task.
    """

    label: str
    n_tasks: int
    n_criteria: int
    n_distinct: int
    mean: float | None
    tasks_by_count: dict[int, int]
    groups: dict[str, int]
    tasks_by_group: dict[str, int]
    groups_by_count: dict[int, dict[str, int]]
    openings: dict[str, int]
    together: list[Together]
    labels: dict[str, dict[str, int]]


def describe(
    tasks: Iterable[tuple[Mapping[str, str], Sequence[Criterion]]], label: str = CATEGORY
) -> CriteriaDescription:
    """Count the criteria of tasks, given each task's labels with their groups and its criteria."""
    by_count, by_group, texts = Counter[int](), Counter[str](), Counter[str]()
    groups_by_count = defaultdict[int, Counter[str]](Counter)
    labels = defaultdict[str, Counter[str]](Counter)
    pairs = Counter[tuple[str, str]]()
    for own, criteria in tasks:
        for name, group in own.items():
            labels[name][group] += 1
        found = [criterion.groups.get(label, NONE) for criterion in criteria]
        by_count[len(criteria)] += 1
        groups_by_count[len(criteria)].update(found)
        by_group.update(set(found))
        pairs.update(combinations(sorted(set(found)), 2))
        texts.update(criterion.text for criterion in criteria)
    groups = sum(groups_by_count.values(), Counter[str]())
    openings = Counter[str]()
    for text, n in texts.items():
        openings[opening(text)] += n
    n_tasks, n_criteria = by_count.total(), groups.total()
    return CriteriaDescription(
        label=label,
        n_tasks=n_tasks,
        n_criteria=n_criteria,
        n_distinct=len(texts),
        mean=n_criteria / n_tasks if n_tasks else None,
        tasks_by_count=dict(sorted(by_count.items())),
        groups=_falling(groups),
        tasks_by_group=_falling(by_group),
        groups_by_count={n: _falling(found) for n, found in sorted(groups_by_count.items())},
        openings=_falling(openings),
        together=[
            Together(
                first=one,
                second=other,
                n=pairs[one, other],
                pmi=pmi(pairs[one, other], by_group[one], by_group[other], n_tasks),
            )
            for one, other in combinations(sorted(by_group), 2)
        ],
        labels={name: _falling(found) for name, found in labels.items()},
    )


def opening(text: str) -> str:
    """Return the first word in lower case; empty if there is none."""
    found = _WORD.search(text)
    return found[0].lower() if found else ""


def pmi(both: int, first: int, second: int, n: int) -> float | None:
    """Pointwise mutual information of two groups, natural logarithm; None for -∞.

    Church and Hanks 1990, "Word Association Norms, Mutual Information, and Lexicography":
    log p(a, b) / (p(a) p(b)), where p is the share of the n tasks that ask for a group. Above 0,
    the groups are asked for together more often than if they were independent.

    >>> pmi(both=2, first=2, second=2, n=4) == log(2)
    True
    """
    return log(both * n / (first * second)) if both else None


def _falling(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda found: (-found[1], found[0])))
