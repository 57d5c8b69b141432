"""A run's calls: their number, tokens and cost. Each call is counted once.

All functions that read files raise `DataInvalid` for a damaged line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import fsum, nan
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import structs
from msgspec.structs import replace
from numpy.typing import NDArray

from harness.config.prices import Price
from harness.records import (
    MAX_MAGNITUDE,
    OUTCOMES_WITHOUT_REPLY,
    CallTotals,
    PlayedTurn,
    Rewriting,
    Usage,
)
from harness.store.attempt_lines import ATTEMPT
from harness.store.columns import LineKey, NumericRows, change_mask
from harness.store.json_lines import LineKind, decode_lines, read_json
from harness.store.judgements import JUDGEMENT, JudgeCall, Judgement, has_judges
from harness.store.run_folder import JUDGEMENTS, REFERENCES, read_prices
from harness.store.unrecorded import UnrecordedCalls, unrecorded_calls

_TOKENS: tuple[str, ...] = Usage.__struct_fields__
_UNKNOWN = -1  # a token count
_UNKNOWN_COUNTS = (_UNKNOWN,) * len(_TOKENS)


class RunCalls(CallTotals, frozen=True, kw_only=True):
    """The number, tokens and cost of all calls of a run, and those of its models and judges."""

    # Calls of the run's model and of the paraphrasing model; None if no other model was called.
    model: CallTotals | None = None
    user: CallTotals | None = None  # calls of the model that plays the user, if there is one
    judges: Mapping[str, CallTotals] = {}  # a shared call counts for each


NO_CALLS = RunCalls(cost_usd=0.0)  # for a run without calls, or whose calls were not read


class CallCounter:
    """A counter of a run's recorded calls, each of which counts once.

    Several lines may record the same call: one as paid for, the others as cached. The maximum of
    each value counts, and the run has paid for the call if any line says so.
    """

    def __init__(self) -> None:
        # Ids are stored as 64-bit hashes, in 8 bytes instead of 200. Among a million calls, the
        # probability of a collision is below 10^-7.
        columns = dict.fromkeys(("cost", "computed"), "d") | dict.fromkeys(_TOKENS, "i")
        self._rows = NumericRows(call="q", paid="b", **columns)

    def add(self, call_id: str, call: RecordedCall, price: Price | None = None) -> None:
        """Add a validated call. Its cost is computed at ``price`` if none is recorded."""
        cost = nan if call.cost_usd is None else call.cost_usd
        computed = _cost_at_price(call, price) if price and call.cost_usd is None else nan
        counts = _UNKNOWN_COUNTS if call.usage is None else msgspec.structs.astuple(call.usage)
        self._rows.append(hash(call_id), not call.cached, cost, computed, *counts)

    def totals(self, n_crashed: int = 0) -> CallTotals:
        """Return the totals over all distinct calls.

        ``n_crashed`` is the number of additional calls that crashed.
        """
        calls = self._rows.column("call")
        order = np.argsort(calls).astype(np.int32)
        starts = np.flatnonzero(change_mask(calls[order])).astype(np.int32)

        def maximum(column: str) -> NDArray[Any]:
            # fmax ignores NaN, which stands for an unknown cost.
            return np.fmax.reduceat(self._rows.column(column)[order], starts)

        counts = {kind: maximum(kind) for kind in _TOKENS}
        has_usage = np.logical_and.reduce([tokens != _UNKNOWN for tokens in counts.values()])
        n_with_usage = int(has_usage.sum())
        usage = None
        if n_with_usage or not len(starts):
            sums = [int(tokens.sum(where=has_usage, dtype=np.int64)) for tokens in counts.values()]
            usage = Usage(*sums)
        recorded_usd = maximum("cost")
        is_computed = np.isnan(recorded_usd)
        cost_usd = np.where(is_computed, maximum("computed"), recorded_usd)
        has_cost = ~np.isnan(cost_usd)
        n_without_cost = len(starts) - int(has_cost.sum())
        is_paid = maximum("paid") != 0
        # Exact (fsum), because calls come in no particular order.
        known_cost_usd = fsum(cost_usd[has_cost])
        return CallTotals(
            n_calls=len(starts),
            n_cached_calls=len(starts) - int(is_paid.sum()),
            n_crashed_calls=n_crashed,
            usage=usage,
            n_calls_without_usage=len(starts) - n_with_usage,
            cost_usd=None if n_without_cost else known_cost_usd,
            known_cost_usd=known_cost_usd,
            paid_usd=fsum(cost_usd[has_cost & is_paid]),
            computed_usd=fsum(cost_usd[has_cost & is_computed]),
            n_calls_without_cost=n_without_cost,
        )


class _AttemptCalls(LineKey, gc=False):
    call_id: str | None = None
    outcome: str = ""
    latency_s: float | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False
    polish: tuple[Rewriting, ...] = ()
    user: tuple[PlayedTurn, ...] = ()
    judge: str = ""

    def identified_calls(self) -> Iterator[tuple[str, RecordedCall]]:
        calls: tuple[_AttemptCalls | Rewriting | PlayedTurn, ...] = (self, *self.polish, *self.user)
        return ((call.call_id, call) for call in calls if call.call_id is not None)

    @property
    def is_crash(self) -> bool:
        """Whether the line records a crashed call of an application, which has no id."""
        return (
            self.outcome in OUTCOMES_WITHOUT_REPLY
            and self.call_id is None
            and self.latency_s is not None
        )


# By the model, the paraphrasing model, the model that plays the user, or a judge.
RecordedCall = _AttemptCalls | Rewriting | PlayedTurn | JudgeCall


def _cost_at_price(call: RecordedCall, price: Price) -> float:
    usage = call.usage
    if usage is None or not (usage.input_tokens or usage.output_tokens):
        return nan
    return price.cost(usage)


def read_calls(path: Path) -> RunCalls:
    """Return the totals over the calls of a run and of its judges.

    If a line records no cost, it is computed from the tokens at the recorded price of the model.

    Args:
        path: The run's attempts file.

    Raises:
        DataInvalid: If a line is damaged.
    """
    has_other_callers = has_judges(path.parent)
    calls = _sum_calls(path, by_model=has_other_callers)
    if not has_other_callers and calls.user is not None:
        calls = _sum_calls(path, by_model=True)
    manifest = read_json(
        path.with_name("manifest.json"), dict[str, Any], "Remove it and run again."
    )
    if "imported" not in manifest:
        return _add_unrecorded_calls(calls, unrecorded_calls(manifest))
    # Another tool made the calls of the run's model.
    n_cached = sum(judge.n_cached_calls for judge in calls.judges.values())
    model = calls.model and replace(calls.model, n_cached_calls=0)
    return replace(calls, n_cached_calls=n_cached, model=model)


def _add_unrecorded_calls(calls: RunCalls, unrecorded: Mapping[str, UnrecordedCalls]) -> RunCalls:
    if not unrecorded:
        return calls

    no_calls = UnrecordedCalls()

    def total(key: str, recorded: CallTotals) -> CallTotals:
        return unrecorded.get(key, no_calls).add_to(recorded)

    return replace(
        unrecorded.get("", no_calls).add_to(calls),
        model=calls.model and total("model", calls.model),
        user=calls.user and total("user.model", calls.user),
        judges={name: total(f"judges.{name}.model", calls.judges[name]) for name in calls.judges},
    )


def _sum_calls(path: Path, *, by_model: bool) -> RunCalls:
    """Return the totals and, if ``by_model``, those of each model, which take more memory."""
    prices = read_prices(path.parent)
    all_calls = CallCounter()
    model = CallCounter()
    user: CallCounter | None = None
    judges: dict[str, CallCounter] = {}
    n_crashed = 0
    for judge, call_id, call in _read_recorded_calls(path):
        if not call_id:
            n_crashed += 1
            continue
        if isinstance(call, PlayedTurn):
            key = "user.model"
            user = user or CallCounter()
            counter = user
        elif judge:
            key = f"judges.{judge}.model"
            counter = judges.setdefault(judge, CallCounter())
        else:
            key = "polish" if isinstance(call, Rewriting) else "model"
            counter = model
        price = prices.get(key)
        all_calls.add(call_id, call, price)
        if by_model or counter is user:
            counter.add(call_id, call, price)
    return RunCalls(
        **structs.asdict(all_calls.totals(n_crashed)),
        model=model.totals(n_crashed) if by_model else None,
        user=None if user is None else user.totals(),
        judges={judge: counter.totals() for judge, counter in judges.items() if by_model},
    )


def read_payments(path: Path) -> dict[bytes, float]:
    """Return the known costs in US dollars of the calls that a run paid for, by call id."""
    costs: dict[bytes, float] = {}
    for _, call_id, call in _read_recorded_calls(path, hexadecimal=True):
        if not call.cached and call.cost_usd is not None:
            costs[bytes.fromhex(call_id)] = call.cost_usd
    return costs


def read_paid_ids(path: Path) -> set[str]:
    """Return the ids of the calls that a run's lines record as paid for."""
    return {
        call_id for _, call_id, call in _read_recorded_calls(path) if call_id and not call.cached
    }


def read_call_ids(path: Path) -> set[str]:
    """Return the ids of all calls that a run's lines record."""
    return {call_id for _, call_id, _ in _read_recorded_calls(path) if call_id}


def read_callers(path: Path) -> dict[str, str]:
    """Return the name of the judge that made each recorded call ("": no judge), by call id."""
    return {call_id: judge for judge, call_id, _ in _read_recorded_calls(path) if call_id}


def _read_recorded_calls(
    attempts: Path, *, hexadecimal: bool = False
) -> Iterator[tuple[str, str, RecordedCall]]:
    """Yield the judge's name (or ""), the id ("": crashed) and the call for each recorded call.

    If ``hexadecimal``, the ids of paid calls with a cost must be hexadecimal.
    """
    files: list[tuple[Path, type[_AttemptCalls | Judgement], LineKind]] = [
        (attempts, _AttemptCalls, ATTEMPT)
    ]
    if has_judges(attempts.parent):
        for folder in (attempts.parent, attempts.parent / REFERENCES):
            files.append((folder / JUDGEMENTS, Judgement, JUDGEMENT))
    for path, shape, kind in files:
        for number, _, line in decode_lines(path, shape, kind):
            if isinstance(line, _AttemptCalls) and line.is_crash:
                yield "", "", line
            for call_id, call in line.identified_calls():
                try:
                    _check_call(call)
                    if hexadecimal and call.cost_usd is not None and not call.cached:
                        bytes.fromhex(call_id)
                except ValueError as error:
                    raise kind.line_error(path, number, error) from None
                yield line.judge, call_id, call


def _check_call(call: RecordedCall) -> None:
    """Raise ValueError if the cost or a token count of a call is out of range."""
    if not 0 <= (call.cost_usd or 0.0) <= MAX_MAGNITUDE:
        raise ValueError(f"cost_usd is {call.cost_usd}")
    counts = () if call.usage is None else msgspec.structs.astuple(call.usage)
    if not all(0 <= count < 2**31 for count in counts):
        raise ValueError(f"usage is {counts}")
