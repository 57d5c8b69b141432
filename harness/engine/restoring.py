"""Restores answers that a run asked for again (``--retry``) and whose lines were lost.

The replies to all draws are in the cache: they are restored in order, so that the newest counts and
the next retry draws a new one. Only then does a session ask for what the cache lacks: a round after
an answer that a later draw replaces may never have been asked for.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from harness.records import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.engine.models import Model
    from harness.engine.plan import OwedSample, RunPlan
    from harness.engine.session import Session


async def is_cached(session: Session, model: Model, requests: Sequence[Request]) -> bool:
    """Return whether the replies to all requests of a model are in the cache."""
    if session.replies is None or not model.backend.cacheable:
        return False
    key, shared = model.key(session.run_id), session.replies.shared
    for request in requests:
        call = key(request)
        reply = await session.replies.find(call)
        if reply is None and shared is not None:
            reply = await shared.fetch(call)
        if reply is None:
            return False
    return True


class CachedDraws:
    """The samples whose answers may have been drawn again by earlier sessions of a run.

    Args:
        read: Returns the run's plan with its present attempts.
        retried: The outcomes and finish reasons that any session has retried.
        repeated: The number of answers that replaced another one, None if it is unknown.
    """

    def __init__(
        self, read: Callable[[], RunPlan], retried: frozenset[str], repeated: int | None
    ) -> None:
        self._read, self._retried = read, retried
        self._repeated = repeated
        self._seen = set[tuple[str, int, int, int]]()
        self.plan = read()

    def next(self) -> Iterator[OwedSample]:
        """Yield the samples that lack an answer or may have a later draw. Each draw comes once."""
        self.plan, _ = self._plans()
        for sample in self.plan.owed():
            draw = (sample.instance.id, sample.sample, sample.round, sample.redraw)
            if draw not in self._seen:
                self._seen.add(draw)
                yield sample

    def lacks(self) -> bool:
        """Return whether an answer that earlier sessions retried has been drawn only once."""
        plan, usual = self._plans()
        if self._repeated is not None and usual.index and usual.index.repeated >= self._repeated:
            return False
        owed = {(one.instance.id, one.sample) for one in usual.owed()}
        return any(
            one.redraw == 1 and (one.instance.id, one.sample) not in owed for one in plan.owed()
        )

    def _plans(self) -> tuple[RunPlan, RunPlan]:
        usual = self._read()
        return dataclasses.replace(usual, retried=self._retried), usual
