"""What judges say, put into the lines of attempts as they are read: one line at a time.

A line's scores are then those of rules and judges, its verdict that over both. A run without
judges never comes here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from harness.store.columns import NOT_JUDGED
from harness.store.judgement_places import JudgementPlaces
from harness.store.judgements import read_register, text_hash

S = TypeVar("S", bound=msgspec.Struct)

NEEDED = {"instance", "sample", "round", "text", "scores"}
"""Fields of a shape that judgements can be found for and put into."""


class JudgedLines:
    """The judgements of a run, to be put into lines of a shape.

    shape: has the fields of `NEEDED`; its scores' type says what is read of a judge's.

    Raises: DataInvalid, StoreFailed.
    """

    def __init__(self, folder: Path, shape: type[msgspec.Struct]) -> None:
        self._judges = list(read_register(folder).judges)
        fields = {field.name: field for field in msgspec.structs.fields(shape)}
        self._tells_passed = "passed" in fields
        line: Any = msgspec.defstruct(
            "JudgeLine",
            [
                ("v", int),
                ("judge", str),
                ("instance", str),
                ("sample", int),
                ("round", int),
                ("attempt", str),
                ("scores", fields["scores"].type, msgspec.field(default_factory=dict)),
            ],
        )
        self._places = JudgementPlaces[Any](folder, line)

    def put(self, line: S, passed: int) -> S:
        """The line with what the judges of the run say of its text, the last word of each.

        passed: the verdict over rules and judges, as columns have it.

        Raises: DataInvalid, StoreFailed.
        """
        found: Any = line
        said = dict(found.scores)
        name = (found.instance, found.sample, found.round, text_hash(found.text or ""))
        latest = self._places.of(*name)
        for judge in self._judges:
            if judge in latest:
                said.update(latest[judge].scores)
        changes: dict[str, Any] = {"scores": said}
        if self._tells_passed:
            changes["passed"] = None if passed == NOT_JUDGED else bool(passed)
        return msgspec.structs.replace(line, **changes)
