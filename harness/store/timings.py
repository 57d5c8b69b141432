"""How long a run's calls took."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.records import Outcome
from harness.store.whole import Places, read_lines


class _Timed(msgspec.Struct, gc=False):
    outcome: Outcome
    latency_s: float | None = None
    call_id: str | None = None
    cached: bool = False


def read_latencies(path: Path, places: Places) -> Iterator[float]:
    """Seconds of each call that was made for an attempt that counts, each call once.

    Answers from the cache are left out, and failed calls: a failure may be fast.

    Raises: as `harness.store.reader.read_columns`.
    """
    seen: set[str] = set()
    for line in read_lines(path, places, _Timed):
        if line.latency_s is None or line.cached or line.outcome == "error":
            continue
        if line.call_id is not None:
            if line.call_id in seen:
                continue
            seen.add(line.call_id)
        yield line.latency_s
