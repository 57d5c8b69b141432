"""A judge against a reference: is what it says to be believed?

Owns what a validation holds. Every figure is over the criteria that both sides decided on, and its
interval is clustered by prompt over all runs, for the criteria of an answer, and the answers of
several models to a prompt, go together.

>>> validate(pairs, judge="yes_no", reference="people", runs=["run"])  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from harness.analysis.judge_agreement import Agreement, agreement
from harness.analysis.judge_calibration import Calibration, calibration
from harness.analysis.judge_pairs import LeftOut, VerdictPairs
from harness.analysis.judge_rankings import RankingAgreement, RunScores, rank_models
from harness.errors import ConfigError, nearest

MOST_GROUPS = 60
"""Of a label: more are no table."""


class Part(Struct, frozen=True, kw_only=True):
    """The agreement on the criteria of a group of the label."""

    group: str
    agreement: Agreement


class JudgeValidation(Struct, frozen=True, kw_only=True):
    """What is known of a judge.

    judge: its name; reference: whose verdicts stand for what is right.
    marks: what must be said of the runs.
    n: criteria that both sides tell of, abstentions among them; n_clusters: of how many prompts.
    label: what ``parts`` are the groups of; empty for none.
    scores, rankings: of several runs; empty for one.
    notes: sentences on what the runs differ in.
    """

    judge: str
    reference: str
    runs: list[str]
    marks: list[str]
    n: int
    n_clusters: int
    left_out: LeftOut
    agreement: Agreement
    calibration: Calibration
    label: str
    parts: list[Part]
    scores: list[RunScores]
    rankings: list[RankingAgreement]
    notes: list[str]


def validate(
    pairs: VerdictPairs,
    *,
    judge: str,
    reference: str,
    runs: Sequence[str],
    label: str = "",
    marks: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> JudgeValidation:
    """All that is known of a judge from its verdicts and a reference's.

    label: of the criteria's own groups; empty for none.

    Raises: ConfigError where both sides decided on nothing in common, or the criteria do not have
    the label.
    """
    decided = pairs.decided
    if not decided.any():
        raise ConfigError(
            f"There is no criterion on which both {judge!r} and the reference ({reference}) have "
            f"decided: {_why(pairs)}.",
            "Both have to tell of the same criteria or scores of the same answers "
            "(docs/judge_validation.md).",
        )
    known = decided & ~np.isnan(pairs.probability)
    scores, rankings = rank_models(pairs, runs) if len(runs) > 1 else ([], [])
    return JudgeValidation(
        judge=judge,
        reference=reference,
        runs=list(runs),
        marks=list(marks),
        n=len(pairs),
        n_clusters=len(np.unique(pairs.cluster)),
        left_out=pairs.left_out,
        agreement=agreement(pairs.judge, pairs.reference, pairs.cluster),
        calibration=calibration(
            pairs.probability[known], pairs.reference[known], pairs.cluster[known]
        ),
        label=label,
        parts=_parts(pairs, label) if label else [],
        scores=scores,
        rankings=rankings,
        notes=list(notes),
    )


def _parts(pairs: VerdictPairs, label: str) -> list[Part]:
    if label not in pairs.labels():
        raise ConfigError(
            f"--by: the criteria have no label {label!r}.", nearest(label, pairs.labels())
        )
    groups = pairs.by(label)
    if len(groups) > MOST_GROUPS:
        raise ConfigError(
            f"--by: the label {label!r} has {len(groups):,} groups, more than {MOST_GROUPS}.",
            "Name a coarser one.",
        )
    return [
        Part(
            group=group,
            agreement=agreement(pairs.judge[rows], pairs.reference[rows], pairs.cluster[rows]),
        )
        for group, rows in groups.items()
    ]


def _why(pairs: VerdictPairs) -> str:
    left = pairs.left_out
    told = {
        "criteria with an abstention": len(pairs),
        "that only the judge tells of": left.only_judge,
        "that only the reference tells of": left.only_reference,
        "that a rule decided in the judge's place": left.by_rule,
        "labels that match nothing": left.unmatched,
        "labels of superseded texts": left.superseded,
        "labels of other runs": left.other_runs,
    }
    return ", ".join(f"{n:,} {what}" for what, n in told.items() if n) or "nothing was judged"
