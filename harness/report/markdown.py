"""Tables in Markdown, from names that may be anything.

>>> list(markdown_lines(["a"], [["x|y"]]))
['| a |', '|---|', '| x\\\\|y |']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from harness.report.ablation_figures import whole


def markdown_lines(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table."""
    for number, row in enumerate([headings, *rows]):
        yield f"| {' | '.join(map(escaped, row))} |"
        if number == 0:
            yield f"|{'---|' * len(headings)}"


def escaped(text: str) -> str:
    """On one line, with nothing that Markdown or a terminal would obey."""
    shown = whole(text)
    for mark in "\\|<>[]`*":
        shown = shown.replace(mark, f"\\{mark}")
    return shown
