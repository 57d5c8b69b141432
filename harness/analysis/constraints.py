"""Base constraints: which fail, which a provider rejects, and what a data set asks for.

>>> kinds(read_findings(path, places))[0].kind  # doctest: +SKIP
'with exactly N characters'
>>> features({"type": "array", "contains": {"format": "date"}})
('root: array', 'contains', 'format', 'format: date', 'type')
>>> describe([("a", {}, [Criterion("Use a list.", {"category": "Format"})])]).openings
{'use': 1}
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import log
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from harness.analysis.clustered import clustered_mean
from harness.analysis.comparison import Comparison, Pairs, adjusted, compare, pair
from harness.records import Criterion, Outcome
from harness.store.constraints import LABEL, ConstraintFindings, Misses
from harness.store.index import AttemptIndex

MAX_REASONS = 100
"""For each kind, the most frequent reasons and misses that are kept."""


class ConstraintKind(Struct, frozen=True, kw_only=True):
    """How often the constraints of one kind are met, over samples' last rounds.

    Attributes:
        kind: The constraint with its values left out ("with exactly N words"), or a group of
            another label. n, n_clusters: Constraints that were checked, and the statistical units
            they come from.
        n_failed: Constraints that were not met.
        rate: Share that is met, each constraint with the same weight.
        stderr, ci95: Clustered, as in `harness.analysis.metrics.Rate`.
        off_by: For failed constraints that require one number and observed another: observed minus
            required, with the number of cases.
        reasons: Why constraints failed ("98 of 100 words"), with the number of cases, the most
            frequent first. Like ``off_by``, empty for the groups of another label.
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


def kinds(findings: ConstraintFindings, label: str = LABEL) -> list[ConstraintKind]:
    """Return the kinds of constraints, those that fail most often first.

    Args:
        findings: A run's checked constraints.
        label: Group them by another label, of the instances or of the constraints.
            Constraints without it are left out.
    """
    found = []
    for group, rows in findings.table.by(label):
        judged = rows.take(rows.judged)
        estimate = clustered_mean(judged.passed, judged.cluster)
        if estimate.mean is None:
            continue
        misses = findings.misses[group] if label == LABEL else Misses()
        found.append(
            ConstraintKind(
                kind=group,
                n=estimate.n,
                n_clusters=estimate.n_clusters,
                n_failed=estimate.n - int(judged.passed.sum()),
                rate=estimate.mean,
                stderr=estimate.stderr,
                ci95=estimate.rate_ci95,
                off_by=dict(sorted(misses.off_by.most_common(MAX_REASONS))),
                reasons=dict(misses.reasons.most_common(MAX_REASONS)),
            )
        )
    return sorted(found, key=lambda one: (-one.n_failed, one.kind))


class KindChange(Struct, frozen=True, kw_only=True):
    """How the second of two runs differs on the constraints of one kind.

    Attributes:
        comparison: Each pair is a constraint of an instance; its value is the share of samples that
            meet it. fixed, broken: Instances with a constraint that is met more often, and less
            often, if names were given.
    """

    comparison: Comparison
    fixed: list[str] = []
    broken: list[str] = []


def compare_kinds(
    first: ConstraintFindings,
    second: ConstraintFindings,
    names: Iterable[str] = (),
    cluster: str = "",
) -> dict[str, KindChange]:
    """Compare two runs on each kind of constraint; kinds with the most changes come first.

    The p values are a search over kinds, adjusted by Benjamini and Hochberg.

    Args:
        first: The baseline's checked constraints.
        second: The other run's.
        names: Instances to name in `KindChange.fixed` and ``broken``.
        cluster: Label of the statistical unit; empty for the prompt.
    """
    pairs = pair(first.table, second.table)
    if cluster:
        pairs = pairs.clustered_by(cluster)
    instances = second.instances(names)

    def named(some: Pairs, rows: NDArray[np.bool_]) -> list[str]:
        found = (instances.get(int(digest)) for digest in some.digest[rows])
        return sorted({name for name in found if name is not None})

    parts = {kind: pairs.take(rows) for kind, rows in pairs.group(LABEL).items()}
    compared = adjusted([compare(part) for part in parts.values()], planned=False)
    changes = {
        kind: KindChange(
            comparison=comparison,
            fixed=named(part, part.difference > 0),
            broken=named(part, part.difference < 0),
        )
        for (kind, part), comparison in zip(parts.items(), compared, strict=True)
    }
    moved = {kind: one.comparison.better + one.comparison.worse for kind, one in changes.items()}
    return {kind: changes[kind] for kind in sorted(changes, key=lambda kind: (-moved[kind], kind))}


REJECTED = "RequestRejected: "
"""How the error of an attempt begins if the provider rejected its request."""

NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords of JSON Schema whose members are the user's names."""
MAX_DEPTH = 100
MAX_MESSAGES = 1_000
MAX_MESSAGE_LENGTH = 300


class Feature(Struct, frozen=True):
    """A keyword (or root type, format, or kind of constraint) of the requested constraints.

    Attributes:
        n, n_rejected: Instances whose constraint has the feature, and how many of them were
        rejected.
    """

    name: str
    n: int
    n_rejected: int


class Rejections(Struct, frozen=True):
    """What a provider rejected in a run.

    Providers support different parts of JSON Schema for constrained decoding, and reject the
    rest with an error that names one keyword at a time. This counts over all schemas of a run.

    Attributes:
        n, n_rejected: Instances with a constraint, and how many of them were rejected.
        n_failed: Instances without an answer for other reasons, excluded from all counts.
        features: Features, the most often rejected first.
        messages: The provider's messages, the most frequent first.
    """

    n: int
    n_rejected: int
    n_failed: int
    features: list[Feature]
    messages: dict[str, int]


class AskedConstraint(Struct, frozen=True):
    """The constraint on decoding of one instance's first attempt.

    Attributes:
        instance: The instance's name.
        kind: json_schema, regex and so on.
        value: The schema, the expression and so on.
        error: Why there is no answer; None if there is one.
    """

    instance: str
    kind: str
    value: Any
    error: str | None


class _Decoding(Struct, gc=False):
    constraint: dict[str, Any] = {}


class _Request(Struct, gc=False):
    decoding: _Decoding = field(default_factory=_Decoding)


class _Line(Struct, gc=False):
    instance: str
    outcome: Outcome
    request: _Request
    error: str | None = None


def read_asked(index: AttemptIndex) -> Iterator[AskedConstraint]:
    """Yield the constraints of a run's first samples; nothing if decoding was not constrained.

    Raises:
        DataInvalid: A line is damaged.
        StoreFailed: The file cannot be read.
    """
    rows = index.in_order()
    first = (index.attempts.sample[rows] == 0) & (index.attempts.round[rows] == 1)
    for line in index.read(_Line, rows[first]):
        for kind, value in line.request.decoding.constraint.items():
            failed = line.error if line.outcome == "error" else None
            yield AskedConstraint(line.instance, kind, value, failed)


def rejections(asked: Iterable[AskedConstraint]) -> Rejections:
    """Count requested and rejected constraints, by feature."""
    having, rejected = Counter[str](), Counter[str]()
    messages = Counter[str]()
    n = n_failed = 0
    for one in asked:
        refused = one.error is not None and one.error.startswith(REJECTED)
        if one.error is not None and not refused:
            n_failed += 1
            continue
        n += 1
        found = features(one.value) if one.kind == "json_schema" else (one.kind,)
        having.update(found)
        if refused:
            rejected.update(found)
            message = str(one.error).removeprefix(REJECTED)[:MAX_MESSAGE_LENGTH]
            if message in messages or len(messages) < MAX_MESSAGES:
                messages[message] += 1
    listed = [Feature(name, count, rejected[name]) for name, count in having.items()]
    return Rejections(
        n=n,
        n_rejected=messages.total(),
        n_failed=n_failed,
        features=sorted(listed, key=lambda one: (-one.n_rejected / one.n, -one.n, one.name)),
        messages=dict(messages.most_common()),
    )


def features(schema: Any) -> tuple[str, ...]:
    """A schema's features: its root type, each keyword anywhere in it, each format; once each."""
    root = schema.get("type", "any") if isinstance(schema, Mapping) else schema
    return (f"root: {root}", *sorted(set(_keywords(schema, 0))))


def _keywords(schema: Any, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        return
    if isinstance(schema, list):
        for one in schema:
            yield from _keywords(one, depth + 1)
    if not isinstance(schema, Mapping):
        return
    for keyword, value in schema.items():
        yield str(keyword)
        if keyword == "format":
            yield f"format: {value}"
        elif keyword in NAMED and isinstance(value, Mapping):
            yield from _keywords(list(value.values()), depth + 1)
        elif keyword not in ("const", "enum", "default", "examples"):
            yield from _keywords(value, depth + 1)


CATEGORY = "category"
NONE = "(none)"
"""The group of a criterion without the label."""

_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")


class Together(Struct, frozen=True, kw_only=True):
    """Two groups of criteria that tasks ask for.

    Attributes:
        n: Tasks that ask for both.
        pmi: Pointwise mutual information; null where no task asks for both (it is -∞).
    """

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
    rising order.

    Attributes:
        label: Label of the criteria's groups.
        n_distinct: Criteria with different texts.
        mean: Mean number of criteria per task.
        tasks_by_count: Tasks by their number of criteria.
        groups: Criteria by group.
        tasks_by_group: Tasks with at least one criterion of the group.
        groups_by_count: Criteria by group, by the number of criteria of their task.
        openings: Criteria by their first word in lower case.
        together: Each pair of groups.
        labels: Tasks by the instances' labels and groups.
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
    """Count the criteria of tasks.

    Args:
        tasks: Each task's name, its labels with their groups, and its criteria.
        label: Label of the criteria's groups.
    """
    by_count, groups, by_group = Counter[int](), Counter[str](), Counter[str]()
    openings, texts = Counter[str](), set[str]()
    by_count_and_group: dict[int, Counter[str]] = {}
    pairs: Counter[tuple[str, str]] = Counter()
    labels: dict[str, Counter[str]] = {}
    for _, own, criteria in tasks:
        n = len(criteria)
        by_count[n] += 1
        for name, group in own.items():
            labels.setdefault(name, Counter())[group] += 1
        found = [criterion.groups.get(label, NONE) for criterion in criteria]
        groups.update(found)
        by_count_and_group.setdefault(n, Counter()).update(found)
        present = sorted(set(found))
        by_group.update(present)
        pairs.update(combinations(present, 2))
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
    """Return the first word in lower case; empty if there is none.

    >>> opening("“Don't mention it.”")
    "don't"
    """
    found = _WORD.search(text)
    return found[0].lower() if found else ""


def pmi(both: int, first: int, second: int, n: int) -> float | None:
    """Pointwise mutual information of two groups, natural logarithm; None for -∞.

    Church and Hanks 1990, "Word Association Norms, Mutual Information, and Lexicography":
    log p(a, b) / (p(a) p(b)), where p is the share of the n tasks that ask for a group. Above 0,
    the groups are asked for together more often than if they were independent.

    Args:
        both: Tasks that ask for both groups.
        first: Tasks that ask for the first group.
        second: Tasks that ask for the second group.
        n: All tasks.

    >>> pmi(both=2, first=2, second=2, n=4) == log(2)
    True
    """
    return log(both * n / (first * second)) if both else None


def _falling(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda found: (-found[1], found[0])))
