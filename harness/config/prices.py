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

_EXACT = 10**18  # internal units per US dollar; costs are whole numbers, so that sums are exact


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

    def batch_prices(self, factor: float) -> dict[str, float]:
        """Return the unset batch prices, by key, as the ordinary prices times ``factor``."""
        shares = {}
        if self.batch_input is None:
            shares["batch_input"] = self.input * factor
        if self.batch_output is None:
            shares["batch_output"] = self.output * factor
        return shares

    @property
    def _writing(self) -> float:
        return _set(self.cache_write, self.input)

    def _batch(self) -> dict[str, float]:
        read = _set(self.batch_input, self.input)
        to_cache = self._writing
        if self.input:
            to_cache = max(read, to_cache * read / self.input)
        written = _set(self.batch_output, self.output)
        return {"input": read, "output": written, "cache_write": to_cache}

    def _of(self, usage: Usage) -> int:
        cached = min(usage.cached_input_tokens, usage.input_tokens)
        written = min(usage.cache_write_tokens, usage.input_tokens - cached)
        return (
            (usage.input_tokens - cached - written) * _units(self.input)
            + cached * _units(_set(self.cached_input, self.input))
            + written * _units(self._writing)
            + usage.output_tokens * _units(self.output)
        )

    def _most(self, input_tokens: int, output_tokens: int) -> int:
        read = max(self.input, self.cached_input or 0.0, self.cache_write or 0.0)
        return input_tokens * _units(read) + output_tokens * _units(self.output)


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
        above = LongContext(above_tokens=long.above_tokens, **long._batch()) if long else None
        return Price(long_context=above, **self._batch())

    def with_batch_factor(self, factor: float) -> Price:
        """Return a copy whose unset batch prices are the ordinary prices times ``factor``."""
        long = self.long_context
        above = long.model_copy(update=long.batch_prices(factor)) if long else None
        return self.model_copy(update={**self.batch_prices(factor), "long_context": above})

    def cost(self, usage: Usage) -> float:
        """Return the cost of a call with this token usage, in US dollars."""
        long = self.long_context
        prices = long if long and usage.input_tokens > long.above_tokens else self
        return prices._of(usage) / _EXACT

    def cache_savings(self, usage: Usage) -> float:
        """Return the US dollars that the prompt cache saved (negative if it cost more)."""
        plain = structs.replace(usage, cached_input_tokens=0, cache_write_tokens=0)
        return self.cost(plain) - self.cost(usage)

    def max_cost(self, input_tokens: int, output_tokens: int) -> float:
        """Return the maximum cost, in US dollars, of a call with at most this many tokens."""
        long = self.long_context
        if long is None or input_tokens <= long.above_tokens:
            return self._most(input_tokens, output_tokens) / _EXACT
        short = self._most(long.above_tokens, output_tokens)
        return max(short, long._most(input_tokens, output_tokens)) / _EXACT


FREE = Price(input=0, output=0)


def _units(usd: float) -> int:
    return round(usd * 10**12)


def _set(price: float | None, default: float) -> float:
    return default if price is None else price


@dataclass(frozen=True, slots=True)
class PriceEntry:
    """The price of a model at an API host, with None for unknown facts."""

    host: str
    model: str
    price: Price
    source: str | None = None  # where it was read
    as_of: date | None = None  # when it was read
    until: date | None = None  # the last day on which it is valid
    note: str | None = None
    is_users: bool = False  # whether it is from the user's file


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
        """Return a model's price and source, or None. A dated name defaults to the undated name."""
        host = host.lower()
        undated = _undated(model) or model
        return self._entries.get((host, model)) or self._entries.get((host, undated))

    def nearest(self, host: str, model: str) -> str:
        """Return a sentence about the host's models with a price, naming a similar one if any."""
        names = [entry.model for entry in self if entry.host == host.lower()]
        for close in get_close_matches(model, names, n=1):
            return f"The nearest model with a price is {close!r}."
        listed = f"'harness prices {host}' lists the models with a price."
        return listed if names else f"No model of {host} has a price."


_SNAPSHOT = re.compile(r"(.+)-(20\d\d)(-?)(\d\d)\3(\d\d)")


def _undated(model: str) -> str | None:
    parts = _SNAPSHOT.fullmatch(model)
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

    def entries(self, host: str, *, is_own: bool = False) -> Iterator[PriceEntry]:
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
                is_users=is_own,
            )


def load_prices(path: Path | None, *, today: date | None = None) -> PriceList:
    """Load the prices that apply on a day (default: today): built-in, and in the file ``path``."""
    entries = list(_builtin())
    if path is not None:
        entries += _own(path)
    day = today or date.today()
    return PriceList(entry for entry in entries if entry.until is None or day <= entry.until)


@functools.cache
def _builtin() -> tuple[PriceEntry, ...]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # Ten times as fast, if available.
    tree = yaml.load(BUILTIN_PATH.read_text(encoding="utf-8"), loader)  # noqa: S506 (a SafeLoader)
    entries: list[PriceEntry] = []
    for host, section in tree.items():
        entries += _Provider.model_validate(section).entries(host)
    return tuple(entries)


_FORM = "Write US dollars per million tokens: 'HOST: {models: {gpt-4: {input: 30, output: 60}}}'."


def _own(path: Path) -> Iterator[PriceEntry]:
    try:
        tree = read_mapping(path, "list of prices", _FORM)
    except ConfigError as error:
        raise ConfigError(f"HARNESS_PRICES: {error.message}", error.remedy) from None
    for host, listed in tree.items():
        if not re.fullmatch(r"[A-Za-z0-9_.-]+|[0-9A-Fa-f:]+", host):
            remedy = "Write the API's host, such as api.openai.com."
            raise ConfigError(f"{path}: {host!r} is not a host name.", remedy)
        yield from validate(_Provider, listed, f"{path}: {host}", _FORM).entries(host, is_own=True)
