"""What judges say, put into the lines of attempts as they are read: one line at a time.

A line's scores are then those of rules and judges, its verdict that over both. Memory holds 16
bytes for each judgement. A run without judges never comes here.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from harness.errors import StoreFailed
from harness.store.attempts import lines
from harness.store.columns import NOT_JUDGED, name_digest
from harness.store.judgements import UNREADABLE, not_a_judgement, read_register, text_hash
from harness.store.run_folder import JUDGEMENTS

S = TypeVar("S", bound=msgspec.Struct)

NEEDED = {"instance", "sample", "round", "text", "scores"}
"""Fields of a shape that judgements can be found for and put into."""


class _Instance(msgspec.Struct, gc=False):
    instance: str


class JudgedLines:
    """The judgements of a run, to be put into lines of a shape.

    shape: has the fields of `NEEDED`; its scores' type says what is read of a judge's.

    Raises: DataInvalid, StoreFailed.
    """

    def __init__(self, folder: Path, shape: type[msgspec.Struct]) -> None:
        self._path = folder / JUDGEMENTS
        self._judges = list(read_register(folder).judges)
        fields = {field.name: field for field in msgspec.structs.fields(shape)}
        self._tells_passed = "passed" in fields
        line = msgspec.defstruct(
            "JudgeLine",
            [
                ("judge", str),
                ("instance", str),
                ("sample", int),
                ("round", int),
                ("attempt", str),
                ("scores", fields["scores"].type, msgspec.field(default_factory=dict)),
            ],
        )
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(line).decode
        self._digests, self._offsets = self._places()

    def put(self, line: S, passed: int) -> S:
        """The line with what the judges of the run say of its text, the last word of each.

        passed: the verdict over rules and judges, as columns have it.
        """
        found: Any = line
        said = dict(found.scores)
        latest = {one.judge: one for one in self._of(found)}
        for name in self._judges:
            if name in latest:
                said.update(latest[name].scores)
        changes: dict[str, Any] = {"scores": said}
        if self._tells_passed:
            changes["passed"] = None if passed == NOT_JUDGED else bool(passed)
        return msgspec.structs.replace(line, **changes)

    def _of(self, line: Any) -> Iterator[Any]:
        digest = name_digest(line.instance)
        start, end = np.searchsorted(self._digests, [digest, digest + 1])
        if start == end:
            return
        named = (line.instance, line.sample, line.round, text_hash(line.text or ""))
        with self._path.open("rb") as file:
            for offset in sorted(self._offsets[start:end].tolist()):
                file.seek(offset)
                try:
                    found = self._decode(file.readline())
                except UNREADABLE as error:
                    number = 1 + sum(start < offset for start, _ in lines(self._path))
                    raise not_a_judgement(self._path, number, error) from None
                if (found.instance, found.sample, found.round, found.attempt) == named:
                    yield found

    def _places(self) -> tuple[Any, Any]:
        """(n,) digests of instances, ascending, and where their judgements begin."""
        decode = msgspec.json.Decoder(_Instance).decode
        digests, offsets = array("q"), array("q")
        try:
            for number, (offset, text) in enumerate(lines(self._path), start=1):
                try:
                    digests.append(name_digest(decode(text).instance))
                except UNREADABLE as error:
                    raise not_a_judgement(self._path, number, error) from None
                offsets.append(offset)
        except OSError as error:
            raise StoreFailed(
                f"Cannot read {self._path}: {error.strerror}.",
                "Mend its permissions, then try again.",
            ) from None
        found = np.frombuffer(digests, np.int64)
        order = np.argsort(found, kind="stable")
        return found[order], np.frombuffer(offsets, np.int64)[order]
