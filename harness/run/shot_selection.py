"""Selects the shots of an instance as the run file says, excluding any that leak its answer.

A shot is never the instance itself, nor one with its prompt, nor one whose answer the task says
would be right here too, nor one whose answer does not pass its own check. Such a candidate is
skipped and the next is taken.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from harness.config.sections import ShotsSection
from harness.errors import ConfigError, nearest
from harness.ports import LeakAware, Task
from harness.records import Attempt, Instance, Reply, Score, messages_hash
from harness.run.assessment import assess
from harness.store.index import AttemptIndex

LabelValues = tuple[str | None, ...]
"""An instance's groups under the labels that it shares with its shots."""


class ShotCandidate(NamedTuple):
    """An instance that can be a shot because its answer is known; ``prompt`` is a hash."""

    instance: Instance[Any]
    answer: str
    prompt: str


class ShotPool:
    """The instances that shots come from, all of them in memory."""

    def __init__(self, task: Task[Any]) -> None:
        self.task = task
        self.candidates = [
            ShotCandidate(instance, answer, messages_hash(task.messages(instance, ())))
            for instance in task.instances()
            if (answer := task.reference(instance)) is not None
        ]
        self.numbers = {found.instance.id: number for number, found in enumerate(self.candidates)}
        self.passes = cache(self._passes)

    def _passes(self, number: int) -> bool:
        """Return whether a candidate's answer passes its own check, or has none."""
        found = self.candidates[number]
        return assess(self.task, found.instance, Reply(found.answer, "stop")).passed is not False


class ShotSelection:
    """Chooses shots, deterministically.

    Args:
        task: The task of the evaluated instances.
        section: ``task.shots`` of the run file.
        pool: The candidates.
        mistakes: Mistakes of an earlier run, for ``select: errors``.

    Attributes:
        lacking: Instances that have too few shots, known once `check` was called.
    """

    def __init__(
        self,
        task: Task[Any],
        section: ShotsSection,
        pool: ShotPool,
        mistakes: Mistakes | None = None,
    ) -> None:
        self.task = task
        self.section = section
        self.pool = pool
        self.lacking = 0
        self._mistakes = mistakes
        self._chosen: dict[str, tuple[int, ...]] = {}
        for name in section.ids:
            if name not in pool.numbers:
                raise ConfigError(
                    f"task.shots.ids: no instance {name!r} has a reference answer to show.",
                    nearest(name, pool.numbers),
                )
        known = {label for found in pool.candidates for label in found.instance.groups}
        if pool.candidates:
            self._check_labels(known)

    def of(self, instance: Instance[Any]) -> Sequence[Instance[Any]]:
        """Return the shots of an instance, fewer than requested if no more are suitable."""
        numbers = self._chosen.get(instance.id)
        if numbers is None:
            numbers = self._chosen[instance.id] = self._choose(instance)
        return [self.pool.candidates[number].instance for number in numbers]

    def check(self, instances: Iterable[Instance[Any]]) -> None:
        """Choose for all instances, before any call; too few shots are counted, or refused."""
        n = self.section.n
        lacking = [(one, len(found)) for one in instances if len(found := self.of(one)) < n]
        self.lacking = len(lacking)
        if lacking and not self.section.allow_fewer:
            first, count = lacking[0]
            raise ConfigError(
                f"task.shots: only {count} of {n} shots are suitable for the instance "
                f"{first.id!r} (instances with too few: {len(lacking):,}). The others would give "
                "its answer away, or have no answer that passes.",
                "Ask for fewer shots, select them from more instances, or set allow_fewer: true.",
            )

    def fingerprint(self) -> str:
        """Return a hash of everything that the choice depends on, except the run file."""
        digest, names = hashlib.sha256(), [found.instance.id for found in self.pool.candidates]
        for instance, answer, prompt in self.pool.candidates:
            parts: list[Any] = [instance.id, answer, prompt, self._shared_by(instance)]
            if self.section.across is not None:
                parts.append(self._across(instance))
            digest.update(msgspec.json.encode(parts))
        if self._mistakes is not None:
            for order in self._orders.values():
                digest.update(msgspec.json.encode([names[number] for number in order]))
        return digest.hexdigest()

    def _choose(self, instance: Instance[Any]) -> tuple[int, ...]:
        section, prompt = self.section, messages_hash(self.task.messages(instance, ()))
        self._check_labels(instance.groups, across=False)
        groups = self._groups.get(self._shared_by(instance), {})
        turns = [
            self._suitable(instance, prompt, self._drawn(instance, group, order))
            for group, order in islice(groups.items(), section.n)
        ]
        # No other group takes the turn of one that has no more: they would not be even.
        chosen = [shot for turn in islice(cycle(turns), section.n) for shot in islice(turn, 1)]
        if section.order == "reversed":
            chosen.reverse()
        elif section.order == "random":
            self._random(instance, "order").shuffle(chosen)
        return tuple(chosen)

    def _suitable(
        self, instance: Instance[Any], prompt: str, candidates: Iterable[int]
    ) -> Iterator[int]:
        """Yield the candidates that pass and do not leak the answer of the instance."""
        for number in candidates:
            found = self.pool.candidates[number]
            if found.instance.id == instance.id or found.prompt == prompt:
                continue
            if isinstance(self.task, LeakAware) and self.task.leaks(instance, found.instance):
                continue
            if self.pool.passes(number):
                yield number

    def _drawn(
        self, instance: Instance[Any], group: str | None, order: Sequence[int]
    ) -> Iterable[int]:
        """Return the candidates of a group of ``across``, the best first."""
        if self.section.select != "random":
            return order
        draw = "select" if group is None else f"select/{group}"
        return _shuffled(order, self._random(instance, draw))

    @cached_property
    def _groups(self) -> Mapping[LabelValues, Mapping[str | None, Sequence[int]]]:
        """`_orders` by the groups of ``across``, sorted; as a whole under None without it."""
        found: dict[LabelValues, dict[str | None, list[int]]] = {}
        for shared, order in self._orders.items():
            groups: dict[str | None, list[int]] = {}
            for number in order:
                group = self._across(self.pool.candidates[number].instance)
                if group is not None or self.section.across is None:
                    groups.setdefault(group, []).append(number)
            found[shared] = dict(sorted(groups.items(), key=lambda one: one[0] or ""))
        return found

    @cached_property
    def _orders(self) -> dict[LabelValues, list[int]]:
        """The candidates by the labels they share, in the order of the selection."""
        candidates, numbers = self.pool.candidates, self.pool.numbers
        orders: dict[LabelValues, list[int]] = {}
        for number in [numbers[name] for name in self.section.ids] or range(len(candidates)):
            orders.setdefault(self._shared_by(candidates[number].instance), []).append(number)
        if self._mistakes is not None:
            for shared, order in orders.items():
                names = self._mistakes.order([candidates[number].instance.id for number in order])
                orders[shared] = [numbers[name] for name in names]
        return orders

    def _across(self, instance: Instance[Any]) -> str | None:
        return None if self.section.across is None else instance.groups.get(self.section.across)

    def _shared_by(self, instance: Instance[Any]) -> LabelValues:
        return tuple(instance.groups.get(label) for label in self.section.within)

    def _random(self, instance: Instance[Any], what: str) -> random.Random:
        return random.Random(f"{self.section.seed}/{what}/{instance.id}")

    def _check_labels(self, known: Collection[str], *, across: bool = True) -> None:
        section = self.section
        wanted = [("within", label) for label in section.within]
        if across and section.across is not None:
            wanted.append(("across", section.across))
        for key, label in wanted:
            if label not in known:
                raise ConfigError(
                    f"task.shots.{key}: the instances have no label {label!r}.",
                    nearest(label, known) or "Remove it: they have no labels at all.",
                )


def _shuffled(order: Sequence[int], rng: random.Random) -> Iterator[int]:
    """Yield all in random order, drawn lazily: usually the first few are enough."""
    moved: dict[int, int] = {}
    for place in range(len(order)):
        drawn = rng.randrange(place, len(order))
        yield order[moved.get(drawn, drawn)]
        moved[drawn] = moved.get(place, place)


class Mistake(NamedTuple):
    """A kind of mistake: a failed score (or outcome), and its reason without the parts that vary.

    For a schema's score, the reason is a keyword that was violated (its ``details.keywords``).
    """

    score: str
    reason: str


_QUOTED = re.compile(
    r"""(?<!\w)'.*?(?:'(?!\w)|\Z)|".*?(?:"|\Z)|“.*?(?:”|\Z)""", re.DOTALL
)  # an apostrophe within a word neither opens nor closes; a cut reason leaves one open
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_LIST = re.compile(r"('…'|#)(?:, \1)+")


def masked(reason: str) -> str:
    """Mask a reason: quoted texts as '…' and numbers as #; a list of them counts as one.

    >>> masked("98 of 100 words; lacks 'snow', 'don\\'t'")
    "# of # words; lacks '…'"
    """
    return _LIST.sub(r"\1", _NUMBER.sub("#", _QUOTED.sub("'…'", reason)))


def mistakes_of(attempt: Attempt) -> list[Mistake]:
    """Return the mistakes in an attempt; none if it passed or was not judged."""
    if attempt.passed is not False:
        return []
    failed = [
        Mistake(name, what)
        for name, score in attempt.scores.items()
        if score.passed is False
        for what in _keywords(score) or [masked(score.reason)]
    ]
    return failed or [Mistake(attempt.outcome, masked(attempt.error or ""))]


def _keywords(score: Score) -> list[str]:
    """Return the schema keywords that were violated; none if the score does not list them."""
    counts = score.details.get("keywords")
    if not isinstance(counts, Mapping):
        return []
    return [word for word, count in counts.items() if isinstance(count, int) and count > 0]


class Mistakes:
    """The mistakes of a run's first answers, to choose shots that show how to avoid them."""

    def __init__(self, path: Path) -> None:
        self._of: dict[str, Counter[Mistake]] = {}
        for attempt in AttemptIndex(path, judges=False).read(Attempt):
            if attempt.round == 1 and (found := mistakes_of(attempt)):
                self._of.setdefault(attempt.instance, Counter()).update(found)

    def order(self, ids: Sequence[str]) -> list[str]:
        """Return the instances, those with the most frequent mistakes first.

        The kinds of mistake, most frequent first, contribute an instance each in turn: the one that
        showed the kind most often, then by id. Instances without a mistake follow in their given
        order.
        """
        shown: dict[Mistake, list[tuple[int, str]]] = {}
        for name in ids:
            for kind, count in self._of.get(name, {}).items():
                shown.setdefault(kind, []).append((-count, name))
        frequent = sorted(shown, key=lambda kind: (sum(count for count, _ in shown[kind]), kind))
        waiting = [iter(sorted(shown[kind])) for kind in frequent]
        chosen: dict[str, None] = {}
        while waiting:
            remaining = []
            for of_kind in waiting:
                new = next((name for _, name in of_kind if name not in chosen), None)
                if new is not None:
                    chosen[new] = None
                    remaining.append(of_kind)
            waiting = remaining
        return [*chosen, *(name for name in ids if name not in chosen)]
