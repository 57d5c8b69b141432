"""The replies of runs, and the instances to which two runs have the same replies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.store.columns import NOT_JUDGED, Bools
from harness.store.index import AttemptIndex


class _Answer(msgspec.Struct, gc=False):
    instance: str
    sample: int
    round: int
    call_id: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class RunReplies:
    """The replies to a run's n attempts, as columns. The hashes are valid only in this process."""

    instance: NDArray[np.int64]  # (n,) digests of the instances' names (`name_digest`)
    attempt: NDArray[np.int64]  # (n,) hashes of instance, sample and round
    replied: Bools  # (n,) whether there is a reply; failed calls and crashes have none
    reply: NDArray[np.int64]  # (n,) hashes of the reply's call and text
    passed: NDArray[Any]  # (n,) 1, 0 or `NOT_JUDGED`

    def same_as(self, replies: RunReplies) -> NDArray[np.int64]:
        """Return the digests of the instances whose replies are the same in another run.

        All replies of one of the runs to such an instance are replies of the other, apart from
        attempts that failed there. Replies with different verdicts are not the same, because the
        runs then score differently.
        """
        _, rows, their_rows = np.intersect1d(
            self.attempt, replies.attempt, assume_unique=True, return_indices=True
        )
        answered = self.replied[rows] & replies.replied[their_rows]
        rows = rows[answered]
        their_rows = their_rows[answered]
        passed = self.passed[rows]
        their_passed = replies.passed[their_rows]
        judged = (passed != NOT_JUDGED) & (their_passed != NOT_JUDGED)
        differs = self.reply[rows] != replies.reply[their_rows]
        differs |= judged & (passed != their_passed)
        instance = self.instance[rows]
        more = np.intersect1d(self._beyond(replies), replies._beyond(self))
        return np.setdiff1d(instance, np.union1d(instance[differs], more))

    def _beyond(self, replies: RunReplies) -> NDArray[np.int64]:
        """Return the digests of the instances with a reply to an attempt that the others lack."""
        return self.instance[self.replied & ~np.isin(self.attempt, replies.attempt)]


_NONE = np.empty(0, np.int64)
NO_REPLIES = RunReplies(_NONE, _NONE, _NONE.astype(np.bool_), _NONE, _NONE)


def read_replies(path: Path, source: str = "") -> RunReplies:
    """Read the replies of the attempts in a file. Replies of another ``source`` are not the same.

    The source is the hash of a recording whose model has no name: two such recordings make calls
    with equal ids, and short replies are then equal by chance.
    """
    index = AttemptIndex(path)
    table = index.attempts
    attempt, reply = np.zeros((2, len(index)), np.int64)
    for row, line in enumerate(index.read(_Answer, np.arange(len(index)))):
        attempt[row] = hash((line.instance, line.sample, line.round))
        reply[row] = hash((source, line.call_id, line.text))
    instance = table.instances.digest[table.instance]
    return RunReplies(instance, attempt, table.has_reply, reply, table.passed)
