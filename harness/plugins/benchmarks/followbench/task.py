"""FollowBench: instructions that gain one constraint per level, from 1 to 5.

Jiang et al. 2024, "FollowBench: A Multi-level Fine-grained Constraints Following Benchmark for
Large Language Models" (arXiv 2310.20410). Rules decide on some of the answers
(`rules`), and the judge ``followbench`` decides on the others. Without
this judge, the others have no verdict.

The paper's figures are the soft satisfaction rate and the consistent satisfaction levels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, get_args

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray
from typing_extensions import override

from harness.analysis.breakdown import group_codes, score_values
from harness.datasets.catalogue import MAX_MEMBER_BYTES, decode_json_as, json_line, member
from harness.datasets.folder import DataFolder, sha256
from harness.datasets.rows import Row, convert_row, read_rows
from harness.errors import DataInvalid, DataMissing
from harness.plugins.benchmarks.followbench.rules import CHECKS, FollowBenchRule, rule_for
from harness.ports import FigureKind, TableFigure, Task, read_paper
from harness.records import Criterion, Instance, JsonObject, Message, Score
from harness.scoring.text import english_rules_details
from harness.store.columns import NOT_JUDGED, AttemptTable, change_mask

PUBLIC = "followbench/data.jsonl"
BUILTIN = Path(__file__).with_name("builtin.jsonl")

Category = Literal["content", "situation", "style", "format", "mixed", "example"]
# Kinds of constraints, and names of the published files: ``content_constraints.json``.
CATEGORIES: tuple[Category, ...] = get_args(Category)

RULE = "rule"  # name of the score by rules
WRONG = "I would rather talk about something else."


class FollowBenchItem(Struct, frozen=True):
    """An instruction with ``level`` constraints.

    ``evolution`` has the instructions from level 0 to this level, or only this instruction for the
    category ``example``. ``rule`` is None if a judge decides.
    """

    id: str
    category: Category
    level: int
    evolution: tuple[str, ...]
    rule: FollowBenchRule | None = None
    answer: str | None = None  # an answer that meets all constraints

    @property
    def instruction(self) -> str:
        """The instruction with all constraints of its level."""
        return self.evolution[-1]


One: TypeAlias = Instance[FollowBenchItem]


class FollowBenchTask(Task[FollowBenchItem]):
    """Instructions with one to five constraints, one more at each level (Jiang et al. 2024).

    Args:
        dataset: ``builtin`` (a small example), ``public`` (the authors' 820 instructions), or the
            path of a file like followbench/data.jsonl or a folder of the authors' JSON files.
        categories: The categories to use. If empty, all are used.
        leave_out: Instructions to leave out, for example because a recording lacks them. Each is
            named by category and number, such as ``example/4``.
    """

    on_truncated = "grade"  # the authors' code scores truncated answers
    table = read_paper(__file__).table

    def __init__(
        self,
        dataset: str = "builtin",
        categories: list[Category] | None = None,
        leave_out: list[str] | None = None,
        *,
        data: DataFolder,
    ) -> None:
        self.dataset = dataset
        self._categories = tuple(categories or CATEGORIES)
        self._leave_out = frozenset(leave_out or ())
        if dataset == "builtin":
            self.path = BUILTIN
        elif dataset == "public":
            self.path = data.file(PUBLIC)
        elif dataset.endswith(".jsonl"):
            self.path = data.file(dataset)
        else:
            self.path = data.file_or_folder(dataset)
        if self.path.is_dir() and not _published(self.path, CATEGORIES):
            problem = f"The folder {self.path} has none of the authors' files."
            raise DataMissing(problem, "They are named as in content_constraints.json.")

    def instances(self) -> Iterator[One]:
        """Yield the instructions of levels 1 to 5 in file order."""
        for item in read_items(self.path, self._categories):
            group = item.id.rpartition("/")[0]
            if group in self._leave_out:
                continue
            groups = {"category": item.category, "level": str(item.level)}
            groups["scored_by"] = "judge" if item.rule is None else RULE
            if item.rule is not None and item.category != "example":
                groups["source"] = item.rule.source
            yield Instance(item.id, item, groups, group)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the name and hash of the data set."""
        files = [self.path]
        if self.path.is_dir():
            files = list(_published(self.path, CATEGORIES).values())
        return {"dataset": self.dataset, "dataset_sha256": " ".join(map(sha256, files))}

    def messages(self, instance: One, shots: Sequence[One]) -> tuple[Message, ...]:
        """Return the instruction as one user message, without ``shots``, as in the paper."""
        return (Message("user", instance.data.instruction),)

    def score(self, instance: One, text: str) -> Mapping[str, Score]:
        """Return ``rule``: whether an answer meets all constraints; {} if a judge decides."""
        rule = instance.data.rule
        if rule is None:
            return {}
        reason = rule.violation(text)
        details = {}
        if rule.source in CHECKS:
            details = english_rules_details(text, "")
        return {RULE: Score(not reason, not reason, reason, details)}

    @override
    def score_of_no_answer(self, instance: One) -> Mapping[str, Score]:
        """Return ``rule`` as False, or {} if a judge decides."""
        return {} if instance.data.rule is None else {RULE: Score(False, False)}

    def feedback(self, instance: One, text: str, scores: Mapping[str, Score]) -> str:
        """Return a request to answer again, with the reason if a rule is violated."""
        request = "Your answer does not meet all that was asked for yet. Please answer again."
        verdict = scores.get(RULE)
        if verdict and verdict.reason:
            request += f"\nWhat is wrong: {verdict.reason}."
        return request

    def reference(self, instance: One) -> str | None:
        """Return an answer that meets all constraints, or None if none is known."""
        return instance.data.answer

    @override
    def wrong_answer(self, instance: One) -> str | None:
        """Return an answer that breaks the rule, or None if a judge decides."""
        return WRONG if instance.data.rule is not None else None

    @override
    def instruction(self, instance: One) -> str:
        """Return the instruction with all constraints, for a judge."""
        return instance.data.instruction

    @override
    def criteria(self, instance: One) -> Sequence[Criterion]:
        """Return one criterion per constraint, or a single one for the category ``example``."""
        if instance.data.category == "example":
            return [Criterion("It has the form of the answers in the examples.")]
        added = pairwise(instance.data.evolution)
        return [Criterion(f"What {new!r} asks for beyond {old!r}.") for old, new in added]

    def rule_verdict(self, instance: One, text: str) -> bool | None:
        """Return whether an answer follows the instance's rule, or None if it has none."""
        rule = instance.data.rule
        return None if rule is None else not rule.violation(text)


class _Row(Struct):
    example_id: int
    source: str
    level: Annotated[int, Meta(ge=0, le=5)]
    instruction: str
    constraint_type: Category
    category: str = ""
    target: str = ""
    answer: str | None = None


def read_items(
    path: Path, categories: Sequence[Category] = CATEGORIES
) -> Iterator[FollowBenchItem]:
    """Yield the items of some categories at levels 1 to 5, from a file or the authors' folder."""
    evolutions = defaultdict[tuple[Category, int], tuple[str, ...]](tuple)
    for where, raw in _rows(path, categories):
        row = convert_row(raw, _Row, where)
        group = (row.constraint_type, row.example_id)
        first = int(row.constraint_type == "example")
        expected = len(evolutions[group]) + first
        if row.level != expected:
            problem = f"level {row.level} follows {expected - 1}"
            raise DataInvalid(f"{where}: {problem}.", f"Levels start at {first} and increase by 1.")
        evolutions[group] += (row.instruction,)
        if row.level and row.constraint_type in categories:
            yield _item(row, evolutions[group], where)


def _rows(path: Path, categories: Sequence[Category]) -> Iterator[tuple[str, Row]]:
    if not path.is_dir():
        yield from read_rows(path)
        return
    for category, file in _published(path, categories).items():
        for where, row in read_rows(file):
            yield where, {"constraint_type": category, **row}


def _item(row: _Row, evolution: tuple[str, ...], where: str) -> FollowBenchItem:
    category = row.constraint_type
    level = row.level
    kind = row.category or category
    try:
        rule = rule_for(category, kind, row.source, row.example_id, level, row.target)
    except ValueError as error:
        raise DataInvalid(f"{where}: 'target' {error}.") from None
    answer = row.answer
    if rule is not None:
        if answer is None:
            answer = rule.answer
        if answer is not None and rule.violation(answer):
            answer = None  # five published examples have answers that are not in their form
    if category == "example":
        evolution = evolution[-1:]
    name = f"{category}/{row.example_id}/{level}"
    return FollowBenchItem(name, category, level, evolution, rule, answer)


def _published(folder: Path, categories: Sequence[Category]) -> dict[Category, Path]:
    files = {}
    for category in categories:
        file = folder / f"{category}_constraints.json"
        if file.is_file():
            files[category] = file
    return files


CONSECUTIVE = "consecutive"
"""Name of the score that `consecutive` adds. Its values are numbers of levels."""


def partial(samples: AttemptTable, score: str) -> AttemptTable:
    """Return the samples with a score's missing values replaced by known verdicts (1 or 0)."""
    filled = np.where(samples.has_verdict, samples.passed, np.nan)
    indices, values = score_values(samples, score)
    filled[indices] = values
    return replace(samples, scores={**samples.scores, score: filled})


def consecutive(samples: AttemptTable, label: str) -> AttemptTable:
    """Return one row per cluster and sample, with the number of consecutive levels that pass.

    Levels are the groups of ``label`` in numerical order. A cluster has one instance per level. The
    score `CONSECUTIVE` is missing if a level before the first failure is absent or has no verdict.
    """
    codes, names = group_codes(samples.instances.groupings, (label,))
    order = sorted(range(len(names)), key=lambda n: (len(names[n][0]), names[n]))
    rank = np.empty(len(names) + 1, np.intp)
    rank[order] = np.arange(len(names))
    rank[-1] = -1
    level = rank[codes[samples.instances.grouping[samples.instance]]]
    rows = np.lexsort((level, samples.sample, samples.cluster))
    rows = rows[level[rows] >= 0]
    starts = change_mask(samples.cluster[rows]) | change_mask(samples.sample[rows])
    firsts = []
    values = []
    for part in np.split(rows, np.flatnonzero(starts)[1:]) if len(rows) else []:
        firsts.append(part.min())
        values.append(_levels_passed(level[part], samples.passed[part], len(names)))
    by_first = np.argsort(firsts).astype(np.intp)
    first_samples = samples.take(np.array(firsts, np.int32)[by_first])
    return replace(
        first_samples,
        scores={**first_samples.scores, CONSECUTIVE: np.array(values, float)[by_first]},
        shares={**first_samples.shares, CONSECUTIVE: False},
    )


def _levels_passed(level: NDArray[np.intp], passed: NDArray[np.generic], n: int) -> float:
    for number, (rank, verdict) in enumerate(zip(level, passed, strict=True)):
        if rank != number or verdict == NOT_JUDGED:
            return np.nan
        if verdict != 1:
            return float(number)
    return float(n) if len(level) == n else np.nan


def _partial(samples: AttemptTable, figure: TableFigure) -> tuple[AttemptTable, str]:
    return partial(samples, figure.score), figure.score


def _consecutive(samples: AttemptTable, figure: TableFigure) -> tuple[AttemptTable, str]:
    return consecutive(samples, figure.label), CONSECUTIVE


SOFT_RATE = FigureKind(_partial, "{0.score!r} or, if that is missing, the verdict.")
LEVELS = FigureKind(
    _consecutive, "the number of consecutive {0.label}s that pass, from the lowest up."
)


def write_instructions(archive: Path, folder: str) -> Iterator[bytes]:
    """Yield the lines of ``followbench/data.jsonl`` from files named after their categories."""
    for category in CATEGORIES:
        name = f"{folder}/{category}_constraints.json"
        [content] = member(archive, name, MAX_MEMBER_BYTES)
        where = f"{archive}: {name} is not a list of rows"
        for row in decode_json_as(content, list[JsonObject], where):
            yield json_line({"constraint_type": category, **row})
