"""Renders a schema as Python: a pydantic v2 model.

The root is the class ``Schema``: a ``BaseModel`` for objects with properties, otherwise a
``RootModel``. (The paper's only recorded example wraps a list in an object, which is a different
schema.) Keywords that pydantic cannot express are given in ``json_schema_extra``.
"""

from __future__ import annotations

import json
import keyword
import re
from typing import Any

from harness.plugins.benchmarks.concodeeval.schema import Schema, marked, pointer, unmarked
from harness.records import JsonObject

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
ARGUMENTS: dict[str, dict[str, str]] = {  # by type and keyword: the argument of ``Field``
    "string": {"minLength": "min_length", "maxLength": "max_length", "pattern": "pattern"},
    "number": _NUMBER,
    "integer": _NUMBER,
    "array": {"minItems": "min_length", "maxItems": "max_length"},
}
EXTRA = {True: "allow", False: "forbid"}  # additionalProperties to ``ConfigDict(extra=…)``
# Types whose ``enum`` and ``const`` become a ``Literal``, which also implies the type.
LITERAL_TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool}

IMPORTED = {
    "typing": ("Annotated", "Any", "Literal", "Never"),
    "pydantic": ("BaseModel", "ConfigDict", "Field", "RootModel", "TypeAdapter"),
}
TAKEN = {"Schema", "None", "True", "False", *IMPORTED["typing"], *IMPORTED["pydantic"]}
_RESERVED = (
    "construct copy dict fields from_orm json parse_file parse_obj parse_raw schema schema_json "
    "update_forward_refs validate root str int float bool list object"
)
RESERVED = frozenset(_RESERVED.split())  # would shadow a model's member, or types of later fields

# By type: the keyword whose schema goes into the brackets of ``list`` or ``dict``.
HOLDS = {"array": "items", "object": "additionalProperties"}


def render(schema: Schema) -> str:
    """Return the source of a module that declares the schema, with marks around keywords."""
    classes = _Classes()
    if _is_model(schema):
        classes.add(schema, "", "Schema")
    else:
        root = classes.field(schema, "", "Item", [])
        classes.written.append(f"class Schema(RootModel):\n    root: {root}\n")
    body = "\n\n".join(classes.written)
    words = set(re.findall(r"\w+", unmarked(body)[0]))
    imports = []
    for module, names in IMPORTED.items():
        used = [name for name in names if name in words]
        if used:
            imports.append(f"from {module} import {', '.join(used)}\n")
    return "\n".join(imports) + "\n\n" + body


class _Classes:
    """The source of the classes that a schema needs, with inner classes first."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self._names = set(TAKEN)

    def add(self, schema: Schema, path: str, name: str) -> None:
        properties = schema["properties"]
        required = [name for name in properties if name in schema.get("required", ())]
        expressed = {"type", "properties", "additionalProperties"}
        if required and required == schema["required"]:
            expressed.add("required")
        config = self._config(schema, path, expressed)
        lines = []
        if config:
            lines.append(f"    model_config = ConfigDict({', '.join(config)})")
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            place = pointer(path, "additionalProperties")
            inner = self._annotation(additional, place, "Extra")
            lines.append(f"    {marked('__pydantic_extra__', place)}: dict[str, {inner}]")
        if lines and properties:
            lines.append("")
        used: set[str] = set()
        for property_name, inner in properties.items():
            field_name = _identifier(property_name, used)
            arguments = []
            if field_name != property_name:
                arguments.append(f"alias={_literal(property_name)}")
            if property_name not in required:
                arguments.append("default=None")
            place = pointer(path, "properties", property_name)
            field = self.field(inner, place, property_name, arguments)
            if "required" in expressed and property_name == required[0]:
                field_name = marked(field_name, pointer(path, "required"))
            lines.append(f"    {field_name}: {field}")
        name = marked(name, pointer(path, "properties"))
        base = marked("BaseModel", pointer(path, "type"))
        body = "\n".join(lines or ["    pass"])
        self.written.append(f"class {name}({base}):\n{body}\n")

    def _config(self, schema: Schema, path: str, expressed: set[str]) -> list[str]:
        """Return the arguments of ``ConfigDict``, given the keywords that need none of them."""
        config = []
        additional = schema.get("additionalProperties")
        if additional is not None:
            argument = f'extra="{EXTRA[additional is not False]}"'
            if isinstance(additional, bool):
                argument = marked(argument, pointer(path, "additionalProperties"))
            config.append(argument)
        if extra := {key: value for key, value in schema.items() if key not in expressed}:
            config.append(self._extra(extra, path))
        return config

    def field(self, schema: Any, path: str, name: str, first: list[str]) -> str:
        """Return a field's type and default as code. ``first`` are arguments of ``Field``."""
        kind, arguments = self._kind(schema, path, name)
        arguments = [*first, *arguments]
        if not arguments:
            return kind
        if arguments == ["default=None"]:
            return f"{kind} = None"
        return f"{kind} = Field({', '.join(arguments)})"

    def _annotation(self, schema: Any, path: str, name: str) -> str:
        kind, arguments = self._kind(schema, path, name)
        if not arguments:
            return kind
        return f"Annotated[{kind}, Field({', '.join(arguments)})]"

    def _kind(self, schema: Any, path: str, name: str) -> tuple[str, list[str]]:
        if isinstance(schema, bool):
            return "object" if schema else "Never", []
        if _is_model(schema):
            class_name = _free(_class_name(name), self._names, "")
            self.add(schema, path, class_name)
            return class_name, []
        if values := _literals(schema):
            key = "const" if "const" in schema else "enum"
            word = marked(marked("Literal", pointer(path, key)), pointer(path, "type"))
            return f"{word}[{', '.join(map(_literal, values))}]", []
        extra = dict(schema)
        kind = schema.get("type")
        word = "Any"
        if isinstance(kind, str) and kind in TYPES:
            word = marked(TYPES[kind], pointer(path, "type"))
            del extra["type"]
        else:
            kind = ""
        inner_keyword = HOLDS.get(kind, "")
        if isinstance(schema.get(inner_keyword), dict):
            place = pointer(path, inner_keyword)
            inner = self._annotation(extra.pop(inner_keyword), place, f"{name}_item")
            inner = marked(inner, place)
            word += f"[str, {inner}]" if kind == "object" else f"[{inner}]"
        words = ARGUMENTS.get(kind, {})
        arguments = []
        for key, value in schema.items():
            if key in words and _is_bound(value, key):
                arguments.append(f"{marked(words[key], pointer(path, key))}={_literal(value)}")
                del extra[key]
        if extra:
            arguments.append(self._extra(extra, path))
        return word, arguments

    def _extra(self, extra: JsonObject, path: str) -> str:
        members = []
        for key, value in extra.items():
            place = pointer(path, key)
            word = _literal(key)
            source = _literal(value)
            if key == "contains" and isinstance(value, dict):
                source = f"TypeAdapter({self._annotation(value, place, 'contained')}).json_schema()"
            members.append(f"{word[0]}{marked(word[1:-1], place)}{word[-1]}: {source}")
        return f"json_schema_extra={{{', '.join(members)}}}"


def _class_name(name: str) -> str:
    """Return the name of the class for a property, such as ``HomeAddress``."""
    words = re.findall(r"[A-Za-z0-9]+", name)
    title = "".join(word[0].upper() + word[1:] for word in words)
    return title if title[:1].isalpha() else f"Model{title}"


def _free(name: str, used: set[str], between: str) -> str:
    """Return a name that is not in ``used``, numbered if it is taken, and add it to ``used``."""
    free_name = name
    number = 2
    while free_name in used:
        free_name = f"{name}{between}{number}"
        number = number + 1
    used.add(free_name)
    return free_name


def _is_bound(value: Any, key: str) -> bool:
    if key == "pattern":
        return isinstance(value, str)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _literals(schema: JsonObject) -> list[Any]:
    """Return the values of a ``Literal`` that expresses the whole schema, or []."""
    kind = schema.get("type")
    values = []
    if schema.keys() == {"type", "const"}:
        values = [schema["const"]]
    elif schema.keys() == {"type", "enum"} and isinstance(schema["enum"], list):
        values = schema["enum"]
        if len(values) < 2:  # a single value would be a const
            return []
    if not isinstance(kind, str) or len(set(map(repr, values))) < len(values):
        return []
    literal_type = LITERAL_TYPES.get(kind)
    return values if all(type(value) is literal_type for value in values) else []


def _is_model(schema: Any) -> bool:
    return (
        isinstance(schema, dict)
        and schema.get("type") == "object"
        and isinstance(schema.get("properties"), dict)
        and isinstance(schema.get("additionalProperties", True), bool | dict)
        and isinstance(schema.get("required", []), list)
    )


def _identifier(name: str, used: set[str]) -> str:
    """Return an unused field name: the property's name if it is allowed, else ``field_…``."""
    is_reserved = name in RESERVED or keyword.iskeyword(name) or name.startswith(("_", "model_"))
    is_valid = name.isascii() and name.isidentifier()
    if not is_valid or is_reserved or name in used:
        name = "field_" + re.sub(r"\W", "_", name, flags=re.ASCII)
    return _free(name, used, "_")


def _literal(value: Any) -> str:
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
            members = [f"{_literal(key)}: {_literal(member)}" for key, member in value.items()]
            return f"{{{', '.join(members)}}}"
    return repr(value)
