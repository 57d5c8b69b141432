"""Documents as Markdown, LaTeX, CSV and JSON.

CSV and JSON round nothing, and an unknown value is empty or null there, never 0. JSON is ASCII,
and every other format escapes what its reader would obey.

>>> print(FORMATS["markdown"](Document(parts=[Table(columns=[Column("a")], rows=[Row(["x|y"])])])))
| a |
|---|
| x\\|y |
<BLANKLINE>
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from harness.report.table import Column, Document, Note, Row, Table
from harness.report.text import printable

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "—": "---",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def as_markdown(document: Document) -> str:
    """All parts of a document, with every column of its tables."""
    return "\n".join(_markdown(document)) + "\n"


def as_latex(document: Document) -> str:
    """A tabular for each table (package booktabs); paragraphs become comments."""
    lines: list[str] = []
    for part in document.parts:
        if isinstance(part, Table):
            lines += _tabular(part)
            lines += (f"% {printable(note)}" for note in part.notes)
        else:
            lines.append(f"% {printable(part.text)}")
    return "\n".join(lines) + "\n"


def as_csv(document: Document) -> str:
    """The records of a document, in full precision."""
    if document.records is None:
        raise ValueError("the document has no records")
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(printable(column.key) for column in document.records.columns)
    for row in document.records.rows:
        writer.writerow(printable(cell) if isinstance(cell, str) else cell for cell in row.cells)
    return file.getvalue()


def as_json(document: Document) -> str:
    """The data of a document."""
    told = msgspec.to_builtins(document.data, str_keys=True)
    return json.dumps(told, indent=2, allow_nan=False) + "\n"


FORMATS: Mapping[str, Callable[[Document], str]] = {
    "markdown": as_markdown,
    "latex": as_latex,
    "csv": as_csv,
    "json": as_json,
}


def escaped_markdown(text: str) -> str:
    """Text on one line, without anything that Markdown or a terminal would obey."""
    shown = printable(text)
    for mark in "\\|<>[]`*":
        shown = shown.replace(mark, f"\\{mark}")
    return shown


def escaped_latex(text: str) -> str:
    r"""Text on one line, without anything that LaTeX or a terminal would obey.

    >>> escaped_latex("50 % of a_b")
    '50 \\% of a\\_b'
    """
    return "".join(_LATEX.get(character, character) for character in printable(text))


def _markdown(document: Document) -> Iterator[str]:
    marks = f" ({'; '.join(document.marks)})" if document.marks else ""
    if document.title:
        yield f"**{escaped_markdown(document.title + marks)}**"
    before: Table | Note | None = None
    for part in document.parts:
        if (before is not None or document.title) and not (
            isinstance(part, Note) and isinstance(before, Note)
        ):
            yield ""
        before = part
        if isinstance(part, Note):
            yield escaped_markdown(part.text)
            continue
        if part.title:
            yield from (f"**{escaped_markdown(part.title)}**", "")
        headings = [f"{column.over} {column.heading}".strip() for column in part.columns]
        yield _markdown_row(headings)
        yield f"|{'---|' * len(headings)}"
        footer = [] if part.footer is None else [part.footer]
        for row in [*part.rows, *footer]:
            yield _markdown_row(_named(part, row))
        yield from map(escaped_markdown, part.notes)


def _markdown_row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(map(escaped_markdown, texts))} |"


def _named(table: Table, row: Row) -> list[str]:
    """The texts of a row; its marks stand behind its first name."""
    texts = table.texts(row)
    if row.marks:
        texts[0] += f" ({'; '.join(row.marks)})"
    return texts


def _tabular(table: Table) -> Iterator[str]:
    if table.title:
        yield f"% {printable(table.title)}"
    yield rf"\begin{{tabular}}{{{''.join('l' if c.text else 'r' for c in table.columns)}}}"
    yield r"\toprule"
    yield from _spans(table.columns)
    before = None
    for row in table.rows:
        texts = _named(table, row)
        if before is None or (table.sectioned and texts[0] != before):
            yield r"\midrule"
        before = texts[0]
        yield _latex_row(texts)
    if table.footer is not None:
        yield r"\midrule"
        yield _latex_row(_named(table, table.footer))
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _spans(columns: Sequence[Column]) -> Iterator[str]:
    """The headings, below those that several columns share."""
    spans, rules, at = [], [], 1
    for over, group in groupby(columns, lambda column: column.over):
        n = len(list(group))
        if over:
            spans.append(rf"\multicolumn{{{n}}}{{c}}{{{escaped_latex(over)}}}")
            rules.append(rf"\cmidrule(lr){{{at}-{at + n - 1}}}")
        else:
            spans += [""] * n
        at += n
    if rules:
        yield " & ".join(spans) + r" \\"
        yield " ".join(rules)
    yield _latex_row([column.heading for column in columns])


def _latex_row(texts: Sequence[str]) -> str:
    return " & ".join(map(escaped_latex, texts)) + r" \\"
