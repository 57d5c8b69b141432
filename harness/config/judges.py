"""``judges:`` models that score answers.

>>> judge_section({"name": "rubric", "model": {"backend": "simulated"}}).as_
'rubric'
"""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator

from harness.config.panels import check_judge_name
from harness.config.prices import Price
from harness.config.secrets import shown
from harness.config.sections import LimitsSection, PluginSection, SecondModelSection
from harness.errors import nearest


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
