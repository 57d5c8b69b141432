"""Whether the intervals of rates and differences and the p value hold what they promise.

Each row is two runs made R times over: the share of 95% intervals that hold the
true difference, and the share of p values below 0.05 where there is none. The
second table is of one small run: the share of intervals that hold its true rate.
The third is of means over groups without a difference: the share of p values
below 0.05, with the prompts and with the groups as units.

    python scripts/bench_intervals.py --check

prompts: "own" is one for each instance; "shared" is 1 to 6 instances to a prompt,
    which has a difficulty of its own, and one reply for all its instances, as in COLLIE.
naive: of the interval that takes every sample for independent.
t: of the interval rate ± t * clustered error, clipped to 0 and 1.
MC: a share of 95% strays by so much (one standard deviation of the simulation).

A sample passes if the sum of normal variables with total variance 1 is below a
threshold, so that the true rates are exact. The two runs share the difficulties of
prompt and instance. All draws depend on --seed only.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.analysis.clustered import clustered_mean
from harness.analysis.comparison import ALPHA, Pairs, compare
from harness.analysis.comparison import paired as paired_t

Floats = NDArray[np.float64]
Places = NDArray[np.int_]

REPETITIONS = 10_000
SEED = 241_100_640
INSTANCES = (200, 2_000)
SAMPLES = (1, 4)
DIFFERENCES = (0.05, 0.0)
RATE = 0.45

COVERED = (0.93, 0.97)
FOUND = (0.04, 0.06)
SMALL = (6, 20, 60)
RATES = (0.1, 0.45)
LEAST = 0.92
"""Of a small run's intervals: few verdicts make shares of 95% coarse, so more is no fault."""

PROMPT_SIZES = (1, 1, 1, 1, 2, 2, 3, 6)
"""Prompts are drawn from this many: half of the instances or more share a prompt."""

# The variances of what makes a sample fail; their sum is 1.
OF_PROMPT = 0.3  # the same in both runs
OF_INSTANCE = 0.2  # the same in both runs
OF_RUN = 0.15  # this run with this prompt
OF_REPLY = 0.2  # shared by the instances of a prompt
OF_VERDICT = 0.15


@dataclass(frozen=True)
class Design:
    """A simulated design."""

    instances: int
    samples: int
    shared: bool
    difference: float
    rate: float = RATE


class Found(NamedTuple):
    """Shares of the repetitions.

    covered, naive: of intervals that hold the true difference.
    significant: of p values below 0.05.
    """

    method: str
    covered: float
    naive: float
    significant: float


def two_runs(design: Design, chance: np.random.Generator) -> tuple[Places, Floats, Floats]:
    """Return (n,) the prompt of each instance, and (n, k) the verdicts of each run."""
    n, k = design.instances, design.samples
    if design.shared:
        sizes = chance.choice(PROMPT_SIZES, size=n)
        prompt = np.repeat(np.arange(n), sizes)[:n]
    else:
        prompt = np.arange(n)
    m = int(prompt[-1]) + 1
    difficulty = sqrt(OF_PROMPT) * chance.standard_normal(m)[prompt]
    difficulty += sqrt(OF_INSTANCE) * chance.standard_normal(n)
    verdicts = []
    for rate in (design.rate, design.rate + design.difference):
        run = sqrt(OF_RUN) * chance.standard_normal(m)[prompt]
        reply = sqrt(OF_REPLY) * chance.standard_normal((m, k))[prompt]
        verdict = sqrt(OF_VERDICT) * chance.standard_normal((n, k))
        failing = (difficulty + run)[:, None] + reply + verdict
        verdicts.append((failing < threshold(rate)).astype(np.float64))
    return prompt, verdicts[0], verdicts[1]


def threshold(rate: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(rate))


def paired(prompt: Places, first: Floats, second: Floats) -> Pairs:
    """Return the pairs as `pair` would from the runs' files."""
    n, k = first.shape
    return Pairs(
        digest=np.arange(n),
        first=first.mean(axis=1),
        second=second.mean(axis=1),
        samples=np.full((n, 2), k, np.int32),
        cluster=prompt.astype(np.int32),
        grouping=np.zeros(n, np.int32),
        groupings=({},),
        verdicts=True,
        only_first=0,
        only_second=0,
        not_judged=0,
        shared=np.zeros(n, np.bool_),
    )


def simulate(design: Design, repetitions: int, seed: int) -> Found:
    """Compare two simulated runs of a design, repeatedly."""
    # Seeded per design: a row does not depend on the other rows.
    entropy = (
        seed,
        design.instances,
        design.samples,
        design.shared,
        round(design.difference * 1e6),
    )
    chance = np.random.default_rng(entropy)
    covered = naive = significant = 0
    methods = set()
    for _ in range(repetitions):
        prompt, first, second = two_runs(design, chance)
        found = compare(paired(prompt, first, second))
        methods.add(found.method)
        low, high = found.ci95 or (0.0, 0.0)
        covered += low <= design.difference <= high
        significant += found.p_value is not None and found.p_value < ALPHA
        every = (second - first).ravel()
        margin = 1.96 * float(every.std(ddof=1)) / sqrt(every.size)
        naive += abs(float(every.mean()) - design.difference) <= margin
    shares = [count / repetitions for count in (covered, naive, significant)]
    return Found(", ".join(sorted(methods)), *shares)


def simulate_rate(design: Design, repetitions: int, seed: int) -> tuple[float, float]:
    """Shares of a run's intervals, and of those by t, that hold the true rate."""
    entropy = (seed, design.instances, design.samples, design.shared, round(design.rate * 1e6))
    chance = np.random.default_rng(entropy)
    covered = by_t = 0
    for _ in range(repetitions):
        prompt, verdicts, _ = two_runs(design, chance)
        found = clustered_mean(verdicts.ravel(), prompt.repeat(design.samples))
        for interval, is_t in ((found.ci95, False), (found.clipped_ci95(0.0, 1.0), True)):
            low, high = interval or (0.0, 1.0)
            held = low <= design.rate <= high
            by_t, covered = by_t + (held and is_t), covered + (held and not is_t)
    return covered / repetitions, by_t / repetitions


GROUPED, GROUPS = (40, 200), (2, 3, 5, 20)
CHANGED = (0.1, 0.4)
"""Shares of prompts whose verdict changes, as often for the better as for the worse."""


def simulate_groups(
    n: int, groups: int, changed: float, repetitions: int, seed: int
) -> tuple[float, float]:
    """Return the shares of significant means over groups, by prompts and by groups as units."""
    chance = np.random.default_rng((seed, n, groups, round(changed * 1e6)))
    group = (np.arange(n) * groups // (n + 1)).astype(np.int32)  # of nearly equal sizes
    labels = tuple({"group": f"{number:02}"} for number in range(groups))
    by_prompt = by_group = 0
    for _ in range(repetitions):
        first = (chance.random(n) < 0.5).astype(np.float64)
        second = np.where(chance.random(n) < changed, 1 - first, first)
        pairs = paired(np.arange(n), first[:, None], second[:, None])
        found = compare(replace(pairs, grouping=group, groupings=labels), "group")
        by_prompt += found.p_value is not None and found.p_value < ALPHA
        means = [np.bincount(group, run) / np.bincount(group) for run in (second, first)]
        p = paired_t(*(one.tolist() for one in means)).p_value
        by_group += p is not None and p < ALPHA
    return by_prompt / repetitions, by_group / repetitions


def small_designs() -> Iterator[Design]:
    """The rows of the second table."""
    for shared in (True, False):
        for instances in SMALL:
            for samples in SAMPLES:
                for rate in RATES:
                    yield Design(instances, samples, shared, 0.0, rate)


def designs() -> Iterator[Design]:
    """Yield the rows of the table."""
    for shared in (True, False):
        for instances in INSTANCES:
            for samples in SAMPLES:
                for difference in DIFFERENCES:
                    yield Design(instances, samples, shared, difference)


def bounds(rows: Sequence[tuple[Design, Found]]) -> Iterator[tuple[str, bool]]:
    """Return the bounds, and whether they hold."""
    covered = all(COVERED[0] <= found.covered <= COVERED[1] for _, found in rows)
    yield f"intervals hold the true difference in {COVERED[0]:.0%} to {COVERED[1]:.0%}", covered
    none = [found for design, found in rows if design.difference == 0]
    t = [found.significant for found in none if "McNemar" not in found.method]
    told = f"p < {ALPHA} without a difference in {FOUND[0]:.0%} to {FOUND[1]:.0%}"
    yield f"{told} (clustered paired t)", all(FOUND[0] <= share <= FOUND[1] for share in t)
    exact = [found.significant for found in none if "McNemar" in found.method]
    # Conservative: few discordant pairs allow only few distinct p values.
    told = f"p < {ALPHA} without a difference in at most {FOUND[1]:.0%}"
    yield f"{told} (exact McNemar)", all(share <= FOUND[1] for share in exact)
    dependent = [found.naive for design, found in rows if design.shared or design.samples > 1]
    yield "the naive interval fails wherever samples depend", max(dependent) < COVERED[0]


def main() -> None:
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="of each row")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bound is missed")
    given = parser.parse_args()
    begun = time.perf_counter()
    rows = [(each, simulate(each, given.repetitions, given.seed)) for each in designs()]
    table = Table(padding=(0, 0))
    for name in ("prompts", "instances", "k", "true", "covered", "naive", "p < 0.05", "method"):
        table.add_column(name, justify="left" if name in ("prompts", "method") else "right")
    for design, found in rows:
        table.add_row(
            "shared" if design.shared else "own",
            f"{design.instances:,}",
            f"{design.samples}",
            f"{design.difference:.2f}",
            f"{found.covered:.2%}",
            f"{found.naive:.2%}",
            f"{found.significant:.2%}",
            found.method,
        )
    console = Console()
    console.print(table)
    small = [
        (each, *simulate_rate(each, given.repetitions, given.seed)) for each in small_designs()
    ]
    table = Table(padding=(0, 0))
    for name in ("prompts", "instances", "k", "rate", "covered", "t"):
        table.add_column(name, justify="left" if name == "prompts" else "right")
    for design, covered, by_t in small:
        prompts = "shared" if design.shared else "own"
        figures = (f"{design.rate:.2f}", f"{covered:.2%}", f"{by_t:.2%}")
        table.add_row(prompts, f"{design.instances}", f"{design.samples}", *figures)
    console.print(table)
    table = Table(padding=(0, 0))
    for name in ("instances", "groups", "changed", "prompts", "groups as units"):
        table.add_column(name, justify="right")
    false = []
    for n, groups, changed in product(GROUPED, GROUPS, CHANGED):
        shares = simulate_groups(n, groups, changed, given.repetitions, given.seed)
        false.append(shares[0])
        figures = (f"{n}", f"{groups}", f"{changed:.0%}", *(f"{one:.2%}" for one in shares))
        table.add_row(*figures)
    console.print(table)
    spread = sqrt(0.95 * 0.05 / given.repetitions)
    seconds = time.perf_counter() - begun
    console.print(
        f"{given.repetitions:,} repetitions, MC {spread:.2%}, {seconds:.0f} s", highlight=False
    )
    least = min(covered for _, covered, _ in small)
    told = f"intervals of small runs hold the true rate in {LEAST:.0%} or more"
    checked = [*bounds(rows), (told, least >= LEAST)]
    told = f"p < {ALPHA} of means over groups without a difference in at most {FOUND[1]:.0%}"
    checked.append((told, max(false) <= FOUND[1]))
    for bound, held in checked:
        console.print(f"{'ok    ' if held else 'MISSED'} {bound}", highlight=False)
    if given.check and not all(held for _, held in checked):
        sys.exit(1)


if __name__ == "__main__":
    main()
