"""The verdicts of scripted conversations, in which a run's rounds are the user's turns."""

from dataclasses import replace

import numpy as np

from harness.records import OUTCOMES
from harness.store.columns import NOT_JUDGED, AttemptTable, Bools, Ints

_LAST = [OUTCOMES.index(outcome) for outcome in ("refused", "empty", "crashed")]  # end it


def of_conversations(table: AttemptTable, turns: Ints, neutral: Bools) -> AttemptTable:
    """Return a table with one verdict per conversation, in the row of its last answer.

    A finished conversation fails if an answer has failed, and passes otherwise. A refused or empty
    answer ends a conversation, and so does a crash. There is no verdict if a conversation is
    unfinished, if an answer could not be judged, or if nothing judges any of the answers. The
    scores are those of the last turn, if that was reached. The turns' own verdicts and scores are
    in the result's ``turns``.

    Args:
        table: The attempts, with each turn's own verdict and scores.
        turns: (n,) numbers of the user's turns in the attempts' conversations (0: not scripted).
        neutral: (n,) mask of the attempts that were judged, but by nothing that gives a verdict.
    """
    if not turns.any():
        return table
    begins = table.sample_starts()
    starts, sample = np.flatnonzero(begins), np.cumsum(begins) - 1

    def any_turn(of: Bools) -> Bools:
        return np.asarray(np.logical_or.reduceat(of, starts)[sample])

    failed, passed = any_turn(table.passed == 0), any_turn(table.passed == 1)
    unknown = any_turn((table.passed == NOT_JUDGED) & ~neutral)
    scripted, last, complete = turns > 0, table.is_last_round(), table.round >= turns
    ended = last & (complete | np.isin(table.outcome, _LAST)) & ~unknown
    verdicts = np.where(ended & (failed | passed), ~failed, NOT_JUDGED)
    own = ~scripted | (last & complete)
    return replace(
        table,
        passed=np.where(scripted, verdicts, table.passed).astype(np.int8),
        scores={
            name: np.where(own, of, of.dtype.type(NOT_JUDGED if of.dtype == np.int8 else np.nan))
            for name, of in table.scores.items()
        },
        turns=table,
    )
