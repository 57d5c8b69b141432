from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.scoring.parsers.numerals import last_number, numbers, one_number


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("42", ["42"]),
        ("The answer is 42.", ["42"]),
        ("$1,234.00", ["1234.00"]),
        ("-$5", ["-5"]),
        ("$-5", ["-5"]),
        ("−3.5%", ["-3.5"]),
        ("5 - 3 = 2", ["5", "3", "2"]),
        ("5 -3", ["5", "3"]),
        ("- 3 apples", ["3"]),
        ("(1)-2", ["1", "2"]),
        ("= -2", ["-2"]),
        ("0.5 and .25", ["0.5", ".25"]),
        ("2e-3", ["0.002"]),
        ("1,234,567", ["1234567"]),
        ("1,23", ["1", "23"]),
        ("12,345,67", ["12345", "67"]),
        ("H2O and x1", []),
        ("", []),
        ("none", []),
        ("1e999999999", []),
        ("12e9999 or 3E2", ["300"]),
        ("9" * 300, []),
    ],
)
def test_numbers_as_people_write_them(text: str, found: list[str]) -> None:
    assert numbers(text) == [Decimal(one) for one in found]


def test_the_first_or_the_last_of_several() -> None:
    assert one_number("3, then 4", "first") == 3
    assert last_number("3, then 4") == 4
    assert last_number("none") is None


@given(st.text(max_size=200))
def test_no_text_is_too_odd(text: str) -> None:
    numbers(text)


@given(st.integers(-(10**15), 10**15))
def test_a_whole_number_is_read_back_however_it_is_written(number: int) -> None:
    for written in (f"{number}", f"{number:,}", f"{number}.0", f"{number:,}.00"):
        assert last_number(f"So it is {written}.") == number


@pytest.mark.parametrize("text", ["1 ", "- ", "1,", "111,", "(", "-$", "1e", "."])
def test_long_texts_take_time_in_proportion(text: str) -> None:
    numbers(text * 200_000)
