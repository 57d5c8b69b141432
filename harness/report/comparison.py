"""Presents comparisons of runs with a baseline or with each other, and rankings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from harness.analysis.breakdown import explained
from harness.analysis.comparable import SERIOUS
from harness.analysis.comparison import Comparison
from harness.analysis.metrics import PASS_RATE, Interval, SampleStatistic
from harness.analysis.rankings import SATISFIED, InducedRankings, Scoring
from harness.analysis.run_comparison import STARRED, Against, MatrixRow, PairMatrix, RunComparison
from harness.report.runs import ReportedRun
from harness.report.table import (
    Cell,
    Column,
    Note,
    Row,
    ShownUnit,
    Table,
    TableDocument,
    flat,
    table,
)
from harness.report.text import clusters_text, number, p_value, which_round

TESTS: Mapping[str, str] = {
    "exact McNemar": "McNemar's exact test",
    "clustered paired t": "Student's t of the paired differences, clustered",
    "sign flips": "an exact test that swaps the two runs in each cluster, because few differ",
    "shared replies": "no test, because the two runs have the same replies",
    "none": "no test, because all pairs differ in the same way",
}


def _columns(first: str, adjustment: str) -> list[Column | str | None]:
    return [
        first,
        Column("n", hide=1),
        Column("baseline", digits=4, hide=2, rate=True),
        Column("run", digits=4, hide=3, rate=True),
        Column("difference", digits=4, sign=True, rate=True),
        Column("95%", digits=4, sign=True, hide=8, rate=True),
        Column("p", form=p_value, hide=6),
        Column(f"p ({adjustment})", form=p_value, hide=7) if adjustment else None,
        Column("better", hide=5),
        Column("worse", hide=4),
    ]


def comparison_document(found: RunComparison, *, brief: bool = False) -> TableDocument:
    """Build the document that compares runs with a baseline.

    If ``brief``, each run's details and its tables by group and constraint are omitted.
    """
    last = found.asked.round
    rows = [Row(_cells(one.run, one.overall, one.run, last), one.marks) for one in found.others]
    parts: list[Table | Note] = [table(_columns("run", "Holm" if len(rows) > 1 else ""), rows)]
    for one in () if brief else found.others:
        parts.append(Note(f"{one.run}: {' '.join(details(one, found))}", ""))
        parts += tables_within(one, found)
    data: dict[str, Any] = msgspec.to_builtins(found)
    for one in data["others"]:
        del one["better_digests"], one["worse_digests"]
    return TableDocument(
        title=f"{found.task}: against {found.baseline}",
        marks=[f"{found.baseline}: {', '.join(found.marks)}"] if found.marks else [],
        parts=[*_serious_notes(found.notes), *parts, *map(Note, captions(found))],
        records=list(_records(found)),
        data=data,
    )


def tables_within(one: Against, found: RunComparison) -> Iterator[Table]:
    """Yield the tables of a run's comparison by group and by constraint, if there are any."""
    by, last = found.asked.by, found.asked.round
    title = f"{one.run} against {found.baseline}, by"
    if one.groups:
        cells = [_cells(name, of, one.run, last, by) for name, of in one.groups.items()]
        columns = _columns(by, "BH" if len(found.others) > 1 else "Holm")
        yield table(columns, cells, title=f"{title} {by}")
    if one.constraints:
        cells = [_cells(name, kind.comparison) for name, kind in one.constraints.items()]
        yield table(_columns("constraint", "BH"), cells, title=f"{title} constraint")


def _cells(
    name: str, found: Comparison, run: str = "", round_: int | None = None, label: str = ""
) -> list[object]:
    within = f"&{_quoted(f'in.{label}')}={_quoted(name)}" if label else ""
    within += f"&round={round_}" if round_ else ""
    counts = [
        Cell(n, href=f"#attempts?change={what}:{_quoted(run)}{within}" if n and run else "")
        for what, n in (("better", found.better), ("worse", found.worse))
    ]
    figures = [found.n, found.first, found.second, found.difference, found.ci95]
    return [name, *figures, found.p_value, found.p_adjusted, *counts]


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")


_NUMBER = ShownUnit(percent=False)


def bounds_line(not_judged: int, n: int, bounds: Interval, unit: ShownUnit = _NUMBER) -> str:
    """Return a sentence on how far pairs that were not judged could change a difference."""
    points, signed = " points" * unit.percent, Column("", sign=True, rate=True)
    low, high = (unit.show(end, signed) + points for end in bounds)
    return (
        f"{not_judged:,} of {not_judged + n:,} pairs are not judged, which may bias the difference:"
        f" it is {low} if all unjudged answers count against the run, and {high} if for it."
    )


def details(one: Against, comparison: RunComparison, unit: ShownUnit = _NUMBER) -> Iterator[str]:
    """Yield sentences on a comparison's exclusions, uncertainty, effect, power and rankings."""
    found, ranking = one.overall, one.ranking

    def size(value: float) -> str:
        return f"{100 * value:.2f} points" if unit.percent else f"{value:.4f}"

    of_k = bool(explained(comparison.asked.score))
    counts = {
        "instances only in the baseline": found.only_first,
        "only in the run": found.only_second,
        "with too few verdicts" if of_k else "not judged": found.not_judged,
    }
    if lacking := ", ".join(f"{n:,} {what}" for what, n in counts.items() if n):
        pairs = f", {found.n:,} pairs remain" if found.not_judged and not found.bounds else ""
        yield f"Excluded, not counted as failures: {lacking}{pairs}."
    if found.bounds is not None and found.not_judged:
        yield bounds_line(found.not_judged, found.n, found.bounds, unit)
    if found.n and found.n_clusters < 2:
        yield f"{clusters_text(found.n, found.n_clusters)}: the uncertainty cannot be estimated."
    if found.stderr is not None:
        by = "" if found.p_value is None else "p by "
        clusters = clusters_text(found.n, found.n_clusters)
        how = f"over {clusters}; {by}{TESTS[found.method]}"
        equal = "" if found.stderr else ": all differences are equal,"
        yield f"Standard error {size(found.stderr)}{equal} {how}."
    if found.effect is not None:
        name = "Cohen's h" if found.verdicts else "d_z"
        yield f"Effect size {name} {found.effect:+.3f}."
    if found.stderr and found.p_value is not None:
        often = "in about 80% of cases (in simulations: 75 to 87%)"
        detected = f"detects no difference {often}"
        if found.detectable is not None:
            detected = f"detects a true difference of {size(found.detectable)} {often}"
        if found.needed is not None:
            detected += f"; detecting the observed difference takes {found.needed:,} instances"
        yield f"This sample {detected}."
    if any(one.without_constraints):
        of_base, of_run = one.without_constraints
        yield (
            "Excluded samples without constraints (refused, empty or failed): "
            f"{of_base:,} of the baseline, {of_run:,} of the run."
        )
    if ranking is not None and ranking.tau_b is not None:
        yield (
            f"Kendall's tau-b of the two runs' rankings of the {ranking.n_groups} groups of "
            f"{comparison.asked.by!r} is {ranking.tau_b:+.3f}; noise in the groups' means "
            "brings it closer to 0."
        )


def captions(comparison: RunComparison) -> Iterator[str]:
    """Yield the notes that explain a comparison's tables."""
    asked = comparison.asked
    yield (
        f"{score_name(asked.score)} of {_answers(asked.round)}, run minus baseline, over the "
        f"instances that both have, each with equal weight. The statistical units are "
        f"{units_shown(asked.cluster)}. better, worse: number of instances."
    )
    yield from explained(asked.score)
    several = len(comparison.others) > 1
    tested = sum(one.overall.p_value is not None for one in comparison.others)
    if tested > 1:
        yield f"p (Holm): adjusted over the {tested} runs."
    groups = sum(len(one.groups) for one in comparison.others)
    if groups:
        how = "BH): adjusted by Benjamini and Hochberg" if several else "Holm): adjusted"
        yield f"p ({how} over all {groups} groups."
    if several or asked.by:
        yield "p and the intervals are not adjusted for the number of rows."
    for one in comparison.others:
        if not one.overall.n:
            both = f"{one.run} and {comparison.baseline}"
            yield f"Nothing can be compared: {both} have no judged instance in common."
        yield from _shared_line(one, comparison.baseline)
    if any(one.constraints for one in comparison.others):
        best = f", scored by {score_name(asked.score)}" if explained(asked.score) else ""
        yield (
            "constraint: the kind, without its values. n counts each constraint of each instance"
            f"{best}. "
            "better, worse: satisfied more or less often. p (BH): adjusted by the method of "
            "Benjamini and Hochberg over a run's kinds."
        )
    yield from (note for note in comparison.notes if not note.startswith(SERIOUS))


def _shared_line(against: Against, baseline: str) -> Iterator[str]:
    """Yield a sentence on the instances whose replies are the same in both runs, if any."""
    comparison = against.overall
    if not comparison.shared:
        return
    which = (
        f"all {comparison.n:,}"
        if comparison.shared == comparison.n
        else f"{comparison.shared:,} of {comparison.n:,}"
    )
    same = f"{against.run} has the same replies as {baseline} for {which} instances"
    if comparison.method != "shared replies":
        yield f"{same}."
        return
    equal = " No value differs." * (comparison.better + comparison.worse == 0)
    yield f"No p value of {against.run}: {same}, so these are not independent samples.{equal}"


def serious(notes: Iterable[str]) -> list[str]:
    """Return those notes of a comparison that are shown before its result."""
    found = (note for note in notes if note.startswith(SERIOUS))
    return [note.replace("They were", "The runs were", 1) for note in found]


def _serious_notes(notes: Iterable[str]) -> list[Note]:
    return [Note(note, "yellow") for note in serious(notes)]


def score_name(score: str) -> str:
    """Format a score's name (or several joined by "and") for a caption, such as "pass rate"."""
    return " and ".join("pass rate" if s == PASS_RATE else s for s in score.split(" and "))


def _answers(round_: int | None) -> str:
    return "first answers" if round_ == 1 else f"each sample's {which_round(round_)}"


def units_shown(cluster: str) -> str:
    """Return the statistical units of a comparison in words."""
    return f"groups of {cluster!r}" if cluster else "prompts"


def _records(found: RunComparison) -> Iterator[dict[str, object]]:
    for one in found.others:
        every = [("", "", one.overall)]
        every += [(found.asked.by, *item) for item in one.groups.items()]
        every += [("constraint", kind, each.comparison) for kind, each in one.constraints.items()]
        for label, group, each in every:
            marks = "" if label else "; ".join(one.marks)
            yield {"run": one.run, "label": label, "group": group, "marks": marks} | flat(each)


def unequal(found: RunComparison, runs: Sequence[ReportedRun]) -> Iterator[str]:
    """Yield a warning for each way in which the runs differ: rounds, samples or instances."""
    asked = found.asked
    if rounds := _several(runs, "rounds.max", [run.last_round for run in runs]):
        what = "first rounds" if asked.round == 1 else f"each sample's {which_round(asked.round)}"
        yield f"The runs have {rounds} rounds; the comparison uses {what}."
    n_samples = [int(run.attempts.sample.max(initial=0)) + 1 for run in runs]
    share = "share of passed samples" if asked.score == PASS_RATE else "mean"
    used = asked.score if explained(asked.score) else f"each instance's {share}"
    if samples := _several(runs, "samples", n_samples):
        yield f"The runs have {samples} samples per instance; the comparison uses {used}."
    if any(one.overall.only_first or one.overall.only_second for one in found.others):
        have = ", ".join(f"{run.name} {run.metrics.n_instances:,}" for run in runs)
        yield (
            f"The runs do not have the same instances ({have}). Tables and figures of a run cover "
            "all of its instances; the comparison covers those that both runs have."
        )


def _several(runs: Sequence[ReportedRun], key: str, found: Sequence[int]) -> str:
    """Return a setting's values, such as "1, 2 and 4", or "" if all runs have the same value."""
    values = {int(run.settings.get(key) or n) for run, n in zip(runs, found, strict=True)}
    *first, last = [f"{value:,}" for value in sorted(values)] or [""]
    return f"{', '.join(first)} and {last}" if first else ""


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
    runs = [
        Row([f"{at} {_run_name(row)}", _mean(row.value), row.value.ci95,
             row.value.n, row.value.missing], row.marks)
        for at, row in enumerate(matrix.rows, start=1)
    ]  # fmt: skip
    parts: list[Table | Note] = [table(["run", "mean ± s.e.", "95%", "n", "missing"], runs)]
    if several:
        pairs = [[row.cells[0], *ps] for row, ps in zip(runs, p_cells(matrix), strict=True)]
        parts.append(_numbered("p / p (Holm)", pairs))
    if rankings is not None:
        if rankings.label:
            groups = [one for one in rankings.scorings if one.kind == "group"]
            means = [[one.name, *map(_mean, one.values)] for one in groups]
            heading = rankings.label
            if rankings.of == "constraints":  # not the score that the title names
                heading = f"{SATISFIED}, by {rankings.label}"
            parts.append(_numbered(heading, means))
        if several:
            parts.append(_numbered("tau-b", _taus(rankings)))
    captions = [*_matrix_captions(matrix), *(_ranking_captions(rankings) if rankings else ())]
    return TableDocument(
        title=f"{matrix.task}: {matrix.score}",
        parts=[*_serious_notes(matrix.notes), *parts, *map(Note, captions)],
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
        found = pair.comparison
        cells[pair.second][pair.first] = p_value(found.p_value) + "*" * pair.starred
        cells[pair.first][pair.second] = p_value(found.p_adjusted)
    return cells


def _taus(found: InducedRankings) -> list[list[object]]:
    n = len(found.scorings)
    names = [f"{at} {name}" for at, name in enumerate(_scoring_names(found), start=1)]
    rows: list[list[object]] = [[name, *[""] * n] for name in names]
    for tau in found.taus:
        rows[tau.second][1 + tau.first] = _tau_text(tau.tau_b)
    return rows


def _tau_text(tau_b: float | None) -> str:
    return number(tau_b, 2, sign=True)


def _scoring_names(found: InducedRankings) -> list[str]:
    kinds = {"all": "all: ", "external": "published: ", "group": ""}
    every = [f"{kinds[one.kind]}{one.name}" for one in found.scorings]
    # A bare number would be mistaken for a row number.
    return [f"{found.label} {name}" if name.isdecimal() else name for name in every]


def _matrix_captions(matrix: PairMatrix) -> Iterator[str]:
    yield (
        f"{score_name(matrix.score)} of {_answers(matrix.round)}; the statistical units are "
        f"{units_shown(matrix.cluster)}."
    )
    yield from explained(matrix.score)
    if methods := dict.fromkeys(TESTS[p.comparison.method] for p in matrix.pairs if p.comparison.n):
        tested = sum(pair.comparison.p_value is not None for pair in matrix.pairs)
        yield (
            f"Below the diagonal: p of each pair by {' or '.join(methods)}, over the instances for "
            f"which both have a value; * p < {STARRED}. Above: p adjusted by Holm's method "
            f"over all pairs that have one ({tested}); use it when looking for differences."
        )
    found = [pair.comparison for pair in matrix.pairs]
    lacking = [sum(filter(None, (c.only_first, c.only_second, c.not_judged))) for c in found]
    if uneven := [n for n in lacking if n]:
        yield (
            f"{len(uneven)} pairs exclude instances for which only one run has a value: up to "
            f"{max(uneven):,} (--format csv). A missing value is not counted as a failure."
        )
    yield from (note for note in matrix.notes if not note.startswith(SERIOUS))


def _ranking_captions(found: InducedRankings) -> Iterator[str]:
    if found.label and found.of == "constraints":
        yield (
            f"{found.label}: share of constraints satisfied, by the judge {found.judge!r}, "
            "each with equal weight; errors clustered by prompt."
        )
        if any(found.without):
            counts = ", ".join(f"{n:,}" for n in found.without)
            yield f"Samples without a verdict on any constraint, excluded, run by run: {counts}."
    elif found.label:
        yield f"{found.label}: mean {found.score} of each group."
    if len(found.scorings[0].values) > 1:
        fewest = min((tau.n_runs for tau in found.taus), default=0)
        yield (
            "Kendall's tau-b of the rankings of the runs by each two scores, over at least "
            f"{fewest} runs."
        )
    for tau in found.taus:
        if tau.first == 0 and found.scorings[tau.second].kind == "external":
            yield (
                f"{found.scorings[tau.second].name}, published: tau-b {_tau_text(tau.tau_b)} with "
                f"{found.score} over all, p {p_value(tau.p_value)}, {tau.n_runs} runs."
            )
    if found.unmatched:
        shown = ", ".join(found.unmatched[:5]) + ", …" * (len(found.unmatched) > 5)
        n = len(found.unmatched)
        yield f"Published scores that match no run's model or name ({n:,}): {shown}."


def _matrix_records(
    matrix: PairMatrix, rankings: InducedRankings | None
) -> Iterator[dict[str, object]]:
    for pair in matrix.pairs:
        one, other = matrix.rows[pair.first], matrix.rows[pair.second]
        marks = "; ".join([*one.marks, *other.marks])
        named = {"row": "pair", "name": other.run, "against": one.run, "marks": marks}
        yield named | {"starred": pair.starred} | flat(pair.comparison)
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
                named = {"row": "value", "name": row.run, "against": name, "marks": marks}
                yield named | {"score": scoring.score} | figures
    names = list(scorings)
    for tau in rankings.taus if rankings is not None else ():
        named = {"row": "tau", "name": names[tau.second], "against": names[tau.first], "marks": ""}
        yield named | {"tau_b": tau.tau_b, "tau_p_value": tau.p_value, "n_runs": tau.n_runs}
