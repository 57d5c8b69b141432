"""Drops text without a sentence: headings, list items, names."""

from __future__ import annotations

from harness.scoring.constraints.levels import Splitter


class NoSentenceFilter:
    """Leaves out text in which no sentence has a period and more than two words."""

    def __init__(self, *, units: Splitter) -> None:
        self._units = units

    def __call__(self, text: str) -> bool:
        """Return whether no sentence is long enough."""
        return "." not in text or not any(
            "." in sentence and len(sentence.split()) > 2
            for sentence in self._units.sentences(text)
        )


plugin = NoSentenceFilter
