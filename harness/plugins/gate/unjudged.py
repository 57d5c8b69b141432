"""The samples of a run that have no verdict, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.json import Decoder

from harness.plugins.comparisons.comparable import Run
from harness.records import OUTCOMES, Outcome
from harness.store.columns import AttemptTable, Bools
from harness.store.index import AttemptIndex
from harness.store.judgements import FAILED_OUTCOMES, Judgement, read_register
from harness.store.run_folder import RunFolder


class Unjudged(Struct, frozen=True, kw_only=True):
    """Counts of the samples whose last round lacks a verdict, or a score that it should have."""

    run: str
    lacking: str = "verdict"  # what they lack, such as "quality"
    n_samples: int  # all samples of the run
    failed_calls: int
    no_judgement: int  # answers whose judgement failed or is missing, which a repeat judges
    final: int = 0  # answers that were judged without a verdict, which a repeat does not retry
    unanswered: Mapping[Outcome, int] = {}  # crashes, refusals and the like without the score
    allowed: bool  # whether the share of all these samples is at most ``max_unjudged``

    @property
    def n(self) -> int:
        """The number of samples that lack a verdict or a score."""
        return self.failed_calls + self.no_judgement + self.final + sum(self.unanswered.values())


def unjudged(folder: RunFolder, run: Run, scores: Sequence[str], allowed: float) -> Unjudged:
    """Count the samples of a run that should have one of the ``scores`` but lack it.

    ``allowed`` is the share of samples that may lack a score.
    """
    variant, table = run
    last = table.is_last_round()
    without_answer = table.has_verdict & (table.outcome != OUTCOMES.index("ok"))
    lacking = np.zeros(len(table), np.bool_)
    without_judgement = set[int]()
    unscored = []
    for score in scores:
        absent = last & _lacks(folder, table, score)
        lacking |= absent
        if absent.any():
            rows = np.flatnonzero(absent).tolist()
            without_judgement |= _without_judgement(folder, score).intersection(rows)
        if (absent & without_answer).any():
            unscored.append(score)
    n = int(lacking.sum())
    n_samples = int(last.sum())
    failed = int((table.outcome[lacking] == OUTCOMES.index("error")).sum())
    lacking[list(without_judgement)] = False
    codes = table.outcome[lacking & without_answer]
    unanswered = Counter(OUTCOMES[code] for code in codes.tolist())
    no_judgement = len(without_judgement)
    final = n - failed - no_judgement - unanswered.total()
    return Unjudged(
        run=variant.name,
        lacking=" or ".join(unscored) or "verdict",
        n_samples=n_samples,
        failed_calls=failed,
        no_judgement=no_judgement,
        final=final,
        unanswered=unanswered,
        allowed=n <= allowed * n_samples,
    )


def _without_judgement(folder: RunFolder, score: str) -> set[int]:
    """Return the rows of attempts for which a needed judgement is missing or has failed."""
    register = read_register(folder.path)
    judges = register.deciding
    judge = score.partition(".")[0]
    if judge in register.judges:
        judges = [judge, *register.judges[judge].members]
    return {*AttemptIndex(folder.attempts).missing_judgements(judges, FAILED_OUTCOMES)}


def _lacks(folder: RunFolder, table: AttemptTable, score: str) -> Bools:
    """Return an (n,) mask of the attempts that lack the score or, for a pass rate, a verdict.

    If an answer with the outcome ``ok`` has a verdict and no needed judgement has failed, the score
    does not apply to it. Attempts that failed without an answer, such as crashes, lack the score.
    """
    if score not in table.scores:
        return ~table.has_verdict
    absent = ~table.has_score(score)
    if not absent.any():
        return absent
    passed_or_failed: Bools = table.has_verdict & (table.outcome == OUTCOMES.index("ok"))
    index = AttemptIndex(folder.attempts)
    judge = score.partition(".")[0]
    registered = index.register.judges
    if judge not in registered:
        return absent & ~passed_or_failed
    rows = np.flatnonzero(absent & passed_or_failed)
    judges = registered[judge].members or (judge,)
    for row, judgements in zip(
        rows, index.read_judgements(rows, Decoder(Judgement).decode, judges), strict=True
    ):
        has_failed = any(
            judgement and judgement.outcome in FAILED_OUTCOMES for judgement in judgements
        )
        absent[row] = has_failed
    return absent
