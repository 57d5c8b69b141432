"""The sections of configuration files. None of them may contain a secret.

Unknown keys are errors, except in the sections of plug-ins, which validate their own options.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from harness.config.prices import Price
from harness.config.settings import hash_url_keys
from harness.config.validation import Declared, ReasoningMarks, Section, safe_key
from harness.errors import ConfigError, suggest_name
from harness.plugin_loader import PYTHON_SUFFIX, kind
from harness.ports import Backend, Task

SECRET_KEYS = frozenset(
    {"api_key", "apikey", "api_token", "access_token", "auth_token", "token", "bearer"}
    | {"authorization", "password", "secret", "secret_key"}
)
"""Names of keys whose value would be a secret. A run file must not set them."""


SECRET_WORDS = frozenset(
    {"auth", "authorization", "key", "apikey", "token", "secret", "password", "cookie"}
)
"""Words in the name of a header whose value would be a secret."""
BACKEND_HEADERS = frozenset(
    {"authorization", "x-api-key", "x-goog-api-key", "anthropic-version"}
    | {"host", "content-type", "content-length", "transfer-encoding", "connection"}
)
"""Headers that backends set themselves, in lower case."""
VARIABLE_REFERENCE = re.compile(r"\$([A-Z_][A-Z0-9_]*)")  # in ``headers``: $NAME


def nested_keys(tree: object) -> Iterator[str]:
    """Yield every key of nested mappings and lists as a string."""
    if isinstance(tree, dict):
        for key, below in tree.items():
            yield str(key)
            yield from nested_keys(below)
    elif isinstance(tree, list):
        for below in tree:
            yield from nested_keys(below)


def is_secret_key(key: str) -> bool:
    """Return whether the value of a key is likely a secret, judging by the key."""
    name = key.lower().replace("-", "_")
    return name in SECRET_KEYS or name.endswith(("_api_key", "_secret", "_password"))


def has_user_name(url: str) -> bool:
    """Return whether a URL contains a user name."""
    return "@" in re.split(r"[/?#]", url.split("//", 1)[-1], maxsplit=1)[0]


MAX_COUNT = 2**31 - 1
MAX_ROUNDS = 1_000
Count = Annotated[int, Field(strict=True, ge=1, le=MAX_COUNT)]
"""An integer of at least 1. ``true`` and ``2.0`` are refused as likely mistakes."""
Seed = Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]


class PluginSection(BaseModel):
    """A section of a plug-in. Keys that are not fields of this class are the plug-in's options."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @property
    def options(self) -> dict[str, Any]:
        """The options of the plug-in, by name."""
        return dict(self.model_extra or {})

    @model_validator(mode="after")
    def _check_no_secret(self) -> PluginSection:
        remedy = "put it into an environment variable, and name that in model.api_key_env"
        for key, value in self.options.items():
            if ":" in key:
                raise ValueError(f"a space is missing after the colon of {safe_key(key)!r}")
            if value and is_secret_key(key):
                raise ValueError(f"{key!r} would contain a secret: {remedy}")
            if key.lower().endswith("url") and isinstance(value, str) and has_user_name(value):
                raise ValueError(f"{key!r} contains a user name or password: {remedy}")
        return self


class ShotsSection(Section):
    """Section ``task.shots``: number, selection and form of the few-shot examples."""

    n: int = Field(ge=0, le=10_000, strict=True)  # number of shots
    select: Literal["first", "random", "ids", "errors"] = "first"  # how shots are chosen
    within: tuple[str, ...] = ()  # labels whose groups a shot must share with the instance
    across: str | None = None  # label whose groups take turns in supplying shots
    allow_fewer: bool = Field(default=False, strict=True)  # accept instances with too few shots
    ids: tuple[str, ...] = ()  # the instances to choose from, for ``select: ids``
    run: str | None = None  # the earlier run, for ``select: errors``
    order: Literal["selected", "reversed", "random"] = "selected"  # of the chosen shots
    form: Literal["turns", "message", "task"] = "turns"  # how shots appear in the prompt
    source: dict[str, Any] = Field(default_factory=dict)  # task options of the shots' data
    seed: Seed = 0  # of all random choices

    @model_validator(mode="before")
    @classmethod
    def _convert_number(cls, section: Any) -> Any:
        if type(section) is int:
            return {"n": section}
        if not isinstance(section, dict | ShotsSection):
            raise ValueError("must be a whole number, or a section with n and other keys")
        return section

    @model_validator(mode="after")
    def _check_combination(self) -> ShotsSection:
        repeated = next((name for name in self.ids if self.ids.count(name) > 1), None)
        if repeated is not None:
            raise ValueError(f"ids contains {repeated!r} twice")
        if (self.select == "ids") != bool(self.ids):
            raise ValueError("ids and 'select: ids' need each other: set both or neither")
        if (self.select == "errors") != bool(self.run):
            raise ValueError("run and 'select: errors' need each other: set both or neither")
        if self.select == "ids" and len(self.ids) < self.n:
            raise ValueError(f"n is {self.n}, but ids names {len(self.ids)}")
        if self.select == "ids" and self.across is not None:
            raise ValueError("'select: ids' already gives the order: remove across")
        if self.across in self.within:
            raise ValueError(f"within makes all shots share {self.across!r}: remove across")
        if self.select == "errors" and self.source:
            raise ValueError("'select: errors' takes the shots from the run's data: remove source")
        if any(map(is_secret_key, nested_keys(self.source))):
            raise ValueError("source would contain a secret: put it into an environment variable")
        return self

    def check_backend(self, name: str, backend: Backend) -> None:
        """Raise ConfigError if the backend of this name cannot answer prompts with these shots."""
        if not self.n:
            return
        matches_text = self.form == "message" and "by_instance" not in backend.features
        if "recorded" in backend.features and not matches_text:
            raise ConfigError(
                f"The backend {name!r} may replay zero-shot answers as few-shot answers.",
                "Remove task.shots; or record few-shot answers, and replay them with "
                "task.shots.form: message and model.match: prompt.",
            )
        if "conversation" not in backend.features and self.form == "turns":
            problem = f"The backend {name!r} accepts a single prompt, not shots as turns."
            raise ConfigError(problem, "Set task.shots.form to message.")

    @model_serializer(mode="wrap")
    def _serialize_zero_as_number(self, write: SerializerFunctionWrapHandler) -> Any:
        return write(self) if self.n else 0  # as in files older than the other keys


class TaskSection(PluginSection):
    """Section ``task``: the benchmark, its options, and the few-shot examples."""

    model_config = ConfigDict(extra="allow", frozen=True, serialize_by_alias=True)

    name: str  # a built-in task or a plug-in
    as_: Annotated[str, Field(alias="as", pattern=r"^[\w.-]*$")] = ""  # name of its data in tables
    shots: ShotsSection = ShotsSection(n=0)  # few-shot examples: a number, or a section

    @model_serializer(mode="wrap")
    def _serialize_without_empty_name(self, write: SerializerFunctionWrapHandler) -> Any:
        tree = write(self)
        if not self.as_:
            del tree["as"]
        return tree

    @property
    def label(self) -> str:
        """The benchmark in metrics and tables: ``NAME`` or ``NAME:AS``."""
        return f"{self.name}:{self.as_}" if self.as_ else self.name

    def with_options(self, options: Mapping[str, Any], **fields: Any) -> TaskSection:
        """Return a copy with ``options`` instead of its options, and with changed fields."""
        unchanged = {"name": self.name, "as": self.as_, "shots": self.shots}
        return TaskSection(**{**options, **unchanged, **fields})


class PlacementSection(Section):
    """Section ``model.placement``: copies of a model that work on the machines of a cluster."""

    engine: str  # the cluster that starts the copies, which a plug-in declares
    replicas: Annotated[Count, Field(le=10_000)] = 1  # copies
    gpus: float = Field(default=0, ge=0, allow_inf_nan=False)  # of each copy
    cpus: float = Field(default=1, ge=0, allow_inf_nan=False)  # of each copy
    memory_gb: float | None = Field(default=None, gt=0, allow_inf_nan=False)  # of each copy
    resources: dict[str, float] = Field(default_factory=dict)  # custom ones, of each copy
    bundles: Annotated[Count, Field(le=10_000)] = 1  # times gpus and cpus, over several machines
    address: str | None = None  # of the cluster; None: the engine's default
    env: tuple[str, ...] = ()  # environment variables that the copies get
    hang_s: float = Field(default=300, gt=0)  # silence after which a copy is replaced


class ModelSection(PluginSection):
    """Section ``model``: a backend, its options, the model's name, price and placement."""

    backend: str  # a built-in backend or a plug-in
    name: str = ""  # the model, as the provider names it (default for your own backend: its name)
    price: Price | None = None  # US dollars per million tokens; None: as listed
    placement: PlacementSection | None = None  # copies on a cluster; None: in this process
    headers: dict[str, str] | None = None  # of each request; $NAME is an environment variable
    reasoning: ReasoningMarks = None  # marks around its reasoning; null: all known
    cache: Literal["shared", "run", False] | None = None  # runs that may use its cached replies
    version: Annotated[str, Field(min_length=1)] | None = None  # yours; a new one is asked again

    @model_validator(mode="before")
    @classmethod
    def _fill_name(cls, tree: Any) -> Any:
        backend = tree.get("backend") if isinstance(tree, dict) else None
        if not isinstance(backend, str) or tree.get("name"):
            return tree
        is_own_code = backend.endswith(PYTHON_SUFFIX) or backend in kind("backends").registered()
        return {**tree, "name": Path(backend).stem} if is_own_code else tree

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, str] | None) -> dict[str, str] | None:
        for name, value in (headers or {}).items():
            if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name):
                raise ValueError(f"{safe_key(name)!r:.60} is not the name of a header")
            if name.lower() in BACKEND_HEADERS:
                raise ValueError(f"the backend sets {name!r}; for a key, name api_key_env")
            if not (value.isascii() and value.isprintable()):
                raise ValueError(f"{name!r} contains a line break, or is not ASCII")
            if "$" in VARIABLE_REFERENCE.sub("", value):
                raise ValueError(f"{name!r} has a $ without a variable's name in capitals")
            if SECRET_WORDS & {*re.split("[-_]", name.lower())} and not VARIABLE_REFERENCE.search(
                value
            ):
                remedy = f"put it into an environment variable, and write {name}: $VARIABLE"
                raise ValueError(f"{name!r} would contain a secret: {remedy}")
        return headers or None

    @model_serializer(mode="wrap")
    def _as_recorded(self, write: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        unset = {key for key in self._keys_not_written_if_unset() if getattr(self, key) is None}
        tree = {key: value for key, value in write(self).items() if key not in unset}
        # Files of runs may be shared. The cache, which has a context, may not.
        if info.mode == "json" and info.context is None and isinstance(tree.get("base_url"), str):
            tree["base_url"] = hash_url_keys(tree["base_url"])
        return tree

    def _keys_not_written_if_unset(self) -> tuple[str, ...]:
        """Return the keys that older files lack."""
        return ("headers", "reasoning", "cache", "version")

    def plugin_options(self, parameters: Collection[str]) -> dict[str, Any]:
        """Return the plug-in's options.

        They include the section's keys ``name``, ``cache`` and ``version`` that are set, if the
        plug-in has a parameter of this name in ``parameters``.
        """
        options = self.options
        for key in ("name", "cache", "version"):
            value = getattr(self, key)
            if key in parameters and value is not None:
                options[key] = value
        return options


class EvaluatedModelSection(ModelSection):
    """Section ``model``: the evaluated model or application, and what its crashes count as."""

    # Exceptions of your own application (docs/how_to.md). None: fail, except in a run that an
    # earlier version began; for a provider's model, a failed call never counts.
    on_error: Literal["fail", "exclude"] | None = None  # what your application's crash counts as

    def _keys_not_written_if_unset(self) -> tuple[str, ...]:
        return (*super()._keys_not_written_if_unset(), "on_error")


class RoundsSection(Section):
    """Section ``rounds``: how many answers a sample may have."""

    max: Annotated[Count, Field(le=MAX_ROUNDS)] = 1  # answers per sample
    stop_on_pass: bool = True  # whether a sample ends at its first answer that passes
    feedback: Annotated[str, Field(min_length=1)] | None = None  # template; None: the task's own

    @model_serializer(mode="wrap")
    def _as_recorded(self, write: SerializerFunctionWrapHandler) -> Any:
        tree = write(self)
        if self.feedback is None:  # as in files older than the key
            del tree["feedback"]
        return tree


class LimitsSection(Section):
    """Section ``limits``: load on the provider, timeouts and retries."""

    concurrency: int = Field(default=20, ge=1, le=10_000, strict=True)  # maximum calls in flight
    rpm: Count | None = None  # requests per minute; None: as the provider's headers say
    tpm: Count | None = None  # input and output tokens per minute
    input_tpm: Count | None = None  # input tokens per minute
    output_tpm: Count | None = None  # output tokens per minute
    timeout_s: float = Field(default=600, gt=0)  # time limit of one try, in seconds
    reply_mb: float = Field(default=64, gt=0)  # maximum size of a reply, decompressed, in MB
    attempts: Count = 6  # tries per call
    outage_s: float = Field(default=600, ge=0)  # seconds to wait for a provider that is down
    samples_per_call: int = Field(default=1, ge=1, le=128, strict=True)  # drawn with one call
    batch: Annotated[Any, Declared("limits.batch", "batches")] = None  # true: use batches


class SecondModelSection(ModelSection):
    """A model besides the evaluated one. It has the run's limits by default, except rate limits."""

    limits: LimitsSection | None = None  # its own limits


class PolishSection(SecondModelSection):
    """Section ``polish``: the model and prompt that paraphrase instructions and feedback."""

    prompt: Literal["own", "paper"] = "own"  # our prompt, or the published one


class UserSection(Section):
    """Section ``user``: the model that plays the user in conversations, and its prompt."""

    model: SecondModelSection
    prompt: str = "default"  # a prompt in prompts/user, or the path of a template
    stop: Annotated[str, Field(min_length=1)] = "[END]"  # a turn with this text ends it
    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    max_tokens: Count = 1000  # of a turn


class BudgetSection(Section):
    """Section ``budget``: a hard cap on the total cost of all models and variants."""

    usd: float | None = Field(default=None, gt=0, strict=True)  # US dollars; None: no cap
    shared: str | None = Field(default=None, min_length=1)  # name of a budget that a team shares

    @model_validator(mode="after")
    def _check_cap(self) -> BudgetSection:
        if self.shared is not None and self.usd is None:
            raise ValueError("budget.shared needs budget.usd")
        return self


class BoundsSection(Section):
    """The base class of the section ``check``, which a plug-in declares: bounds of a run."""

    def check_scores(self, task: Task[Any], samples: int, judges: Collection[str]) -> None:
        """Check that a run can have the scores for which there are bounds.

        Args:
            task: The run's task.
            samples: The number of samples per instance.
            judges: The names of the run's judges and panels.

        Raises:
            ConfigError: If answers to the task cannot have one of the scores.
        """
        raise NotImplementedError


Bounds = Annotated[BoundsSection | None, Declared("check", "check")]


def split_k(score: str) -> tuple[str, int]:
    """Split the name of a metric over k samples, such as "pass@4", into ("pass@", 4).

    For any other name, return ("", 0).
    """
    match = re.fullmatch(r"(pass@|pass\^|any@)([1-9][0-9]{0,5})", score)
    return (match[1], int(match[2])) if match else ("", 0)


def _check_judge_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,59}", name):
        raise ValueError("letters, digits, '_' and '-' only, at most 60 characters")
    return name


JudgeName = Annotated[str, AfterValidator(_check_judge_name), Field(alias="as")]


class JudgeSection(PluginSection):
    """An item of ``judges``: a judge's plug-in, options and model. Its scores are ``AS.SCORE``."""

    model_config = ConfigDict(extra="allow", frozen=True, serialize_by_alias=True)

    name: str  # the judge
    as_: JudgeName  # its name in this run, by default the judge's or its file's
    model: SecondModelSection  # ``limits`` may be inside this section or next to it

    @model_validator(mode="before")
    @classmethod
    def _fill_defaults(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        tree = dict(raw)
        if tree.get("as") is None:
            name = tree.get("name", "unnamed")
            tree["as"] = Path(name).stem if str(name).endswith(".py") else name
        limits = tree.pop("limits", None)
        model = tree.get("model")
        if limits is not None and isinstance(model, dict):
            if model.get("limits") is not None:
                raise ValueError("limits is inside model and beside it: remove one of them")
            tree["model"] = {**model, "limits": limits}
        return tree


class PanelSection(Section):
    """An item of ``panels``: several judges whose verdicts are combined into one."""

    model_config = ConfigDict(serialize_by_alias=True)

    as_: JudgeName  # scores are named ``AS.SCORE``
    of: tuple[str, ...]  # two or more judges
    by: Literal["majority", "mean"] = "majority"  # of verdicts, or of numbers
    passes_from: float | None = None  # lowest mean that passes; None: 0.5 for criteria, else none
    quorum: int | None = Field(default=None, ge=1, strict=True)  # least verdicts; None: over half

    @model_validator(mode="after")
    def _check_members_and_quorum(self) -> PanelSection:
        if len(self.of) < 2 or len(set(self.of)) < len(self.of):
            raise ValueError("of must name two or more judges, each once")
        if self.as_ in self.of:
            raise ValueError(f"of names the panel itself, {self.as_!r}: remove it")
        if self.passes_from is not None and self.by != "mean":
            raise ValueError("passes_from applies to means only: set by: mean")
        if self.quorum is not None and self.quorum > len(self.of):
            raise ValueError(f"quorum is {self.quorum}, but there are {len(self.of)} judges")
        return self

    def check_members(self, judges: Collection[str]) -> None:
        """Raise ValueError unless all members of the panel are among the run's judges."""
        for name in self.of:
            if name not in judges:
                problem = f"the panel {self.as_!r}: there is no judge {name!r:.60}."
                raise ValueError(f"{problem} {suggest_name(name, judges)}".rstrip())
