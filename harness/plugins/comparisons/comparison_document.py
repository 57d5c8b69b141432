"""Presents comparisons of runs with a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from harness.analysis.metrics import PASS_RATE, Interval, Statistic
from harness.config.sections import split_k
from harness.plugins.comparisons.comparable import read_run
from harness.plugins.comparisons.comparison import Comparison
from harness.plugins.comparisons.run_comparison import (
    Against,
    ComparisonOptions,
    RunComparison,
    compare_runs,
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
from harness.report.text import (
    format_clusters,
    format_interval,
    format_p_value,
    format_share,
    format_with_error,
)
from harness.store.run_folder import RunFolder

TESTS: Mapping[str, str] = {
    "exact McNemar": "McNemar's exact test",
    "clustered paired t": "Student's t of the paired differences, clustered",
    "sign flips": "an exact test that swaps the two runs in each cluster, because few differ",
    "shared replies": "no test, because the two runs have the same replies",
    "none": "no test, because all pairs differ in the same way",
}


class ShownUnit(Struct, frozen=True):
    """How the values of a score are shown: as percentages with fixed decimals, or as numbers."""

    percent: bool = True
    digits: int = 1

    @property
    def sign(self) -> str:
        """The unit's sign: "%" for percentages, otherwise ""."""
        return "%" if self.percent else ""

    def show(self, value: object, column: Column) -> str:
        """Format a cell's value: in this unit if the column is a `rate`, else as `Column.show`."""
        if not (self.percent and column.rate):
            return column.format(value)
        sign = "" if column.sign else "%"
        if isinstance(value, Statistic):
            if value.mean is None or value.stderr is None:
                return format_share(value.mean, self.digits, column.sign)
            text = format_with_error(100 * value.mean, 100 * value.stderr, self.digits, column.sign)
            return text + sign
        if isinstance(value, tuple):
            low, high = value
            return format_interval((100 * low, 100 * high), self.digits, column.sign) + sign
        if isinstance(value, float | int) and not isinstance(value, bool):
            return format_share(value, self.digits, column.sign)
        return column.format(value)

    def of_difference(self, value: float) -> str:
        """Format the size of a difference, such as "2.50 points"."""
        if self.percent:
            return f"{100 * value:.2f} points"
        return f"{value:.4f}"


def _columns(first: str, adjustment: str) -> list[Column | str | None]:
    return [
        first,
        Column("n", hide=1),
        Column("baseline", digits=4, hide=2, rate=True),
        Column("run", digits=4, hide=3, rate=True),
        Column("difference", digits=4, sign=True, rate=True),
        Column("95%", digits=4, sign=True, hide=8, rate=True),
        Column("p", formatter=format_p_value, hide=6),
        Column(f"p ({adjustment})", formatter=format_p_value, hide=7) if adjustment else None,
        Column("better", hide=5),
        Column("worse", hide=4),
    ]


def comparison_document(comparison: RunComparison, *, brief: bool = False) -> TableDocument:
    """Build the document that compares runs with a baseline.

    If ``brief``, each run's details and its tables by group and constraint are omitted.
    """
    rows = []
    details_by_run: list[Table | Note] = []
    for against in comparison.others:
        cells = _cells(against.run, against.overall, against.run, _of_round(comparison))
        rows.append(Row(cells, against.marks))
        if not brief:
            text = f"{against.run}: {' '.join(details(against, comparison))}"
            details_by_run.append(Note(text, ""))
            details_by_run += tables_within(against, comparison)
    parts: list[Table | Note] = [*serious_notes(comparison.notes)]
    parts.append(table(_columns("run", "Holm" if len(rows) > 1 else ""), rows))
    parts += details_by_run
    parts += map(Note, captions(comparison))
    data: dict[str, Any] = msgspec.to_builtins(comparison)
    for fields in data["others"]:
        del fields["better_digests"]
        del fields["worse_digests"]
    marks = []
    if comparison.marks:
        marks.append(f"{comparison.baseline}: {', '.join(comparison.marks)}")
    return TableDocument(
        title=f"{comparison.task}: against {comparison.baseline}",
        marks=marks,
        parts=parts,
        records=list(_records(comparison)),
        data=data,
    )


def variants_document(runs: Sequence[RunFolder], *, brief: bool = False) -> TableDocument:
    """Compare the variants of a run file by their own measures, and build the document."""
    comparison = compare_runs([read_run(run) for run in runs], ComparisonOptions(score=""))
    return comparison_document(comparison, brief=brief)


def tables_within(against: Against, comparison: RunComparison) -> Iterator[Table]:
    """Yield the tables of a run's comparison by group and by constraint, if there are any."""
    title = f"{against.run} against {comparison.baseline}, by"
    if against.groups:
        by = comparison.asked.by
        rows = []
        for name, group in against.groups.items():
            within = f"&{_quoted(f'in.{by}')}={_quoted(name)}{_of_round(comparison)}"
            rows.append(_cells(name, group, against.run, within))
        columns = _columns(by, "BH" if len(comparison.others) > 1 else "Holm")
        yield table(columns, rows, title=f"{title} {by}")
    if against.constraints:
        rows = [_cells(name, kind.comparison) for name, kind in against.constraints.items()]
        yield table(_columns("constraint", "BH"), rows, title=f"{title} constraint")


def _of_round(comparison: RunComparison) -> str:
    """Return the part of a link that selects the compared round."""
    round_ = comparison.asked.round
    return f"&round={round_}" if round_ else ""


def _cells(name: str, comparison: Comparison, run: str = "", within: str = "") -> list[object]:
    changes = []
    for change, n in (("better", comparison.better), ("worse", comparison.worse)):
        href = ""
        if n and run:
            href = f"#attempts?change={change}:{_quoted(run)}{within}"
        changes.append(Cell(n, href=href))
    return [
        name,
        comparison.n,
        comparison.first,
        comparison.second,
        comparison.difference,
        comparison.ci95,
        comparison.p_value,
        comparison.p_adjusted,
        *changes,
    ]


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")


_NUMBER = ShownUnit(percent=False)


def bounds_line(not_judged: int, n: int, bounds: Interval, unit: ShownUnit = _NUMBER) -> str:
    """Return a sentence on how far pairs that were not judged could change a difference."""
    points = " points" * unit.percent
    signed = Column("", sign=True, rate=True)
    low, high = (unit.show(end, signed) + points for end in bounds)
    return (
        f"{not_judged:,} of {not_judged + n:,} pairs are not judged, which may bias the difference:"
        f" it is {low} if all unjudged answers count against the run, and {high} if for it."
    )


def details(
    against: Against, comparison: RunComparison, unit: ShownUnit = _NUMBER
) -> Iterator[str]:
    """Yield sentences on a comparison's exclusions, uncertainty, effect, power and rankings."""
    overall = against.overall
    of_k_samples = bool(explained(comparison.asked.score))
    counts = {
        "instances only in the baseline": overall.only_first,
        "only in the run": overall.only_second,
        "with too few verdicts" if of_k_samples else "not judged": overall.not_judged,
    }
    excluded = ", ".join(f"{n:,} {what}" for what, n in counts.items() if n)
    if excluded:
        if overall.not_judged and not overall.bounds:
            excluded += f", {overall.n:,} pairs remain"
        yield f"Excluded, not counted as failures: {excluded}."
    if overall.bounds is not None and overall.not_judged:
        yield bounds_line(overall.not_judged, overall.n, overall.bounds, unit)
    clusters = format_clusters(overall.n, overall.n_clusters)
    if overall.n and overall.n_clusters < 2:
        yield f"{clusters}: the uncertainty cannot be estimated."
    if overall.stderr is not None:
        by = "" if overall.p_value is None else "p by "
        equal = "" if overall.stderr else ": all differences are equal,"
        how = f"over {clusters}; {by}{TESTS[overall.method]}"
        yield f"Standard error {unit.of_difference(overall.stderr)}{equal} {how}."
    if overall.effect is not None:
        name = "Cohen's h" if overall.verdicts else "d_z"
        yield f"Effect size {name} {overall.effect:+.3f}."
    if overall.stderr and overall.p_value is not None:
        yield _power(overall, unit)
    if any(against.without_constraints):
        of_base, of_run = against.without_constraints
        yield (
            "Excluded samples without constraints (refused, empty or failed): "
            f"{of_base:,} of the baseline, {of_run:,} of the run."
        )
    ranking = against.ranking
    if ranking is not None and ranking.tau_b is not None:
        yield (
            f"Kendall's tau-b of the two runs' rankings of the {ranking.n_groups} groups of "
            f"{comparison.asked.by!r} is {ranking.tau_b:+.3f}; noise in the groups' means "
            "brings it closer to 0."
        )


def _power(comparison: Comparison, unit: ShownUnit) -> str:
    """Return a sentence on the differences that a comparison could have detected."""
    detected = "no difference"
    if comparison.detectable is not None:
        detected = f"a true difference of {unit.of_difference(comparison.detectable)}"
    sentence = f"This sample detects {detected} in about 80% of cases (in simulations: 70 to 87%)"
    if comparison.needed is not None:
        instances = f"{comparison.needed:,} instances"
        sentence += f"; detecting the observed difference takes {instances}"
    return f"{sentence}."


def captions(comparison: RunComparison) -> Iterator[str]:
    """Yield the notes that explain a comparison's tables."""
    options = comparison.asked
    weight = f"weighted by {comparison.weight}" if comparison.weight else "each with equal weight"
    yield (
        f"{score_name(options.score)} of {answers_text(options.round)}, run minus baseline, over "
        f"the instances that both have, {weight}. If the 95% interval includes or touches 0, the "
        "difference may be chance. The statistical units are "
        f"{units_shown(options.cluster)}. better, worse: number of instances."
    )
    of_k_samples = explained(options.score)
    yield from of_k_samples
    has_several = len(comparison.others) > 1
    n_tested = sum(against.overall.p_value is not None for against in comparison.others)
    if n_tested > 1:
        yield (
            f"p (Holm): p adjusted by Holm's method for testing {n_tested} runs against the "
            "baseline, of which some may differ by chance."
        )
    n_groups = sum(len(against.groups) for against in comparison.others)
    if n_groups:
        method = "Holm): p adjusted by Holm's"
        if has_several:
            method = "BH): p adjusted by Benjamini and Hochberg's"
        yield f"p ({method} method for testing {n_groups} groups."
    if has_several or options.by:
        yield "p and the intervals are not adjusted for the number of rows."
    for against in comparison.others:
        if not against.overall.n:
            both = f"{against.run} and {comparison.baseline}"
            yield f"Nothing can be compared: {both} have no judged instance in common."
        if against.overall.shared:
            yield _shared_line(against, comparison.baseline)
    if any(against.constraints for against in comparison.others):
        best = f", scored by {score_name(options.score)}" if of_k_samples else ""
        yield (
            "constraint: the kind, without its values. n counts each constraint of each instance"
            f"{best}. "
            "better, worse: satisfied more or less often. p (BH): adjusted by the method of "
            "Benjamini and Hochberg over a run's kinds."
        )
    yield from (note for note in comparison.notes if not note.startswith(SERIOUS))


def _shared_line(against: Against, baseline: str) -> str:
    """Return a sentence on the instances whose replies are the same in both runs."""
    comparison = against.overall
    which = f"{comparison.shared:,} of {comparison.n:,}"
    if comparison.shared == comparison.n:
        which = f"all {comparison.n:,}"
    if comparison.method != "shared replies":
        return f"{against.run} has the same replies as {baseline} for {which} instances."
    equal = " No value differs." * (comparison.better + comparison.worse == 0)
    return (
        f"{against.run} has no p value: it shares replies with {baseline} for {which} instances, "
        "because equal requests are paid for once. So the difference is not one between two "
        f"independent samples.{equal}"
    )


def serious(notes: Iterable[str]) -> list[str]:
    """Return those notes of a comparison that are shown before its result."""
    first_notes = []
    for note in notes:
        if note.startswith(SERIOUS):
            first_notes.append(note.replace("They were", "The runs were", 1))
    return first_notes


def serious_notes(notes: Iterable[str]) -> list[Note]:
    """Return `serious` notes as paragraphs of a document."""
    return [Note(note, "yellow") for note in serious(notes)]


def explained(scores: str) -> list[str]:
    """Return a list with a note on scores of k samples, or [] if ``scores`` names no such score."""
    if not any(split_k(score)[1] for score in scores.split(" and ")):
        return []
    return [
        "pass@k, pass^k: probability that at least one, or all, of k samples pass (unbiased). "
        "any@k: whether one of the first k passes. Instances with fewer verdicts are excluded."
    ]


def score_name(score: str) -> str:
    """Format a score's name (or several joined by "and") for a caption, such as "pass rate"."""
    names = ["pass rate" if name == PASS_RATE else name for name in score.split(" and ")]
    return " and ".join(names)


def which_round(round_: int | None) -> str:
    """Describe a round: "last round" (None), "first answer" (1), or "last round up to N"."""
    return {None: "last round", 1: "first answer"}.get(round_, f"last round up to {round_}")


def answers_text(round_: int | None) -> str:
    """Return in words which answers a comparison of rounds up to ``round_`` uses."""
    if round_ == 1:
        return "first answers"
    return f"each sample's {which_round(round_)}"


def units_shown(cluster: str) -> str:
    """Return the statistical units of a comparison in words."""
    if cluster:
        return f"groups of {cluster!r}"
    return "prompts"


def _records(comparison: RunComparison) -> Iterator[dict[str, object]]:
    for against in comparison.others:
        marks = "; ".join(against.marks)
        yield _record(against.run, "", "", marks) | flatten_statistic(against.overall)
        for group, part in against.groups.items():
            yield _record(against.run, comparison.asked.by, group) | flatten_statistic(part)
        for kind, change in against.constraints.items():
            yield _record(against.run, "constraint", kind) | flatten_statistic(change.comparison)


def _record(run: str, label: str, group: str, marks: str = "") -> dict[str, object]:
    return {"run": run, "label": label, "group": group, "marks": marks}
