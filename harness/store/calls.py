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
_UNKNOWN = -1
_UNKNOWN_COUNTS = (_UNKNOWN,) * len(_TOKENS)


class RunCalls(CallTotals, frozen=True, kw_only=True):
    """The number, tokens and cost of all calls of a run, and those of its models and judges."""

    # Calls of the run's model and of the paraphrasing model; None if no other model was called.
    model: CallTotals | None = None
    user: CallTotals | None = None  # calls of the model that plays the user, if there is one
    judges: Mapping[str, CallTotals] = {}  # a shared call counts for each


NO_CALLS = RunCalls(cost_usd=0.0)  # of a run without calls, or whose calls were not read


class CallCounter:
    """A counter of a run's recorded calls. Each call counts once.

    Several lines may record the same call: one as paid for, the others as cached. The largest
    values count, and the run has paid for the call if any line says so.
    """

    def __init__(self) -> None:
        # Names are stored as 64-bit hashes, 8 bytes instead of 200: among a million calls, the
        # probability of a collision is below 10^-7.
        columns = dict.fromkeys(("cost", "computed"), "d") | dict.fromkeys(_TOKENS, "i")
        self._rows = NumericRows(name="q", paid="b", **columns)

    def add(self, name: str, call: RecordedCall, price: Price | None = None) -> None:
        """Add a validated call, with the cost at ``price`` if no cost is recorded."""
        cost = nan if call.cost_usd is None else call.cost_usd
        computed = _cost_at_price(call, price) if price and call.cost_usd is None else nan
        counts = _UNKNOWN_COUNTS if call.usage is None else msgspec.structs.astuple(call.usage)
        self._rows.append(hash(name), not call.cached, cost, computed, *counts)

    def totals(self, n_crashed: int = 0) -> CallTotals:
        """Return the totals over all distinct calls.

        ``n_crashed`` is the number of further calls, which crashed.
        """
        names = self._rows.column("name")
        order = np.argsort(names).astype(np.int32)
        starts = np.flatnonzero(change_mask(names[order])).astype(np.int32)

        def largest(column: str) -> NDArray[Any]:
            # fmax ignores NaN, which stands for an unknown cost.
            return np.fmax.reduceat(self._rows.column(column)[order], starts)

        counts = {kind: largest(kind) for kind in _TOKENS}
        counted = np.logical_and.reduce([tokens != _UNKNOWN for tokens in counts.values()])
        n_counted = int(counted.sum())
        usage = None
        if n_counted or not len(starts):
            sums = [int(tokens.sum(where=counted, dtype=np.int64)) for tokens in counts.values()]
            usage = Usage(*sums)
        recorded = largest("cost")
        computed = np.isnan(recorded)
        cost_usd = np.where(computed, largest("computed"), recorded)
        priced = ~np.isnan(cost_usd)
        n_without_cost = len(starts) - int(priced.sum())
        paid = largest("paid") != 0
        # Exact (fsum), because calls come in no particular order.
        known_cost_usd = fsum(cost_usd[priced])
        return CallTotals(
            n_calls=len(starts),
            n_cached_calls=len(starts) - int(paid.sum()),
            n_crashed_calls=n_crashed,
            usage=usage,
            n_calls_without_usage=len(starts) - n_counted,
            cost_usd=None if n_without_cost else known_cost_usd,
            known_cost_usd=known_cost_usd,
            paid_usd=fsum(cost_usd[priced & paid]),
            computed_usd=fsum(cost_usd[priced & computed]),
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
        """Whether the line records a call of the application that crashed, as no other does."""
        return (
            self.outcome in OUTCOMES_WITHOUT_REPLY
            and self.call_id is None
            and self.latency_s is not None
        )


# By the model, the paraphrasing model, the model that plays the user, or a judge.
RecordedCall = _AttemptCalls | Rewriting | PlayedTurn | JudgeCall


def _cost_at_price(call: RecordedCall, price: Price) -> float:
    usage = call.usage
    counted = usage is not None and (usage.input_tokens or usage.output_tokens)
    return price.cost(usage) if usage is not None and counted else nan


def read_calls(path: Path) -> RunCalls:
    """Return the totals over the calls of a run and of its judges, given its attempts file.

    An unrecorded cost is computed from the tokens if the run's folder records the model's price.
    """
    judged = has_judges(path.parent)
    calls = _sum_calls(path, by_model=judged)
    if not judged and calls.user is not None:
        calls = _sum_calls(path, by_model=True)
    manifest = read_json(
        path.with_name("manifest.json"), dict[str, Any], "Remove it and run again."
    )
    if "imported" not in manifest:
        return _add_unrecorded(calls, unrecorded_calls(manifest))
    # Another tool made the calls of the run's model.
    n_cached = sum(judge.n_cached_calls for judge in calls.judges.values())
    model = calls.model and replace(calls.model, n_cached_calls=0)
    return replace(calls, n_cached_calls=n_cached, model=model)


def _add_unrecorded(calls: RunCalls, unrecorded: Mapping[str, UnrecordedCalls]) -> RunCalls:
    if not unrecorded:
        return calls

    none = UnrecordedCalls()

    def added(key: str, figures: CallTotals) -> CallTotals:
        return unrecorded.get(key, none).add_to(figures)

    return replace(
        unrecorded.get("", none).add_to(calls),
        model=calls.model and added("model", calls.model),
        user=calls.user and added("user.model", calls.user),
        judges={name: added(f"judges.{name}.model", calls.judges[name]) for name in calls.judges},
    )


def _sum_calls(path: Path, *, by_model: bool) -> RunCalls:
    """Return the totals, and if ``by_model`` those of each model, which take more memory."""
    prices = read_prices(path.parent)
    every = CallCounter()
    model = CallCounter()
    user: CallCounter | None = None
    judges: dict[str, CallCounter] = {}
    n_crashed = 0
    for judge, name, call in _read_recorded(path):
        if not name:
            n_crashed += 1
            continue
        if isinstance(call, PlayedTurn):
            key = "user.model"
            counter = user = user or CallCounter()
        elif judge:
            key = f"judges.{judge}.model"
            counter = judges.setdefault(judge, CallCounter())
        else:
            key = "polish" if isinstance(call, Rewriting) else "model"
            counter = model
        price = prices.get(key)
        every.add(name, call, price)
        if by_model or counter is user:
            counter.add(name, call, price)
    total = every.totals(n_crashed)
    return RunCalls(
        **structs.asdict(total),
        model=model.totals(n_crashed) if by_model else None,
        user=None if user is None else user.totals(),
        judges={judge: counter.totals() for judge, counter in judges.items() if by_model},
    )


def read_payments(path: Path) -> dict[bytes, float]:
    """Return the known costs (US dollars) of calls that a run paid for, by id as bytes."""
    return {
        bytes.fromhex(name): call.cost_usd
        for _, name, call in _read_recorded(path, keys=True)
        if not call.cached and call.cost_usd is not None
    }


def read_paid_ids(path: Path) -> set[str]:
    """Return the ids of the calls that a run has paid for, according to its recorded lines."""
    return {name for _, name, call in _read_recorded(path) if name and not call.cached}


def read_call_ids(path: Path) -> set[str]:
    """Return the ids of all calls that a run's lines record."""
    return {name for _, name, _ in _read_recorded(path) if name}


def read_callers(path: Path) -> dict[str, str]:
    """Return who made the calls that a run's lines record: a judge's name, or "", by call id."""
    return {name: judge for judge, name, _ in _read_recorded(path) if name}


def _read_recorded(
    attempts: Path, *, keys: bool = False
) -> Iterator[tuple[str, str, RecordedCall]]:
    """Yield the judge's name (or ""), the id and the call for each recorded call of a run.

    The id of a crashed call is empty.
    With ``keys``, the ids of paid calls must be hexadecimal.
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
            for name, call in line.identified_calls():
                counts = () if call.usage is None else msgspec.structs.astuple(call.usage)
                try:
                    if not 0 <= (call.cost_usd or 0.0) <= MAX_MAGNITUDE:
                        raise ValueError(f"cost_usd is {call.cost_usd}")
                    if not all(0 <= count < 2**31 for count in counts):
                        raise ValueError(f"usage is {counts}")
                    if keys and call.cost_usd is not None and not call.cached:
                        bytes.fromhex(name)
                except ValueError as error:
                    raise kind.line_error(path, number, error) from None
                yield line.judge, name, call
