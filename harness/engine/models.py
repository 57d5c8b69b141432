"""Builds the models of a run from the sections of its run file."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from msgspec import UNSET

from harness.backends import HttpBackend, OwnedServers, proxy_bypass
from harness.calls.budget import reply_cost
from harness.calls.keys import key_function
from harness.calls.prompt_cache import SharedPrefixes
from harness.calls.rate_limits import LIMIT_KEYS, RateLimits, Unit
from harness.config.prices import FREE, Price, load_prices
from harness.config.run_file import RunFile, Shard
from harness.config.sections import (
    VARIABLE_REFERENCE,
    EvaluatedModelSection,
    LimitsSection,
    ModelSection,
    SecondModelSection,
)
from harness.config.settings import Settings, is_variable_set, mask_url_keys, read_secret
from harness.datasets.folder import DataFolder
from harness.datasets.rows import read_rows
from harness.engine.infrastructure import DeferralTerms, call_layers, cluster
from harness.engine.turns import answer_lookup
from harness.errors import ConfigError, rename_model_keys
from harness.plugin_interface import option_parameters
from harness.plugin_loader import kind
from harness.ports import (
    SAMPLES_PER_CALL,
    Backend,
    Task,
)
from harness.records import (
    Allowance,
    Decoding,
    DecodingConstraint,
    Instance,
    Reply,
    Request,
    content_hash,
)
from harness.scoring.reasoning import Reasoning

# Decoding parameters that a judge, paraphraser or builder stage can do without.
OPTIONAL = ("temperature", "max_tokens")
# Workers per concurrent call: a worker that backs off or awaits an identical call needs no slot.
WORKERS_PER_SLOT = 4
MAX_WORKERS = 50_000  # a call that waits for a batch takes 3.3 KB, without its prompt


class Resources:
    """Servers (stopped on exit), rate limits, prices and secrets that runs share."""

    def __init__(self, settings: Settings, secret: Callable[[str], str] = read_secret) -> None:
        self.settings = settings
        self.secret = secret
        self.prices = load_prices(settings.prices)
        self.servers = OwnedServers()
        self.layers = call_layers(settings)
        self._rate_limits: dict[str, RateLimits] = {}

    @property
    def shares_calls(self) -> bool:
        """Whether other machines share the rate limits."""
        return any(layer.shares_calls for layer in self.layers)

    def rate_limits(
        self,
        backend: str,
        endpoint: str,
        model: str,
        shard: str = "",
        provider_keys: Sequence[str] = (),
    ) -> RateLimits:
        """Return the rate limits of a model, which repeated calls share.

        If machines share the limits, so do all processes with the same provider keys, of which only
        a hash is stored. Otherwise, a shard has its own part of the limits, and shares the whole
        limits with the machine's other runs.

        Args:
            backend: The backend's name.
            endpoint: The URL of its server.
            model: The model's name.
            shard: The run's shard, or "" for a whole run.
            provider_keys: The API keys that the model uses.
        """
        parent: RateLimits | None = None
        if not self.shares_calls:
            limits_id = content_hash((backend, endpoint, model, *([shard] if shard else [])))
            if shard:
                parent = self.rate_limits(backend, endpoint, model)
        else:  # servers at a loopback address are those of one machine
            host = platform.node() if proxy_bypass(endpoint) else ""
            limits_id = content_hash((backend, endpoint, model, host, *provider_keys))
        if limits_id not in self._rate_limits:
            self._rate_limits[limits_id] = self._new_rate_limits(limits_id, parent)
        return self._rate_limits[limits_id]

    def _new_rate_limits(self, limits_id: str, parent: RateLimits | None) -> RateLimits:
        for layer in self.layers:
            if (shared := layer.shared_rates(limits_id)) is not None:
                return RateLimits({}, shared_rates=shared)
        shared_path = self.settings.cache_dir / "rates" / limits_id
        return RateLimits({}, shared_path=shared_path, parent=parent)

    def __enter__(self) -> Self:
        self.servers.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.servers.__exit__(*error)
        for layer in self.layers:
            layer.close()


@dataclass(frozen=True, slots=True)
class Model:
    """A model with its backend, limits and price."""

    section: ModelSection
    backend: Backend
    limits: LimitsSection
    rates: RateLimits  # which other runs may share
    price: Price | None  # None: unknown
    where: str = "model"  # key of the section in the run file
    prefixes: SharedPrefixes = field(default_factory=SharedPrefixes)  # of its prompts
    reasoning: Reasoning = field(default_factory=Reasoning)  # the marks around it
    evaluated: bool = True  # whether it is the run's model, and not a judge or a stage of a build
    deferral: DeferralTerms | None = None  # None: calls are made at once
    whole_limits: LimitsSection | None = None  # the whole run's, if ``limits`` are a shard's part

    def cost(self, reply: Reply) -> float | None:
        """Return a reply's recorded cost, or else its cost at the current price."""
        recorded = reply.cost_usd
        return reply_cost(reply, self.price) if recorded is UNSET else recorded

    @property
    def caching(self) -> Literal["shared", "run", False]:
        """Which runs may use the model's cached replies, as set by its section or else its backend.

        - ``shared``: all runs.
        - ``run``: only the run that made the call. Its instances that share a prompt share a reply.
          This is the default for the user's own code, whose answers may depend on more than the
          harness knows, such as other files.
        - ``False``: only the attempt for which the call was made, when its run is resumed.
        """
        if self.section.cache is not None:
            return self.section.cache
        if self.backend.shares_replies is not None:
            return "shared" if self.backend.shares_replies else "run"
        return "run" if kind("backends").is_user_code(self.section.backend) else "shared"

    def key(self, run_id: str) -> Callable[..., str]:
        """Return the function that computes a request's cache key, the id of its call."""
        by_instance = "by_instance" in self.backend.features or self.caching is False
        return key_function(
            self.section.backend,
            self.backend,
            by_instance=by_instance,
            version=self.section.version,
            run_id=run_id if self.backend.cacheable and self.caching != "shared" else "",
            key_part=self._options_hash(),
        )

    def _options_hash(self) -> str:
        """Return a hash of the options of another package's backend, or "" if it has none.

        The options of the harness's own backends do not change the reply to a request, unless they
        define `Backend.key_part`.
        """
        options = self.section.options
        is_own = type(self.backend).__module__.partition(".")[0] == "harness"
        return content_hash(options) if options and not is_own else ""

    @property
    def tier(self) -> str | None:
        """The service tier that the run file asks for, or None for the standard one."""
        return self.section.options.get("service_tier")

    @property
    def usual_price(self) -> Price | None:
        """The price of calls in the model's tier or in batches, or None if it is unknown."""
        if self.price is None:
            return None
        return self.price.tier(self.tier) if self.deferral is None else self.price.batch

    @property
    def simulated(self) -> bool:
        """Whether the model's answers are simulated."""
        return "simulated" in self.backend.features

    @property
    def is_application(self) -> bool:
        """Whether the model is the application that is tested, so that its calls may crash."""
        return isinstance(self.section, EvaluatedModelSection) and self.section.on_error is not None

    @property
    def counts_crashes(self) -> bool:
        """Whether the model is the application that is tested, and its crashes are failures."""
        return isinstance(self.section, EvaluatedModelSection) and self.section.on_error == "fail"

    @property
    def host(self) -> str:
        """The host name of the model's endpoint, or "". Prices are found by host."""
        return urlsplit(self.backend.endpoint).hostname or ""

    def supported_decoding(self, decoding: Decoding, asker: str, remedy: str) -> Decoding:
        """Return ``decoding`` without unsupported `OPTIONAL` parameters.

        Args:
            decoding: Decoding parameters.
            asker: What uses the model, such as a judge, for messages.
            remedy: How to fix unsupported parameters, for messages.

        Raises:
            ConfigError: If other parameters are not supported.
        """
        features = self.backend.features
        needed = set(decoding.specified_fields()) - {*OPTIONAL, "constraint"}
        if isinstance(decoding.constraint, DecodingConstraint):
            needed.add(decoding.constraint.kind)
        if missing := sorted(needed - features):
            raise ConfigError(
                f"{asker} asks for {', '.join(missing)}, which the backend "
                f"{self.section.backend!r} of its model does not accept.",
                remedy,
            )
        dropped: dict[str, Any] = {name: None for name in OPTIONAL if name not in features}
        return replace(decoding, **dropped)

    def check(self, run: RunFile) -> None:
        """Raise ConfigError if the run file does not suit this model, which is the run's."""
        if self.backend.cacheable and not self.section.name:
            problem = f"The backend {self.section.backend!r} needs model.name."
            raise ConfigError(problem, "Name the model to call.")
        is_seeded = run.seed is not None and "seed" in self.backend.features
        if self.limits.samples_per_call > 1 and is_seeded:
            problem = "limits.samples_per_call is set, but each sample has a seed of its own."
            raise ConfigError(problem, "Set seed: null to draw samples together, without seeds.")
        has_budget = run.budget.usd is not None and self.price != FREE
        if has_budget and run.decoding.max_tokens is None:
            problem = "budget.usd is set, but the length of an answer is not limited."
            raise ConfigError(problem, "Set decoding.max_tokens.")


def worker_count(models: Collection[Model], items: int = 0) -> int:
    """Return how many workers keep the models busy.

    Args:
        models: The models.
        items: The number of items to work on. If calls are deferred, each item needs a worker.
    """
    slots = sum(model.limits.concurrency * model.limits.samples_per_call for model in models)
    workers = WORKERS_PER_SLOT * max(1, slots)
    if any(model.deferral for model in models):
        workers = max(workers, items)
    return min(workers, MAX_WORKERS)


@dataclass(frozen=True, slots=True)
class ModelBuilder:
    """A builder of the models of a run or of a data-set build."""

    resources: Resources
    limits: LimitsSection  # the run's; a second model's section may override them
    logs: Path  # folder for the output of servers that are started
    # Simulated models answer with the references and wrong answers of a task.
    task: Task[Any] | None = None
    instances: Iterable[Instance[Any]] = ()
    run_file_folder: Path | None = None
    shard: Shard | None = None  # whose part of the rate limits the models get

    def build(
        self,
        section: ModelSection,
        where: str = "model",
        reply: Callable[[Request], str] | None = None,
    ) -> Model:
        """Build a model from its section.

        Args:
            section: The section.
            where: Its key in the run file.
            reply: Returns a simulated model's reply to a request (default: from the task's
                instances).
        """
        resources = self.resources
        whole_limits = self._model_limits(section)
        limits = self._shard_limits(whole_limits)
        prefixes = SharedPrefixes()
        provider_keys: list[str] = []

        def record_secret(variable: str) -> str:
            provider_keys.append(resources.secret(variable))
            return provider_keys[-1]

        def observe_allowances(allowances: tuple[Allowance, ...]) -> None:
            rates.observe(allowances)

        with rename_model_keys(where):
            arguments = self._backend_arguments(section, where, limits)
            arguments["secret"] = record_secret
            arguments["reply"] = reply
            arguments["on_allowances"] = observe_allowances
            arguments["prompt_cut"] = prefixes
            backend = self._build_backend(section, limits, arguments)
            reasoning = Reasoning(section.reasoning)
            if section.headers:
                _add_headers(section.headers, section.backend, backend, record_secret)
        shard = str(self.shard or "")
        rates = resources.rate_limits(
            section.backend, backend.endpoint, section.name, shard, provider_keys
        )
        if backend.preferred_concurrency is not None and not _sets_concurrency(limits):
            limits = limits.model_copy(update={"concurrency": backend.preferred_concurrency})
        limits = _drop_joint_draws(section, limits, backend, where)
        deferrals = [
            layer.deferral_terms(where, section, limits, backend) for layer in resources.layers
        ]
        model = Model(
            section,
            backend,
            limits,
            rates,
            section.price,
            where,
            prefixes,
            reasoning,
            evaluated=where == "model" and self.task is not None,
            deferral=next(filter(None, deferrals), None),
            whole_limits=whole_limits,
        )
        return replace(model, price=self._price(model))

    def _price(self, model: Model) -> Price | None:
        """Return a model's price: its section's, or else the listed one (None: unknown)."""
        price = model.section.price
        is_free = price is None and "free" in model.backend.features
        if is_free or not model.backend.cacheable:
            return FREE
        if price is not None:
            return price
        return self.resources.prices.find(model.host, model.section.name)

    def _backend_arguments(
        self, section: ModelSection, where: str, limits: LimitsSection
    ) -> dict[str, Any]:
        """Return the arguments that a backend may take in addition to its options, by name."""
        task = self.task
        return {
            "read": lambda name: (row for _, row in read_rows(self._data.file(name))),
            "gold": answer_lookup(task, self.instances, task.reference if task else None),
            "wrong": answer_lookup(task, self.instances, task.wrong_answer if task else None),
            "concurrency": limits.concurrency,
            "timeout_s": limits.timeout_s,
            "reply_mb": limits.reply_mb,
            "model": section.name,
            "servers": self.resources.servers,
            "logs": self.logs / where.removesuffix(".model"),
            "cache_dir": self.resources.settings.cache_dir,
        }

    def _build_backend(
        self, section: ModelSection, limits: LimitsSection, arguments: dict[str, Any]
    ) -> Backend:
        """Build the backend of a model, with copies on a cluster if it is placed there."""
        names = option_parameters(kind("backends").load(section.backend))
        options = section.plugin_options(names)
        path = section.options.get("path")
        if path and isinstance(path, str):
            options = {**options, "path": self._data.next_to_run_file(path)}
        placement = section.placement
        if placement is None:
            backend: Backend = kind("backends").build(section.backend, options, **arguments)
            return backend
        if _sets_concurrency(limits):  # each copy takes its share
            arguments["concurrency"] = -(-limits.concurrency // placement.replicas)
        engine = cluster(placement.engine)
        return engine.place(section.backend, options, placement, arguments)

    @property
    def _data(self) -> DataFolder:
        return DataFolder(self.resources.settings.data_dir, self.run_file_folder)

    def _model_limits(self, section: ModelSection) -> LimitsSection:
        """Return a model's limits.

        A second model has the run's limits, except for rate limits and limits that it sets itself.
        """
        limits = self.limits
        if isinstance(section, SecondModelSection):
            changes: dict[str, Any] = dict.fromkeys(LIMIT_KEYS.values(), None)
            if section.limits is not None:
                for name in section.limits.model_fields_set:
                    changes[name] = getattr(section.limits, name)
            limits = limits.model_copy(update=changes)
        return limits

    def _shard_limits(self, limits: LimitsSection) -> LimitsSection:
        """Return the shard's part of rate limits, or the whole limits if machines share them."""
        if self.shard is None or self.resources.shares_calls:
            return limits
        shares: dict[str, int] = {}
        for key in LIMIT_KEYS.values():
            limit = getattr(limits, key)
            if limit and limit < self.shard.n_shards:
                problem = (
                    f"limits.{key} is {limit:,}, which {self.shard.n_shards:,} shards cannot share."
                )
                raise ConfigError(problem, "Raise it, or use fewer shards.")
            if limit:
                shares[key] = self.shard.share_of(limit)
        return limits.model_copy(update=shares)


def _sets_concurrency(limits: LimitsSection) -> bool:
    return "concurrency" in limits.model_fields_set


def _add_headers(
    headers: Mapping[str, str], name: str, backend: Backend, read_secret: Callable[[str], str]
) -> None:
    """Make a backend send headers, with the variables in their values replaced."""
    if not isinstance(backend, HttpBackend):
        problem = f"The backend {name!r} sends no headers of a run file (model.headers)."
        raise ConfigError(problem, "Remove them, or use a backend for HTTP, such as openai.")
    secrets: dict[str, str] = {}
    expanded: dict[str, str] = {}
    for key, text in headers.items():
        for variable in VARIABLE_REFERENCE.findall(text):
            if variable not in secrets:
                secrets[variable] = read_secret(variable)
        expanded[key] = VARIABLE_REFERENCE.sub(lambda match: secrets[match[1]], text)
    backend.client.add_headers(expanded, secrets.values())


def _drop_joint_draws(
    section: ModelSection, limits: LimitsSection, backend: Backend, where: str
) -> LimitsSection:
    """Set ``samples_per_call`` to 1 if it is not supported. Raise if it is set for this model."""
    has_joint_draws = SAMPLES_PER_CALL in backend.features
    if limits.samples_per_call == 1 or (has_joint_draws and section.cache is not False):
        return limits
    model_limits = section.limits if isinstance(section, SecondModelSection) else limits
    if model_limits is None or model_limits.samples_per_call == 1:
        return limits.model_copy(update={"samples_per_call": 1})
    if has_joint_draws:
        problem = (
            f"{where}: cache: false makes a call for each attempt, and limits.samples_per_call "
            "draws several with one call."
        )
        raise ConfigError(problem, "Remove one of them.")
    raise ConfigError(
        f"{where}: the backend {section.backend!r} draws one sample per call, or its provider is "
        "not known to draw more (limits.samples_per_call).",
        "'harness docs providers' lists those that do. Remove limits.samples_per_call.",
    )


def build_models(run: RunFile, builder: ModelBuilder) -> None:
    """Build a run's models, so that errors such as a missing API key occur before data is read."""
    builder.build(run.model)
    if run.polish:
        builder.build(run.polish, "polish")
    if run.user:
        builder.build(run.user.model, "user.model")
    for judge in run.judges:
        builder.build(judge.model, f"judges.{judge.as_}.model")


def ignored_url_warnings(models: Iterable[Model]) -> Iterator[str]:
    """Yield a warning for each model that ignores an environment variable with a URL."""
    for model in models:
        variable = model.backend.url_variable
        options = model.section.options
        has_default_url = model.host == "api.anthropic.com" or not options.get("base_url")
        if has_default_url and is_variable_set(variable) and not options.get("preset"):
            remedy = f"set {model.where}.base_url."
            if model.where == "model":
                remedy = f"-o model.base_url=${variable}"
            problem = f"{variable} is not used: {model.section.name} is called at"
            yield f"{problem} {mask_url_keys(model.backend.endpoint)}. To use it: {remedy}"


def apply_limits(models: Sequence[Model]) -> None:
    """Apply the run file's rate limits: to models that share their limits, the lowest."""
    for model in models:
        sharers = [sharer for sharer in models if sharer.rates is model.rates]
        model.rates.set_limits(_lowest_limits(sharer.limits for sharer in sharers))
        if model.rates.parent is not None:
            whole_limits = (sharer.whole_limits or sharer.limits for sharer in sharers)
            model.rates.parent.set_limits(_lowest_limits(whole_limits))


def _lowest_limits(sections: Iterable[LimitsSection]) -> dict[Unit, int]:
    lowest: dict[Unit, int] = {}
    for section in sections:
        for unit, key in LIMIT_KEYS.items():
            limit = getattr(section, key)
            if limit is not None:
                lowest[unit] = min(limit, lowest.get(unit, limit))
    return lowest


def check_prices(models: Iterable[Model], resources: Resources) -> None:
    """Raise ConfigError if a model's price is unknown: a budget needs it."""
    for model in models:
        if model.price is None:
            raise ConfigError(
                f"budget.usd is set, but the price of {model.section.name!r}"
                f" at {model.backend.endpoint} is not known. "
                + resources.prices.nearest(model.host, model.section.name),
                f"State it in the run file ({model.where}.price: {{input: …, output: …}}, US "
                "dollars per million tokens) or in the file that HARNESS_PRICES names.",
            )
        if (tier := model.tier) and model.price != FREE and model.price.tier(tier) is None:
            raise ConfigError(
                f"budget.usd is set, but the price of {model.section.name!r} in the service tier "
                f"{tier!r} is not known.",
                f"Set it in the run file: {model.where}.price.tiers.{tier} (harness docs prices).",
            )
