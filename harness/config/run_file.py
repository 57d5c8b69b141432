"""The run file as a Pydantic model. Options of plug-ins are validated later, by the plug-ins."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, field_validator, model_validator

from harness.config.sections import (
    MAX_COUNT,
    Bounds,
    BudgetSection,
    Count,
    EvaluatedModelSection,
    JudgeSection,
    LimitsSection,
    PanelSection,
    PolishSection,
    RoundsSection,
    Seed,
    TaskSection,
    UserSection,
    is_secret_key,
    nested_keys,
)
from harness.config.validation import Section, safe_key, validate
from harness.errors import ConfigError
from harness.ports import Backend
from harness.records import Decoding

MAX_SAMPLES = 100_000  # per instance; a run's plan iterates over all of them


TOOL_FIELDS = ("tools", "functions", "toolConfig", "tool_config")  # fields of providers' requests


class Shard(NamedTuple):
    """One of several disjoint parts of a run's instances, each for a separate process."""

    number: int  # from 1
    n_shards: int

    def __str__(self) -> str:
        return f"{self.number}/{self.n_shards}"

    def share_of(self, total: int) -> int:
        """Return the shard's share of a total. All shards' shares add up to the total."""
        return total // self.n_shards + (self.number <= total % self.n_shards)


def parse_shard(text: str | None) -> Shard | None:
    """Parse a shard that is written like 3/16. Return None, for a whole run, without a text."""
    return Shard(*map(int, text.split("/"))) if text else None


MAX_SHARDS = 10_000


class RunFile(Section):
    """A complete run file, with defaults filled in."""

    task: TaskSection  # the benchmark
    model: EvaluatedModelSection  # the model that is evaluated
    decoding: Decoding = Field(default_factory=Decoding)  # sampling parameters
    samples: Annotated[Count, Field(le=MAX_SAMPLES)] = 1  # independent answers per instance
    measure: str | None = None  # a score, or such as pass@4; None: the task's primary metric
    rounds: RoundsSection = Field(default_factory=RoundsSection)  # answers after feedback
    seed: Seed | None = 0  # for the order, the provider and simulations; None sends none
    folder: Path | None = None  # where relative paths are looked up too: the run file's folder
    limit: Count | None = None  # maximum number of instances, round-robin over groups
    shard: str | None = None  # the part of the instances to work on, such as 3/16
    limits: LimitsSection = Field(default_factory=LimitsSection)  # load, timeouts, retries
    budget: BudgetSection = Field(default_factory=BudgetSection)  # a hard cap on the cost
    judges: tuple[JudgeSection, ...] = ()  # models that score answers
    panels: tuple[PanelSection, ...] = ()  # judges that decide together
    polish: PolishSection | None = None  # a model that paraphrases prompts
    user: UserSection | None = None  # a model that plays the user in conversations
    check: Bounds = None  # bounds for harness check and pytest
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict)  # changed keys by name
    matrix: dict[str, list[Any] | dict[str, Any]] = Field(
        default_factory=dict
    )  # values by key; every combination is a variant

    @property
    def parsed_shard(self) -> Shard | None:
        """The shard to which the run is limited, or None for a whole run."""
        return parse_shard(self.shard)

    @property
    def budget_usd(self) -> float | None:
        """The budget (US dollars), if any. A shard has an equal part, unless a team shares it."""
        usd = self.budget.usd
        if usd is None or self.parsed_shard is None or self.budget.shared:
            return usd
        return usd / self.parsed_shard.n_shards

    @property
    def judge_names(self) -> frozenset[str]:
        """The names of the run's judges and panels."""
        return frozenset(
            [judge.as_ for judge in self.judges] + [panel.as_ for panel in self.panels]
        )

    def with_batches(self, *, detach: bool = False) -> RunFile:
        """Return a copy of the run file that sets ``limits.batch``."""
        stated = self.limits.model_dump(exclude_unset=True)
        batch = (stated.get("batch") or {}) | {"detach": detach}
        limits = validate(LimitsSection, stated | {"batch": batch}, "limits")
        return self.model_copy(update={"limits": limits})

    def check_no_tools(self, conversation: str) -> None:
        """Raise ConfigError if a conversation's requests would offer tools to the model.

        ``conversation`` is the cause of the conversation for the message: "rounds.max is 3".
        """
        for key in TOOL_FIELDS:
            if key in self.decoding.extra:
                problem = f"decoding.extra.{key} offers tools to the model, and {conversation}."
                remedy = "The results of tool calls cannot be sent: remove the tools, or use one "
                raise ConfigError(problem, f"{remedy}turn.")

    def check_conversation(self, backend: Backend) -> None:
        """Raise ConfigError if the backend does not accept the run's conversations."""
        if self.rounds.max > 1:
            if "conversation" not in backend.features:
                name = self.model.backend
                problem = f"The backend {name!r} accepts a single prompt, not a conversation."
                raise ConfigError(problem, "Set rounds.max to 1.")
            self.check_no_tools(f"rounds.max is {self.rounds.max}")
        if self.user is not None:
            self.check_no_tools("a model plays the user")

    @field_validator("shard")
    @classmethod
    def _check_shard(cls, shard: str | None) -> str | None:
        if shard is not None:
            match = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", shard)
            if not match or not 1 <= int(match[1]) <= int(match[2]) <= MAX_SHARDS:
                raise ValueError(
                    f"{safe_key(shard)!r} is not a shard: write NUMBER/COUNT, as in 3/16"
                )
        return shard

    @field_validator("limits", "budget", mode="before")
    @classmethod
    def _replace_null(cls, section: Any) -> Any:
        return {} if section is None else section

    @field_validator("decoding", mode="before")
    @classmethod
    def _check_no_booleans(cls, decoding: Any) -> Any:
        for key, value in decoding.items() if isinstance(decoding, dict) else ():
            if isinstance(value, bool) and key != "prompt_logprobs":
                raise ValueError(f"{safe_key(key)} cannot be true or false")
        return decoding

    @field_validator("decoding")
    @classmethod
    def _check_decoding(cls, decoding: Decoding) -> Decoding:
        temperature = decoding.temperature
        top_p = decoding.top_p
        if temperature is not None and not (math.isfinite(temperature) and temperature >= 0):
            raise ValueError(f"temperature must be 0 or more, not {temperature}")
        if top_p is not None and not 0 < top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {top_p}")
        if decoding.max_tokens is not None and not 1 <= decoding.max_tokens <= MAX_COUNT:
            raise ValueError(f"max_tokens must be from 1 to {MAX_COUNT:,}")
        if not all(decoding.stop):
            raise ValueError("stop contains an empty text: remove it")
        if any(map(is_secret_key, nested_keys(decoding.extra))):
            raise ValueError("extra would contain a secret: put secrets into environment variables")
        try:
            json.dumps(decoding.extra, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError("extra must be JSON: text, numbers, lists and mappings") from None
        return decoding

    @model_validator(mode="after")
    def _check_judges_and_panels(self) -> RunFile:
        judges = [judge.as_ for judge in self.judges]
        names = [*judges, *(panel.as_ for panel in self.panels)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"judges: two are named {name!r}: rename one with 'as'")
        for panel in self.panels:
            panel.check_members(judges)
        return self

    @field_validator("variants")
    @classmethod
    def _check_variants(cls, variants: dict[str, Any]) -> dict[str, Any]:
        for name, changes in variants.items():
            check_name(name)
            for key in changes:
                if not all(key.split(".")):
                    raise ValueError(f"{name!r} sets {safe_key(key)!r}, which is not a key.path")
                if key.split(".")[0] in ("variants", "matrix"):
                    raise ValueError(f"{name!r} sets variants or matrix, which a variant cannot")
        return variants

    @model_validator(mode="after")
    def _check_matrix(self) -> RunFile:
        if self.matrix and self.variants:
            raise ValueError("variants and matrix cannot be combined: remove one of them")
        self._check_variants(expand_matrix(self.matrix))
        return self

    def expanded_variants(self) -> dict[str, dict[str, Any]]:
        """Return the file's variants by name, as mappings of dotted keys to values."""
        return expand_matrix(self.matrix) if self.matrix else self.variants


_NAME = re.compile(r"[\w.-]+")
MAX_NAME_BYTES = 200  # bytes of a run's name: file systems allow 255, and some file names extend it


def check_name(name: str) -> str:
    """Check the name of a run or variant, and return it.

    Raises:
        ValueError: If the name is not valid.
    """
    if len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        raise ValueError(
            f"'{name[:20]}…' cannot name a run: it is longer than {MAX_NAME_BYTES} bytes"
        )
    if not _NAME.fullmatch(name) or name[0] in ".-":
        allowed = "letters, digits, '_', '-' and '.', the last two not at the start"
        raise ValueError(f"{name!r} cannot name a run: use only {allowed}")
    return name


Axis = Sequence[Any] | Mapping[str, Any]

MAX_COMBINATIONS = 1_000


def expand_matrix(matrix: Mapping[str, Axis]) -> dict[str, dict[str, Any]]:
    """Return the variants that a matrix describes, by name. Each maps dotted keys to values.

    An axis of the matrix is either a dotted key with its values (a list or a mapping of names to
    values), or any name with a mapping of names to sets of changes. The values of the last axis
    change fastest.

    Raises:
        ValueError: If an axis is invalid, two axes set the same key, two variants have the same
            name, or there are more than `MAX_COMBINATIONS`.

    >>> list(expand_matrix({"samples": [1, 4], "x": {"zero": {}, "one": {"task.shots": 1}}}))
    ['1.zero', '1.one', '4.zero', '4.one']
    """
    axes = [_changes_by_name(key, axis) for key, axis in matrix.items()]
    if math.prod(map(len, axes)) > MAX_COMBINATIONS:
        raise ValueError(f"matrix has more than {MAX_COMBINATIONS:,} combinations")
    variants: dict[str, dict[str, Any]] = {}
    if not axes:
        return variants
    for values in product(*(axis.items() for axis in axes)):
        name = ".".join(name for name, _ in values)
        if name in variants:
            raise ValueError(f"matrix makes the name {name!r} twice: name the values of an axis")
        variants[name] = {}
        for _, changes in values:
            if repeated := variants[name].keys() & changes.keys():
                raise ValueError(f"matrix sets {min(repeated)} by two axes: remove it from one")
            variants[name] |= changes
    return variants


def _changes_by_name(key: str, axis: Axis) -> Mapping[str, Mapping[str, Any]]:
    """Return the changes that each value of a matrix's axis makes, by the value's name."""
    if not axis:
        raise ValueError(f"matrix.{key} is empty")
    if isinstance(axis, Mapping):
        return {name: _changes(key, name, value) for name, value in axis.items()}
    if is_secret_key(key.rpartition(".")[2]):  # before a value becomes a variant's name
        raise ValueError(f"matrix: {key!r} would contain a secret: put it into the environment")
    changes_by_name = {_value_name(key, value): {key: value} for value in axis}
    if len(changes_by_name) < len(axis):
        raise ValueError(f"matrix.{key} has a value twice")
    return changes_by_name


def _changes(key: str, name: str, value: Any) -> Mapping[str, Any]:
    """Return the changes that a named value of an axis makes."""
    if _is_set_of_changes(key, value):
        return value  # type: ignore[no-any-return]
    if key == "task" and isinstance(value, Mapping):
        # Tables then tell the data of two tasks of the same kind apart.
        value = {"as": name, **value}
    return {key: value}


def _is_set_of_changes(key: str, value: Any) -> bool:
    """Return whether a named value is a set of changes, not a section."""
    if not isinstance(value, Mapping) or not value:
        return isinstance(value, Mapping)
    keys = RunFile.model_fields
    dotted = any("." in name for name in value)
    # Sections have some keys of run files too, such as the seed of task.shots.
    return key.split(".")[0] not in keys or dotted or all(name in keys for name in value)


def _value_name(key: str, value: Any) -> str:
    """Return the name of an unnamed value of an axis, for the names of variants."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    name = str(value).replace("/", "-")  # Qwen/Qwen3-8B
    if not isinstance(value, str | int | float) or not _NAME.fullmatch(name):
        form = f"matrix: {{{key}: {{NAME: ...}}}}"
        raise ValueError(f"matrix.{key} has a value that cannot name a run: name it, {form}")
    return name


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested mappings to dotted keys: ``{"a": {"b": 1}}`` becomes ``{"a.b": 1}``."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            flat |= flatten(value, f"{name}.")
        else:
            flat[name] = value
    return flat


def is_below(key: str, sections: Iterable[str]) -> bool:
    """Return whether a dotted key is one of the given keys or is nested below one of them."""
    return any(key == section or key.startswith(f"{section}.") for section in sections)
