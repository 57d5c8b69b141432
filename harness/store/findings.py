"""What a run's scores say of each base constraint: met or not, and by how much not.

A score tells of its constraints in ``details.constraints``, a list of ``constraint``
(its text), ``passed``, ``observed`` and ``target``; ``kind`` (its text with the values
left out), ``reason`` and ``groups`` (its own labels, each with a group) where it has them.
What is not of this shape tells nothing.

>>> read_findings(Path("runs/none/attempts.jsonl")).table.by("constraint")  # doctest: +SKIP
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from harness.store.columns import AttemptTable, name_digest
from harness.store.gathering import Attempts
from harness.store.reader import LARGEST
from harness.store.run_folder import JUDGES
from harness.store.whole import Places, read_lines

LABEL = "constraint"
"""The label that the kinds are groups of."""

MOST_KINDS = 500
"""Kinds of constraints: those beyond are counted together, as `OTHERS`."""
OTHERS = "(others)"

MOST_DIFFERENT = 1_000
"""Different misses of a kind that are counted."""
_LONGEST = 300


@dataclass(slots=True)
class Misses:
    """The failed constraints of a kind.

    off_by: observed minus wanted, where both are one number, to how many.
    reasons: to how many.
    """

    off_by: Counter[float] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Findings:
    """The constraints of each sample's last round.

    table: each constraint of an instance is a row like an instance: its kind is its group
        of `LABEL`, ``passed`` whether it was met, its cluster the instance's, and so are its
        other groups but for labels of its own.
    misses: by kind.
    of: of which scores there are constraints, and at which place of the score's list.
    without: samples that tell of none: refused, empty, failed.
    """

    table: AttemptTable
    misses: Mapping[str, Misses]
    of: frozenset[tuple[str, int]]
    without: int

    def instances(self, names: Iterable[str]) -> dict[int, str]:
        """Digest in the table to the name of the instance that has the constraint.

        names: of the run's instances (`harness.store.reader.read_names`).
        """
        return {
            name_digest(_row_name(name, score, place)): name
            for name in names
            for score, place in self.of
        }


def read_findings(path: Path, places: Places, round_: int | None = None) -> Findings:
    """The constraints that a run's scores tell of.

    places: of the file.
    round_: each sample's last round up to this one counts; None for its last one.

    Raises: as `harness.store.reader.read_columns`.
    """
    gathered, misses, of = Attempts(), dict[str, Misses](), set[tuple[str, int]]()
    without = 0
    judged = path.with_name(JUDGES).exists()
    for line in read_lines(path, places, _Line, places.last_rounds(round_)):
        constraints = list(_constraints(line))
        without += not constraints
        for name, place, found in constraints:
            # Rules and judges may speak of the same constraint: each is told by itself.
            kind = f"{name}: {_kind(found)}" if judged else _kind(found)
            if kind not in misses and len(misses) >= MOST_KINDS:
                kind = OTHERS
            _count(found, misses.setdefault(kind, Misses()))
            of.add((name, place))
            groups = {**line.groups, **own_groups(found.groups), LABEL: kind}
            gathered.add(
                _row_name(line.instance, name, place),
                line.sample,
                1,
                groups=msgspec.json.encode(groups),
                cluster=line.cluster,
                outcome="ok",
                passed=found.passed,
                scores={},
            )
    return Findings(gathered.table()[0], misses, frozenset(of), without)


def _row_name(instance: str, score: str, place: int) -> str:
    return f"{instance}\0{score}\0{place}"


class _Score(msgspec.Struct, gc=False):
    details: msgspec.Raw = msgspec.Raw(b"{}")


class _Line(msgspec.Struct, gc=False):
    instance: str
    sample: int
    round: int
    cluster: str
    groups: dict[str, str]
    text: str | None = None  # by it judges' scores are found
    scores: dict[str, _Score] = {}


class _Constraint(msgspec.Struct, gc=False):
    constraint: str
    passed: bool | None
    observed: Any = None
    target: Any = None
    kind: str = ""
    reason: str = ""
    groups: Any = None


class _Details(msgspec.Struct, gc=False):
    constraints: list[_Constraint] = []


_DETAILS = msgspec.json.Decoder(_Details)


def _constraints(line: _Line) -> Iterator[tuple[str, int, _Constraint]]:
    for name, score in line.scores.items():
        try:
            details = _DETAILS.decode(score.details)
        except (msgspec.MsgspecError, RecursionError):  # a task's own details
            continue
        for place, found in enumerate(details.constraints):
            yield name, place, found


def _kind(found: _Constraint) -> str:
    if found.kind:
        return found.kind[:_LONGEST]
    without_texts = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", found.constraint[:_LONGEST])
    return re.sub(r"\d+", "N", without_texts)


def own_groups(groups: Any) -> dict[str, str]:
    """The labels of a constraint's own, cut; what is no label to group is left out."""
    if not isinstance(groups, dict):
        return {}
    return {
        label[:_LONGEST]: group[:_LONGEST]
        for label, group in groups.items()
        if isinstance(group, str)
    }


def _count(found: _Constraint, misses: Misses) -> None:
    if found.passed is not False:
        return
    if _is_number(found.observed) and _is_number(found.target):
        try:
            difference = float(found.observed) - float(found.target)
        except OverflowError:  # of hundreds of digits
            difference = inf
        if abs(difference) <= LARGEST:
            _add(misses.off_by, difference)
    if found.reason:
        _add(misses.reasons, found.reason[:_LONGEST])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _add(counter: Counter[Any], value: float | str) -> None:
    if value in counter or len(counter) < MOST_DIFFERENT:
        counter[value] += 1
