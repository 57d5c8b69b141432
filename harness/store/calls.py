"""The calls of a run: how many, their tokens, their cost, their durations.

Calls are counted once, however many attempts share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from math import fsum
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.records import Outcome, Rewriting, Usage
from harness.store.columns import LARGEST, AttemptTable, LineName, Rows, changes
from harness.store.index import ATTEMPT, AttemptIndex, read_attempts
from harness.store.json_lines import decoded
from harness.store.judgements import JUDGEMENT, JudgeCall, Judgement
from harness.store.run_folder import JUDGEMENTS, JUDGES, REFERENCES

_TOKENS: tuple[str, ...] = Usage.__struct_fields__
_UNKNOWN = -1
_NOT_COUNTED = (_UNKNOWN,) * len(_TOKENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTotals:
    """The calls of a run, including those of superseded lines, which were paid for.

    Attributes:
        n: Number of calls.
        usage: Tokens of the calls that were counted; None if there are calls and none was counted.
        n_without_usage: Calls whose tokens are unknown.
        known_cost_usd: Cost of the calls with known cost.
        paid_usd: The part of it that this run paid; the rest came from the cache.
        n_without_cost: Calls whose cost is unknown.
        model: The calls of the run's own model (and of the one that paraphrases); None for a run
            without judges, where these are all calls.
        judges: The calls of each judge, by its name. A call that two judges share counts for both.
    """

    n: int
    usage: Usage | None
    n_without_usage: int
    known_cost_usd: float
    paid_usd: float
    n_without_cost: int
    model: CallTotals | None = None
    judges: Mapping[str, CallTotals] = field(default_factory=dict)


NO_CALLS = CallTotals(
    n=0, usage=None, n_without_usage=0, known_cost_usd=0.0, paid_usd=0.0, n_without_cost=0
)
"""For a run that made no calls, or whose calls were not read."""


class CallCounter:
    """Adds up the lines that name a call.

    Lines of one call may differ in what they know (one was paid for, another came from the
    cache): the largest figure is the call's, and this run paid for it if any line says so.
    """

    def __init__(self) -> None:
        # Names are held as 64-bit hashes, 8 bytes instead of 200: among a million calls, the
        # odds that any two are taken for one are 1 in 10^7.
        self._rows = Rows(name="q", cost="d", paid="b", **dict.fromkeys(_TOKENS, "i"))

    def add(self, name: str, call: RecordedCall) -> None:
        """Add a line's call; it was checked when it was read."""
        cost = float("nan") if call.cost_usd is None else call.cost_usd
        counts = _NOT_COUNTED if call.usage is None else msgspec.structs.astuple(call.usage)
        self._rows.append(hash(name), cost, not call.cached, *counts)

    def totals(self) -> CallTotals:
        """Add up all calls."""
        names = self._rows.column("name")
        order = np.argsort(names).astype(np.int32)
        starts = np.flatnonzero(changes(names[order])).astype(np.int32)
        del names

        def largest(column: str) -> NDArray[Any]:
            # fmax ignores NaN, which stands for an unknown cost.
            found: NDArray[Any] = np.fmax.reduceat(self._rows.column(column)[order], starts)
            return found

        counted = np.ones(len(starts), dtype=np.bool_)
        for kind in _TOKENS:
            counted &= largest(kind) != _UNKNOWN
        n_counted = int(counted.sum())
        tokens = (largest(kind).sum(where=counted, dtype=np.int64) for kind in _TOKENS)
        cost_usd = largest("cost")
        priced = ~np.isnan(cost_usd)
        paid = largest("paid") != 0
        return CallTotals(
            n=len(starts),
            usage=Usage(*map(int, tokens)) if n_counted or not len(starts) else None,
            n_without_usage=len(starts) - n_counted,
            # Exact, because calls come in no particular order.
            known_cost_usd=fsum(cost_usd[priced]),
            paid_usd=fsum(cost_usd[priced & paid]),
            n_without_cost=len(starts) - int(priced.sum()),
        )


class _Called(LineName, gc=False):
    """The fields of a line that describe its calls."""

    call_id: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False
    polish: tuple[Rewriting, ...] = ()


RecordedCall = _Called | Rewriting | JudgeCall
"""What a line says of a call: of the model, of the one that paraphrases, or of a judge."""


def read_calls(path: Path) -> CallTotals:
    """Read the calls of a run, including those of superseded lines and of its judges.

    Args:
        path: The run's attempts file.
    """
    counter = CallCounter()
    for name, call in _model_calls(path):
        counter.add(name, call)
    if not path.with_name(JUDGES).exists():
        return counter.totals()
    model, judges = counter.totals(), dict[str, CallCounter]()
    for judge, name, judged in _judge_calls(path.parent):
        counter.add(name, judged)
        judges.setdefault(judge, CallCounter()).add(name, judged)
    each = {judge: own.totals() for judge, own in judges.items()}
    return replace(counter.totals(), model=model, judges=each)


def read_payments(path: Path) -> dict[bytes, float]:
    """Read what a run paid for its calls in US dollars, by the call's key, as far as is known.

    Args:
        path: The run's attempts file.
    """
    own = _model_calls(path, keys=True)
    of_judges = ((name, call) for _, name, call in _judge_calls(path.parent, keys=True))
    return {
        bytes.fromhex(name): call.cost_usd
        for name, call in chain[tuple[str, RecordedCall]](own, of_judges)
        if not call.cached and call.cost_usd is not None
    }


def _model_calls(path: Path, *, keys: bool = False) -> Iterator[tuple[str, RecordedCall]]:
    """Yield the calls of a run's attempts by their ids; with ``keys``, the ids must be hex keys."""
    for number, _, line in decoded(path, _Called, ATTEMPT):
        calls: tuple[_Called | Rewriting, ...] = (line, *line.polish)
        for call in calls:
            if call.call_id is not None:
                try:
                    _check(call, call.call_id if keys else "")
                except ValueError as error:
                    raise ATTEMPT.invalid(path, number, error) from None
                yield call.call_id, call


def _judge_calls(folder: Path, *, keys: bool = False) -> Iterator[tuple[str, str, JudgeCall]]:
    """Yield the calls of a run's judges, also on references: the judge's name, the id, the call.

    Args:
        folder: The run's folder.
        keys: Whether the ids must be hex keys.
    """
    if not (folder / JUDGES).exists():
        return
    for path in (folder / JUDGEMENTS, folder / REFERENCES / JUDGEMENTS):
        for number, _, line in decoded(path, Judgement, JUDGEMENT):
            for name, call in line.each_call():
                try:
                    _check(call, name if keys else "")
                except ValueError as error:
                    raise JUDGEMENT.invalid(path, number, error) from None
                yield line.judge, name, call


def _check(call: RecordedCall, key: str) -> None:
    counts = () if call.usage is None else msgspec.structs.astuple(call.usage)
    if not 0 <= (call.cost_usd or 0.0) <= LARGEST:
        raise ValueError(f"cost_usd is {call.cost_usd}")
    if not all(0 <= count < 2**31 for count in counts):
        raise ValueError(f"usage is {counts}")
    if call.cost_usd is not None and not call.cached:
        bytes.fromhex(key)


def read_columns(path: Path) -> tuple[AttemptTable, CallTotals]:
    """Read the attempts and the calls of a run; both are empty if there is no file.

    They are read one after the other, to save memory.
    """
    calls = read_calls(path)
    return read_attempts(path), calls


class _Timed(msgspec.Struct, gc=False):
    outcome: Outcome
    latency_s: float | None = None
    call_id: str | None = None
    cached: bool = False


def read_latencies(index: AttemptIndex) -> Iterator[float]:
    """Yield the seconds of each call that was made for an attempt that counts, each call once.

    Replies from the cache are excluded, and so are failed calls, since a failure may be fast.
    """
    seen: set[str] = set()
    for line in index.read(_Timed):
        if line.latency_s is None or line.cached or line.outcome == "error":
            continue
        if line.call_id is not None:
            if line.call_id in seen:
                continue
            seen.add(line.call_id)
        yield line.latency_s
