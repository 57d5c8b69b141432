"""How many calls may be in flight: found out, up to the user's most.

Additive increase and multiplicative decrease (Chiu and Jain, 1989), with a
slow start as TCP has it (RFC 5681): doubling with each round of answers until
the provider first protests. As in DCTCP (RFC 8257) the decrease follows the
share of protests, so that a few stray ones do not halve the rate.
"""

from __future__ import annotations

START = 16
UNREFUSED_S = 1.0
"""Seconds after which a call that was not refused has been taken on."""
TOLERATED = 0.2
"""Share of refusals and time-outs that is taken for noise: a call refused costs nothing."""
FEWEST = 10
"""Answers to judge by."""


class AdaptiveLimit:
    """The number of calls that may be in flight.

    most: what the user allows.
    start: how many to begin with; more of a server that queues what it cannot take yet.
    """

    def __init__(self, most: int, start: int = START) -> None:
        self._most = most
        self._start = start
        self.restart()

    def restart(self) -> None:
        """Begin again from a few."""
        self._limit = float(min(self._start, self._most))
        self._doubling = True
        self._lowered_at = float("-inf")
        self._begin_round()

    @property
    def now(self) -> int:
        """Calls that may be in flight."""
        return int(self._limit)

    def answered(self, sent: float, now: float, *, full: bool) -> None:
        """A call was answered, in whatever way.

        sent, now: seconds on one clock.
        full: all of the limit was in use; else it proves nothing about more.
        """
        if full and self._limit < self._most:
            more = 1.0 if self._doubling else 1.0 / self._limit
            self._limit = min(self._limit + more, self._most)
        self._count(sent, now, protest=False)

    def unrefused(self) -> None:
        """Nobody was refused for a while, though all of the limit is in use.

        Refusals come at once, answers may take a minute: to wait for these would
        hold a slow model's run to a few calls for many minutes.
        """
        if self._doubling and not self._protests:
            self._limit = min(1.5 * self._limit, self._most)

    def protested(self, sent: float, now: float) -> None:
        """A call was refused as too many, or was not answered in time."""
        self._count(sent, now, protest=True)

    def _count(self, sent: float, now: float, *, protest: bool) -> None:
        if sent < self._lowered_at:
            return  # sent under the old limit, says nothing about the new one
        self._seen += 1
        self._protests += protest
        if self._seen < self._round:
            return
        share = self._protests / self._seen
        if share > TOLERATED:
            self._limit = max(1.0, self._limit * (1 - share / 2))
            self._doubling = False
            self._lowered_at = now
        self._begin_round()

    def _begin_round(self) -> None:
        self._seen = self._protests = 0
        self._round = max(FEWEST, int(self._limit))
