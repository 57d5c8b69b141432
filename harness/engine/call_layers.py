"""What plug-ins change in how calls are made, such as sharing replies and limits with machines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from harness.calls.budget import Budget, SharedBudget
from harness.calls.claimed_calls import ClaimedCalls
from harness.calls.database import Restore
from harness.calls.rate_limits import SharedRates
from harness.calls.reply_cache import ReplyCache
from harness.calls.signals import Ask, Load, Report, Stop
from harness.config.prices import Price
from harness.config.sections import LimitsSection, ModelSection
from harness.config.settings import Settings
from harness.declarations import declared_members
from harness.errors import ConfigError
from harness.ports import Backend
from harness.records import Reply, Request

if TYPE_CHECKING:
    from harness.plugin import CheckupFinding


class LaterTerms(NamedTuple):
    """How a model's calls are made later than others, for the provider's price of batches."""

    hours: int  # within which the provider makes a call
    leaves: bool  # whether a run leaves once all its calls are with the provider


class LaterCalls(ABC):
    """A layer above a model's limits that makes calls later, such as in a provider's batches."""

    @abstractmethod
    async def __call__(self, request: Request) -> Reply:
        """Return the reply to a request, which the layer may make itself or send on."""

    @property
    @abstractmethod
    def load(self) -> Load:
        """Counts of the calls that the layer makes itself."""

    @property
    @abstractmethod
    def waits(self) -> bool:
        """Whether any call is waiting."""

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether the only thing left to do, if any, is to wait for the provider."""

    @abstractmethod
    def start(self) -> None:
        """Start to work on what earlier sessions have left."""

    @abstractmethod
    async def aclose(self) -> None:
        """Finish the current step, and release what other processes may continue."""


@dataclass(frozen=True, kw_only=True)
class ModelCalls:
    """A model's call stack, as a layer above it sees it.

    Attributes:
        section: The model's section in the run file.
        limits: Its limits.
        backend: Its backend.
        price: Its price, or None if it is unknown.
        budget: The run's budget, or None if it has none or the calls have no price.
        run: Id of the run.
        ask: The layers below.
        claim: The claim layer among them, which has the cache and the function for keys.
        stop: Stops the run.
        status: Returns a function that reports the status of a part of the call stack.
        busy: Returns whether the session has other calls in flight or waiting.
        leave: Ends the session if all waiting calls are with their providers.
    """

    section: ModelSection
    limits: LimitsSection
    backend: Backend
    price: Price | None
    budget: Budget | None
    run: str
    ask: Ask
    claim: ClaimedCalls
    stop: Stop
    status: Callable[[str], Report]
    busy: Callable[[], bool]
    leave: Callable[[], None]


class CallLayer:
    """The base class of what a plug-in changes in how calls are made. Defaults change nothing.

    A plug-in declares as one of its ``call_layers`` a function that takes the settings and returns
    an instance, or None if the settings do not ask for it. The function is called at the start of
    each command that makes calls, so its module should import little.
    """

    shares_calls = False
    """Whether machines share replies and limits. Shards then need no parts of the limits."""

    def open_cache(self, path: Path, notice: Report, restore: Restore) -> ReplyCache | None:
        """Open the reply cache in another way than as a local file, if the layer has one.

        Args:
            path: The file of this machine's replies.
            notice: Receives messages for the user, from any thread.
            restore: Yields replies that are recorded elsewhere, to refill a damaged cache.
        """
        return None

    def shared_rates(self, model_id: str) -> SharedRates | None:
        """Return this process's part of a model's rate limits, if machines share them."""
        return None

    def shared_budget(self, name: str, account: str, usd: float) -> SharedBudget | None:
        """Return the part of an account (of a run) in the budget with a name, if runs share it."""
        return None

    def later(
        self, where: str, section: ModelSection, limits: LimitsSection, backend: Backend
    ) -> LaterTerms | None:
        """Return the terms on which a model's calls are made later, or None if they are not.

        Args:
            where: Key of the model's section in the run file.
            section: The section.
            limits: The model's limits.
            backend: The model's backend.

        Raises:
            ConfigError: If the run file asks for it, but the backend's provider cannot do it.
        """
        return None

    def reserved(self, replies: ReplyCache, account: str) -> Mapping[str, float]:
        """Return what an account has reserved for calls made later (US dollars), by their keys."""
        return {}

    def above(self, calls: ModelCalls) -> LaterCalls | None:
        """Return a layer to put above a model's call stack, if any."""
        return None

    def facts(self) -> Mapping[str, str]:
        """Return what ``harness cache stats`` shows besides the file of this machine."""
        return {}

    def check(self) -> Iterator[CheckupFinding]:
        """Check the servers that the layer uses, for ``harness doctor``."""
        return iter(())

    def close(self) -> None:
        """Close connections."""


def call_layers(settings: Settings) -> list[CallLayer]:
    """Return the layers that plug-ins add with these settings.

    Raises:
        ConfigError: If a setting needs a plug-in that is not installed.
    """
    factories = [
        cast("Callable[[Settings], CallLayer | None]", member.load())
        for members in declared_members("call_layers").values()
        for member in members
    ]
    layers = [layer for factory in factories if (layer := factory(settings)) is not None]
    if settings.cache_url is not None and not any(layer.shares_calls for layer in layers):
        problem = "HARNESS_CACHE_URL is set, but no plug-in shares replies between machines."
        raise ConfigError(problem, "Install one (harness docs team), or unset the variable.")
    return layers
