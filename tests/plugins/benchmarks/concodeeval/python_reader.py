"""Reads a schema from its pydantic model, by parsing the code and never by running it.

Only what `python` writes is understood: imports, classes of annotated fields, ``Field``,
``ConfigDict``, ``Annotated``, ``Literal``, ``TypeAdapter(…).json_schema()`` and literals. Anything
else is refused with its line.

>>> read("class Schema(RootModel):\\n    root: float = Field(lt=10)")
{'type': 'number', 'exclusiveMaximum': 10}
"""

from __future__ import annotations

import ast
import math
import warnings
from typing import Any, NoReturn

from harness.errors import DataInvalid
from harness.plugins.benchmarks.concodeeval.python import ARGUMENTS, EXTRA, TYPES

KINDS = {word: kind for kind, word in TYPES.items()}
MOST_USES = 10_000
"""Most uses of classes in a module: classes used twice by classes used twice multiply."""

LONGEST = 1 << 20
"""Most characters of a module."""


class _NotUnderstood(Exception):
    pass


def read(text: str) -> dict[str, Any]:
    """Read the schema of the module's last class.

    Raises:
        DataInvalid: A line is not understood.
    """
    if len(text) > LONGEST:
        raise DataInvalid(f"The Python schema has more than {LONGEST:,} characters.", "Check it.")
    try:
        with warnings.catch_warnings(action="ignore"):  # about escapes such as "\d"
            module = ast.parse(text)
        classes = [_class(node) for node in module.body if not _is_import(node)]
        if not classes:
            raise _NotUnderstood("there is no class")
        found = _Reader({node.name: node for node in classes}).schema(classes[-1].name)
    except (SyntaxError, ValueError, RecursionError, MemoryError, _NotUnderstood) as error:
        raise DataInvalid(
            f"The Python schema is not understood: {error or 'nested too deep'}.",
            "Only pydantic models as the harness writes them can be read; they are never run.",
        ) from None
    return found


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module in ("typing", "pydantic")


def _class(node: ast.stmt) -> ast.ClassDef:
    if not isinstance(node, ast.ClassDef) or node.decorator_list or node.keywords:
        _refuse(node)
    if [ast.unparse(base) for base in node.bases] not in (["BaseModel"], ["RootModel"]):
        _refuse(node)
    return node


def _refuse(node: ast.AST) -> NoReturn:
    line = getattr(node, "lineno", "?")
    raise _NotUnderstood(f"line {line} has a {type(node).__name__} that no schema needs")


class _Reader:
    """Turns annotations into schemas."""

    def __init__(self, classes: dict[str, ast.ClassDef]) -> None:
        self.classes = classes
        self.inside: list[str] = []
        self.uses = 0

    def schema(self, name: str) -> dict[str, Any]:
        """The schema of a class."""
        node = self.classes[name]
        self.uses += 1
        if name in self.inside or self.uses > MOST_USES:
            raise _NotUnderstood(f"line {node.lineno}: {name} holds itself, or too many classes")
        self.inside.append(name)
        is_root = ast.unparse(node.bases[0]) == "RootModel"
        found: dict[str, Any] = self._root(node) if is_root else self._model(node)
        self.inside.pop()
        return found

    def _root(self, node: ast.ClassDef) -> Any:
        match node.body:
            case [ast.AnnAssign(target=ast.Name(id="root"), annotation=kind, value=value)]:
                return self._constrained(kind, self._field(value))
        _refuse(node)

    def _model(self, node: ast.ClassDef) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "object", "properties": {}}
        required: list[str] = []
        extra: dict[str, Any] = {}
        for line in node.body:
            match line:
                case ast.Pass():
                    pass
                case ast.Assign(
                    targets=[ast.Name(id="model_config")],
                    value=ast.Call(func=ast.Name(id="ConfigDict"), args=[], keywords=arguments),
                ):
                    extra = self._config(arguments, found)
                case ast.AnnAssign(
                    target=ast.Name(id="__pydantic_extra__"),
                    annotation=ast.Subscript(slice=ast.Tuple(elts=[ast.Name(id="str"), inner])),
                ):
                    found["additionalProperties"] = self._annotation(inner)
                case ast.AnnAssign(target=ast.Name(id=name), annotation=kind, value=value):
                    arguments_ = self._field(value)
                    name = arguments_.pop("alias", name)
                    if "default" not in arguments_:
                        required.append(name)
                    arguments_.pop("default", None)
                    if name in found["properties"]:
                        _refuse(line)
                    found["properties"][name] = self._constrained(kind, arguments_)
                case _:
                    _refuse(line)
        if required:
            found["required"] = required
        return found | extra

    def _config(self, arguments: list[ast.keyword], found: dict[str, Any]) -> dict[str, Any]:
        extra: dict[str, Any] = {}
        for argument in arguments:
            if argument.arg == "extra":
                words = {word: value for value, word in EXTRA.items()}
                found["additionalProperties"] = words[_constant(argument.value, words)]
            elif argument.arg == "json_schema_extra":
                extra = self._extra(argument.value)
            else:
                _refuse(argument.value)
        return extra

    def _field(self, value: ast.expr | None) -> dict[str, Any]:
        """The arguments of a field's ``Field``, or its bare default."""
        match value:
            case None:
                return {}
            case ast.Constant(value=None):
                return {"default": None}
            case ast.Call(func=ast.Name(id="Field"), args=[], keywords=arguments):
                return self._arguments(arguments)
        _refuse(value)

    def _arguments(self, arguments: list[ast.keyword]) -> dict[str, Any]:
        return {
            argument.arg or _refuse(argument.value): self._extra(argument.value)
            if argument.arg == "json_schema_extra"
            else _literal(argument.value)
            for argument in arguments
        }

    def _extra(self, node: ast.expr) -> dict[str, Any]:
        if not isinstance(node, ast.Dict):
            _refuse(node)
        found: dict[str, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            name = _name(key, node)
            match value:
                case ast.Call(
                    func=ast.Attribute(
                        value=ast.Call(func=ast.Name(id="TypeAdapter"), args=[kind], keywords=[]),
                        attr="json_schema",
                    ),
                    args=[],
                    keywords=[],
                ):
                    found[name] = self._annotation(kind)
                case _:
                    found[name] = _literal(value)
        return found

    def _annotation(self, node: ast.expr) -> Any:
        match node:
            case ast.Subscript(
                value=ast.Name(id="Annotated"),
                slice=ast.Tuple(
                    elts=[kind, ast.Call(func=ast.Name(id="Field"), args=[], keywords=arguments)]
                ),
            ):
                return self._constrained(kind, self._arguments(arguments))
        return self._constrained(node, {})

    def _constrained(self, node: ast.expr, arguments: dict[str, Any]) -> Any:
        found = self._kind(node)
        if not arguments:
            return found
        if not isinstance(found, dict):
            _refuse(node)
        words = {word: key for key, word in ARGUMENTS.get(str(found.get("type")), {}).items()}
        extra = arguments.pop("json_schema_extra", {})
        for word, value in arguments.items():
            if word not in words:
                _refuse(node)
            found[words[word]] = value
        return found | extra

    def _kind(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=None):
                return {"type": "null"}
            case ast.Name(id="Any"):
                return {}
            case ast.Name(id="object"):
                return True
            case ast.Name(id="Never"):
                return False
            case ast.Name(id=name) if name in self.classes:
                return self.schema(name)
            case ast.Name(id=name) if name in KINDS:
                return {"type": KINDS[name]}
            case ast.Subscript(value=ast.Name(id="Literal"), slice=values):
                return _choices(values)
            case ast.Subscript(value=ast.Name(id="list"), slice=inner):
                return {"type": "array", "items": self._annotation(inner)}
            case ast.Subscript(
                value=ast.Name(id="dict"), slice=ast.Tuple(elts=[ast.Name(id="str"), inner])
            ):
                return {"type": "object", "additionalProperties": self._annotation(inner)}
        _refuse(node)


def _choices(node: ast.expr) -> dict[str, Any]:
    values = [_literal(each) for each in (node.elts if isinstance(node, ast.Tuple) else [node])]
    kinds = {bool: "boolean", int: "integer", str: "string"}
    if not values or len({type(value) for value in values}) > 1 or type(values[0]) not in kinds:
        _refuse(node)
    kind = kinds[type(values[0])]
    if len(values) == 1:
        return {"type": kind, "const": values[0]}
    return {"type": kind, "enum": values}


def _constant(node: ast.expr, words: dict[str, bool]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in words:
        return node.value
    _refuse(node)


def _name(node: ast.expr | None, inside: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    _refuse(node or inside)


def _literal(node: ast.expr) -> Any:
    """A JSON value."""
    match node:
        case ast.Constant(value=str() | bool() | int() | None):
            return node.value
        case ast.Constant(value=float()) if math.isfinite(node.value):  # type: ignore[arg-type]
            return node.value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())):
            return -_literal(node.operand)
        case ast.List():
            return [_literal(each) for each in node.elts]
        case ast.Dict():
            names = [_name(key, node) for key in node.keys]
            if len(set(names)) == len(names):
                return dict(zip(names, map(_literal, node.values), strict=True))
    _refuse(node)
