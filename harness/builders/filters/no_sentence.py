"""Drops text without a sentence: headings, list items, names."""

from harness.ports import Filter
from harness.scoring.constraints.levels import Splitter


def plugin(*, units: Splitter) -> Filter:
    """Drop text in which no sentence has a period and more than two words."""
    return lambda text: (
        not any(
            "." in sentence and len(sentence.split()) > 2
            for sentence in (units.sentences(text) if "." in text else ())
        )
    )
