"""A matrix of runs: each pair's p values, and how groups and published scores rank the runs.

Columns of the matrices are numbered like their rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.clustered import SampleStatistic
from harness.analysis.comparison import Comparison
from harness.analysis.rankings import InducedRankings
from harness.analysis.run_comparison import STARRED, MatrixRow, PairMatrix, RunPair
from harness.report.comparison import TESTS, answers_of, score_name, units_of
from harness.report.table import Note, Row, Table, TableDocument, WithError, flat, table
from harness.report.text import number, p_value

DIAGONAL = "·"
_VALUES = tuple(name for name in SampleStatistic.__struct_fields__ if name != "ci95")
_COMPARED = tuple(name for name in Comparison.__struct_fields__ if name != "ci95")
_KEYS = (
    *("row", "name", "against", "marks", "starred"),
    *(*_COMPARED, "ci95_low", "ci95_high"),
    *(f"value_{name}" for name in _VALUES),
    *("tau_b", "tau_p_value", "n_runs"),
)


def matrix_document(matrix: PairMatrix, rankings: InducedRankings | None = None) -> TableDocument:
    """Build the document: the runs, their pairs, how each group ranks them, and the notes."""
    several = len(matrix.rows) > 1
    runs = [
        Row([f"{at} {_run_name(row)}", _shown(row.value), row.value.ci95,
             row.value.n, row.value.missing], row.marks)
        for at, row in enumerate(matrix.rows, start=1)
    ]  # fmt: skip
    parts: list[Table | Note] = [table(["run", "mean ± s.e.", "95%", "n", "missing"], runs)]
    if several:
        pairs = [[row.cells[0], *ps] for row, ps in zip(runs, p_cells(matrix), strict=True)]
        parts.append(_numbered("p", pairs))
    if rankings is not None:
        if rankings.label:
            groups = [one for one in rankings.scorings if one.kind == "group"]
            parts.append(
                _numbered(rankings.label, [[one.name, *map(_shown, one.values)] for one in groups])
            )
        if several:
            parts.append(_numbered("tau-b", _taus(rankings)))
    captions = matrix_captions(matrix) + (ranking_captions(rankings) if rankings else [])
    return TableDocument(
        title=f"{matrix.task}: {matrix.score}",
        parts=[*parts, *map(Note, captions)],
        records=[dict.fromkeys(_KEYS) | record for record in _records(matrix, rankings)],
        data={"matrix": matrix, "rankings": rankings},
    )


def _numbered(label: str, rows: Sequence[Sequence[object]]) -> Table:
    """Return a matrix whose columns are numbered like the rows of runs or scorings."""
    return table([label, *map(str, range(1, len(rows[0])))], rows)


def _run_name(row: MatrixRow) -> str:
    """Return a run's name, with its model if that has a different name."""
    return row.run if row.model in ("", row.run) else f"{row.run} ({row.model})"


def _shown(value: SampleStatistic | None) -> object:
    """Format a mean, with its error if it has one."""
    if value is None or value.mean is None or value.stderr is None:
        return None if value is None else value.mean
    return WithError(value.mean, value.stderr)


def p_cells(matrix: PairMatrix) -> list[list[str]]:
    """Return the matrix: p with stars below the diagonal, p adjusted by Holm above it."""
    n = len(matrix.rows)
    cells = [[DIAGONAL] * n for _ in range(n)]
    for pair in matrix.pairs:
        found = pair.comparison
        cells[pair.second][pair.first] = p_value(found.p_value) + "*" * pair.starred
        cells[pair.first][pair.second] = p_value(found.p_adjusted)
    return cells


def _taus(found: InducedRankings) -> list[list[object]]:
    """Return the rows of taus, below the diagonal."""
    n = len(found.scorings)
    names = [f"{at} {name}" for at, name in enumerate(_scoring_names(found), start=1)]
    rows: list[list[object]] = [[name, *[""] * n] for name in names]
    for tau in found.taus:
        rows[tau.second][1 + tau.first] = _tau_text(tau.tau_b)
    return rows


def _tau_text(tau_b: float | None) -> str:
    return number(tau_b, 2, sign=True)


def _scoring_names(found: InducedRankings) -> list[str]:
    """Return the names of the scorings; overall and published ones are marked."""
    kinds = {"all": "all: ", "external": "published: ", "group": ""}
    every = [f"{kinds[one.kind]}{one.name}" for one in found.scorings]
    # A bare number would be read as the number of a row.
    return [f"{found.label} {name}" if name.isdecimal() else name for name in every]


def matrix_captions(matrix: PairMatrix) -> list[str]:
    """Return the notes that a reader needs to understand the matrix."""
    sentences = [
        f"{score_name(matrix.score)} of {answers_of(matrix.round)}; the statistical units are "
        f"{units_of(matrix.cluster)}."
    ]
    if matrix.pairs:
        methods = dict.fromkeys(TESTS[pair.comparison.method] for pair in matrix.pairs)
        sentences.append(
            f"Below the diagonal: p of each pair by {' or '.join(methods)}, over the instances for "
            f"which both have a value; * p < {STARRED}. Above it: p adjusted by Holm over the "
            f"{len(matrix.pairs)} pairs, which is the one to use when looking for differences."
        )
    uneven = [lacking for pair in matrix.pairs if (lacking := _lacking(pair))]
    if uneven:
        sentences.append(
            f"{len(uneven)} pairs exclude instances for which only one run has a value: up to "
            f"{max(uneven):,} (--format csv). A missing value is not counted as a failure."
        )
    return [*sentences, *matrix.notes]


def _lacking(pair: RunPair) -> int:
    """Count the instances of a pair for which one of its runs has no value."""
    found = pair.comparison
    return sum(filter(None, (found.only_first, found.only_second, found.not_judged)))


def ranking_captions(found: InducedRankings) -> list[str]:
    """Return the notes that a reader needs to understand the values by group and the taus."""
    sentences = []
    if found.label and found.of == "constraints":
        sentences.append(
            f"{found.label}: share of constraints met according to the judge {found.judge!r}, "
            "each with equal weight; errors clustered by prompt."
        )
        if any(found.without):
            counts = ", ".join(f"{n:,}" for n in found.without)
            sentences.append(
                f"Samples without a verdict on any constraint, excluded, run by run: {counts}."
            )
    elif found.label:
        sentences.append(f"{found.label}: mean {found.score} of each group.")
    if len(found.scorings[0].values) > 1:
        fewest = min((tau.n_runs for tau in found.taus), default=0)
        sentences.append(
            "Kendall's tau-b between the rankings of runs by each two scorings, over "
            f"{fewest} runs or more."
        )
    sentences += [
        f"{found.scorings[tau.second].name}, published: tau-b {_tau_text(tau.tau_b)} with "
        f"{found.score} over all, p {p_value(tau.p_value)}, {tau.n_runs} runs."
        for tau in found.taus
        if tau.first == 0 and found.scorings[tau.second].kind == "external"
    ]
    if found.unmatched:
        shown = ", ".join(found.unmatched[:5])
        more = ", …" if len(found.unmatched) > 5 else ""
        sentences.append(
            f"Published scores that match no run's model or name ({len(found.unmatched):,}): "
            f"{shown}{more}."
        )
    return sentences


def _records(matrix: PairMatrix, rankings: InducedRankings | None) -> Iterator[dict[str, object]]:
    """A record for each pair, each run's value by a scoring, and each tau; ``row`` says which.

    In a pair, ``first`` is the mean of the run ``against`` and ``second`` that of the run ``name``.
    """
    for pair in matrix.pairs:
        one, other = matrix.rows[pair.first], matrix.rows[pair.second]
        marks = "; ".join([*one.marks, *other.marks])
        named = {"row": "pair", "name": other.run, "against": one.run, "marks": marks}
        yield named | {"starred": pair.starred} | flat(pair.comparison)
    scorings: dict[str, Sequence[SampleStatistic | None]] = {
        f"all: {matrix.score}": [row.value for row in matrix.rows]
    }
    if rankings is not None:
        values = [one.values for one in rankings.scorings]
        scorings = dict(zip(_scoring_names(rankings), values, strict=True))
    for name, of_runs in scorings.items():
        for row, value in zip(matrix.rows, of_runs, strict=True):
            if value is not None:
                marks = "; ".join(row.marks)
                figures = {
                    key if key.startswith("ci95") else f"value_{key}": figure
                    for key, figure in flat(value).items()
                }
                yield {"row": "value", "name": row.run, "against": name, "marks": marks} | figures
    names = list(scorings)
    for tau in rankings.taus if rankings is not None else ():
        named = {"row": "tau", "name": names[tau.second], "against": names[tau.first], "marks": ""}
        yield named | {"tau_b": tau.tau_b, "tau_p_value": tau.p_value, "n_runs": tau.n_runs}
