"""The figures of a comparison as text, and what must be said of them."""

from __future__ import annotations

from harness.analysis.comparison import Comparison
from harness.analysis.metrics import PASS_RATE
from harness.analysis.run_comparison import Against, RunComparison
from harness.report.ablation_figures import p_value, whole
from harness.report.cells import UNKNOWN

HEADINGS = ("n", "baseline", "run", "difference", "95%", "p", "better", "worse")


def cells(found: Comparison) -> list[str]:
    """The figures of a comparison, under `HEADINGS`."""
    low_high = UNKNOWN
    if found.ci95 is not None:
        low_high = f"{found.ci95[0]:+.4f} to {found.ci95[1]:+.4f}"
    return [
        f"{found.n:,}",
        _figure(found.first),
        _figure(found.second),
        UNKNOWN if found.difference is None else f"{found.difference:+.4f}",
        low_high,
        p_value(found.p_adjusted),
        f"{found.better:,}",
        f"{found.worse:,}",
    ]


def missing(found: Comparison) -> str:
    """What is not in the figures; empty where nothing is missing."""
    told = {
        "instances that only the baseline has": found.only_first,
        "that only the run has": found.only_second,
        "not judged": found.not_judged,
    }
    return ", ".join(f"{count:,} {what}" for what, count in told.items() if count)


def details(one: Against, comparison: RunComparison) -> list[str]:
    """What is known of a run's comparison beside its row."""
    found = one.overall
    told = []
    if lacking := missing(found):
        told.append(f"Left out, and not taken for failures: {lacking}.")
    if found.n and found.n_clusters < 2:
        told.append("One cluster: nothing can be said of how sure this is.")
    if found.stderr is not None:
        told.append(
            f"Standard error {found.stderr:.4f} over {found.n_clusters:,} clusters; "
            f"p by {_METHODS[found.method]}."
        )
    if found.effect is not None:
        name = "Cohen's h" if comparison.asked.score == PASS_RATE else "d_z"
        told.append(f"Effect size {name} {found.effect:+.3f}.")
    if found.detectable is not None:
        told.append(
            f"With so many, a true difference of {found.detectable:.4f} shows in 80% of cases"
            + (
                f"; one as large as this would show with {found.needed:,} instances."
                if found.needed is not None
                else "."
            )
        )
    if any(one.without_constraints):
        of_base, of_run = one.without_constraints
        told.append(
            f"Without constraints, and left out there: {of_base:,} samples of the baseline, "
            f"{of_run:,} of the run (refused, empty or failed)."
        )
    if one.ranking is not None and one.ranking.tau_b is not None:
        ranking = one.ranking
        between = f" ({ranking.ci95[0]:+.3f} to {ranking.ci95[1]:+.3f})" if ranking.ci95 else ""
        told.append(
            f"The {ranking.n_groups} groups of {whole(comparison.asked.by)!r} are ranked alike by "
            f"Kendall's tau-b {ranking.tau_b:+.3f}{between}."
        )
    return told


def captions(comparison: RunComparison) -> list[str]:
    """What must be known to read the rows."""
    asked = comparison.asked
    what = "pass rate" if asked.score == PASS_RATE else whole(asked.score)
    when = {None: "each sample's last round", 1: "first answers"}.get(
        asked.round, f"each sample's last round up to {asked.round}"
    )
    unit = f"groups of {whole(asked.cluster)!r}" if asked.cluster else "prompts"
    told = [
        f"{what} of {when}, run minus baseline, over the instances that both have; each instance "
        f"weighs the same, and {unit} are the statistical units. better, worse: instances."
    ]
    several = len(comparison.others) > 1
    if several:
        told.append(f"p by Holm over the {len(comparison.others)} runs.")
    if asked.by:
        groups = sum(len(one.groups) for one in comparison.others)
        how = "Benjamini and Hochberg" if several else "Holm"
        told.append(f"p of the groups by {how} over all {groups}.")
    if any(one.constraints for one in comparison.others):
        told.append(
            "constraint: its kind, values left out; a pair is a constraint of an instance; better, "
            "worse: met more often, and less; p by Benjamini and Hochberg over a run's kinds."
        )
    return [*told, *map(whole, comparison.notes)]


_METHODS = {
    "exact McNemar": "McNemar's exact test",
    "clustered paired t": "Student's t of the paired differences, clustered",
    "none": "no test: all pairs differ alike",
}


def _figure(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.4f}"
