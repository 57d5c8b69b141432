"""Scripted models with a call stack, and plans on the toy task."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from harness.calls.backend_layers import TimedCalls
from harness.calls.calls import Calls, UncachedCalls
from harness.calls.concurrency import ConcurrencyLimiter
from harness.calls.keys import call_key
from harness.calls.rate_limits import RateLimits
from harness.calls.signals import Stop
from harness.config.prices import FREE, Price
from harness.config.sections import JudgeSection, LimitsSection, ModelSection
from harness.engine.judges import JudgeModel
from harness.engine.models import Model
from harness.engine.plan import RunPlan
from harness.engine.session import BoundModel
from harness.ports import Judge, Task
from harness.records import Instance
from harness.store.index import AttemptIndex
from tests.conftest import Scripted, Sums, run_file

QUARTER = Price(input=0, output=125_000)
"""A scripted reply has two output tokens: a quarter of a dollar."""


def bound(
    backend: Scripted,
    stop: Stop,
    *,
    name: str = "m",
    price: Price = FREE,
    calls: Calls | None = None,
    slots: int = 4,
) -> BoundModel:
    """A scripted model behind a limiter, or with the given call stack."""
    rates = RateLimits({})
    section = ModelSection(backend="scripted", name=name)
    model = Model(section, backend, LimitsSection(concurrency=slots), rates, price)
    limiter = ConcurrencyLimiter(TimedCalls(backend.generate, 10), stop, ceiling=slots, rates=rates)
    free = UncachedCalls(limiter, partial(call_key, "scripted", ""))
    return BoundModel(model, calls or free)


def judge_model(name: str, judge: Judge, bound: BoundModel, task: Task[Any]) -> JudgeModel:
    """A judge of this name that asks a bound model."""
    model = {"backend": "scripted", "name": "m"}
    section = JudgeSection.model_validate({"name": "yes_no", "as": name, "model": model})
    return JudgeModel(section, judge, bound.model, task)


def plan(
    path: Path,
    task: Sums | None = None,
    *,
    instances: Iterable[Instance[Any]] | None = None,
    **run: Any,
) -> RunPlan:
    """The plan of a run on the toy task, given the path of its attempts."""
    task = task or Sums()
    held = list(task.instances()) if instances is None else instances
    return RunPlan(task, run_file(**run), held, AttemptIndex(path))
