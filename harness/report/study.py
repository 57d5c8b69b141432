"""Presents a study: in a terminal, and as an HTML page that loads nothing from the network.

For each cell, the page draws our value, its interval and the published value on an axis that all
cells of the exhibit share. The drawings use style sheets, and no script.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from harness.analysis.study import VERDICTS, Exhibit, Finding, Study, Verdict
from harness.report.html.inline import asset, built, marked, visible
from harness.report.table import Cell, Column, Note, Table, TableDocument, table
from harness.report.text import interval, number

STYLES = {"equal": "green", "within": "green", "outside": "bold red", "not comparable": "dim"}

_MOST = 30  # maximum number of cells outside the interval to list


def study_document(study: Study, found: Sequence[Finding]) -> TableDocument:
    """Build a study's summary: counts of cells by verdict, and up to `_MOST` cells "outside"."""
    counts = {exhibit.name: Counter[str]() for exhibit in study.exhibits}
    for one in found:
        counts[one.exhibit][one.verdict] += 1
    rows = [
        [exhibit.name, exhibit.shows, *(_count(counts[exhibit.name], v) for v in VERDICTS)]
        for exhibit in study.exhibits
    ]
    note = (
        "equal: to the published digits. within, outside: the published value is in, or not in, "
        "our 95% interval."
    )
    columns = ["exhibit", Column("shows", text=True), *VERDICTS]
    parts: list[Table | Note] = [table(columns, rows, notes=[note])]
    outside = [one for one in found if one.verdict == "outside"]
    if outside:
        digits = {exhibit.name: exhibit.digits for exhibit in study.exhibits}
        parts.append(table(
            ["outside", "row", "column", "published", "ours", "95%"],
            [[one.exhibit, one.row, one.column, number(one.published, digits[one.exhibit]),
              number(one.ours, digits[one.exhibit]), interval(one.ci95, digits[one.exhibit])]
             for one in outside[:_MOST]],
        ))  # fmt: skip
    reasons = Counter(one.why for one in found if one.verdict == "not comparable")
    parts += [Note(f"Not comparable: {n:,} cells, {why}.") for why, n in reasons.most_common()]
    return TableDocument(title=study.title, parts=parts)


def _count(counts: Counter[str], verdict: Verdict) -> Cell:
    return Cell(counts[verdict] or "", style=STYLES[verdict] if counts[verdict] else "")


def study_page(
    study: Study,
    found: Sequence[Finding],
    facts: Mapping[str, str],
    cautions: Sequence[str],
    made_at: float,
) -> str:
    """Return a study as an HTML page, with cautions at the top.

    ``facts`` are further facts by name. ``made_at`` is in epoch seconds.
    """
    return _template().render(
        study=study,
        style=Markup(built("app.css") + asset("study.css")),  # noqa: S704 (ours)
        made_at=datetime.fromtimestamp(made_at, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        totals=Counter(one.verdict for one in found),
        simulated=sorted({one.run for one in found if one.why == "simulated"}),
        verdicts=VERDICTS,
        exhibits=[_shown(one, found) for one in study.exhibits],
        facts=facts,
        cautions=cautions,
    )


def _template() -> Template:
    """Return the page's template, which escapes markup and shows hidden characters."""
    environment = Environment(
        loader=FunctionLoader(asset),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_inert,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["marked"] = marked
    return environment.get_template("study.html.j2")


def _inert(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _shown(exhibit: Exhibit, found: Sequence[Finding]) -> tuple[Any, ...]:
    own = [one for one in found if one.exhibit == exhibit.name]
    ends = [end for one in own for end in (one.published, one.ours, *(one.ci95 or ()))]
    known = [end for end in ends if end is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    axis = [number(end, exhibit.digits) for end in (low, high)] if known else None
    rows = list(_rows(exhibit, own, low, (high - low) or 1.0))
    return exhibit, exhibit.columns or ["value"], axis, rows


def _rows(
    exhibit: Exhibit, own: Sequence[Finding], low: float, width: float
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each row of an exhibit, with its cells. Positions are in per cent of a shared axis."""

    def at(value: float | None) -> str:
        return "" if value is None else f"{2 + 96 * (value - low) / width:.2f}%"

    def precision(one: Finding) -> str:
        if one.ci95:
            return interval(one.ci95, exhibit.digits)
        return f"n = {one.n}" if one.ours is not None else ""

    for row in exhibit.published:
        cells = [
            {
                "finding": one,
                "ours": number(one.ours, exhibit.digits),
                "precision": precision(one),
                "published": number(one.published, exhibit.digits),
                "dot": at(one.ours),
                "mark": at(one.published),
                "line": one.ci95
                and (at(one.ci95[0]), f"{96 * (one.ci95[1] - one.ci95[0]) / width:.2f}%"),
            }
            for one in own
            if one.row == row
        ]
        yield row, cells
