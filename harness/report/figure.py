"""A picture of the report: a chart that a browser draws, and its figures for who cannot see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One picture.

    name: of its file and its anchor: small letters, digits and ``_``.
    title: what it shows.
    caption: what its points, bars and bands are, and what they are made of.
    chart: a Vega-Lite specification with its data, no theme and no address in it; its
        width is ``container``.
    headings, rows: the same figures as a table.
    section: where it belongs: ``results``, ``comparison``, ``constraints``, ``outcomes``
        or ``cost``.
    """

    name: str
    title: str
    caption: str
    chart: Mapping[str, Any]
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    section: str = "results"
