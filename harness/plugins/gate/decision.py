"""Decisions on bounds, given the uncertainty of the figures."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from functools import lru_cache
from math import ceil, isinf
from typing import Literal, get_args

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from harness.analysis.clustered import share_interval
from harness.analysis.distributions import binomial_cdf, t_quantile
from harness.analysis.metrics import Interval
from harness.plugins.comparisons.comparison import Method
from harness.plugins.comparisons.p_values import ALPHA, POWER, first_integer, needed_instances

Outcome = Literal["failed", "too few to tell", "passed"]  # worst first

GateMethod = Literal["clustered mean", "weighted clustered mean", "exact"]
CHANGE = "change of "  # begins the name of a figure that is compared with the baseline
MEAN: GateMethod = "clustered mean"
WEIGHTED: GateMethod = "weighted clustered mean"


class Decision(Struct, frozen=True, kw_only=True):
    """The decision on a score's mean or change, a cost or a latency."""

    what: str  # the name of the score or figure; "change of …" against a baseline
    group: str = ""  # the group of the label that was asked for; empty for the whole run
    value: float | None
    ci95: Interval | None = None  # 95%, over all decisions together
    method: Method | GateMethod = MEAN
    bound: float
    at_most: bool = False  # whether the bound is a maximum
    n: int  # instances; with a baseline, those that both runs have
    n_clusters: int = 0
    stderr: float | None = None  # clustered
    degrees: float | None = None  # of freedom of t; by default, clusters minus 1
    effective_n: float | None = None  # of a share, as in `Statistic`
    outcome: Outcome = "too few to tell"
    needed: int | None = None  # instances that decide in 80% of cases if the true value is this one
    not_judged: int = 0  # pairs that are excluded because an answer of either run has no verdict
    bounds: Interval | None = None  # of a change, given the unjudged samples (`Comparison.bounds`)

    @property
    def value_breaks_bound(self) -> bool:
        """Whether the value itself, without its uncertainty, breaks the bound."""
        if self.value is None:
            return False
        return self.value > self.bound if self.at_most else self.value < self.bound

    @property
    def biased(self) -> bool:
        """Whether the change could be beyond the bound if all unjudged samples were judged."""
        return self.bounds is not None and self.bounds[0] < self.bound


def worst(outcomes: Collection[Outcome]) -> Outcome:
    """Return the worst of several outcomes, or "passed" if there are none."""
    for outcome in get_args(Outcome):
        if outcome in outcomes:
            return outcome  # type: ignore[no-any-return]
    return "passed"


def decided(decision: Decision, decisions: int) -> Decision:
    """Return a decision with its outcome, its widened interval and the instances ``needed``.

    The interval is widened (Bonferroni) for the number of ``decisions`` that are made together. A
    decision without a value or an interval is returned unchanged.
    """
    if decision.value is None or decision.ci95 is None:
        return decision
    if decision.effective_n is not None:
        low, high = share_interval(decision.value, decision.effective_n, decisions)
    else:
        degrees = _degrees(decision)
        wider = t_quantile(degrees, 1 - ALPHA / 2 / decisions)
        wider /= t_quantile(degrees, 1 - ALPHA / 2)
        low, high = decision.ci95
        low = decision.value + (low - decision.value) * wider
        high = decision.value + (high - decision.value) * wider
    if decision.at_most:
        within = high <= decision.bound
        beyond = low > decision.bound
    else:
        within = low >= decision.bound
        beyond = high < decision.bound
    outcome: Outcome = "too few to tell"
    needed = None
    if beyond:
        outcome = "failed"
    elif within and not decision.biased:
        outcome = "passed"
    elif not within and decision.value != decision.bound:
        needed = _needed(decision, decision.value, decision.ci95, decisions)
    return replace(decision, ci95=(low, high), outcome=outcome, needed=needed)


def _degrees(decision: Decision) -> float:
    return decision.degrees or max((decision.n_clusters or decision.n) - 1.0, 1.0)


def _needed(decision: Decision, value: float, ci95: Interval, decisions: int) -> int:
    """Return how many instances decide in 80% of cases if the true value is this one."""
    n = decision.n
    if decision.effective_n is not None:
        verdicts = needed_verdicts(value, decision.bound, decisions)
        per_instance = decision.effective_n / n
        if decision.stderr:  # more instances also give the error more degrees of freedom
            per_instance = max(per_instance, value * (1 - value) / decision.stderr**2 / n)
        needed = ceil(n + (verdicts - decision.effective_n) / per_instance)
    else:
        degrees = _degrees(decision)
        units = decision.n_clusters or n
        distance = abs(value - decision.bound)
        t = t_quantile(degrees, 1 - ALPHA / 2)
        stderr = decision.stderr or (ci95[1] - ci95[0]) / 2 / t
        needed = needed_instances(n, units, degrees, stderr / distance, decisions)
        if decision.method == "exact McNemar":
            # The continuity correction of Fleiss, Levin and Paik (2003, section 2.5).
            needed = ceil(needed + n / units / distance)
    return max(needed, n + 1)


def percentile_interval(
    ordered: NDArray[np.float64], q: float, effective_n: float | None, decisions: int = 1
) -> Interval | None:
    """Return the interval of a percentile, between two order statistics, or None if there are few.

    It consists of the bounds for which the share of values within them, by its exact interval, may
    be ``q``, so that it contains a bound if and only if the decision on the bound is open.

    Args:
        ordered: (n,) The values in ascending order, infinite where only a lower bound is known.
        q: The percentile as a share, from 0 to 1.
        effective_n: The number of independent values that are as informative (`Estimate`).
        decisions: The number of decisions made together, for which it is widened (Bonferroni).
    """
    if effective_n is None:
        return None
    n = len(ordered)

    def ends(within: int) -> Interval:
        return share_interval(within / n, effective_n, decisions)

    first = bisect_left(range(n + 1), True, key=lambda within: ends(within)[1] >= q)
    last = bisect_left(range(n + 1), True, key=lambda within: ends(within)[0] >= q)
    if first == 0 or last > n or isinf(ordered[last - 1]):
        return None
    return float(ordered[first - 1]), float(ordered[last - 1])


@lru_cache(maxsize=1024)
def needed_verdicts(rate: float, bound: float, comparisons: int = 1) -> int:
    """Return how many independent verdicts tell a rate from a bound in 80% of cases.

    With so many verdicts, `share_interval` excludes the bound with at least this probability, and
    with one less it does not. The power may fall again as verdicts are added, because the number of
    successes that excludes the bound is a whole number.

    Args:
        rate: The true rate, which differs from the bound.
        bound: The bound.
        comparisons: The number of comparisons for which the interval is widened (Bonferroni).
    """
    if rate > bound:
        return needed_verdicts(1 - rate, 1 - bound, comparisons)

    def power(n: int) -> float:
        tail = ALPHA / 2 / comparisons
        too_many = first_integer(lambda successes: binomial_cdf(successes, n, bound) > tail, 0)
        return binomial_cdf(too_many - 1, n, rate) if too_many else 0.0

    return first_integer(lambda n: power(n) >= POWER, 1)
