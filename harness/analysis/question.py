"""What is asked of the variants of a run file, and what that means where it is not said.

>>> the_score(variants, "")  # doctest: +SKIP
'rouge_l'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from harness.analysis.comparable import Variant
from harness.errors import ConfigError, RunConflict, nearest

PASS_RATE = "pass_rate"  # noqa: S105 (no password)


class Question(Struct, frozen=True, kw_only=True):
    """What is asked of the variants; empty for the default.

    baseline: the variant that the others are compared with; by default the first.
    over: the label whose groups are averaged and paired over; by default the
        first one that all runs have.
    score: by default the one that the task is measured by, else the pass rate.
    by: a coarser label, for gains by its groups.
    member: group of `over` to its group of `by`.
    """

    baseline: str = ""
    over: str = ""
    score: str = ""
    by: str = ""
    member: Mapping[str, str] = {}


def the_baseline(variants: Sequence[Variant], wanted: str) -> Variant:
    """The variant that is asked for, or the first.

    Raises: ConfigError.
    """
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


def the_label(variants: Sequence[Variant], wanted: str) -> str:
    """The label that is asked for, or the first one that all runs have.

    Raises: ConfigError.
    """
    labels = dict.fromkeys(label for variant in variants for label in variant.metrics.groups)
    lacking = {
        label: [v.metrics.run for v in variants if label not in v.metrics.groups]
        for label in labels
    }
    whole = [label for label in labels if not lacking[label]]
    if wanted in whole or (whole and not wanted):
        return wanted or whole[0]
    if lacking.get(wanted):
        message = f"The run {lacking[wanted][0]!r} has no groups of {wanted!r}."
    elif wanted:
        message = f"The runs have no groups of {wanted!r}."
    else:
        message = "The runs have no label in common to average over."
    raise ConfigError(message, nearest(wanted, whole) or "Run variants of one task.")


def the_score(variants: Sequence[Variant], wanted: str) -> str:
    """The score that is asked for, or what the runs are measured by.

    Raises: ConfigError; RunConflict where they are measured by different ones.
    """
    metrics = [variant.metrics for variant in variants]
    valid = dict.fromkeys([PASS_RATE, *(name for found in metrics for name in found.scores)])
    if not wanted:
        measures = dict.fromkeys(found.measure or PASS_RATE for found in metrics)
        if len(measures) > 1:
            raise RunConflict(
                f"The runs are measured by different scores: {', '.join(measures)}.",
                "Name one with --score.",
            )
        return next(iter(measures))
    if wanted not in valid:
        raise ConfigError(f"The runs have no score {wanted!r}.", nearest(wanted, valid))
    return wanted
