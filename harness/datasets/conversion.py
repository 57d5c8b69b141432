"""Converts public originals into the files that the harness reads.

- COLLIE's official file, ``all_data.dill``, is a pickle: 33 groups (``wiki_c14``: a source and the
  number of a structure), each a list of instances whose constraint is a tree of
  `collie.constraints` objects.
- COLLIE's recorded generations, ``logs/*.json``, are columns as long as ``prompts``. One answer per
  prompt is ``texts``; several rounds are ``1st_round_text``, ``1st_round_feedback``,
  ``2nd_round_text``, …, and the last round has no feedback.
- The recorded GPT-3 answers to Natural Instructions are files in a zip archive, one for each task,
  encoding and number of examples: ``TASK@ENCODING@EXAMPLES_INSTANCES.json``.

Names in an archive are only compared, never used as paths, and its claims about sizes are not
believed.

>>> next(collie_instances(Path("all_data.dill")))["id"]  # doctest: +SKIP
'wiki_c14/0'
>>> next(collie_generations(Path("vicuna-7b-1trial-no1-prompt.json")))  # doctest: +SKIP
{'prompt': 'Please …', 'rounds': [{'text': 'In the …', 'feedback': None}]}
"""

from __future__ import annotations

import json
import pickle
import re
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any, ClassVar
from zipfile import BadZipFile, ZipFile

import msgspec

from harness.datasets.folder import cannot_read
from harness.errors import DataInvalid

CLASSES = {
    *("All", "And", "Or", "Constraint", "InputLevel", "TargetLevel", "Relation", "Reduction"),
    *("Count", "Position", "ForEach", "Max"),
}
"""The official classes that the grammar knows."""

MODULE = "collie.constraints"
MAX_BYTES = 8 * 2**20

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
"""The number of a group in the file -> the structure's name in the paper (there is no c13)."""


@dataclass(slots=True)
class Record:
    """Stands for an object of a pickle, without behaviour."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)

    def __setstate__(self, state: Any) -> None:
        self.fields = dict(state)


class _InertUnpickler(pickle._Unpickler):
    """Knows the names of `CLASSES`, whose objects become records, and one constant.

    The unpickler in Python: the one in C reserves as much memory as a position in the memo says.
    """

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)
    del dispatch[pickle.BYTEARRAY8[0]]  # it reserves as much memory as the file says

    def find_class(self, module_name: str, global_name: str) -> Any:
        if module_name == MODULE and global_name in CLASSES:
            return type(global_name, (), {"__new__": lambda cls: Record(global_name)})
        if (module_name, global_name) == ("dill._dill", "_eval_repr"):  # how dill writes `...`
            return {"Ellipsis": ...}.__getitem__
        raise pickle.UnpicklingError(f"the name '{module_name}.{global_name}'")


def read_pickle(path: Path) -> Any:
    """Read the plain values and records of a pickle; it cannot import or call anything.

    Raises:
        DataInvalid: It has an unknown name, or is not a complete pickle.
        DataMissing: The file cannot be read.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataInvalid(f"{path}: refused: it has more than {MAX_BYTES:,} bytes.")
        with path.open("rb") as file:
            return _InertUnpickler(file).load()
    except OSError as error:
        raise cannot_read(path, error) from None
    except DataInvalid:
        raise
    except Exception as error:  # a damaged pickle may raise any
        raise DataInvalid(
            f"{path}: refused: {str(error)[:200]}.",
            "Do not load this file by other means: a pickle can run any command.",
        ) from None


def write_instances(dill: Path) -> Iterator[bytes]:
    """Yield the lines of ``collie/instances.jsonl``."""
    return _lines(collie_instances(dill))


def _lines(rows: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    for row in rows:
        yield json.dumps(row, ensure_ascii=False).encode() + b"\n"


def collie_instances(dill: Path) -> Iterator[dict[str, Any]]:
    """Yield the instances of COLLIE's official file in order, each as a row of plain JSON.

    Raises:
        DataInvalid: It is not such a file.
    """
    groups = read_pickle(dill)
    if not isinstance(groups, dict):
        raise DataInvalid(f"{dill}: must hold a dictionary of groups.")
    for group, members in groups.items():
        source, _, number = str(group).partition("_")
        if number not in STRUCTURES or not isinstance(members, list):
            raise DataInvalid(f"{dill}: {str(group)[:60]!r} is not a group of instances.")
        for index, member in enumerate(members):
            name = f"{group}/{index}"
            try:
                row = _row(member)
            except (_Unexpected, RecursionError) as error:
                raise DataInvalid(f"{dill}, {name}: {error}.") from None
            named = {"id": name, "source": source, "structure": STRUCTURES[number]}
            yield named | {"group": group} | row


class _Unexpected(Exception):
    """A part does not have the expected form."""


def _row(member: Any) -> dict[str, Any]:
    if not isinstance(member, dict):
        raise _Unexpected("an instance must be a dictionary")
    if not isinstance(member.get("prompt"), str) or member.get("targets") is None:
        raise _Unexpected("'prompt' or 'targets' is missing")
    for key in ("example", "oneshot_prompt"):
        if not isinstance(member.get(key), str | None):
            raise _Unexpected(f"{key!r} must be text")
    return {
        "prompt": member["prompt"],
        "targets": _plain(member["targets"]),
        "constraint": _constraint(member.get("constraint")),
        "example": member.get("example"),
        "oneshot_prompt": member.get("oneshot_prompt"),
        "metadata": _plain(member.get("metadata", {})),
    }


def _plain(value: Any) -> Any:
    match value:
        case None | int() | str():
            return value
        case list() | tuple():
            return [_plain(part) for part in value]
        case dict():
            return {key: _plain(part) for key, part in value.items()}
    raise _Unexpected(f"{_kind(value)} is not plain data")


def _constraint(value: Any) -> dict[str, Any]:
    match value:
        case Record("All", {"callables": list() | tuple() as parts}):
            return {"logic": "all", "constraints": [_constraint(part) for part in parts]}
        case Record("And" | "Or" as logic, {"callable_1": first, "callable_2": second}):
            parts = [_constraint(first), _constraint(second)]
            return {"logic": logic.lower(), "constraints": parts}
        case Record(
            "Constraint",
            {
                "target_level": Record("TargetLevel", {"level": target}),
                "transformation": transformation,
                "relation": Record("Relation", {"operand": operand}),
                "reduction": Record("Reduction", {"reduction": reduction, "value": reduced}),
                **others,
            },
        ):
            # The groups of c04 have no level object where others have one of None.
            split = others.get("input_level") or Record("InputLevel", {"level": None})
            return {
                "input_level": _plain(split.fields["level"]),
                "target_level": _plain(target),
                "transformation": _transformation(transformation),
                "relation": _plain(operand),
                "reduction": _plain(reduction),
                "reduction_value": _plain(reduced),
            }
    raise _Unexpected(f"{_kind(value)} is not a constraint")


def _transformation(value: Any) -> dict[str, Any]:
    match value:
        case Record("Count", {"count_target": target}):
            return {"op": "count", "of": _plain(target)}
        case Record("Position", {"position": index}):
            return {"op": "position", "index": _plain(index)}
        case Record("ForEach" | "Max" as op, {"func": func}):
            do = {"op": "identity"} if func is ... else _transformation(func)
            return {"op": {"ForEach": "for_each", "Max": "max"}[op], "do": do}
    raise _Unexpected(f"{_kind(value)} is not a transformation")


def _kind(value: Any) -> str:
    return f"a {value.name if isinstance(value, Record) else type(value).__name__}"


ORDINALS = ("1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th", "9th")


def write_generations(log: Path) -> Iterator[bytes]:
    """Return the lines of ``collie/generations/MODEL.jsonl``."""
    return _lines(collie_generations(log))


def collie_generations(log: Path) -> Iterator[dict[str, Any]]:
    """Yield the prompts of a log with their rounds, in order.

    Raises:
        DataInvalid: A column is missing, unknown or of a different length.
        DataMissing: The file cannot be read.
    """
    columns = _columns(log)
    prompts = columns.pop("prompts", [])
    if not prompts:
        raise DataInvalid(f"{log}: 'prompts' is missing.")
    if len(set(prompts)) < len(prompts):
        raise DataInvalid(f"{log}: a prompt occurs twice; logs of several trials cannot be read.")
    for name, column in columns.items():
        if len(column) != len(prompts):
            raise DataInvalid(f"{log}: {len(column)} {name!r} for {len(prompts)} prompts.")
    rounds = list(_rounds(columns))
    if columns or not rounds:
        known = "'texts', or '1st_round_text', '1st_round_feedback' and so on"
        raise DataInvalid(f"{log}: besides 'prompts' there must be {known}.")
    for prompt, *pairs in zip(prompts, *rounds, strict=False):
        yield {
            "prompt": prompt,
            "rounds": [{"text": text, "feedback": feedback} for text, feedback in pairs],
        }


def _columns(log: Path) -> dict[str, list[str]]:
    try:
        return msgspec.json.decode(log.read_bytes(), type=dict[str, list[str]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DataInvalid(f"{log}: not a log of generations ({error}).") from None
    except OSError as error:
        raise cannot_read(log, error) from None


def _rounds(columns: dict[str, list[str]]) -> Iterator[Iterator[tuple[str, str | None]]]:
    """Yield the texts of each round with their feedback; removes the columns that it uses."""
    names = ["texts"] if "texts" in columns else [f"{ordinal}_round_text" for ordinal in ORDINALS]
    for name in names:
        if name not in columns:
            return
        texts = columns.pop(name)
        feedback = columns.pop(name.replace("_text", "_feedback"), None)
        yield zip(texts, repeat(None) if feedback is None else feedback, strict=False)


MOST_FILES = 5_000
LARGEST = 2**24
"""Most bytes of a file of answers, with its prompts."""

_NAME = re.compile(r"(?:.*/)?predictions/gpt3_outputs/([^@/]+)@(_[^@/]+)@(\d{1,4})_\d+\.json")


class _Answer(msgspec.Struct):
    index: int
    output: str


class _File(msgspec.Struct):
    predictions: list[_Answer]


def write_predictions(archive: Path, tasks: Collection[str]) -> Iterator[bytes]:
    """Yield the lines of ``gpt3_predictions.jsonl``: GPT-3's answers to some tasks."""
    for row in gpt3_predictions(archive, tasks):
        yield msgspec.json.encode(row) + b"\n"


def gpt3_predictions(archive: Path, tasks: Collection[str]) -> Iterator[dict[str, Any]]:
    """GPT-3's answers to some tasks, file by file, sorted by name.

    Raises:
        DataInvalid: The archive cannot be read, or has no such answers.
    """
    try:
        with ZipFile(archive) as opened:
            names = opened.namelist()
    except (BadZipFile, OSError) as error:
        raise DataInvalid(f"{archive}: not a zip archive ({error}).") from None
    if len(names) > MOST_FILES:
        raise DataInvalid(f"{archive}: more than {MOST_FILES:,} files.")
    files = [found for name in sorted(names) if (found := _NAME.fullmatch(name))]
    files = [found for found in files if found[1] in tasks]
    if not files:
        raise DataInvalid(f"{archive}: it has no answers of GPT-3.")
    for found in files:
        name, (task, encoding, examples) = found[0], found.groups()
        try:
            text = b"".join(member(archive, name, LARGEST))
            answers = msgspec.json.decode(text, type=_File).predictions
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise DataInvalid(f"{archive}: {name} is not a file of answers ({error}).") from None
        for answer in answers:
            yield {
                "task": task,
                "encoding": encoding,
                "fields": encoding.removeprefix("_").split("_"),
                "n_examples": int(examples),
                "index": answer.index,
                "output": answer.output,
            }


def member(archive: Path, name: str, limit: int = 2**26) -> Iterator[bytes]:
    """Yield the bytes of a file in a zip archive, at most ``limit`` of them, in pieces.

    Raises:
        DataInvalid: The archive cannot be read, has no such file, or the file is larger.
    """
    total = 0
    try:
        with ZipFile(archive) as opened, opened.open(name) as file:
            while piece := file.read(2**16):
                total += len(piece)
                if total > limit:
                    raise DataInvalid(f"{archive}: {name} has more than {limit:,} bytes.")
                yield piece
    except KeyError:
        raise DataInvalid(f"{archive}: it has no {name}.") from None
    # RuntimeError: a password is needed; NotImplementedError (one of these): unknown compression.
    except (BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
        raise DataInvalid(f"{archive}: {name} cannot be unpacked ({error}).") from None
