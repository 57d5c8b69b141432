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


class DeferralTerms(NamedTuple):
    """The terms on which a model's calls are deferred, for the provider's price of batches."""

    hours: int  # within which the provider makes a call
    detaches: bool  # whether a run ends once all its calls are with the provider


class DeferredCalls(ABC):
    """A layer above a model's limits that defers calls, such as to a provider's batches."""

    @abstractmethod
    async def __call__(self, request: Request) -> Reply:
        """Return the reply to a request, which the layer may make itself or send on."""

    @property
    @abstractmethod
    def load(self) -> Load:
        """Counts of the calls that the layer makes itself."""

    @property
    @abstractmethod
    def has_waiting(self) -> bool:
        """Whether any deferred call has no reply yet."""

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """Whether the layer has nothing to do except wait for the provider."""

    @abstractmethod
    def start(self) -> None:
        """Start to work on calls that earlier sessions deferred."""

    @abstractmethod
    async def aclose(self) -> None:
        """Finish the current step, and release the calls that other processes may continue."""


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
        claim: The claim layer among them, with the cache and the function that computes keys.
        stop: Stops the run.
        status: Returns a function that reports the status of a layer, given its name.
        busy: Returns whether the session has calls in flight or waiting that are not deferred.
        leave: Ends the session if all deferred calls are with their providers.
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
    """Base class for changes that a plug-in makes to call stacks. By default, nothing changes.

    A plug-in declares as one of its ``call_layers`` a function that takes the settings and returns
    an instance, or None if the settings do not ask for it. The function is called at the start of
    each command that makes calls, so its module should import little.
    """

    shares_calls = False
    """Whether machines share replies and limits. Shards then need no parts of the limits."""

    def open_cache(self, path: Path, notice: Report, restore: Restore) -> ReplyCache | None:
        """Open the layer's own reply cache, or return None to use a local file.

        Args:
            path: The file of this machine's replies.
            notice: Receives messages for the user, from any thread.
            restore: Yields replies that are recorded elsewhere, to refill a damaged cache.
        """
        return None

    def shared_rates(self, model_id: str) -> SharedRates | None:
        """Return this process's share of a model's rate limits, or None if machines share none."""
        return None

    def shared_budget(self, name: str, account: str, usd: float) -> SharedBudget | None:
        """Return a run's share of a budget that several runs share, or None if they share none.

        Args:
            name: The budget's name.
            account: The account of the run.
            usd: The whole budget in US dollars.
        """
        return None

    def deferral_terms(
        self, where: str, section: ModelSection, limits: LimitsSection, backend: Backend
    ) -> DeferralTerms | None:
        """Return the terms on which a model's calls are deferred, or None if they are not.

        Args:
            where: Key of the model's section in the run file.
            section: The section.
            limits: The model's limits.
            backend: The model's backend.

        Raises:
            ConfigError: If the run file defers calls, but the backend's provider cannot.
        """
        return None

    def reserved_usd(self, replies: ReplyCache, account: str) -> Mapping[str, float]:
        """Return the US dollars that an account has reserved for each deferred call, by its key."""
        return {}

    def deferring_layer(self, calls: ModelCalls) -> DeferredCalls | None:
        """Return the layer that defers a model's calls, or None if none are or were deferred."""
        return None

    def facts(self) -> Mapping[str, str]:
        """Return facts about a shared cache for ``harness cache stats``, by label."""
        return {}

    def check(self) -> Iterator[CheckupFinding]:
        """Yield findings about the servers that the layer uses, for ``harness doctor``.

        By default, there are none.
        """
        return iter(())

    def close(self) -> None:
        """Close connections."""


def call_layers(settings: Settings) -> list[CallLayer]:
    """Build the call layers of all installed plug-ins.

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
    """The functions of a cluster. A plug-in declares such an object as one of its ``clusters``.

    Run files name it as ``model.placement.engine``.

    Attributes:
        place: Builds a backend that passes calls to copies of another backend on the cluster,
            given that backend's name and options, the section ``placement``, and the arguments
            that the harness supplies to backends.
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
    """Base class of a store for copies of runs, such as an object store.

    A plug-in declares as one of its ``run_copies`` a function that takes the settings and returns
    an instance.
    """

    @abstractmethod
    def set_aside(self, name: str) -> None:
        """Rename the copy of a run, if any, so that a new run can have its name."""

    @abstractmethod
    def pull(self, folder: RunFolder) -> str:
        """Update a run's folder from its copy.

        If both have changed, the folder is kept under a dated name.

        Returns:
            A message for the user, or "" if nothing changed.
        """

    @abstractmethod
    def upload_session(
        self, folder: RunFolder, replies: ReplyCache | None, report: Report
    ) -> AbstractAsyncContextManager[None]:
        """Hold the lease of a run in an ``async with`` block, and upload the run as it grows.

        Args:
            folder: The run's folder.
            replies: The cache of paid replies, or None if the run pays for none.
            report: Receives problems with the upload.
        """


def run_copies(settings: Settings) -> RunCopies | None:
    """Return the store for copies of runs, or None if the settings name none.

    Raises:
        ConfigError: If no plug-in supports it, or a setting that it needs is missing.
    """
    if not settings.runs_url:
        return None
    for members in declared_members("run_copies").values():
        return cast("RunCopies", members[0].load()(settings))
    problem = "HARNESS_RUNS_URL is set, but no plug-in copies runs."
    raise ConfigError(problem, "Install one, or unset the variable.")


def set_copies_aside(settings: Settings, base: str, variants: Iterable[str]) -> None:
    """Rename the copies of a run file's runs, so that new runs can have their names.

    Args:
        settings: The settings.
        base: The base of the runs' names.
        variants: The runs' variants.
    """
    if (copies := run_copies(settings)) is not None:
        for variant in variants:
            copies.set_aside(run_name(base, variant))
