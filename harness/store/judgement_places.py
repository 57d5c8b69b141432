"""Where in `judgements.jsonl` the judgements of each attempt and its text are.

They are read as they are asked for: memory holds 16 bytes for each.

>>> places = JudgementPlaces(Path("runs/none"), Judgement)  # doctest: +SKIP
>>> places.of("a", 0, 1, text_hash("The answer."))  # doctest: +SKIP
{'yes_no': Judgement(...)}
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec
import numpy as np

from harness.store.json_lines import lines
from harness.store.judgements import UNREADABLE, lines_of, not_a_judgement, unreadable
from harness.store.run_folder import JUDGEMENTS


class _Named(Protocol):
    """What a shape of a judgement's line must tell."""

    @property
    def v(self) -> int: ...
    @property
    def judge(self) -> str: ...
    @property
    def instance(self) -> str: ...
    @property
    def sample(self) -> int: ...
    @property
    def round(self) -> int: ...
    @property
    def attempt(self) -> str: ...


L = TypeVar("L", bound=_Named)


def key_of(instance: str, sample: int, round_: int, attempt: str) -> int:
    """64 bits that stand for an attempt and its text, by `harness.store.judgements.text_hash`.

    Among a million, the odds that any two have the same are 1 in 10^7.
    """
    name = f"{instance}\0{sample}\0{round_}\0{attempt}"
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)


class JudgementPlaces(Generic[L]):
    """The judgements of a run's folder, by attempt.

    shape: what is read of a line.

    Raises: DataInvalid, StoreFailed.
    """

    def __init__(self, folder: Path, shape: type[L]) -> None:
        self._path = folder / JUDGEMENTS
        self._decode: Callable[[bytes], L] = msgspec.json.Decoder(shape).decode
        keys, offsets = array("q"), array("q")
        for _, offset, line in lines_of(self._path, self._decode):
            keys.append(key_of(line.instance, line.sample, line.round, line.attempt))
            offsets.append(offset)
        found = np.frombuffer(keys, np.int64)
        order = np.argsort(found, kind="stable")  # of one attempt, the last word stays last
        self._keys, self._offsets = found[order], np.frombuffer(offsets, np.int64)[order]

    def of(self, instance: str, sample: int, round_: int, attempt: str) -> dict[str, L]:
        """What each judge last said of an attempt and its text, by the judge's name.

        Raises: DataInvalid, StoreFailed.
        """
        key = key_of(instance, sample, round_, attempt)
        start, end = np.searchsorted(self._keys, key), np.searchsorted(self._keys, key, "right")
        latest: dict[str, L] = {}
        if start == end:
            return latest
        try:
            with self._path.open("rb") as file:
                for offset in self._offsets[start:end].tolist():
                    file.seek(offset)
                    line = self._decoded(offset, file.readline())
                    latest[line.judge] = line
        except OSError as error:
            raise unreadable(self._path, error) from None
        return latest

    def _decoded(self, offset: int, text: bytes) -> L:
        try:
            return self._decode(text)
        except UNREADABLE as error:  # it could be read before: the file was changed meanwhile
            number = 1 + sum(start < offset for start, _ in lines(self._path))
            raise not_a_judgement(self._path, number, error) from None
