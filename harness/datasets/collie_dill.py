"""COLLIE's official file, ``all_data.dill``, as the rows of ``collie/instances.jsonl``.

The file is a pickle: 33 groups (``wiki_c14``, a source and a structure's number), each a list of
instances whose constraint is a tree of `collie.constraints` objects. `inert_pickle` reads it; here
is what may be in it, and what its trees mean.

>>> next(instances(Path("all_data.dill")))["id"]  # doctest: +SKIP
'wiki_c14/0'
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.datasets.inert_pickle import Record, Value, Vocabulary, read_pickle
from harness.errors import DataInvalid

CLASSES = {
    "All": {"callables"},
    "And": {"callable_1", "callable_2"},
    "Or": {"callable_1", "callable_2"},
    "Constraint": {"input_level", "target_level", "transformation", "relation", "reduction"},
    "InputLevel": {"level"},
    "TargetLevel": {"level"},
    "Count": {"count_target"},
    "Position": {"position"},
    "ForEach": {"func"},
    "Max": {"func"},
    "Relation": {"operand"},
    "Reduction": {"reduction", "value"},
}
"""The official classes that the grammar knows, each with its fields."""

MODULE = "collie.constraints."
VOCABULARY = Vocabulary(
    classes={MODULE + name: frozenset(fields) for name, fields in CLASSES.items()},
    # dill writes the built-in constant as a call that evaluates its name.
    calls={("dill._dill._eval_repr", "Ellipsis"): ...},
)

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
"""A group's number in the file -> the structure's name in the paper (c13 was left out)."""


def write_instances(dill: Path) -> Iterator[bytes]:
    """The lines of ``collie/instances.jsonl``."""
    for row in instances(dill):
        yield json.dumps(row, ensure_ascii=False).encode() + b"\n"


def instances(dill: Path) -> Iterator[dict[str, Any]]:
    """The instances in the order of the file, each as a row of plain JSON.

    Raises: DataInvalid for anything that is not such a file; see `read_pickle`.
    """
    groups = read_pickle(dill, VOCABULARY)
    if not isinstance(groups, dict):
        raise DataInvalid(f"{dill}: must hold a dictionary of groups.")
    for group, members in groups.items():
        source, _, number = group.partition("_")
        if number not in STRUCTURES or not isinstance(members, list):
            raise DataInvalid(f"{dill}: {group[:60]!r} is no group of instances.")
        for index, member in enumerate(members):
            name = f"{group}/{index}"
            try:
                row = _row(member)
            except _Unexpected as error:
                raise DataInvalid(f"{dill}, {name}: {error}.") from None
            named = {"id": name, "source": source, "structure": STRUCTURES[number]}
            yield named | {"group": group} | row


class _Unexpected(Exception):
    """A part is not of the form that it should have."""


def _row(member: Value) -> dict[str, Any]:
    if not isinstance(member, dict):
        raise _Unexpected("an instance must be a dictionary")
    if not isinstance(member.get("prompt"), str) or member.get("targets") is None:
        raise _Unexpected("'prompt' or 'targets' is missing")
    for key in ("example", "oneshot_prompt"):
        if not isinstance(member.get(key), str | None):
            raise _Unexpected(f"{key!r} must be a text")
    return {
        "prompt": member["prompt"],
        "targets": _plain(member["targets"]),
        "constraint": _constraint(member.get("constraint")),
        "example": member.get("example"),
        "oneshot_prompt": member.get("oneshot_prompt"),
        "metadata": _plain(member.get("metadata", {})),
    }


def _plain(value: Value) -> Any:
    match value:
        case None | int() | str():
            return value
        case list() | tuple():
            return [_plain(part) for part in value]
        case dict():
            return {key: _plain(part) for key, part in value.items()}
    raise _Unexpected(f"{_name(value)} stands where plain data should")


def _constraint(value: Value) -> dict[str, Any]:
    match _name(value), _fields(value):
        case "All", {"callables": list() | tuple() as parts}:
            return {"logic": "all", "constraints": [_constraint(part) for part in parts]}
        case "And" | "Or" as logic, {"callable_1": first, "callable_2": second}:
            parts = [_constraint(first), _constraint(second)]
            return {"logic": logic.lower(), "constraints": parts}
        case "Constraint", fields:
            # In the groups of c04 there is no level object where elsewhere there is one of None.
            split = fields.get("input_level")
            reduction = _state(fields.get("reduction"), "Reduction")
            return {
                "input_level": None if split is None else _state(split, "InputLevel")["level"],
                "target_level": _state(fields.get("target_level"), "TargetLevel")["level"],
                "transformation": _transformation(fields.get("transformation")),
                "relation": _state(fields.get("relation"), "Relation")["operand"],
                "reduction": reduction["reduction"],
                "reduction_value": reduction["value"],
            }
    raise _Unexpected(f"{_name(value)} stands where a constraint should")


def _transformation(value: Value) -> dict[str, Any]:
    match _name(value), _fields(value):
        case "Count", {"count_target": target}:
            return {"op": "count", "of": _plain(target)}
        case "Position", {"position": index}:
            return {"op": "position", "index": _plain(index)}
        case "ForEach" | "Max" as op, {"func": func}:
            do = {"op": "identity"} if func is ... else _transformation(func)
            return {"op": {"ForEach": "for_each", "Max": "max"}[op], "do": do}
    raise _Unexpected(f"{_name(value)} stands where a transformation should")


def _state(value: Value, name: str) -> dict[str, Any]:
    """The plain fields of a record that must be of this class, with all of them."""
    fields = _fields(value)
    if _name(value) != name or fields.keys() != CLASSES[name]:
        raise _Unexpected(f"{_name(value)} stands where a complete {name} should")
    return {key: _plain(part) for key, part in fields.items()}


def _name(value: Value) -> str:
    if isinstance(value, Record):
        return value.name.removeprefix(MODULE)
    return f"a {type(value).__name__}"


def _fields(value: Value) -> dict[str, Value]:
    return value.fields if isinstance(value, Record) else {}
