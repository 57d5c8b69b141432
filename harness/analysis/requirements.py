"""Describes a data set's criteria, and the decoding constraints that providers rejected."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from math import log
from pathlib import Path
from typing import Any

from msgspec import Struct

from harness.extras import import_extra
from harness.records import CONSTRAINT_REFUSED, WITHOUT_REPLY, Criterion, Outcome
from harness.scoring.validators.schemas import features
from harness.store.index import AttemptIndex

CATEGORY = "category"
NONE = "(none)"  # The group of a criterion without the label
SUBJECT = ("you", "must")  # prepended for tagging, because an instruction begins with a verb
MODAL = "VM0"  # The tag of must, should, …; not counted as verbs, as in the Penn Treebank


class Together(Struct, frozen=True):
    """Two groups of criteria: the number of tasks with both, and the groups' `pmi`."""

    first: str
    second: str
    n: int
    pmi: float | None


class CriteriaDescription(Struct, frozen=True, kw_only=True):
    """Statistics of a data set's criteria, as in Lior et al. 2025 (arXiv 2503.06573), section 3."""

    label: str
    n_tasks: int
    n_criteria: int
    n_distinct: int  # distinct texts
    mean: float | None  # criteria per task
    tasks_by_count: dict[int, int]  # by number of criteria
    groups: dict[str, int]  # criteria by group of the label (figure 2a)
    tasks_by_group: dict[str, int]
    groups_by_count: dict[int, dict[str, int]]  # by a task's number of criteria (figure 11)
    repeated: dict[int, int]  # how many texts occur once, twice, …
    verbs: dict[str, int]  # criteria that contain each verb (figure 4b); empty if not counted
    openings: dict[str, int]  # criteria that begin with each verb; empty if not counted
    together: list[Together]  # every two groups (figure 3)
    labels: dict[str, dict[str, int]]  # number of tasks by their labels and groups


def describe(
    tasks: Iterable[tuple[Mapping[str, str], Sequence[Criterion]]],
    label: str = CATEGORY,
    verbs: Callable[[str], list[str]] | None = None,
) -> CriteriaDescription:
    """Return statistics on the criteria of tasks, grouped by ``label``.

    Each task is a pair: its group for each label, and its criteria. ``verbs``, if given, finds the
    verbs in a criterion's text, which are then counted.
    """
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
    openings, anywhere = Counter[str](), Counter[str]()
    for text, n in texts.items():
        found = verbs(text) if verbs else []
        openings.update(dict.fromkeys(filter(None, found[:1]), n))
        anywhere.update(dict.fromkeys(filter(None, found), n))
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
        repeated=dict(sorted(Counter(texts.values()).items())),
        verbs=_falling(anywhere),
        openings=_falling(openings),
        together=[
            Together(one, other, n, pmi(n, by_group[one], by_group[other], n_tasks))
            for one, other in combinations(sorted(by_group), 2)
            for n in [pairs[one, other]]
        ],
        labels={name: _falling(found) for name, found in labels.items()},
    )


def verbs(text: str) -> list[str]:
    """Return an entry for each word of a text: the base form of a verb, or "" for any other word.

    Modals, and placeholders (words with an underscore), do not count as verbs. The tagger is
    HanTa's for English (Wartena 2019, "A Probabilistic Morphology Model for German Lemmatization").
    docs/wildifeval.md compares it with NLTK's.
    """
    from harness.scoring import punkt  # imports NLTK

    found: list[str] = []
    for sentence in punkt.own().tokenize(text.replace("\u2019", "'")):
        first, *others = punkt.word_tokens(sentence)
        words = [*SUBJECT, first if "_" in first else first.lower(), *others]
        for word, base, tag in _tagger()(words)[len(SUBJECT) :]:
            is_verb = tag.startswith("V") and tag != MODAL and "_" not in word
            found.append(base.lower() if is_verb else "")
    return found


@cache
def _tagger() -> Callable[[list[str]], list[tuple[str, str, str]]]:
    hanta = import_extra("HanTa.HanoverTagger", "build")
    model = Path(hanta.__file__).with_name("morphmodel_en.pgz")  # not one in the current folder
    return hanta.HanoverTagger(str(model)).tag_sent  # type: ignore[no-any-return]


def pmi(both: int, first: int, second: int, n: int) -> float | None:
    """Return the pointwise mutual information of two groups, in nats (None for -∞).

    It is log(p(a, b) / (p(a) p(b))), as in Church and Hanks 1990, "Word Association Norms, Mutual
    Information, and Lexicography". The arguments are numbers of tasks: with both groups, with the
    first, with the second, and in total.
    """
    return log(both * n / (first * second)) if both else None


def _falling(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda found: (-found[1], found[0])))


REJECTED = "RequestRejected: "  # prefix of errors for requests that the provider rejected

MAX_MESSAGE_LENGTH = 300


class Feature(Struct, frozen=True):
    """A feature, such as a schema keyword, that ``n`` decoding constraints have."""

    name: str
    n: int
    n_rejected: int


class Rejections(Struct, frozen=True):
    """Counts of constraints and of rejections by feature, the highest rejection rate first."""

    n: int  # constraints, apart from `n_failed`
    n_rejected: int
    n_failed: int  # failed for other reasons; excluded from all other counts
    features: list[Feature]
    messages: dict[str, int]


class _Decoding(Struct, frozen=True, gc=False):
    constraint: dict[str, Any] = {}


class _Request(Struct, gc=False):
    decoding: _Decoding = _Decoding()


class _Asked(Struct, gc=False):
    outcome: Outcome
    groups: dict[str, str]
    request: _Request
    error: str | None = None
    finish_reason: str | None = None
    text: str | None = None

    @property
    def problem(self) -> str | None:
        if self.finish_reason == CONSTRAINT_REFUSED:
            return f"{REJECTED}{self.text}"
        return self.error if self.outcome in WITHOUT_REPLY else None


def read_asked(
    index: AttemptIndex, groups: Mapping[str, str] | None = None
) -> Iterator[tuple[str, Any, str | None]]:
    """Yield (kind, value, error or None) for each instance that has a decoding constraint.

    The value and the error are those of the first sample's first round. If ``groups`` is given,
    only instances in all of these groups are read.
    """
    rows = index.in_order()
    first = (index.attempts.sample[rows] == 0) & (index.attempts.round[rows] == 1)
    for line in index.read(_Asked, rows[first]):
        if not (groups or {}).items() <= line.groups.items():
            continue
        for kind, value in line.request.decoding.constraint.items():
            yield kind, value, line.problem


def rejections(asked: Iterable[tuple[str, Any, str | None]]) -> Rejections:
    """Count the constraints from `read_asked`, and the rejected ones, in total and by feature."""
    having, rejected, messages = Counter[str](), Counter[str](), Counter[str]()
    n = n_failed = 0
    for kind, value, error in asked:
        if error is not None and not error.startswith(REJECTED):
            n_failed += 1
            continue
        n += 1
        found = features(value) if kind == "json_schema" else (kind,)
        having.update(found)
        if error is not None:
            rejected.update(found)
            messages[error.removeprefix(REJECTED)[:MAX_MESSAGE_LENGTH]] += 1
    listed = [Feature(name, count, rejected[name]) for name, count in having.items()]
    return Rejections(
        n=n,
        n_rejected=messages.total(),
        n_failed=n_failed,
        features=sorted(listed, key=lambda one: (-one.n_rejected / one.n, -one.n, one.name)),
        messages=dict(messages.most_common()),
    )
