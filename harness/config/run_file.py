"""The run file: what to run, as validated models.

Unknown keys are errors that name the nearest valid one. Options of a task or
backend are checked later, by the plug-in they belong to.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from harness.records import Decoding


class Section(BaseModel):
    """A part of the run file: frozen, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PluginSection(BaseModel):
    """A part whose further keys are options of a plug-in."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @property
    def options(self) -> dict[str, Any]:
        """The keys that belong to the plug-in."""
        return dict(self.model_extra or {})


class TaskSection(PluginSection):
    """``task:`` which benchmark, and its options.

    shots: worked examples put before the instance.
    """

    name: str
    shots: int = Field(default=0, ge=0)


class ModelSection(PluginSection):
    """``model:`` which backend and model, and the backend's options."""

    backend: str
    name: str = ""


class RoundsSection(Section):
    """``rounds:`` how often a sample is answered, each later time after feedback.

    stop_on_pass: end a sample with the first answer that passes.
    """

    max: int = Field(default=1, ge=1)
    stop_on_pass: bool = True


class LimitsSection(Section):
    """``limits:`` how hard the provider may be worked.

    concurrency: most calls in flight.
    timeout_s: seconds until one call is given up.
    attempts: how often a call is tried before its failure is recorded.
    """

    concurrency: int = Field(default=20, ge=1, le=10_000)
    timeout_s: float = Field(default=600, gt=0)
    attempts: int = Field(default=6, ge=1)


class BudgetSection(Section):
    """``budget:`` what the run may cost. Only null for now: prices are not known yet."""

    usd: None = None


class RunFile(Section):
    """A whole run file, resolved: defaults filled in, overrides and variant applied.

    samples: independent answers per instance (k).
    seed: of the order, the provider seeds and the simulation; null sends no seed.
    limit: how many instances, taken from a seeded order round the groups; null for all.
    variants: name to overrides; each variant is a run of its own, ``NAME.VARIANT``.
    """

    task: TaskSection
    model: ModelSection
    decoding: Decoding = Field(default_factory=Decoding)
    samples: int = Field(default=1, ge=1)
    rounds: RoundsSection = Field(default_factory=RoundsSection)
    seed: int | None = 0
    limit: int | None = Field(default=None, ge=1)
    limits: LimitsSection = Field(default_factory=LimitsSection)
    budget: BudgetSection = Field(default_factory=BudgetSection)
    judges: tuple[()] = ()
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @field_validator("variants")
    @classmethod
    def _names_are_file_names(cls, variants: dict[str, Any]) -> dict[str, Any]:
        for name in variants:
            check_name(name)
        return variants

    @model_validator(mode="after")
    def _shots_wait(self) -> RunFile:
        if self.task.shots:
            raise ValueError("task.shots: only 0 so far; few-shot prompts are not built yet")
        return self


def check_name(name: str) -> str:
    """A run's or variant's name, fit to be a folder's.

    Raises: ValueError.
    """
    allowed = all(letter.isalnum() or letter in "._-" for letter in name)
    if not name or not allowed or name[0] in ".-":
        raise ValueError(
            f"{name!r} cannot name a run: letters, digits, '_', '-' and '.' only, "
            "beginning with a letter, digit or '_'"
        )
    return name


GROWING = ("samples", "rounds.max", "limit")
"""Keys that a continued run may raise, never lower."""

MAY_CHANGE = ("limits", "budget", "variants", "model.path", "task.path")
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


def conflicts(before: RunFile, now: RunFile) -> list[str]:
    """The dotted keys in which a run may not differ from what it was begun with."""
    old, new = (flatten(run.model_dump(mode="json")) for run in (before, now))
    differing = []
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) == new.get(key):
            continue
        if any(key == free or key.startswith(f"{free}.") for free in MAY_CHANGE):
            continue
        if key in GROWING and _grew(old.get(key), new.get(key)):
            continue
        differing.append(key)
    return differing


def _grew(old: int | None, new: int | None) -> bool:
    return new is None or (old is not None and new >= old)  # null: without limit
