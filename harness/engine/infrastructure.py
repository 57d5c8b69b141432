"""Infrastructure that plug-ins bring: call layers, clusters of machines, copies of runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from harness.calls.budget import Budget, SharedBudget
from harness.calls.calls import ClaimedCalls
from harness.calls.database import Restore
from harness.calls.rate_limits import SharedRates
from harness.calls.reply_cache import ReplyCache
from harness.calls.signals import Ask, Load, Report, Stop
from harness.config.prices import Price
from harness.config.sections import LimitsSection, ModelSection, PlacementSection
from harness.config.settings import Settings
from harness.declarations import declared_members
from harness.errors import ConfigError, suggest_name
from harness.plugin import CheckupFinding
from harness.ports import Backend
from harness.records import Reply, Request
from harness.store.run_folder import RunFolder
from harness.store.runs import run_name


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
    layers: list[CallLayer] = []
    for members in declared_members("call_layers").values():
        for member in members:
            build = cast("Callable[[Settings], CallLayer | None]", member.load())
            layer = build(settings)
            if layer is not None:
                layers.append(layer)
    if settings.cache_url is not None and not any(layer.shares_calls for layer in layers):
        problem = "HARNESS_CACHE_URL is set, but no plug-in shares replies between machines."
        raise ConfigError(problem, "Install one (harness docs team), or unset the variable.")
    return layers


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What a cluster can do. A plug-in declares such an object as one of its ``clusters``.

    Run files name it as ``model.placement.engine``.

    Attributes:
        place: Builds a backend whose calls are made by copies of another one, from that one's
            name and options, the section ``placement``, and what the harness supplies to backends.
        check: Checks the machines, and whether the placed models, by name, fit on them.
    """

    place: Callable[[str, Mapping[str, Any], PlacementSection, Mapping[str, Any]], Backend]
    check: Callable[[Mapping[str, PlacementSection]], Iterator[CheckupFinding]]


def cluster(name: str) -> Cluster:
    """Return a cluster by its name.

    Raises:
        ConfigError: If no plug-in declares it.
    """
    clusters = declared_members("clusters")
    if name not in clusters:
        raise ConfigError(f"There is no cluster named {name!r}.", suggest_name(name, clusters))
    return cast("Cluster", clusters[name][0].load())


class RunCopies(ABC):
    """The base class of a place for copies of runs.

    A plug-in declares as one of its ``run_copies`` a function that takes the settings and returns
    an instance.
    """

    @abstractmethod
    def set_aside(self, name: str) -> None:
        """Rename the copy of a run, if any, so that a new run can have its name."""

    @abstractmethod
    def pull(self, folder: RunFolder) -> str:
        """Bring a run's folder up to date. Return a message for the user, or "" if nothing changed.

        If both the folder and its copy have changed, the folder is kept under a dated name.
        """

    @abstractmethod
    def uploaded(
        self, folder: RunFolder, replies: ReplyCache | None, report: Report
    ) -> AbstractAsyncContextManager[None]:
        """Hold the lease of a run in an ``async with`` block, and upload the run as it grows.

        Args:
            folder: The run's folder.
            replies: The cache of paid replies, or None if the run pays for none.
            report: Receives what prevents the upload.
        """


def run_copies(settings: Settings) -> RunCopies | None:
    """Return the place that the settings name for copies of runs, if any.

    Raises:
        ConfigError: If no plug-in can use it, or the settings do not suffice.
    """
    if not settings.runs_url:
        return None
    for members in declared_members("run_copies").values():
        return cast("RunCopies", members[0].load()(settings))
    problem = "HARNESS_RUNS_URL is set, but no plug-in copies runs."
    raise ConfigError(problem, "Install one, or unset the variable.")


def set_copies_aside(settings: Settings, base: str, variants: Iterable[str]) -> None:
    """Rename the copies of a run file's runs, so that new runs can have their names."""
    if (copies := run_copies(settings)) is not None:
        for variant in variants:
            copies.set_aside(run_name(base, variant))
