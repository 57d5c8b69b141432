"""A run's calls whose lines are lost, but whose replies are in the cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec.structs import replace

from harness.errors import DataInvalid
from harness.records import MAX_MAGNITUDE, CallTotals, Usage

F = TypeVar("F", bound=CallTotals)

UNRECORDED_KEY = "unrecorded"  # the manifest's key for calls whose lines are lost, by model


class UnrecordedCalls(msgspec.Struct, frozen=True):
    """Calls that a run has paid for, according to the cache, but whose lines are lost."""

    n_calls: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    usage: Usage = Usage()
    n_calls_without_usage: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    usd: Annotated[float, msgspec.Meta(ge=0, le=MAX_MAGNITUDE)] = 0.0
    n_calls_without_cost: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0

    def __add__(self, calls: UnrecordedCalls) -> UnrecordedCalls:
        return UnrecordedCalls(
            self.n_calls + calls.n_calls,
            self.usage + calls.usage,
            self.n_calls_without_usage + calls.n_calls_without_usage,
            self.usd + calls.usd,
            self.n_calls_without_cost + calls.n_calls_without_cost,
        )

    def add_to(self, recorded: F) -> F:
        """Return the totals of recorded calls, with these calls added."""
        cost_usd = None
        if recorded.cost_usd is not None and not self.n_calls_without_cost:
            cost_usd = recorded.cost_usd + self.usd
        usage = recorded.usage
        if self.n_calls > self.n_calls_without_usage:
            usage = self.usage if usage is None else usage + self.usage
        return replace(
            recorded,
            n_calls=recorded.n_calls + self.n_calls,
            usage=usage,
            n_calls_without_usage=recorded.n_calls_without_usage + self.n_calls_without_usage,
            cost_usd=cost_usd,
            known_cost_usd=recorded.known_cost_usd + self.usd,
            paid_usd=recorded.paid_usd + self.usd,
            n_calls_without_cost=recorded.n_calls_without_cost + self.n_calls_without_cost,
        )


def unrecorded_calls(manifest: Mapping[str, Any]) -> dict[str, UnrecordedCalls]:
    """Return the calls of a run whose lines are lost, by the model's key ("": all models).

    Raises:
        DataInvalid: If the manifest is damaged.
    """
    try:
        return msgspec.convert(manifest.get(UNRECORDED_KEY) or {}, dict[str, UnrecordedCalls])
    except msgspec.ValidationError as error:
        problem = f"manifest.json is damaged: {error}."
        raise DataInvalid(problem, "Restore it, or start a new run.") from None
