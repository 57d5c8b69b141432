"""``task.shots:`` which worked examples are put before an instance, and how they are written.

>>> ShotsSection.model_validate(3) == ShotsSection(n=3)
True
"""

from __future__ import annotations

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
