"""From a YAML file, ``-o`` overrides and a variant to a `RunFile`.

>>> load(Path("configs/quickstart.yaml"), ["samples=4"])  # doctest: +SKIP
RunFile(...)
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import yaml
from pydantic import BaseModel, ValidationError

from harness.config.run_file import RunFile
from harness.config.sections import shown
from harness.config.variants import keys
from harness.errors import ConfigError, nearest
from harness.records import DecodingConstraint


class _Refused(yaml.MarkedYAMLError):
    """Valid YAML that a run file may not hold; never quotes a value."""

    def __init__(self, problem: str, node: yaml.Node | None, remedy: str) -> None:
        super().__init__(problem=problem, problem_mark=node.start_mark if node else None)
        self.remedy = remedy


MOST_MERGED = 1_000
"""Most keys that merging (``<<``) may bring together: a few lines could name billions."""


class _Loader(yaml.SafeLoader):
    """YAML without silent surprises: keys are words as written, and none is there twice."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        own = len(node.value)
        super().flatten_mapping(node)
        if len(node.value) > max(own, MOST_MERGED):
            raise _Refused("too many keys are merged", node, "Write them out.")

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, OverflowError):
            raise _Refused(
                "a value that looks like a number or a date is none", node, "Put it in quotes."
            ) from None

    def construct_scalar(self, node: Any) -> Any:
        text = super().construct_scalar(node)
        if isinstance(text, str) and not text.isascii():
            try:  # JSON writes a rare character as two escapes, which YAML leaves apart
                return text.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                raise _Refused("a text holds half a character", node, "Write it out.") from None
        return text


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _Refused("a key must be a word", node, "Check brackets and quotes.")
    return str(node.value)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    seen: dict[str, int] = {}
    for key_node, _ in node.value:
        key = _key(key_node)
        if key in seen:
            problem = f"the key {shown(key)!r} is there already, in line {seen[key]}"
            raise _Refused(problem, key_node, "Keep one of the two.")
        seen[key] = key_node.start_mark.line + 1
    loader.flatten_mapping(node)  # merge keys; the node's own keys come last and win
    return {_key(key): loader.construct_object(value, deep=True) for key, value in node.value}


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _parse(text: str) -> Any:
    try:
        return yaml.load(text, _Loader)  # noqa: S506 (a SafeLoader)
    except RecursionError:
        raise _Refused("nested too deeply", None, "Write it flatter.") from None


def read(
    path: Path, what: str = "run file", form: str = "It must hold at least 'task:' and 'model:'."
) -> dict[str, Any]:
    """The mapping that a YAML file holds, not validated.

    what, form: what the file should be, and what to write into it.

    Raises: ConfigError with file and line.
    """
    try:
        raw = _parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.", _siblings(path)) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a text file in UTF-8.") from None
    except yaml.reader.ReaderError:
        raise ConfigError(f"{path} is not a text file: it holds control characters.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not valid YAML"
        remedy = getattr(error, "remedy", "Check indentation and quotes.")
        raise ConfigError(f"{path}{line}: {problem}.", remedy) from None
    if not isinstance(raw, dict):
        problem = "is empty" if raw is None else f"is no {what}"
        raise ConfigError(f"{path} {problem}.", form)
    return raw


def _siblings(path: Path) -> str:
    try:
        folder = path if path.is_dir() else path.parent
        names = [p.name for p in folder.glob("*.y*ml")] if folder.is_dir() else []
    except OSError:  # a name longer than names can be
        names = []
    return nearest(path.name, names) if names else "Check the path."


def override(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set ``key.path`` in a nested mapping, making sections on the way.

    An element of a list is named by its ``as``, else its ``name``: ``judges.second.max_tokens``.

    Raises: ConfigError.
    """
    *sections, last = key.split(".")
    at: dict[str, Any] | list[Any] = tree
    for section in sections:
        below = at.setdefault(section, {}) if isinstance(at, dict) else _element(at, section)
        if not isinstance(below, dict | list):
            raise ConfigError(
                f"{shown(key)!r} cannot be set: {section!r} is a value, not a section.",
                "Check the key's path.",
            )
        at = below
    if isinstance(at, list):
        raise ConfigError(
            f"{shown(key)!r} cannot be set: it is one of a list.", "Set its keys, one by one."
        )
    at[last] = value


def _element(elements: list[Any], name: str) -> Any:
    """The element of a list that has this name. Raises: ConfigError."""
    named = {
        str(told): one
        for one in elements
        if isinstance(one, dict) and (told := one.get("as") or one.get("name"))
    }
    if name not in named:
        raise ConfigError(
            f"{shown(name)!r} is none of {', '.join(named) or 'the list'}.",
            (named and nearest(name, named)) or "Elements are named by their 'as' or 'name'.",
        )
    return named[name]


def parse_override(text: str) -> tuple[str, Any]:
    """``key.path=value``, the value read as YAML.

    Raises: ConfigError.
    """
    key, equals, value = text.partition("=")
    if not equals or not all(key.split(".")):
        # Only its beginning is shown: what lacks the '=' may be a key run together with a secret.
        begin = "".join(re.findall(r"\A[\w.]*", text))
        begin = begin if begin == text else f"{begin}…"
        raise ConfigError(f"-o {begin!r} is no override.", "Write -o key.path=value.")
    try:
        return key, _parse(value)
    except _Refused as error:
        raise ConfigError(f"-o {shown(key)}: {error.problem}.", error.remedy) from None
    except yaml.YAMLError:
        raise ConfigError(
            f"-o {shown(key)}: the value is not YAML.", f"Quote it: -o '{shown(key)}=\"…\"'."
        ) from None


def load(
    path: str | Path, overrides: Iterable[str] = (), further: Mapping[str, Any] | None = None
) -> dict[str, RunFile]:
    """The runs that a file asks for: variant name to run; ``""`` where it has no variants.

    overrides: ``key.path=value``, over the file and over each variant.
    further: dotted key to value, over everything (command-line options).

    Raises: ConfigError naming file, key and the nearest valid one.
    """
    path = Path(path)
    raw = read(path)
    fixed = [parse_override(text) for text in overrides] + list((further or {}).items())
    base = validate(_changed(raw, fixed, str(path)), str(path))
    variants = base.combinations()
    axes = keys(base.matrix)
    for key, _ in fixed:
        if key in axes:
            raise ConfigError(
                f"{key} is an axis of the matrix in {path}, and cannot be one value for all.",
                "Change the matrix, or leave the override out.",
            )
    if not variants:
        return {"": base}
    runs = {}
    for name, changes in variants.items():
        where = f"{path}, variant {name!r}"
        tree = _changed(raw, [*changes.items(), *fixed], where)
        tree.pop("variants", None)
        tree.pop("matrix", None)
        runs[name] = validate(tree, where)
    return runs


def _changed(raw: dict[str, Any], changes: Iterable[tuple[str, Any]], where: str) -> dict[str, Any]:
    tree = copy.deepcopy(raw)
    for key, value in changes:
        try:
            override(tree, key, value)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error.message}", error.remedy) from None
    return tree


def validate(tree: dict[str, Any], where: str) -> RunFile:
    """Check a mapping against the schema.

    where: what to call it in an error.

    Raises: ConfigError.
    """
    try:
        return RunFile.model_validate(tree)
    except ValidationError as error:
        lines = [
            _explain(loc, found["type"], found["msg"])
            for found in error.errors()
            if (loc := _without_kinds(found["loc"])) is not None
        ]
        raise ConfigError(f"{where}: {'; '.join(lines[:3])}.") from None


_SECTION = "must be a section, with keys of its own"
_MUST = {
    "missing": "is missing",
    "string_type": "must be text: put it in quotes",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list",
    "dict_type": _SECTION,
    "model_type": _SECTION,
    "dataclass_type": _SECTION,
}
"""Pydantic's kind of error -> what to say of the key. No value is quoted: it may be a secret."""


_CONSTRAINT = ("decoding", "constraint")


def _without_kinds(loc: tuple[int | str, ...]) -> tuple[int | str, ...] | None:
    """Where an error is, in the user's keys alone; None for one that another one says better.

    Pydantic tries a constraint as each kind that it may be, and names the kinds.
    """
    if loc[:2] != _CONSTRAINT or len(loc) < 3:
        return loc
    return (*_CONSTRAINT, *loc[3:]) if loc[2] == DecodingConstraint.__name__ else None


def _explain(loc: tuple[int | str, ...], kind: str, message: str) -> str:
    key = ".".join(shown(str(part)) for part in loc)
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        hint = _hint(str(loc[-1]), loc[:-1]).rstrip(".")
        return f"unknown key {key!r} ({hint[:1].lower()}{hint[1:]})"
    if loc == _CONSTRAINT and kind in _MUST:
        kinds = ", ".join(_keys(_CONSTRAINT))
        return f"{key} must be task, or a section with one of {kinds}"
    if kind in _MUST:
        return f"{key} {_MUST[kind]}"
    message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    message = message.replace("Input should be", "must be", 1)
    return f"{key}: {message[:1].lower()}{message[1:]}" if key else message


def _hint(key: str, section: tuple[int | str, ...]) -> str:
    if ":" in key:
        return "A space is missing after its colon"
    for other in RunFile.model_fields:
        if not section and key in _keys((other,)):
            return f"Did you mean {f'{other}.{key}'!r}?"
    return nearest(key, _keys(section))


def _keys(section: tuple[int | str, ...]) -> list[str]:
    """The valid keys of a section of the run file."""
    model: Any = RunFile
    for part in section:
        if hasattr(model, "model_fields"):
            model = model.model_fields[str(part)].annotation
        else:
            model = get_type_hints(model)[str(part)]
        kinds = (kind for kind in get_args(model) if is_dataclass(kind) or _is_model(kind))
        model = next(kinds, model)
    if _is_model(model):
        return list(model.model_fields)
    return list(getattr(model, "__dataclass_fields__", {}))


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
