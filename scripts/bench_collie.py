"""Speed of checking COLLIE's recorded outputs, compared with the official method.

    python scripts/bench_collie.py [gpt-4 | vicuna-7b]

The official method is transliterated below: it tokenises with NLTK again for every
base constraint. Both check the same texts in the same run, and their verdicts are
compared with the recorded ones. The data are those of HARNESS_DATA_DIR, else
../shared/data; NLTK's English parameters must be installed (NLTK_DATA).
"""

from __future__ import annotations

import json
import operator
import os
import string
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from harness.datasets.folder import DataFolder
from harness.plugins.benchmarks.collie.constraints.check import Splitter, check
from harness.plugins.benchmarks.collie.task import CollieTask

REPEATS = 3
COMPARISONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def official_units(text: Any, level: str | None) -> Any:
    """Split a text, or each text of a list, into units."""
    from nltk import sent_tokenize, word_tokenize

    if level is None:
        return text
    if isinstance(text, list):
        return [official_units(part, level) for part in text]
    if level == "word":
        units = [token for token in word_tokenize(text) if token not in string.punctuation]
    elif level == "sentence":
        units = sent_tokenize(text)
    else:
        units = list(text) if level == "character" else text.split("\n\n")
    return [unit.strip().strip(".") for unit in units]


def official_value(transformation: dict[str, Any], units: Any) -> Any:
    """Apply a transformation in its plain form."""
    op = transformation["op"]
    if op == "count":
        of = transformation.get("of")
        return len(units) if of is None else len([unit for unit in units if unit == of])
    if op == "position":

        def at(index: int) -> Any:
            return units[index] if -len(units) <= index < len(units) else None

        index = transformation["index"]
        return at(index) if isinstance(index, int) else [at(each) for each in index]
    if op == "for_each":
        return [official_value(transformation["do"], unit) for unit in units]
    if op == "max":
        return max(official_value(transformation["do"], units))
    return units


def official_relation(relation: str, observed: Any, target: Any) -> bool:
    """Compare after lower-casing and stripping punctuation."""

    def patched(value: Any) -> Any:
        if isinstance(value, list):
            return [patched(each) if isinstance(each, str) else each for each in value]
        if not isinstance(value, str):
            return value
        return value.lower().strip(string.punctuation + " ") or value

    observed, target = patched(observed), patched(target)
    if relation in ("in", "not in"):
        wanted = target if isinstance(target, list) else [target]
        found = [each in observed for each in wanted]
        return all(found) if relation == "in" else not any(found)
    if isinstance(target, list) and len(target) == 1:
        target = target[0]
    return bool(COMPARISONS[relation](observed, target))


def official_check(constraint: dict[str, Any], text: str, target: Any) -> bool:
    """Return the verdict on a text by the official method."""
    if "logic" in constraint:
        pairs = zip(constraint["constraints"], target, strict=True)
        verdicts = [official_check(part, text, each) for part, each in pairs]
        return any(verdicts) if constraint["logic"] == "or" else all(verdicts)
    units = official_units(text, constraint.get("input_level"))
    units = official_units(units, constraint["target_level"])
    observed = official_value(constraint["transformation"], units)
    relation, reduction = constraint["relation"], constraint.get("reduction")
    if reduction is None:
        return official_relation(relation, observed, target)
    targets = target if isinstance(target, list) else [target] * len(observed)
    if len(observed) != len(targets):
        return False
    held = [
        official_relation(relation, value, each)
        for value, each in zip(observed, targets, strict=True)
    ]
    if reduction in ("all", "any"):
        return all(held) if reduction == "all" else any(held)
    compared = {"at least": operator.ge, "at most": operator.le, "exactly": operator.eq}[reduction]
    return bool(compared(sum(held), constraint["reduction_value"]))


def timed(work: Callable[[], list[bool]]) -> tuple[float, list[bool]]:
    start = time.perf_counter()
    verdicts = work()
    return time.perf_counter() - start, verdicts


def main(model: str = "gpt-4") -> None:
    from harness.plugins.benchmarks import punkt

    english = punkt.english()
    if english is None:
        sys.exit("NLTK's English parameters are needed: set NLTK_DATA.")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    root = Path(os.environ.get("HARNESS_DATA_DIR", beside))

    def lines(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (root / "collie" / name).read_text().splitlines()]

    texts = {
        row["prompt"]: [reply["text"] for reply in row["rounds"]]
        for row in lines(f"generations/{model}.jsonl")
    }
    recorded = json.loads((root / "collie" / f"expected_{model}.json").read_text())
    expected = [verdict for row in recorded["instances"] for verdict in row["verdicts"]]
    published = [
        (row["constraint"], row["targets"], text)
        for row in lines("instances.jsonl")
        for text in texts[row["prompt"]]
    ]
    own = [
        (instance.data.specification, text)
        for instance in CollieTask("v1", data=DataFolder(root)).instances()
        for text in texts[instance.data.prompt]
    ]

    def ours(units: Splitter) -> list[bool]:
        return [check(specification, text, units).passed for specification, text in own]

    def official() -> list[bool]:
        return [official_check(constraint, text, target) for constraint, target, text in published]

    official_check(*published[0][::2], published[0][1])  # NLTK loads its parameters here
    splitters = [Splitter(english, punkt.word_tokens) for _ in range(REPEATS)]
    measured = {
        "official method": [timed(official)],
        "harness, cold": [timed(partial(ours, each)) for each in splitters],
        "harness, warm": [timed(partial(ours, each)) for each in splitters],
    }
    base = measured["official method"][0][0]
    print(f"{model}: {len(expected):,} checks, {english.name}\n")
    print(f"{'':18}{'seconds':>9}{'ms/text':>9}{'ratio':>8}  verdicts as recorded")
    for name, runs in measured.items():
        seconds = median(run[0] for run in runs)
        right = min(sum(map(bool.__eq__, run[1], expected)) for run in runs)
        print(
            f"{name:18}{seconds:9.2f}{1000 * seconds / len(expected):9.3f}"
            f"{seconds / base:8.3f}  {right:,} of {len(expected):,}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
