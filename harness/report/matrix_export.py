"""A matrix of runs for other programs and documents: Markdown, LaTeX, CSV and JSON.

Nothing is rounded in CSV and JSON, and nothing that is not known is 0 there: it is empty, or null.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence

import msgspec

from harness.analysis.clustered import SampleStatistic
from harness.analysis.comparison import Comparison
from harness.analysis.rankings import InducedRankings
from harness.analysis.run_comparison import PairMatrix
from harness.report.ablation_figures import whole
from harness.report.latex import escaped_latex
from harness.report.markdown import escaped, markdown_lines
from harness.report.matrix_figures import (
    RUN_HEADINGS,
    matrix_captions,
    p_cells,
    ranking_captions,
    run_cells,
    run_names,
    scoring_names,
    tau_cells,
    value_text,
)

_FIGURES = tuple(name for name in Comparison.__struct_fields__ if name != "ci95")
_VALUES = tuple(name for name in SampleStatistic.__struct_fields__ if name != "ci95")


def as_json(matrix: PairMatrix, rankings: InducedRankings | None = None) -> str:
    """Everything, in ASCII: no character of it can reach a terminal as a control."""
    told = {
        "matrix": msgspec.to_builtins(matrix),
        "rankings": None if rankings is None else msgspec.to_builtins(rankings),
    }
    return json.dumps(told, indent=2, allow_nan=False) + "\n"


def as_csv(matrix: PairMatrix, rankings: InducedRankings | None = None) -> str:
    """A line for each pair, each run's value by a scoring, and each tau: ``row`` says which.

    Of a pair ``first`` is the mean of the run ``against``, ``second`` that of the run ``name``.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    taus = ["tau_b", "tau_p_value", "n_runs"]
    writer.writerow(
        ["row", "name", "against", "marks", "starred", *_FIGURES, "ci95_low", "ci95_high"]
        + ["value_" + name for name in _VALUES]
        + taus
    )
    blank = [None] * (len(_FIGURES) + 2)
    no_value = [None] * len(_VALUES)
    no_tau = [None] * len(taus)
    runs = [whole(row.run) for row in matrix.rows]
    for pair in matrix.pairs:
        one = pair.comparison
        figures = [getattr(one, name) for name in _FIGURES]
        marks = "; ".join([*matrix.rows[pair.first].marks, *matrix.rows[pair.second].marks])
        named = ["pair", runs[pair.second], runs[pair.first], marks, pair.starred]
        writer.writerow([*named, *figures, *(one.ci95 or (None, None)), *no_value, *no_tau])
    for name, run, value in _values(matrix, rankings):
        named = ["value", runs[run], name, "; ".join(matrix.rows[run].marks), None]
        figures = [*[None] * len(_FIGURES), *(value.ci95 or (None, None))]
        own = [getattr(value, field) for field in _VALUES]
        writer.writerow([*named, *figures, *own, *no_tau])
    if rankings is not None:
        names = [whole(name) for name in scoring_names(rankings)]
        for tau in rankings.taus:
            named = ["tau", names[tau.second], names[tau.first], "", None]
            writer.writerow([*named, *blank, *no_value, tau.tau_b, tau.p_value, tau.n_runs])
    return file.getvalue()


def as_markdown(matrix: PairMatrix, rankings: InducedRankings | None = None) -> str:
    """The tables as they are in a wide terminal."""
    return "\n".join(_markdown(matrix, rankings)) + "\n"


def as_latex(matrix: PairMatrix, rankings: InducedRankings | None = None) -> str:
    """A tabular for each table (package booktabs), the notes as comments."""
    lines = [f"% {whole(caption)}" for caption in _captions(matrix, rankings)]
    for label, headings, rows in _tables(matrix, rankings):
        lines += [
            rf"\begin{{tabular}}{{l{'r' * len(headings)}}}",
            r"\toprule",
            " & ".join(map(escaped_latex, [label, *headings])) + r" \\",
            r"\midrule",
            *(" & ".join(map(escaped_latex, row)) + r" \\" for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
        ]
    return "\n".join(lines) + "\n"


def _markdown(matrix: PairMatrix, rankings: InducedRankings | None) -> Iterator[str]:
    yield f"**{escaped(f'{matrix.task}: {matrix.score}')}**"
    for label, headings, rows in _tables(matrix, rankings):
        yield ""
        yield from markdown_lines([label, *headings], rows)
    yield ""
    yield from map(escaped, _captions(matrix, rankings))


def _captions(matrix: PairMatrix, rankings: InducedRankings | None) -> list[str]:
    return matrix_captions(matrix) + (ranking_captions(rankings) if rankings else [])


def _tables(
    matrix: PairMatrix, rankings: InducedRankings | None
) -> Iterator[tuple[str, Sequence[str], list[list[str]]]]:
    """Of each table its label, its headings and its rows, each with its name before it."""
    names = [f"{number} {name}" for number, name in enumerate(run_names(matrix), start=1)]
    numbers = [str(number) for number in range(1, len(names) + 1)]
    own = [run_cells(row) for row in matrix.rows]
    yield "run", RUN_HEADINGS, _named(names, own)
    several = len(names) > 1
    if several:
        yield "p", numbers, _named(names, p_cells(matrix))
    if rankings is None:
        return
    if rankings.label:
        groups = [one for one in rankings.scorings if one.kind == "group"]
        cells = [[value_text(value) for value in one.values] for one in groups]
        yield rankings.label, numbers, _named([one.name for one in groups], cells)
    if not several:
        return
    scorings = [f"{at} {name}" for at, name in enumerate(scoring_names(rankings), start=1)]
    columns = [str(at) for at in range(1, len(scorings) + 1)]
    yield "tau-b", columns, _named(scorings, tau_cells(rankings))


def _named(names: Sequence[str], cells: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[name, *row] for name, row in zip(names, cells, strict=True)]


def _values(
    matrix: PairMatrix, rankings: InducedRankings | None
) -> Iterator[tuple[str, int, SampleStatistic]]:
    """A scoring, the place of a run, and its value there."""
    if rankings is None:
        for place, row in enumerate(matrix.rows):
            yield f"all: {whole(matrix.score)}", place, row.value
        return
    for name, one in zip(scoring_names(rankings), rankings.scorings, strict=True):
        for place, value in enumerate(one.values):
            if value is not None:
                yield whole(name), place, value
