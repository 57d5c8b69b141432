"""Writes a session's progress to ``status.json`` while it works."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Self
from uuid import uuid4

from harness.calls.signals import Load
from harness.engine.progress import Tally
from harness.engine.session import Session
from harness.plugins.view.status import (
    MOST_EVENTS,
    MOST_MOMENTS,
    Moment,
    RunStatus,
    stop_requested,
    write_status,
)
from harness.store.run_folder import RunFolder

STATUS_EVERY_S = 1.0


class StatusWriter:
    """A context manager that writes a session's ``status.json`` once a second for viewers.

    It also obeys their requests to stop the session.
    """

    def __init__(self, folder: RunFolder, tally: Tally, session: Session) -> None:
        self._path = folder.path
        self._tally = tally
        self._session = session
        self._status = RunStatus(uuid4().hex, time.time(), time.time())
        self._interval = 1  # status updates between two saved moments of traffic
        self._updates = 0
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        stop_requested(self._path, "")  # removes a request to an earlier session
        self._update()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._status.ended = self._session.ended if self._tally.left else "finished"
        if kind is not None:
            interrupted = issubclass(kind, asyncio.CancelledError)
            self._status.ended = "interrupted" if interrupted else "failed"
        self._write()

    def _update(self) -> None:
        if stop_requested(self._path, self._status.session):
            self._session.stop.request()
        self._write()
        self._timer = asyncio.get_running_loop().call_later(STATUS_EVERY_S, self._update)

    def _write(self) -> None:
        tally = self._tally
        status = self._status
        notices = self._session.notices
        loads = {model: load() for model, load in notices.loads.items()}
        status.at = time.time()
        status.stopping = self._session.stop.requested
        status.planned = tally.already + tally.expected
        status.done = tally.already + tally.finished
        for name in ("attempts", "calls", "cached", "passed", "judged", "eta_s"):
            setattr(status, name, getattr(tally, name))
        if status.eta_s is not None:
            status.eta_s = max(status.eta_s, notices.pause_s)
        status.first_passed = tally.first_passed
        status.first_judged = tally.first_judged
        status.outcomes = dict(tally.outcomes)
        status.input_tokens = tally.usage.input_tokens
        status.output_tokens = tally.usage.output_tokens
        status.cost_usd = tally.paid_usd if tally.cost_known else None
        if tally.budget is not None:
            status.budget_usd = tally.budget.usd
            status.spent_usd = tally.budget.spent
        status.limited_by = [
            f"{model}: {load.limited_by}" for model, load in loads.items() if load.limited_by
        ]
        current = notices.now
        new = [(status.at, text) for text in current if text not in status.notices]
        status.notices = current
        status.events = [*status.events, *new][-MOST_EVENTS:]
        self._add_traffic(list(loads.values()))
        write_status(self._path, status)

    def _add_traffic(self, loads: list[Load]) -> None:
        """Add the latest moment of traffic, keeping earlier ones at ever longer intervals."""
        moment = Moment(
            self._status.at,
            sum(load.in_flight for load in loads),
            sum(load.waiting for load in loads),
            sum(load.failed for load in loads),
            sum(load.rate_limited for load in loads),
            self._tally.calls,
            self._tally.cost_usd,
        )
        traffic = self._status.traffic
        if traffic and self._updates % self._interval and not self._status.ended:
            traffic[-1] = moment  # the latest moment is always kept
        else:
            traffic.append(moment)
        if len(traffic) > MOST_MOMENTS:
            del traffic[1:-1:2]
            self._interval *= 2
        self._updates += 1
