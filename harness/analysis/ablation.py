"""The variants of a run file compared with a baseline: the rows of an ablation.

The unit that is averaged and paired over is a group of a label (a task of Natural Instructions,
a structure of COLLIE); each has the same weight, as in Mishra et al. 2022 (arXiv 2104.08773). A
variant that lacks some of the baseline's groups is compared on those that both have. Unknown
values are null, never 0.

>>> ablate(variants, AblationOptions(over="task", score="rouge_l")).rows[1].difference
... # doctest: +SKIP
0.0593
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import fsum

from msgspec import Struct
from msgspec.structs import replace

from harness.analysis.comparable import Variant, differing, marks_against, refuse_incomparable
from harness.analysis.metrics import PASS_RATE
from harness.analysis.paired import Paired, holm, paired
from harness.errors import ConfigError, RunConflict, nearest


class AblationOptions(Struct, frozen=True, kw_only=True):
    """What to compare; empty values mean the defaults.

    Attributes:
        baseline: The variant that the others are compared with; by default the first.
        over: The label whose groups are averaged and paired; by default the first one that all runs
            have.
        score: By default the task's primary metric.
        by: A coarser label, for gains by its groups.
        member: Group of `over` to its group of `by`.
    """

    baseline: str = ""
    over: str = ""
    score: str = ""
    by: str = ""
    member: Mapping[str, str] = {}


class Gain(Struct, frozen=True, kw_only=True):
    """The unweighted mean over the n groups that the variant shares with the baseline.

    Attributes:
        percent: (mean - baseline's) / baseline's * 100; null without a group, and where the
            baseline's mean is 0.
    """

    n: int
    of: int
    mean: float | None
    percent: float | None


class AblationRow(Struct, frozen=True, kw_only=True):
    """One variant.

    Attributes:
        n_groups: Groups with a value of the score.
        mean: The unweighted mean over them.
        same_groups: Whether they are the baseline's; if not, `mean` is not comparable with it.
        gain, difference, ci95, p_value: Over the groups that both have (`harness.analysis.paired`);
            null for the baseline itself.
        p_holm: p_value adjusted for all rows of the table.
        n_better: Shared groups in which the variant's value is larger.
        by: The gain in each group of the coarser label.
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
    """An ablation's rows, in the order of the variants.

    The model is the baseline's; the notes are sentences on what the variants differ in.
    """

    task: str
    model: str | None = None
    baseline: str
    over: str
    score: str
    by: str = ""
    n_groups: int
    rows: list[AblationRow]
    notes: list[str]


def ablate(variants: Sequence[Variant], options: AblationOptions) -> Ablation:
    """Compare variants with their baseline.

    Raises:
        ConfigError: An option is not valid.
        RunConflict: The runs cannot be compared.
    """
    begun = [variant for variant in variants if variant.begun]
    baseline = _baseline(variants, options.baseline)
    over = _label(begun, options.over)
    refuse_incomparable(baseline, begun, over)
    score = _score(begun, options.score)
    base = group_values(baseline, over, score)
    if not base:
        raise ConfigError(
            f"The run {baseline.metrics.run!r} has no {score} in any {over}.",
            "Name another --baseline, or another --score.",
        )
    rows = [_row(variant, baseline, over, score, options.member) for variant in variants]
    adjusted = holm([row.p_value for row in rows])
    return Ablation(
        task=baseline.metrics.task,
        model=baseline.metrics.model,
        baseline=baseline.name,
        over=over,
        score=score,
        by=options.by,
        n_groups=len(base),
        rows=[replace(row, p_holm=p) for row, p in zip(rows, adjusted, strict=True)],
        notes=list(differing(baseline, begun)),
    )


def _baseline(variants: Sequence[Variant], wanted: str) -> Variant:
    found = {variant.name: variant for variant in variants}
    name = wanted or variants[0].name
    if name not in found:
        raise ConfigError(f"There is no variant {name!r} to compare with.", nearest(name, found))
    if not found[name].begun:
        raise ConfigError(
            f"The run {found[name].metrics.run!r} has no attempts to compare with.",
            "Run its run file again, or name another --baseline.",
        )
    return found[name]


def _label(variants: Sequence[Variant], wanted: str) -> str:
    """Return the requested label, or the first one that all runs have."""
    labels = dict.fromkeys(label for variant in variants for label in variant.metrics.groups)
    whole = [one for one in labels if all(one in variant.metrics.groups for variant in variants)]
    if not wanted and not whole:
        raise ConfigError(
            "The runs have no common label to average over.", "Run variants of one task."
        )
    for variant in variants:
        if wanted and wanted not in variant.metrics.groups:
            raise ConfigError(
                f"The run {variant.metrics.run!r} has no groups of {wanted!r}.",
                nearest(wanted, whole),
            )
    return wanted or whole[0]


def _score(variants: Sequence[Variant], wanted: str) -> str:
    """Return the requested score, or the task's primary metric."""
    metrics = [variant.metrics for variant in variants]
    measures = dict.fromkeys(found.measure or PASS_RATE for found in metrics)
    if not wanted and len(measures) > 1:
        raise RunConflict(
            f"The runs have different primary metrics: {', '.join(measures)}.",
            "Name one with --score.",
        )
    valid = dict.fromkeys([PASS_RATE, *(name for found in metrics for name in found.scores)])
    if wanted and wanted not in valid:
        raise ConfigError(f"The runs have no score {wanted!r}.", nearest(wanted, valid))
    return wanted or next(iter(measures))


def group_values(variant: Variant, over: str, score: str) -> dict[str, float]:
    """Return the score's mean in each group that has it."""
    found = {
        name: group.pass_rate
        if score == PASS_RATE
        else (group.scores[score].mean if score in group.scores else None)
        for name, group in variant.metrics.groups.get(over, {}).items()
    }
    return {name: value for name, value in found.items() if value is not None}


def compare_groups(values: Mapping[str, float], base: Mapping[str, float]) -> Paired:
    """Compare the values of the groups that both have."""
    common = [name for name in base if name in values]
    return paired([values[name] for name in common], [base[name] for name in common])


def several(label: str) -> str:
    """Return the plural of a label.

    >>> several("category")
    'categories'
    """
    return f"{label[:-1]}ies" if label.endswith("y") else f"{label}s"


def counted(n: int, label: str) -> str:
    """Format a number of groups with their label's name.

    >>> counted(1, "task")
    '1 task'
    """
    return f"{n:,} {label if n == 1 else several(label)}"


def gain(values: Mapping[str, float], base: Mapping[str, float]) -> Gain:
    """Return the gain of some values over a baseline's, on the groups that both have."""
    common = [name for name in base if name in values]
    before = fsum(base[name] for name in common)
    after = fsum(values[name] for name in common)
    percent = (after - before) / before * 100 if before else None
    mean = after / len(common) if common else None
    return Gain(n=len(common), of=len(base), mean=mean, percent=percent)


def _row(
    variant: Variant, baseline: Variant, over: str, score: str, member: Mapping[str, str]
) -> AblationRow:
    values, base = group_values(variant, over, score), group_values(baseline, over, score)
    is_baseline = variant.name == baseline.name
    found = compare_groups({} if is_baseline else values, base)

    def within(coarse: str, of: Mapping[str, float]) -> dict[str, float]:
        return {name: value for name, value in of.items() if member.get(name) == coarse}

    return AblationRow(
        variant=variant.name,
        is_baseline=is_baseline,
        marks=[
            *marks_against(baseline, variant),
            *_doubts(variant, baseline, over, score),
        ],
        n_groups=len(values),
        mean=fsum(values.values()) / len(values) if values else None,
        same_groups=values.keys() == base.keys(),
        gain=gain(values, base),
        difference=found.mean,
        ci95=found.clipped_ci95(),
        p_value=found.p_value,
        n_better=found.n_more,
        by={
            coarse: gain(within(coarse, values), within(coarse, base))
            for coarse in sorted(set(member.values()))
        },
    )


def _doubts(variant: Variant, baseline: Variant, over: str, score: str) -> Iterator[str]:
    """Yield the reasons why a variant's mean may not be comparable with the baseline's."""
    groups, others = (run.metrics.groups.get(over, {}) for run in (variant, baseline))
    more = len(groups.keys() - others.keys()) if others else 0
    if more:
        yield f"{counted(more, over)} that the baseline lacks"
    if variant.metrics.complete and baseline.metrics.complete:
        common = groups.keys() & others.keys()
        unlike = sum(groups[name].instances != others[name].instances for name in common)
        if unlike:
            yield f"other instances in {counted(unlike, over)}"
    missing = 0
    for group in groups.values():
        if score in group.scores:
            missing += group.scores[score].not_measured
        else:
            missing += group.not_judged + (0 if score == PASS_RATE else group.n)
    if missing:
        yield f"{missing:,} samples without {score}"
