"""The section ``check`` of run files: the bounds of a gate.

Every command that reads a run file imports this module, so it imports little.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from harness.config.sections import BoundsSection, split_k
from harness.errors import ConfigError, suggest_name
from harness.ports import Task, overrides_method
from harness.records import OUTCOMES

PASS_RATE = "pass_rate"  # noqa: S105 (no password)
WORSE = "worse"
COUNTS = (*(outcome for outcome in OUTCOMES if outcome != "ok"), WORSE)
"""Figures that count: last answers with an outcome, and the instances that pass in the baseline but
fail in the run. They are exact: one that exceeds its bound fails, however few instances there are.
"""
COST = "cost"  # in US dollars, judges included
COST_PER_SAMPLE = "cost_per_sample"
LATENCY = re.compile(r"latency_p([1-9]\d?)")  # a percentile of the calls' durations in seconds


class CheckSection(BoundsSection):
    """Section ``check``: the bounds that `harness check` tests."""

    min: dict[str, float] = Field(default_factory=dict)  # minimum mean by score
    max: dict[str, float] = Field(default_factory=dict)  # maximum by score, or cost or latency
    baseline: str | None = None  # the run to compare with
    max_drop: float | None = Field(default=None, ge=0)  # largest drop below the baseline
    score: str = PASS_RATE  # the compared score
    by: str = ""  # a label whose groups must also meet the bounds
    max_unjudged: float = Field(default=0, ge=0, le=1)  # largest share of samples without a verdict
    too_few: Literal["pass", "fail"] | None = None  # what "too few to tell" counts as

    @model_validator(mode="after")
    def _bounds_something(self) -> CheckSection:
        if self.baseline is None and (self.max_drop is not None or WORSE in self.max):
            raise ValueError("max_drop and max.worse need a baseline: set it to the name of a run")
        if self.baseline is not None and self.max_drop is None and WORSE not in self.max:
            raise ValueError("a baseline needs max_drop or max.worse: set one of them")
        if self.max_drop is not None and self.max_drop > 1 and _is_rate(self.score):
            raise ValueError(above_1(self.max_drop))
        if not self.min and not self.max and self.baseline is None:
            raise ValueError("there is no bound: set min, max, or baseline and max_drop")
        for side, bounds in (("min", self.min), ("max", self.max)):
            for score, bound in bounds.items():
                if _is_rate(score) and not 0 <= bound <= 1:
                    raise ValueError(beyond_a_rate(f"{side}.{score}", bound))
        return self

    @property
    def scores(self) -> list[str]:
        """The names of the scores that have bounds or are compared with the baseline."""
        names = list(self.min)
        for name in self.max:
            if name not in (COST, COST_PER_SAMPLE, *COUNTS) and not LATENCY.fullmatch(name):
                names.append(name)
        if self.baseline:
            names.append(self.score)
        return names

    @override
    def check_scores(self, task: Task[Any], samples: int, judges: Collection[str]) -> None:
        if not overrides_method(task, Task.score_names):
            return
        names = {PASS_RATE}
        unknown = set()
        for name in self.scores:
            k = split_k(name)[1]
            if k > samples:
                problem = f"check: {name!r:.60} needs more than samples: {samples}."
                raise ConfigError(problem, "Raise samples, or lower the number after '@' or '^'.")
            # A name with a dot may be the score of a judge that is added after the run.
            if not k and "." not in name and name != PASS_RATE:
                unknown.add(name)
        for instance in task.instances() if unknown else ():
            names.update(task.score_names(instance) or ())
            if unknown <= names:
                return
        for name in sorted(unknown - names):
            remedy = suggest_name(name, names)
            if name in judges:
                remedy = f"Write '{name}.SCORE'; 'harness docs judges' lists the scores of judges."
            problem = f"check: {name!r:.60} is not a score of the task or of a judge."
            raise ConfigError(problem, remedy)


CHECK = CheckSection | None
"""The type of the key ``check``."""


def _is_rate(score: str) -> bool:
    return re.match(r"pass_rate$|(pass|any)[@^]", score) is not None


def beyond_a_rate(key: str, bound: float) -> str:
    """Return the error message for a rate's bound that is below 0 or above 1."""
    return f"{key} is {bound:g}: a rate is between 0 and 1, like 0.9"


def above_1(max_drop: float) -> str:
    """Return the error message for a ``max_drop`` above 1."""
    points = f"for {max_drop:g} points, write {max_drop / 100:g}"
    return f"max_drop is {max_drop:g}, but a rate cannot drop by more than 1: {points}"
