"""How the pictures look: a Vega-Lite configuration for a light and for a dark page.

Owns the colours. Those of runs differ in lightness as well as in hue, for readers
who do not tell hues apart (after Okabe and Ito 2008, "Color Universal Design",
darkened for white paper and lightened for dark), and each run also has a shape.
After eight runs the colours begin anew, after seven the shapes: 56 runs differ.

>>> config()["background"]
'transparent'
"""

from __future__ import annotations

from typing import Any

LIGHT = ("#0072b2", "#c94a00", "#007a5a", "#a8407a", "#946400", "#33373d", "#6a3fa0", "#7a5230")
DARK = ("#56b4e9", "#f5854a", "#2cc295", "#e88fc2", "#e6b422", "#e6e8eb", "#b79cff", "#c9a27e")
"""Of runs, in their order; the same hue at the same place."""

SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "triangle-right")
"""Of runs; seven, so that they do not begin anew together with the colours."""

# Of outcomes, in the order of harness.records.OUTCOMES: what is fine is calm.
_OUTCOMES_LIGHT = ("#5b8fb9", "#b58900", "#8e4fa8", "#8a8f98", "#1f8a70", "#c22f2f")
_OUTCOMES_DARK = ("#5b8fb9", "#e0b431", "#c08ad6", "#9aa1ab", "#3fbf9f", "#f0625f")

RAMP = ("#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725")
"""Of heat maps, from little to much, on any page: viridis (Smith and van der Walt 2015)."""
LIGHT_INK_BELOW = 0.45
"""Where on the ramp figures have to be written in white."""

BACKGROUND = {False: "#ffffff", True: "#16181d"}
"""Of a picture that stands on no page."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"


def config(dark: bool = False) -> dict[str, Any]:
    """The ``config`` of a chart's specification, on a background that shines through.

    dark: for light ink on a dark page.
    """
    ink, faint, line = ("#1f2328", "#59616c", "#e1e4e8")
    if dark:
        ink, faint, line = ("#e6e8eb", "#a6adb8", "#343a44")
    text = {"labelColor": ink, "titleColor": faint, "titleFontWeight": "normal"}
    return {
        "background": "transparent",
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            **text,
            "labelFontSize": 11,
            "titleFontSize": 11,
            "labelLimit": 170,
            # Under its line, also at the edge.
            "labelFlush": False,
            "gridColor": line,
            "domain": False,
            "tickColor": line,
            "tickSize": 4,
        },
        "legend": {
            **text,
            "orient": "top",
            "columns": 2,
            "layout": {"top": {"anchor": "start", "direction": "vertical", "margin": 4}},
            "labelFontSize": 11,
            "labelLimit": 210,
            "titleLimit": 300,
            "symbolSize": 70,
            "rowPadding": 2,
        },
        "title": {
            "color": ink,
            "subtitleColor": faint,
            "anchor": "start",
            "fontSize": 13,
            "offset": 10,
        },
        "rule": {"color": faint},
        "text": {"color": ink, "fontSize": 11},
        "range": {
            "category": list(DARK if dark else LIGHT),
            "ordinal": list(_OUTCOMES_DARK if dark else _OUTCOMES_LIGHT),
            "symbol": list(SHAPES),
        },
    }
