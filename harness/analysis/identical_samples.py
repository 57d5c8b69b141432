"""Finds runs whose samples are identical, so that pass@k is no better than the pass rate."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from harness.store.index import AttemptIndex

MAX_INSTANCES_READ = 200  # instances whose answers are read
MIN_IDENTICAL_INSTANCES = 3  # with identical samples, before a run is reported
MIN_IDENTICAL_SHARE = 0.95  # of the instances with several samples
IDENTICAL_SAMPLES_PREFIX = "IDENTICAL SAMPLES"  # of the warning


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


def identical_samples_warning(index: AttemptIndex) -> str:
    """Return a warning if nearly all instances of a run have identical samples, or else "".

    The answers to at most `MAX_INSTANCES_READ` instances are read. Samples without an answer are
    ignored.
    """
    instance = index.attempts.instance
    rows = np.flatnonzero(np.isin(instance, np.unique(instance)[:MAX_INSTANCES_READ]))
    if not index.attempts.sample[rows].any():  # one sample each
        return ""
    texts: dict[str, dict[int, list[str]]] = {}  # of all rounds, by instance and sample
    all_greedy = True
    for answer in index.read(_Answer, rows, judged=False):
        all_greedy = all_greedy and answer.is_greedy
        if answer.text is not None:
            samples = texts.setdefault(answer.instance, {})
            samples.setdefault(answer.sample, []).append(answer.text)
    n_repeated = 0
    n_identical = 0
    for samples in texts.values():
        first_texts, *later_texts = samples.values()
        if later_texts:
            n_repeated += 1
            n_identical += all(sample_texts == first_texts for sample_texts in later_texts)
    if n_identical < MIN_IDENTICAL_INSTANCES or n_identical < MIN_IDENTICAL_SHARE * n_repeated:
        return ""
    cause = ""
    remedy = ""
    if all_greedy:
        cause = " at temperature 0"
        remedy = " Set decoding.temperature above 0."
    return (
        f"{IDENTICAL_SAMPLES_PREFIX}: all samples of an instance are the same text{cause}, in "
        f"{n_identical:,} of {n_repeated:,} instances. Such samples are no further tries: pass@K "
        f"equals the pass rate there, and is no measure of asking again.{remedy}"
    )
