"""How often the gate (harness check) is wrong, and whether the instances it asks for suffice.

False alarms: the true value is exactly at the bound, and the gate says "failed". Power: the true
value is below the bound, and there are as many instances as the gate asked for.

    python scripts/bench_gate.py --check

prompts: k samples each of n prompts; a prompt has a difficulty of its own. "min": a rate against a
    bound; "drop": a paired difference of two runs against -0.05. m decisions: the worst of m rates.
All draws depend on --seed only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from math import sqrt
from statistics import NormalDist

import numpy as np

from harness.analysis.clustered import clustered_mean
from harness.analysis.comparison import Pairs, compare
from harness.analysis.gate import Decision, decided

REPETITIONS = 10_000
PILOTS = 1_500  # runs that are asked how many instances they need: with 200, power varies by 0.01
MOST_FALSE, LEAST_POWER = 0.05, 0.79  # the stated 0.8, less the error of 10,000 repetitions
SHARED = 0.5  # of the variance: between prompts


def verdicts(chance: np.random.Generator, rate: float, n: int, k: int) -> np.ndarray:
    """(n, k) verdicts with this true rate."""
    own = chance.normal(size=(n, 1)) * sqrt(SHARED)
    noise = chance.normal(size=(n, k)) * sqrt(1 - SHARED)
    return (own + noise < NormalDist().inv_cdf(rate)).astype(float)


def minimum(
    chance: np.random.Generator, rate: float, bound: float, n: int, k: int, m: int
) -> list[Decision]:
    found = []
    for _ in range(m):
        values = verdicts(chance, rate, n, k)
        one = clustered_mean(values.ravel(), np.repeat(np.arange(n), k))
        figure = Decision(
            what="rate", value=one.mean, ci95=one.ci95, bound=bound, n=n,
            n_clusters=one.n_clusters, stderr=one.stderr,
        )  # fmt: skip
        found.append(decided(figure, m))
    return found


def drop(chance: np.random.Generator, true: float, bound: float, n: int, k: int) -> list[Decision]:
    before = verdicts(chance, 0.7, n, k).mean(axis=1)
    after = verdicts(chance, 0.7 + true, n, k).mean(axis=1)
    zeros = np.zeros(n, np.intp)
    pairs = Pairs(
        digest=np.arange(n), first=before, second=after, samples=np.full((n, 2), k),
        cluster=np.arange(n), grouping=zeros, groupings=({},), verdicts=True,
        only_first=0, only_second=0, not_judged=0, shared=np.zeros(n, np.bool_),
    )  # fmt: skip
    one = compare(pairs)
    figure = Decision(
        what="", value=one.difference, ci95=one.ci95, method=one.method, bound=bound, n=n,
        n_clusters=n, stderr=one.stderr, degrees=one.degrees,
    )  # fmt: skip
    return [decided(figure, 1)]


def share(repetitions: int, make: Callable[[], list[Decision]]) -> float:
    failed = sum(any(one.outcome == "failed" for one in make()) for _ in range(repetitions))
    return failed / repetitions


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repetitions", type=int, default=REPETITIONS)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--check", action="store_true", help="exit 1 if a row is not ok")
    given = options.parse_args()
    chance = np.random.default_rng(given.seed)
    ok = True
    print(f"{'false alarms':<34}{'share':>8}")
    for bound in (0.5, 0.9, 0.98):
        for n, k, m in ((30, 1, 1), (30, 4, 1), (300, 1, 1), (100, 4, 10)):
            found = share(given.repetitions, partial(minimum, chance, bound, bound, n, k, m))
            ok &= found <= MOST_FALSE
            print(f"min {bound:<5} n {n:<4} k {k} decisions {m:<5}{found:>8.4f}")
    for n, k in ((30, 1), (30, 4), (300, 1)):
        found = share(given.repetitions, partial(drop, chance, -0.05, -0.05, n, k))
        ok &= found <= MOST_FALSE
        print(f"drop 0.05  n {n:<4} k {k}{'':<12}{found:>8.4f}")
    print(f"\n{'power at the n asked for':<34}{'share':>8}")
    for kind, true, bound, n, k in (
        ("min", 0.85, 0.9, 100, 1), ("min", 0.45, 0.5, 100, 1), ("min", 0.6, 0.7, 50, 1),
        ("min", 0.45, 0.5, 50, 4), ("drop", -0.15, -0.05, 100, 1), ("drop", -0.15, -0.05, 60, 4),
    ):  # fmt: skip
        make = partial(minimum, m=1) if kind == "min" else drop
        needed = []
        while len(needed) < PILOTS:
            [one] = make(chance, true, bound, n, k=k)
            if one.value is not None and abs(one.value - true) < 0.5 / n and one.needed:
                needed.append(one.needed)
        size = int(np.median(needed))
        found = share(given.repetitions, partial(make, chance, true, bound, size, k=k))
        ok &= found >= LEAST_POWER
        print(f"{kind:<4} {bound:<5} true {true:<5} k {k} n {size:<8}{found:>8.4f}")
    if given.check and not ok:
        sys.exit(1)


if __name__ == "__main__":
    main()
