"""Counts a run's samples that lack a verdict or a score, by reason."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.json import Decoder

from harness.analysis.comparable import Run
from harness.records import OUTCOMES
from harness.store.columns import AttemptTable, Bools
from harness.store.index import AttemptIndex
from harness.store.judgements import FAILED, Judgement, read_register
from harness.store.run_folder import RunFolder


class Unjudged(Struct, frozen=True, kw_only=True):
    """Counts of the samples whose last round lacks a verdict, or a score that it should have."""

    run: str
    n_samples: int  # all samples of the run
    failed_calls: int
    no_judgement: int  # answers whose judgement failed or is missing, which a repeat judges
    final: int = 0  # answers that were judged without a verdict, which a repeat does not retry
    allowed: bool  # whether the share of all these samples is at most ``max_unjudged``


def unjudged(folder: RunFolder, run: Run, scores: Sequence[str], allowed: float) -> Unjudged:
    """Count the samples of a run that should have one of the ``scores`` but lack it.

    ``allowed`` is the share of samples that may lack a score.
    """
    table, last = run[1], run[1].is_last_round()
    lacking, owed = np.zeros(len(table), np.bool_), set[int]()
    for score in scores:
        absent = last & _lacks(folder, table, score)
        lacking |= absent
        if absent.any():
            owed |= _owed(folder, score).intersection(np.flatnonzero(absent).tolist())
    n = int(lacking.sum())
    failed = int((table.outcome[lacking] == OUTCOMES.index("error")).sum())
    return Unjudged(
        run=run[0].name,
        n_samples=int(last.sum()),
        failed_calls=failed,
        no_judgement=len(owed),
        final=n - failed - len(owed),
        allowed=n <= allowed * int(last.sum()),
    )


def _owed(folder: RunFolder, score: str) -> set[int]:
    """Return the rows of attempts for which a needed judgement is missing or has failed."""
    known, judge = read_register(folder.path).judges, score.partition(".")[0]
    judges = [judge, *known[judge].members] if judge in known else deciding(folder)
    return {*AttemptIndex(folder.attempts).owed_judgements(judges, FAILED)}


def deciding(folder: RunFolder) -> list[str]:
    """Return the names of a run's judges and panels that decide what passes."""
    return [name for name, one in read_register(folder.path).judges.items() if one.decides]


def _lacks(folder: RunFolder, table: AttemptTable, score: str) -> Bools:
    """Return an (n,) mask of the attempts that lack the score or, for a pass rate, a verdict.

    If an answer has a verdict and no needed judgement has failed, the score does not apply to it.
    """
    if score not in table.scores:
        return ~table.judged
    absent = ~table.measured(score)
    if not absent.any():
        return absent
    index, judge = AttemptIndex(folder.attempts), score.partition(".")[0]
    known = index.register.judges
    if judge in known:
        rows = np.flatnonzero(absent & table.judged)
        said = index.said(rows, Decoder(Judgement).decode, known[judge].members or (judge,))
        kept = [not any(one and one.outcome in FAILED for one in found) for found in said]
        absent[rows[kept]] = False
        return absent
    return absent & ~table.judged
