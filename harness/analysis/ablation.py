"""What each variant of a run file gains over a baseline: the rows of an ablation.

The unit that is averaged and paired over is a group of a label (a task of
Natural Instructions, a structure of COLLIE): each weighs the same, as in Mishra
et al. 2022 (arXiv 2104.08773). A variant that lacks groups of the baseline's is
compared on those that both have. What is not known is null, never 0.

>>> ablate(variants, Question(over="task", score="rouge_l")).rows[1].difference  # doctest: +SKIP
0.0593
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from msgspec import Struct

from harness.analysis.comparable import (
    CONFOUNDED,
    Variant,
    confounded,
    differing,
    refuse_incomparable,
)
from harness.analysis.paired import holm, paired
from harness.analysis.question import PASS_RATE, Question, the_baseline, the_label, the_score
from harness.errors import ConfigError


class Gain(Struct, frozen=True, kw_only=True):
    """A mean against the baseline's, over the groups that both have.

    n: those groups; of: the baseline's.
    mean: of them, unweighted; null without a group.
    percent: (mean - baseline's) / baseline's * 100; null without a group, and
        where the baseline's mean is 0.
    """

    n: int
    of: int
    mean: float | None
    percent: float | None


class Row(Struct, frozen=True, kw_only=True):
    """One variant.

    marks: why it may not be what it seems (INCOMPLETE, SIMULATED, …).
    n_groups: groups that it has the score of.
    mean: the unweighted mean over them.
    same_groups: they are the baseline's; else `mean` is not comparable with it.
    gain, difference, ci95, p_value: over the groups that both have
        (`harness.analysis.paired`); the baseline's own are null.
    p_holm: p_value adjusted for all rows of the table.
    n_better: groups of these in which the variant has more.
    by: group of the label that gains are asked by, to the gain there.
    """

    variant: str
    is_baseline: bool
    marks: list[str]
    n_groups: int
    mean: float | None
    same_groups: bool
    gain: Gain
    difference: float | None = None
    ci95: tuple[float, float] | None = None
    p_value: float | None = None
    p_holm: float | None = None
    n_better: int = 0
    by: dict[str, Gain] = {}


class Ablation(Struct, frozen=True, kw_only=True):
    """The rows, in the order of the variants, and what must be said of them all.

    model: the baseline's; where others have another, the notes say so.
    """

    task: str
    model: str | None = None
    baseline: str
    over: str
    score: str
    by: str = ""
    n_groups: int
    rows: list[Row]
    notes: list[str]


def ablate(variants: Sequence[Variant], asked: Question) -> Ablation:
    """Compare variants with their baseline.

    Raises: ConfigError; RunConflict where they cannot be compared.
    """
    begun = [variant for variant in variants if variant.begun]
    baseline = the_baseline(variants, asked.baseline)
    over = the_label(begun, asked.over)
    refuse_incomparable(baseline, begun, over)
    score = the_score(begun, asked.score)
    base = group_values(baseline, over, score)
    if not base:
        raise ConfigError(
            f"The run {baseline.metrics.run!r} has no {score} in any {over}.",
            "Name another --baseline, or another --score.",
        )
    rows = [_row(variant, baseline, over, score, asked) for variant in variants]
    adjusted = holm([row.p_value for row in rows])
    return Ablation(
        task=baseline.metrics.task,
        model=baseline.metrics.model,
        baseline=baseline.name,
        over=over,
        score=score,
        by=asked.by,
        n_groups=len(base),
        rows=[_adjusted(row, p) for row, p in zip(rows, adjusted, strict=True)],
        notes=list(differing(baseline, begun)),
    )


def group_values(variant: Variant, over: str, score: str) -> dict[str, float]:
    """The score's mean in each group that has it."""
    found = {}
    for name, group in variant.metrics.groups.get(over, {}).items():
        if score == PASS_RATE:
            value = group.pass_rate
        else:
            value = group.scores[score].mean if score in group.scores else None
        if value is not None:
            found[name] = value
    return found


def several(label: str) -> str:
    """The groups of a label, as one speaks of them.

    >>> several("category")
    'categories'
    """
    return f"{label[:-1]}ies" if label.endswith("y") else f"{label}s"


def counted(n: int, label: str) -> str:
    """So many groups of a label.

    >>> counted(1, "task")
    '1 task'
    """
    return f"{n:,} {label if n == 1 else several(label)}"


def gain(values: Mapping[str, float], base: Mapping[str, float]) -> Gain:
    """Of values over those of a baseline, on the groups that both have."""
    common = [name for name in base if name in values]
    before = fsum(base[name] for name in common)
    after = fsum(values[name] for name in common)
    percent = (after - before) / before * 100 if before else None
    mean = after / len(common) if common else None
    return Gain(n=len(common), of=len(base), mean=mean, percent=percent)


def _row(variant: Variant, baseline: Variant, over: str, score: str, asked: Question) -> Row:
    values, base = group_values(variant, over, score), group_values(baseline, over, score)
    common = [name for name in base if name in values]
    is_baseline = variant.name == baseline.name
    pairs = [] if is_baseline else common
    found = paired([values[name] for name in pairs], [base[name] for name in pairs])
    return Row(
        variant=variant.name,
        is_baseline=is_baseline,
        marks=[
            *([CONFOUNDED] if confounded(baseline, variant) else []),
            *variant.marks,
            *_doubts(variant, baseline, over, score),
        ],
        n_groups=len(values),
        mean=fsum(values.values()) / len(values) if values else None,
        same_groups=values.keys() == base.keys(),
        gain=gain(values, base),
        difference=found.difference,
        ci95=found.interval(),
        p_value=found.p_value,
        n_better=found.n_more,
        by=_gains_by(values, base, asked.member),
    )


def _gains_by(
    values: Mapping[str, float], base: Mapping[str, float], member: Mapping[str, str]
) -> dict[str, Gain]:
    def within(all_: Mapping[str, float], coarse: str) -> dict[str, float]:
        return {name: value for name, value in all_.items() if member.get(name) == coarse}

    return {
        coarse: gain(within(values, coarse), within(base, coarse))
        for coarse in sorted(set(member.values()))
    }


def _doubts(variant: Variant, baseline: Variant, over: str, score: str) -> list[str]:
    groups, others = (run.metrics.groups.get(over, {}) for run in (variant, baseline))
    doubts = []
    more = len(groups.keys() - others.keys()) if others else 0
    if more:
        doubts.append(f"{counted(more, over)} that the baseline lacks")
    if variant.metrics.complete and baseline.metrics.complete:
        common = groups.keys() & others.keys()
        unlike = sum(groups[name].instances != others[name].instances for name in common)
        if unlike:
            doubts.append(f"other instances in {counted(unlike, over)}")
    if score == PASS_RATE:
        missing = sum(group.not_judged for group in groups.values())
    else:
        missing = sum(
            group.scores[score].not_measured
            if score in group.scores
            else group.n + group.not_judged
            for group in groups.values()
        )
    if missing:
        doubts.append(f"{missing:,} samples without {score}")
    return doubts


def _adjusted(row: Row, p_holm: float | None) -> Row:
    row_with = {name: getattr(row, name) for name in row.__struct_fields__}
    return Row(**(row_with | {"p_holm": p_holm}))
