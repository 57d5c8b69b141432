"""Prices of models, in US dollars per million tokens, by API host and model name.

They come from the built-in `prices.yaml` and the user's `HARNESS_PRICES`. If a model is in neither
file, its cost is unknown, not 0.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import yaml
from msgspec import structs
from pydantic import BaseModel, ConfigDict, Field

from harness.config.validation import Section, validate
from harness.config.yaml_text import read_mapping
from harness.errors import ConfigError
from harness.records import Usage

BUILTIN_PATH = Path(__file__).with_name("prices.yaml")

Usd = Annotated[float, Field(strict=True, ge=0, le=1_000_000, allow_inf_nan=False)]
"""A price in US dollars per million tokens."""

_UNITS_PER_USD = 10**18  # costs are whole numbers of internal units, so that sums are exact


class Prices(BaseModel):
    """Prices in US dollars per million tokens.

    By default, cached input costs as much as other input, and calls in a batch as much as others.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: Usd
    output: Usd
    cached_input: Usd | None = None
    cache_write: Usd | None = None
    batch_input: Usd | None = None
    batch_output: Usd | None = None

    def unset_batch_prices(self, factor: float) -> dict[str, float]:
        """Return the unset batch prices, by key, as the ordinary prices times ``factor``."""
        prices = {}
        if self.batch_input is None:
            prices["batch_input"] = self.input * factor
        if self.batch_output is None:
            prices["batch_output"] = self.output * factor
        return prices

    @property
    def _cache_write(self) -> float:
        return _price_or(self.cache_write, self.input)

    def _batch_prices(self) -> dict[str, float]:
        """Return the prices of calls in a batch, by the keys of ordinary prices."""
        batch_input = _price_or(self.batch_input, self.input)
        cache_write = self._cache_write
        if self.input:
            cache_write = max(batch_input, cache_write * batch_input / self.input)
        batch_output = _price_or(self.batch_output, self.output)
        return {"input": batch_input, "output": batch_output, "cache_write": cache_write}

    def _cost_units(self, usage: Usage) -> int:
        cached = min(usage.cached_input_tokens, usage.input_tokens)
        written = min(usage.cache_write_tokens, usage.input_tokens - cached)
        return (
            (usage.input_tokens - cached - written) * _units_per_token(self.input)
            + cached * _units_per_token(_price_or(self.cached_input, self.input))
            + written * _units_per_token(self._cache_write)
            + usage.output_tokens * _units_per_token(self.output)
        )

    def _max_cost_units(self, input_tokens: int, output_tokens: int) -> int:
        max_input = max(self.input, self.cached_input or 0.0, self.cache_write or 0.0)
        input_cost = input_tokens * _units_per_token(max_input)
        return input_cost + output_tokens * _units_per_token(self.output)


class LongContext(Prices):
    """Prices of calls with more than ``above_tokens`` input tokens (cached tokens included)."""

    above_tokens: Annotated[int, Field(strict=True, ge=0)]


class Price(Prices):
    """The prices of one model."""

    long_context: LongContext | None = None
    tiers: dict[str, Price] = Field(default_factory=dict)  # in service tiers, by name

    def tier(self, name: str | None) -> Price | None:
        """Return the prices in a service tier (None: the standard tier), or None if unknown."""
        return self if name is None else self.tiers.get(name)

    @functools.cached_property
    def batch(self) -> Price:
        """The prices of calls in a batch, where reading input from the cache is no cheaper."""
        long = self.long_context
        long_batch = None
        if long is not None:
            long_batch = LongContext(above_tokens=long.above_tokens, **long._batch_prices())
        return Price(long_context=long_batch, **self._batch_prices())

    def with_batch_factor(self, factor: float) -> Price:
        """Return a copy whose unset batch prices are the ordinary prices times ``factor``."""
        long = self.long_context
        if long is not None:
            long = long.model_copy(update=long.unset_batch_prices(factor))
        return self.model_copy(update={**self.unset_batch_prices(factor), "long_context": long})

    def cost(self, usage: Usage) -> float:
        """Return the cost of a call with this token usage, in US dollars."""
        long = self.long_context
        prices = long if long and usage.input_tokens > long.above_tokens else self
        return prices._cost_units(usage) / _UNITS_PER_USD

    def cache_savings(self, usage: Usage) -> float:
        """Return what the prompt cache saved on a call, in US dollars (negative: it cost more)."""
        uncached = structs.replace(usage, cached_input_tokens=0, cache_write_tokens=0)
        return self.cost(uncached) - self.cost(usage)

    def max_cost(self, input_tokens: int, output_tokens: int) -> float:
        """Return the maximum cost of a call, in US dollars, given its maximum numbers of tokens."""
        long = self.long_context
        if long is None or input_tokens <= long.above_tokens:
            return self._max_cost_units(input_tokens, output_tokens) / _UNITS_PER_USD
        short_units = self._max_cost_units(long.above_tokens, output_tokens)
        long_units = long._max_cost_units(input_tokens, output_tokens)
        return max(short_units, long_units) / _UNITS_PER_USD


FREE = Price(input=0, output=0)


def _units_per_token(usd_per_million: float) -> int:
    return round(usd_per_million * 10**12)


def _price_or(price: float | None, default: float) -> float:
    return default if price is None else price


@dataclass(frozen=True, slots=True)
class PriceEntry:
    """The price of a model at an API host. Unknown facts are None."""

    host: str
    model: str
    price: Price
    source: str | None = None  # the page that states the price
    as_of: date | None = None  # when that page was read
    until: date | None = None  # the last day on which it is valid
    note: str | None = None
    own: bool = False  # whether it is from the user's file


class PriceList:
    """All known prices. Of entries with the same host and model, the last one counts."""

    def __init__(self, entries: Iterable[PriceEntry]) -> None:
        self._entries = {(entry.host, entry.model): entry for entry in entries}

    def __iter__(self) -> Iterator[PriceEntry]:
        return iter(self._entries.values())

    def find(self, host: str, model: str) -> Price | None:
        """Return the price of a model, or None if it is unknown."""
        entry = self.entry(host, model)
        return entry.price if entry else None

    def entry(self, host: str, model: str) -> PriceEntry | None:
        """Return the entry of a model, or None.

        A name with a date that has no entry gets the entry of the name without the date.
        """
        host = host.lower()
        undated = _strip_date(model) or model
        return self._entries.get((host, model)) or self._entries.get((host, undated))

    def nearest(self, host: str, model: str) -> str:
        """Return advice on models of the host with a price, for a message about a missing price."""
        names = [entry.model for entry in self if entry.host == host.lower()]
        for close in get_close_matches(model, names, n=1):
            return f"The nearest model with a price is {close!r}."
        advice = f"'harness prices {host}' lists the models with a price."
        return advice if names else f"No model of {host} has a price."


_DATED_NAME = re.compile(r"(.+)-(20\d\d)(-?)(\d\d)\3(\d\d)")  # gpt-4o-2024-08-06


def _strip_date(model: str) -> str | None:
    """Return a model's name without the date at its end, or None if it has none."""
    parts = _DATED_NAME.fullmatch(model)
    with contextlib.suppress(ValueError):  # digits that are not a date
        if parts and date(int(parts[2]), int(parts[4]), int(parts[5])):
            return parts[1]
    return None


class _Listed(Price):
    source: str | None = None
    as_of: date | None = None
    until: date | None = None
    note: str | None = None


class _Provider(Section):
    source: str | None = None
    as_of: date | None = None
    batch_factor: Annotated[float, Field(gt=0, le=1)] | None = None  # for prices not listed
    models: dict[str, _Listed]

    def entries(self, host: str, *, is_users: bool = False) -> Iterator[PriceEntry]:
        for model, listed in self.models.items():
            price = Price(**{name: getattr(listed, name) for name in Price.model_fields})
            if self.batch_factor is not None:
                price = price.with_batch_factor(self.batch_factor)
            yield PriceEntry(
                host=host.lower(),
                model=model,
                price=price,
                source=listed.source or self.source,
                as_of=listed.as_of or self.as_of,
                until=listed.until,
                note=listed.note,
                own=is_users,
            )


def load_prices(path: Path | None, *, today: date | None = None) -> PriceList:
    """Load the prices that apply on a day.

    Args:
        path: The user's price file, or None for the built-in prices only.
        today: The day (default: today).

    Raises:
        ConfigError: If the file cannot be read or is invalid.
    """
    entries = list(_builtin_entries())
    if path is not None:
        entries += _user_entries(path)
    day = today or date.today()
    return PriceList(entry for entry in entries if entry.until is None or day <= entry.until)


@functools.cache
def _builtin_entries() -> tuple[PriceEntry, ...]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # Ten times as fast, if available.
    tree = yaml.load(BUILTIN_PATH.read_text(encoding="utf-8"), loader)  # noqa: S506 (a SafeLoader)
    entries: list[PriceEntry] = []
    for host, section in tree.items():
        entries += _Provider.model_validate(section).entries(host)
    return tuple(entries)


_FORM = "Write US dollars per million tokens: 'HOST: {models: {gpt-4: {input: 30, output: 60}}}'."


def _user_entries(path: Path) -> Iterator[PriceEntry]:
    try:
        tree = read_mapping(path, "list of prices", _FORM)
    except ConfigError as error:
        raise ConfigError(f"HARNESS_PRICES: {error.message}", error.remedy) from None
    for host, section in tree.items():
        if not re.fullmatch(r"[A-Za-z0-9_.-]+|[0-9A-Fa-f:]+", host):
            remedy = "Write the API's host, such as api.openai.com."
            raise ConfigError(f"{path}: {host!r} is not a host name.", remedy)
        provider = validate(_Provider, section, f"{path}: {host}", _FORM)
        yield from provider.entries(host, is_users=True)
