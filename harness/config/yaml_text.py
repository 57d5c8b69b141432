"""Parses YAML: run files, and rows, whose values without quotes are read as they are written."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import yaml

from harness.config.validation import safe_key
from harness.errors import ConfigError, suggest_name


class RefusedYaml(yaml.MarkedYAMLError):
    """An error for valid YAML that is not accepted.

    Its ``problem`` quotes no value, but its text may.
    """

    def __init__(self, problem: str, node: yaml.Node | None, remedy: str) -> None:
        super().__init__(problem=problem, problem_mark=node.start_mark if node else None)
        self.remedy = remedy


_TAG = "tag:yaml.org,2002:"
_NULLS = ("", "~", "null", "Null", "NULL", ".nan", ".NaN", ".NAN")
_BOOLEANS = ("true", "false")
# Numbers without leading zeros, in decimal notation
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
MAX_INTEGER_CHARS = 18  # in a row: a longer integer may not fit in 64 bits

ROWS_KEYS = ("task", "rows")  # keys in a run file that lead to rows
_ANSWERS = {"target", "targets"}
_ROW_ANSWERS = _ANSWERS | {"gold", "choices"}

Reading = Literal["setting", "option", "value", "answer"]
"""How a value without quotes is read.

``setting``, outside of rows: by YAML 1.1. ``option``, in the checks and schemas of rows: by the
core schema of YAML 1.2, except that integers are decimal. ``value``, elsewhere in rows: numbers
that are not written as Python writes them are text, so that a target is compared, and a field
shown, as written. ``answer``: also, only ``true`` and ``false`` are booleans.
"""


def _reading(keys: Sequence[str | None]) -> Reading:
    """Return how a value without quotes is read, given the keys that lead to it."""
    in_task = in_rows = in_checks = False
    for key in keys:
        name = (key or "").removeprefix("task.")
        in_task = in_task or key == "task" or name != key
        in_rows = in_rows or (in_task and name == "rows")
        in_checks = in_checks or name == "checks"
        if name == "schema" and in_rows:
            return "option"
        if name == "schema" and in_checks:
            return "setting"
        if (in_rows and name in _ROW_ANSWERS) or (in_checks and name in _ANSWERS):
            return "answer"
    if not in_rows:
        return "setting"
    return "option" if in_checks else "value"


def _tag(text: str, reading: Reading) -> str:
    """Return the YAML tag, such as that of integers, of a value without quotes in a row."""
    if text in _NULLS:
        return f"{_TAG}null"
    if text in _BOOLEANS or (reading != "answer" and text in ("True", "TRUE", "False", "FALSE")):
        return f"{_TAG}bool"
    as_written = reading != "option"
    if _INTEGER.fullmatch(text):
        is_number = not as_written or (len(text) <= MAX_INTEGER_CHARS and str(int(text)) == text)
        return f"{_TAG}int" if is_number else f"{_TAG}str"
    if _FLOAT.fullmatch(text) and (not as_written or ("." in text and repr(float(text)) == text)):
        return f"{_TAG}float"
    return f"{_TAG}str"


class _Loader(yaml.SafeLoader):
    """A YAML loader that reads all keys as strings, and refuses a repeated key.

    Args:
        text: The YAML.
        keys: The keys that lead to the text in a run file.
        as_v0_1: Whether to read rows as version 0.1.0 did.
    """

    def __init__(self, text: str, keys: Sequence[str] = (), *, as_v0_1: bool = False) -> None:
        super().__init__(text)
        self._keys: list[str | None] = list(keys)  # None: the node is itself a key
        self._as_v0_1 = as_v0_1

    def descend_resolver(self, parent: yaml.Node | None, index: Any) -> None:
        key: str | None = ""
        if isinstance(parent, yaml.MappingNode):
            if index is None:
                key = None
            elif isinstance(index, yaml.ScalarNode):
                key = index.value
        self._keys.append(key)

    def ascend_resolver(self) -> None:
        self._keys.pop()

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        tag = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        if kind is not yaml.ScalarNode or not implicit[0] or self._keys[-1] is None:
            return tag
        reading = _reading(self._keys)
        if reading == "setting":
            return tag
        if not self._as_v0_1:
            return _tag(value, reading)
        is_word = tag == f"{_TAG}bool" and value.lower() not in _BOOLEANS
        return f"{_TAG}str" if is_word or tag == f"{_TAG}timestamp" else tag

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except UnicodeDecodeError:
            problem = "a text contains a lone surrogate"
            remedy = "Write the character itself."
        except (ValueError, OverflowError):
            problem = "a value looks like a number or a date but is not valid"
            remedy = "Put it in quotes."
        raise RefusedYaml(problem, node, remedy)

    def construct_scalar(self, node: Any) -> Any:
        text = super().construct_scalar(node)
        if isinstance(text, str) and not text.isascii():
            # JSON escapes a rare character as two surrogates; YAML does not join them.
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        return text


def _key_text(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        remedy = "Check brackets and quotes: a template needs quotes, as in '{{ question }}'."
        raise RefusedYaml("a key must be a word", node, remedy)
    return str(node.value)


def _construct_mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    loader.flatten_mapping(node)  # Merge keys (<<); the node's own keys come last and win.
    return {_key_text(key): loader.construct_object(value, deep=True) for key, value in node.value}


def _check_repeated_keys(root: yaml.Node) -> None:
    """Raise RefusedYaml if a mapping contains a key twice.

    Check this before merge keys (<<) are expanded, which may repeat keys.
    """
    nodes = [root]
    visited: set[int] = set()
    while nodes:
        node = nodes.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            nodes += node.value
        if not isinstance(node, yaml.MappingNode):
            continue
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = _key_text(key_node)
            if key in lines:
                problem = f"the key {safe_key(key)!r} is already in line {lines[key]}"
                raise RefusedYaml(problem, key_node, "Remove one of them.")
            lines[key] = key_node.start_mark.line + 1
            nodes.append(value_node)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)


MAX_ALIASED_SIZE = (
    100_000  # values and characters that aliases may add; a few lines can add billions
)


def parse_yaml(text: str, keys: Sequence[str] = (), *, as_v0_1: bool = False) -> Any:
    """Parse YAML, and return its value (None if it is empty).

    Args:
        text: The YAML.
        keys: The keys that lead to the value in a run file, such as `ROWS`. In rows and expected
            answers, values without quotes are text unless they are null, true, false or a number in
            its usual notation.
        as_v0_1: Whether to read rows as version 0.1.0 read files of rows.

    Raises:
        yaml.YAMLError: If it is invalid, nested too deeply, or expands to too many values.
    """
    loader = _Loader(text, keys, as_v0_1=as_v0_1)
    try:
        node = loader.get_single_node()
        if node is not None and _size(node, {}) > 2 * len(text) + MAX_ALIASED_SIZE:
            raise RefusedYaml("aliases (*) repeat too many values", None, "Write them out.")
        if node is not None:
            _check_repeated_keys(node)
        return None if node is None else loader.construct_document(node)
    except RecursionError:
        raise RefusedYaml("the nesting is too deep", None, "Use fewer levels.") from None
    finally:
        loader.dispose()


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Return a node's number of values and characters, with aliases expanded.

    ``sizes`` caches the sizes of nodes by their ids.
    """
    if id(node) not in sizes:
        sizes[id(node)] = 1  # for a node that contains itself, which is refused later
        size = 1
        if isinstance(node, yaml.ScalarNode):
            size += len(node.value)
        elif isinstance(node, yaml.SequenceNode):
            size += sum(_size(item, sizes) for item in node.value)
        elif isinstance(node, yaml.MappingNode):
            size += sum(_size(key, sizes) + _size(value, sizes) for key, value in node.value)
        sizes[id(node)] = size
    return sizes[id(node)]


def yaml_remedy(error: Exception) -> str:
    """Return the remedy for YAML that cannot be parsed."""
    if "found '?'" in str(error):  # as in {target: ?}
        return "Write a text that begins with ? in quotes."
    return "Check indentation and quotes."


def is_plain_text(value: str, keys: Sequence[str]) -> bool:
    """Return whether valid YAML is a scalar without quotes or a tag that is read as a string.

    A comment only also counts; ``5`` and ``true`` do not, because YAML reads them as other types.
    """
    node = _Loader(value, keys).get_single_node()
    if not isinstance(node, yaml.ScalarNode):
        return node is None and bool(value.strip())
    tagged = value.startswith("!", node.start_mark.index)
    return node.style is None and node.tag == _TEXT and not tagged


_TEXT = yaml.resolver.BaseResolver.DEFAULT_SCALAR_TAG


def read_mapping(
    path: Path, what: str = "run file", form: str = "It needs at least 'task:' and 'model:'."
) -> dict[str, Any]:
    """Return the mapping that a YAML file contains.

    Args:
        path: The file.
        what: What the file is, for messages.
        form: What it must contain, for messages.

    Raises:
        ConfigError: If the file cannot be read or is invalid. The error names the file and, for
            invalid YAML, the line if known.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe may have no writer
            raise ConfigError(f"{path} is not a regular file.", f"Name the file of a {what}.")
        raw = parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.", _suggest_file(path)) from None
    except (UnicodeDecodeError, yaml.reader.ReaderError):
        remedy = "Save it as UTF-8, without control characters."
        raise ConfigError(f"{path} is not a text file in UTF-8.", remedy) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not valid YAML"
        remedy = getattr(error, "remedy", yaml_remedy(error))
        raise ConfigError(f"{path}{line}: {problem}.", remedy) from None
    if raw is None:
        raise ConfigError(f"{path} is empty.", form)
    if not isinstance(raw, dict):
        raise ConfigError(f"{path} is not a {what}.", form)
    return raw


def _suggest_file(path: Path) -> str:
    """Return advice on a path that cannot be read, which names similar files."""
    files: dict[str, Path] = {}
    with contextlib.suppress(OSError):  # the name may be too long for the file system
        paths = (path if path.is_dir() else path.parent).glob("*.y*ml")
        files = {sibling.stem: sibling for sibling in paths}  # their suffixes are alike
    if close := get_close_matches(path.stem, files, n=1):
        return f"Did you mean {str(files[close[0]])!r}?"
    return suggest_name("", [sibling.name for sibling in files.values()]) or "Check the path."
