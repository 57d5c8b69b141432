"""Selects the shots of an instance as the run file says, excluding any that leak its answer.

A shot is never the instance itself, nor one with its prompt, nor one whose answer the task says
would be right here too, nor one whose answer does not pass its own check. Such a candidate is
skipped and the next is taken.

>>> selection = ShotSelection(task, ShotsSection(n=2), ShotPool(task))  # doctest: +SKIP
>>> [shot.id for shot in selection.of(instance)]  # doctest: +SKIP
['word01/1', 'word01/4']
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
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

MAX_NAMED = 10_000
"""Ids among which the nearest is looked for."""


class ShotCandidate(NamedTuple):
    """An instance that can be a shot because its answer is known; ``prompt`` is a hash."""

    instance: Instance[Any]
    answer: str
    prompt: str


class ShotPool:
    """The instances that shots come from, all of them in memory.

    Args:
        task: Task of the evaluated data set, or of another one (``source``).
    """

    def __init__(self, task: Task[Any]) -> None:
        self.task = task
        self.candidates = [
            ShotCandidate(instance, answer, messages_hash(task.messages(instance, ())))
            for instance in task.instances()
            if (answer := task.reference(instance)) is not None
        ]
        self._passes: dict[int, bool] = {}

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Map each instance id to its index among the candidates."""
        return {found.instance.id: number for number, found in enumerate(self.candidates)}

    def passes(self, number: int) -> bool:
        """Return whether a candidate's answer passes its own check, or has none."""
        if number not in self._passes:
            found = self.candidates[number]
            verdict = assess(self.task, found.instance, Reply(found.answer, "stop")).passed
            self._passes[number] = verdict is not False
        return self._passes[number]


class ShotSelection:
    """Chooses shots, deterministically.

    Args:
        task: The task of the evaluated instances.
        section: ``task.shots`` of the run file.
        pool: The candidates.
        mistakes: Mistakes of an earlier run, for ``select: errors``.

    Attributes:
        lacking: Instances that have too few shots, known once `check` was called.

    Raises:
        ConfigError: The section names a label or id that the pool does not have.
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
        self._check_section()

    def of(self, instance: Instance[Any]) -> Sequence[Instance[Any]]:
        """Return the shots of an instance, fewer than requested if no more are suitable.

        Raises:
            ConfigError: The instance lacks a label that shots should share.
        """
        numbers = self._chosen.get(instance.id)
        if numbers is None:
            numbers = self._chosen[instance.id] = self._choose(instance)
        return [self.pool.candidates[number].instance for number in numbers]

    def check(self, instances: Iterable[Instance[Any]]) -> None:
        """Choose for all instances of a run, before any call, and count the lacking.

        Raises:
            ConfigError: An instance has fewer shots than asked for, unless the run file
                allows that.
        """
        n = self.section.n
        lacking = [(one, len(found)) for one in instances if len(found := self.of(one)) < n]
        self.lacking = len(lacking)
        if not lacking or self.section.allow_fewer:
            return
        first, count = lacking[0]
        also = f" ({len(lacking):,} instances have too few)" if len(lacking) > 1 else ""
        raise ConfigError(
            f"task.shots: only {count} of {n} shots are suitable for the instance "
            f"{first.id!r}{also}{self._short_group(first)}. The others would give its answer away, "
            "or have no answer that passes.",
            self._remedy(),
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
        prompt, n = messages_hash(self.task.messages(instance, ())), self.section.n
        turns = [
            self._suitable(instance, prompt, self._offered(instance, group, order))
            for group, order in islice(self._parts_for(instance).items(), n)
        ]
        # No other group takes the turn of one that has no more: they would not be even.
        chosen = [shot for turn in islice(cycle(turns), n) for shot in islice(turn, 1)]
        if self.section.order == "reversed":
            chosen.reverse()
        elif self.section.order == "random":
            self._random(instance, "order").shuffle(chosen)
        return tuple(chosen)

    def _suitable(
        self, instance: Instance[Any], prompt: str, candidates: Iterable[int]
    ) -> Iterator[int]:
        """Yield the candidates that pass and do not leak the answer of the instance.

        Args:
            instance: The instance.
            prompt: Hash of the instance's prompt.
            candidates: The candidates in order.
        """
        for number in candidates:
            found = self.pool.candidates[number]
            if found.instance.id == instance.id or found.prompt == prompt:
                continue
            if isinstance(self.task, LeakAware) and self.task.leaks(instance, found.instance):
                continue
            if self.pool.passes(number):
                yield number

    def _offered(
        self, instance: Instance[Any], group: str | None, order: Sequence[int]
    ) -> Iterable[int]:
        """Return the candidates of a group of ``across``, the best first."""
        if self.section.select != "random":
            return order
        draw = "select" if group is None else f"select/{group}"
        return _shuffled(order, self._random(instance, draw))

    def _parts_for(self, instance: Instance[Any]) -> Mapping[str | None, Sequence[int]]:
        """Return the candidates that share the wanted labels with an instance, as `_parts`."""
        for label in self.section.within:
            if label not in instance.groups:
                raise _no_label("within", label, instance.groups)
        return self._parts.get(self._shared_by(instance), {})

    def _short_group(self, instance: Instance[Any]) -> str:
        """Say which group of ``across`` has too few shots for an instance, if required."""
        wanted = Counter(islice(cycle(self._parts_for(instance)), self.section.n))
        found = Counter(self._across(shot) for shot in self.of(instance))
        for group in wanted:
            if group is not None and found[group] < wanted[group]:
                return f", too few of them with {self.section.across} {group!r}"
        return ""

    @cached_property
    def _parts(self) -> Mapping[LabelValues, Mapping[str | None, Sequence[int]]]:
        """Group `_orders` by the groups of ``across``, sorted; as a whole under None without it."""
        found: dict[LabelValues, dict[str | None, list[int]]] = {}
        for shared, order in self._orders.items():
            parts: dict[str | None, list[int]] = {}
            for number in order:
                group = self._across(self.pool.candidates[number].instance)
                if group is not None or self.section.across is None:
                    parts.setdefault(group, []).append(number)
            found[shared] = dict(sorted(parts.items(), key=lambda part: part[0] or ""))
        return found

    @cached_property
    def _orders(self) -> dict[LabelValues, list[int]]:
        """Return the candidates by the labels they share, in the order of the selection."""
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
        """Return the group of ``across`` that an instance is in, or None."""
        return None if self.section.across is None else instance.groups.get(self.section.across)

    def _shared_by(self, instance: Instance[Any]) -> LabelValues:
        return tuple(instance.groups.get(label) for label in self.section.within)

    def _random(self, instance: Instance[Any], what: str) -> random.Random:
        return random.Random(f"{self.section.seed}/{what}/{instance.id}")

    def _check_section(self) -> None:
        numbers, candidates = self.pool.numbers, self.pool.candidates
        for name in self.section.ids:
            if name not in numbers:
                raise ConfigError(
                    f"task.shots.ids: no instance {name!r} has a reference answer to show.",
                    nearest(name, numbers) if len(numbers) <= MAX_NAMED else "Check the id.",
                )
        known = {label for found in candidates for label in found.instance.groups}
        across = () if self.section.across is None else (self.section.across,)
        for key, labels in (("within", self.section.within), ("across", across)):
            for label in labels:
                if candidates and label not in known:
                    raise _no_label(key, label, known)

    def _remedy(self) -> str:
        section = self.section
        ways = ["a smaller n"] if section.n > 1 else []
        ways += ["more ids"] if section.ids else []
        ways += ["fewer labels in within"] if section.within else []
        ways += ["no across"] if section.across is not None else []
        ways += ["another source"] if not section.run else []
        return f"Use {', '.join(ways)}{' or ' if ways else ''}allow_fewer: true."


def _no_label(key: str, label: str, known: Iterable[str]) -> ConfigError:
    return ConfigError(
        f"task.shots.{key}: the instances have no label {label!r}.",
        nearest(label, known) or "Remove it: they have no labels at all.",
    )


def _shuffled(order: Sequence[int], rng: random.Random) -> Iterator[int]:
    """Yield all in a random order, drawn one by one, as mostly the first few are enough."""
    moved: dict[int, int] = {}
    for place in range(len(order)):
        drawn = rng.randrange(place, len(order))
        yield order[moved.get(drawn, drawn)]
        moved[drawn] = moved.get(place, place)


class Mistake(NamedTuple):
    """A kind of mistake.

    Attributes:
        score: Name of the failed score, or the outcome of an answer that has no scores.
        reason: The score's reason without numbers and quoted texts, or, for a schema's score, a
            keyword that was violated (its ``details.keywords``).
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
    """The mistakes of a run's first answers, to choose shots that show how to avoid them.

    Args:
        path: The run's attempts; the last line of an attempt counts.
    """

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
