"""Multi-IF: IFEval over three turns, in eight languages (He et al. 2024, arXiv 2410.15553).

Each turn adds instructions, and those of the turns before still apply. The published score of a
turn is the mean of four accuracies: by prompt and by instruction, strict and loose.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import count
from math import fsum
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from typing_extensions import override

from harness.datasets.folder import DataFolder
from harness.datasets.rows import Row, RowFile, RowSource, iter_unique
from harness.errors import DataInvalid
from harness.plugins.benchmarks.ifeval.task import (
    COUNT,
    LOOSE,
    LOOSE_SHARE,
    STRICT,
    STRICT_SHARE,
    IFEvalItem,
    IFEvalTask,
    read_item,
)
from harness.plugins.hub.task import HubDataset
from harness.ports import Aggregates, GivenAnswer, read_paper
from harness.records import Instance, Message

BUILTIN = Path(__file__).with_name("builtin.jsonl")
HUB = "hub:"  # before the name of a data set on the Hub
MEAN = "multi_if"  # the published score of a turn
LANGUAGE = "language"  # a column, and a label
NO_TURN = (None, "", "None")  # prompts of turns that a conversation does not have
WEIGHTS = {STRICT: "", STRICT_SHARE: COUNT, LOOSE: "", LOOSE_SHARE: COUNT}
"""The four accuracies of a turn, and the scores by which they are weighted."""


class MultiIFItem(IFEvalItem, frozen=True):
    """A turn with the conversation so far. The first turn also has the ``later`` turns."""

    later: tuple[IFEvalItem, ...] = ()


One = Instance[Any]


class MultiIFTask(IFEvalTask):
    """IFEval over three turns, in eight languages (He et al. 2024).

    Args:
        dataset: ``builtin`` (a small example), a path to a file with the published columns, or
            hub: and the name of a data set of the Hub, as in hub:facebook/Multi-IF.
    """

    table = read_paper(__file__).table

    def __init__(self, dataset: str = "builtin", *, data: DataFolder) -> None:
        self.dataset = dataset
        self._verdicts = "official"
        self._source: RowSource
        if dataset.startswith(HUB):
            self._source = HubDataset(data.next_to_run_file(dataset.removeprefix(HUB)))
        else:
            self._source = RowFile(BUILTIN if dataset == "builtin" else data.file(dataset))

    def instances(self) -> Iterator[One]:
        """Yield the conversations, each with its language as its group."""
        return iter_unique(self._located_instances())

    def _located_instances(self) -> Iterator[tuple[str, One]]:
        for where, row in self._source.rows():
            item = read_conversation(row, where)
            language = str(row.get(LANGUAGE) or "unknown")
            yield where, Instance(item.id, item, {LANGUAGE: language})

    def fingerprint(self) -> Mapping[str, str]:
        """Return the same facts as IFEval's task, and the version of langdetect."""
        return {**super().fingerprint(), "langdetect": version("langdetect")}

    def _data_fingerprint(self) -> Mapping[str, str]:
        return {**self._source.fingerprint(), "dataset": self.dataset}

    @override
    def turns(self, instance: One) -> int:
        """Return the number of the user's turns."""
        return 1 + len(instance.data.later)

    @override
    def at_turn(self, instance: One, answers: Sequence[str]) -> One:
        """Return an instance as of the turn after ``answers``."""
        item = instance.data
        messages = instance.data.messages
        for answer, following in zip(answers, instance.data.later, strict=False):
            messages = (*messages, Message("assistant", answer), *following.messages)
            item = replace(following, messages=messages)
        return replace(instance, data=item)

    @override
    def aggregate_answers(self, answers: Iterable[GivenAnswer]) -> Aggregates:
        """Return each turn's four accuracies, their mean and number of answers.

        Turns that were not asked do not count.
        """
        language = {instance.id: instance.groups[LANGUAGE] for instance in self.instances()}
        turns = defaultdict[int, list[Mapping[str, float]]](list)
        parts = defaultdict[tuple[int, str], list[Mapping[str, float]]](list)
        for answer in answers:
            if COUNT in answer.scores:
                turns[answer.turn].append(answer.scores)
                parts[answer.turn, language[answer.instance]].append(answer.scores)
        accuracies = {f"turn {turn}": _accuracies(turns[turn]) for turn in sorted(turns)}
        for (turn, spoken), scores in sorted(parts.items()):
            every = _accuracies(scores)
            mean = {MEAN: every[MEAN], "answers": every["answers"]}
            accuracies[f"turn {turn}, {spoken}"] = mean
        return accuracies


def _accuracies(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    accuracies = {}
    for name, weight in WEIGHTS.items():
        weights = [answer[weight] if weight else 1.0 for answer in scores]
        values = [answer[name] * weight for answer, weight in zip(scores, weights, strict=True)]
        accuracies[name] = fsum(values) / fsum(weights)
    mean = fsum(accuracies.values()) / len(accuracies)
    return {MEAN: mean, **accuracies, "answers": len(scores)}


def read_conversation(row: Row, where: str) -> MultiIFItem:
    """Return the first turn of a conversation, with the later turns."""
    turns = []
    for number in count(1):
        prefix = f"turn_{number}_"
        if row.get(f"{prefix}prompt") in NO_TURN:
            break
        arguments = _decoded(row, f"{prefix}kwargs", where)
        turn_row = {
            "key": row.get("key"),
            "messages": [_decoded(row, f"{prefix}prompt", where)],
            "instruction_id_list": _decoded(row, f"{prefix}instruction_id_list", where),
            "kwargs": [_object(argument, f"{prefix}kwargs", where) for argument in arguments],
        }
        for name in ("reference", "wrong"):
            if prefix + name in row:
                turn_row[name] = row[prefix + name]
        turns.append(read_item(turn_row, f"{where}, turn {number}", "official", multilingual=True))
    if not turns:
        raise DataInvalid(f"{where}: there is no turn_1_prompt.")
    first, *later = turns
    return MultiIFItem(
        first.id, first.messages, first.instructions, first.reference, first.wrong, tuple(later)
    )


def _decoded(row: Row, column: str, where: str) -> Any:
    return _object(row.get(column), column, where)


def _object(value: Any, column: str, where: str) -> Any:
    """Return a value of a column. A string is decoded as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise DataInvalid(f"{where}: {column} is not JSON.") from None
