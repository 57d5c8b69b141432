"""The parts that the sections of configuration files are made of.

Unknown keys are errors, but where they are options of a plug-in, which checks them itself.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from harness.config.prices import Price
from harness.config.secrets import SECRETS, keys_of, names_a_secret, names_a_user, shown
from harness.config.shots import ShotsSection

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
