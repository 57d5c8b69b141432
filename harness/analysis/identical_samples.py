"""Finds runs whose samples repeat each other, so that more of them are no further tries."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from harness.store.index import AttemptIndex

MOST_READ = 200  # instances whose answers are read
FEWEST = 3  # instances with equal samples before they are reported
NEARLY_ALL = 0.95  # share of the instances whose samples are equal
IDENTICAL_SAMPLES = "IDENTICAL SAMPLES"  # start of the sentence


class _Answer(Struct, gc=False):
    instance: str
    sample: int
    request: dict[str, Any]
    text: str | None = None

    @property
    def is_greedy(self) -> bool:
        """Whether temperature 0 was sent."""
        decoding = self.request.get("decoding")  # an imported run may have none
        return isinstance(decoding, dict) and decoding.get("temperature") == 0


def identical_samples(index: AttemptIndex) -> str:
    """Return a sentence if (nearly) all instances of a run have samples with the same texts.

    The answers to at most `MOST_READ` instances are read. Samples without an answer are left out.
    """
    instance = index.attempts.instance
    rows = np.flatnonzero(np.isin(instance, np.unique(instance)[:MOST_READ]))
    if not index.attempts.sample[rows].any():  # one sample each
        return ""
    texts: dict[str, dict[int, list[str]]] = {}
    greedy = True
    for answer in index.read(_Answer, rows, judged=False):
        greedy = greedy and answer.is_greedy
        if answer.text is not None:
            samples = texts.setdefault(answer.instance, {})
            samples.setdefault(answer.sample, []).append(answer.text)
    total = 0
    same = 0
    for samples in texts.values():
        first, *others = samples.values()
        if others:
            total += 1
            same += all(sample == first for sample in others)
    if same < FEWEST or same < NEARLY_ALL * total:
        return ""
    cause = ""
    remedy = ""
    if greedy:
        cause = " at temperature 0"
        remedy = " Set decoding.temperature above 0."
    return (
        f"{IDENTICAL_SAMPLES}: all samples of an instance are the same text{cause}, in {same:,} of "
        f"{total:,} instances. Such samples are no further tries: pass@K equals the pass rate "
        f"there, and is no measure of asking again.{remedy}"
    )
