"""A benchmark like ConCodeEval's (arXiv 2407.03387), made anew from a seed.

602 schemas and 3,076 instances, 45% of which break one keyword: made in about a second, the same
bytes from the same seed on any machine. Which text a schema becomes and which prompt an instance is
asked in is the task's business (`harness.tasks.concodeeval`).

>>> build(0, Path("my_benchmark")).counts["schemas"]["number"]  # doctest: +SKIP
150
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.builders import folder
from harness.builders.concodeeval.instances import instances as draw_instances
from harness.builders.concodeeval.schemas import PER_RANGE, Vocabulary, generate
from harness.errors import ConfigError

KIND = "concodeeval"
SCHEMAS = "schemas.jsonl"
VALIDATION = "validation.jsonl"
FILES = (SCHEMAS, VALIDATION)

VERSION = 1
"""Version of what a seed gives: another one, other bytes."""

INSTANCES = 3076
SHARE_NO = 0.45

BUILTIN = {"seed": 2407, "per_range": 5, "instances": 124}
"""How the set that the task ships was built."""


@dataclass(frozen=True, slots=True)
class Built:
    """What was built, to print.

    counts: schemas by root type, instances by label, broken keywords, and how many instances
        the authors' validation (Draft 7, no formats) labels otherwise.
    wanted: how many instances were asked for; fewer are there where the schemas have no more.
    """

    folder: Path
    seed: int
    vocabulary: Vocabulary
    counts: Mapping[str, Mapping[str, int]]
    wanted: int
    seconds: float


def build(
    seed: int,
    out: Path,
    *,
    vocabulary: Vocabulary = "paper",
    per_range: int = PER_RANGE,
    instances: int = INSTANCES,
    share_no: float = SHARE_NO,
    clock: Callable[[], float] = time.perf_counter,
) -> Built:
    """Make the benchmark and write its folder.

    vocabulary: ``paper`` (the paper's keywords) or ``extended`` (see `schemas`).
    per_range: schemas for each root type and value range; the paper has 50.
    instances: of the validation task; share_no of them break a keyword.

    Raises: ConfigError where the numbers make no benchmark; RunConflict where out is there and
        was not built here; StoreFailed where it cannot be written.
    """
    if per_range < 1 or instances < 0 or not 0 <= share_no <= 1:
        raise ConfigError(
            f"No benchmark has {per_range} schemas a range, {instances} instances and a share of "
            f"{share_no} 'no'.",
            "Ask for at least 1, at least 0, and a share from 0 to 1.",
        )
    began = clock()
    folder.refuse_other(out, KIND, FILES)  # before any work
    schemas = list(generate(seed, vocabulary=vocabulary, per_range=per_range))
    no = round(instances * share_no)
    rows = draw_instances(seed, schemas, yes=instances - no, no=no)
    counts: dict[str, dict[str, int]] = {
        "schemas": _counted(row.root for row in schemas),
        "labels": _counted(row.label for row in rows),
        "keywords": _counted(row.keyword for row in rows if row.keyword),
        "paper_labels_otherwise": _counted(
            row.label for row in rows if row.label != row.paper_label
        ),
    }
    about = {
        "version": VERSION,
        "seed": seed,
        "vocabulary": vocabulary,
        "per_range": per_range,
        "instances": instances,
        "share_no": share_no,
        "counts": counts,
    }
    folder.write(out, KIND, {SCHEMAS: schemas, VALIDATION: rows}, about)
    return Built(out, seed, vocabulary, counts, instances, clock() - began)


def _counted(names: Iterable[str]) -> dict[str, int]:
    """How often each comes, the most frequent first; ties in the order of the alphabet."""
    return dict(sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0])))
