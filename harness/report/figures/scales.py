"""Scales of numbers: logarithmic where they are far apart."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

WIDE = 50
"""From so many times as much on, an axis is logarithmic."""

PADDING = 8
"""Pixels at either end of an axis: for marks there, and figures under its ends."""


def wide(values: Sequence[float]) -> bool:
    """Whether a logarithmic axis is needed, and possible."""
    return min(values) > 0 and max(values) / min(values) > WIDE


def number_scale(values: Sequence[float], zero: bool = True) -> alt.Scale:
    """Of an axis. zero: where it is not logarithmic, it begins there."""
    if wide(values):
        return alt.Scale(type="log", nice=False, padding=PADDING)
    return alt.Scale(zero=zero, nice=False, padding=PADDING)


def number_axis(values: Sequence[float], title: str) -> alt.Axis:
    """The axis, which says that it is logarithmic."""
    told = f"{title} (logarithmic)" if wide(values) else title
    return alt.Axis(title=told, tickCount=4, format="~g", grid=True)
