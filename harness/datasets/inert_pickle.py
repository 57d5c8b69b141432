"""Reads a pickle as data, with an interpreter that can neither import nor call anything.

A pickle is a program, and Python's unpickler runs it. Restricting `find_class` is not enough: a
memo index or the length of a bytearray can claim all memory, and a deep tuple as a dictionary key
can crash the interpreter. So `pickle` is not used at all; this module implements the few operations
of protocol 4 that make plain values. An object becomes a `Record`, the name of a class with its
fields; a `Vocabulary` lists the names. Any other operation or name is refused, and so is anything
out of proportion. The result has no cycles, at most `MAX_DEPTH` levels, and at most `MAX_PARTS`
parts, even with shared parts written out.

>>> read_pickle(path, Vocabulary({"zoo.Cat": frozenset({"age"})}))  # doctest: +SKIP
{'felix': Record(name='zoo.Cat', fields={'age': 3})}
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import EllipsisType
from typing import TypeAlias

from harness.datasets.folder import cannot_read
from harness.errors import DataInvalid

MAX_BYTES = 8 * 2**20
MAX_OPERATIONS = 500_000
"""COLLIE's file has 242,090; each makes at most one small object besides its own bytes."""
MAX_DEPTH = 64
MAX_PARTS = 1_000_000
MAX_CHARACTERS = 64 * 2**20
"""For all texts, counted each time they would be written out."""

Value: TypeAlias = (
    "int | str | EllipsisType | list[Value] | tuple[Value, ...] | dict[str, Value] | Record | None"
)


@dataclass(slots=True)
class Record:
    """Represents an object, without behaviour."""

    name: str
    fields: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names that a pickle may contain.

    Attributes:
        classes: Maps the full name of a class to the fields that its objects may have.
        calls: Maps a function's full name and its only argument to the value of the call. The
            function itself is never looked up.
    """

    classes: Mapping[str, frozenset[str]]
    calls: Mapping[tuple[str, str], Value] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.classes or any(name == function for function, _ in self.calls)


def read_pickle(path: Path, vocabulary: Vocabulary) -> Value:
    """Read the value that a pickle makes.

    Raises:
        DataInvalid: Something in it is refused; the message names the byte.
        DataMissing: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise cannot_read(path, error) from None
    if len(data) > MAX_BYTES:
        raise DataInvalid(f"{path}: refused: it has more than {MAX_BYTES:,} bytes.")
    machine = _Machine(vocabulary)
    position = number = 0
    try:
        for operation, argument, at in pickletools.genops(data):
            position, number = at or 0, number + 1
            if number > MAX_OPERATIONS:
                raise _Refused(f"there are more than {MAX_OPERATIONS:,} operations")
            machine.step(operation.name, argument)
        if position + 1 != len(data):
            raise _Refused("the pickle ends here, the file does not")
        return _proportionate(machine.result)
    except _Refused as refused:
        said = f"refused: {refused}"
    except (ValueError, OverflowError) as error:  # from pickletools: torn or no pickle at all
        said = f"no pickle: {str(error)[:200]}"
    raise DataInvalid(
        f"{path}, byte {position}: {said}.",
        "Do not load this file by other means: a pickle can run any command.",
    )


class _Refused(Exception):
    """The pickle asks for something that is not allowed."""


@dataclass(frozen=True, slots=True)
class _Name:
    """A name of the vocabulary on the stack: only the name, not the object."""

    full: str


class _Machine:
    """A stack, the stacks below its marks, and a memo; ``result`` is what the pickle made."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.result: object = None
        self._vocabulary = vocabulary
        self._stack: list[object] = []
        self._below: list[list[object]] = []
        self._memo: list[object] = []

    def step(self, operation: str, argument: object) -> None:
        """Execute one operation.

        Raises:
            _Refused: It is not allowed.
        """
        match operation:
            case "PROTO" | "FRAME":  # a hint for reading ahead, which is not done here
                pass
            case "MARK":
                self._below.append(self._stack)
                self._stack = []
            case "STOP":
                self.result = self._pop()
                if self._stack or self._below:
                    raise _Refused("it stops with values left over")
            case "NONE" | "BININT" | "BININT1" | "BININT2":
                self._stack.append(argument)
            case "SHORT_BINUNICODE" | "BINUNICODE":
                self._stack.append(_checked_text(str(argument)))
            case "EMPTY_TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                size = 0 if operation == "EMPTY_TUPLE" else int(operation[-1])
                self._stack.append(tuple([self._pop() for _ in range(size)][::-1]))
            case "TUPLE":
                marked = tuple(self._marked())  # which changes the stack
                self._stack.append(marked)
            case "EMPTY_LIST":
                self._stack.append([])
            case "EMPTY_DICT":
                self._stack.append({})
            case "APPEND":
                self._append([self._pop()])
            case "APPENDS":
                self._append(self._marked())
            case "SETITEM":
                self._set([self._pop(), self._pop()][::-1])
            case "SETITEMS":
                self._set(self._marked())
            case "MEMOIZE":
                self._memo.append(self._top())
            case "BINGET" | "LONG_BINGET":
                if not (isinstance(argument, int) and argument < len(self._memo)):
                    raise _Refused("it recalls what it did not memorise")
                self._stack.append(self._memo[argument])
            case "STACK_GLOBAL":
                self._name()
            case "NEWOBJ":
                self._new()
            case "BUILD":
                self._build()
            case "REDUCE":
                self._call()
            case _:
                what = f" ({argument[:60]!r})" if isinstance(argument, str) else ""
                raise _Refused(f"the operation {operation}{what}")

    def _pop(self) -> object:
        if not self._stack:
            raise _Refused("it takes from an empty stack")
        return self._stack.pop()

    def _top(self) -> object:
        if not self._stack:
            raise _Refused("it looks at an empty stack")
        return self._stack[-1]

    def _marked(self) -> list[object]:
        if not self._below:
            raise _Refused("it goes back to a mark that is not there")
        marked, self._stack = self._stack, self._below.pop()
        return marked

    def _append(self, values: list[object]) -> None:
        found = self._top()
        if type(found) is not list:
            raise _Refused(f"it appends to {_kind(found)}")
        found += values

    def _set(self, pairs: list[object]) -> None:
        found = self._top()
        if type(found) is not dict:
            raise _Refused(f"it sets items of {_kind(found)}")
        if len(pairs) % 2:
            raise _Refused("a key without a value")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if not isinstance(key, str):  # nothing else is ever hashed
                raise _Refused(f"{_kind(key)} as a key")
            found[key] = value

    def _name(self) -> None:
        name, module = self._pop(), self._pop()
        if not (isinstance(name, str) and isinstance(module, str)):
            raise _Refused(f"a name made of {_kind(module)} and {_kind(name)}")
        full = f"{module}.{name}"
        if full not in self._vocabulary:
            raise _Refused(f"the name {full[:120]!r}")
        self._stack.append(_Name(full))

    def _new(self) -> None:
        arguments, named = self._pop(), self._pop()
        if not (isinstance(named, _Name) and named.full in self._vocabulary.classes):
            raise _Refused(f"a new object of {_kind(named)}")
        if arguments != ():
            raise _Refused(f"a new {named.full} with arguments")
        self._stack.append(Record(named.full))

    def _build(self) -> None:
        state, built = self._pop(), self._top()
        if not isinstance(built, Record):
            raise _Refused(f"a state for {_kind(built)}")
        if type(state) is not dict or built.fields:
            raise _Refused(f"a second state, or one that is {_kind(state)}, for a {built.name}")
        for key in state.keys() - self._vocabulary.classes[built.name]:
            raise _Refused(f"the field {key[:60]!r} of a {built.name}")
        built.fields.update(state)  # a copy: the pickle still holds the state

    def _call(self) -> None:
        arguments, named = self._pop(), self._pop()
        match named, arguments:
            case _Name(full), (str(only),) if (full, only) in self._vocabulary.calls:
                self._stack.append(self._vocabulary.calls[full, only])
            case _Name(full), _:
                raise _Refused(f"a call of {full} with other than its known argument")
            case _:
                raise _Refused(f"a call of {_kind(named)}")


def _checked_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Refused("a text that is not Unicode") from None
    return text


def _kind(value: object) -> str:
    return f"the name {value.full}" if isinstance(value, _Name) else f"a {type(value).__name__}"


def _proportionate(value: object) -> Value:
    """Return the value, after checking its size by walking all of it as a writer would.

    The stack of iterators is as long as the value is deep, so neither cycles nor shared parts that
    share parts ("a billion laughs") take much memory or unbounded time.
    """
    stack: list[Iterator[object]] = [iter((value,))]
    parts = characters = 0
    while stack:
        part = next(stack[-1], _END)
        if part is _END:
            stack.pop()
            continue
        parts += 1
        if parts > MAX_PARTS:
            raise _Refused(f"more than {MAX_PARTS:,} parts when written out")
        if isinstance(part, str):
            characters += len(part)
            if characters > MAX_CHARACTERS:
                raise _Refused(f"more than {MAX_CHARACTERS:,} characters when written out")
        elif isinstance(part, list | tuple):
            stack.append(iter(part))
        elif isinstance(part, dict):
            stack.append(chain(part, part.values()))
        elif isinstance(part, Record):
            stack.append(iter(part.fields.values()))
        elif not (part is None or isinstance(part, int | EllipsisType)):
            raise _Refused(f"{_kind(part)} as a value")
        if len(stack) > MAX_DEPTH:
            raise _Refused(f"values nested more than {MAX_DEPTH} deep, or in themselves")
    return value  # type: ignore[return-value]  # just walked


_END = object()
