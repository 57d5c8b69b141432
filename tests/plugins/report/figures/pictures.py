"""Looking into a chart's specification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.plugins.report.figure import Figure


def units(figure: Figure) -> Iterator[tuple[Mapping[str, Any], list[Mapping[str, Any]]]]:
    """The marks of a chart, each with its data before any filter."""
    chart = figure.chart
    for unit in chart.get("layer", [chart]):
        name = unit.get("data", chart.get("data", {})).get("name")
        yield unit, chart["datasets"][name]


def fields(unit: Mapping[str, Any]) -> list[str]:
    """What the tooltip of a mark tells."""
    return [one["field"] for one in unit["encoding"]["tooltip"]]


def told(figure: Figure) -> list[tuple[str, ...]]:
    """All data of the chart in the words of their tooltips; lines that mean nothing are not."""
    return [
        tuple(str(datum[field]) for field in fields(unit))
        for unit, data in units(figure)
        if len(fields(unit)) > 1
        for datum in data
    ]


def strings(value: Any) -> Iterator[tuple[str, str]]:
    """All texts of a specification, keys among them, with the key they are under."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield key, key
            yield from ((key, text) if at == "" else (at, text) for at, text in strings(one))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from strings(one)
    elif isinstance(value, str):
        yield "", value


def column(figure: Figure, heading: str) -> list[str]:
    """A column of the table."""
    return [row[figure.headings.index(heading)] for row in figure.rows]
