"""A run's calls of which the cache has the replies, but whose lines are lost."""

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

    def __add__(self, other: UnrecordedCalls) -> UnrecordedCalls:
        """Return the totals of both."""
        return UnrecordedCalls(
            self.n_calls + other.n_calls,
            self.usage + other.usage,
            self.n_calls_without_usage + other.n_calls_without_usage,
            self.usd + other.usd,
            self.n_calls_without_cost + other.n_calls_without_cost,
        )

    def add_to(self, figures: F) -> F:
        """Return figures of recorded calls with these calls added."""
        cost_usd = None
        if figures.cost_usd is not None and not self.n_calls_without_cost:
            cost_usd = figures.cost_usd + self.usd
        usage = figures.usage
        if self.n_calls > self.n_calls_without_usage:
            usage = self.usage if usage is None else usage + self.usage
        return replace(
            figures,
            n_calls=figures.n_calls + self.n_calls,
            usage=usage,
            n_calls_without_usage=figures.n_calls_without_usage + self.n_calls_without_usage,
            cost_usd=cost_usd,
            known_cost_usd=figures.known_cost_usd + self.usd,
            paid_usd=figures.paid_usd + self.usd,
            n_calls_without_cost=figures.n_calls_without_cost + self.n_calls_without_cost,
        )


def unrecorded_calls(manifest: Mapping[str, Any]) -> dict[str, UnrecordedCalls]:
    """Return a run's calls whose lines are lost, by the model's key; "" is the key of all calls."""
    try:
        return msgspec.convert(manifest.get(UNRECORDED_KEY) or {}, dict[str, UnrecordedCalls])
    except msgspec.ValidationError as error:
        problem = f"manifest.json is damaged: {error}."
        raise DataInvalid(problem, "Restore it, or start a new run.") from None
