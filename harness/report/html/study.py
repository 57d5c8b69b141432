"""The page of a study: one HTML file without scripts that loads nothing from the network.

A cell's picture is drawn by style sheets: our interval, our value, and the published value on an
axis that the cells of the exhibit share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from harness.analysis.study import VERDICTS, Exhibit, Finding, Study
from harness.report.html.inline import asset, template
from harness.report.text import interval, number


def study_page(
    study: Study, found: Sequence[Finding], facts: Mapping[str, str], made_at: float
) -> str:
    """Render a study as HTML, dated ``made_at`` (epoch s); ``facts`` are hashes and versions."""
    return template("study.html.j2").render(
        study=study,
        style=Markup(asset("page.css") + asset("study.css")),  # noqa: S704 (ours)
        made_at=datetime.fromtimestamp(made_at, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        totals=Counter(one.verdict for one in found),
        simulated=sorted({one.run for one in found if one.why == "simulated"}),
        verdicts=VERDICTS,
        exhibits=[(one, one.columns or ["value"], [*_rows(one, found)]) for one in study.exhibits],
        facts=facts,
    )


def _rows(exhibit: Exhibit, found: Sequence[Finding]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the rows of an exhibit, with positions in per cent of the axis that they share."""
    own = [one for one in found if one.exhibit == exhibit.name]
    ends = [end for one in own for end in (one.published, one.ours, *(one.ci95 or ()))]
    known = [end for end in ends if end is not None]
    low, width = min(known, default=0.0), (max(known, default=1.0) - min(known, default=0.0)) or 1.0

    def at(value: float | None) -> str:
        return "" if value is None else f"{2 + 96 * (value - low) / width:.2f}%"

    for row in exhibit.published:
        yield (
            row,
            [
                {
                    "finding": one,
                    "ours": number(one.ours, exhibit.digits),
                    "interval": interval(one.ci95, exhibit.digits) if one.ci95 else "",
                    "published": number(one.published, exhibit.digits),
                    "dot": at(one.ours),
                    "mark": at(one.published),
                    "line": one.ci95
                    and (at(one.ci95[0]), f"{96 * (one.ci95[1] - one.ci95[0]) / width:.2f}%"),
                }
                for one in own
                if one.row == row
            ],
        )
