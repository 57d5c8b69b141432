"""``judges:`` models that score answers, and ``panels:`` of judges that decide together.

>>> judge_section({"name": "rubric", "model": {"backend": "simulated"}}).as_
'rubric'
>>> panel_section({"as": "jury", "of": ["a", "b", "c"]}).by
'majority'
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from harness.config.prices import Price
from harness.config.sections import LimitsSection, PluginSection, SecondModelSection, shown
from harness.errors import nearest

S = TypeVar("S", bound=BaseModel)

LONGEST_JUDGE = 60
"""Characters of a judge's name in its run."""


def check_judge_name(name: str) -> str:
    """What may name a judge or a panel in a run. Raises: ValueError."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", name) or len(name) > LONGEST_JUDGE:
        raise ValueError(
            f"letters, digits, '_' and '-' only, at most {LONGEST_JUDGE}, since it stands "
            "before the names of scores"
        )
    return name


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


class PanelSection(BaseModel):
    """An element of ``panels:``. It asks nobody anything.

    as: its name in the run; its scores are ``AS.SCORE``.
    of: the names of judges of the run, two or more. They decide through the panel alone.
    by: ``majority`` of their verdicts, or ``mean`` of their numbers.
    passes_from: of means, the least that passes; without it they give no verdict.
    quorum: how many of them must have a verdict; by default more than half.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, serialize_by_alias=True, allow_inf_nan=False
    )

    as_: str = Field(alias="as")
    of: tuple[str, ...]
    by: Literal["majority", "mean"] = "majority"
    passes_from: float | None = None
    quorum: int | None = Field(default=None, ge=1, strict=True)

    _named = field_validator("as_")(check_judge_name)

    @model_validator(mode="after")
    def _can_decide(self) -> PanelSection:
        if len(self.of) < 2 or len(set(self.of)) < len(self.of):
            raise ValueError("of names two or more judges, each once")
        if self.as_ in self.of:
            raise ValueError(f"of names the panel itself, {self.as_!r}")
        if self.passes_from is not None and self.by != "mean":
            raise ValueError("passes_from is of means: set by: mean")
        if self.quorum is not None and self.quorum > len(self.of):
            raise ValueError(f"quorum is {self.quorum}, and there are {len(self.of)} judges")
        return self

    def check_members(self, judges: Collection[str]) -> None:
        """That all it is made of are judges of the run. Raises: ValueError."""
        for name in self.of:
            if name not in judges:
                raise ValueError(
                    f"{self.as_}: there is no judge {name!r:.60}. {nearest(name, judges)}".rstrip()
                )


def judge_section(raw: object) -> JudgeSection:
    """Validate an element of ``judges:``.

    Raises:
        ValueError: It is not valid. The message names the key and quotes no value, which could be
            a secret.
    """
    form = "a judge is a section: {name: …, model: {backend: …, name: …}}"
    return _validated(JudgeSection, raw, form, [])


def panel_section(raw: object) -> PanelSection:
    """Validate an element of ``panels:``.

    Raises:
        ValueError: It is not valid; the message names the key.
    """
    keys = [field.alias or name for name, field in PanelSection.model_fields.items()]
    form = "a panel is a section: {as: NAME, of: [judge, judge, judge]}"
    return _validated(PanelSection, raw, form, keys)


def _validated(section: type[S], raw: object, form: str, keys: Sequence[str]) -> S:
    if isinstance(raw, section):
        return raw
    if not isinstance(raw, dict):
        raise ValueError(form)
    try:
        return section.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
    loc = [str(part) for part in first["loc"]]
    key = ".".join(shown(part) for part in loc)
    if first["type"] == "extra_forbidden":
        valid = keys or (LimitsSection.model_fields if "limits" in loc else Price.model_fields)
        raise ValueError(f"unknown key {key!r:.60}. {nearest(loc[-1], valid)}".rstrip("."))
    if first["type"] == "missing":
        raise ValueError(f"{key} is missing")
    message = first["msg"].removeprefix("Value error, ")
    raise ValueError(f"{key}: {message}" if key else message)
