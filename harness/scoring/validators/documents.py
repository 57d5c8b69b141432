"""Documents: a text of JSON, YAML or XML to a value, and a value to a text.

``strict`` reads each format by one clear rule (`json_text`, `yaml_text`, `xml_text`). ``paper``
reads as the authors of ConCodeEval do, with ``json.loads``, ``yaml.safe_load`` and
``xmltodict.parse`` as they are: NaN is a number, the last of two equal keys counts, ``no`` is
false, and all that XML holds is a member of its root's name. Both are bounded in time and memory.

>>> read("a: no", "yaml"), read("a: no", "yaml", mode="paper")
({'a': 'no'}, {'a': False})
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Literal

from harness.errors import DataInvalid
from harness.scoring.validators import json_text, xml_text, yaml_text
from harness.scoring.validators.numbers import finite
from harness.scoring.validators.unreadable import (
    MOST_DIGITS,
    Unreadable,
    check_length,
    check_size,
    too_deep,
)
from harness.scoring.validators.xml_tree import check_bounds
from harness.scoring.validators.yaml_events import events

Format = Literal["json", "yaml", "xml"]
FORMATS: tuple[Format, ...] = ("json", "yaml", "xml")
Mode = Literal["strict", "paper"]

MOST_YAML_OF_THE_PAPER = 100_000
"""Characters: PyYAML's own parser, which ``yaml.safe_load`` uses, reads some 50,000 a second."""


def read(text: str, format: Format = "json", *, mode: Mode = "strict", schema: Any = True) -> Any:
    """The value that a text says.

    schema: says what XML elements without a type are, in `strict` mode.

    Raises: Unreadable with a short reason, and line and column where the format is broken.
    """
    if mode == "paper":
        return _read_as_the_paper(text, format)
    if format == "json":
        return json_text.read(text)
    return yaml_text.read(text) if format == "yaml" else xml_text.read(text, schema)


def _read_as_the_paper(text: str, format: Format) -> Any:
    check_length(text)
    if format == "json":
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            raise json_text.broken(error) from None
        except RecursionError:
            raise too_deep() from None
        except ValueError as error:  # an integer of more digits than Python converts
            raise Unreadable(f"no JSON: {error}", "limit") from None
    else:
        value = _safe_load(text) if format == "yaml" else _xmltodict(text)
    check_size(value)
    return value


def _safe_load(text: str) -> Any:
    import yaml

    if len(text) > MOST_YAML_OF_THE_PAPER:
        raise Unreadable(f"more than {MOST_YAML_OF_THE_PAPER:,} characters of YAML", "limit")
    try:
        for _ in events(text, yaml.SafeLoader):
            pass
    except Unreadable as error:
        if error.kind == "limit":  # anything else is safe_load's to judge
            raise
    try:
        return yaml.safe_load(text)
    except RecursionError:
        raise too_deep() from None
    except Exception as error:  # a date of month 13 is a ValueError, a list as a key a TypeError
        raise Unreadable(f"no YAML: {' '.join(str(error).split())[:200]}") from None


def _xmltodict(text: str) -> Any:
    import xmltodict

    check_bounds(text)
    try:
        return xmltodict.parse(text)
    except Exception as error:  # expat's, and a ValueError for entities
        raise Unreadable(f"no XML: {' '.join(str(error).split())[:200]}") from None


def render(value: Any, format: Format = "json", *, indent: int | None = 4) -> str:
    """A text that `read` makes this value of again, to the digit and the type.

    indent: of JSON; None for one line.

    Raises: DataInvalid for what is no JSON value, passes the limits, or cannot be in the format.
    """
    _check(value)
    if format == "json":
        return json_text.write(value, indent)
    return yaml_text.write(value) if format == "yaml" else xml_text.write(value)


def _check(value: Any) -> None:
    try:
        check_size(value)
    except Unreadable as error:
        raise DataInvalid(f"The value cannot be written: {error}.") from None
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            if not all(isinstance(key, str) for key in one):
                raise DataInvalid("The value cannot be written: it has a key that is no text.")
            stack.extend(one.values())
        elif isinstance(one, (list, tuple)):
            stack.extend(one)
        elif isinstance(one, (int, float, Decimal)):
            _check_number(one)
        elif one is not None and not isinstance(one, str):
            raise DataInvalid(
                f"The value cannot be written: {type(one).__name__} is no type of JSON.",
                "Dates are written as texts.",
            )
    if not json_text.encodable(value):
        raise DataInvalid("The value cannot be written: it has half of a surrogate pair.")


def _check_number(number: int | float | Decimal) -> None:
    if not finite(number):
        raise DataInvalid(f"The value cannot be written: {number} is no number of JSON.")
    if isinstance(number, int):
        long = number.bit_length() > 3 * MOST_DIGITS
    elif isinstance(number, Decimal):
        long = len(number.as_tuple().digits) + abs(number.adjusted()) > MOST_DIGITS
    else:
        return
    if long:
        raise DataInvalid(
            f"The value cannot be written: a number has more than {MOST_DIGITS:,} digits."
        )
