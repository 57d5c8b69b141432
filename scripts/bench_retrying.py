"""Whether the comparison in `configs/gpt4_collie_prompting.yaml` finds what feedback adds.

Runs `feedback` and `best_of_4` of that file on its instances with simulated models, in this
process, and compares them as `harness run` does, each by its own measure. A model that learns
nothing from feedback (gain 0) must differ from retrying in few seeds, one that learns in most.

    python scripts/bench_retrying.py --check

Needs the data set ('harness data fetch collie'). A simulated answer passes where it is the
reference answer, as in a run, so that no text is scored here.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from harness.analysis.summary import RunFacts, summarise
from harness.backends.simulated import SimulatedBackend
from harness.calls.keys import provider_seed
from harness.config.loading import load_variants
from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.resolving import build_task
from harness.plugins.comparisons.comparable import Variant
from harness.plugins.comparisons.comparison import Comparison
from harness.plugins.comparisons.p_values import ALPHA
from harness.plugins.comparisons.run_comparison import ComparisonOptions, compare_runs
from harness.records import Decoding, Message, Origin, Request
from harness.store.calls import NO_CALLS
from harness.store.columns import AttemptTable, InstanceTable, name_digest

CONFIG = Path(__file__).parents[1] / "configs" / "gpt4_collie_prompting.yaml"
BASELINE, RUN = "best_of_4", "feedback"
ACCURACY = 0.3
GAINS = {0.0: 93, 0.3: 80}
"""Of 100 seeds: how many must find no difference (gain 0), or feedback to be better."""

ANSWER = "the reference answer"
MESSAGES = (Message("user", "?"),)
DECODING = Decoding()


def instances_of(run: RunFile) -> InstanceTable:
    """Return the instances of a run; those with one prompt are one statistical unit."""
    task = build_task(run, Settings())
    found = sorted(
        (name_digest(one.id), task.messages(one, ())[-1].content) for one in task.instances()
    )
    digests, prompts = zip(*found, strict=True)
    _, cluster = np.unique(np.array(prompts, dtype=object).astype(str), return_inverse=True)
    n = len(digests)
    return InstanceTable(
        np.array(digests, np.int64), cluster.astype(np.int32), np.zeros(n, np.int32), ({},)
    )


async def attempts(
    run: RunFile, instances: InstanceTable, backend: SimulatedBackend, seed: int
) -> AttemptTable:
    """Make a run's attempts: samples, and rounds until one passes."""
    rows: list[tuple[int, int, int, bool]] = []
    for instance, digest in enumerate(instances.digest.tolist()):
        name = str(digest)
        for sample in range(run.samples):
            own = provider_seed(seed, name, sample)
            for number in range(1, run.rounds.max + 1):
                origin = Origin(name, sample, number)
                request = Request("m", MESSAGES, DECODING, sample, origin, own)
                passed = (await backend.generate(request)).text == ANSWER
                rows.append((instance, sample, number, passed))
                if passed and run.rounds.stop_on_pass:
                    break
    instance, sample, number, passed = np.array(rows, np.int32).T
    outcome = np.zeros(len(rows), np.int8)
    return AttemptTable(instance, sample, number, outcome, passed.astype(np.int8), {}, instances)


def compared(
    runs: dict[str, RunFile], instances: InstanceTable, gain: float, seed: int
) -> Comparison:
    """Compare feedback with retrying for one model and seed."""

    async def both() -> list[tuple[Variant, AttemptTable]]:
        backend = SimulatedBackend(ACCURACY, gain, gold=lambda _: ANSWER)
        found = []
        for name in (BASELINE, RUN):
            table = await attempts(runs[name], instances, backend, seed)
            facts = RunFacts(run=name, task="collie", simulated=True, measure=runs[name].measure)
            metrics = summarise(table, NO_CALLS, facts, grouped=False)
            found.append((Variant(name, metrics, {}, {"dataset_sha256": "d"}), table))
        return found

    (other,) = compare_runs(asyncio.run(both()), ComparisonOptions(score="")).others
    return other.overall


def told(gain: float, found: Sequence[Comparison], wanted: int) -> tuple[str, bool]:
    """Return a line on the seeds of a gain, and whether enough of them are as they must be."""
    differ = [one.p_value is not None and one.p_value < ALPHA for one in found]
    better = [
        one for one, sure in zip(found, differ, strict=True) if sure and one.better > one.worse
    ]
    n = len(better) if gain else len(found) - sum(differ)
    held = n >= wanted * len(found) / 100
    what = f"{RUN} is better" if gain else "no difference"
    needed = [one.needed for one in better if one.needed]
    more = f"; it needs {median(needed):,.0f} instances (median)" if gain and needed else ""
    first, second = (mean(getattr(one, name) for one in found) for name in ("first", "second"))
    return (
        f"{'ok    ' if held else 'MISSED'} gain {gain}: {what} in {n} of {len(found)} seeds "
        f"({wanted} of 100 wanted); {found[0].n:,} instances, {BASELINE} {first:.4f}, "
        f"{RUN} {second:.4f}{more}"
    ), held


def main() -> None:
    formatter: Any = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--dataset", default="v1", help="builtin needs no download")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bound is missed")
    given = parser.parse_args()
    begun = time.perf_counter()
    runs = load_variants(CONFIG, [f"task.dataset={given.dataset}"])
    instances = instances_of(runs[BASELINE])
    print(f"{BASELINE} by {runs[BASELINE].measure}, {RUN} by {runs[RUN].measure or 'pass rate'}")
    kept = True
    for gain, wanted in GAINS.items():
        found = [compared(runs, instances, gain, seed) for seed in range(given.seeds)]
        line, held = told(gain, found, wanted)
        print(line, flush=True)
        kept = kept and held
    print(f"{time.perf_counter() - begun:.0f} s")
    if given.check and not kept:
        sys.exit(1)


if __name__ == "__main__":
    main()
