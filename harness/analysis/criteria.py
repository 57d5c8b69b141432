"""What a data set asks of answers: how many criteria, of which kinds, beginning with which words.

Owns the figures of section 3 of Lior et al. 2025, "WildIFEval" (arXiv 2503.06573): the
distribution of categories, overall and by the number of constraints (figures 2a and 11), opening
words (figure 4b; there of those that are verbs by NLTK's tagger, here of all), and which categories
are asked for together (figure 3).

>>> describe([("a", {}, [Criterion("Use a list.", {"category": "Format"})])]).openings
{'use': 1}
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import log

from msgspec import Struct

from harness.records import Criterion

CATEGORY = "category"
NONE = "(none)"
"""Stands for the group of a criterion without the label."""

_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")


class Together(Struct, frozen=True, kw_only=True):
    """Two groups that tasks ask for.

    n: tasks that ask for both.
    pmi: pointwise mutual information; null where no task asks for both (it is -∞).
    """

    first: str
    second: str
    n: int
    pmi: float | None


class CriteriaDescription(Struct, frozen=True, kw_only=True):
    """What is asked for. Counts are in falling order, and those by number in rising order.

    label: of the criteria's own groups.
    n_distinct: criteria by their texts.
    mean: criteria of a task.
    tasks_by_count: number of criteria to tasks.
    groups: to criteria; tasks_by_group: to tasks that have at least one.
    groups_by_count: number of criteria of a task to group to criteria.
    openings: first word, lower-cased, to criteria.
    together: each two groups.
    labels: of the instances: label to group to tasks.
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
    tasks: Iterable[tuple[str, Mapping[str, str], Sequence[Criterion]]], label: str = CATEGORY
) -> CriteriaDescription:
    """Count.

    tasks: of each its name, its labels with their groups, and its criteria.
    label: of the criteria's groups.
    """
    by_count, groups, by_group, openings = (
        Counter[int](),
        Counter[str](),
        Counter[str](),
        Counter[str](),
    )
    by_count_and_group: dict[int, Counter[str]] = {}
    pairs: Counter[tuple[str, str]] = Counter()
    labels: dict[str, Counter[str]] = {}
    texts = set[str]()
    for _, own, criteria in tasks:
        n = len(criteria)
        by_count[n] += 1
        for name, group in own.items():
            labels.setdefault(name, Counter())[group] += 1
        found = [criterion.groups.get(label, NONE) for criterion in criteria]
        groups.update(found)
        by_count_and_group.setdefault(n, Counter()).update(found)
        there = sorted(set(found))
        by_group.update(there)
        pairs.update(combinations(there, 2))
        texts.update(criterion.text for criterion in criteria)
        openings.update(opening(criterion.text) for criterion in criteria)
    n_tasks = by_count.total()
    return CriteriaDescription(
        label=label,
        n_tasks=n_tasks,
        n_criteria=groups.total(),
        n_distinct=len(texts),
        mean=groups.total() / n_tasks if n_tasks else None,
        tasks_by_count=dict(sorted(by_count.items())),
        groups=_falling(groups),
        tasks_by_group=_falling(by_group),
        groups_by_count={n: _falling(found) for n, found in sorted(by_count_and_group.items())},
        openings=_falling(openings),
        together=[
            Together(
                first=first,
                second=second,
                n=pairs[first, second],
                pmi=pmi(pairs[first, second], by_group[first], by_group[second], n_tasks),
            )
            for first, second in combinations(sorted(by_group), 2)
        ],
        labels={name: _falling(found) for name, found in labels.items()},
    )


def opening(text: str) -> str:
    """The first word, lower-cased; empty where there is none.

    >>> opening("“Don't mention it.”")
    "don't"
    """
    found = _WORD.search(text)
    return found[0].lower() if found else ""


def pmi(both: int, first: int, second: int, n: int) -> float | None:
    """Pointwise mutual information of two things, natural logarithm; None for -∞.

    Church and Hanks 1990, "Word Association Norms, Mutual Information, and Lexicography":
    log p(a, b) / (p(a) p(b)), p the shares of the n tasks that ask for them. Above 0 they are
    asked for together more often than if neither knew of the other.

    both, first, second: tasks that ask for both, and for each.

    >>> pmi(both=2, first=2, second=2, n=4) == log(2)
    True
    """
    if not both:
        return None
    return log(both * n / (first * second))


def _falling(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda found: (-found[1], found[0])))
