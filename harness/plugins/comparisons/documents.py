"""Presents ablations with their claims, comparisons of every pair of runs, and rankings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.clustered import ROUNDING
from harness.analysis.metrics import SampleStatistic
from harness.plugins.comparisons.ablation import (
    Ablation,
    AblationFindings,
    AblationRow,
    ClaimVerdict,
    FieldGain,
    Gain,
)
from harness.plugins.comparisons.comparison import Comparison
from harness.plugins.comparisons.comparison_document import (
    TESTS,
    answers_text,
    explained,
    score_name,
    serious_notes,
    units_shown,
)
from harness.plugins.comparisons.pair_matrix import (
    SATISFIED,
    STARRED,
    InducedRankings,
    MatrixRow,
    PairMatrix,
)
from harness.plugins.comparisons.run_differences import SERIOUS
from harness.report.table import (
    Cell,
    Column,
    Note,
    Row,
    Table,
    TableDocument,
    flatten_statistic,
    table,
)
from harness.report.text import UNKNOWN, format_number, format_p_value
from harness.wording import format_count

_VERDICTS = {
    "holds": "bold green",
    "undecided": "yellow",
    "does not hold": "bold red",
    "not tested": "dim",
}


def ablation_document(analysis: AblationFindings) -> TableDocument:
    """Build the document of an ablation."""
    ablation = analysis.table
    columns: list[Column | str] = ["variant", Column(ablation.over, hide=1), "mean", "gain %"]
    columns += ["difference", Column("95%", hide=2), Column("p", hide=3)]
    columns.append(Column("p (Holm)", hide=4))
    rows = []
    records = []
    for row in ablation.rows:
        rows.append(Row([row.variant, *_figures(row)], row.marks))
        records.append(_record(row))
    parts: list[Table | Note] = [table(columns, rows, notes=_notes(ablation))]
    if ablation.by:
        parts.append(_by_groups(ablation))
    if analysis.fields:
        parts.append(_fields(analysis.fields, ablation.over))
    if analysis.claims:
        parts.append(_claims(analysis.claims))
    if analysis.silent and (analysis.fields or analysis.claims):
        silent = (
            "Not counted for any field or claim, because they are incomplete, simulated, or "
            f"differ from the baseline in more than the prompt: {', '.join(analysis.silent)}."
        )
        parts.append(Note(silent))
    title = "  ".join(filter(None, (ablation.task, ablation.model)))
    return TableDocument(title=title, parts=parts, records=records, data=analysis)


def _figures(row: AblationRow) -> list[str]:
    cells = [f"{row.gain.n:,} of {row.gain.of:,}", _mean(row.mean, not row.same_groups)]
    if row.is_baseline:
        return [*cells, "", "baseline", "", "", ""]
    if not row.gain.n:
        return [*cells, UNKNOWN, "none shared", "", "", ""]
    cells += [_percent(row.gain), *_hundredfold(row)]
    return [*cells, format_p_value(row.p_value), format_p_value(row.p_holm)]


def _notes(ablation: Ablation) -> list[str]:
    sample = ""
    if ablation.cluster == ablation.over:
        sample = ", as a random sample of all such groups"
    notes = [
        f"{ablation.score} x 100: mean over {format_count(ablation.n_groups, 'group')} of "
        f"{ablation.over!r} with equal weight. Gain: per cent of the mean of "
        f"{ablation.baseline!r}. Difference from it, on the instances that both have, with 95% "
        "interval and p, not adjusted. The statistical units are "
        f"{units_shown(ablation.cluster)}{sample}."
    ]
    tests = []
    unlike = []
    other_groups = False
    for row in ablation.rows:
        if row.p_value is not None:
            tests.append(TESTS[row.method])
        if (
            row.by_instance is not None
            and row.difference is not None
            and abs(row.by_instance - row.difference) > ROUNDING
        ):
            unlike.append(f"{row.variant} {format_number(100 * row.by_instance, 2, sign=True)}")
        if row.mean is not None and not row.same_groups:
            other_groups = True
    if tests:
        listed = " or ".join(dict.fromkeys(tests))
        notes.append(
            f"p by {listed}. p (Holm): adjusted by Holm's method for testing "
            f"{format_count(len(tests), 'variant')}."
        )
    if unlike:
        notes.append(
            "The groups have unequal sizes. Without equal weight of the groups, as in harness "
            f"compare, the differences are: {', '.join(unlike)}."
        )
    if other_groups:
        notes.append(
            "* Covers different groups from the baseline, so this mean is not comparable with the "
            "other means. Gain and difference are over the groups that both have."
        )
    return [*notes, *explained(ablation.score), *ablation.notes]


def _by_groups(ablation: Ablation) -> Table:
    columns: list[Column | str] = ["variant"]
    for name in ablation.rows[0].by:
        size = format_count(max(row.by[name].of for row in ablation.rows), "group")
        over = f"{name} ({size})"
        columns += [Column("mean", over=over), Column("gain %", over=over)]
    rows = []
    for row in ablation.rows:
        cells = [row.variant]
        for gain in row.by.values():
            percent = "" if row.is_baseline else _percent(gain)
            cells += [_mean(gain.mean, gain.n < gain.of), percent]
        rows.append(cells)
    note = "Mean x 100, and the gain over the baseline's mean in per cent."
    return table(columns, rows, notes=[note])


def _fields(gains: Sequence[FieldGain], over: str) -> Table:
    columns = [Column(heading, text=True) for heading in ("field added", "without", "with")]
    columns += [Column("difference"), Column("95%", hide=2), Column(f"more on ({over})", hide=1)]
    rows = []
    changed: set[tuple[str, str, str]] = set()
    for gain in gains:
        field = gain.field + "†" * bool(gain.other_forms)
        better = f"{gain.n_better} of {gain.n}"
        rows.append([field, gain.less, gain.more, *_hundredfold(gain), better])
        for name, (without, with_field) in gain.other_forms.items():
            changed.add((name, without, with_field))
    notes = [
        f"Pairs of variants that differ only in that field. Units: groups of {over!r}. Intervals "
        "are not adjusted."
    ]
    for name, without, with_field in sorted(changed):
        note = f"† {without!r} also becomes {with_field!r} there: both count as the field {name!r}."
        notes.append(note)
    return table(columns, rows, notes=notes)


def _claims(claims: Sequence[ClaimVerdict]) -> Table:
    rows = []
    notes: list[str] = []
    for claim in claims:
        verdict = Cell(claim.verdict, style=_VERDICTS[claim.verdict])
        rows.append([verdict, f"“{claim.says}” {claim.source}: {claim.evidence}"])
        if claim.verdict in ("holds", "undecided"):
            notes = [
                "holds: more, with all of the 95% interval above 0; undecided: more, but the "
                "interval includes 0."
            ]
    return table(["verdict", Column("claim, source and evidence", text=True)], rows, notes=notes)


def _mean(mean: float | None, marked: bool) -> str:
    if mean is None:
        return UNKNOWN
    return format_number(100 * mean, 2) + "*" * marked


def _percent(gain: Gain) -> str:
    return format_number(gain.percent, 1, sign=True)


def _hundredfold(row: AblationRow | FieldGain) -> tuple[str, str]:
    difference = UNKNOWN
    bounds = UNKNOWN
    if row.difference is not None:
        difference = format_number(100 * row.difference, 2, sign=True)
    if row.ci95 is not None:
        bounds = " to ".join(format_number(100 * bound, 2) for bound in row.ci95)
    return difference, bounds


def _record(row: AblationRow) -> dict[str, object]:
    record: dict[str, object] = {
        "variant": row.variant,
        "baseline": row.is_baseline,
        "marks": "; ".join(row.marks),
        "groups": row.n_groups,
        "mean": row.mean,
        "same_groups": row.same_groups,
        "common_groups": row.gain.n,
        "gain_percent": None if row.is_baseline else row.gain.percent,
    }
    figures = flatten_statistic(row)
    for key in ("difference", "ci95_low", "ci95_high", "p_value", "p_holm"):
        record[key] = figures[key]
    for name, gain in row.by.items():
        record[f"mean {name}"] = gain.mean
        record[f"gain_percent {name}"] = None if row.is_baseline else gain.percent
    return record


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
    runs = []
    pairs = []
    for place, (row, ps) in enumerate(zip(matrix.rows, p_cells(matrix), strict=True), start=1):
        name = f"{place} {_run_name(row)}"
        value = row.value
        runs.append(Row([name, _mean_cell(value), value.ci95, value.n, value.missing], row.marks))
        pairs.append([name, *ps])
    parts: list[Table | Note] = [*serious_notes(matrix.notes)]
    parts.append(table(["run", "mean ± s.e.", "95%", "n", "missing"], runs))
    if len(matrix.rows) > 1:
        parts.append(_numbered("p / p (Holm)", pairs))
    captions = [*_matrix_captions(matrix)]
    if rankings is not None:
        parts += _ranking_tables(rankings)
        captions += _ranking_captions(rankings)
    parts += map(Note, captions)
    records = []
    for record in _matrix_records(matrix, rankings):
        records.append(dict.fromkeys(_KEYS) | record)
    return TableDocument(
        title=f"{matrix.task}: {matrix.score}",
        parts=parts,
        records=records,
        data={"matrix": matrix, "rankings": rankings},
    )


def _ranking_tables(rankings: InducedRankings) -> Iterator[Table]:
    if rankings.label:
        means = []
        for scoring in rankings.scorings:
            if scoring.kind == "group":
                means.append([scoring.name, *map(_mean_cell, scoring.values)])
        heading = rankings.label
        if rankings.of == "constraints":  # not the score that the title names
            heading = f"{SATISFIED}, by {rankings.label}"
        yield _numbered(heading, means)
    if len(rankings.scorings[0].values) > 1:
        yield _numbered("tau-b", _taus(rankings))


def _numbered(label: str, rows: Sequence[Sequence[object]]) -> Table:
    return table([label, *map(str, range(1, len(rows[0])))], rows)


def _run_name(row: MatrixRow) -> str:
    if row.model in ("", row.run):
        return row.run
    return f"{row.run} ({row.model})"


def _mean_cell(value: SampleStatistic | None) -> object:
    if value is None or value.stderr is not None:
        return value
    return value.mean


def p_cells(matrix: PairMatrix) -> list[list[str]]:
    """Return the cells of a square table: p below the diagonal (starred if small), Holm's above."""
    cells = [["·" for _ in matrix.rows] for _ in matrix.rows]
    for pair in matrix.pairs:
        comparison = pair.comparison
        cells[pair.second][pair.first] = format_p_value(comparison.p_value) + "*" * pair.starred
        cells[pair.first][pair.second] = format_p_value(comparison.p_adjusted)
    return cells


def _taus(rankings: InducedRankings) -> list[list[object]]:
    rows: list[list[object]] = []
    for place, name in enumerate(_scoring_names(rankings), start=1):
        rows.append([f"{place} {name}", *[""] * len(rankings.scorings)])
    for tau in rankings.taus:
        rows[tau.second][1 + tau.first] = _tau_text(tau.tau_b)
    return rows


def _tau_text(tau_b: float | None) -> str:
    return format_number(tau_b, 2, sign=True)


def _scoring_names(rankings: InducedRankings) -> list[str]:
    prefixes = {"all": "all: ", "external": "published: ", "group": ""}
    names = []
    for scoring in rankings.scorings:
        name = prefixes[scoring.kind] + scoring.name
        if name.isdecimal():  # a bare number would be mistaken for a row number
            name = f"{rankings.label} {name}"
        names.append(name)
    return names


def _matrix_captions(matrix: PairMatrix) -> Iterator[str]:
    weight = f", weighted by {matrix.weight}" if matrix.weight else ""
    yield (
        f"{score_name(matrix.score)} of {answers_text(matrix.round)}{weight}; the statistical "
        f"units are {units_shown(matrix.cluster)}."
    )
    yield from explained(matrix.score)
    methods: dict[str, None] = {}
    n_tested = 0
    n_excluding = 0
    most_excluded = 0
    for pair in matrix.pairs:
        comparison = pair.comparison
        if comparison.n:
            methods[TESTS[comparison.method]] = None
        n_tested += comparison.p_value is not None
        counts = (comparison.only_first, comparison.only_second, comparison.not_judged)
        n_excluded = sum(filter(None, counts))
        n_excluding += n_excluded > 0
        most_excluded = max(most_excluded, n_excluded)
    if methods:
        starred = ""
        if any(pair.starred for pair in matrix.pairs):
            starred = f"; a star marks p below {STARRED}"
        yield (
            f"Below the diagonal: p of each pair by {' or '.join(methods)}, over the instances for "
            f"which both have a value{starred}. Above it: the same p, adjusted by Holm's method "
            f"for testing {format_count(n_tested, 'pair')}. Look for differences there."
        )
    if n_excluding:
        yield (
            f"{n_excluding} pairs exclude instances for which only one run has a value: up to "
            f"{most_excluded:,} (--format csv). A missing value is not counted as a failure."
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
        scoring = rankings.scorings[tau.second]
        if tau.first == 0 and scoring.kind == "external":
            yield (
                f"{scoring.name}, published: tau-b {_tau_text(tau.tau_b)} with "
                f"{rankings.score} over all, p {format_p_value(tau.p_value)}, {tau.n_runs} runs."
            )
    n_unmatched = len(rankings.unmatched)
    if n_unmatched:
        names = ", ".join(rankings.unmatched[:5]) + ", …" * (n_unmatched > 5)
        yield f"Published scores that match no run's model or name ({n_unmatched:,}): {names}."


def _matrix_records(
    matrix: PairMatrix, rankings: InducedRankings | None
) -> Iterator[dict[str, object]]:
    for pair in matrix.pairs:
        baseline = matrix.rows[pair.first]
        run = matrix.rows[pair.second]
        record = _named_record("pair", run.run, baseline.run, [*baseline.marks, *run.marks])
        yield record | {"starred": pair.starred} | flatten_statistic(pair.comparison)
    if rankings is None:
        for row in matrix.rows:
            yield _value_record(row, f"all: {matrix.score}", matrix.score, row.value)
        return
    names = _scoring_names(rankings)
    for name, scoring in zip(names, rankings.scorings, strict=True):
        for row, value in zip(matrix.rows, scoring.values, strict=True):
            if value is not None:
                yield _value_record(row, name, scoring.score, value)
    for tau in rankings.taus:
        record = _named_record("tau", names[tau.second], names[tau.first], [])
        yield record | {"tau_b": tau.tau_b, "tau_p_value": tau.p_value, "n_runs": tau.n_runs}


def _named_record(kind: str, name: str, against: str, marks: Sequence[str]) -> dict[str, object]:
    return {"row": kind, "name": name, "against": against, "marks": "; ".join(marks)}


def _value_record(
    row: MatrixRow, scoring: str, score: str, value: SampleStatistic
) -> dict[str, object]:
    record = _named_record("value", row.run, scoring, row.marks)
    record["score"] = score
    for key, figure in flatten_statistic(value).items():
        if not key.startswith("ci95"):
            key = f"value_{key}"
        record[key] = figure
    return record
