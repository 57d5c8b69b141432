"""The run file: what to run, as validated models.

Unknown keys are errors that name the nearest valid one. Options of a task or
backend are checked later, by the plug-in they belong to.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from harness.config.matrix import expanded
from harness.config.panels import PanelSection, check_judge_name, panel_section
from harness.config.prices import Price
from harness.config.shots import ShotsSection
from harness.errors import nearest
from harness.records import Decoding

MOST = 2**31 - 1
Count = Annotated[int, Field(strict=True, ge=1, le=MOST)]
"""How many of something; strict, since ``true`` and ``2.0`` are slips and no counts."""

SECRETS = frozenset(
    {"api_key", "apikey", "api_token", "access_token", "auth_token", "token", "bearer"}
    | {"authorization", "password", "secret", "secret_key"}
)
"""Option names that ask for a secret, which a run file may not hold."""


def shown(key: str) -> str:
    """A key as it may be shown: cut where a value was run into it (``api_key:sk-…``)."""
    name = re.split(r"[:=\s]", key.strip(), maxsplit=1)[0]
    return name if name == key else f"{name}…"


class Section(BaseModel):
    """A part of the run file: frozen, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PluginSection(BaseModel):
    """A part whose further keys are options of a plug-in."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @property
    def options(self) -> dict[str, Any]:
        """The keys that belong to the plug-in."""
        return dict(self.model_extra or {})

    @model_validator(mode="after")
    def _holds_no_secret(self) -> PluginSection:
        for key, value in self.options.items():
            if ":" in key:
                raise ValueError(f"a space is missing after the colon of {shown(key)!r}")
            if value and key.lower().replace("-", "_") in SECRETS:
                raise ValueError(
                    f"{key!r} would hold a secret: put it into an environment variable, and that "
                    "variable's name into model.api_key_env"
                )
            if key.lower().endswith("url") and isinstance(value, str) and _names_a_user(value):
                raise ValueError(
                    f"{key!r} holds a user name or password: put secrets into environment "
                    "variables, and the variable's name into model.api_key_env"
                )
        return self


def _keys(tree: object) -> Iterator[str]:
    """The keys of nested mappings and lists."""
    if isinstance(tree, dict):
        for key, below in tree.items():
            yield str(key)
            yield from _keys(below)
    elif isinstance(tree, list):
        for below in tree:
            yield from _keys(below)


def _names_a_secret(key: str) -> bool:
    name = key.lower().replace("-", "_")
    return name in SECRETS or name.endswith(("_api_key", "_secret", "_password"))


def _names_a_user(url: str) -> bool:
    return "@" in re.split(r"[/?#]", url.split("//", 1)[-1], maxsplit=1)[0]


class TaskSection(PluginSection):
    """``task:`` which benchmark, and its options.

    shots: worked examples put before the instance: how many, or a section.
    """

    name: str
    shots: ShotsSection = ShotsSection(n=0)

    @field_validator("shots")
    @classmethod
    def _the_source_holds_no_secret(cls, shots: ShotsSection) -> ShotsSection:
        if any(map(_names_a_secret, _keys(shots.source))):
            raise ValueError("source would hold a secret: secrets go into environment variables")
        return shots


class ModelSection(PluginSection):
    """``model:`` which backend and model, and the backend's options.

    price: US dollars per million tokens, where the list of prices lacks it.
    """

    backend: str
    name: str = ""
    price: Price | None = None


class RoundsSection(Section):
    """``rounds:`` how often a sample is answered, each later time after feedback.

    stop_on_pass: end a sample with the first answer that passes.
    """

    max: Count = 1
    stop_on_pass: bool = True


class LimitsSection(Section):
    """``limits:`` how hard the provider may be worked.

    concurrency: most calls in flight; fewer are, where the provider protests.
    rpm, tpm, input_tpm, output_tpm: requests, tokens, input and output tokens in
        any minute; null for what the provider's headers tell.
    timeout_s: seconds until one call is given up.
    attempts: how often a call is tried before its failure is recorded.
    outage_s: seconds that a run waits for a provider that is down, until it ends.
    """

    concurrency: int = Field(default=20, ge=1, le=10_000, strict=True)
    rpm: Count | None = None
    tpm: Count | None = None
    input_tpm: Count | None = None
    output_tpm: Count | None = None
    timeout_s: float = Field(default=600, gt=0)
    attempts: Count = 6
    outage_s: float = Field(default=600, ge=0)


class SecondModelSection(ModelSection):
    """A model beside the one that is evaluated.

    limits: its own; where it has none, it has the concurrency and patience of
        the run's ``limits:``, but not its rates, which are the first model's.
    """

    limits: LimitsSection | None = None


class JudgeSection(PluginSection):
    """An element of ``judges:`` a judge, the model that it asks, and the judge's options.

    name: of its plug-in.
    as: its name in the run, by default the plug-in's; its scores are ``AS.SCORE``.
    model: a second model; ``limits:`` may stand in it or beside it.
    """

    model_config = ConfigDict(extra="allow", frozen=True, serialize_by_alias=True)

    name: str
    as_: str = Field(alias="as")
    model: SecondModelSection

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        tree = dict(raw)
        if tree.get("as") is None:
            tree["as"] = tree.get("name")
        limits, model = tree.pop("limits", None), tree.get("model")
        if limits is not None and isinstance(model, dict):
            if model.get("limits") is not None:
                raise ValueError("limits stands in model and beside it: keep one of the two")
            tree["model"] = {**model, "limits": limits}
        return tree

    _named = field_validator("as_")(check_judge_name)


def judge_section(raw: object) -> JudgeSection:
    """An element of ``judges:``, checked.

    Raises: ValueError naming the key; no value is quoted, for it may be a secret.
    """
    if isinstance(raw, JudgeSection):
        return raw
    if not isinstance(raw, dict):
        raise ValueError("a judge is a section: {name: …, model: {backend: …, name: …}}")
    try:
        return JudgeSection.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
    loc = [str(part) for part in first["loc"]]
    key = ".".join(shown(part) for part in loc)
    if first["type"] == "extra_forbidden":
        valid = LimitsSection.model_fields if "limits" in loc else Price.model_fields
        raise ValueError(f"unknown key {key!r}. {nearest(loc[-1], valid)}".rstrip("."))
    if first["type"] == "missing":
        raise ValueError(f"{key} is missing")
    message = first["msg"].removeprefix("Value error, ")
    raise ValueError(f"{key}: {message}" if key else message)


def _refuse_twice(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two are named {name!r}: give one another name with 'as'")


class BudgetSection(Section):
    """``budget:`` what the run may cost, in US dollars: a hard cap over all of its models.

    The variants of a file share it. null: no cap.
    """

    usd: float | None = Field(default=None, gt=0, strict=True)


class RunFile(Section):
    """A whole run file, resolved: defaults filled in, overrides and variant applied.

    samples: independent answers per instance (k).
    seed: of the order, the provider seeds and the simulation; null sends no seed.
    limit: how many instances, taken from a seeded order round the groups; null for all.
    judges: models that score answers, each with a section of its own.
    panels: judges that decide together.
    polish: a second model that rewrites instruction and feedback; null for none.
    variants: name to overrides; each variant is a run of its own, ``NAME.VARIANT``.
    matrix: axes whose combinations are the variants (`harness.config.matrix`).
    """

    task: TaskSection
    model: ModelSection
    decoding: Decoding = Field(default_factory=Decoding)
    samples: Count = 1
    rounds: RoundsSection = Field(default_factory=RoundsSection)
    seed: Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)] | None = 0
    limit: Count | None = None
    limits: LimitsSection = Field(default_factory=LimitsSection)
    budget: BudgetSection = Field(default_factory=BudgetSection)
    judges: tuple[JudgeSection, ...] = ()
    panels: tuple[PanelSection, ...] = ()
    polish: SecondModelSection | None = None
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict)
    matrix: dict[str, list[Any] | dict[str, dict[str, Any]]] = Field(default_factory=dict)

    @field_validator("limits", "budget", mode="before")
    @classmethod
    def _null_is_the_default(cls, section: Any) -> Any:
        return {} if section is None else section

    @field_validator("decoding", mode="before")
    @classmethod
    def _numbers_are_numbers(cls, decoding: Any) -> Any:
        for key, value in decoding.items() if isinstance(decoding, dict) else ():
            if isinstance(value, bool) and key != "prompt_logprobs":
                raise ValueError(f"{shown(key)} is true or false, which it cannot be")
        return decoding

    @field_validator("decoding")
    @classmethod
    def _decoding_is_possible(cls, decoding: Decoding) -> Decoding:
        temperature, top_p = decoding.temperature, decoding.top_p
        if temperature is not None and not (math.isfinite(temperature) and temperature >= 0):
            raise ValueError(f"temperature must be 0 or more, not {temperature}")
        if top_p is not None and not 0 < top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {top_p}")
        if decoding.max_tokens is not None and not 1 <= decoding.max_tokens <= MOST:
            raise ValueError("max_tokens must be 1 or more (and below two thousand million)")
        if not all(decoding.stop):
            raise ValueError("stop holds an empty text")
        if any(map(_names_a_secret, _keys(decoding.extra))):
            raise ValueError("extra would hold a secret: secrets go into environment variables")
        try:
            json.dumps(decoding.extra, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError("extra must be JSON: texts, numbers, lists and mappings") from None
        return decoding

    @field_validator("judges", mode="before")
    @classmethod
    def _judges_are_sections(cls, judges: Any) -> Any:
        if not isinstance(judges, list | tuple):
            return judges
        return tuple(judge_section(judge) for judge in judges)

    @field_validator("judges")
    @classmethod
    def _judges_have_names_of_their_own(
        cls, judges: tuple[JudgeSection, ...]
    ) -> tuple[JudgeSection, ...]:
        _refuse_twice([judge.as_ for judge in judges])
        return judges

    @field_validator("panels", mode="before")
    @classmethod
    def _panels_are_sections(cls, panels: Any) -> Any:
        if not isinstance(panels, list | tuple):
            return panels
        return tuple(panel_section(panel) for panel in panels)

    @field_validator("panels")
    @classmethod
    def _panels_are_of_judges(
        cls, panels: tuple[PanelSection, ...], info: ValidationInfo
    ) -> tuple[PanelSection, ...]:
        judges = [judge.as_ for judge in info.data.get("judges", ())]
        _refuse_twice([*judges, *(panel.as_ for panel in panels)])
        for panel in panels:
            panel.check_members(judges)
        return panels

    @field_validator("variants")
    @classmethod
    def _variants_are_flat(cls, variants: dict[str, Any]) -> dict[str, Any]:
        for name, changes in variants.items():
            check_name(name)
            for key in changes:
                if not all(key.split(".")):
                    raise ValueError(f"{name!r} holds {shown(key)!r}, which is no key.path")
                if key.split(".")[0] in ("variants", "matrix"):
                    raise ValueError(f"{name!r} holds variants of its own, which it cannot")
        return variants

    @model_validator(mode="after")
    def _matrix_makes_variants(self) -> RunFile:
        if self.matrix and self.variants:
            raise ValueError("variants and matrix do not go together: write one of them")
        self._variants_are_flat(expanded(self.matrix))
        return self

    def combinations(self) -> dict[str, dict[str, Any]]:
        """The variants, as written or as the matrix has them: name to overrides."""
        return expanded(self.matrix) if self.matrix else self.variants


LONGEST_NAME = 200
"""Bytes of a run's name: file systems take 255, and files within are named after it."""


def check_name(name: str) -> str:
    """A run's or variant's name, fit to be a folder's.

    Raises: ValueError.
    """
    if len(name.encode(errors="replace")) > LONGEST_NAME:
        raise ValueError(f"'{name[:20]}…' cannot name a run: more than {LONGEST_NAME} bytes long")
    allowed = all(letter.isalnum() or letter in "._-" for letter in name)
    if not name or not allowed or name[0] in ".-":
        raise ValueError(
            f"{name!r} cannot name a run: letters, digits, '_', '-' and '.' only, "
            "beginning with a letter, digit or '_'"
        )
    return name


MAY_CHANGE = (
    *("limits", "budget", "variants", "matrix"),
    *("model.path", "task.path", "model.api_key_env", "polish.api_key_env"),
    *("model.replicas", "model.gpus", "model.replicas_at", "model.start_s", "model.restarts"),
    *("model.price", "polish.price", "polish.limits"),
)
"""Keys (and all below them) that a continued run may change."""


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as dotted keys: ``{"a": {"b": 1}}`` gives ``{"a.b": 1}``."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            flat |= flatten(value, f"{name}.")
        else:
            flat[name] = value
    return flat
