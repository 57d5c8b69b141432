"""A schema as Python: a model of pydantic v2.

The root is the class ``Schema``: a ``BaseModel`` for objects with properties, else a ``RootModel``
(the paper's one recorded example wraps a list in an object, which is a different schema). A keyword
that pydantic has no word for goes into ``json_schema_extra``, as pydantic's own documentation does
(https://docs.pydantic.dev/latest/concepts/json_schema/).

>>> print(render({"type": "number", "exclusiveMaximum": 10}).text, end="")
from pydantic import Field, RootModel
<BLANKLINE>
<BLANKLINE>
class Schema(RootModel):
    root: float = Field(lt=10)
"""

from __future__ import annotations

import json
import keyword
import re
from typing import Any

from harness.tasks.concodeeval.representations.schema import (
    Marked,
    Schema,
    joined,
    marked,
    pointer,
)

TYPES = {
    "string": "str",
    "number": "float",
    "integer": "int",
    "boolean": "bool",
    "null": "None",
    "array": "list",
    "object": "dict",
}

_NUMBER = {
    "minimum": "ge",
    "exclusiveMinimum": "gt",
    "maximum": "le",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
}

ARGUMENTS: dict[str, dict[str, str]] = {
    "string": {"minLength": "min_length", "maxLength": "max_length", "pattern": "pattern"},
    "number": _NUMBER,
    "integer": _NUMBER,
    "array": {"minItems": "min_length", "maxItems": "max_length"},
}
"""Type -> keyword -> argument of ``Field``."""

EXTRA = {True: "allow", False: "forbid"}
"""``additionalProperties`` -> the value of ``ConfigDict(extra=…)``."""

LITERAL_TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool}
"""Types whose ``enum`` and ``const`` become a ``Literal``, which also implies the type."""

IMPORTED = {
    "typing": ("Annotated", "Any", "Literal", "Never"),
    "pydantic": ("BaseModel", "ConfigDict", "Field", "RootModel", "TypeAdapter"),
}
TAKEN = {
    "Schema",
    "None",
    "True",
    "False",
    *(name for names in IMPORTED.values() for name in names),
}
_RESERVED = (
    "construct copy dict fields from_orm json parse_file parse_obj parse_raw schema schema_json "
    "update_forward_refs validate root str int float bool list object"
)
RESERVED = frozenset(_RESERVED.split())
"""Names that would shadow a member of a model, or the types of later fields."""

HOLDS = {"array": "items", "object": "additionalProperties"}
"""Type -> the keyword whose schema goes into the brackets of a list or a dict."""


def render(schema: Schema) -> Marked:
    """Render the module that declares the schema."""
    return _Writer().module(dict(schema))


class _Writer:
    """Collects the classes that a schema needs, inner ones first."""

    def __init__(self) -> None:
        self.classes: list[Marked] = []
        self.names = set(TAKEN)

    def module(self, schema: dict[str, Any]) -> Marked:
        if _is_model(schema):
            self._model(schema, "", "Schema")
        else:
            kind, arguments = self._kind(schema, "", "Item")
            field = joined(["    root: ", kind, _field(arguments)])
            self.classes.append(joined(["class Schema(RootModel):\n", field, "\n"]))
        body = joined(self.classes, "\n\n")
        words = set(re.findall(r"\w+", body.text))
        imports = [
            f"from {module} import {', '.join(used)}\n"
            for module, names in IMPORTED.items()
            if (used := [name for name in names if name in words])
        ]
        return joined([joined(imports, "\n"), "\n\n", body])

    def _model(self, schema: dict[str, Any], at: str, name: str) -> None:
        """Write a class for an object with properties."""
        properties = schema["properties"]
        required = schema.get("required")
        wanted = [each for each in properties if each in (required or ())]
        extra = {
            key: value
            for key, value in schema.items()
            if key not in ("type", "properties", "additionalProperties")
            and not (key == "required" and value == wanted and wanted)
        }
        lines: list[Marked | str] = [*self._config(schema, at, extra)]
        if isinstance(schema.get("additionalProperties"), dict):
            place = pointer(at, "additionalProperties")
            inner = self._annotation(schema["additionalProperties"], place, "Extra")
            word = marked("__pydantic_extra__", at=place)
            lines.append(joined(["    ", word, ": dict[str, ", inner, "]\n"]))
        if lines and properties:
            lines.append(Marked("\n"))
        used: set[str] = set()
        for each, inner in properties.items():
            own = _identifier(each, used)
            place = pointer(at, "properties", each)
            kind, arguments = self._kind(inner, place, each)
            if each not in wanted:
                arguments.insert(0, Marked("default=None"))
            if own != each:
                arguments.insert(0, Marked(f"alias={_literal(each)}"))
            word = Marked(own)
            if wanted and each == wanted[0] and "required" not in extra:
                word = marked(own, at=pointer(at, "required"))
            lines.append(joined(["    ", word, ": ", kind, _field(arguments), "\n"]))
        header: list[Marked | str] = [
            "class ",
            marked(name, at=pointer(at, "properties")),
            "(",
            marked("BaseModel", at=pointer(at, "type")),
            "):\n",
        ]
        self.classes.append(joined([*header, joined(lines or ["    pass\n"])]))

    def _config(self, schema: dict[str, Any], at: str, extra: dict[str, Any]) -> list[Marked]:
        arguments = []
        additional = schema.get("additionalProperties")
        if additional is not None:
            word = EXTRA[additional is not False]
            place = pointer(at, "additionalProperties")
            argument = f'extra="{word}"'
            arguments.append(
                marked(argument, at=place) if isinstance(additional, bool) else Marked(argument)
            )
        if extra:
            arguments.append(self._extra(extra, at))
        if not arguments:
            return []
        return [joined(["    model_config = ConfigDict(", joined(arguments, ", "), ")\n"])]

    def _annotation(self, schema: Any, at: str, name: str) -> Marked:
        """Render a type outside a field, with its constraints."""
        kind, arguments = self._kind(schema, at, name)
        if not arguments:
            return kind
        return joined(["Annotated[", kind, ", Field(", joined(arguments, ", "), ")]"])

    def _kind(self, schema: Any, at: str, name: str) -> tuple[Marked, list[Marked]]:
        """Return a type, and the arguments of its ``Field``."""
        if isinstance(schema, bool):
            return Marked("object" if schema else "Never"), []
        if _is_model(schema):
            own = self._class_name(name)
            self._model(schema, at, own)
            return Marked(own), []
        if _is_literal(schema):
            key = "const" if "const" in schema else "enum"
            values = schema["enum"] if key == "enum" else [schema["const"]]
            word = marked(marked("Literal", at=pointer(at, key)), at=pointer(at, "type"))
            return joined([word, f"[{', '.join(map(_literal, values))}]"]), []
        kind = _type(schema)
        word = Marked("Any")
        said = set()
        if kind:
            word = marked(TYPES[kind], at=pointer(at, "type"))
            said.add("type")
        inner = HOLDS.get(kind or "", "")
        if isinstance(schema.get(inner), dict):
            place = pointer(at, inner)
            of = marked(self._annotation(schema[inner], place, f"{name}_item"), at=place)
            word = joined([word, "[str, " if kind == "object" else "[", of, "]"])
            said.add(inner)
        words = ARGUMENTS.get(kind or "", {})
        native = [key for key in schema if key in words and _is_bound(schema[key], key)]
        arguments = [
            joined([marked(words[key], at=pointer(at, key)), f"={_literal(schema[key])}"])
            for key in native
        ]
        if extra := {k: value for k, value in schema.items() if k not in {*said, *native}}:
            arguments.append(self._extra(extra, at))
        return word, arguments

    def _extra(self, extra: dict[str, Any], at: str) -> Marked:
        """Render the keywords that pydantic has no word for."""
        members = []
        for key, value in extra.items():
            place = pointer(at, key)
            said = Marked(_literal(value))
            if key == "contains" and isinstance(value, dict):
                inner = self._annotation(value, place, "contained")
                said = joined(["TypeAdapter(", inner, ").json_schema()"])
            word = _literal(key)
            members.append(joined([word[0], marked(word[1:-1], at=place), f"{word[-1]}: ", said]))
        return joined(["json_schema_extra={", joined(members, ", "), "}"])

    def _class_name(self, name: str) -> str:
        words = re.findall(r"[A-Za-z0-9]+", name)
        own = "".join(word[0].upper() + word[1:] for word in words)
        if not own or own[0].isdigit():
            own = f"Model{own}"
        number, wanted = 2, own
        while own in self.names:
            own, number = f"{wanted}{number}", number + 1
        self.names.add(own)
        return own


def _type(schema: dict[str, Any]) -> str | None:
    kind = schema.get("type")
    return kind if isinstance(kind, str) and kind in TYPES else None


def _is_bound(value: Any, key: str) -> bool:
    if key == "pattern":
        return isinstance(value, str)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_literal(schema: dict[str, object]) -> bool:
    """Return whether a ``Literal`` can express the whole schema."""
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in LITERAL_TYPES:
        return False
    if schema.keys() == {"type", "const"}:
        values = [schema["const"]]
    elif schema.keys() == {"type", "enum"} and isinstance(schema["enum"], list):
        values = schema["enum"]
        if len(values) < 2:  # a Literal of one value is a const
            return False
    else:
        return False
    distinct = {repr(value) for value in values}
    return len(distinct) == len(values) and all(type(v) is LITERAL_TYPES[kind] for v in values)


def _is_model(schema: Any) -> bool:
    return (
        isinstance(schema, dict)
        and schema.get("type") == "object"
        and isinstance(schema.get("properties"), dict)
        and isinstance(schema.get("additionalProperties", True), bool | dict)
        and isinstance(schema.get("required", []), list)
    )


def _identifier(name: str, used: set[str]) -> str:
    """Return the field's name: the property's own if Python and pydantic allow it."""
    own = name
    taken = own in RESERVED or keyword.iskeyword(own) or own.startswith(("_", "model_"))
    if not (own.isascii() and own.isidentifier()) or taken or own in used:
        own = "field_" + re.sub(r"\W", "_", name, flags=re.ASCII)
        wanted, number = own, 2
        while own in used:
            own, number = f"{wanted}_{number}", number + 1
    used.add(own)
    return own


def _field(arguments: list[Marked]) -> Marked:
    """Return the text after a field's type."""
    if not arguments:
        return Marked()
    if [argument.text for argument in arguments] == ["default=None"]:
        return Marked(" = None")
    return joined([" = Field(", joined(arguments, ", "), ")"])


def _literal(value: Any) -> str:
    """Render a JSON value in Python syntax."""
    match value:
        case str():
            if any("\ud800" <= character <= "\udfff" for character in value):
                return repr(value)
            if "\\" in value and value.isprintable() and '"' not in value and value[-1] != "\\":
                return f'r"{value}"'
            return json.dumps(value, ensure_ascii=False)
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case dict():
            members = (f"{_literal(key)}: {_literal(member)}" for key, member in value.items())
            return f"{{{', '.join(members)}}}"
    return repr(value)
