"""JSON by the letter: numbers kept exact, what parsers disagree about refused."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.scoring.validators import UnparseableDocument, read
from tests.scoring.validators.named import named


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.50, true, null]}', {"a": [1, 2.5, True, None]}),
        ("0.1", 0.1),
        ("1e2", 100.0),
        ("-0", 0),
        ("0.10000000000000000001", Decimal("0.10000000000000000001")),
        ("1e400", Decimal("1e400")),
        ("1e-400", Decimal("1e-400")),
        ("9" * 1000, 10**1000 - 1),
        ('"\\ud83d\\ude00"', "😀"),
        ('"\\u0000"', "\0"),
        (" \n 5 \t", 5),
    ],
    ids=named,
)
def test_values(text: str, value: Any) -> None:
    found = read(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ('{"a": 1, "a": 2}', "unparseable", 'the key "a" is there twice'),
        ("NaN", "unparseable", "NaN is no JSON number"),
        ("[-Infinity]", "unparseable", "-Infinity is no JSON number"),
        ('{"a":\n 1,}', "unparseable", r"line 2, column 4"),
        ("5 6", "unparseable", "extra data"),
        ("", "unparseable", "expecting value"),
        ("\ufeff5", "unparseable", "expecting value"),
        ('"\\ud83d"', "unparseable", "half of a surrogate pair"),
        ('"\ud83d"', "unparseable", "half of a surrogate pair"),
        ('{"\\udc00": 1}', "unparseable", "half of a surrogate pair"),
        ('"\n"', "unparseable", "control character"),
        ("\0", "unparseable", "expecting value"),
        ("1e999999", "limit", "exponent beyond"),
        ("1e-999999", "limit", "exponent beyond"),
        ("1" * 100_001, "limit", "1,000 digits"),
        ("0." + "1" * 100_001, "limit", "1,000 digits"),
        ("[" * 1_000_000, "limit", "deeper than 100"),
        ("[" * 101 + "]" * 101, "limit", "deeper than 100"),
        ('{"a":' * 200_000, "limit", "deeper than 100"),
        ("[" + "1," * 150_000 + "1]", "limit", "100,000 values"),
        ('"' + "a" * 1_000_000 + '"', "limit", "1,000,000"),
    ],
    ids=named,
)
def test_refusals(text: str, kind: str, reason: str) -> None:
    with pytest.raises(UnparseableDocument, match=reason) as refused:
        read(text)
    assert refused.value.kind == kind
    assert len(str(refused.value)) < 300


def test_a_hundred_levels_are_read() -> None:
    assert read("[" * 100 + "]" * 100) == json.loads("[" * 100 + "]" * 100)


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30))
def test_no_digit_of_a_number_is_lost(number: Decimal) -> None:
    found = read(str(number).replace("E+", "e"))
    assert Decimal(repr(found) if isinstance(found, float) else found) == number


@given(st.text(alphabet='[]{}",:0123456789.eE+-\\utrnfalsd \n', max_size=60))
def test_what_is_read_is_what_python_reads(text: str) -> None:
    try:
        found = read(text)
    except UnparseableDocument:
        return
    assert json.loads(json.dumps(found, default=float)) == json.loads(text)
