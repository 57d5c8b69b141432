"""What charts share: data with tooltips and a table of the same texts, scales, axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.plugins import import_extra

if TYPE_CHECKING:
    import altair as alt
else:
    alt = import_extra("altair", "report")

__all__ = ["Sheet", "alt"]

STEP = 22
"""Pixels of a row."""
WIDE = 50
"""An axis is logarithmic if its values differ by more than this factor."""
PADDING = 8
"""Pixels at either end of an axis: for marks there, and for labels under its ends."""

SIGNED = "datum.value == 0 ? '0' : format(datum.value, '+.3~r')"
"""The format of an axis of signed numbers."""

UNIT = alt.Scale(domain=[0, 1])


class Sheet:
    """The data of a chart. Its tooltips and the figure's table have the same texts."""

    def __init__(self, *headings: str) -> None:
        self.headings = headings
        self.rows: list[tuple[str, ...]] = []
        self.data: list[dict[str, Any]] = []

    def add(self, texts: Sequence[str], **fields: Any) -> None:
        """Add a datum.

        Args:
            texts: Its row of the table, under the headings.
            fields: What the chart's channels use.
        """
        self.rows.append(tuple(texts))
        self.data.append({**fields, **{f"t{at}": text for at, text in enumerate(texts)}})

    def base(self) -> alt.Chart:
        """A chart of the data with its tooltips."""
        tooltip = [
            alt.Tooltip(f"t{at}:N", title=heading) for at, heading in enumerate(self.headings)
        ]
        return alt.Chart(alt.InlineData(values=self.data)).encode(tooltip=tooltip)


def bounds(ci95: tuple[float, float] | None) -> dict[str, float | None]:
    """An interval as fields of a datum."""
    low, high = ci95 or (None, None)
    return {"low": low, "high": high}


def known(chart: alt.Chart, field: str = "value") -> alt.Chart:
    """The data that have a field."""
    return chart.transform_filter(f"isValid(datum.{field})")


def unknown(chart: alt.Chart, field: str = "value") -> alt.Chart:
    """The data that lack a field."""
    return chart.transform_filter(f"!isValid(datum.{field})")


def specification(*layers: Any, height: Any) -> dict[str, Any]:
    """Layers on top of each other, without what belongs to the page: theme, schema, addresses."""
    chart = layers[0] if len(layers) == 1 else alt.layer(*layers)
    found: dict[str, Any] = chart.properties(width="container", height=height).to_dict()
    return {key: value for key, value in found.items() if key not in ("$schema", "config")}


def name_axis(**options: Any) -> alt.Axis:
    """An axis of names; those of two lines are split here, for data has only one line."""
    middle = {"condition": {"test": "indexof(datum.label, '\\n') >= 0", "value": -5.5}, "value": 0}
    return alt.Axis(
        title=None,
        labelExpr="split(datum.label, '\\n')",
        labelLineHeight=11,
        labelOffset=middle,
        # Room for a dot at the figure's edge.
        **{"labelPadding": 8, "labelLimit": 215, "ticks": False, **options},
    )


def share_axis(title: str) -> alt.Axis:
    """An axis of percentages."""
    return alt.Axis(title=title, format=".0%", tickCount=5)


def wide(values: Sequence[float]) -> bool:
    """Whether a logarithmic axis is needed, and possible."""
    return min(values) > 0 and max(values) / min(values) > WIDE


def number_scale(values: Sequence[float], zero: bool = True) -> alt.Scale:
    """A logarithmic scale where it is needed, otherwise a linear one, from 0 if ``zero``."""
    if wide(values):
        return alt.Scale(type="log", nice=False, padding=PADDING)
    return alt.Scale(zero=zero, nice=False, padding=PADDING)


def number_title(values: Sequence[float], title: str) -> str:
    """The title of an axis, which says if it is logarithmic."""
    return f"{title} (logarithmic)" if wide(values) else title


def number_x(field: str, values: Sequence[float], title: str) -> alt.X:
    """A horizontal channel of numbers."""
    axis = alt.Axis(title=number_title(values, title), tickCount=4, format="~g", grid=True)
    return alt.X(f"{field}:Q", scale=number_scale(values), axis=axis)
