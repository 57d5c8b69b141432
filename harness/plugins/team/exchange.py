"""A background task that shares a process's use of a budget or rate limit with its team."""

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from harness.calls.signals import Report
from harness.errors import StoreFailed
from harness.plugins.team.database import Cursor, TeamDatabase

RETRY_S = 1.0  # seconds between attempts while the database is away
CLOSE_S = 5.0  # seconds that the last exchange may take

T = TypeVar("T")


class Exchanger(ABC, Generic[T]):
    """A background task that exchanges data with the database on request and at intervals.

    It runs while there is something to exchange. Transactions run in a thread.

    Attributes:
        trouble: Why the database does not answer, or "".
        report: Called with ``trouble`` when it changes.
    """

    shares: str  # what is shared, for messages
    longest_s: float  # maximum number of seconds between exchanges

    def __init__(self, database: TeamDatabase) -> None:
        self._database = database
        self._task: asyncio.Task[None] | None = None
        self._asked = self._closing = False
        self.trouble = ""
        self.report: Report = lambda _: None

    @abstractmethod
    def prepared(self, *, last: bool) -> Callable[[Cursor], T]:
        """Return the work of the next exchange (the final one if ``last``). It may be run again."""

    @abstractmethod
    def apply(self, result: T) -> float:
        """Apply an exchange's result, and return the minimum number of seconds until the next."""

    @property
    @abstractmethod
    def active(self) -> bool:
        """Whether there is anything to exchange."""

    def ask(self) -> None:
        """Request an exchange, and start the task if necessary."""
        self._asked = True
        self.ensure_working()
        self._wake.set()

    def ensure_working(self) -> None:
        """Start the task if it is not running."""
        if self._task is None:
            self._closing, self._wake = False, asyncio.Event()
            self._task = asyncio.create_task(self._work())

    async def aclose(self) -> None:
        """End the task, if it is running, after a last exchange."""
        if self._task is not None:
            self._closing = True
            self._wake.set()
            await asyncio.wait([self._task], timeout=CLOSE_S)

    async def _work(self) -> None:
        try:
            while self._asked or self.active:
                self._asked, last = False, self._closing
                result = await self._transacted(self.prepared(last=last))
                if result is None:
                    return
                pause_s = self.apply(result)
                if last:
                    return
                # If the database is slow or busy, this halves the load.
                await self._sleep(max(pause_s, min(self._took_s, self.longest_s)))
                if not self._asked:
                    await self._sleep(self.longest_s, until_asked=True)
        finally:
            self._task = None

    async def _transacted(self, work: Callable[[Cursor], T]) -> T | None:
        """Return the result of a transaction, or None if the session ends first."""
        while True:
            began = time.monotonic()
            try:
                result = await asyncio.to_thread(self._database.transact, work, 0.0)
                self._took_s = time.monotonic() - began
                self._set_trouble("")
                return result
            except StoreFailed as error:
                self._set_trouble(f"{self.shares}: {error.message.rstrip('.')}")
            if self._closing:
                return None
            await self._sleep(RETRY_S)

    def _set_trouble(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self.report(trouble)

    async def _sleep(self, seconds: float, *, until_asked: bool = False) -> None:
        """Sleep. Wake early if the session ends or, with ``until_asked``, on request."""
        end = time.monotonic() + seconds
        while not self._closing and not (until_asked and self._asked):
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(end - time.monotonic()):
                    await self._wake.wait()
                    continue
            return
