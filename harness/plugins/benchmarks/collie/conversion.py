"""Converts COLLIE's published files into the files that the harness reads.

COLLIE's official file is a pickle of 33 groups of instances, such as ``wiki_c14``. The constraint
of an instance is a tree of `collie.constraints` objects.
"""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from harness.datasets.catalogue import json_line
from harness.errors import DataInvalid, unreadable_file_error
from harness.records import JsonObject

# The official classes that correspond to the grammar.
CLASSES = {
    "All",
    "And",
    "Or",
    "Constraint",
    "InputLevel",
    "TargetLevel",
    "Relation",
    "Reduction",
    "Count",
    "Position",
    "ForEach",
    "Max",
}

MODULE = "collie.constraints"
MAX_BYTES = 8 * 2**20  # maximum size of a pickle

# By group number in the file (there is no c13): the structure's name in the paper.
STRUCTURES = {
    "c01": "word01",
    "c02": "word02",
    "c03": "word03",
    "c04": "sent01",
    "c05": "sent02",
    "c06a": "sent03",
    "c07": "sent04",
    "c08": "para01",
    "c09": "para02",
    "c10": "para03",
    "c11": "para04",
    "c12": "para05",
    "c14": "pass01",
}


@dataclass(slots=True)
class Record:
    """An object in a pickle, reduced to the name of its class and its fields."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)

    def __setstate__(self, state: Any) -> None:
        self.fields = dict(state)


class _InertUnpickler(pickle._Unpickler):
    """An unpickler of plain values and ``...``, which turns objects of `CLASSES` into records.

    It is the one written in Python, because a file can make the C one allocate any memory.
    """

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)
    del dispatch[pickle.BYTEARRAY8[0]]  # it would allocate as much memory as the file says

    def find_class(self, module_name: str, global_name: str) -> Any:
        if module_name == MODULE and global_name in CLASSES:
            return type(global_name, (), {"__new__": lambda cls: Record(global_name)})
        if (module_name, global_name) == ("dill._dill", "_eval_repr"):  # how dill writes `...`
            return {"Ellipsis": ...}.__getitem__
        raise pickle.UnpicklingError(f"the name '{module_name}.{global_name}'")


def read_pickle(path: Path) -> Any:
    """Return the value in a pickle, with `Record` objects. Nothing is imported or called."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataInvalid(f"{path}: refused: it has more than {MAX_BYTES:,} bytes.")
        with path.open("rb") as file:
            return _InertUnpickler(file).load()
    except OSError as error:
        raise unreadable_file_error(path, error) from None
    except DataInvalid:
        raise
    except Exception as error:  # a damaged pickle may raise anything
        remedy = "Do not load this file by other means: a pickle can run any command."
        raise DataInvalid(f"{path}: refused: {str(error)[:200]}.", remedy) from None


def write_instances(dill: Path) -> Iterator[bytes]:
    """Yield the lines of ``collie/instances.jsonl``, made from COLLIE's official file."""
    groups = read_pickle(dill)
    name = "its groups"
    try:
        for group, members in groups.items():
            source, _, number = group.partition("_")
            for index, member in enumerate(members):
                name = f"{group}/{index}"
                row = {
                    "id": name,
                    "source": source,
                    "structure": STRUCTURES[number],
                    "group": group,
                    "prompt": member["prompt"],
                    "targets": member["targets"],
                    "constraint": _constraint(member["constraint"]),
                    "example": member.get("example"),
                    "oneshot_prompt": member.get("oneshot_prompt"),
                    "metadata": member.get("metadata", {}),
                }
                yield json_line(row)  # fails if a record is left
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise DataInvalid(f"{dill}, {name}: not in COLLIE's form ({problem:.200}).") from None


def _constraint(value: Record) -> JsonObject:
    parts = value.fields
    if value.name in ("All", "And", "Or"):
        if value.name == "All":
            inner = parts["callables"]
        else:
            inner = [parts["callable_1"], parts["callable_2"]]
        return {"logic": value.name.lower(), "constraints": [_constraint(part) for part in inner]}
    # The groups of c04 have no level object where others have a level of None.
    split = parts.get("input_level") or Record("InputLevel", {"level": None})
    reduction = parts["reduction"].fields
    return {
        "input_level": split.fields["level"],
        "target_level": parts["target_level"].fields["level"],
        "transformation": _transformation(parts["transformation"]),
        "relation": parts["relation"].fields["operand"],
        "reduction": reduction["reduction"],
        "reduction_value": reduction["value"],
    }


def _transformation(value: Any) -> JsonObject:
    match value:
        case Record("Count", {"count_target": target}):
            return {"op": "count", "of": target}
        case Record("Position", {"position": index}):
            return {"op": "position", "index": index}
        case Record("ForEach" | "Max" as op, {"func": func}):
            do = {"op": "identity"} if func is ... else _transformation(func)
            return {"op": {"ForEach": "for_each", "Max": "max"}[op], "do": do}
    raise ValueError("unknown transformation")


def write_generations(log: Path) -> Iterator[bytes]:
    """Yield the lines of ``collie/generations/MODEL.jsonl``, made from a model's recorded log."""
    try:
        columns = msgspec.json.decode(log.read_bytes(), type=dict[str, list[str]])
        prompts = columns["prompts"]
        missing = [None] * len(prompts)
        rounds = []
        for name in sorted(columns):  # "1st_round_text", "2nd_round_text", …
            if name == "texts" or name.endswith("_round_text"):
                feedback = columns.get(f"{name[:3]}_round_feedback", missing)
                rounds.append(zip(columns[name], feedback, strict=True))
        for prompt, *pairs in zip(prompts, *rounds, strict=True):
            answers = [{"text": text, "feedback": feedback} for text, feedback in pairs]
            yield json_line({"prompt": prompt, "rounds": answers})
    except OSError as error:
        raise unreadable_file_error(log, error) from None
    except (msgspec.MsgspecError, LookupError, ValueError, RecursionError) as error:
        raise DataInvalid(f"{log}: not a log of generations ({error}).") from None
