"""Metrics of runs that were never run, with given means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from harness.analysis.metrics import Group, Mean, Metrics, Rate, Rounds

NO_ROUNDS = Rounds(
    each={}, each_stderr={}, n={}, any_of_first_k={}, any_of_first_k_stderr={}, any_of_first_k_n={}
)


def group(value: float | None, n: int = 100, stderr: float = 0.01, **changes: Any) -> Group:
    """A group with a mean of the score ``f1``, and half of it as pass rate."""
    made = Group(
        mean=None if value is None else value / 2,
        stderr=stderr,
        n=n,
        n_clusters=n,
        scores={} if value is None else {"f1": Mean(mean=value, stderr=stderr, n=n, n_clusters=n)},
        pass_at_k={},
        pass_at_k_stderr={},
        pass_at_k_instances=n,
        rounds=NO_ROUNDS,
    )
    return replace(made, **changes)


def metrics_of(
    name: str,
    values: Mapping[str, float | None],
    encoding: str = "",
    *,
    groups: Mapping[str, Mapping[str, Group]] | None = None,
    stderr: float = 0.01,
    **changes: Any,
) -> Metrics:
    """The metrics of a run with these means by task; 100 instances each."""
    labels: dict[str, dict[str, Group]] = {
        "task": {task: group(value, stderr=stderr) for task, value in values.items()},
        "parity": {"odd": group(0.5)},
    }
    if encoding:
        labels |= {"encoding": {encoding: group(0.5)}, "examples": {"0": group(0.5)}}
    labels |= {label: dict(found) for label, found in (groups or {}).items()}
    n = 100 * len(labels["task"])
    metrics = Metrics(
        run=name,
        task="toys",
        model="m",
        simulated=False,
        n_planned=n,
        n_owed=0,
        n_instances=n,
        n_samples=n,
        n_attempts=n,
        n_clusters=n,
        outcomes={"ok": n},
        overall=Rate(mean=0.5, n=n, n_clusters=n),
        measure="f1",
        scores={"f1": Mean(mean=0.5, n=n, n_clusters=n)},
        groups=labels,
        pass_at_k={},
        pass_at_k_stderr={},
        pass_at_k_instances=n,
        rounds=NO_ROUNDS,
        n_calls=n,
        usage=None,
        n_calls_without_usage=n,
        cost_usd=0.0,
        known_cost_usd=0.0,
        n_calls_without_cost=0,
    )
    return replace(metrics, **changes)
