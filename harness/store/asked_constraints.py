"""What a run's answers were to be held to while they were decoded, and what became of it.

>>> list(read_asked(Path("runs/none/attempts.jsonl")))
[]
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from harness.records import ConstraintKind, Outcome
from harness.store.whole import read_lines, read_places


class Asked(msgspec.Struct, frozen=True):
    """The constraint of one first-round attempt.

    kind, value: json_schema and the schema, regex and the expression, and so on.
    error: why there is no answer, None where there is one.
    """

    instance: str
    kind: ConstraintKind
    value: Any
    error: str | None


class _Decoding(msgspec.Struct, gc=False):
    constraint: dict[ConstraintKind, Any] = {}


class _Request(msgspec.Struct, gc=False):
    decoding: _Decoding = msgspec.field(default_factory=_Decoding)


class _Line(msgspec.Struct, gc=False):
    instance: str
    sample: int
    round: int
    outcome: Outcome
    request: _Request
    error: str | None = None


def read_asked(path: Path) -> Iterator[Asked]:
    """The constraints of a run, one sample of each instance at a time; none where it has none.

    Raises: as `harness.store.whole.read_places`.
    """
    for line in read_lines(path, read_places(path), _Line):
        if line.round == 1 and line.sample == 0:
            for kind, value in line.request.decoding.constraint.items():
                failed = line.error if line.outcome == "error" else None
                yield Asked(line.instance, kind, value, failed)
