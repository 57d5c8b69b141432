"""From the sections of a run file to its parts: task, backends, their options and prices."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel

from harness.backends._model_files import Hashes
from harness.backends._processes import OwnedServers
from harness.calls.rate_limits import RateLimits, Unit
from harness.config.judges import JudgeSection
from harness.config.prices import Price, Prices
from harness.config.run_file import RunFile
from harness.config.sections import LimitsSection, ModelSection, SecondModelSection, TaskSection
from harness.config.settings import Settings, secret
from harness.datasets.folder import DataFolder, read_jsonl
from harness.errors import ConfigError
from harness.plugins import kind
from harness.ports import Backend, Fallible, PreferredConcurrency, Task, decides_by_criteria
from harness.records import Allowance, Call, Instance, Request

FREE = Price(input=0, output=0)

STATED: Mapping[Unit, str] = {
    "requests": "rpm",
    "tokens": "tpm",
    "input_tokens": "input_tpm",
    "output_tokens": "output_tpm",
}
"""What is limited -> its key in the run file's ``limits``."""

S = TypeVar("S", bound=ModelSection)


def owned_servers(settings: Settings) -> OwnedServers:
    """Where the servers are kept that models of this process start.

    Raises: ConfigError where the setting for starting them is no command.
    """
    try:
        command = shlex.split(settings.vllm_command)
    except ValueError as error:
        raise ConfigError(
            f"HARNESS_VLLM_COMMAND is no command: {error}.", "Write it as in a shell."
        ) from None
    return OwnedServers(command)


def build_task(
    run: RunFile,
    settings: Settings,
    changes: Mapping[str, Any] | None = None,
    later: Sequence[JudgeSection] = (),
    *,
    judged: bool = True,
) -> Task[Any]:
    """The task of a run file.

    changes: options that take the place of its own.
    later: judges that the run has beside those of its file.
    judged: False where no judge is put before it, so that it need not have what judges want.

    Raises: ConfigError; DataMissing.
    """
    options = {**run.task.options, **(changes or {})}
    judges = {
        judge.as_: decides_by_criteria(kind("judges").load(judge.name))
        for judge in (*run.judges, *later)
    }
    task: Task[Any] = kind("tasks").build(
        run.task.name,
        options,
        data=DataFolder(settings.data_dir),
        judges=judges if judged else None,
        panels={panel.as_: panel.of for panel in run.panels},
    )
    return task


@dataclass(frozen=True, slots=True)
class Model:
    """A model of a run.

    limits: its own, or the run's.
    rates: of its provider, URL and name; other runs of this process share them.
    price: None where it is not known.
    where: the key of its section in the run file.
    """

    section: ModelSection
    backend: Backend
    limits: LimitsSection
    rates: RateLimits
    price: Price | None
    where: str = "model"

    def cost(self, call: Call) -> float | None:
        """What a call has cost in US dollars; None where that is not known."""
        if self.price is None or (call.reply.usage is None and self.price != FREE):
            return None
        return self.price.cost(call.reply.usage) if call.reply.usage else 0.0


class Rates:
    """The rate limits of this process, by backend, URL and model."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], RateLimits] = {}

    def of(self, backend: str, endpoint: str, model: str) -> RateLimits:
        """Those of one model."""
        return self._known.setdefault((backend, endpoint, model), RateLimits({}))


def state_limits(models: Sequence[Model]) -> None:
    """Put the figures that the user states for some models in force.

    Models that share their limits share the lower figure of each.
    """
    for model in models:
        stated: dict[Unit, int] = {}
        for other in models:
            if other.rates is model.rates:
                for unit, key in STATED.items():
                    limit = getattr(other.limits, key)
                    if limit is not None:
                        stated[unit] = min(limit, stated.get(unit, limit))
        model.rates.state(stated)


def build_model(
    section: ModelSection,
    run: RunFile,
    task: Task[Any],
    settings: Settings,
    *,
    prices: Prices,
    rates: Rates,
    secret: Callable[[str], str] = secret,
    servers: OwnedServers,
    logs: Path,
    where: str = "model",
    reply: Callable[[Request], str] | None = None,
) -> Model:
    """A model that a run file names.

    servers: where the servers are kept that it may start. logs: folder of their output.
    where: the key of its section. reply: of a judge's, what a simulated one replies.

    Raises: ConfigError; SecretMissing; DataMissing.
    """
    data = DataFolder(settings.data_dir)
    limits = _limits(section, run)
    told: list[RateLimits] = []  # by whom the provider's headers are heard, once it is known

    def on_allowances(allowances: tuple[Allowance, ...]) -> None:
        for listener in told:
            listener.observe(allowances)

    backend: Backend = kind("backends").build(
        section.backend,
        section.options,
        secret=secret,
        read=lambda name: read_jsonl(data.file(name)),
        gold=_Answers(task, task.reference),
        wrong=_Answers(task, task.wrong_answer if isinstance(task, Fallible) else lambda _: None),
        reply=reply,
        concurrency=limits.concurrency,
        timeout_s=limits.timeout_s,
        model=section.name,
        on_allowances=on_allowances,
        servers=servers,
        logs=logs / where.removesuffix(".model"),
        hashes=Hashes(settings.cache_dir / "model_files.json"),
    )
    told.append(rates.of(section.backend, backend.endpoint, section.name))
    limits = _deep(limits, backend)
    return Model(section, backend, limits, told[0], _price(section, backend, prices), where)


def _limits(section: ModelSection, run: RunFile) -> LimitsSection:
    if not isinstance(section, SecondModelSection):
        return run.limits
    if section.limits is not None:
        return section.limits
    return run.limits.model_copy(
        update={"rpm": None, "tpm": None, "input_tpm": None, "output_tpm": None}
    )


def _deep(limits: LimitsSection, backend: Backend) -> LimitsSection:
    """The limits, as deep as the backend wants where the user states no concurrency."""
    if not isinstance(backend, PreferredConcurrency) or "concurrency" in limits.model_fields_set:
        return limits
    return limits.model_copy(update={"concurrency": backend.preferred_concurrency})


def _price(section: ModelSection, backend: Backend, prices: Prices) -> Price | None:
    if not backend.cacheable:
        return FREE
    if section.price is not None:
        return section.price
    if "free" in backend.features:
        return FREE
    return prices.find(_host(backend), section.name)


def _host(backend: Backend) -> str:
    return urlsplit(backend.endpoint).hostname or ""


class _Answers:
    """Answers by instance id; the task is read when the first is asked for."""

    def __init__(self, task: Task[Any], of: Callable[[Instance[Any]], str | None]) -> None:
        self._task, self._of = task, of
        self._found: dict[str, str | None] | None = None

    def __call__(self, instance: str) -> str | None:
        if self._found is None:
            self._found = {item.id: self._of(item) for item in self._task.instances()}
        return self._found.get(instance)


def refuse_unpriced(models: Sequence[Model], prices: Prices) -> None:
    """Refuse a budget that cannot be kept, since a price is not known.

    Raises: ConfigError.
    """
    for model in models:
        if model.price is None:
            raise ConfigError(
                f"budget.usd is set, but the price of {model.section.name!r}"
                f" at {model.backend.endpoint} is not known. "
                + prices.nearest(_host(model.backend), model.section.name),
                f"State it in the run file ({model.where}.price: {{input: …, output: …}}, US "
                "dollars per million tokens) or in the file that HARNESS_PRICES names.",
            )


def refuse_unbounded(run: RunFile, model: Model) -> None:
    """Refuse a budget that cannot be kept, since an answer may have any length.

    Raises: ConfigError.
    """
    if model.price != FREE and run.decoding.max_tokens is None:
        raise ConfigError(
            "budget.usd is set, but nothing says how long an answer may be.",
            "Set decoding.max_tokens.",
        )


def resolved(run: RunFile) -> RunFile:
    """The run file with the defaults of its plug-ins' options filled in."""
    task = _options("tasks", run.task.name, run.task.options)
    shots = run.task.shots
    if shots.source:
        given = _options("tasks", run.task.name, {**run.task.options, **shots.source})
        shots = shots.model_copy(update={"source": {key: given[key] for key in shots.source}})
    return run.model_copy(
        update={
            "task": TaskSection(name=run.task.name, shots=shots, **task),
            "model": _resolved(run.model),
            "polish": _resolved(run.polish) if run.polish else None,
            "judges": tuple(map(resolved_judge, run.judges)),
        }
    )


def resolved_judge(section: JudgeSection) -> JudgeSection:
    """A judge's section with the defaults of its plug-ins' options filled in."""
    options = _options("judges", section.name, section.options)
    named = {"name": section.name, "as": section.as_, "model": _resolved(section.model)}
    return JudgeSection.model_validate({**options, **named})


def _resolved(section: S) -> S:
    named = {field: getattr(section, field) for field in type(section).model_fields}
    return type(section)(**named, **_options("backends", section.backend, section.options))


def _options(kind_name: str, name: str, options: dict[str, Any]) -> dict[str, Any]:
    checked: BaseModel = kind(kind_name).options(name, options)
    return checked.model_dump(mode="json")
