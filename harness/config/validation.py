"""What is wrong with a configuration file, in its own keys.

Messages name the key, what it must be and the nearest valid name. They never quote a value: it may
be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import is_dataclass
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, ValidationError

from harness.errors import nearest

_SECTION = "must be a section, with keys below it"
MUST = {
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
"""Pydantic's kind of error -> what to say after the key."""

Location = tuple[int | str, ...]


def shown(key: str) -> str:
    """Return a key as it may be shown: cut if a value was run into it (``api_key:sk-…``)."""
    name = re.split(r"[:=\s]", key.strip(), maxsplit=1)[0]
    return name if name == key else f"{name}…"


def problems(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Explain each error of a validation.

    Args:
        error: What pydantic found.
        model: The model of the whole file or section, for the names that are valid.
    """
    return [explain(one["loc"], one["type"], one["msg"], model) for one in error.errors()]


def explain(loc: Location, kind: str, message: str, model: type[BaseModel]) -> str:
    """Explain one of pydantic's errors, without a full stop.

    Args:
        loc: The keys that lead to it.
        kind: Pydantic's type of error.
        message: Pydantic's message.
        model: The model of the whole file or section.
    """
    key = ".".join(shown(str(part)) for part in loc)
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return unknown_key(key, _hint(str(loc[-1]), loc[:-1], model))
    if kind in MUST:
        return f"{key} {MUST[kind]}"
    message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    message = message.replace("Input should be", "must be", 1)
    return f"{key}: {message[:1].lower()}{message[1:]}" if key else message


def unknown_key(key: str, hint: str) -> str:
    """Return ``unknown key 'kye' (did you mean 'key'?)``."""
    hint = hint.rstrip(".")
    return f"unknown key {key!r:.80} ({hint[:1].lower()}{hint[1:]})"


def _hint(key: str, section: Location, model: type[BaseModel]) -> str:
    if ":" in key:
        return "A space is missing after its colon"
    for other in model.model_fields:
        if not section and key in valid_keys(model, (other,)):
            return f"Did you mean {f'{other}.{key}'!r}?"
    return nearest(key, valid_keys(model, section))


def valid_keys(model: type[BaseModel], section: Iterable[int | str]) -> list[str]:
    """Return the keys of a section of a model."""
    found: Any = model
    for part in section:
        if _is_model(found):
            fields = {field.alias or name: field for name, field in found.model_fields.items()}
            found = fields[str(part)].annotation if part in fields else found
        elif is_dataclass(found):
            found = get_type_hints(found).get(str(part))
        # Of a list or mapping of sections, or of several types, the section is meant.
        found = next((k for k in get_args(found) if is_dataclass(k) or _is_model(k)), found)
    if _is_model(found):
        return [field.alias or name for name, field in found.model_fields.items()]
    return list(getattr(found, "__dataclass_fields__", {}))


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
