"""From a YAML file, ``-o`` overrides and a variant to a `RunFile`.

>>> load(Path("configs/quickstart.yaml"), ["samples=4"])  # doctest: +SKIP
RunFile(...)
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from harness.config.run_file import RunFile
from harness.errors import ConfigError, nearest


class _Loader(yaml.SafeLoader):
    """YAML without silent surprises: a key written twice is an error."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    seen: dict[str, int] = {}
    for key_node, _ in node.value:
        key = str(loader.construct_object(key_node))
        line = key_node.start_mark.line + 1
        if key in seen:
            raise ConfigError(f"line {line}: the key {key!r} is there already, in line {seen[key]}")
        seen[key] = line
    loader.flatten_mapping(node)
    return {str(key): value for key, value in loader.construct_pairs(node, deep=True)}


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _parse(text: str) -> Any:
    return yaml.load(text, _Loader)  # noqa: S506 (a SafeLoader)


def read(path: Path) -> dict[str, Any]:
    """The mapping that a YAML file holds, not validated.

    Raises: ConfigError with file and line.
    """
    try:
        raw = _parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.", _siblings(path)) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a text file in UTF-8.") from None
    except ConfigError as error:
        raise ConfigError(f"{path}, {error.message}.", "Keep one of the two.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not valid YAML"
        raise ConfigError(f"{path}{line}: {problem}.", "Check indentation and quotes.") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path} is no run file.", "It must hold at least 'task:' and 'model:'.")
    return raw


def _siblings(path: Path) -> str:
    names = [p.name for p in path.parent.glob("*.yaml")] if path.parent.is_dir() else []
    return nearest(path.name, names) if names else "Check the path."


def override(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set ``key.path`` in a nested mapping, making sections on the way."""
    *sections, last = key.split(".")
    for section in sections:
        below = tree.setdefault(section, {})
        if not isinstance(below, dict):
            raise ConfigError(f"Override {key!r}: {section!r} is a value, not a section.")
        tree = below
    tree[last] = value


def parse_override(text: str) -> tuple[str, Any]:
    """``key.path=value``, the value read as YAML.

    Raises: ConfigError.
    """
    key, equals, value = text.partition("=")
    if not equals or not all(key.split(".")):
        raise ConfigError(f"-o {text!r} is no override.", "Write -o key.path=value.")
    try:
        return key, _parse(value)
    except yaml.YAMLError:
        raise ConfigError(f"-o {key}: {value!r} is not a YAML value.", "Quote it.") from None


def load(
    path: Path, overrides: Iterable[str] = (), further: Mapping[str, Any] | None = None
) -> dict[str, RunFile]:
    """The runs that a file asks for: variant name to run; ``""`` where it has no variants.

    overrides: ``key.path=value``, over the file and over each variant.
    further: dotted key to value, over everything (command-line options).

    Raises: ConfigError naming file, key and the nearest valid one.
    """
    raw = read(path)
    fixed = [parse_override(text) for text in overrides] + list((further or {}).items())
    base = _apply(raw, fixed)
    variants = validate(base, str(path)).variants
    if not variants:
        return {"": validate(base, str(path))}
    runs = {}
    for name, changes in variants.items():
        tree = _apply(raw, [*changes.items(), *fixed])
        tree.pop("variants", None)
        runs[name] = validate(tree, f"{path}, variant {name!r}")
    return runs


def _apply(raw: dict[str, Any], changes: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    tree = copy.deepcopy(raw)
    for key, value in changes:
        override(tree, key, value)
    return tree


def validate(tree: dict[str, Any], where: str) -> RunFile:
    """Check a mapping against the schema.

    where: what to call it in an error.

    Raises: ConfigError.
    """
    try:
        return RunFile.model_validate(tree)
    except ValidationError as error:
        lines = [_explain(found["loc"], found["type"], found["msg"]) for found in error.errors()]
        raise ConfigError(f"{where}: {'; '.join(lines[:3])}.") from None


def _explain(loc: tuple[int | str, ...], kind: str, message: str) -> str:
    key = ".".join(str(part) for part in loc)
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        hint = nearest(str(loc[-1]), _keys(loc[:-1])).rstrip(".")
        return f"unknown key {key!r} ({hint[:1].lower()}{hint[1:]})"
    message = message.removeprefix("Value error, ")
    return f"{key}: {message[:1].lower()}{message[1:]}" if key else message


def _keys(section: tuple[int | str, ...]) -> list[str]:
    """The valid keys of a section of the run file."""
    model: Any = RunFile
    for part in section:
        model = model.model_fields[str(part)].annotation
    if isinstance(model, type) and issubclass(model, BaseModel):
        return list(model.model_fields)
    return list(getattr(model, "__dataclass_fields__", {}))
