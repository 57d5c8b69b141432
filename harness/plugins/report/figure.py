"""A figure (chart and table), the themes of charts, and stand-alone image files.

Runs' colours differ in lightness as well as hue, for readers who cannot distinguish hues (after
Okabe and Ito 2008, "Color Universal Design"). Combined with seven shapes, they distinguish 56 runs.
Names and numbers are formatted here, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from textwrap import wrap
from typing import Any

from jinja2 import Environment, FileSystemLoader

from harness.errors import import_extra
from harness.plugins.comparisons.comparison_document import ShownUnit
from harness.report.text import UNKNOWN, escape_unprintable, format_range, format_share
from harness.report.text import format_number as with_decimals
from harness.store.files import replace_atomically


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart, and its values as a table for readers who cannot see the chart."""

    name: str  # for a file name and an anchor: lower-case letters, digits and `_`
    title: str
    caption: str
    chart: Mapping[str, Any]  # Vega-Lite specification with data, without theme and URLs
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    section: str = "results"


LIGHT = ("#0072b2", "#c94a00", "#007a5a", "#a8407a", "#946400", "#33373d", "#6a3fa0", "#7a5230")
DARK = ("#56b4e9", "#f5854a", "#2cc295", "#e88fc2", "#e6b422", "#e6e8eb", "#b79cff", "#c9a27e")
"""Colours of runs, in order; light and dark mode have the same hue at the same index."""

SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "triangle-right")
"""Shapes of runs: seven, so that no combination with the eight colours repeats before run 57."""

RAMP = ("#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725")
"""Colours of heat maps, from low to high: viridis (Smith and van der Walt 2015)."""
LIGHT_INK_BELOW = 0.45  # numbers are white below this share of the colour ramp
DIVERGING = ("#b35806", "#e08214", "#fdb863", "#f7f7f7", "#92c5de", "#4393c3", "#2166ac")
"""Colours of differences, from the most negative over 0 to the most positive (ColorBrewer)."""
LIGHT_INK_BEYOND = 0.8  # numbers are white beyond this share of the largest difference

WIDTH = 640

_VEGA_LITE = "v6.4"  # the version that the pinned Altair generates
_CHARACTER = 7  # approximate width of a character in a title, in pixels


def run_shapes(n: int) -> list[str]:
    """Return the shapes of n runs or groups, which repeat after the last one."""
    return list(islice(cycle(SHAPES), n))


def config(dark: bool = False) -> dict[str, Any]:
    """Return the light or dark theme, a Vega-Lite ``config``."""
    return filled("theme", dark=dark, colours=DARK if dark else LIGHT, shapes=SHAPES)


@cache
def _templates() -> Environment:
    folder = Path(__file__).with_name("charts")
    # JSON, whose texts the filter `tojson` escapes.
    return Environment(loader=FileSystemLoader(folder))  # noqa: S701


def filled(name: str, **values: object) -> dict[str, Any]:
    """Return the JSON of a template in ``charts/``, filled in with values."""
    template = _templates().get_template(f"{name}.json.j2")
    tree: dict[str, Any] = json.loads(template.render(values))
    return tree


def image(figure: Figure, form: str, subtitle: str = "") -> bytes:
    """Return a figure as an image file's content. ``form`` is svg, pdf or png (double resolution).

    Raises:
        ValueError: If the chart contains a URL.
        ExtraMissing: If the library that draws images is not installed.
    """
    if _addresses(figure.chart):
        # The drawing library refuses to load external data, but not external images.
        raise ValueError(
            f"The chart {figure.name!r} contains a URL. Include what it points to in the data."
        )
    line = WIDTH // _CHARACTER
    specification = {
        **figure.chart,
        "width": WIDTH,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": 8,
        "title": {"text": wrap(figure.title, line) or [""], "subtitle": wrap(subtitle, line)},
        "config": {**config(), "background": "#ffffff"},
    }
    draw = getattr(import_extra("vl_convert", "report"), f"vegalite_to_{form}")
    options: dict[str, Any] = {"vl_version": _VEGA_LITE, "allowed_base_urls": []}
    if form == "png":
        options["scale"] = 2
    drawn = draw(specification, **options)
    if isinstance(drawn, str):
        return drawn.encode()
    return bytes(drawn)


def write_image(path: Path, picture: Figure, subtitle: str) -> None:
    """Write a figure to a file, in the format of its suffix. A missing folder is created."""
    drawn = image(picture, path.suffix.removeprefix("."), subtitle)
    remedy = "Free some space, fix the permissions, or name another place."
    with replace_atomically(path, remedy, follow=True) as temporary:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(drawn)


def _addresses(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(key in ("url", "href") or _addresses(part) for key, part in value.items())
    return isinstance(value, list | tuple) and any(map(_addresses, value))


LONGEST = 120  # maximum characters of a name in tables and tooltips
LINE = 34  # maximum characters per line of a name in axes and legends


def display_names(names: Iterable[str]) -> dict[str, str]:
    """Map names to distinct display names, each on one line, cut to about `LONGEST` characters."""
    every = list(dict.fromkeys(names))
    texts = []
    for name in every:
        text = escape_unprintable(name[:LONGEST]).strip()[:LONGEST]
        texts.append(text or "(empty)")
    return dict(zip(every, distinct(texts), strict=True))


def in_legend(names: Iterable[str]) -> list[str]:
    """Return display names cut to one line of about `LINE` characters, still distinct."""
    return distinct(_without_middle(name, LINE // 3) for name in names)


def on_axis(names: Iterable[str]) -> list[str]:
    """Return display names on at most two lines of about `LINE` characters, still distinct."""
    return distinct(map(_folded, names))


def _folded(name: str) -> str:
    if len(name) <= LINE:
        return name
    end_of_line = max(name.rfind(end, 0, LINE) for end in " _./:-") + 1 or LINE
    return f"{name[:end_of_line].rstrip()}\n{_without_middle(name[end_of_line:].lstrip(), 0)}"


def _without_middle(name: str, start: int) -> str:
    if len(name) <= LINE:
        return name
    return f"{name[:start]}…{name[start + 1 - LINE :]}"


def distinct(texts: Iterable[str], form: str = "{} ({})") -> list[str]:
    """Return texts made distinct: ``form`` combines a repeated text with a number from 2 up."""
    texts_by_order: dict[str, None] = {}
    for text in texts:
        candidate = text
        number = 2
        while candidate in texts_by_order:
            candidate = form.format(text, number)
            number += 1
        texts_by_order[candidate] = None
    return list(texts_by_order)


def slug(name: str) -> str:
    """Return a name for a file or anchor: 1 to 40 lower-case letters, digits and ``_``."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:40].strip("_") or "label"


NUMBER = ShownUnit(percent=False)


def number(value: float | None, sign: bool = False, unit: ShownUnit = NUMBER) -> str:
    """Format a value as a percentage or a number, depending on ``unit``, or as ``n/a`` for None."""
    if value is None:
        return UNKNOWN
    if unit.percent:
        return format_share(value, unit.digits, sign)
    if value == 0 or 0.001 <= abs(value) < 1000:
        return with_decimals(value, sign=sign)
    plus = "+" if sign else ""
    return f"{value:{plus}.3g}"


def interval(ci95: tuple[float, float] | None, sign: bool = False, unit: ShownUnit = NUMBER) -> str:
    """Format a 95% interval, or ``n/a`` for None."""
    if ci95 is None:
        return UNKNOWN
    low, high = ci95
    return f"{number(low, sign, unit)} to {number(high, sign, unit)}"


def sample_sizes(n: Mapping[str, int], noun: str) -> str:
    """Return the range of the runs' n as a sentence, such as ``n = 10 to 12 samples per run.``"""
    return f"n = {format_range(n.values())} {noun} per run."
