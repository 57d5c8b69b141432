"""What goes wrong, and how often.

Probabilities are of requests: each one that is otherwise welcome meets at most
one fault. Which one is decided by the request's `draw`, so a fault is never
tied to a body for good: its next try draws again. An unusable 200 is a fault
like any other.

>>> mix = FaultMix.of({"429": 0.1, "reset": 0.02})
>>> mix.pick(0.05), mix.pick(0.11), mix.pick(0.5)
(<Fault.RATE_LIMITED: '429'>, <Fault.RESET: 'reset'>, None)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum

from harness.mock.errors import MockError


class Fault(StrEnum):
    """A way to fail; the value is the name that users write.

    A number is that HTTP status.
    reset: the connection is reset before anything is sent.
    stall: nothing is ever sent. stall_body: half the body, then nothing more.
    trickle: a byte of the body each second, and never the last: every read
        succeeds, and only a limit on the whole request ends it.
    truncated_body: half the body, then the connection is closed.
    invalid_json: half the body, complete as HTTP.
    empty: an answer without text. reasoning_only: the same, because reasoning
        took all the tokens.
    refusal, content_filter: the model, or the provider's filter, declines.
    """

    BAD_REQUEST = "400"
    RATE_LIMITED = "429"
    SERVER_ERROR = "500"
    UNAVAILABLE = "503"
    OVERLOADED = "529"
    RESET = "reset"
    STALL = "stall"
    STALL_BODY = "stall_body"
    TRICKLE = "trickle"
    TRUNCATED_BODY = "truncated_body"
    INVALID_JSON = "invalid_json"
    EMPTY = "empty"
    REASONING_ONLY = "reasoning_only"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"

    @property
    def status(self) -> int | None:
        """The HTTP status, where the fault is one."""
        return int(self.value) if self.value.isdigit() else None

    @property
    def is_answer(self) -> bool:
        """Whether it is a well-formed answer, which is paid for like any other."""
        return self in _ANSWERS


_ANSWERS = frozenset({Fault.EMPTY, Fault.REASONING_ONLY, Fault.REFUSAL, Fault.CONTENT_FILTER})


class FaultMix:
    """Which share of requests meets which fault."""

    def __init__(self, shares: Mapping[Fault, float]) -> None:
        self.shares = dict(shares)
        self._bounds: list[tuple[float, Fault]] = []
        total = 0.0
        for fault, share in self.shares.items():
            if not 0 <= share <= 1:
                raise MockError(f"The probability of fault {fault} must be in 0..1, not {share}.")
            total += share
            self._bounds.append((total, fault))
        # Ten times 0.1 adds up to a little less or more than 1.
        if total > 1 + 1e-9:
            raise MockError(f"The fault probabilities add up to {total:g}, which is more than 1.")

    @classmethod
    def of(cls, named: Mapping[str, float]) -> FaultMix:
        """Read shares by the faults' names.

        Raises: MockError, with the nearest valid name.
        """
        return cls({_fault(name): share for name, share in named.items()})

    def pick(self, luck: float) -> Fault | None:
        """The fault that a number in [0, 1) stands for; None for no fault."""
        for bound, fault in self._bounds:
            if luck < bound:
                return fault
        return None


def parse_shares(options: Iterable[str]) -> dict[str, float]:
    """Read ``NAME=PROBABILITY`` options as the command line gives them.

    Raises: MockError.
    """
    shares = {}
    for option in options:
        name, _, share = option.partition("=")
        try:
            shares[name.strip()] = float(share)
        except ValueError:
            raise MockError(f"Not a fault: {option!r}. Write NAME=PROBABILITY.") from None
    return shares


def _fault(name: str) -> Fault:
    try:
        return Fault(name)
    except ValueError:
        names = [fault.value for fault in Fault]
        close = get_close_matches(name, names, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Faults: {', '.join(names)}."
        raise MockError(f"Unknown fault {name!r}. {hint}") from None
