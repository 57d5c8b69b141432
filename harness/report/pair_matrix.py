"""Presents the comparisons of every pair of runs, and rankings of the runs by several scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.breakdown import explained
from harness.analysis.comparison import Comparison
from harness.analysis.metrics import SampleStatistic
from harness.analysis.rankings import SATISFIED, InducedRankings, Scoring
from harness.analysis.run_comparison import STARRED, MatrixRow, PairMatrix
from harness.analysis.run_differences import SERIOUS
from harness.report.comparison import TESTS, answers_text, score_name, serious_notes, units_shown
from harness.report.table import Note, Row, Table, TableDocument, flat, table
from harness.report.text import number, p_value

_VALUES = tuple(name for name in SampleStatistic.__struct_fields__ if name != "ci95")
_COMPARED = tuple(name for name in Comparison.__struct_fields__ if name != "ci95")
_KEYS = (
    *("row", "name", "against", "score", "marks", "starred"),
    *(*_COMPARED, "ci95_low", "ci95_high"),
    *(f"value_{name}" for name in _VALUES),
    *("tau_b", "tau_p_value", "n_runs"),
)


def matrix_document(matrix: PairMatrix, rankings: InducedRankings | None = None) -> TableDocument:
    """Build the document of all pairs of runs: means, p values and, if given, ``rankings``."""
    several = len(matrix.rows) > 1
    names = [f"{place} {_run_name(row)}" for place, row in enumerate(matrix.rows, start=1)]
    runs = [
        Row([name, _mean(row.value), row.value.ci95, row.value.n, row.value.missing], row.marks)
        for name, row in zip(names, matrix.rows, strict=True)
    ]
    parts: list[Table | Note] = [table(["run", "mean ± s.e.", "95%", "n", "missing"], runs)]
    if several:
        pairs = [[name, *cells] for name, cells in zip(names, p_cells(matrix), strict=True)]
        parts.append(_numbered("p / p (Holm)", pairs))
    if rankings is not None:
        if rankings.label:
            means = [
                [scoring.name, *map(_mean, scoring.values)]
                for scoring in rankings.scorings
                if scoring.kind == "group"
            ]
            heading = rankings.label
            if rankings.of == "constraints":  # not the score that the title names
                heading = f"{SATISFIED}, by {rankings.label}"
            parts.append(_numbered(heading, means))
        if several:
            parts.append(_numbered("tau-b", _taus(rankings)))
    captions = [*_matrix_captions(matrix), *(_ranking_captions(rankings) if rankings else ())]
    return TableDocument(
        title=f"{matrix.task}: {matrix.score}",
        parts=[*serious_notes(matrix.notes), *parts, *map(Note, captions)],
        records=[dict.fromkeys(_KEYS) | record for record in _matrix_records(matrix, rankings)],
        data={"matrix": matrix, "rankings": rankings},
    )


def _numbered(label: str, rows: Sequence[Sequence[object]]) -> Table:
    return table([label, *map(str, range(1, len(rows[0])))], rows)


def _run_name(row: MatrixRow) -> str:
    return row.run if row.model in ("", row.run) else f"{row.run} ({row.model})"


def _mean(value: SampleStatistic | None) -> object:
    return value if value is None or value.stderr is not None else value.mean


def p_cells(matrix: PairMatrix) -> list[list[str]]:
    """Return the cells of a square table: p below the diagonal (starred if small), Holm's above."""
    cells = [["·" for _ in matrix.rows] for _ in matrix.rows]
    for pair in matrix.pairs:
        comparison = pair.comparison
        cells[pair.second][pair.first] = p_value(comparison.p_value) + "*" * pair.starred
        cells[pair.first][pair.second] = p_value(comparison.p_adjusted)
    return cells


def _taus(rankings: InducedRankings) -> list[list[object]]:
    blank = [""] * len(rankings.scorings)
    rows: list[list[object]] = [
        [f"{place} {name}", *blank] for place, name in enumerate(_scoring_names(rankings), start=1)
    ]
    for tau in rankings.taus:
        rows[tau.second][1 + tau.first] = _tau_text(tau.tau_b)
    return rows


def _tau_text(tau_b: float | None) -> str:
    return number(tau_b, 2, sign=True)


def _scoring_names(rankings: InducedRankings) -> list[str]:
    kinds = {"all": "all: ", "external": "published: ", "group": ""}
    names = [f"{kinds[scoring.kind]}{scoring.name}" for scoring in rankings.scorings]
    # A bare number would be mistaken for a row number.
    return [f"{rankings.label} {name}" if name.isdecimal() else name for name in names]


def _matrix_captions(matrix: PairMatrix) -> Iterator[str]:
    yield (
        f"{score_name(matrix.score)} of {answers_text(matrix.round)}; the statistical units are "
        f"{units_shown(matrix.cluster)}."
    )
    yield from explained(matrix.score)
    comparisons = [pair.comparison for pair in matrix.pairs]
    methods = dict.fromkeys(TESTS[comparison.method] for comparison in comparisons if comparison.n)
    if methods:
        tested = sum(comparison.p_value is not None for comparison in comparisons)
        yield (
            f"Below the diagonal: p of each pair by {' or '.join(methods)}, over the instances for "
            f"which both have a value; * p < {STARRED}. Above: p adjusted by Holm's method "
            f"over all pairs that have one ({tested}); use it when looking for differences."
        )
    excluded = [sum(filter(None, (c.only_first, c.only_second, c.not_judged))) for c in comparisons]
    if any(excluded):
        n_pairs = len(excluded) - excluded.count(0)
        yield (
            f"{n_pairs} pairs exclude instances for which only one run has a value: up to "
            f"{max(excluded):,} (--format csv). A missing value is not counted as a failure."
        )
    yield from (note for note in matrix.notes if not note.startswith(SERIOUS))


def _ranking_captions(rankings: InducedRankings) -> Iterator[str]:
    if rankings.label and rankings.of == "constraints":
        yield (
            f"{rankings.label}: share of constraints satisfied, by the judge {rankings.judge!r}, "
            "each with equal weight; errors clustered by prompt."
        )
        if any(rankings.without):
            counts = ", ".join(f"{n:,}" for n in rankings.without)
            yield f"Samples without a verdict on any constraint, excluded, run by run: {counts}."
    elif rankings.label:
        yield f"{rankings.label}: mean {rankings.score} of each group."
    if len(rankings.scorings[0].values) > 1:
        fewest = min((tau.n_runs for tau in rankings.taus), default=0)
        yield (
            "Kendall's tau-b of the rankings of the runs by each two scores, over at least "
            f"{fewest} runs."
        )
    for tau in rankings.taus:
        if tau.first == 0 and rankings.scorings[tau.second].kind == "external":
            published = rankings.scorings[tau.second].name
            yield (
                f"{published}, published: tau-b {_tau_text(tau.tau_b)} with "
                f"{rankings.score} over all, p {p_value(tau.p_value)}, {tau.n_runs} runs."
            )
    if rankings.unmatched:
        n = len(rankings.unmatched)
        names = ", ".join(rankings.unmatched[:5]) + ", …" * (n > 5)
        yield f"Published scores that match no run's model or name ({n:,}): {names}."


def _matrix_records(
    matrix: PairMatrix, rankings: InducedRankings | None
) -> Iterator[dict[str, object]]:
    for pair in matrix.pairs:
        baseline = matrix.rows[pair.first]
        run = matrix.rows[pair.second]
        marks = "; ".join([*baseline.marks, *run.marks])
        record = {"row": "pair", "name": run.run, "against": baseline.run, "marks": marks}
        yield record | {"starred": pair.starred} | flat(pair.comparison)
    overall: list[SampleStatistic | None] = [row.value for row in matrix.rows]
    scorings = {
        f"all: {matrix.score}": Scoring(
            name=matrix.score, kind="all", score=matrix.score, values=overall
        )
    }
    if rankings is not None:
        scorings = dict(zip(_scoring_names(rankings), rankings.scorings, strict=True))
    for name, scoring in scorings.items():
        for row, value in zip(matrix.rows, scoring.values, strict=True):
            if value is not None:
                marks = "; ".join(row.marks)
                figures = {
                    key if key.startswith("ci95") else f"value_{key}": figure
                    for key, figure in flat(value).items()
                }
                record = {"row": "value", "name": row.run, "against": name, "marks": marks}
                yield record | {"score": scoring.score} | figures
    names = list(scorings)
    for tau in rankings.taus if rankings is not None else ():
        record = {"row": "tau", "name": names[tau.second], "against": names[tau.first], "marks": ""}
        yield record | {"tau_b": tau.tau_b, "tau_p_value": tau.p_value, "n_runs": tau.n_runs}
