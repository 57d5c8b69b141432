"""A run's calls, tokens and cost as texts."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.metrics import Metrics
from harness.records import CallTotals, Usage
from harness.report.text import format_usd
from harness.wording import format_count


def cost_facts(metrics: Metrics) -> Iterator[tuple[str, str]]:
    """Yield a run's calls, tokens and cost as pairs of a name and a text."""
    yield "calls", format_call_count(metrics)
    yield from _token_facts(metrics.usage, metrics.n_calls_without_usage)
    yield "cost", format_cost(metrics)
    yield from calls_by_model(metrics)
    if metrics.cost_per_solved_usd:
        cost = format_usd(metrics.cost_per_solved_usd)
        yield "per solved instance", f"{cost} ({metrics.n_solved:,} solved)"


def _token_facts(usage: Usage | None, n_calls_without_usage: int) -> Iterator[tuple[str, str]]:
    if usage is None:
        yield "tokens", "unknown"
        return
    uncounted = ""
    if n_calls_without_usage:
        uncounted = f", {format_count(n_calls_without_usage, 'call')} not counted"
    cached = f"{usage.cached_input_tokens:,} cached by provider"
    if usage.cached_input_tokens:
        cached += f", {usage.cached_input_tokens / (usage.input_tokens or 1):.0%}"
    if usage.cache_write_tokens:
        cached += f"; {usage.cache_write_tokens:,} written to its cache"
    yield "tokens in", f"{usage.input_tokens:,} ({cached}){uncounted}"
    reasoning = f"{usage.reasoning_tokens:,} reasoning"
    yield "tokens out", f"{usage.output_tokens:,} ({reasoning}){uncounted}"


def calls_by_model(metrics: Metrics) -> Iterator[tuple[str, str]]:
    """Yield the calls and cost of each model of a run that uses several."""
    if metrics.model_calls is None:
        return
    totals: dict[str, CallTotals] = {"the model": metrics.model_calls}
    if metrics.user_calls is not None:
        totals["the played user"] = metrics.user_calls
    for name, judge in metrics.judges.items():
        if judge.n_calls or judge.model:  # a panel makes no calls; its judges do
            totals[f"judge {name}"] = judge
    for name, calls in totals.items():
        yield f"  {name}", f"{format_call_count(calls, 'call')}, {format_cost(calls)}"


def format_call_count(calls: Metrics | CallTotals, unit: str = "") -> str:
    """Format a number of calls, with those from the cache and those that crashed.

    Args:
        calls: The totals of the calls.
        unit: The noun that follows the number, or "" for the number alone.
    """
    total = calls.n_calls + calls.n_crashed_calls
    text = format_count(total, unit) if unit else f"{total:,}"
    subsets = []
    if calls.n_cached_calls:
        subsets.append(f"{total - calls.n_cached_calls:,} by this run")
        subsets.append(f"{calls.n_cached_calls:,} from the cache")
    if calls.n_crashed_calls:
        subsets.append(f"{calls.n_crashed_calls:,} crashed")
    if subsets:
        text += f" ({', '.join(subsets)})"
    return text


def format_cost(calls: Metrics | CallTotals) -> str:
    """Format the cost of calls, with the amounts that are unknown, from the cache, or computed."""
    cost = format_usd(calls.cost_usd)
    n_unpriced = calls.n_calls_without_cost
    if 0 < n_unpriced < calls.n_calls:
        unpriced = format_count(n_unpriced, "call")
        cost += f" ({format_usd(calls.known_cost_usd)} and {unpriced} of unknown cost)"
    elif calls.known_cost_usd > calls.paid_usd:
        cost += f" ({format_usd(calls.paid_usd)} of it paid by this run, the rest from the cache)"
    if calls.computed_usd:
        computed = format_usd(calls.computed_usd)
        cost += f"; {computed} of it computed from tokens at a price set afterwards"
    return cost
