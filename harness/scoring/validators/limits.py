"""Reads documents within limits: JSON (RFC 8259), and the formats that plug-ins bring.

In JSON, NaN, Infinity, repeated keys and lone surrogates are refused.

Each limit is about ten times the largest value in the recorded answers and 200 real schemas. A
number is a float if the float's shortest form equals the number as written, and otherwise a
Decimal, which keeps all digits. Validators compare numbers as decimals, so 0.3 is a multiple of
0.1.

>>> parse_decimal("0.1"), parse_decimal("0.10000000000000000001")
(0.1, Decimal('0.10000000000000000001'))
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, Literal, NoReturn
from urllib.parse import unquote

from harness.errors import Unparseable
from harness.plugin_loader import Kind
from harness.records import replace_surrogates

ProblemKind = Literal["no answer block", "unparseable", "limit"]
Number = int | float | Decimal

MAX_DOCUMENT_CHARS = 1_000_000
"""Maximum characters of a document: about 250,000 tokens, more than any model's answer has."""
MAX_VALUES = 100_000
"""Maximum values in a document. An alias counts as all the values that it stands for."""
MAX_DEPTH = 100
"""Maximum depth of lists and objects. The engines give up at 255 (jsonschema-rs) and at about 200
(jsonschema, because of Python's stack limit)."""
MAX_DIGITS = 1_000
"""Maximum number of digits of a number, and maximum exponent. Exact arithmetic takes quadratic time
in the digits, and 1e999999 would be written out as digits."""

HALF_PAIR = "half of a surrogate pair, which is not a character"
TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
TOO_MANY_VALUES = f"more than {MAX_VALUES:,} values"


class UnparseableDocument(Unparseable):
    """A document breaks the rules of its format, or exceeds a limit (the kind ``limit``)."""

    def __init__(self, message: str, kind: ProblemKind = "unparseable") -> None:
        super().__init__(message)
        self.kind: ProblemKind = kind


def check_length(text: str) -> None:
    """Raise UnparseableDocument if the text has more than `MAX_DOCUMENT_CHARS` characters."""
    if len(text) > MAX_DOCUMENT_CHARS:
        problem = f"the text has {len(text):,} characters, more than {MAX_DOCUMENT_CHARS:,}"
        raise UnparseableDocument(problem, "limit")


def iter_levels(value: object, limit: float = MAX_VALUES) -> Iterator[list[Any]]:
    """Yield a list of the values at each depth of a document, beginning with the root.

    Raises:
        UnparseableDocument: If there are more than ``limit`` values at one depth.
    """
    level = [value]
    while level:
        yield level
        next_level: list[Any] = []
        for member in level:
            if isinstance(member, dict):
                next_level.extend(member.values())
            elif isinstance(member, (list, tuple, set)):
                next_level.extend(member)
            if len(next_level) > limit:
                raise UnparseableDocument(TOO_MANY_VALUES, "limit")
        level = next_level


def check_size(value: object) -> int:
    """Check a document's size, and return the number of values in it, including the root.

    Raises:
        UnparseableDocument: If there are too many values, if they are nested too deeply, or if an
            integer is too long.
    """
    return sum(map(len, _iter_bounded_levels(value)))


def _iter_bounded_levels(value: object) -> Iterator[list[Any]]:
    count = 0
    for depth, level in enumerate(iter_levels(value)):
        count += len(level)
        if count > MAX_VALUES:
            raise UnparseableDocument(TOO_MANY_VALUES, "limit")
        if depth == MAX_DEPTH and any(
            isinstance(member, (dict, list, tuple, set)) for member in level
        ):
            raise UnparseableDocument(TOO_DEEP, "limit")
        if any(
            isinstance(member, int) and member.bit_length() > 4 * MAX_DIGITS for member in level
        ):
            raise _too_long_error("")
        yield level


def check_json(value: object) -> int:
    """Check that JSON can represent a document, and return the number of values in it.

    Raises:
        UnparseableDocument: If it cannot, or for the reasons of `check_size`.
    """
    values = [*chain.from_iterable(_iter_bounded_levels(value))]
    for member in values:
        if isinstance(member, dict):
            if not all(isinstance(key, str) for key in member):
                raise UnparseableDocument("it has a key that is not a string")
        elif isinstance(member, (int, float, Decimal)):
            if not (isinstance(member, int) or Decimal(member).is_finite()):
                raise UnparseableDocument(f"{member} is not a number of JSON")
            if _has_too_many_digits(member):
                raise UnparseableDocument(f"it has a number of more than {MAX_DIGITS:,} digits")
        elif member is not None and not isinstance(member, (str, list, tuple)):
            raise UnparseableDocument(f"{type(member).__name__} is not a type of JSON")
    if not all(map(_is_encodable_text, iter_strings(values))):
        raise UnparseableDocument(f"it has {HALF_PAIR}")
    return len(values)


def _has_too_many_digits(number: Number) -> bool:
    if isinstance(number, Decimal):
        return len(number.as_tuple().digits) + abs(number.adjusted()) > MAX_DIGITS
    return isinstance(number, int) and number.bit_length() > 3 * MAX_DIGITS


def iter_strings(values: Iterable[Any]) -> Iterator[str]:
    """Yield the strings among some values, and the keys of the objects among them."""
    texts = chain.from_iterable(
        member if isinstance(member, dict) else (member,) for member in values
    )
    return (text for text in texts if isinstance(text, str))


def is_encodable(value: object) -> bool:
    """Return whether UTF-8 can encode all strings in a document, including keys."""
    return all(map(_is_encodable_text, iter_strings(chain.from_iterable(iter_levels(value)))))


def _is_encodable_text(text: str) -> bool:
    return text.isascii() or not _SURROGATE.search(text)


_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_integer(text: str, base: int = 10) -> int:
    """Parse an integer.

    Args:
        text: The integer, in the format of `int`.
        base: Its base, or 0 if a prefix (0o or 0x) states it.

    Raises:
        UnparseableDocument: If the integer has more than `MAX_DIGITS` digits.
    """
    if len(text) > MAX_DIGITS:
        raise _too_long_error(text)
    return int(text, base)


def parse_decimal(text: str) -> float | Decimal:
    """Parse a number with a decimal point or an exponent.

    Returns:
        A float if it has the same value, otherwise a Decimal.

    Raises:
        UnparseableDocument: If the number has too many digits or too large an exponent.
    """
    number = float(text)
    if repr(number) == text:  # nearly all numbers that models write
        return number
    if len(text) > MAX_DIGITS:
        raise _too_long_error(text)
    exponent = text.lower().partition("e")[2]
    if abs(int(exponent or "0")) > MAX_DIGITS:
        problem = f"the number {text[:40]} has an exponent beyond {MAX_DIGITS:,}"
        raise UnparseableDocument(problem, "limit")
    decimal = Decimal(text)
    return number if decimal == Decimal(repr(number)) else decimal


def _too_long_error(text: str) -> UnparseableDocument:
    beginning = f" ({text[:20]}…)" if text else ""
    return UnparseableDocument(f"a number of more than {MAX_DIGITS:,} digits{beginning}", "limit")


def pointer(path: Iterable[str | int]) -> str:
    """Return the JSON pointer for a path of keys and indices."""
    parts = (str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return replace_surrogates("".join(f"/{part}" for part in parts))


def unescape_token(token: str) -> str:
    """Return the key or index that a token of a JSON pointer (RFC 6901) stands for."""
    return token.replace("~1", "/").replace("~0", "~")


def value_at(document: Any, path: Sequence[Any], default: Any = None) -> Any:
    """Return the value at a path of keys and indices, or ``default`` if there is none."""
    value = document
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return default
    return value


def resolve_fragment(fragment: str, schema: Any) -> tuple[tuple[str | int, ...], Any] | None:
    """Return the path and the value that a URI's fragment points to.

    Args:
        fragment: A JSON pointer (RFC 6901), percent-encoded, such as ``/definitions/a``.
        schema: The schema in which to look.

    Returns:
        The keys and indices from the root of the schema, and the value; None if there is no value.
    """
    path: list[str | int] = []
    for token in map(unescape_token, unquote(fragment).split("/")[1:]):
        if isinstance(schema, dict) and token in schema:
            path.append(token)
        elif (
            isinstance(schema, list)
            and token.isdecimal()
            and len(token) <= MAX_DIGITS
            and int(token) < len(schema)
        ):
            path.append(int(token))
        else:
            return None
        schema = schema[path[-1]]
    return tuple(path), schema


# Reading documents

_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")  # escaped or not


def read(text: str, format: str = "json", *, schema: Any = True) -> Any:
    """Return the value of a document.

    Args:
        text: The document.
        format: ``json``, or a format that a plug-in brings.
        schema: The schema that the value should satisfy. In some formats, it determines types.

    Raises:
        ConfigError: If no plug-in brings the format.
        UnparseableDocument: If the document is not in the format, or exceeds a limit.
    """
    if format == "json":
        return read_json(text)
    return Kind("document_formats").load(format)(text, schema)


def read_json(text: str) -> Any:
    """Return the value of a JSON document.

    Raises:
        UnparseableDocument: If the text is not a valid document. For a syntax error, the message
            states the line and the column.
    """
    check_length(text)
    value = decode_json(_DECODER, text)
    # Skip the walk if the text alone shows that the value is neither too deep nor too large.
    if len(text) > MAX_VALUES or text.count("[") + text.count("{") > MAX_DEPTH:
        check_size(value)
    if _HALF_PAIR.search(text) and not is_encodable(value):
        raise UnparseableDocument(HALF_PAIR)
    return value


def decode_json(decoder: json.JSONDecoder, text: str) -> Any:
    """Decode JSON.

    Raises:
        UnparseableDocument: If the text is not JSON, or is nested too deeply.
    """
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        problem = f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        position = f"(line {error.lineno}, column {error.colno})"
        raise UnparseableDocument(f"{problem} {position}") from None
    except RecursionError:
        raise UnparseableDocument(TOO_DEEP, "limit") from None


def _decode_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        key = next(key for key, count in counts.items() if count > 1)
        raise UnparseableDocument(f"the key {json.dumps(key)[:60]} occurs twice in one object")
    return members


def _reject_constant(name: str) -> NoReturn:
    raise UnparseableDocument(f"{name} is not a JSON number")


_NUMBERS: Any = {"parse_float": parse_decimal, "parse_int": parse_integer}
_DECODER = json.JSONDecoder(
    object_pairs_hook=_decode_object, parse_constant=_reject_constant, **_NUMBERS
)
