"""Simulates whether intervals, tests, bounds and stated powers hold what the tables promise.

    python scripts/simulate_statistics.py                # all parts, half an hour
    python scripts/simulate_statistics.py rates power    # these parts
    python scripts/simulate_statistics.py --quick        # few designs and repetitions

Each line is a design that is simulated many times. A figure is marked with ! if it is beyond its
limits by more than three standard deviations of the simulation; the exit code is then 1.

covered: share of 95% intervals that contain the true value; "near": likewise, if the true rate is
    drawn from within 0.02 of the stated one.
failed, exceeded: share of intervals below, or above, the true value. A minimum, or a maximum, of
    `harness check` that equals the true value is then called broken: a false alarm.
width: mean width, divided by that of Clopper and Pearson's interval for as many independent
    verdicts as the design is worth.
p < 0.05: share of significant differences.
power: share of runs of the needed size that are decided, or of differences that are detected.

A sample passes if a sum of normal variables with total variance 1 is below a threshold, so that the
true rates are exact. The samples of a prompt share some of the variance. Draws depend on --seed.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.analysis.clustered import (
    Estimate,
    clustered_mean,
    clustered_means,
    linearised_share,
    share_interval,
)
from harness.analysis.metrics import Interval
from harness.plugins.comparisons.comparison import Comparison, Pairs, compare
from harness.plugins.comparisons.p_values import ALPHA
from harness.plugins.comparisons.strata import mean_of_groups
from harness.plugins.comparisons.strata import paired as paired_t
from harness.plugins.comparisons.table_figures import mean_of_ratios
from harness.plugins.gate.decision import Decision, decided, percentile_interval

Floats = NDArray[np.float64]
Places = NDArray[np.int_]

SEED = 241_100_640
REPETITIONS = 2_000
QUICK = 300
PILOTS = 2_000  # of which few have exactly the true difference
DEVIATIONS = 3
BLOCK = 2_000_000  # verdicts that are drawn at a time

RATES = (0.5, 0.7, 0.85, 0.9, 0.98, 0.99, 0.995, 0.999)
NEAR = 0.02
GROUP_SIZES = (
    *((prompts,) * groups for groups, prompts in product((2, 5), (2, 3, 5, 20))),
    *((size, 20) for size in (2, 3, 4, 5, 6, 8)),
    *((20, 2), (2, 3), (2, 5), (2, 10), (2, 2, 20), (2, 3, 4), (2, 5, 20), (2, 19, 20)),
    *((2, 20, 20, 20), (20, 20, 20, 2), (5, 20, 20, 20), (2, 2, 2, 20, 20, 20)),
    (2,) * 10 + (20,) * 3,
    *((3, 100), (6, 100), (10, 100), (8, 50), (20, 100, 200)),
)
SAMPLES = ((1, 0.0), (4, 0.5), (20, 0.6), (20, 0.8))
"""Samples of each prompt, and the share of the variance that they have in common."""
LARGEST_RATE = 0.9995
LARGEST_RUN = 4_000  # verdicts
POWER = (0.78, 0.82)
ROUGH_POWER = (0.74, 0.87)  # for rates near 1, or a pilot run of 40 instances


@dataclass(frozen=True)
class Settings:
    """How thorough a simulation is."""

    repetitions: int = REPETITIONS
    seed: int = SEED
    quick: bool = False

    def chance(self, design: str) -> np.random.Generator:
        """Return the source of a design's draws, which does not depend on the other designs."""
        return np.random.default_rng((self.seed, zlib.crc32(design.encode())))


@dataclass(frozen=True)
class Figure:
    """A figure of a design, with its limits and the standard deviation of its simulation."""

    name: str
    value: float
    low: float = 0.0
    high: float = 1.0
    deviation: float = 0.0

    @property
    def missed(self) -> bool:
        """Whether the figure is beyond its limits, by more than chance."""
        reach = DEVIATIONS * self.deviation
        return not self.low - reach <= self.value <= self.high + reach


Line = tuple[str, list[Figure]]


def share(
    name: str, cases: Sequence[bool] | NDArray[Any], low: float = 0.0, high: float = 1.0
) -> Figure:
    """Return the share of true cases, whose deviation is that of a share at the nearer limit."""
    value = float(np.mean(cases))
    limit = low if value < low else high
    return Figure(name, value, low, high, sqrt(limit * (1 - limit) / len(cases)))


def threshold(rate: Floats | float) -> Floats:
    """Return the normal quantile of a rate."""
    from scipy.special import ndtri

    return np.asarray(ndtri(rate), np.float64)


def verdicts(
    chance: np.random.Generator, rates: Floats, prompts: int, samples: int, shared: float
) -> Floats:
    """Return (r, prompts, samples) verdicts, for each of r rates.

    ``shared`` is the share of the variance that the samples of a prompt have in common.
    """
    failing = sqrt(1 - shared) * chance.standard_normal((len(rates), prompts, samples))
    if shared:
        failing += sqrt(shared) * chance.standard_normal((len(rates), prompts, 1))
    return (failing < threshold(rates)[:, None, None]).astype(np.float64)


Simulate = Callable[[np.random.Generator, Floats], Iterable[Estimate]]
"""A function that simulates a run for each of several true rates, and returns the estimates."""


@dataclass(frozen=True)
class Limits:
    """The limits of a rate's figures, as stated in docs/concepts.md and docs/check.md."""

    near: tuple[float, float] = (0.94, 1.0)
    covered: float = 0.9
    failed: float = 0.025
    exceeded: float = 0.025
    width: float = 10.0


def rate_figures(
    settings: Settings, design: str, rate: float, simulate: Simulate, limits: Limits
) -> Line:
    """Return the figures of a rate's interval, for a design."""
    chance = settings.chance(design)
    truth = chance.uniform(rate - NEAR, min(rate + NEAR, LARGEST_RATE), settings.repetitions)
    near = ends(run.ci95 for run in simulate(chance, truth))
    runs = list(simulate(chance, np.full(settings.repetitions, rate)))
    intervals = ends(run.ci95 for run in runs)
    return design, [
        coverage("near", near, truth, *limits.near),
        coverage("covered", intervals, rate, limits.covered),
        share("failed", intervals[:, 1] < rate, 0.0, limits.failed),
        share("exceeded", intervals[:, 0] > rate, 0.0, limits.exceeded),
        Figure("width", relative_width(runs, intervals, rate), 0.0, limits.width, 0.01),
    ]


def ends(intervals: Iterable[Interval | None]) -> Floats:
    """Return (r, 2) bounds of intervals of shares. An unknown one excludes nothing."""
    return np.array([interval or (0.0, 1.0) for interval in intervals])


def coverage(
    name: str, intervals: Floats, truth: Floats | float, low: float, high: float = 1.0
) -> Figure:
    """Return the share of intervals that contain the true value."""
    return share(name, (intervals[:, 0] <= truth) & (truth <= intervals[:, 1]), low, high)


def relative_width(runs: list[Estimate], intervals: Floats, rate: float) -> float:
    """Return the mean width relative to that of independent verdicts with the same variance."""
    means = np.array([run.mean for run in runs])
    size = rate * (1 - rate) / max(float(np.square(means - rate).mean()), 1e-12)
    exact = np.array([share_interval(mean, size) for mean in means[:QUICK].tolist()])
    return float(np.diff(intervals[:QUICK]).mean() / np.diff(exact).mean())


def rates(settings: Settings) -> Iterator[Line]:
    """Rates of runs with equally many samples of each prompt."""
    designs = product(RATES, (5, 12, 35, 100, 300, 1_000), SAMPLES)
    if settings.quick:
        designs = product((0.5, 0.85, 0.99), (5, 35, 100), ((1, 0.0), (4, 0.5), (20, 0.8)))
    for rate, prompts, (samples, shared) in designs:
        if prompts * samples > LARGEST_RUN:
            continue

        def simulate(
            chance: np.random.Generator,
            truth: Floats,
            shape: tuple[int, int, float] = (prompts, samples, shared),
        ) -> Iterator[Estimate]:
            size = max(1, BLOCK // (shape[0] * shape[1]))
            for start in range(0, len(truth), size):
                yield from estimates(verdicts(chance, truth[start : start + size], *shape))

        design = f"rate {rate} prompts {prompts} samples {samples} shared {shared}"
        yield rate_figures(settings, design, rate, simulate, rate_limits(rate, prompts))


def rate_limits(rate: float, prompts: float) -> Limits:
    """Return the limits of a rate's figures: stricter if 10 or more prompts fail on average.

    Prompts of unequal weight count as so many of equal weight (Kish 1965).
    """
    if prompts * (1 - rate) < 10:
        return Limits()
    return Limits(near=(0.94, 0.975), width=1.15)


def estimates(values: Floats) -> list[Estimate]:
    """Return the estimated means of r runs, given (r, prompts, samples) values."""
    runs, prompts, samples = values.shape
    units = np.arange(runs * prompts).repeat(samples)
    of_run = clustered_means(values.ravel(), units, np.arange(runs).repeat(prompts))
    return [of_run[run] for run in range(runs)]


def unequal(settings: Settings) -> Iterator[Line]:
    """Rates of runs whose prompts have 1 to 6 instances, with one reply for all of them."""
    designs = product((0.5, 0.9, 0.98), (12, 35, 100, 300))
    if settings.quick:
        designs = product((0.9,), (35, 100))
    for rate, prompts in designs:

        def simulate(
            chance: np.random.Generator, truth: Floats, prompts: int = prompts
        ) -> Iterator[Estimate]:
            for true in truth:
                sizes = chance.choice(PROMPT_SIZES, size=prompts)
                clusters = np.arange(prompts).repeat(sizes)
                drawn = verdicts(chance, np.array([true]), prompts, max(PROMPT_SIZES), 0.7)[0]
                yield clustered_mean(drawn[np.arange(6) < sizes[:, None]], clusters)

        design = f"rate {rate} prompts {prompts} of 1 to 6 instances"
        yield rate_figures(settings, design, rate, simulate, rate_limits(rate, prompts))


def weighted(settings: Settings) -> Iterator[Line]:
    """Means weighted by 1 to 5 instructions of each prompt, with one sample per prompt."""
    designs = product((0.5, 0.8, 0.9, 0.98, 0.995), (5, 20, 100, 1_000))
    if settings.quick:
        designs = product((0.5, 0.98), (20, 100))
    for rate, prompts in designs:

        def simulate(
            chance: np.random.Generator, truth: Floats, prompts: int = prompts
        ) -> Iterator[Estimate]:
            for true in truth:
                counts = chance.integers(1, 6, prompts)
                drawn = verdicts(chance, np.array([true]), prompts, 5, 0.3)[0]
                passed = (drawn * (np.arange(5) < counts[:, None])).sum(axis=1)
                yield linearised_share(passed, counts.astype(np.float64), np.arange(prompts))

        design = f"weighted mean {rate} prompts {prompts} weights 1 to 5"
        yield rate_figures(settings, design, rate, simulate, rate_limits(rate, prompts))


def averages(settings: Settings) -> Iterator[Line]:
    """Averages of the rates of groups, whose true rates differ by up to 0.2."""
    designs = product((0.6, 0.85), GROUP_SIZES, ((1, 0.0), (5, 0.5)))
    if settings.quick:
        designs = product((0.7,), ((2, 2, 2), (2, 20, 20, 20)), ((1, 0.0), (5, 0.5)))
    for rate, sizes, (samples, shared) in designs:
        group = np.arange(len(sizes)).repeat(sizes)

        def simulate(
            chance: np.random.Generator,
            truth: Floats,
            group: Places = group,
            samples: int = samples,
            shared: float = shared,
        ) -> Iterator[Estimate]:
            spread = np.linspace(-0.1, 0.1, int(group[-1]) + 1)[group]
            prompts = np.arange(len(group))
            for true in truth:
                drawn = verdicts(chance, true + spread, 1, samples, shared)
                yield mean_of_groups(drawn.ravel(), prompts.repeat(samples), group.repeat(samples))

        design = f"average {rate} prompts {','.join(map(str, sizes))} samples {samples}"
        kish = len(sizes) ** 2 / sum(1 / size for size in sizes)
        limits = rate_limits(rate, kish)
        if min(sizes) < max(sizes):
            limits = replace(limits, near=(0.93, limits.near[1]), failed=0.05, exceeded=0.05)
        yield rate_figures(settings, design, rate, simulate, limits)


def numbers(settings: Settings) -> Iterator[Line]:
    """Means of scores that are no shares: normal, and lengths with an exponential distribution."""
    designs = product(("normal", "exponential"), (5, 20, 100, 1_000))
    if settings.quick:
        designs = product(("normal", "exponential"), (5, 100))
    for kind, prompts in designs:
        design = f"{kind} scores prompts {prompts} samples 2"
        chance = settings.chance(design)
        draw = chance.standard_normal if kind == "normal" else chance.standard_exponential
        values = draw((settings.repetitions, prompts, 1)).repeat(2, axis=2)
        intervals = [run.clipped_ci95() or (0.0, 0.0) for run in estimates(values)]
        truth = 0.0 if kind == "normal" else 1.0
        least = 0.94 if kind == "normal" else 0.87
        yield design, [coverage("covered", np.array(intervals), truth, least, 0.975)]


def percentiles(settings: Settings) -> Iterator[Line]:
    """Percentiles of the latencies of runs that have an interval, with an exponential tail."""
    designs = product((0.5, 0.9, 0.95, 0.99), (40, 100, 500), (1, 4))
    if settings.quick:
        designs = product((0.5, 0.95), (100,), (1, 4))
    for q, prompts, samples in designs:
        design = f"latency p{100 * q:g} prompts {prompts} samples {samples}"
        chance = settings.chance(design)
        of_prompt = chance.standard_normal((settings.repetitions, prompts, 1))
        of_call = chance.standard_normal((settings.repetitions, prompts, samples))
        seconds = np.exp(sqrt(0.3) * of_prompt + sqrt(0.7) * of_call)
        truth = float(np.exp(threshold(q)))
        runs = estimates((seconds <= truth).astype(np.float64))
        intervals = [
            percentile_interval(np.sort(times.ravel()), q, run.effective_n)
            for times, run in zip(seconds, runs, strict=True)
        ]
        known = [interval for interval in intervals if interval is not None]
        if len(known) > settings.repetitions / 2:
            yield design, [coverage("covered", np.array(known), truth, 0.93, 0.98)]


def agreement(settings: Settings) -> Iterator[Line]:
    """Cohen's kappa and macro-F1 of a judge who agrees with 80% of independent labels."""
    from harness.plugins.judging.validation import cohens_kappa  # no other part needs the plug-in

    designs = product((0.5, 0.8), (20, 100, 1_000))
    if settings.quick:
        designs = product((0.5,), (100,))
    for rate, n in designs:
        yes = 0.8 * rate + 0.2 * (1 - rate)
        by_chance = rate * yes + (1 - rate) * (1 - yes)
        kappa = (0.8 - by_chance) / (1 - by_chance)
        f1 = (1.6 * rate / (rate + yes) + 1.6 * (1 - rate) / (2 - rate - yes)) / 2
        design = f"judge, labels {rate} criteria {n}"
        chance = settings.chance(design)
        kappas = []
        f1s = []
        for _ in range(settings.repetitions):
            labels = chance.random(n) < rate
            judged = labels ^ (chance.random(n) >= 0.8)
            kappas.append(cohens_kappa(judged, labels, np.arange(n)).ci95 or (-1.0, 1.0))
            ratios = [
                (2.0 * ((labels == one) & (judged == one)), (labels == one) + 1.0 * (judged == one))
                for one in (False, True)
            ]
            f1s.append(mean_of_ratios(ratios, np.arange(n)).ci95)
        yield (
            design,
            [
                coverage("kappa covered", np.array(kappas), kappa, 0.9),
                coverage("macro-F1 covered", ends(f1s), f1, 0.9),
            ],
        )


# The variances of what makes a sample of two compared runs fail; their sum is 1.
OF_PROMPT = 0.3  # the same in both runs
OF_INSTANCE = 0.2  # the same in both runs
OF_RUN = 0.15  # this run with this prompt
OF_REPLY = 0.2  # shared by the instances of a prompt
OF_VERDICT = 0.15

PROMPT_SIZES = (1, 1, 1, 1, 2, 2, 3, 6)
"""Instances of a prompt, if prompts are shared: half of the instances or more then share one."""


@dataclass(frozen=True)
class Design:
    """Two simulated runs that are compared."""

    instances: int
    samples: int = 1
    shared: bool = False  # whether instances share prompts
    difference: float = 0.0
    rate: float = 0.45

    def draw(self, chance: np.random.Generator) -> Pairs:
        """Return the pairs as `pair` would from the runs' files."""
        n, k = self.instances, self.samples
        prompt = np.arange(n)
        if self.shared:
            prompt = prompt.repeat(chance.choice(PROMPT_SIZES, size=n))[:n]
        prompts = int(prompt[-1]) + 1
        difficulty = sqrt(OF_PROMPT) * chance.standard_normal(prompts)[prompt]
        difficulty += sqrt(OF_INSTANCE) * chance.standard_normal(n)
        means = []
        for rate in (self.rate, self.rate + self.difference):
            run = sqrt(OF_RUN) * chance.standard_normal(prompts)[prompt]
            reply = sqrt(OF_REPLY) * chance.standard_normal((prompts, k))[prompt]
            verdict = sqrt(OF_VERDICT) * chance.standard_normal((n, k))
            failing = (difficulty + run)[:, None] + reply + verdict
            means.append((failing < threshold(rate)).mean(axis=1))
        return pairs_of(prompt, *means, samples=k)

    def comparisons(self, chance: np.random.Generator, repetitions: int) -> list[Comparison]:
        """Return the comparisons of so many pairs of runs."""
        return [compare(self.draw(chance)) for _ in range(repetitions)]


def pairs_of(prompt: Places, first: Floats, second: Floats, samples: int = 1) -> Pairs:
    """Return the pairs of verdicts' means as `pair` would from the runs' files."""
    n = len(prompt)
    return Pairs(
        digest=np.arange(n),
        first=first,
        second=second,
        samples=np.full((n, 2), samples, np.int32),
        cluster=prompt.astype(np.int32),
        grouping=np.zeros(n, np.int32),
        groupings=({},),
        verdicts=True,
        only_first=0,
        only_second=0,
        not_judged=0,
        shared=np.zeros(n, np.bool_),
    )


def significant(comparisons: Sequence[Comparison]) -> list[bool]:
    """Return which comparisons find a difference."""
    return [found.p_value is not None and found.p_value < ALPHA for found in comparisons]


def differences(settings: Settings) -> Iterator[Line]:
    """Differences of two runs: intervals, and p values where there is none."""
    designs = product((0.45, 0.9), (20, 60, 200, 1_000), (1, 4), (False, True), (0.0, 0.05))
    if settings.quick:
        designs = product((0.45,), (60, 200), (1, 4), (False, True), (0.0, 0.05))
    for rate, instances, samples, shared, true in designs:
        prompts = "shared" if shared else "own"
        name = f"difference {true} of {rate} instances {instances} samples {samples} {prompts}"
        design = Design(instances, samples, shared, true, rate)
        found = design.comparisons(settings.chance(name), settings.repetitions)
        intervals = np.array([one.ci95 or (-1.0, 1.0) for one in found])
        limit = 1.0 if true else 0.06
        yield (
            name,
            [
                coverage("covered", intervals, true, 0.93),
                share("p < 0.05", significant(found), 0.0, limit),
            ],
        )


def simulate_groups(
    n: int, groups: int, changed: float, repetitions: int, seed: int
) -> tuple[list[bool], list[bool]]:
    """Return which means over groups are significant, by prompts and by groups as units.

    A share ``changed`` of the prompts changes, as often for the better as for the worse.
    """
    chance = np.random.default_rng((seed, n, groups, round(changed * 1e6)))
    group = (np.arange(n) * groups // (n + 1)).astype(np.int32)  # of nearly equal sizes
    labels = tuple({"group": f"{number:02}"} for number in range(groups))
    by_prompt = []
    by_group = []
    for _ in range(repetitions):
        first = (chance.random(n) < 0.5).astype(np.float64)
        second = np.where(chance.random(n) < changed, 1 - first, first)
        pairs = replace(pairs_of(np.arange(n), first, second), grouping=group, groupings=labels)
        by_prompt.append(compare(pairs, "group"))
        means = [np.bincount(group, run) / np.bincount(group) for run in (second, first)]
        p = paired_t(*(one.tolist() for one in means)).p_value
        by_group.append(p is not None and p < ALPHA)
    return significant(by_prompt), by_group


def groups(settings: Settings) -> Iterator[Line]:
    """Mean differences over groups, without a difference."""
    designs = product((40, 200), (2, 3, 5, 20), (0.1, 0.4))
    if settings.quick:
        designs = product((40,), (2, 5), (0.1,))
    for n, n_groups, changed in designs:
        name = f"groups {n_groups} prompts {n} changed {changed}"
        by_prompt, by_group = simulate_groups(
            n, n_groups, changed, settings.repetitions, settings.seed
        )
        yield (
            name,
            [
                share("p < 0.05", by_prompt, 0.0, 0.06),
                share("p < 0.05 by group", by_group),
            ],
        )


def check_rate(
    chance: np.random.Generator, rate: float, bound: float, prompts: int, samples: int, m: int = 1
) -> list[Decision]:
    """Return the decisions of `harness check` on m rates with the same bound."""
    decisions = []
    for found in estimates(verdicts(chance, np.full(m, rate), prompts, samples, 0.5)):
        figure = Decision(
            what="rate",
            value=found.mean,
            ci95=found.ci95,
            bound=bound,
            n=prompts,
            n_clusters=found.n_clusters,
            stderr=found.stderr,
            effective_n=found.effective_n,
        )
        decisions.append(decided(figure, m))
    return decisions


def check_drop(
    chance: np.random.Generator, true: float, bound: float, prompts: int, samples: int
) -> list[Decision]:
    """Return the decision of `harness check` on a difference from a baseline that passes 70%."""
    found = compare(Design(prompts, samples, difference=true, rate=0.7).draw(chance))
    figure = Decision(
        what="drop",
        value=found.difference,
        ci95=found.ci95,
        method=found.method,
        bound=bound,
        n=found.n,
        n_clusters=found.n_clusters,
        stderr=found.stderr,
        degrees=found.degrees,
    )
    return [decided(figure, 1)]


def failed(decisions: Iterable[Decision]) -> bool:
    """Return whether any of the decisions is a failure."""
    return any(decision.outcome == "failed" for decision in decisions)


def alarms(settings: Settings) -> Iterator[Line]:
    """False alarms of several decisions on rates, and of decisions on a drop."""
    designs = product((0.5, 0.9, 0.98, 0.99), ((35, 1), (100, 4)), (2, 10))
    if settings.quick:
        designs = product((0.9, 0.99), ((35, 1), (100, 4)), (10,))
    for bound, (prompts, samples), m in designs:
        name = f"min {bound} prompts {prompts} samples {samples} decisions {m}"
        chance = settings.chance(name)
        cases = [
            failed(check_rate(chance, bound, bound, prompts, samples, m))
            for _ in range(settings.repetitions)
        ]
        yield name, [share("failed", cases, 0.0, 0.05)]
    drops = product((30, 100, 300), (1, 4)) if not settings.quick else product((30,), (1, 4))
    for prompts, samples in drops:
        name = f"max drop 0.05 prompts {prompts} samples {samples}"
        chance = settings.chance(name)
        cases = [
            failed(check_drop(chance, -0.05, -0.05, prompts, samples))
            for _ in range(settings.repetitions)
        ]
        yield name, [share("failed", cases, 0.0, 0.05)]


Check = Callable[[np.random.Generator, float, float, int, int], list[Decision]]


def power(settings: Settings) -> Iterator[Line]:
    """Bounds and differences with the instances that a pilot run says they need."""
    checks: list[tuple[str, Check, float, float, int, int]] = [
        ("min", check_rate, 0.85, 0.9, 100, 1),
        ("min", check_rate, 0.45, 0.5, 100, 1),
        ("min", check_rate, 0.97, 0.99, 100, 1),
        ("min", check_rate, 0.6, 0.7, 50, 1),
        ("min", check_rate, 0.45, 0.5, 50, 4),
        ("drop", check_drop, -0.15, -0.05, 100, 1),
        ("drop", check_drop, -0.12, -0.05, 50, 4),
    ]
    for kind, check, true, bound, pilot, samples in checks[3:6:2] if settings.quick else checks:
        name = f"{kind} {bound} true {true} samples {samples}"
        chance = settings.chance(name)
        needed: list[int] = []
        while len(needed) < settings.repetitions // 4:
            [decision] = check(chance, true, bound, pilot, samples)
            if decision.needed and abs((decision.value or 0.0) - true) < 1e-9:
                needed.append(decision.needed)
        n = round(float(np.median(needed)))
        cases = [
            failed(check(chance, true, bound, n, samples)) for _ in range(settings.repetitions)
        ]
        yield f"{name} instances {n}", [share("power", cases, *POWER)]
    pilots = product((0.05, 0.1, 0.2), (0.45, 0.85), (40, 100, 400), (1, 4))
    if settings.quick:
        pilots = product((0.1,), (0.45,), (100,), (1, 4))
    for true, rate, instances, samples in pilots:
        if rate + true > 0.99:
            continue
        name = f"difference {true} of {rate} instances {instances} samples {samples}"
        chance = settings.chance(name)
        design = Design(instances, samples, difference=true, rate=rate)
        found = design.comparisons(chance, max(settings.repetitions, PILOTS))
        figures = []
        limits = POWER if rate < 0.5 and instances >= 100 else ROUGH_POWER
        detectable = [one.detectable for one in found if one.detectable is not None]
        if len(detectable) == len(found):
            size = float(np.median(detectable))
            detected = replace(design, difference=size, rate=rate + (true - size) / 2)
            cases = significant(detected.comparisons(chance, settings.repetitions))
            figures.append(share(f"power of {size:.3f}", cases, *limits))
        close = [one for one in found if abs((one.difference or 0.0) - true) < 1e-9]
        if close:
            n = round(float(np.median([one.needed or 0 for one in close])))
            cases = significant(
                replace(design, instances=n).comparisons(chance, settings.repetitions)
            )
            figures.append(share(f"power with {n}", cases, *limits))
        yield name, figures


PARTS: dict[str, Callable[[Settings], Iterator[Line]]] = {
    part.__name__: part
    for part in (
        *(rates, unequal, weighted, averages, numbers, percentiles, agreement),
        *(differences, groups, alarms, power),
    )
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of the parts, and return 1 if one is beyond its limits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (all)")
    parser.add_argument("--quick", action="store_true", help="few designs and repetitions")
    parser.add_argument("--repetitions", type=int, help="of each design")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args(arguments)
    repetitions = options.repetitions or (QUICK if options.quick else REPETITIONS)
    settings = Settings(repetitions, options.seed, options.quick)
    missed = 0
    for part in options.parts or PARTS:
        for design, figures in PARTS[part](settings):
            cells = (
                f"{figure.name} {figure.value:.4f}{'!' if figure.missed else ' '}"
                for figure in figures
            )
            print(f"{design:<64}", " ".join(cells), flush=True)
            missed += sum(figure.missed for figure in figures)
    print(f"{repetitions:,} repetitions; {missed} figures beyond their limits.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
