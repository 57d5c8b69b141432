"""A matrix of runs: each pair's p values, and how groups and published scores rank the runs.

Columns of the matrices are numbered like their rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.clustered import SampleStatistic
from harness.analysis.rankings import InducedRankings
from harness.analysis.run_comparison import STARRED, MatrixRow, PairMatrix, RunPair
from harness.report.comparison import (
    COMPARISON_KEYS,
    TESTS,
    answers_of,
    comparison_record,
    score_name,
    units_of,
)
from harness.report.table import (
    Column,
    Note,
    Row,
    Table,
    TableDocument,
    WithError,
    names,
    records,
)
from harness.report.text import number, p_value

DIAGONAL = "·"
_VALUES = tuple(name for name in SampleStatistic.__struct_fields__ if name != "ci95")
_KEYS = (
    "row",
    "name",
    "against",
    "marks",
    "starred",
    *COMPARISON_KEYS,
    *(f"value_{name}" for name in _VALUES),
    "tau_b",
    "tau_p_value",
    "n_runs",
)


def matrix_document(matrix: PairMatrix, rankings: InducedRankings | None = None) -> TableDocument:
    """Build the document: the runs, their pairs, how each group ranks them, and the notes."""
    several = len(matrix.rows) > 1
    runs = [
        Row([f"{at} {_run_name(row)}", _shown(row.value), row.value.ci95,
             row.value.n, row.value.missing], row.marks)
        for at, row in enumerate(matrix.rows, start=1)
    ]  # fmt: skip
    columns = names("run", Column("mean ± s.e."), Column("95%"), Column("n"), Column("missing"))
    parts: list[Table | Note] = [Table(columns=columns, rows=runs)]
    if several:
        pairs = [Row([row.cells[0], *ps]) for row, ps in zip(runs, p_cells(matrix), strict=True)]
        parts.append(_numbered("p", pairs))
    if rankings is not None:
        if rankings.label:
            parts.append(_by_group(rankings))
        if several:
            parts.append(_numbered("tau-b", _taus(rankings)))
    captions = matrix_captions(matrix) + (ranking_captions(rankings) if rankings else [])
    return TableDocument(
        title=f"{matrix.task}: {matrix.score}",
        parts=[*parts, *map(Note, captions)],
        records=records(_records(matrix, rankings), _KEYS),
        data={"matrix": matrix, "rankings": rankings},
    )


def _numbered(label: str, rows: Sequence[Row]) -> Table:
    """Return a matrix whose columns are numbered like its rows."""
    return Table(columns=names(label, *(Column(str(at + 1)) for at in range(len(rows)))), rows=rows)


def _by_group(found: InducedRankings) -> Table:
    groups = [one for one in found.scorings if one.kind == "group"]
    runs = range(1, len(found.scorings[0].values) + 1)
    rows = [Row([one.name, *map(_shown, one.values)]) for one in groups]
    return Table(columns=names(found.label, *(Column(str(at)) for at in runs)), rows=rows)


def _run_name(row: MatrixRow) -> str:
    """Return a run's name, with its model if that has another name."""
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


def _taus(found: InducedRankings) -> list[Row]:
    """Return the rows of taus, below the diagonal."""
    n = len(found.scorings)
    cells: list[list[object]] = [[""] * n for _ in range(n)]
    for tau in found.taus:
        cells[tau.second][tau.first] = _tau_text(tau.tau_b)
    scorings = enumerate(zip(_scoring_names(found), cells, strict=True), start=1)
    return [Row([f"{at} {name}", *row]) for at, (name, row) in scorings]


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
    methods = dict.fromkeys(pair.comparison.method for pair in matrix.pairs)
    sentences = [
        f"{score_name(matrix.score)} of {answers_of(matrix.round)}; the statistical units are "
        f"{units_of(matrix.cluster)}."
    ]
    if matrix.pairs:
        sentences.append(
            f"Below the diagonal: p of each pair by {' or '.join(TESTS[one] for one in methods)}, "
            f"over the instances for which both have a value; * p < {STARRED}. Above it: p "
            f"adjusted by Holm over the {len(matrix.pairs)} pairs, which is the one to use when "
            "looking for differences."
        )
    uneven = [pair for pair in matrix.pairs if _lacking(pair)]
    if uneven:
        most = max(map(_lacking, uneven))
        sentences.append(
            f"{len(uneven)} pairs exclude instances for which only one run has a value: up to "
            f"{most:,} (--format csv). A missing value is not counted as a failure."
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
        yield named | {"starred": pair.starred} | comparison_record(pair.comparison)
    for name, run, value in _values(matrix, rankings):
        row, (low, high) = matrix.rows[run], value.ci95 or (None, None)
        named = {"row": "value", "name": row.run, "against": name, "marks": "; ".join(row.marks)}
        own = {f"value_{field}": getattr(value, field) for field in _VALUES}
        yield named | {"ci95_low": low, "ci95_high": high} | own
    if rankings is not None:
        scorings = _scoring_names(rankings)
        for tau in rankings.taus:
            yield {
                "row": "tau",
                "name": scorings[tau.second],
                "against": scorings[tau.first],
                "marks": "",
                "tau_b": tau.tau_b,
                "tau_p_value": tau.p_value,
                "n_runs": tau.n_runs,
            }


def _values(
    matrix: PairMatrix, rankings: InducedRankings | None
) -> Iterator[tuple[str, int, SampleStatistic]]:
    """Yield each scoring, with the index of a run and its value there."""
    if rankings is None:
        for place, row in enumerate(matrix.rows):
            yield f"all: {matrix.score}", place, row.value
        return
    for name, one in zip(_scoring_names(rankings), rankings.scorings, strict=True):
        for place, value in enumerate(one.values):
            if value is not None:
                yield name, place, value
