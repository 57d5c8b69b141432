"""``judges:`` models that score answers, and ``panels:`` of judges that decide together.

>>> JudgeSection.model_validate({"name": "rubric", "model": {"backend": "simulated"}}).as_
'rubric'
>>> PanelSection.model_validate({"as": "jury", "of": ["a", "b", "c"]}).by
'majority'
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from harness.config.sections import PluginSection, SecondModelSection
from harness.config.validation import Section
from harness.errors import nearest


def _check_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,59}", name):
        raise ValueError(
            "letters, digits, '_' and '-' only, at most 60 characters: the name becomes a prefix "
            "of score names"
        )
    return name


JudgeName = Annotated[str, AfterValidator(_check_name), Field(alias="as")]


class JudgeSection(PluginSection):
    """An element of ``judges:`` a judge, its model, and the judge's options.

    `as_` is its name in the run (key ``as``; default: the plug-in's `name`), and its scores are
    ``AS.SCORE``. The model's ``limits:`` may be inside it or beside it.
    """

    model_config = ConfigDict(extra="allow", frozen=True, serialize_by_alias=True)

    name: str
    as_: JudgeName
    model: SecondModelSection

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        tree = dict(raw)
        if tree.get("as") is None:
            tree["as"] = tree.get("name", "unnamed")
        limits, model = tree.pop("limits", None), tree.get("model")
        if limits is not None and isinstance(model, dict):
            if model.get("limits") is not None:
                raise ValueError("limits is inside model and beside it: remove one of them")
            tree["model"] = {**model, "limits": limits}
        return tree


class PanelSection(Section):
    """An element of ``panels:`` judges that decide together, without calls of their own.

    Its scores are ``AS.SCORE``, and only its verdict counts, not the members'. `passes_from` is the
    lowest mean that passes; `quorum` judges must have a verdict, by default more than half.
    """

    model_config = ConfigDict(serialize_by_alias=True)

    as_: JudgeName
    of: tuple[str, ...]
    by: Literal["majority", "mean"] = "majority"
    passes_from: float | None = None
    quorum: int | None = Field(default=None, ge=1, strict=True)

    @model_validator(mode="after")
    def _can_decide(self) -> PanelSection:
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
        """Check that all members are judges of the run. Raises ValueError."""
        for name in self.of:
            if name not in judges:
                said = f"the panel {self.as_!r}: there is no judge {name!r:.60}."
                raise ValueError(f"{said} {nearest(name, judges)}".rstrip())
