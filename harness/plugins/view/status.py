"""`status.json`, a session's report on its own progress, and requests to stop a session.

The process that holds the run's lock replaces the file once a second. A session whose file is older
than `SILENT_S` therefore counts as dead. The file is only for viewers.
"""

import contextlib
import os
import time
from pathlib import Path

import msgspec

from harness.store.files import read_file, write_json
from harness.store.json_lines import UNREADABLE

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
    except (*UNREADABLE, OSError):
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
    with contextlib.suppress(*UNREADABLE, OSError):
        request = msgspec.json.decode(read_file(path), type=dict[str, str])
        path.unlink()
        return request.get("session") == session
    return False
