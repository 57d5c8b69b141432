"""Loads a run file: YAML, ``-o`` overrides and variants become one `RunFile` per run.

>>> load(Path("configs/quickstart.yaml"), ["samples=4"])  # doctest: +SKIP
RunFile(...)
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from harness.config.run_file import RunFile, matrix_keys
from harness.config.validation import MUST, Location, explain, shown, valid_keys
from harness.errors import ConfigError, nearest
from harness.records import DecodingConstraint


class _Refused(yaml.MarkedYAMLError):
    """Valid YAML that is rejected; the message never quotes a value."""

    def __init__(self, problem: str, node: yaml.Node | None, remedy: str) -> None:
        super().__init__(problem=problem, problem_mark=node.start_mark if node else None)
        self.remedy = remedy


MAX_MERGED = 1_000
"""Keys that merging (``<<``) may produce: a few lines could produce billions."""


class _Loader(yaml.SafeLoader):
    """YAML without silent surprises: keys are text as written, and none occurs twice."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        own = len(node.value)
        super().flatten_mapping(node)
        if len(node.value) > max(own, MAX_MERGED):
            raise _Refused("merging (<<) produces too many keys", node, "Write them out.")

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, OverflowError):
            raise _Refused(
                "a value looks like a number or a date but is not valid", node, "Put it in quotes."
            ) from None

    def construct_scalar(self, node: Any) -> Any:
        text = super().construct_scalar(node)
        if isinstance(text, str) and not text.isascii():
            try:  # JSON writes a rare character as two escapes; YAML does not join them
                return text.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                raise _Refused(
                    "a text contains half of a character", node, "Write the character itself."
                ) from None
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
            problem = f"the key {shown(key)!r} is already in line {seen[key]}"
            raise _Refused(problem, key_node, "Remove one of them.")
        seen[key] = key_node.start_mark.line + 1
    loader.flatten_mapping(node)  # Merge keys (<<); the node's own keys come last and win.
    return {_key(key): loader.construct_object(value, deep=True) for key, value in node.value}


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _parse(text: str) -> Any:
    try:
        return yaml.load(text, _Loader)  # noqa: S506 (a SafeLoader)
    except RecursionError:
        raise _Refused("the nesting is too deep", None, "Use fewer levels.") from None


def read(
    path: Path, what: str = "run file", form: str = "It needs at least 'task:' and 'model:'."
) -> dict[str, Any]:
    """Read a YAML file as a mapping, without validating it.

    Args:
        path: The file.
        what: What the file should be, for errors.
        form: What to write into it, for errors.

    Raises:
        ConfigError: Names file and line.
    """
    try:
        raw = _parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.", _siblings(path)) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a text file in UTF-8.", "Save it as UTF-8.") from None
    except yaml.reader.ReaderError:
        raise ConfigError(f"{path} is not a text file: it contains control characters.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not valid YAML"
        remedy = getattr(error, "remedy", "Check indentation and quotes.")
        raise ConfigError(f"{path}{line}: {problem}.", remedy) from None
    if not isinstance(raw, dict):
        problem = "is empty" if raw is None else f"is not a {what}"
        raise ConfigError(f"{path} {problem}.", form)
    return raw


def _siblings(path: Path) -> str:
    try:
        folder = path if path.is_dir() else path.parent
        names = [p.name for p in folder.glob("*.y*ml")] if folder.is_dir() else []
    except OSError:  # The name is too long for the file system.
        names = []
    return nearest(path.name, names) if names else "Check the path."


def override(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set ``key.path`` in a nested mapping, creating sections as needed.

    An element of a list is found by its ``as``, else its ``name``: ``judges.second.max_tokens``.

    Raises:
        ConfigError: The path leads through a value, or to an element of a list.
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
            f"{shown(key)!r} cannot be set as a whole: it is an element of a list.",
            "Set its keys one by one.",
        )
    at[last] = value


def _element(elements: list[Any], name: str) -> Any:
    """Find an element of a list by name. Raises ConfigError."""
    named = {
        str(own): one
        for one in elements
        if isinstance(one, dict) and (own := one.get("as") or one.get("name"))
    }
    if name not in named:
        raise ConfigError(
            f"The list has no element {shown(name)!r}.",
            (named and nearest(name, named)) or "Elements are found by their 'as' or 'name'.",
        )
    return named[name]


def parse_override(text: str) -> tuple[str, Any]:
    """Parse ``key.path=value``, with the value as YAML. Raises ConfigError."""
    key, equals, value = text.partition("=")
    if not equals or not all(key.split(".")):
        # Only the beginning is shown: without '=', a key may be run together with a secret.
        begin = "".join(re.findall(r"\A[\w.]*", text))
        begin = begin if begin == text else f"{begin}…"
        raise ConfigError(f"-o {begin!r} is not an override.", "Write -o key.path=value.")
    try:
        return key, _parse(value)
    except _Refused as error:
        raise ConfigError(f"-o {shown(key)}: {error.problem}.", error.remedy) from None
    except yaml.YAMLError:
        raise ConfigError(
            f"-o {shown(key)}: the value is not valid YAML.", f"Quote it: -o '{shown(key)}=\"…\"'."
        ) from None


def load(
    path: str | Path, overrides: Iterable[str] = (), further: Mapping[str, Any] | None = None
) -> dict[str, RunFile]:
    """Load the runs of a file: variant name to run, or ``""`` if it has no variants.

    Args:
        path: The run file.
        overrides: ``key.path=value``, applied over the file and over each variant.
        further: Dotted key to value, applied over everything (command-line options).

    Raises:
        ConfigError: Names file, key and the nearest valid name.
    """
    path = Path(path)
    raw = read(path)
    fixed = [parse_override(text) for text in overrides] + list((further or {}).items())
    base = validate(_changed(raw, fixed, str(path)), str(path))
    variants = base.combinations()
    axes = matrix_keys(base.matrix)
    for key, _ in fixed:
        if key in axes:
            raise ConfigError(
                f"{key} is an axis of the matrix in {path}, so it cannot be overridden.",
                "Change the matrix, or remove the override.",
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
    """Validate a mapping as a run file.

    Args:
        tree: The run file's content.
        where: What to call it in an error.

    Raises:
        ConfigError: Names up to three problems.
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


_CONSTRAINT = ("decoding", "constraint")


def _without_kinds(loc: Location) -> Location | None:
    """Return an error's location in the user's keys; None if another error says it better.

    Pydantic tries a constraint as each type that it may be, and names the types.
    """
    if loc[:2] != _CONSTRAINT or len(loc) < 3:
        return loc
    return (*_CONSTRAINT, *loc[3:]) if loc[2] == DecodingConstraint.__name__ else None


def _explain(loc: Location, kind: str, message: str) -> str:
    if loc == _CONSTRAINT and kind in MUST:
        kinds = ", ".join(valid_keys(RunFile, _CONSTRAINT))
        return f"decoding.constraint must be task, or a section with one of {kinds}"
    return explain(loc, kind, message, RunFile)
