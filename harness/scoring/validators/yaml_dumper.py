"""How values are written as YAML: so that 1.1 and 1.2 readers read the same.

PyYAML quotes what its own 1.1 rules would not read as a text (``no``, ``1_000``, dates). What only
the 1.2 core schema takes for a number (``0o17``, ``1e5``) is quoted too.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from typing import Any

from harness.scoring.validators.numbers import written


@cache
def dumper() -> type[Any]:
    """The dumper, made when it is first needed: PyYAML is not loaded before."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """No aliases, exact numbers, texts quoted for both versions."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            # A list in a mapping is indented, as models write it.
            super().increase_indent(flow, False)

    tag = "tag:yaml.org,2002:"

    def number(owner: Any, value: float | Decimal) -> Any:
        return owner.represent_scalar(tag + "float", _pointed(written(value)))

    def text(owner: Any, value: str) -> Any:
        # The byte order mark, and the line breaks that 1.1 has and 1.2 has not, are escaped only
        # inside double quotes.
        style = '"' if _ESCAPED.search(value) else None
        return owner.represent_scalar(tag + "str", value, style=style)

    Dumper.add_representer(float, number)
    Dumper.add_representer(Decimal, number)
    Dumper.add_representer(str, text)
    Dumper.add_implicit_resolver(tag + "float", _NUMBER_1_2, list("-+.0123456789"))
    return Dumper


_ESCAPED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_NUMBER_1_2 = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$|0o[0-7]+$|0x[0-9a-fA-F]+$"
)


def _pointed(text: str) -> str:
    """With a point and a signed exponent, without which 1.1 takes it for a text: 1e5 is 1.0e+5."""
    mantissa, e, exponent = text.lower().partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    if e and exponent[0] not in "+-":
        exponent = "+" + exponent
    return mantissa + e + exponent
