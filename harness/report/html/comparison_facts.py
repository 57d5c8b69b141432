"""What the page says of a comparison, its counts leading to the attempts that are meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from harness.analysis.comparison import Comparison
from harness.analysis.metrics import PASS_RATE
from harness.analysis.run_comparison import Against, RunComparison
from harness.report.comparison_figures import HEADINGS, cells
from harness.report.html.table import Cell, Table
from harness.report.reported_run import ReportedRun

_CHANGES = ("better", "worse")


def changes(found: RunComparison) -> list[tuple[str, list[Cell]]]:
    """Of each run, on how many instances it is better and worse than the baseline, and equal.

    >>> changes(found)  # doctest: +SKIP
    [('strong', [Cell('better on 96'), Cell('of 130 instances'), …])]
    """
    return [(one.run, _counts(one)) for one in found.others]


def _counts(one: Against) -> list[Cell]:
    found = one.overall
    better, worse = (
        Cell(f"{what} on {count:,}", _link(what, one.run) if count else "")
        for what, count in zip(_CHANGES, (found.better, found.worse), strict=True)
    )
    of = Cell(f" of {found.n:,} instance{'s' if found.n != 1 else ''}, ")
    return [better, of, worse, Cell(f", equal on {found.n - found.better - found.worse:,}")]


def unequal(found: RunComparison, runs: Sequence[ReportedRun]) -> list[str]:
    """Sentences on runs that had unequal chances: more rounds, more samples, other instances."""
    told = []
    rounds = _several(runs, "rounds.max", [run.attempts.round.max(initial=1) for run in runs])
    if rounds:
        upto = f" up to {found.asked.round}" if found.asked.round else ""
        what = "first rounds" if found.asked.round == 1 else f"each sample's last round{upto}"
        told.append(f"The runs have {rounds} rounds: the comparison is of {what}.")
    samples = _several(runs, "samples", [run.attempts.sample.max(initial=0) + 1 for run in runs])
    if samples:
        what = "share of passed samples" if found.asked.score == PASS_RATE else "mean"
        told.append(
            f"The runs have {samples} samples of an instance: the comparison is of each "
            f"instance's {what}."
        )
    if any(one.overall.only_first or one.overall.only_second for one in found.others):
        have = ", ".join(f"{run.name} {run.metrics.n_instances:,}" for run in runs)
        told.append(
            f"The runs do not have the same instances ({have}): tables and pictures of runs are of "
            "all that each has, the comparison is of those that two have."
        )
    return told


def _several(runs: Sequence[ReportedRun], key: str, there: Sequence[int]) -> str:
    """The values of a setting, or of what there is where it is not set; empty where all are one."""
    values = [run.settings.get(key) for run in runs]
    numbers = {
        value if isinstance(value, int) else int(other)
        for value, other in zip(values, there, strict=True)
    }
    *first, last = [f"{number:,}" for number in sorted(numbers)] or [""]
    return f"{', '.join(first)} and {last}" if first else ""


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
    """The figures under `HEADINGS`; the last two are in how many it is better, and worse."""
    *figures, better, worse = cells(comparison)
    return [
        *map(Cell, figures),
        Cell(better, links["better"] if comparison.better else ""),
        Cell(worse, links["worse"] if comparison.worse else ""),
    ]


def _links_in(run: str, label: str, group: str) -> dict[str, str]:
    """The links of a group of a label."""
    of_group = f"&{_quoted(f'in.{label}')}={_quoted(group)}"
    return {what: _link(what, run) + of_group for what in _CHANGES}


def _link(what: str, run: str) -> str:
    """To the attempts on the instances in which a run is better, or worse (`assets/state.js`)."""
    return f"#attempts?change={what}:{_quoted(run)}"


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")
