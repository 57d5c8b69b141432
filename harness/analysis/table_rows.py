"""What tells the rows of a results table apart, beside the model and the group.

Owns one rule: a setting stands in the rows if two runs of one model that differ in it would
otherwise fill the same cell. So runs of two tasks, or of two output formats, share a row,
since they fill different cells; runs with none and with five examples do not. A run's row is
named by its own value of each such setting, whichever task it is of. Runs that would fill the
same cell and have the same settings are told apart by their names.

>>> telling([zero_shot, five_shots])  # doctest: +SKIP
Telling(settings=('task.shots.n',), runs=False)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from harness.analysis.comparable import Variant, changed, refuse_incomparable
from harness.errors import RunConflict

SHOTS = "task.shots"

Place = tuple[str, str, str, str | None]
"""Task, figure, group of the rows, group of the columns (None over all of them)."""


@dataclass(frozen=True, slots=True)
class Filling:
    """A run, and which places it fills; those over all columns only where there are no others."""

    variant: Variant
    places: frozenset[Place]

    @property
    def model(self) -> str:
        """What the row is named by: a model without a name by what answers for it."""
        return self.variant.metrics.model or str(self.variant.settings.get("model.backend") or "?")


@dataclass(frozen=True, slots=True)
class Telling:
    """The settings that name rows, sorted, and whether the runs' names do, too."""

    settings: tuple[str, ...]
    runs: bool

    def of(self, filling: Filling) -> dict[str, str]:
        """What names a run's rows beside the model."""
        named = {key: told(_value(filling.variant, key), f"{key}.") for key in self.settings}
        return named | ({"run": filling.variant.name} if self.runs else {})


def telling(fillings: Sequence[Filling]) -> Telling:
    """What must be told so that no two runs fill one cell."""
    keys: set[str] = set()
    runs = False
    for one, other in combinations(fillings, 2):
        if one.model == other.model and not one.places.isdisjoint(other.places):
            differing = [
                part
                for key in changed(one.variant, other.variant)
                for part in _parts(key, one.variant, other.variant)
                if told(_value(one.variant, part)) != told(_value(other.variant, part))
            ]
            keys |= set(differing)
            runs = runs or not differing
    return Telling(tuple(sorted(keys)), runs)


def _parts(key: str, one: Variant, other: Variant) -> list[str]:
    """A setting by its own keys, where both runs have some of them and these tell them apart.

    Zero-shot runs have a number where the others have a section: three shots differ from none
    in how many they are, whatever the section says besides.
    """
    ours, theirs = (_section(key, run) for run in (one, other))
    parts = [part for part in ours if part in theirs and told(ours[part]) != told(theirs[part])]
    return sorted(parts) or [key]


def _section(key: str, run: Variant) -> dict[str, Any]:
    found = run.settings.get(key)
    if isinstance(found, dict):
        return found
    return {f"{key}.n": found} if key == SHOTS and isinstance(found, int) else {}


def _value(run: Variant, key: str) -> Any:
    """A setting, or one of its own keys (``task.shots.n``)."""
    section = short(key)
    return run.settings.get(key) if key == section else _section(section, run).get(key)


def short(key: str) -> str:
    """The setting that a key is of: its first two parts."""
    return ".".join(key.split(".")[:2])


def refuse_other_data(fillings: Sequence[Filling], rows: str) -> None:
    """Refuse figures side by side that are of other data: the same group of the same task.

    Raises: RunConflict naming two runs.
    """
    for one, other in combinations(fillings, 2):
        if not one.places.isdisjoint(other.places):
            try:
                refuse_incomparable(one.variant, [other.variant], rows)
            except RunConflict as error:  # its remedy is an option of another command
                remedy = error.remedy.replace("--over", "--rows")
                raise RunConflict(error.message, remedy) from None


def told(value: Any, prefix: str = "") -> str:
    """A setting's value on one line, as YAML has it; prefix: of its keys, to be left out.

    >>> told({"task.shots.n": 1, "task.shots.within": ["source"]}, "task.shots.")
    '{n: 1, within: [source]}'
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        inner = [f"{key.removeprefix(prefix)}: {told(each)}" for key, each in value.items()]
        return f"{{{', '.join(inner)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(told, value))}]"
    return str(value)
