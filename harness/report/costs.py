"""A run's calls, tokens and cost as texts."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.metrics import Metrics
from harness.records import CallFigures
from harness.report.text import usd
from harness.wording import count_of


def cost_facts(metrics: Metrics) -> Iterator[tuple[str, str]]:
    """Yield a run's calls, tokens and cost, each as a name and a text."""
    yield "calls", number_of_calls(metrics)
    usage = metrics.usage
    missing = ""
    if metrics.n_calls_without_usage:
        missing = f", {count_of(metrics.n_calls_without_usage, 'call')} not counted"
    if usage is None:
        yield "tokens", "unknown"
    else:
        cached = f"{usage.cached_input_tokens:,} cached by provider"
        if usage.cached_input_tokens:
            cached += f", {usage.cached_input_tokens / (usage.input_tokens or 1):.0%}"
        if usage.cache_write_tokens:
            cached += f"; {usage.cache_write_tokens:,} written to its cache"
        yield "tokens in", f"{usage.input_tokens:,} ({cached}){missing}"
        reasoning = f"{usage.reasoning_tokens:,} reasoning"
        yield "tokens out", f"{usage.output_tokens:,} ({reasoning}){missing}"
    yield "cost", sum_of_money(metrics)
    yield from calls_by_model(metrics)
    if metrics.cost_per_solved_usd:
        cost = usd(metrics.cost_per_solved_usd)
        yield "per solved instance", f"{cost} ({metrics.n_solved:,} solved)"


def calls_by_model(metrics: Metrics) -> Iterator[tuple[str, str]]:
    """Yield the calls and cost of each model of a run that uses several."""
    if metrics.model_calls is None:
        return
    parts: dict[str, CallFigures] = {"the model": metrics.model_calls}
    if metrics.user_calls is not None:
        parts["the played user"] = metrics.user_calls
    for name, judge in metrics.judges.items():
        if judge.n_calls or judge.model:  # a panel makes no calls of its own; its judges do
            parts[f"judge {name}"] = judge
    for name, part in parts.items():
        calls = number_of_calls(part, "call")
        yield f"  {name}", f"{calls}, {sum_of_money(part)}"


def number_of_calls(calls: Metrics | CallFigures, unit: str = "") -> str:
    """Format a number of calls, with those from the cache and those that crashed."""
    total = calls.n_calls + calls.n_crashed_calls
    number = count_of(total, unit) if unit else f"{total:,}"
    parts = []
    if calls.n_cached_calls:
        parts.append(f"{total - calls.n_cached_calls:,} by this run")
        parts.append(f"{calls.n_cached_calls:,} from the cache")
    if calls.n_crashed_calls:
        parts.append(f"{calls.n_crashed_calls:,} crashed")
    if parts:
        number += f" ({', '.join(parts)})"
    return number


def sum_of_money(calls: Metrics | CallFigures) -> str:
    """Format the cost of calls, with what is unknown, paid by other runs, or computed."""
    cost = usd(calls.cost_usd)
    n_unpriced = calls.n_calls_without_cost
    if 0 < n_unpriced < calls.n_calls:
        cost += f" ({usd(calls.known_cost_usd)} and {count_of(n_unpriced, 'call')} of unknown cost)"
    elif calls.known_cost_usd > calls.paid_usd:
        cost += f" ({usd(calls.paid_usd)} of it paid by this run, the rest from the cache)"
    if calls.computed_usd:
        cost += f"; {usd(calls.computed_usd)} of it computed from tokens at a price set afterwards"
    return cost
