"""Searches the texts of a run's attempts, which may be larger than memory."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from stringzilla import utf8_uncased_search

from harness.records import Message, PlayedTurn
from harness.store.files import open_file

BLOCK_BYTES = 1 << 20


class _Asked(msgspec.Struct, gc=False):
    messages: list[Message] = []


class _Said(msgspec.Struct, gc=False):
    reason: str = ""


class _Searched(msgspec.Struct, gc=False):
    instance: str
    request: _Asked
    round: int
    text: str | None = None
    reasoning: str | None = None
    feedback: str | None = None
    error: str | None = None
    user: tuple[PlayedTurn, ...] = ()
    scores: dict[str, _Said] = {}

    def texts(self) -> str:
        """Return the texts that a search covers, casefolded.

        Of the prompt, only the user's last message of round 1 and the messages after it are
        covered.
        """
        messages = self.request.messages
        # Every round has one message of the user, but only answers that are not blank have one.
        asked = [at for at, one in enumerate(messages) if one.role == "user"][-self.round :]
        own = messages[asked[0] if asked else -1 :]
        said = (turn.ends for turn in self.user)
        found = (self.instance, self.text, self.reasoning, self.feedback, self.error, *said)
        more = (message.content for message in own)
        reasons = (score.reason for score in self.scores.values())
        return "\n".join(text for text in (*found, *more, *reasons) if text).casefold()


class TextSearch:
    """A search of a file for attempts that contain all given words, in any case.

    Words between double quotes are one phrase.
    """

    def __init__(self, path: Path, query: str) -> None:
        self._path = path
        found = re.findall(r'"([^"]+)"|([^\s"]+)', query.casefold())
        self._words = [phrase or word for phrase, word in found]
        # Most lines need not be decoded: their JSON does not contain the longest word.
        in_json = (json.dumps(word, ensure_ascii=False)[1:-1] for word in self._words)
        self._longest = max(in_json, key=len, default="")
        self._decode = msgspec.json.Decoder(_Searched).decode
        self._offsets: list[int] = []
        self.size = 0  # bytes that were searched

    @property
    def hits(self) -> NDArray[np.int64]:
        """The byte offsets of the lines found so far."""
        return np.array(self._offsets, np.int64)

    def search_on(self, end: int, until: float = math.inf) -> None:
        """Search on up to the byte offset ``end``, or until `time.monotonic` reaches ``until``."""
        with open_file(self._path) as file:
            file.seek(self.size)
            while self.size < end and time.monotonic() < until:
                block = file.read(min(BLOCK_BYTES, end - self.size))
                if not block:  # the file is shorter than ``end``
                    return
                if not block.endswith(b"\n"):
                    block += file.readline()
                for at in self._candidates(block):
                    texts = self._decode(block[at : block.find(b"\n", at)]).texts()
                    if all(word in texts for word in self._words):
                        self._offsets.append(self.size + at)
                self.size += len(block)

    def _candidates(self, block: bytes) -> Iterator[int]:
        """Yield the offset in ``block`` of each line with the longest word."""
        at = utf8_uncased_search(block, self._longest)
        while 0 <= at < len(block):
            yield block.rfind(b"\n", 0, at) + 1
            end = block.find(b"\n", at)
            at = -1 if end < 0 else utf8_uncased_search(block, self._longest, end + 1)
