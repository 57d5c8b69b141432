"""Which shots an instance gets: chosen as the run file says, and none that gives it away.

A shot is never the instance itself, nor one with its prompt, nor one whose answer the task
says would be right here too, nor one whose answer does not pass its own check. Such a one is
passed over and the next is taken.

>>> selection = Selection(task, ShotsSection(n=2), Pool(task))  # doctest: +SKIP
>>> [shot.id for shot in selection.of(instance)]  # doctest: +SKIP
['word01/1', 'word01/4']
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import cycle, islice
from typing import Any, NamedTuple

import msgspec

from harness.calls.key import messages_hash
from harness.config.shots import ShotsSection
from harness.errors import ConfigError, nearest
from harness.ports import LeakAware, Task
from harness.records import Instance, Reply
from harness.run.assessment import assess
from harness.run.mistakes import Mistakes

Group = tuple[str | None, ...]
"""What an instance has under the labels that it shares with its shots."""

MOST_NAMED = 10_000
"""Ids among which the nearest is looked for."""


class Candidate(NamedTuple):
    """An instance that can be a shot, since its answer is known.

    prompt: hash of its messages.
    """

    instance: Instance[Any]
    gold: str
    prompt: str


class Pool:
    """The instances that shots come from, all of them held.

    task: of the evaluated data set, or of another one (``source``).
    """

    def __init__(self, task: Task[Any]) -> None:
        self.task = task
        self.candidates = [
            Candidate(instance, gold, messages_hash(task.messages(instance, ())))
            for instance in task.instances()
            if (gold := task.reference(instance)) is not None
        ]
        self._passes: dict[int, bool] = {}

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Instance id to its place among the candidates."""
        return {found.instance.id: number for number, found in enumerate(self.candidates)}

    def passes(self, number: int) -> bool:
        """Whether a candidate's answer is not refused by its own check."""
        if number not in self._passes:
            found = self.candidates[number]
            verdict = assess(self.task, found.instance, Reply(found.gold, "stop")).passed
            self._passes[number] = verdict is not False
        return self._passes[number]


class Selection:
    """Chooses shots; the same ones whenever it is asked.

    task: of the evaluated instances.
    mistakes: of an earlier run, for ``select: errors``.
    lacking: instances that were found to have too few, once `check` has looked.

    Raises: ConfigError for a label or id that the pool does not have.
    """

    def __init__(
        self,
        task: Task[Any],
        section: ShotsSection,
        pool: Pool,
        mistakes: Mistakes | None = None,
    ) -> None:
        self.task = task
        self.section = section
        self.pool = pool
        self.lacking = 0
        self._mistakes = mistakes
        self._leaks = task.leaks if isinstance(task, LeakAware) else None
        self._chosen: dict[str, tuple[int, ...]] = {}
        self._refuse_unknown()

    def of(self, instance: Instance[Any]) -> Sequence[Instance[Any]]:
        """The shots of an instance, fewer than wanted where no more are fit.

        Raises: ConfigError where the instance lacks a label that shots should share.
        """
        numbers = self._chosen.get(instance.id)
        if numbers is None:
            numbers = self._chosen[instance.id] = self._choose(instance)
        return [self.pool.candidates[number].instance for number in numbers]

    def check(self, instances: Iterable[Instance[Any]]) -> None:
        """Choose for all instances of a run, before any call is made, and count the lacking.

        Raises: ConfigError naming the first that has fewer shots than asked for, unless the
            run file allows that.
        """
        lacking = [(one, len(found)) for one in instances if len(found := self.of(one)) < self.n]
        self.lacking = len(lacking)
        if not lacking or self.section.allow_fewer:
            return
        first, count = lacking[0]
        also = f" ({len(lacking):,} instances have too few)" if len(lacking) > 1 else ""
        raise ConfigError(
            f"task.shots: {count} of the {self.n} shots asked for are fit for the instance "
            f"{first.id!r}{also}{self._short_of(first)}. The others would give its answer away, "
            "or have none that passes.",
            self._remedy(),
        )

    @property
    def n(self) -> int:
        """Shots asked for."""
        return self.section.n

    def fingerprint(self) -> str:
        """A hash of everything that the choice depends on, but for the run file."""
        digest, names = hashlib.sha256(), [found.instance.id for found in self.pool.candidates]
        for instance, gold, prompt in self.pool.candidates:
            told: list[Any] = [instance.id, gold, prompt, self._group(instance)]
            if self.section.across is not None:
                told.append(self._across(instance))
            digest.update(msgspec.json.encode(told))
        if self._mistakes is not None:
            for order in self._orders.values():
                digest.update(msgspec.json.encode([names[number] for number in order]))
        return digest.hexdigest()

    def _choose(self, instance: Instance[Any]) -> tuple[int, ...]:
        prompt = messages_hash(self.task.messages(instance, ()))
        turns = [
            self._fit(instance, prompt, self._offered(instance, group, order))
            for group, order in islice(self._parts_for(instance).items(), self.n)
        ]
        # No other takes the turn of a group that has no more: they would not be even.
        chosen = [shot for turn in islice(cycle(turns), self.n) for shot in islice(turn, 1)]
        if self.section.order == "reversed":
            chosen.reverse()
        elif self.section.order == "random":
            self._chance(instance, "order").shuffle(chosen)
        return tuple(chosen)

    def _fit(
        self, instance: Instance[Any], prompt: str, candidates: Iterable[int]
    ) -> Iterator[int]:
        """Those of some candidates that pass and do not give the instance away.

        prompt: hash of the instance's own.
        """
        for number in candidates:
            found = self.pool.candidates[number]
            if found.instance.id == instance.id or found.prompt == prompt:
                continue
            if self._leaks is not None and self._leaks(instance, found.instance):
                continue
            if self.pool.passes(number):
                yield number

    def _offered(
        self, instance: Instance[Any], group: str | None, order: Sequence[int]
    ) -> Iterable[int]:
        """The candidates of a group of ``across``, the best first."""
        if self.section.select != "random":
            return order
        draw = "select" if group is None else f"select/{group}"
        return _drawn(order, self._chance(instance, draw))

    def _parts_for(self, instance: Instance[Any]) -> Mapping[str | None, Sequence[int]]:
        """The candidates that share the wanted labels with an instance, as `_parts`."""
        for label in self.section.within:
            if label not in instance.groups:
                raise _no_label("within", label, instance.groups)
        return self._parts.get(self._group(instance), {})

    def _short_of(self, instance: Instance[Any]) -> str:
        """Which group of ``across`` has too few for an instance, where that is asked for."""
        wanted = Counter(islice(cycle(self._parts_for(instance)), self.n))
        found = Counter(self._across(shot) for shot in self.of(instance))
        for group in wanted:
            if group is not None and found[group] < wanted[group]:
                return f", too few of them with {self.section.across} {group!r}"
        return ""

    @cached_property
    def _parts(self) -> Mapping[Group, Mapping[str | None, Sequence[int]]]:
        """`_orders`, each by its groups of ``across``, sorted; whole under None without it."""
        found: dict[Group, dict[str | None, list[int]]] = {}
        for shared, order in self._orders.items():
            parts: dict[str | None, list[int]] = {}
            for number in order:
                group = self._across(self.pool.candidates[number].instance)
                if group is not None or self.section.across is None:
                    parts.setdefault(group, []).append(number)
            found[shared] = dict(sorted(parts.items(), key=lambda part: part[0] or ""))
        return found

    @cached_property
    def _orders(self) -> dict[Group, list[int]]:
        """The candidates of each group in the order of the selection."""
        candidates, numbers = self.pool.candidates, self.pool.numbers
        orders: dict[Group, list[int]] = {}
        for number in [numbers[name] for name in self.section.ids] or range(len(candidates)):
            orders.setdefault(self._group(candidates[number].instance), []).append(number)
        if self._mistakes is not None:
            for group, order in orders.items():
                names = self._mistakes.order([candidates[number].instance.id for number in order])
                orders[group] = [numbers[name] for name in names]
        return orders

    def _across(self, instance: Instance[Any]) -> str | None:
        """The group of an instance that shots go round, None where it has none."""
        return None if self.section.across is None else instance.groups.get(self.section.across)

    def _group(self, instance: Instance[Any]) -> Group:
        return tuple(instance.groups.get(label) for label in self.section.within)

    def _chance(self, instance: Instance[Any], what: str) -> random.Random:
        return random.Random(f"{self.section.seed}/{what}/{instance.id}")

    def _refuse_unknown(self) -> None:
        numbers, candidates = self.pool.numbers, self.pool.candidates
        for name in self.section.ids:
            if name not in numbers:
                raise ConfigError(
                    f"task.shots.ids: no instance {name!r} has an answer to be shown.",
                    nearest(name, numbers) if len(numbers) <= MOST_NAMED else "Check the id.",
                )
        known = {label for found in candidates for label in found.instance.groups}
        across = () if self.section.across is None else (self.section.across,)
        for key, labels in (("within", self.section.within), ("across", across)):
            for label in labels:
                if candidates and label not in known:
                    raise _no_label(key, label, known)

    def _remedy(self) -> str:
        section = self.section
        ways = ["a smaller n"] if self.n > 1 else []
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


def _drawn(order: Sequence[int], chance: random.Random) -> Iterator[int]:
    """All of them in a random order, drawn one by one: mostly the first few are enough."""
    moved: dict[int, int] = {}
    for place in range(len(order)):
        drawn = chance.randrange(place, len(order))
        yield order[moved.get(drawn, drawn)]
        moved[drawn] = moved.get(place, place)
