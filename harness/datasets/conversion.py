"""Converts published data files into the files that the harness reads.

COLLIE's official file is a pickle of 33 groups of instances, such as ``wiki_c14``. The constraint
of an instance is a tree of `collie.constraints` objects. The names in an archive are only compared,
never used as paths, and the sizes in it are not trusted.
"""

import ast
import hashlib
import json
import pickle
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, TypeVar
from zipfile import BadZipFile, ZipFile

import msgspec

from harness.errors import DataInvalid, cannot_read

T = TypeVar("T")

# The official classes that correspond to the grammar.
CLASSES = {
    *("All", "And", "Or", "Constraint", "InputLevel", "TargetLevel", "Relation", "Reduction"),
    *("Count", "Position", "ForEach", "Max"),
}

MODULE = "collie.constraints"
MAX_BYTES = 8 * 2**20  # maximum size of a pickle

# By group number in the file (there is no c13): the structure's name in the paper.
STRUCTURES = {
    **{"c01": "word01", "c02": "word02", "c03": "word03", "c04": "sent01", "c05": "sent02"},
    **{"c06a": "sent03", "c07": "sent04", "c08": "para01", "c09": "para02", "c10": "para03"},
    **{"c11": "para04", "c12": "para05", "c14": "pass01"},
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
        raise cannot_read(path, error) from None
    except DataInvalid:
        raise
    except Exception as error:  # a damaged pickle may raise anything
        remedy = "Do not load this file by other means: a pickle can run any command."
        raise DataInvalid(f"{path}: refused: {str(error)[:200]}.", remedy) from None


def unchanged(original: Path) -> Iterator[bytes]:
    """Yield the content of a file unchanged, in one piece."""
    yield original.read_bytes()


def write_instances(dill: Path) -> Iterator[bytes]:
    """Yield the lines of ``collie/instances.jsonl``, made from COLLIE's official file."""
    groups, name = read_pickle(dill), "its groups"
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
                yield _line(row)  # fails if a record is left
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise DataInvalid(f"{dill}, {name}: not in COLLIE's form ({problem:.200}).") from None


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def _constraint(value: Record) -> dict[str, Any]:
    parts = value.fields
    if value.name in ("All", "And", "Or"):
        keys = ("callable_1", "callable_2")
        inner = parts["callables"] if value.name == "All" else [parts[key] for key in keys]
        return {"logic": value.name.lower(), "constraints": [_constraint(part) for part in inner]}
    # The groups of c04 have no level object where others have a level of None.
    split = parts.get("input_level") or Record("InputLevel", {"level": None})
    return {
        "input_level": split.fields["level"],
        "target_level": parts["target_level"].fields["level"],
        "transformation": _transformation(parts["transformation"]),
        "relation": parts["relation"].fields["operand"],
        "reduction": parts["reduction"].fields["reduction"],
        "reduction_value": parts["reduction"].fields["value"],
    }


def _transformation(value: Any) -> dict[str, Any]:
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
        none = [None] * len(prompts)
        rounds = [
            zip(columns[name], columns.get(f"{name[:3]}_round_feedback", none), strict=True)
            for name in sorted(columns)  # "1st_round_text", "2nd_round_text", …
            if name == "texts" or name.endswith("_round_text")
        ]
        for prompt, *pairs in zip(prompts, *rounds, strict=True):
            said = [{"text": text, "feedback": feedback} for text, feedback in pairs]
            yield _line({"prompt": prompt, "rounds": said})
    except OSError as error:
        raise cannot_read(log, error) from None
    except (msgspec.MsgspecError, LookupError, ValueError, RecursionError) as error:
        raise DataInvalid(f"{log}: not a log of generations ({error}).") from None


LARGEST = 2**24  # maximum bytes of a file in an archive; `member` has its own default
_ANSWERS = re.compile(r"(?:.*/)?predictions/gpt3_outputs/([^@/]+)@(_[^@/]+)@(\d{1,4})_\d+\.json")


class _Answer(msgspec.Struct):
    index: int
    output: str


class _Predictions(msgspec.Struct):
    predictions: list[_Answer]


def write_predictions(archive: Path, tasks: Collection[str]) -> Iterator[bytes]:
    """Yield the lines of ``gpt3_predictions.jsonl``: GPT-3's answers to the named tasks."""

    def described(name: str) -> re.Match[str] | None:
        found = _ANSWERS.fullmatch(name)
        return found if found and found[1] in tasks else None

    row: dict[str, Any] = {}
    for name, content in _members(archive, described):
        task, encoding, examples = described(name).groups()  # type: ignore[union-attr]
        found = _decoded(content, _Predictions, f"{archive}: {name} is not a file of answers")
        row = {"task": task, "encoding": encoding}
        row |= {"fields": encoding.removeprefix("_").split("_"), "n_examples": int(examples)}
        for answer in found.predictions:
            answered = {"index": answer.index, "output": answer.output}
            yield msgspec.json.encode(row | answered) + b"\n"
    if not row:
        raise DataInvalid(f"{archive}: it has no answers of GPT-3.")


# In the order of the authors' evaluation. The last one is scored by rules alone.
CATEGORIES = ("content", "situation", "style", "format", "mixed", "example")


def write_instructions(archive: Path, folder: str) -> Iterator[bytes]:
    """Yield the lines of ``followbench/data.jsonl`` from files named after their categories."""
    for category in CATEGORIES:
        name = f"{folder}/{category}_constraints.json"
        [content] = member(archive, name, LARGEST)
        where = f"{archive}: {name} is not a list of rows"
        for row in _decoded(content, list[dict[str, Any]], where):
            yield _line({"constraint_type": category, **row})


class _Labelled(msgspec.Struct):
    data: Any
    valid: bool
    description: str = ""


class _Schema(msgspec.Struct):
    schema: Any
    tests: list[_Labelled] = []


def write_schemas(archive: Path, folder: str) -> Iterator[bytes]:
    """Yield the lines of ``jsonschemabench/schemas.jsonl``, made from a folder in an archive."""
    suits = re.compile(rf"{re.escape(folder)}/[^/]+\.json").fullmatch
    for name, content in _members(archive, suits):
        found = _decoded(content, _Schema, f"{archive}: {name} is not a file with a schema")
        stem = PurePosixPath(name).stem
        # ``DATASET---NAME.json`` or, in two data sets, ``DATASET_NAME.json``
        source = stem.split("---" if "---" in stem else "_")[0]
        row = {"name": stem, "dataset": source, "schema": found.schema}
        yield msgspec.json.encode(row | {"instances": found.tests}) + b"\n"


def member(archive: Path, name: str, limit: int = 2**26) -> Iterator[bytes]:
    """Yield the content of the file ``name`` in a zip archive, in one piece."""
    for _, content in _members(archive, name.__eq__, limit):
        yield content
        return
    raise DataInvalid(f"{archive}: it has no {name}.")


def _members(
    archive: Path, suits: Callable[[str], object], limit: int = LARGEST
) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file whose name ``suits`` accepts, in order of names."""
    name = "it"
    try:
        with ZipFile(archive) as opened:
            for name in sorted(filter(suits, opened.namelist())):
                with opened.open(name) as file:
                    content = file.read(limit + 1)
                if len(content) > limit:
                    raise DataInvalid(f"{archive}: {name} has more than {limit:,} bytes.")
                yield name, content
    # RuntimeError: a password is needed; its subclass NotImplementedError: unknown compression.
    except (BadZipFile, OSError, zlib.error, EOFError, ValueError, RuntimeError) as error:
        raise DataInvalid(f"{archive}: {name} cannot be unpacked ({error}).") from None


def _decoded(content: bytes, form: type[T], problem: str) -> T:
    try:
        return msgspec.json.decode(content, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DataInvalid(f"{problem} ({error}).") from None


def prompt(
    code: Path, fields: Mapping[str, str], words_sha256: str | None = None
) -> Iterator[bytes]:
    """Yield a template made from a prompt in a Python file, which is parsed but not run.

    Args:
        code: The Python file.
        fields: Maps parts of the prompt, such as ``{request}``, to their replacements in the
            template. A variable ``x`` that the code inserts is the part ``{x}``.
        words_sha256: The hash of the template's words, joined by single spaces, or None if it is
            not checked.
    """
    try:
        nodes = ast.walk(ast.parse(code.read_text(encoding="utf-8")))  # outer expressions first
        text = next(text for text in map(_text, nodes) if text and all(f in text for f in fields))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DataInvalid(f"{code}: it is not Python code ({error}).") from None
    except StopIteration:
        raise DataInvalid(f"{code}: it has no prompt with {', '.join(fields)}.") from None
    for part, replacement in fields.items():
        text = text.replace(part, replacement)
    digest = hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
    if words_sha256 not in (None, digest):
        raise DataInvalid(f"{code}: its prompt has the sha256 {digest} and not {words_sha256}.")
    yield f"{text}\n".encode()


def category_prompt(
    code: Path, categories: Path, fields: Mapping[str, str], words_sha256: str | None = None
) -> Iterator[bytes]:
    """Yield a template as `prompt` does, with the categories in a JSON file filled in."""
    where = f"{categories}: not a list of categories"
    found = _decoded(categories.read_bytes(), list[_Category], where)
    listed = [
        "\n - ".join([f"\n{n}. *{of.name}*: {of.description}\nExamples: ", *of.examples])
        for n, of in enumerate(found)
    ]
    yield from prompt(code, {"{categories_str}": "".join(listed), **fields}, words_sha256)


class _Category(msgspec.Struct):
    name: str
    description: str
    examples: list[str]


def _text(node: ast.AST) -> str | None:
    """Return a string expression's text, with ``{x}`` for a variable ``x``, or None if unknown."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return f"{{{name}}}"
        case ast.FormattedValue(value=ast.Name() as variable):
            return _text(variable)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            texts = [_text(left), _text(right)]
        case ast.JoinedStr(values=parts):
            texts = [_text(part) for part in parts]
        case ast.Call(func=ast.Attribute(value=inner, attr="strip"), args=[]):
            return (_text(inner) or "").strip()
        case _:
            return None
    return None if None in texts else "".join(map(str, texts))
