"""The strings of a document: its natural paragraphs, and the sentences and passages made of them.

A document is split into paragraphs; filters leave out what is no natural text, post-processors
clean the rest. Surviving paragraphs in a row make passages, of two paragraphs at least. Of each
level only so many strings are kept, drawn by a hash of the seed and the string, so that neither
other documents nor the number of processes change what is drawn.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from harness.builders.collie.source import Source
from harness.builders.draws import Draws
from harness.errors import ConfigError
from harness.plugins import calling
from harness.ports import Filter, PostProcessor
from harness.records import Document
from harness.scoring.constraints.grammar import Level
from harness.scoring.constraints.levels import PARAGRAPH_BREAK, Splitter

TOO_LONG = "too long"
EMPTY = "empty"
"""Reasons of our own, beside the filters' names."""

UNITS = ("paragraph", "sentence", "passage")
"""What filters leave out."""

ENOUGH = 4
"""Sentences to draw from, for each that a document may give: to split all of a book takes long."""


@dataclass(slots=True)
class Seen:
    """What became of the paragraphs and sentences of documents.

    paragraphs, sentences: how many were looked at. Only so many sentences are as are drawn.
    filtered: paragraphs and sentences (``paragraph``, ``sentence``), and surviving paragraphs of
        which no passage was made (``passage``), to filters' names to numbers.
    single: rows of surviving paragraphs that were no passage, having one (or fewer than wanted).
    """

    paragraphs: int = 0
    sentences: int = 0
    filtered: dict[str, Counter[str]] = field(
        default_factory=lambda: {unit: Counter() for unit in UNITS}
    )
    single: int = 0


class Segmenter:
    """Makes strings of a source's documents.

    filters, passage_filters, post_processors: by name, in order.
    seed: of what is drawn.
    """

    def __init__(
        self,
        source: Source,
        filters: Mapping[str, Filter],
        passage_filters: Mapping[str, Filter],
        post_processors: Mapping[str, PostProcessor],
        units: Splitter,
        seed: int,
    ) -> None:
        self._source = source
        self._filters = filters
        self._passage_filters = passage_filters
        self._post_processors = post_processors
        self._units = units
        self._seed = seed

    def strings(
        self, document: Document, levels: Iterable[Level], seen: Seen
    ) -> dict[Level, list[str]]:
        """The strings of each level, in the order drawn; what became of the rest is added to seen.

        levels: those that are wanted.

        Raises: ConfigError where a plug-in fails; PatternTooSlow.
        """
        paragraphs = list(self._paragraphs(document.text, seen))
        surviving = [paragraph for paragraph in paragraphs if paragraph is not None]
        made: dict[Level, Callable[[], list[str]]] = {
            "word": lambda: self._drawn("word", self._words(surviving)),
            "sentence": lambda: self._sentences(surviving, seen),
            "paragraph": lambda: self._drawn("paragraph", surviving),
            "passage": lambda: self._drawn(
                "passage", self._passages(document.name, paragraphs, seen)
            ),
        }
        return {level: made[level]() for level in levels}

    def _paragraphs(self, text: str, seen: Seen) -> Iterator[str | None]:
        """The paragraphs of a text, cleaned; None in the place of each that is left out."""
        for chunk in text.split(self._source.delimiter):
            if not chunk.strip():
                continue
            seen.paragraphs += 1
            reason = self._unnatural(chunk)
            if reason is None:
                chunk = self._cleaned(chunk).strip()
                reason = None if chunk else EMPTY
            if reason is not None:
                seen.filtered["paragraph"][reason] += 1
            yield chunk if reason is None else None

    def _unnatural(self, text: str) -> str | None:
        """Why a text is no natural one, None where it is."""
        return TOO_LONG if len(text) > self._source.longest else _filtered(text, self._filters)

    def _cleaned(self, text: str) -> str:
        for name, process in self._post_processors.items():
            with calling(f"The post-processor {name!r}"):
                text = process(text)
            if not isinstance(text, str):
                raise ConfigError(
                    f"The post-processor {name!r} gives no text, but {text!r:.40}.", "Mend it."
                )
        return text

    def _words(self, paragraphs: list[str]) -> Iterator[str]:
        """A line of a word list is a word; of running text, what the splitter makes of it."""
        for paragraph in paragraphs:
            if any(character.isspace() for character in paragraph):
                yield from filter(str.isalpha, self._units.units(paragraph, "word"))
            else:
                yield paragraph

    def _sentences(self, paragraphs: list[str], seen: Seen) -> list[str]:
        """Sentences of drawn paragraphs, filtered like those, one by one until enough are there."""

        def natural(sentence: str) -> bool:
            seen.sentences += 1
            reason = self._unnatural(sentence)
            if reason is not None:
                seen.filtered["sentence"][reason] += 1
            return reason is None

        most = self._source.strings
        found: list[str] = []
        for paragraph in self._ordered("paragraph", paragraphs):
            found += filter(None, map(str.strip, self._units.sentences(paragraph)))
            if most is not None and len(found) >= ENOUGH * most:
                break
        return self._drawn("sentence", found, natural)

    def _passages(self, name: str, paragraphs: list[str | None], seen: Seen) -> Iterator[str]:
        """The passages that surviving paragraphs in a row make."""
        draws = Draws(self._seed, "passages", self._source.name, name)
        wanted = self._source.passages
        for row in self._rows(paragraphs, seen):
            for piece in self._pieces(row, draws):
                if len(piece) >= (wanted.low if wanted else 2):
                    yield PARAGRAPH_BREAK.join(piece)
                else:
                    seen.single += 1

    def _rows(self, paragraphs: list[str | None], seen: Seen) -> Iterator[list[str]]:
        row: list[str] = []
        for paragraph in [*paragraphs, None]:
            if paragraph is not None:
                reason = _filtered(paragraph, self._passage_filters)
                if reason is None:
                    row.append(paragraph)
                    continue
                seen.filtered["passage"][reason] += 1
            if row:
                yield row
            row = []

    def _pieces(self, row: list[str], draws: Draws) -> Iterator[list[str]]:
        """A row whole, or where it is too long in pieces of as many paragraphs as passages have."""
        wanted = self._source.passages
        while wanted and len(row) > wanted.high:
            size = draws.integer(wanted.low, wanted.high)
            # Not so many that too few are left.
            size = max(wanted.low, min(size, len(row) - wanted.low))
            yield row[:size]
            row = row[size:]
        yield row

    def _drawn(
        self, level: Level, strings: Iterable[str], natural: Callable[[str], bool] | None = None
    ) -> list[str]:
        """Different strings in the order of their hash, as many as one document may give."""
        most = self._source.strings
        found: list[str] = []
        for string in self._ordered(level, strings):
            if most is not None and len(found) >= most:
                break
            if natural is None or natural(string):
                found.append(string)
        return found

    def _ordered(self, level: Level, strings: Iterable[str]) -> list[str]:
        key = f"{self._seed} {level} ".encode()

        def hashed(string: str) -> bytes:
            return hashlib.blake2b(string.encode(), key=key, digest_size=8).digest()

        return sorted(set(strings), key=hashed)


def _filtered(text: str, filters: Mapping[str, Filter]) -> str | None:
    """Which filter leaves a text out, None where none does."""
    for name, filtered in filters.items():
        with calling(f"The filter {name!r}"):
            if filtered(text):
                return name
    return None
