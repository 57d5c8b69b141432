"""Pictures as files that stand alone: SVG, PNG and PDF, made without a network or a browser.

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


def as_svg(
    figure: Figure,
    dark: bool = False,
    width: int = WIDTH,
    subtitle: str = "",
    titled: bool = True,
) -> str:
    """The picture as an SVG document that refers to nothing outside itself.

    subtitle: such as the run, where the picture is of one and has no legend.
    titled: with title and subtitle. Without them the caption of a paper has to say what
        the title says: of simulated and unfinished runs, that they are.

    Raises: ValueError for a chart with an address in it.
    """
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(
        _whole(figure, dark, width, subtitle, titled),
        vl_version=_VEGA_LITE,
        allowed_base_urls=[],
    )
    return svg


def as_png(
    figure: Figure,
    scale: float = 2,
    dark: bool = False,
    width: int = WIDTH,
    subtitle: str = "",
    titled: bool = True,
) -> bytes:
    """The picture as a PNG file, as `as_svg`. scale: pixels of a CSS pixel."""
    import vl_convert

    png: bytes = vl_convert.vegalite_to_png(
        _whole(figure, dark, width, subtitle, titled),
        vl_version=_VEGA_LITE,
        scale=scale,
        allowed_base_urls=[],
    )
    return png


def as_pdf(
    figure: Figure,
    dark: bool = False,
    width: int = WIDTH,
    subtitle: str = "",
    titled: bool = True,
) -> bytes:
    """The picture as a PDF file of one page of its size, as `as_svg`."""
    import vl_convert

    pdf: bytes = vl_convert.vegalite_to_pdf(
        _whole(figure, dark, width, subtitle, titled),
        vl_version=_VEGA_LITE,
        allowed_base_urls=[],
    )
    return pdf


def _whole(figure: Figure, dark: bool, width: int, subtitle: str, titled: bool) -> dict[str, Any]:
    if _addresses(figure.chart):
        # The drawing library refuses data from elsewhere, but not images.
        raise ValueError(
            f"The chart {figure.name!r} has an address. Put what it points to into its data."
        )
    title = {"text": _lines(figure.title, width) or [""], "subtitle": _lines(subtitle, width)}
    return {
        **figure.chart,
        "width": width,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": 8,
        **({"title": title} if titled else {}),
        "config": {**config(dark), "background": BACKGROUND[dark]},
    }


def _lines(text: str, width: int) -> list[str]:
    return wrap(text, max(20, width // _CHARACTER))


def _addresses(value: Any) -> bool:
    """Whether anything in a specification is to be fetched."""
    if isinstance(value, Mapping):
        return any(key in ("url", "href") or _addresses(one) for key, one in value.items())
    return isinstance(value, list | tuple) and any(map(_addresses, value))
