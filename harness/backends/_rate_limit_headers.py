"""What providers say of their rate limits in the headers of an answer.

OpenAI, and many that follow it: ``x-ratelimit-limit-requests``, ``-remaining-``,
``-reset-`` and the same with ``tokens``; a reset is a duration (``6m0s``, ``20ms``),
for some a plain number of seconds. Anthropic:
``anthropic-ratelimit-requests-limit``, ``-remaining``, ``-reset`` and the same
with ``tokens``, ``input-tokens`` and ``output-tokens``; a reset is a time (RFC 3339).

Not everybody's limit is for a minute: Groq's ``limit-requests`` is for a day, its
``limit-tokens`` for a minute, and nothing tells them apart but the reset. OpenAI's
and Groq's reset is the time until the limit is untouched again, so that it grows
with use. A reset that is further away than a minute can only be of a longer
window, whose limit is left out: as one for a minute it would mean nothing.

What is garbage, negative, infinite or beyond all bounds is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from harness.records import Allowance

OnAllowances = Callable[[tuple[Allowance, ...]], None]
"""Is told what an answer says."""

MOST = 2**53
WINDOW_S = 60.0
LONGEST_S = 31 * 86_400.0
"""A reset that is further away than a month is no reset."""

_DURATION = re.compile(
    r"(?=.)(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?"
    r"(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?",
    re.ASCII,
)
_SECONDS = (86_400, 3_600, 60, 1, 0.001)


def allowances(headers: Mapping[str, str], now: float) -> tuple[Allowance, ...]:
    """The limits that an answer's headers tell of.

    now: seconds since the epoch, against which a time is measured.
    """
    return tuple(_found(headers, now))


def _found(headers: Mapping[str, str], now: float) -> Iterator[Allowance]:
    for unit in ("requests", "tokens", "input_tokens", "output_tokens"):
        name = unit.replace("_", "-")
        for form in (f"anthropic-ratelimit-{name}-%s", f"x-ratelimit-%s-{name}"):
            limit = _count(headers.get(form % "limit"))
            remaining = _count(headers.get(form % "remaining"))
            reset_s = _until(headers.get(form % "reset"), now)
            if (limit, remaining, reset_s) != (None, None, None):
                if reset_s is not None and reset_s > WINDOW_S:
                    limit = None
                yield Allowance(unit, limit, remaining, reset_s)
                break


def _count(value: str | None) -> int | None:
    if value is None or not re.fullmatch(r"\d{1,16}", value, re.ASCII):
        return None
    count = int(value)
    return count if count <= MOST else None


def _until(value: str | None, now: float) -> float | None:
    """Seconds until a reset: a duration, a number of seconds or a time."""
    seconds = duration(value) if value else None
    if value and seconds is None:
        try:
            # A time without a zone would be this machine's, and means nothing.
            time = datetime.fromisoformat(value)
            seconds = max(0.0, time.timestamp() - now) if time.tzinfo else None
        except (ValueError, OverflowError):
            return None
    return seconds if seconds is not None and seconds <= LONGEST_S else None


def duration(value: str) -> float | None:
    """Seconds of ``1h2m3.5s``, ``20ms`` or ``59.7``; None for anything else."""
    if len(value) > 40:
        return None
    found = _DURATION.fullmatch(value)
    if found:
        return sum(float(n) * unit for n, unit in zip(found.groups(), _SECONDS, strict=True) if n)
    plain = re.fullmatch(r"\d+(?:\.\d+)?", value, re.ASCII)
    return float(value) if plain else None
