"""The figures of a matrix of runs as text, and what must be said of them."""

from __future__ import annotations

from harness.analysis.clustered import SampleStatistic
from harness.analysis.comparison import Method
from harness.analysis.metrics import PASS_RATE
from harness.analysis.rankings import InducedRankings, Tau
from harness.analysis.run_comparison import STARRED, MatrixRow, PairMatrix, RunPair
from harness.report.ablation_figures import p_value, whole
from harness.report.cells import UNKNOWN, figure

DIAGONAL = "·"

TESTS: dict[Method, str] = {
    "exact McNemar": "McNemar's exact test",
    "clustered paired t": "Student's t of the paired differences, clustered",
    "none": "no test, since all pairs differ alike",
}


def run_name(row: MatrixRow) -> str:
    """A run, with its model where that is another name."""
    return row.run if row.model in ("", row.run) else f"{row.run} ({row.model})"


def run_names(matrix: PairMatrix) -> list[str]:
    """The runs, each with what must be said of it."""
    return [" ".join([run_name(row), *(f"[{mark}]" for mark in row.marks)]) for row in matrix.rows]


RUN_HEADINGS = ("mean ± s.e.", "95%", "n", "missing")


def run_cells(row: MatrixRow) -> list[str]:
    """A run's own figures, under `RUN_HEADINGS`."""
    value = row.value
    between = UNKNOWN
    if value.ci95 is not None:
        between = "-".join(figure(bound) for bound in value.ci95)
    return [value_text(value), between, f"{value.n:,}", f"{value.missing:,}"]


def value_text(value: SampleStatistic | None, *, stderr: bool = True) -> str:
    """A mean, with its error where it has one."""
    if value is None or value.mean is None:
        return UNKNOWN
    with_error = stderr and value.stderr is not None
    return figure(value.mean) + (f" ± {figure(value.stderr)}" if with_error else "")


def p_cells(matrix: PairMatrix) -> list[list[str]]:
    """The matrix: below the diagonal p, starred, and above it p by Holm."""
    n = len(matrix.rows)
    cells = [[DIAGONAL] * n for _ in range(n)]
    for pair in matrix.pairs:
        found = pair.comparison
        cells[pair.second][pair.first] = p_value(found.p_value) + "*" * pair.starred
        cells[pair.first][pair.second] = p_value(found.p_adjusted)
    return cells


def tau_cells(found: InducedRankings) -> list[list[str]]:
    """The taus, below the diagonal."""
    n = len(found.scorings)
    cells = [["" for _ in range(n)] for _ in range(n)]
    for tau in found.taus:
        cells[tau.second][tau.first] = tau_text(tau)
    return cells


def tau_text(tau: Tau) -> str:
    """One of them."""
    return UNKNOWN if tau.tau_b is None else f"{tau.tau_b:+.2f}"


def scoring_names(found: InducedRankings) -> list[str]:
    """The scorings; the one over everything and the published ones are said to be these."""
    kinds = {"all": "all: ", "external": "published: ", "group": ""}
    names = [f"{kinds[one.kind]}{one.name}" for one in found.scorings]
    # A number for a name would be read as one of a row.
    return [f"{found.label} {name}" if name.isdecimal() else name for name in names]


def matrix_captions(matrix: PairMatrix) -> list[str]:
    """What must be known to read the matrix."""
    what = "pass rate" if matrix.score == PASS_RATE else whole(matrix.score)
    when = {None: "each sample's last round", 1: "first answers"}.get(
        matrix.round, f"each sample's last round up to {matrix.round}"
    )
    unit = f"groups of {whole(matrix.cluster)!r}" if matrix.cluster else "prompts"
    methods = dict.fromkeys(pair.comparison.method for pair in matrix.pairs)
    told = [f"{what} of {when}; {unit} are the statistical units."]
    if matrix.pairs:
        told.append(
            f"Below the diagonal p of each pair by {' or '.join(TESTS[one] for one in methods)}, "
            f"over the instances that both have a value of; * p < {STARRED}. Above it p by Holm "
            f"over the pairs ({len(matrix.pairs)}), and that is what a search should go by."
        )
    uneven = [pair for pair in matrix.pairs if lacking(pair)]
    if uneven:
        most = max(map(lacking, uneven))
        told.append(
            f"Of {len(uneven)} pairs instances are left out that only one run has a value of: up "
            f"to {most:,} (--format csv). A missing value is not taken for a failure."
        )
    return [*told, *map(whole, matrix.notes)]


def lacking(pair: RunPair) -> int:
    """Instances of a pair that one of its runs has no value of."""
    found = pair.comparison
    return sum(filter(None, (found.only_first, found.only_second, found.not_judged)))


def ranking_captions(found: InducedRankings) -> list[str]:
    """What must be known to read the values by group and the taus."""
    told = []
    if found.label and found.of == "constraints":
        told.append(
            f"{whole(found.label)}: the share of constraints that are met by the judge "
            f"{whole(found.judge)!r}, each weighing the same; errors clustered by prompt."
        )
        if any(found.without):
            counts = ", ".join(f"{n:,}" for n in found.without)
            told.append(
                f"Samples without a verdict on any constraint, run by run, and left out: {counts}."
            )
    elif found.label:
        told.append(f"{whole(found.label)}: the mean of {whole(found.score)} on each group.")
    if len(found.scorings[0].values) > 1:
        fewest = min((tau.n_runs for tau in found.taus), default=0)
        told.append(
            f"Kendall's tau-b of the rankings of runs that the scorings give; of {fewest} runs or "
            "more."
        )
    told += [
        f"{whole(found.scorings[tau.second].name)}, published: tau-b {tau_text(tau)} with "
        f"{whole(found.score)} over all, p {p_value(tau.p_value)}, {tau.n_runs} runs."
        for tau in found.taus
        if tau.first == 0 and found.scorings[tau.second].kind == "external"
    ]
    if found.unmatched:
        shown = ", ".join(map(whole, found.unmatched[:5]))
        more = ", …" if len(found.unmatched) > 5 else ""
        told.append(
            f"Published, but no run's model or name ({len(found.unmatched):,}): {shown}{more}."
        )
    return told
