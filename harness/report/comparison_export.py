"""A comparison of runs for other programs and documents: Markdown, LaTeX, CSV and JSON.

Nothing is rounded in CSV and JSON, and nothing that is not known is 0 there: it is
empty, or null.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

import msgspec

from harness.analysis.comparison import Comparison
from harness.analysis.run_comparison import RunComparison
from harness.report.ablation_figures import whole
from harness.report.comparison_figures import HEADINGS, captions, cells, details
from harness.report.latex import escaped_latex
from harness.report.markdown import escaped, markdown_lines

_FIGURES = tuple(name for name in Comparison.__struct_fields__ if name not in ("ci95",))


def as_json(found: RunComparison) -> str:
    """Everything, in ASCII: no character of it can reach a terminal as a control."""
    told = msgspec.to_builtins(found)
    for one in told["others"]:
        del one["better_digests"], one["worse_digests"]
    return json.dumps(told, indent=2, allow_nan=False) + "\n"


def as_csv(found: RunComparison) -> str:
    """A line for each run, and for each of its groups."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["run", "label", "group", "marks", *_FIGURES, "ci95_low", "ci95_high"])
    for run, label, group, marks, one in _rows(found):
        low, high = one.ci95 or (None, None)
        figures = [getattr(one, name) for name in _FIGURES]
        writer.writerow(
            [whole(run), whole(label), whole(group), "; ".join(marks), *figures, low, high]
        )
    return file.getvalue()


def as_markdown(found: RunComparison) -> str:
    """The tables as they are in the terminal, with every column."""
    return "\n".join(_markdown(found)) + "\n"


def as_latex(found: RunComparison) -> str:
    """A tabular of the runs, each with its groups and constraints below (package booktabs)."""
    lines = [
        r"\begin{tabular}{l" + "r" * len(HEADINGS) + "}",
        r"\toprule",
        " & ".join(map(escaped_latex, ["run", *HEADINGS])) + r" \\",
    ]
    before = None
    for run, label, group, marks, one in _rows(found):
        if (run, label) != before:
            lines.append(r"\midrule")
            before = run, label
        name = group if label else " ".join([run, *(f"({mark})" for mark in marks)])
        indent = r"\quad " if label else ""
        lines.append(indent + " & ".join(map(escaped_latex, [name, *cells(one)])) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _rows(
    found: RunComparison,
) -> Iterator[tuple[str, str, str, list[str], Comparison]]:
    """Run, label and group (empty over all), marks, comparison."""
    for one in found.others:
        yield one.run, "", "", one.marks, one.overall
        for group, comparison in one.groups.items():
            yield one.run, found.asked.by, group, [], comparison
        for kind, change in one.constraints.items():
            yield one.run, "constraint", kind, [], change.comparison


def _markdown(found: RunComparison) -> Iterator[str]:
    yield f"**{escaped(f'{found.task}: against {found.baseline}')}**"
    yield ""
    rows = []
    for one in found.others:
        marks = f" ({'; '.join(one.marks)})" if one.marks else ""
        rows.append([one.run + marks, *cells(one.overall)])
    yield from markdown_lines(["run", *HEADINGS], rows)
    for one in found.others:
        yield ""
        yield escaped(f"{one.run}: {' '.join(details(one, found))}")
        if one.groups:
            yield ""
            groups = [[name, *cells(group)] for name, group in one.groups.items()]
            yield from markdown_lines([found.asked.by, *HEADINGS], groups)
        if one.constraints:
            yield ""
            kinds = [[name, *cells(kind.comparison)] for name, kind in one.constraints.items()]
            yield from markdown_lines(["constraint", *HEADINGS], kinds)
    yield ""
    yield from map(escaped, captions(found))
