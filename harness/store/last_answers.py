"""The last answer of each instance's first sample, read as it is asked for.

>>> LastAnswers(Path("runs/none/attempts.jsonl"), ["ok"]).text("a") is None
True
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256
from pathlib import Path

import msgspec

from harness.errors import StoreFailed
from harness.records import Outcome
from harness.store.columns import name_digest
from harness.store.whole import read_lines, read_places


class LastAnswers:
    """A run's answers by instance: memory holds where they are, not what they say.

    path: of the attempts. outcomes: of attempts that are answers.

    sha256: of all of them, in hex.
    failed: instances whose call has failed: they are owed an answer.

    Raises: DataInvalid, StoreFailed.
    """

    def __init__(self, path: Path, outcomes: Collection[Outcome]) -> None:
        self._path = path
        self._offset: dict[int, int] = {}
        places = read_places(path)
        rows = places.last_rounds()
        rows = rows[places.attempts.sample[rows] == 0]
        texts: list[bytes] = []
        self.failed = 0
        for row, line in zip(rows.tolist(), read_lines(path, places, _Line, rows), strict=True):
            self.failed += line.outcome == "error"
            if line.outcome in outcomes:
                self._offset[name_digest(line.instance)] = int(places.offset[row])
                texts.append(sha256(msgspec.json.encode([line.instance, line.text])).digest())
        self.sha256 = sha256(b"".join(sorted(texts))).hexdigest()

    def has(self, instance: str) -> bool:
        """Whether there is an answer to the instance of this id."""
        return name_digest(instance) in self._offset

    def text(self, instance: str) -> str | None:
        """The answer to the instance of this id, None where there is none.

        Raises: StoreFailed.
        """
        offset = self._offset.get(name_digest(instance))
        if offset is None:
            return None
        try:
            with self._path.open("rb") as file:
                file.seek(offset)
                return msgspec.json.decode(file.readline(), type=_Line).text or ""
        except (OSError, msgspec.MsgspecError) as error:
            raise StoreFailed(
                f"Cannot read {self._path} any more: {error}.", "Try again once it is whole."
            ) from None


class _Line(msgspec.Struct, gc=False):
    instance: str
    outcome: Outcome
    text: str | None = None
