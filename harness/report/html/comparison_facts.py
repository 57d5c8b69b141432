"""The page's tables of a comparison, whose counts lead to the attempts that are meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from harness.analysis.comparison import Comparison
from harness.analysis.question import PASS_RATE
from harness.analysis.run_comparison import RunComparison
from harness.report.comparison_figures import HEADINGS, cells
from harness.report.html.table import Cell, Table

_CHANGES = ("more", "less")


def words(found: RunComparison, samples: Sequence[int]) -> tuple[str, str]:
    """What more and less are called: of a verdict for each instance, it was fixed or broken.

    samples: how many each run has of an instance.
    """
    if found.asked.score == PASS_RATE and set(samples) == {1}:
        return "fixed", "broken"
    return _CHANGES


def changes(found: RunComparison, samples: Sequence[int]) -> list[tuple[str, list[Cell]]]:
    """Of each run, in how many instances it is more and less than the baseline."""
    called = words(found, samples)
    return [
        (
            one.run,
            [
                Cell(f"{count:,} {word}", _link(what, one.run) if count else "")
                for what, word, count in zip(
                    _CHANGES, called, (one.overall.better, one.overall.worse), strict=True
                )
            ],
        )
        for one in found.others
    ]


def comparison_tables(found: RunComparison) -> list[Table]:
    """The runs against the baseline, and for each run its groups."""
    runs = [
        [
            Cell(one.run, notes=tuple(one.marks)),
            *_figures(one.overall, {what: _link(what, one.run) for what in _CHANGES}),
        ]
        for one in found.others
    ]
    tables = [Table(f"Runs against {found.baseline}", ("run", *HEADINGS), runs)]
    for one in found.others:
        rows = [
            [Cell(name), *_figures(group, _links_in(one.run, found.asked.by, name))]
            for name, group in one.groups.items()
        ]
        if rows:
            label = f"{one.run} against {found.baseline}, by {found.asked.by}"
            tables.append(Table(label, (found.asked.by, *HEADINGS), rows))
    return tables


def _figures(comparison: Comparison, links: Mapping[str, str]) -> list[Cell]:
    counts = {"more": comparison.better, "less": comparison.worse}
    return [
        Cell(text, links[heading] if counts.get(heading) else "")
        for heading, text in zip(HEADINGS, cells(comparison), strict=True)
    ]


def _links_in(run: str, label: str, group: str) -> dict[str, str]:
    """The links of a group of a label."""
    of_group = f"&{_quoted(f'in.{label}')}={_quoted(group)}"
    return {what: _link(what, run) + of_group for what in _CHANGES}


def _link(what: str, run: str) -> str:
    """To the attempts on the instances in which a run is more, or less (`assets/state.js`)."""
    return f"#attempts?change={what}:{_quoted(run)}"


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")
