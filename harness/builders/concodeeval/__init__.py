"""A benchmark like ConCodeEval's (arXiv 2407.03387), built from a seed.

602 schemas and 3,076 instances, 45% of which violate one keyword: built in two seconds, with the
same bytes from the same seed on any machine. The task (`harness.tasks.concodeeval`) decides how a
schema is written and how an instance is asked about.

>>> build(0, Path("my_benchmark"))["schemas"]["number"]  # doctest: +SKIP
150
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.builders import folder
from harness.builders.concodeeval.instances import instances as draw_instances
from harness.builders.concodeeval.schemas import PER_RANGE, Vocabulary, generate

KIND = "concodeeval"
SCHEMAS = "schemas.jsonl"
VALIDATION = "validation.jsonl"

VERSION = 2  # changes when the same seed gives other bytes

INSTANCES = 3076
SHARE_NO = 0.45


def build(
    seed: int,
    out: Path,
    *,
    vocabulary: Vocabulary = "paper",
    per_range: int = PER_RANGE,
    instances: int = INSTANCES,
) -> Mapping[str, Mapping[str, int]]:
    """Build the benchmark and write its folder.

    Args:
        seed: The same seed gives the same bytes.
        out: The folder to write.
        vocabulary: ``paper`` (the paper's keywords) or ``extended`` (see `schemas`).
        per_range: Schemas of each root type and value range.
        instances: Instances of the validation task; fewer if the schemas have no more.

    Returns:
        Counts of schemas by root type, of instances by label, of violated keywords, and of
        instances that the authors' validation (Draft 7, no formats) labels differently.
    """
    folder.refuse_other(out, KIND, (SCHEMAS, VALIDATION))
    schemas = list(generate(seed, vocabulary=vocabulary, per_range=per_range))
    no = round(instances * SHARE_NO)
    rows = draw_instances(seed, schemas, yes=instances - no, no=no)
    names: dict[str, Iterable[str]] = {
        "schemas": (row.root for row in schemas),
        "labels": (row.label for row in rows),
        "keywords": (row.keyword for row in rows if row.keyword),
        "paper_labels_otherwise": (row.label for row in rows if row.label != row.paper_label),
    }
    counts = {what: dict(Counter(some).most_common()) for what, some in names.items()}
    facts = {
        "version": VERSION,
        "seed": seed,
        "vocabulary": vocabulary,
        "per_range": per_range,
        "instances": instances,
        "share_no": SHARE_NO,
        "counts": counts,
    }
    folder.write(out, KIND, {SCHEMAS: schemas, VALIDATION: rows}, facts)
    return counts
