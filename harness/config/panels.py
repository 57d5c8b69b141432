"""``panels:`` judges of the run file that decide together.

>>> panel_section({"as": "jury", "of": ["a", "b", "c"]}).by
'majority'
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from harness.errors import nearest

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


def panel_section(raw: object) -> PanelSection:
    """An element of ``panels:``, checked.

    Raises: ValueError naming the key.
    """
    if isinstance(raw, PanelSection):
        return raw
    if not isinstance(raw, dict):
        raise ValueError("a panel is a section: {as: NAME, of: [judge, judge, judge]}")
    try:
        return PanelSection.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        fields = [field.alias or name for name, field in PanelSection.model_fields.items()]
        raise ValueError(f"unknown key {key!r:.60}. {nearest(key, fields)}".rstrip("."))
    if first["type"] == "missing":
        raise ValueError(f"{key} is missing")
    message = first["msg"].removeprefix("Value error, ")
    raise ValueError(f"{key}: {message}" if key else message)
