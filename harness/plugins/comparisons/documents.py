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
    Scoring,
)
from harness.plugins.comparisons.run_differences import SERIOUS
from harness.report.table import Cell, Column, Note, Row, Table, TableDocument, flat, table
from harness.report.text import UNKNOWN, number, p_value
from harness.wording import count_of

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
    rows = [Row([row.variant, *_figures(row)], row.marks) for row in ablation.rows]
    parts: list[Table | Note] = [table(columns, rows, notes=_notes(ablation))]
    if ablation.by:
        parts.append(_by_groups(ablation))
    if analysis.fields:
        parts.append(_fields(analysis.fields, ablation.over))
    if analysis.claims:
        parts.append(_claims(analysis.claims))
    if analysis.silent and (analysis.fields or analysis.claims):
        parts.append(Note(
            "Not counted for any field or claim, because they are incomplete, simulated, or "
            f"differ from the baseline in more than the prompt: {', '.join(analysis.silent)}."
        ))  # fmt: skip
    return TableDocument(
        title="  ".join(name for name in (ablation.task, ablation.model) if name),
        parts=parts,
        records=[_record(row) for row in ablation.rows],
        data=analysis,
    )


def _figures(row: AblationRow) -> list[str]:
    cells = [f"{row.gain.n:,} of {row.gain.of:,}", _mean(row.mean, not row.same_groups)]
    if row.is_baseline:
        return [*cells, "", "baseline", "", "", ""]
    if not row.gain.n:
        return [*cells, UNKNOWN, "none shared", "", "", ""]
    ps = (p_value(row.p_value), p_value(row.p_holm))
    return [*cells, _percent(row.gain), *_hundredfold(row), *ps]


def _notes(ablation: Ablation) -> list[str]:
    tested = [TESTS[row.method] for row in ablation.rows if row.p_value is not None]
    sample = ", as a random sample of all such groups" if ablation.cluster == ablation.over else ""
    notes = [
        f"{ablation.score} x 100: mean over {count_of(ablation.n_groups, 'group')} of "
        f"{ablation.over!r} with equal weight. Gain: per cent of the mean of "
        f"{ablation.baseline!r}. Difference from it, on the instances that both have, with 95% "
        "interval and p, not adjusted. The statistical units are "
        f"{units_shown(ablation.cluster)}{sample}."
    ]
    if tested:
        listed = " or ".join(dict.fromkeys(tested))
        notes.append(
            f"p by {listed}. p (Holm): adjusted by Holm's method for testing "
            f"{count_of(len(tested), 'variant')}."
        )
    unlike = [
        f"{row.variant} {number(100 * row.by_instance, 2, sign=True)}"
        for row in ablation.rows
        if row.by_instance is not None
        and row.difference is not None
        and abs(row.by_instance - row.difference) > ROUNDING
    ]
    if unlike:
        notes.append(
            "The groups have unequal sizes. Without equal weight of the groups, as in harness "
            f"compare, the differences are: {', '.join(unlike)}."
        )
    if any(row.mean is not None and not row.same_groups for row in ablation.rows):
        notes.append(
            "* Covers different groups from the baseline, so this mean is not comparable with the "
            "other means. Gain and difference are over the groups that both have."
        )
    return [*notes, *explained(ablation.score), *ablation.notes]


def _by_groups(ablation: Ablation) -> Table:
    columns: list[Column | str] = ["variant"]
    for name in ablation.rows[0].by:
        size = count_of(max(row.by[name].of for row in ablation.rows), "group")
        columns += [Column(heading, over=f"{name} ({size})") for heading in ("mean", "gain %")]
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
    columns: list[Column | str] = [
        *(Column(heading, text=True) for heading in ("field added", "without", "with")),
        "difference",
        Column("95%", hide=2),
        Column(f"more on ({over})", hide=1),
    ]
    rows = []
    for gain in gains:
        field = gain.field + "†" * bool(gain.other_forms)
        better = f"{gain.n_better} of {gain.n}"
        rows.append([field, gain.less, gain.more, *_hundredfold(gain), better])
    changed = {(name, *forms) for gain in gains for name, forms in gain.other_forms.items()}
    notes = [
        f"Pairs of variants that differ only in that field. Units: groups of {over!r}. Intervals "
        "are not adjusted.",
        *(
            f"† {less!r} also becomes {more!r} there: both count as the field {name!r}."
            for name, less, more in sorted(changed)
        ),
    ]
    return table(columns, rows, notes=notes)


def _claims(claims: Sequence[ClaimVerdict]) -> Table:
    rows = [
        [Cell(c.verdict, style=_VERDICTS[c.verdict]), f"“{c.says}” {c.source}: {c.evidence}"]
        for c in claims
    ]
    note = (
        "holds: more, with all of the 95% interval above 0; undecided: more, but the interval "
        "includes 0."
    )
    is_explained = any(claim.verdict in ("holds", "undecided") for claim in claims)
    evidence = Column("claim, source and evidence", text=True)
    return table(["verdict", evidence], rows, notes=[note] if is_explained else [])


def _mean(mean: float | None, marked: bool) -> str:
    return UNKNOWN if mean is None else number(100 * mean, 2) + "*" * marked


def _percent(gain: Gain) -> str:
    return number(gain.percent, 1, sign=True)


def _hundredfold(row: AblationRow | FieldGain) -> tuple[str, str]:
    scaled = None if row.difference is None else 100 * row.difference
    bounds = UNKNOWN
    if row.ci95 is not None:
        bounds = " to ".join(number(100 * bound, 2) for bound in row.ci95)
    return number(scaled, 2, sign=True), bounds


def _record(row: AblationRow) -> dict[str, object]:
    figures = flat(row)
    keys = ("difference", "ci95_low", "ci95_high", "p_value", "p_holm")
    record: dict[str, object] = {
        "variant": row.variant,
        "baseline": row.is_baseline,
        "marks": "; ".join(row.marks),
        "groups": row.n_groups,
        "mean": row.mean,
        "same_groups": row.same_groups,
        "common_groups": row.gain.n,
        "gain_percent": None if row.is_baseline else row.gain.percent,
        **{key: figures[key] for key in keys},
    }
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
    several = len(matrix.rows) > 1
    names = [f"{place} {_run_name(row)}" for place, row in enumerate(matrix.rows, start=1)]
    runs = [
        Row(
            [name, _mean_cell(row.value), row.value.ci95, row.value.n, row.value.missing], row.marks
        )
        for name, row in zip(names, matrix.rows, strict=True)
    ]
    parts: list[Table | Note] = [table(["run", "mean ± s.e.", "95%", "n", "missing"], runs)]
    if several:
        pairs = [[name, *cells] for name, cells in zip(names, p_cells(matrix), strict=True)]
        parts.append(_numbered("p / p (Holm)", pairs))
    if rankings is not None:
        if rankings.label:
            means = [
                [scoring.name, *map(_mean_cell, scoring.values)]
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


def _mean_cell(value: SampleStatistic | None) -> object:
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
    weight = f", weighted by {matrix.weight}" if matrix.weight else ""
    yield (
        f"{score_name(matrix.score)} of {answers_text(matrix.round)}{weight}; the statistical "
        f"units are {units_shown(matrix.cluster)}."
    )
    yield from explained(matrix.score)
    comparisons = [pair.comparison for pair in matrix.pairs]
    methods = dict.fromkeys(TESTS[comparison.method] for comparison in comparisons if comparison.n)
    if methods:
        tested = sum(comparison.p_value is not None for comparison in comparisons)
        has_stars = any(pair.starred for pair in matrix.pairs)
        starred = f"; a star marks p below {STARRED}" if has_stars else ""
        yield (
            f"Below the diagonal: p of each pair by {' or '.join(methods)}, over the instances for "
            f"which both have a value{starred}. Above it: the same p, adjusted by Holm's method "
            f"for testing {count_of(tested, 'pair')}. Look for differences there."
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
