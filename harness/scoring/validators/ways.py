"""In how many ways a schema can be violated at one place: what listing all errors may cost.

An engine that stops at the first error remembers what it has seen; one that lists them all goes
every way that references and combinations lead. With ``allOf: [{$ref: a}, {$ref: a}]`` thirty times
in a row these are a billion. They are counted beforehand, level by level of the document, so that
such a schema's first error is reported alone.

>>> Ways({"items": {"type": "string"}}).at(1)
2
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

MOST = 10**12
"""Where counting ends."""
LONGEST_CHAIN = 200
"""References and combinations that lead from one to the next at one place."""

_IN_PLACE = ("not", "if", "then", "else")
_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE_MAPS = ("dependentSchemas", "dependencies")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ITEMS = ("items", "additionalItems", "contains", "unevaluatedItems")
_MEMBERS = ("additionalProperties", "unevaluatedProperties", "propertyNames")


class Ways:
    """The ways of one schema, counted when they are first asked for."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.counted: dict[tuple[int, int], int] = {}
        self.named: dict[str, Any] | None = None

    def at(self, depth: int) -> int:
        """An upper bound for one place of a document of this depth."""
        for level in range(depth):  # from the leaves, so that no recursion is deeper than a chain
            self._all(level)
        return self._count(self.schema, depth, 0)

    def _all(self, level: int) -> None:
        if (id(self.schema), level) in self.counted:
            return
        for schema in _inside(self.schema):
            self._count(schema, level, 0)

    def _count(self, schema: Any, depth: int, chain: int) -> int:
        if not isinstance(schema, dict):
            return 1
        key = (id(schema), depth)
        if key in self.counted:
            return self.counted[key]
        if chain > LONGEST_CHAIN:
            return MOST
        self.counted[key] = 0  # a reference that comes back here adds nothing
        required = schema.get("required")
        total = len(schema) + (len(required) if isinstance(required, list) else 0) or 1
        for part in self._in_place(schema):
            total += self._count(part, depth, chain + 1)
        if depth:
            total += max(self._items(schema, depth - 1), self._members(schema, depth - 1))
        self.counted[key] = min(total, MOST)
        return self.counted[key]

    def _in_place(self, schema: dict[str, Any]) -> Iterator[Any]:
        for keyword in _IN_PLACE:
            if keyword in schema:
                yield schema[keyword]
        for keyword in _IN_PLACE_LISTS:
            yield from _list(schema.get(keyword))
        for keyword in _IN_PLACE_MAPS:
            yield from _map(schema.get(keyword)).values()
        for keyword in REFERENCES:
            if isinstance(schema.get(keyword), str):
                yield self._referred(schema[keyword])

    def _items(self, schema: dict[str, Any], depth: int) -> int:
        positions = [*_list(schema.get("items")), *_list(schema.get("prefixItems"))]
        most = max((self._count(part, depth, 0) for part in positions), default=0)
        return most + sum(
            self._count(schema[word], depth, 0)
            for word in _ITEMS
            if isinstance(schema.get(word), dict)
        )

    def _members(self, schema: dict[str, Any], depth: int) -> int:
        named = _map(schema.get("properties")).values()
        most = max((self._count(part, depth, 0) for part in named), default=0)
        parts = [*_map(schema.get("patternProperties")).values()]
        parts += [schema[word] for word in _MEMBERS if isinstance(schema.get(word), dict)]
        return most + sum(self._count(part, depth, 0) for part in parts)

    def _referred(self, reference: str) -> Any:
        """The target of a reference within the schema; True for any other."""
        base, _, fragment = reference.partition("#")
        if self.named is None:
            self.named = {}
            for schema in _inside(self.schema):
                for word in ("$id", "id", "$anchor", "$dynamicAnchor"):
                    if isinstance(schema.get(word), str):
                        name = schema[word].removesuffix("#").rsplit("/", 1)[-1].lstrip("#")
                        self.named.setdefault(name, schema)
        target = self.named.get(base.rsplit("/", 1)[-1], self.schema) if base else self.schema
        if fragment and not fragment.startswith("/"):
            return self.named.get(fragment, True)
        for part in unquote(fragment).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and key.isdecimal() and int(key) < len(target):
                target = target[int(key)]
            elif isinstance(target, dict) and key in target:
                target = target[key]
            else:
                return True
        return target


def _inside(schema: Any) -> Iterator[dict[str, Any]]:
    """All objects of a schema, itself first."""
    stack = [schema]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            yield one
            stack.extend(one.values())
        elif isinstance(one, list):
            stack.extend(one)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
