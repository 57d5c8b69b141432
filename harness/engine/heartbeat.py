"""Writes a session's `status.json` once a second, and carries out requests to stop the session."""

import asyncio
import time
from types import TracebackType
from typing import Self
from uuid import uuid4

from harness.engine.progress import Tally
from harness.engine.session import Session
from harness.store.run_folder import RunFolder
from harness.store.run_status import (
    MOST_EVENTS,
    MOST_MOMENTS,
    Moment,
    RunStatus,
    stop_requested,
    write_status,
)

SECONDS = 1.0  # between two beats


class Heartbeat:
    """A context manager that reports a session's progress to viewers, and obeys stop requests."""

    def __init__(self, folder: RunFolder, tally: Tally, session: Session) -> None:
        self._path, self._tally, self._session = folder.path, tally, session
        self._status = RunStatus(uuid4().hex, time.time(), time.time())
        self._every = 1  # beats between two moments that are kept
        self._beats = 0
        self._seen: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        stop_requested(self._path, "")  # removes a request to an earlier session
        self._beat()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._status.ended = self._session.ended if self._tally.left else "finished"
        if kind is not None:
            self._status.ended = (
                "interrupted" if issubclass(kind, asyncio.CancelledError) else "failed"
            )
        self._write()

    def _beat(self) -> None:
        if stop_requested(self._path, self._status.session):
            self._session.stop.request()
        self._write()
        self._timer = asyncio.get_running_loop().call_later(SECONDS, self._beat)

    def _write(self) -> None:
        tally, status, now = self._tally, self._status, time.time()
        loads = {name: load() for name, load in self._session.notices.loads.items()}
        status.at, status.stopping = now, self._session.stop.requested
        status.planned = tally.already + tally.owed
        status.done = tally.already + tally.finished
        for name in ("attempts", "calls", "cached", "passed", "judged", "eta_s"):
            setattr(status, name, getattr(tally, name))
        if status.eta_s is not None:
            status.eta_s = max(status.eta_s, self._session.notices.pause_s)
        status.first_passed, status.first_judged = tally.first_passed, tally.first_judged
        status.outcomes = dict(tally.outcomes)
        status.input_tokens = tally.usage.input_tokens
        status.output_tokens = tally.usage.output_tokens
        status.cost_usd = tally.paid_usd if tally.cost_known else None
        if tally.budget is not None:
            status.budget_usd, status.spent_usd = tally.budget.usd, tally.budget.spent
        status.limited_by = [
            f"{name}: {one.limited_by}" for name, one in loads.items() if one.limited_by
        ]
        status.notices = self._session.notices.now
        new = [text for text in status.notices if text not in self._seen]
        self._seen = status.notices
        status.events = [*status.events, *((now, text) for text in new)][-MOST_EVENTS:]
        every = loads.values()
        self._keep(
            Moment(
                now,
                sum(one.in_flight for one in every),
                sum(one.waiting for one in every),
                sum(one.failed for one in every),
                sum(one.rate_limited for one in every),
                tally.calls,
                tally.cost_usd,
            )
        )
        write_status(self._path, status)

    def _keep(self, moment: Moment) -> None:
        """Add the latest moment of traffic, keeping earlier ones at ever longer intervals."""
        kept = self._status.traffic
        if kept and self._beats % self._every and not self._status.ended:
            kept[-1] = moment  # the latest moment is always kept
        else:
            kept.append(moment)
        if len(kept) > MOST_MOMENTS:
            del kept[1:-1:2]
            self._every *= 2
        self._beats += 1
