"""Pictures as files that stand alone: SVG and PNG, made without a network or a browser.

Owns what a page would add: the theme, a background, a width and the title, which says
what must be said of the runs.

>>> as_svg(figure)[:4]  # doctest: +SKIP
'<svg'
"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import Any

from harness.report.figure import Figure
from harness.report.figures.theme import BACKGROUND, config

WIDTH = 640

_VEGA_LITE = "v6.4"
"""The version that the pinned Altair writes for."""

_CHARACTER = 7
"""Pixels of one in a title, about."""


def as_svg(figure: Figure, dark: bool = False, width: int = WIDTH, subtitle: str = "") -> str:
    """The picture as an SVG document that refers to nothing outside itself.

    subtitle: such as the run, where the picture is of one and has no legend.

    Raises: ValueError for a chart with an address in it.
    """
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(
        _whole(figure, dark, width, subtitle), vl_version=_VEGA_LITE, allowed_base_urls=[]
    )
    return svg


def as_png(
    figure: Figure,
    scale: float = 2,
    dark: bool = False,
    width: int = WIDTH,
    subtitle: str = "",
) -> bytes:
    """The picture as a PNG file, as `as_svg`. scale: pixels of a CSS pixel."""
    import vl_convert

    png: bytes = vl_convert.vegalite_to_png(
        _whole(figure, dark, width, subtitle),
        vl_version=_VEGA_LITE,
        scale=scale,
        allowed_base_urls=[],
    )
    return png


def _whole(figure: Figure, dark: bool, width: int, subtitle: str) -> dict[str, Any]:
    if _addresses(figure.chart):
        # The drawing library refuses data from elsewhere, but not images.
        raise ValueError(
            f"The chart {figure.name!r} has an address. Put what it points to into its data."
        )
    return {
        **figure.chart,
        "width": width,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": 8,
        "title": {"text": _lines(figure.title, width) or [""], "subtitle": _lines(subtitle, width)},
        "config": {**config(dark), "background": BACKGROUND[dark]},
    }


def _lines(text: str, width: int) -> list[str]:
    return wrap(text, max(20, width // _CHARACTER))


def _addresses(value: Any) -> bool:
    """Whether anything in a specification is to be fetched."""
    if isinstance(value, Mapping):
        return any(key in ("url", "href") or _addresses(one) for key, one in value.items())
    return isinstance(value, list | tuple) and any(map(_addresses, value))
