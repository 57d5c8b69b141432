"""A schema as Python: a model of pydantic v2.

The root is the class ``Schema``: a ``BaseModel`` for objects with properties, else a ``RootModel``
(the paper's one recorded example wraps a list in an object, which is a different schema). A keyword
that pydantic has no word for goes into ``json_schema_extra``, as pydantic's own documentation does
(https://docs.pydantic.dev/latest/concepts/json_schema/).
"""

from __future__ import annotations

import json
import keyword
import re
from typing import Any

from harness.tasks.concodeeval.schema import Schema, marked, pointer, unmarked

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
TAKEN = {"Schema", "None", "True", "False", *IMPORTED["typing"], *IMPORTED["pydantic"]}
_RESERVED = (
    "construct copy dict fields from_orm json parse_file parse_obj parse_raw schema schema_json "
    "update_forward_refs validate root str int float bool list object"
)
RESERVED = frozenset(_RESERVED.split())
"""Names that would shadow a member of a model, or the types of later fields."""

HOLDS = {"array": "items", "object": "additionalProperties"}
"""Type -> the keyword whose schema goes into the brackets of a list or a dict."""


def render(schema: Schema) -> str:
    """Write the module that declares the schema, with marks."""
    classes = _Classes()
    classes.add_root(dict(schema))
    body = "\n\n".join(classes.written)
    words = set(re.findall(r"\w+", unmarked(body)[0]))
    imports = [
        f"from {module} import {', '.join(used)}\n"
        for module, names in IMPORTED.items()
        if (used := [name for name in names if name in words])
    ]
    return "\n".join(imports) + "\n\n" + body


class _Classes:
    """Collects the classes that a schema needs, inner ones first."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self._names = set(TAKEN)

    def add_root(self, schema: dict[str, Any]) -> None:
        if _is_model(schema):
            self._add_model(schema, "", "Schema")
        else:
            kind, arguments = self._kind(schema, "", "Item")
            self.written.append(f"class Schema(RootModel):\n    root: {kind}{_field(arguments)}\n")

    def _add_model(self, schema: dict[str, Any], at: str, name: str) -> None:
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
        lines = self._config(schema, at, extra)
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            place = pointer(at, "additionalProperties")
            inner = self._annotation(additional, place, "Extra")
            lines += f"    {marked('__pydantic_extra__', place)}: dict[str, {inner}]\n"
        if lines and properties:
            lines += "\n"
        used: set[str] = set()
        for each, inner in properties.items():
            word = own = _identifier(each, used)
            kind, arguments = self._kind(inner, pointer(at, "properties", each), each)
            if each not in wanted:
                arguments.insert(0, "default=None")
            if own != each:
                arguments.insert(0, f"alias={_literal(each)}")
            if wanted and each == wanted[0] and "required" not in extra:
                word = marked(own, pointer(at, "required"))
            lines += f"    {word}: {kind}{_field(arguments)}\n"
        name = marked(name, pointer(at, "properties"))
        base = marked("BaseModel", pointer(at, "type"))
        lines = lines or "    pass\n"
        self.written.append(f"class {name}({base}):\n{lines}")

    def _config(self, schema: dict[str, Any], at: str, extra: dict[str, Any]) -> str:
        arguments = []
        additional = schema.get("additionalProperties")
        if additional is not None:
            argument = f'extra="{EXTRA[additional is not False]}"'
            if isinstance(additional, bool):
                argument = marked(argument, pointer(at, "additionalProperties"))
            arguments.append(argument)
        if extra:
            arguments.append(self._extra(extra, at))
        return f"    model_config = ConfigDict({', '.join(arguments)})\n" if arguments else ""

    def _annotation(self, schema: Any, at: str, name: str) -> str:
        """Write a type outside a field, with its constraints."""
        kind, arguments = self._kind(schema, at, name)
        return f"Annotated[{kind}, Field({', '.join(arguments)})]" if arguments else kind

    def _kind(self, schema: Any, at: str, name: str) -> tuple[str, list[str]]:
        """Return a type, and the arguments of its ``Field``."""
        if isinstance(schema, bool):
            return "object" if schema else "Never", []
        if _is_model(schema):
            own = self._class_name(name)
            self._add_model(schema, at, own)
            return own, []
        if _is_literal(schema):
            key = "const" if "const" in schema else "enum"
            values = schema["enum"] if key == "enum" else [schema["const"]]
            word = marked(marked("Literal", pointer(at, key)), pointer(at, "type"))
            return f"{word}[{', '.join(map(_literal, values))}]", []
        kind = schema.get("type")
        word, said = "Any", set()
        if isinstance(kind, str) and kind in TYPES:
            word = marked(TYPES[kind], pointer(at, "type"))
            said.add("type")
        else:
            kind = ""
        held = HOLDS.get(kind, "")
        if isinstance(schema.get(held), dict):
            place = pointer(at, held)
            of = marked(self._annotation(schema[held], place, f"{name}_item"), place)
            word += f"[str, {of}]" if kind == "object" else f"[{of}]"
            said.add(held)
        words = ARGUMENTS.get(kind, {})
        native = [key for key in schema if key in words and _is_bound(schema[key], key)]
        arguments = [
            f"{marked(words[key], pointer(at, key))}={_literal(schema[key])}" for key in native
        ]
        if extra := {k: value for k, value in schema.items() if k not in {*said, *native}}:
            arguments.append(self._extra(extra, at))
        return word, arguments

    def _extra(self, extra: dict[str, Any], at: str) -> str:
        """Write the keywords that pydantic has no word for."""
        members = []
        for key, value in extra.items():
            place = pointer(at, key)
            said = _literal(value)
            if key == "contains" and isinstance(value, dict):
                said = f"TypeAdapter({self._annotation(value, place, 'contained')}).json_schema()"
            word = _literal(key)
            members.append(f"{word[0]}{marked(word[1:-1], place)}{word[-1]}: {said}")
        return f"json_schema_extra={{{', '.join(members)}}}"

    def _class_name(self, name: str) -> str:
        words = re.findall(r"[A-Za-z0-9]+", name)
        own = "".join(word[0].upper() + word[1:] for word in words)
        if not own or own[0].isdigit():
            own = f"Model{own}"
        return _free(own, self._names, "")


def _free(name: str, used: set[str], between: str) -> str:
    """Return the name, numbered if it is used, and add it to the used ones."""
    own, number = name, 2
    while own in used:
        own, number = f"{name}{between}{number}", number + 1
    used.add(own)
    return own


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
    return _free(own, used, "_")


def _field(arguments: list[str]) -> str:
    """Return the text after a field's type."""
    if arguments == ["default=None"]:
        return " = None"
    return f" = Field({', '.join(arguments)})" if arguments else ""


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
