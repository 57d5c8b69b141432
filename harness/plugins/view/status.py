"""`status.json`, a session's report on its own progress, and requests to stop a session.

The process that holds the run's lock replaces the file once a second. A session whose file is older
than `SILENT_S` therefore counts as dead. The file is only for viewers.
"""

import asyncio
import contextlib
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

import msgspec

from harness.calls.signals import Load
from harness.engine.progress import Tally
from harness.engine.session import Session
from harness.store.files import read_file, write_json
from harness.store.json_lines import DECODE_ERRORS
from harness.store.run_folder import RunFolder

STATUS, STOP = "status.json", "stop.json"
SILENT_S = 15.0  # a session that scores a long text in its own process may be silent for seconds
MOST_MOMENTS = 300  # kept of a session's traffic
MOST_EVENTS = 50  # latest messages kept


class Moment(msgspec.Struct, array_like=True):
    """A session's traffic at one time: totals so far, and open calls."""

    at: float
    in_flight: int  # calls
    waiting: int  # calls
    failed: int  # calls that were sent again
    rate_limited: int  # the part of them that the provider refused with a 429
    calls: int
    cost_usd: float


class RunStatus(msgspec.Struct):
    """The progress of a session. Samples and verdicts of earlier sessions are included."""

    session: str  # a random name
    began_at: float  # times in epoch seconds
    at: float
    ended: str = ""  # how the session ended; empty while it works
    stopping: bool = False
    planned: int = 0  # samples
    done: int = 0
    attempts: int = 0  # of this session, like calls and tokens
    passed: int = 0  # samples, by the verdict of their latest round
    judged: int = 0
    first_passed: int = 0
    first_judged: int = 0
    outcomes: dict[str, int] = {}
    calls: int = 0
    cached: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None  # paid by all sessions of the run
    budget_usd: float | None = None
    spent_usd: float | None = None  # of the budget, by all runs that share it
    eta_s: float | None = None
    limited_by: list[str] = []  # what waiting calls wait for, by model
    notices: list[str] = []
    events: list[tuple[float, str]] = []  # earlier notices
    traffic: list[Moment] = []

    def works(self, now: float | None = None) -> bool:
        """Return whether the session is alive at ``now`` (epoch seconds; default: this moment).

        A status of the future, which no clock explains, is not that of a session.
        """
        now = time.time() if now is None else now
        return not self.ended and abs(now - self.at) < SILENT_S


def read_status(folder: Path) -> RunStatus | None:
    """Return the status of a run's latest session, or None if it cannot be read."""
    try:
        return msgspec.json.decode(read_file(folder / STATUS), type=RunStatus)
    except (*DECODE_ERRORS, OSError):
        return None


def write_status(folder: Path, status: RunStatus) -> None:
    """Replace a run's status, if possible."""
    temporary = folder / f".{STATUS}.{os.getpid()}"
    with contextlib.suppress(OSError):  # progress is not worth a run
        temporary.unlink(missing_ok=True)  # it may be a link
        temporary.write_bytes(msgspec.json.encode(status))
        temporary.replace(folder / STATUS)


def request_stop(folder: Path) -> bool:
    """Ask the session in progress, if any, to stop. Return whether there is one."""
    status = read_status(folder)
    if status is None or not status.works():
        return False
    write_json(folder / STOP, {"session": status.session})
    return True


def stop_requested(folder: Path, session: str) -> bool:
    """Return whether a session was asked to stop, and remove any request."""
    path = folder / STOP
    with contextlib.suppress(*DECODE_ERRORS, OSError):
        request = msgspec.json.decode(read_file(path), type=dict[str, str])
        path.unlink()
        return request.get("session") == session
    return False


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
        self._status.ended = self._session.early_ending if self._tally.unfinished else "finished"
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
        status.planned = tally.finished_earlier + tally.expected
        status.done = tally.finished_earlier + tally.finished
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
            status.spent_usd = tally.budget.spent_usd
        status.limited_by = [
            f"{model}: {load.limited_by}" for model, load in loads.items() if load.limited_by
        ]
        current = notices.messages
        new = [(status.at, text) for text in current if text not in status.notices]
        status.notices = current
        status.events = [*status.events, *new][-MOST_EVENTS:]
        self._add_traffic(list(loads.values()))
        write_status(self._path, status)

    def _add_traffic(self, loads: list[Load]) -> None:
        """Add the latest moment of traffic, keeping earlier ones at ever longer intervals."""
        tally = self._tally
        moment = Moment(self._status.at, 0, 0, 0, 0, tally.calls, tally.cost_usd)
        for load in loads:
            moment.in_flight += load.in_flight
            moment.waiting += load.waiting
            moment.failed += load.failed
            moment.rate_limited += load.rate_limited
        traffic = self._status.traffic
        if traffic and self._updates % self._interval and not self._status.ended:
            traffic[-1] = moment  # the latest moment is always kept
        else:
            traffic.append(moment)
        if len(traffic) > MOST_MOMENTS:
            del traffic[1:-1:2]
            self._interval *= 2
        self._updates += 1
