"""Numbers as people and models write them."""

import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import Unparseable
from harness.scoring.numbers import numerals, only_number, read_number

UNREADABLE = "?"
"""Stands for a number without a certain value in the tables below."""


def values(text: str) -> list[str]:
    """Return the values of the numbers in a text, in digits."""
    return [
        UNREADABLE if numeral.value is None else format(numeral.value, "f")
        for numeral in numerals(text)
    ]


SIGNS_AND_ENDS = [
    ("42", "42"),
    ("The answer is 42.", "42"),
    ("**72**, _72_, `72`, [72] and (72)", "72 72 72 72 72"),
    ("Answer:**72**", "72"),
    ("so 5.Then 6", "5 6"),
    ("it is...72", "72"),
    ("3.14... or 3.14…", "3.14 3.14"),
    ("0.5 and .25", "0.5 0.25"),
    ("−3.5%", "-3.5"),
    ("－18 and ‑18 and –18", "-18 -18 -18"),
    ("= -2, x=-2, (-2), +2", "-2 -2 -2 2"),
    ("- 3 apples", "3"),
    ("5 - 3 = 2", "5 3 2"),
    ("12 + 30 = 42", "12 30 42"),
    ("1, 2, 3", "1 2 3"),
    ("x = - 5", UNREADABLE),
    ("negative 5 and minus 5", f"{UNREADABLE} {UNREADABLE}"),
    ("non-negative 5", "5"),
    ("1st, 2nd and 3rd", "1 2 3"),
    ("the 1990s", "1990"),
    ("5-year-old", "5"),
    ("", ""),
    ("none", ""),
]
SCRIPTS = [
    ("答案是72。", "72"),
    ("结果是-18", "-18"),
    ("答案是负18", "-18"),
    ("共1,800元", "1800"),
    ("3.5米", "3.5"),
    ("①72", "72"),
    ("答えは72です。", "72"),
    ("답은72", "72"),
    ("คำตอบคือ๗๒", "72"),
    ("היא72", "72"),
    ("الجواب ٧٢", "72"),
    ("١٬٢٣٤٫٥ و ٪٥٠", "1234.5 50"),
    ("है७२", "72"),
    ("１，８００ 和 １．５", "1800 1.5"),
    ("\u200f-5", "-5"),
    ("ответ: −5", "-5"),
]
CURRENCIES = [
    ("$1,234.00", "1234.00"),
    ("-$5, $-5, -US$5 and −€5", "-5 -5 -5 -5"),
    ("USD1,250 and EUR18 in total", "1250 18"),
    ("USD 5, 5 USD, 5USD", "5 5 5"),
    ("US$5, A$5, R$ 5, HK$5", "5 5 5 5"),
    ("Rs. 500, Rs.500, Rs500, ₹500", "500 500 500 500"),
    ("CHF 1'250.–, kr 5, 5 kr, RM50", "1250 5 5 50"),
    ("€5, 5€, 5 €, £5.50, ¥5", "5 5 5 5.50 5"),
    ("$72$, $$72$$, \\(72\\), $x=5$", "72 72 72 5"),
    ("$\\$5{,}000$", "5000"),
    ("EUR-18", UNREADABLE),
]
GROUPS = [
    ("1,234,567 and 1,234.5", "1234567 1234.5"),
    ("1,25,000", "125000"),
    ("1.800,50 and 1.234.567", "1800.50 1234567"),
    ("1'250 and 1’250.50", "1250 1250.50"),
    ("12_000 and 12\\_000", "12000 12000"),
    ("12{,}000 and 12,\\!000", "12000 12000"),
    ("12\\,000, 12\\ 000 and 12~000", "12000 12000 12000"),
    ("12 000, 12\u00a0000, 12\u2009000 and 12\u202f000", "12000 12000 12000 12000"),
    ("1 234 567,89", "1234567.89"),
    ("2020 300", "2020 300"),
    ("1 2 3", "1 2 3"),
    ("1,5", UNREADABLE),
    ("0,5 or 0,123", f"{UNREADABLE} {UNREADABLE}"),
    ("1{,}5", UNREADABLE),
    ("1,2,3", UNREADABLE),
    ("(3,4)", UNREADABLE),
    ("12,345,67 or 1,2345", f"{UNREADABLE} {UNREADABLE}"),
    ("1.2.3 or 1,234.5.6", f"{UNREADABLE} {UNREADABLE}"),
    ("1 234 5678", UNREADABLE),
    ("0800 555 111", UNREADABLE),
    ("1.250,– €", UNREADABLE),
    ("5'11\"", UNREADABLE),
]
NAMES = [
    ("GPT4, GPT-4.5, Q3, x2, T-1000, cafe\u03015", ""),
    ("COVID-19, v1.2, H2O, CO₂, IPv4/24", ""),
    ("3D and 5G", ""),
    ("x_1, x_{12}, x₂, \\theta_1, \\log_{2}", ""),
    ("x^2, x^{10}, x²", ""),
    ("Q3: 5 and Q3:6", "5 6"),
    ("x_1=5 and x^2=9", "5 9"),
    ("\\u4e00", ""),
]
UNITS = [
    ("5kg, 18km, 1.5x, 72°F, 50%", "5 18 1.5 72 50"),
    ("25 cm^2, 25 cm², 25m²", "25 25 25"),
    ("25 \\text{ cm}^2 and 25\\,\\mathrm{m}^{2}", "25 25"),
    ("9.8 m/s^2 and 5 ms⁻¹", "9.8 5"),
    ("m<sup>2</sup>", ""),
    ("90^\\circ and 90^{\\circ}", "90 90"),
    ("5千克, 5kW, 5m", "5 5 5"),
    ("10k, 10K, 10M, 7b", f"{UNREADABLE} " * 4),
    ("3万, 3.5万元, 3만, १२ लाख", f"{UNREADABLE} " * 4),
    ("5 million, $1.2 billion, 5 Mio. Euro", f"{UNREADABLE} " * 3),
    ("$5m", UNREADABLE),
    ("**5** million, 5\\text{ million}, $5-million", f"{UNREADABLE} " * 3),
]
EXPRESSIONS = [
    ("2024-05-01, 05/01/2024 and 2024年5月1日", f"{UNREADABLE} " * 3),
    ("12:30, 5h30, 5小时30分钟", f"{UNREADABLE} " * 3),
    ("7-8, 7–8, 7～8, 100~200, $5-$10, 5%-10%, 5元-8元, 5kg-7kg", f"{UNREADABLE} " * 8),
    ("5 ± 0.2", UNREADABLE),
    ("5元3角, 5€50", f"{UNREADABLE} {UNREADABLE}"),
    ("1/2, ½, 1½, 1 1/2, 3分之1", f"{UNREADABLE} " * 5),
    ("\\frac{1}{2}, \\dfrac12, \\frac{\\frac{1}{2}}{3}", f"{UNREADABLE} " * 3),
    ("\\sqrt{3}, √3/2, sqrt(3)", f"{UNREADABLE} " * 3),
    ("\\frac{y}{x} and log(x)", ""),
    ("3π, 3\\pi, π/4", f"{UNREADABLE} " * 3),
    ("12+30=42", f"{UNREADABLE} 42"),
    ("5 -3", f"5 {UNREADABLE}"),
    ("(1)-2", f"1 {UNREADABLE}"),
    ("x−18 and y.72", f"{UNREADABLE} {UNREADABLE}"),
    ("0x1F, 2x2", f"{UNREADABLE} {UNREADABLE}"),
]
POWERS = [
    ("2e-3, 1E5, 1e+2", "0.002 100000 100"),
    ("1.5 × 10^3, 1.5×10³, 1.5 x 10^3, 1.5*10^{3}", "1500 1500 1500 1500"),
    ("1.5 \\times 10^{3} and 5 \\cdot 10^{-2}", "1500 0.05"),
    ("10^6, 10², 10<sup>2</sup>, -10^2", "1000000 100 100 -100"),
    ("3 × 10 = 30", "3 10 30"),
    ("2^{10}, 2**10, 5², 10^n", f"{UNREADABLE} " * 4),
    ("4π × 10^−7", f"{UNREADABLE} {UNREADABLE}"),
    ("1e9999 and 10^9999", f"{UNREADABLE} {UNREADABLE}"),
    ("9" * 300, UNREADABLE),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *SIGNS_AND_ENDS,
        *SCRIPTS,
        *CURRENCIES,
        *GROUPS,
        *NAMES,
        *UNITS,
        *EXPRESSIONS,
        *POWERS,
    ],
)
def test_a_number_is_read_whole_or_not_at_all(text: str, expected: str) -> None:
    assert values(text) == expected.split()


def test_the_first_or_the_last_of_several_decides() -> None:
    assert read_number("3, then 4", "first") == 3
    assert read_number("3, then 4", "last") == 4
    with pytest.raises(Unparseable, match="no number"):
        read_number("none", "last")


@pytest.mark.parametrize("unreadable", ["1,5", "7-8", "1/2", "2024-05-01", "10k", "3π", "9" * 300])
def test_no_other_number_decides_for_an_unreadable_one(unreadable: str) -> None:
    assert read_number(f"{unreadable} or 3", "last") == 3
    assert read_number(f"3 or {unreadable}", "first") == 3
    with pytest.raises(Unparseable, match="last number"):
        read_number(f"3 or {unreadable}.", "last")
    with pytest.raises(Unparseable, match="first number"):
        read_number(f"{unreadable} or 3", "first")


def test_the_only_number() -> None:
    assert only_number("42 apples") == 42
    assert only_number("3 of 4") is None
    assert only_number("3/4") is None
    assert only_number("none") is None


@given(st.integers(-(10**15), 10**15))
def test_a_whole_number_is_read_back_however_it_is_written(number: int) -> None:
    for form in (f"{number}", f"{number:,}", f"{number:_}", f"{number}.0", f"{number:,}.00"):
        assert read_number(f"So it is {form}.", "last") == number
        assert read_number(f"答案是{form}元", "last") == number


def test_many_digits_are_exact() -> None:
    digits = "-" + "1234567890" * 9
    assert read_number(digits, "last") == Decimal(digits)


PIECES = r"""
    1 12 000 1, .5 a USD $ - – ^ _ { } ( ) \frac \a × 10^ 是 年 万 ½ ² ₂ ٣ ， ~ k / :
"""


@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from([" ", *PIECES.split()]), max_size=30).map("".join)
)
def test_no_text_is_too_odd(text: str) -> None:
    list(numerals(text))


@given(st.lists(st.sampled_from([" ", *PIECES.split()]), min_size=1, max_size=3).map("".join))
def test_long_texts_take_time_in_proportion(piece: str) -> None:
    began = time.process_time()
    list(numerals(piece * 5_000))
    assert time.process_time() - began < 2
