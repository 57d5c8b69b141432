"""The sections of configuration files, and what none of them may hold: secrets.

Unknown keys are errors, except in sections whose further keys are options of a plug-in, which
checks them itself.

>>> names_a_secret("OPENAI_API_KEY"), names_a_secret("max_tokens")
(True, False)
>>> ShotsSection.model_validate(3) == ShotsSection(n=3)
True
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from harness.config.prices import Price

SECRETS = frozenset(
    {"api_key", "apikey", "api_token", "access_token", "auth_token", "token", "bearer"}
    | {"authorization", "password", "secret", "secret_key"}
)
"""Option names that ask for a secret, which a run file may not hold."""


def shown(key: str) -> str:
    """A key as it may be shown: cut where a value was run into it (``api_key:sk-…``)."""
    name = re.split(r"[:=\s]", key.strip(), maxsplit=1)[0]
    return name if name == key else f"{name}…"


def keys_of(tree: object) -> Iterator[str]:
    """The keys of nested mappings and lists."""
    if isinstance(tree, dict):
        for key, below in tree.items():
            yield str(key)
            yield from keys_of(below)
    elif isinstance(tree, list):
        for below in tree:
            yield from keys_of(below)


def names_a_secret(key: str) -> bool:
    """Whether what stands under such a key is a secret."""
    name = key.lower().replace("-", "_")
    return name in SECRETS or name.endswith(("_api_key", "_secret", "_password"))


def names_a_user(url: str) -> bool:
    """Whether an address holds a user's name, and with it perhaps a password."""
    return "@" in re.split(r"[/?#]", url.split("//", 1)[-1], maxsplit=1)[0]


MOST = 2**31 - 1
Count = Annotated[int, Field(strict=True, ge=1, le=MOST)]
"""How many of something; strict, since ``true`` and ``2.0`` are slips and no counts."""


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
            if key.lower().endswith("url") and isinstance(value, str) and names_a_user(value):
                raise ValueError(
                    f"{key!r} holds a user name or password: put secrets into environment "
                    "variables, and the variable's name into model.api_key_env"
                )
        return self


MOST_SHOTS = 10_000


class ShotsSection(BaseModel):
    """A number of shots, or how they are chosen and written.

    n: how many; 0 is a zero-shot run, whatever the other keys say.
    select: ``first`` in the order of the data; ``random``, by ``seed`` and the instance;
        ``ids``, the named ones; ``errors``, by what went wrong most often in an earlier run.
    within: labels that a shot shares with the instance.
    across: a label whose groups the shots go round, sorted: of two, one shot of each in turn.
    allow_fewer: an instance for which too few are fit gets those there are; else it is refused.
    ids: for ``select: ids``, in the order wanted.
    run: for ``select: errors``, the earlier run's name.
    order: of the chosen ones; ``random`` by ``seed`` and the instance.
    form: ``turns`` of a conversation; one ``message``; or as the ``task`` itself writes it.
    source: options of the task that differ for the data that shots come from.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    n: int = Field(ge=0, le=MOST_SHOTS, strict=True)
    select: Literal["first", "random", "ids", "errors"] = "first"
    within: tuple[str, ...] = ()
    across: str | None = None
    allow_fewer: bool = Field(default=False, strict=True)
    ids: tuple[str, ...] = ()
    run: str | None = None
    order: Literal["selected", "reversed", "random"] = "selected"
    form: Literal["turns", "message", "task"] = "turns"
    source: dict[str, Any] = Field(default_factory=dict)
    seed: Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)] = 0

    @model_validator(mode="before")
    @classmethod
    def _a_number_is_n(cls, given: Any) -> Any:
        if type(given) is int:
            return {"n": given}
        if not isinstance(given, dict | ShotsSection):
            raise ValueError("must be a whole number, or a section with n and other keys")
        return given

    @field_validator("ids")
    @classmethod
    def _no_id_comes_twice(cls, ids: tuple[str, ...]) -> tuple[str, ...]:
        twice = next((name for name in ids if ids.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"{twice!r} is there twice")
        return ids

    @model_validator(mode="after")
    def _keys_belong_together(self) -> ShotsSection:
        if (self.select == "ids") != bool(self.ids):
            raise ValueError("ids and 'select: ids' need each other")
        if (self.select == "errors") != bool(self.run):
            raise ValueError("run and 'select: errors' need each other")
        if self.select == "ids" and len(self.ids) < self.n:
            raise ValueError(f"n is {self.n}, but ids names {len(self.ids)}")
        if self.select == "ids" and self.across is not None:
            raise ValueError("'select: ids' names the shots in their order: remove across")
        if self.across in self.within:
            raise ValueError(f"all shots share {self.across!r}, as within says: remove across")
        if self.select == "errors" and self.source:
            raise ValueError("'select: errors' takes the shots from the run's data: remove source")
        return self

    @model_serializer(mode="wrap")
    def _zero_is_a_number(self, write: SerializerFunctionWrapHandler) -> Any:
        """Zero-shot runs are written alike, and as they were before there were other keys."""
        return write(self) if self.n else 0


class TaskSection(PluginSection):
    """``task:`` which benchmark, and its options.

    shots: worked examples put before the instance: how many, or a section.
    """

    name: str
    shots: ShotsSection = ShotsSection(n=0)

    @field_validator("shots")
    @classmethod
    def _the_source_holds_no_secret(cls, shots: ShotsSection) -> ShotsSection:
        if any(map(names_a_secret, keys_of(shots.source))):
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


class BudgetSection(Section):
    """``budget:`` what the run may cost, in US dollars: a hard cap over all of its models.

    The variants of a file share it. null: no cap.
    """

    usd: float | None = Field(default=None, gt=0, strict=True)
