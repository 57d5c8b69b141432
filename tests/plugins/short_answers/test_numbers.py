"""Numbers as people and models write them."""

import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import Unparseable
from harness.plugins.short_answers.final_numbers import read_number
from harness.plugins.short_answers.numbers import numerals, only_number
from harness.plugins.short_answers.numeric_match import NumericMatchChecker
from harness.records import Instance
from harness.scoring.extraction import build_extraction

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
    ("１，８００ 然后 １．５", "1800 1.5"),
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
    ("8,- €, 8,–, 1'250,— CHF", "8 8 1250"),
    ("1.250,– €", UNREADABLE),
    ("5'11\"", UNREADABLE),
]
NAMES = [
    ("GPT4, GPT-4.5, Q3, x2, T-1000, cafe\u03015", ""),
    ("COVID-19, v1.2, H2O, CO₂, IPv4/24", ""),
    ("3D and 5G", ""),
    ("12D and 64G", "12 64"),
    ("x_1, x_{12}, x₂, \\theta_1, \\log_{2}", ""),
    ("x^2, x^{10}, x²", ""),
    ("Q3: 5 and Q3:6", "5 6"),
    ("x_1=5 and x^2=9", "5 9"),
    ("\\u4e00", ""),
]
UNITS = [
    ("5kg, 18km, 1.5x, 72°F, 50%", "5 18 ? 72 50"),
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
    assert read_number("3, so 4", "last") == 4
    with pytest.raises(Unparseable, match="no number"):
        read_number("none", "last")


BELOW_ZERO = """
5 Grad unter Null
**5 Grad** unter Null
5 °C unter Null
4 grados bajo cero
5 graus abaixo de zero
5 graus negativos
5 gradi sotto lo zero
5 degrés au-dessous de zéro
5 graden onder nul
5 градусов ниже нуля
5 stupňů pod nulou
5 stopni poniżej zera
5 astetta pakkasta
5 minusgrader
5 grader under noll
5 kuldegrader
5 độ dưới không
sıfırın altında 5 derece
5 تحت الصفر
5 درجات تحت الصفر
"""
LAST_NUMBERS = [
    ("1,{}234", "1234"),
    ("1{\\,}234", "1234"),
    ("1\\text{,}234", "1234"),
    ("1\\mathord{,}234", "1234"),
    ("1{.}234", "1.234"),
    ("1\\thinspace 234", "1234"),
    ("1 \\, 234", "1234"),
    ("1\\hspace{1mm}234", "1234"),
    ("1´234", UNREADABLE),
    ("1&#39;234", "1234"),
    ("1‚234", UNREADABLE),
    ("1\\,{234}", "1234"),
    ("1`234", UNREADABLE),
    ("1{\\thinspace}234", "1234"),
    ("1‘234", UNREADABLE),
    ("1;234", UNREADABLE),
    ("1{234}", UNREADABLE),
    ('1"234', UNREADABLE),
    ("-\\,5", UNREADABLE),
    ("-{5}", "-5"),
    ("{-}5", "-5"),
    ("\\text{-}5", "-5"),
    ("-**5**", UNREADABLE),
    ("-(5)", UNREADABLE),
    ("-\\(5\\)", UNREADABLE),
    ("-\\boxed{5}", UNREADABLE),
    ("&minus;5", "-5"),
    ("⁻5", "-5"),
    ("➖5", "-5"),
    ("neg. 5", UNREADABLE),
    ("It is - 5", UNREADABLE),
    ("− 5", UNREADABLE),
    ("minus **5**", UNREADABLE),
    ("moins 5", UNREADABLE),
    ("menos 5", UNREADABLE),
    ("meno 5", UNREADABLE),
    ("минус 5", UNREADABLE),
    ("سالب 5", "-5"),
    ("零下5度", "-5"),
    ("영하 5도", "-5"),
    ("eksi 5", UNREADABLE),
    ("âm 5", UNREADABLE),
    ("ลบ 5", "-5"),
    ("$5$ million", UNREADABLE),
    ("\\boxed{5} million", UNREADABLE),
    ("`5` thousand", UNREADABLE),
    ("5 \\text{M}", UNREADABLE),
    ("$5\\mathrm{k}$", UNREADABLE),
    ("5 (million)", UNREADABLE),
    ("**5**万", UNREADABLE),
    ("5 tysięcy", UNREADABLE),
    ("5 tusen", UNREADABLE),
    ("5 tusind", UNREADABLE),
    ("5 duizend", UNREADABLE),
    ("5 χιλιάδες", UNREADABLE),
    ("5 тисяч", UNREADABLE),
    ("5 хиляди", UNREADABLE),
    ("5 tisíc", UNREADABLE),
    ("5 tuhat", UNREADABLE),
    ("5 tuhatta", UNREADABLE),
    ("5 ezer", UNREADABLE),
    ("5 milliárd", UNREADABLE),
    ("5 mii", UNREADABLE),
    ("5 tūkst.", UNREADABLE),
    ("5 mila", UNREADABLE),
    ("5 miliardi", UNREADABLE),
    ("5 bin TL", UNREADABLE),
    ("5 tỷ", UNREADABLE),
    ("5 trăm", UNREADABLE),
    ("5 হাজার", UNREADABLE),
    ("5 ஆயிரம்", UNREADABLE),
    ("5 grand", UNREADABLE),
    ("3 dozen", UNREADABLE),
    ("7十", UNREADABLE),
    ("5割", UNREADABLE),
    ("5成", UNREADABLE),
    ("5個半", UNREADABLE),
    ("72 / 100", UNREADABLE),
    ("5 : 2", UNREADABLE),
    ("5 ÷ 2", UNREADABLE),
    ("5 x 2", UNREADABLE),
    ("5 × 2 m", UNREADABLE),
    ("72 +/- 5", UNREADABLE),
    ("5 over 2", UNREADABLE),
    ("5 choose 2", UNREADABLE),
    ("72 mod 5", UNREADABLE),
    ("$72 \\bmod 5$", UNREADABLE),
    ("三分之2", UNREADABLE),
    ("7 to 8", UNREADABLE),
    ("from 5 to 7", UNREADABLE),
    ("5 km or 6 km", UNREADABLE),
    ("$5!$", UNREADABLE),
    ("5! + 1", UNREADABLE),
    ("5 squared", UNREADABLE),
    ("5 pi", UNREADABLE),
    ("y = 5x", UNREADABLE),
    ("$5x$", UNREADABLE),
    ("5i", UNREADABLE),
    ("0.(3)", UNREADABLE),
    ("0.3\u0305", UNREADABLE),
    ("0.\\overline{3}", UNREADABLE),
    ("|−5|", UNREADABLE),
    ("\\left|-5\\right|", UNREADABLE),
    ("\\lvert -5\\rvert", UNREADABLE),
    ("1h 30min.", UNREADABLE),
    ("5 ft 11 in", UNREADABLE),
    ("2 hours 30 minutes", UNREADABLE),
    ("2 hours and 30 minutes", UNREADABLE),
    ("72 ~~70~~", "72"),
    ("<del>70</del> 72", "72"),
    ("x ≠ 5", UNREADABLE),
    ("x \\neq 5", UNREADABLE),
    ("70 or 72", UNREADABLE),
    ("70 oder 72", UNREADABLE),
    ("70 ou 72", UNREADABLE),
    ("70 o 72", UNREADABLE),
    ("70 или 72", UNREADABLE),
    ("$70$ or $72$", UNREADABLE),
    ("either 70 or 72, so 72", "72"),
    ("5 + 7 = 12", "12"),
    ("5 to 7 business days, so 12", "12"),
    ("Step 2: 72", "72"),
    ("$72 / month", "72"),
    ("72 / 100 = 0.72", "0.72"),
    ("I scored 72 to win", "72"),
    ("It is 5! Great", "5"),
    ("72!", "72"),
    ("| a | -5 |", "-5"),
    ("- 5", "5"),
    ("- **5**", "5"),
    ("Answer - 72", "72"),
    ("1. 70; 2. 72", UNREADABLE),
    ("5 miles", "5"),
    ("5 milligrams", "5"),
    ("5 millas", "5"),
    ("5 minutes", "5"),
    ("after 3 hours 72 people", UNREADABLE),
    ("1.5x", "?"),
    ("**Total:** $72$ apples", "72"),
    ("\\boxed{72}", "72"),
    ("3 boxes of 24 = **72**", "72"),
    ("`[1]` 72", UNREADABLE),
    ("12 × 6 = 72 cm^2", "72"),
    ("$\\frac{12}{4} = 3$", "3"),
    ("\\frac {12}{5}", UNREADABLE),
    ("x^{2} = 9", "9"),
    ("72 dollars and 5 people", UNREADABLE),
    ("Ответ: 72 мили", "72"),
    ("1\u00a0\u00a0234", "1234"),
    ("-\u00a05", UNREADABLE),
    ("5\n million", UNREADABLE),
    ("a | b\n5 | 72", UNREADABLE),
    ("1\n- 5", UNREADABLE),
    ("5 \n* 72", UNREADABLE),
    ("1 {,} 234", UNREADABLE),
    ("1 ,234", UNREADABLE),
    ("1 0000", UNREADABLE),
    ("12  000", UNREADABLE),
    ("1  234", UNREADABLE),
    ("1<b>234</b>", UNREADABLE),
    ("-<b>5</b>", UNREADABLE),
    ("<b>72</b>", "72"),
    ("<b>5</b> million", UNREADABLE),
    ("5 kg 300 g", UNREADABLE),
    ("5' 11\"", UNREADABLE),
    ("5 and a half", UNREADABLE),
    ("5 point 2", UNREADABLE),
    ("5 k", UNREADABLE),
    ("5 k€", UNREADABLE),
    ("72 divided by 8", UNREADABLE),
    ("72 divided by 8 is 9", "9"),
    ("7 bis 8", UNREADABLE),
    ("70, or 72", UNREADABLE),
    ("72 (or 70)", UNREADABLE),
    ("72, not 70", UNREADABLE),
    ("not 5", UNREADABLE),
    ("not 70 but 72", "72"),
    ("It isn't 72.", UNREADABLE),
    ("It isn't 70 but 72", "72"),
    ("70 或 72", UNREADABLE),
    ("70或72", UNREADABLE),
    ("70 または 72", UNREADABLE),
    ("5십", UNREADABLE),
    ("x != 5", UNREADABLE),
    ("5 out of 8", UNREADABLE),
    ("5 of the 72", UNREADABLE),
    ("about 1, 234 people", UNREADABLE),
    ("12 workers share it. 1234.5 ≈ 1235", "1235"),
    ("12 workers share it. 0.3 ≈ 0.302", "0.302"),
    ("12 workers share it. 0.3 ≈ 0.309", UNREADABLE),
    ("\\boxed{5, 7}", UNREADABLE),
    ("(3, 4) is the point", UNREADABLE),
    ("[3, **4**]", UNREADABLE),
    ("The answers are 5, 7.", UNREADABLE),
    ("5; 7", UNREADABLE),
    ("$x = 5$, $7$ or so", UNREADABLE),
    ("5 and 7", UNREADABLE),
    ("It is 5, 7, and 9", UNREADABLE),
    ("5 & 7", UNREADABLE),
    ("In 2020, 345 people", UNREADABLE),
    ("In week 4, 72 apples", UNREADABLE),
    ("x = 5, y = 72", UNREADABLE),
    ("5,\n72", "72"),
    ("2020 300", UNREADABLE),
    ("In 2019 500 people", UNREADABLE),
    ("4 by 5", UNREADABLE),
    ("5 dollars and 30 cents", UNREADABLE),
    ("5 dollars and 72 people", UNREADABLE),
    ("5 bins", "5"),
    ("I ate 5 and a banana", "5"),
    ("5 km", "5"),
    ("- 5 apples\n- 72 pears", UNREADABLE),
    ("5 * 72 = 360", "360"),
    ("1 2 3", UNREADABLE),
    ("A 5 - B 72", UNREADABLE),
    ("10 5 00", UNREADABLE),
    ("Total: 72 (seventy-two)", "72"),
    ("The answer is **72** (see step 3).", "72"),
    ("Answer: 72\nConfidence: 95%", "72"),
    ("**Answer**: 72\n\n*(Source: Wikipedia, 2023)*", "72"),
    ("The answer is 72.\n\nLet me know if problem 13 is next!", "72"),
    ("#### 72\n(rounded to 2 decimals)", "72"),
    ("#### 3. Third step\nThe total is 72", "72"),
    ("\\boxed{72}\n\nStep 7 used modular arithmetic.", "72"),
    ("\\boxed{70}. Wait, the answer is 72.", "72"),
    ("The answer is 70. But we have to add 2: 72.", UNREADABLE),
    ("The answer is 70 + 2 = 72", "72"),
    ("I get 70. The answer is clear (72).", "72"),
    ("The answer is 72 [source 4].", "72"),
    ("**Answer:** 72 [^1]", "72"),
    ("The answer is 72.\n\n[1] World Bank, 2020", "72"),
    ("The answer is 72【4†source】", "72"),
    ("\\boxed{70}\n\\boxed{72}", "72"),
    ("$\\boxed{70}$ or $\\boxed{72}$", UNREADABLE),
    ("$x=\\boxed{70}$ or $x=\\boxed{72}$", UNREADABLE),
    ("\\boxed{70} \\text{ and } \\boxed{72}", UNREADABLE),
    ("a) \\boxed{70} so b) \\boxed{72}", "72"),
    ("I think it's 72, with 95% confidence.", "72"),
    ("It has 95% confidence.", "95"),
    ("The answer is 72, or is it seventy?", UNREADABLE),
    ("\\boxed{2\\cdot 4}", UNREADABLE),
    ("\\boxed{\\log_{2} 4}", UNREADABLE),
    ("\\boxed{\\max 4}", UNREADABLE),
    ("The answer is 72. Hmm, actually it should be seventy.", UNREADABLE),
    ("The answer is 72. Let me recompute... it is seventy.", UNREADABLE),
    ("La respuesta es 72. No, en realidad es setenta.", UNREADABLE),
    ("The answer to part 1 is 3.\nTotal: 72", "72"),
    ("Answer: 72\nTotal: 70", UNREADABLE),
    ("答案：72\n置信度：95%", UNREADABLE),
    # what follows an announced number
    ("The answer is **72**.\n\nLet me verify: 2 × 72 + 5 = 149. ✓", "72"),
    ("Answer: 72\n\nVerification: 72 - 2 = 70 ✓", "72"),
    ("Die Antwort ist 72.\n\nProbe: 72 : 6 = 12", "72"),
    ("La réponse est 72.\n\nVérification : 72 / 6 = 12", "72"),
    ("La respuesta es 72.\n\nComprobación: 72 / 6 = 12", "72"),
    ("答案是72。\n\n验证：72÷6=12", "72"),
    ("答えは72です。\n\n検算：72÷6=12", "72"),
    ("정답은 72입니다.\n\n검산: 72 ÷ 6 = 12", "72"),
    ("Svaret är 72.\n\nKontroll: 72 / 6 = 12", UNREADABLE),
    ("Answer: 72\n\nVerification: 48 + 22 = 70. So 72 is wrong: 70", UNREADABLE),
    ("Answer: 72. Verification: 48 + 24 ≠ 70", UNREADABLE),
    ("The answer is 72. Let me know if you need any of the 3 steps explained!", "72"),
    ("The answer: 72\n\nWould you like me to explain step 2?", "72"),
    ("There are 72.\n\nWould you like me to explain step 2?", "72"),
    ("Would you say 72", "72"),
    ("The answer is 72.\n\nPlease note that this assumes a 365-day year.", "72"),
    ("The answer is 72.\n\nHere is the breakdown:\n- April: 48\n- May: 24", "72"),
    ("### Answer\n72\n\n### Explanation\nHalf of it is 36.", "72"),
    ("Answer: 72\n\nNote: a year has 365 days.\n\nSteps:\n1. 70", "72"),
    ("The answer is 72, up from 70 last year.", UNREADABLE),
    ("The answer is x = 72, up from 70.", UNREADABLE),
    ("The answer is 72 (48 + 24), up from 70.", UNREADABLE),
    ("The answer is 72 clips for 2 months.", UNREADABLE),
    ("The answer is half of 144, which is 72.", "72"),
    ("The answer is not 70 but 72.", "72"),
    ("The answer is 72 but was 70.", UNREADABLE),
    ("The answer is 72. That is 6 more than 66.", UNREADABLE),
    ("The answer is 72. So 72.0 in total.", "72"),
    ("The answer is 72. That answer is correct, for 48 is too low.", UNREADABLE),
    ("The answer to the question is 72.\n\nLast year: 70", UNREADABLE),
    ("A common wrong answer is 70. It comes to 72.", "72"),
    ("\\boxed{72}. The answer is correct: it has 2 digits.", "72"),
    ("The answer is 70. We add 2: \\boxed{72}", "72"),
    # calculations after a heading
    ("There are 2 boxes.\nCalculation: 70 + 2 = 72", "72"),
    ("Answer: Janet has 16 eggs. She sells 9 for $2 each. 9 × 2 = 18", "18"),
    ("Answer: First, 16 - 7 = 9. Then, 9 × 2 = 18.", "18"),
    ("Answer: 16 eggs are laid. She sells 9 for $2 each: $18.", UNREADABLE),
    ("Answer: Janet has 16 eggs.\nCalculation: 9 × 2 = 18", UNREADABLE),
    ("Solution: 16 - 7 = 9. Then, 9 × 2 = 18.", "18"),
    ("The answer is found by adding 2 to 70. It is 72.", "72"),
    ("Answer: approximately $72. Check: 60 + 10 = 70", "72"),
    ("Answer: x = 72. Last year, it was 70.", UNREADABLE),
    # what a reader takes for the answer, although another number is the last
    ("There are 72 trees left.\n\n---\n*Confidence: 95%*", "72"),
    ("Confidence: 95%", "95"),
    ("Kylar needs to pay **$72** for 16 glasses.", UNREADABLE),
    ("The total is **72**.\n\nThis assumes a 30-day month.", UNREADABLE),
    ("Pay **12 coins** × 6 = 72.", "72"),
    ("**Step 2**: I get 72.", "72"),
    ("2.5 hours (150 minutes)", UNREADABLE),
    ("25°C (77°F).", UNREADABLE),
    ("Step 3: (72)", "72"),
    ("They sold 72 clips in two months. (April: 48, May: 24)", UNREADABLE),
    ("It is 3 + \\(x = 72\\)", "72"),
    ("**72**\n\n*(Verified: 72 ÷ 6 = 12)*", UNREADABLE),
    ("72\n\nExplanation: 48 + 24 = 72, where 24 is half of 48.", "72"),
    ("So x = 10.\n\nCheck: 10 + 5 = 15 ✓.", "10"),
    ("So x = 10.\n\nCheck: 10 + 5 = 15 ✓.\n\nAll 16 of them.", UNREADABLE),
    ("Check: 10 + 62 = 72", "72"),
    ("72 is bigger than 70.", UNREADABLE),
    ("氷点下5度", "-5"),
    ("冰点以下5度", "-5"),
    # a further question that the model has made up
    ("72\nHuman: What is 5+5?\nAssistant: 10", "72"),
    ("#### 72\n\nQuestion: Tom has 3 apples.\nAnswer: 3\n#### 3", "72"),
    ("The answer is 72.\n\nQ: Tom has 3.\nA: The answer is 7.", "72"),
    ("The answer is 72.\n\n---\n\nNext question: The answer is 7.", "72"),
    ("The answer is 72.<|endoftext|>User: The answer is 7.", "72"),
    ("It is 70, I say.\n\nQ: Tom has 3.\nA: 72", UNREADABLE),
    ("Question: What is 70 + 2?\nAnswer: 72", "72"),
    ("So we ask:\nQuestion: What is 70 + 2?\nAnswer: 72", "72"),
    ("72, so \\boxed{\\text{None}}", UNREADABLE),
    ("Answer: 72 (= 0xC)", UNREADABLE),
    ("The answer is 72. Actually, fifteen.", UNREADABLE),
    ("The answer is 72. Sorry, that is wrong.", UNREADABLE),
    ("Die Antwort ist 72. Nein, fünfzehn.", UNREADABLE),
    ("答案是72。不对，是十五。", UNREADABLE),
    ("答えは72です。いや、十五です。", UNREADABLE),
    ("Ответ 72. Нет, пятнадцать.", UNREADABLE),
    ("The answer is 72. It is wrong to add 0", UNREADABLE),
    ("72. No other number fits.", "72"),
    ("不是72", UNREADABLE),
    ("72ではありません", UNREADABLE),
    ("no es 72", UNREADABLE),
    ("не 72", UNREADABLE),
    ("72 नहीं", UNREADABLE),
    ("x \\geq 72", UNREADABLE),
    ("x < 72", UNREADABLE),
    ("> 72", "72"),
    ("a > b, so 72", "72"),
    ("x + 5", UNREADABLE),
    ("f(5)", UNREADABLE),
    ("\\ln 5", UNREADABLE),
    ("101₂", UNREADABLE),
    ("12 Mia.", UNREADABLE),
    ("5 remainder 2", UNREADABLE),
    ("5余2", UNREADABLE),
    ("5 virgule 2", UNREADABLE),
    ("1 May 2024", UNREADABLE),
    ("70, possibly 72", UNREADABLE),
    ("70; alternatively 72", UNREADABLE),
    ("at least 72", UNREADABLE),
    ("5 a.m.", "5"),
    ("5 o'clock", "5"),
    ("72 k.", UNREADABLE),
    ("0.5 .25", UNREADABLE),
    ("$- 5$", UNREADABLE),
    ("(- 5)", UNREADABLE),
    ("Answer: - 5", UNREADABLE),
    ("x = 5 or x = -5", UNREADABLE),
    ("\\boxed{5 \\text{ or } 7}", UNREADABLE),
    ("5\\text{ or }7", UNREADABLE),
    ("3 - x = 5", "5"),
    ("2 Stunden 30 Minuten", UNREADABLE),
    ("1 day and 2 hours", UNREADABLE),
    ("2 часа 30 минут", UNREADABLE),
    ("5 thousand 200", UNREADABLE),
    ("one hundred and 72", UNREADABLE),
    ("5 degrees below zero", UNREADABLE),
    *((text, UNREADABLE) for text in BELOW_ZERO.strip().splitlines()),
    ("शून्य से 5 डिग्री नीचे", "-5"),
    ("शून्य से 5 डिग्री ऊपर", "5"),
    ("5 Grad über Null", "5"),
    ("5 grados sobre cero", "5"),
    ("5 values are below zero", "5"),
    ("5 thousand people and 72 cats", UNREADABLE),
    ("a hundred, or 72", "72"),
    ("72 (72%)", "72"),
    ("\\boxed{45}\n\nNote: if tips are included, the answer is 50.", UNREADABLE),
    ("**Answer: 45**\n\nNote: If all count, the correct answer is 50.", UNREADABLE),
    ("If we add them, the answer is 45.", "45"),
    ("First the answer is 40. In total, the answer is 45.", "45"),
    ("45 is the correct answer. The common wrong answer is 40.", UNREADABLE),
    ("45 is the answer.", "45"),
    ("The answer is 40. Or \\boxed{42}. The answer is 45.", "45"),
    ("The answer is 40. If there are two dogs, we have 42. The answer is 45.", "45"),
]
"""Answers, and the value of the last number."""


@pytest.mark.parametrize(("text", "expected"), LAST_NUMBERS)
def test_no_part_of_a_number_or_an_expression_decides(text: str, expected: str) -> None:
    if expected == UNREADABLE:
        with pytest.raises(Unparseable):
            read_number(text, "last")
    else:
        assert read_number(text, "last") == Decimal(expected)


@pytest.mark.parametrize(
    "text",
    [
        "Final answer: none of the 72 work.",
        "Answer: impossible\n(72 is too large)",
        "Answer: seventy.\nWork: 80 - 8 = 72",
        "72 was my first guess. Final answer: seventy",
        "Of the 5 boxes, the answer is twelve.",
        "There were 72 birds. The answer is zero.",
        "Answer: no solution. (Tried all x up to 72)",
        "**Answer:** undefined, since 72/0",
        "Answer: infinity. Checked for n = 72",
        "Final answer: yes, because 72 is even",
        "Final answer: No, 72 is odd.",
        "Answer: N/A. I only see 72 rows.",
        "The answer is NaN (72 inputs)",
        "The answer is unknown. I counted 72.",
        "**Final answer: not enough information** (only 72 is given)",
        "Answer: B. 72 was the distractor.",
        "Answer: cannot be determined (72)",
        "Answer: Yes. He has 72.",
        "The answer is none; 72 doesn't fit.",
        "Respuesta: ninguno, 72 no sirve",
        "回答：没有。72不行",
        "Of the 3 options the answer is ②",
        "There were 3, answer: Ⅻ",
        "箱が5個あり、答えは七十二です。",
        "答案是七十。過程: 80-8=72",
        "Ответ: семьдесят. Проверка: 80 - 8 = 72",
        "La respuesta es setenta. Cálculo: 80 - 8 = 72",
        "Antwort: keine. Geprüft bis 72",
        "The answer is 72. No, the answer is seventy.",
        "\\boxed{72}. The answer is seventy.",
    ],
)
def test_a_conclusion_in_words_is_no_number(text: str) -> None:
    with pytest.raises(Unparseable):
        read_number(text, "last")


@pytest.mark.parametrize(
    "text",
    [
        "The answer is that Janet makes $72 every day",
        "Answer: Janet makes 72 dollars",
        "Answer: Janet sells 80 eggs. She loses 8. 80 - 8 = 72",
        "Answer: She has none left on Monday but 72 on Tuesday.",
        "Answer: Let's think. 80 - 8 = 72",
        "The answer is as follows:\n80 - 8 = 72",
        "The answer is below.\n72",
        "Answer: Two friends share 144 apples, so each gets 72.",
        "The answer is seventy-two (72).",
        "Answer: (B) 72",
        "Answer: B. 72",
        "Answer: none. Final answer: 72",
        "The answer is seventy. No, the answer is \\boxed{72}",
        "80 - 8 = 72. The answer is reasonable.",
        "答案如下:\n72",
        "答案是一共72个",
        "Answer: No discount applies, so she pays 72.",
        "Answer: One box holds 8, so nine boxes hold 72.",
        "The answer is not obvious. We compute 80 - 8 = 72",
        "Let the answer be x. Then x = 72.",
    ],
)
def test_a_conclusion_in_a_sentence_has_its_number(text: str) -> None:
    assert read_number(text, "last") == 72


@pytest.mark.parametrize(
    "text",
    [
        "72 is not the answer.",
        "72 is incorrect.",
        "72 apples is wrong.",
        "72 is obviously wrong.",
        "Incorrect answer: 72",
        "Wrong: 72",
        "72: wrong.",
        "72 (wrong)",
        "72 ❌",
        "❌ 72",
        "✗ 72",
        "The answer cannot be 72.",
        "It can't be 72.",
        "72? No.",
        "72? Nope!",
        "No: 72 is impossible.",
        "Anything but 72.",
        "everything except 72",
        "not equal to 72",
        "I would not say 72.",
        "I got 72, which cannot be right.",
        "n =/= 72",
        "n<>72",
        "n>72",
        ">72",
        "72+",
        "Answer: 72\n\nEdit: it should be seventy.",
        "Answer: 72\n\nActually that double-counts one. Subtract it.",
        "**Answer: 72**\n\nWait - it asks per day, so divide by seven.",
        "New total: 70. Old total: 72.",
        "72 doesn't work.",
        "72 fails.",
        "72 would be wrong.",
        "72, no.",
        "72 is too high.",
        "72. Wrong.",
        "72. No.",
        "72?",
        "72 ≠ answer",
        "Neither 70 nor 72.",
        "I rule out 72.",
        "Don't answer 72.",
        "I doubt it is 72.",
        "mehr als 72",
        "moins de 72",
        "小于72",
        "больше 72",
        "più di 72",
        "Die Hälfte von 72",
        "La mitad de 72",
        "72的一半",
        "Đáp án không phải là 72",
        "Pay **72 €** for 16 glasses.",
        "Pay **72 $** for 16 glasses.",
        "Pay **USD 72** for 16 glasses.",
        "Pay __$72__ for 16 glasses.",
        "Pay <b>$72</b> for 16 glasses.",
        "Die Antwort ist 72. Moment, das ist falsch.",
        "The answer is 72.\n\nThis does not match the given constraint, so something went wrong.",
        "72이 아닙니다.",
        "Cevap 72 değil.",
        "Jawabannya bukan 72.",
        "Không phải 72.",
        "คำตอบไม่ใช่ 72",
        "the square root of 72",
        "half of 72",
        "twice 72",
        "three quarters of 72",
        "10% of 72",
        "72 plus one",
        "72 minus two",
        "72 point five",
        "72x",
        "5 twelfths",
        r"\boxed{x_1 = 3, x_2 = 5}",
        r"\boxed{x = 3 \text{ and } y = 5}",
        r"\boxed{\text{no solution for } x=5}",
        r"\boxed{7 \mid 72}",
        r"\boxed{\mp 5}",
        r"\boxed{5\mathrm{i}}",
        r"\boxed{\neg 5}",
        r"\boxed{\begin{pmatrix} 3 \\ 5 \end{pmatrix}}",
        r"\lfloor 5.5 \rfloor",
        r"\lceil5.5\rceil",
    ],
)
def test_a_number_that_is_denied_or_changed_is_not_read(text: str) -> None:
    with pytest.raises(Unparseable):
        read_number(text, "last")


@pytest.mark.parametrize(
    "text",
    [
        "72 is not prime.",
        "72, which is impossible to beat.",
        "72 (which is correct)",
        "72 pages. Actually reading them takes longer.",
        "Mehr als genug: 72",
        "La mitad son 72",
        "**1.** Two packs of 36. **2.** So 72",
        "16 glasses cost **72 €**.",
        "16 glasses cost <b>72 €</b>.",
        "Die Antwort ist 72. Das ist richtig.",
        "72 km. Wait times are not included.",
        "Total: 72\n\nIs there anything else? No.",
        "A total of 72 is needed. No more are needed.",
        "72 ✅",
        "❌ 70\n✅ 72",
        "Wrong answer: 70. Right answer: 72",
        "Old total: 70. New total: 72.",
        "Original price: 72",
        "> 72",
        "<p>72</p>",
        "<72>",
        "-> 72",
        "nothing but 72",
        "half of 144 is 72",
        "It cannot be 70, so it is 72.",
        "72. Actually, I checked it, and yes, it holds.",
        r"x = 72 \tag{5}",
        r"\boxed{x = 80 - 8 = 72}",
        r"\boxed{72\text{ km}}",
        r"\begin{aligned} x &= 80 - 8 \\ &= 72 \end{aligned}",
    ],
)
def test_a_number_that_is_not_denied_is_read(text: str) -> None:
    assert read_number(text, "last") == 72


def test_the_number_of_a_list_item_is_not_the_first() -> None:
    assert read_number("1) 72", "first") == 72
    assert read_number("1. Multiply it by 72.\n2. The result is 90.", "first") == 72
    assert read_number("72. It was 70 last year.\n2. No", "first") == 72
    assert read_number("1. It is 72", "first") == 1


def test_the_number_of_a_list_item_is_not_the_last() -> None:
    assert read_number("1. Take 3 and 4.\n2. So 7 in total.\n3. Done", "last") == 7
    assert read_number("Steps:\n1. Add.\n2. The total is 12.\n3. Check it.", "last") == 12
    with pytest.raises(Unparseable, match="no number"):
        read_number("1. Oslo\n2. Rome\n3. Bern", "last")
    with pytest.raises(Unparseable, match="none is stated"):
        read_number("3 phones. The answer is type = 5G.", "last")


@pytest.mark.parametrize(
    "text",
    ["5 + 7 = 12", "70 or 72", "$5$ million", "about 1, 234 people", "about 123, 456 people"],
)
def test_no_part_of_an_expression_decides_as_the_first_number(text: str) -> None:
    with pytest.raises(Unparseable, match="first number"):
        read_number(text, "first")


def test_numbers_on_either_side_of_a_semicolon_are_not_parts_of_one() -> None:
    assert read_number("It took 12; 345 people came.", "first") == 12


@pytest.mark.parametrize("unreadable", ["1,5", "7-8", "1/2", "2024-05-01", "10k", "3π", "9" * 300])
def test_no_other_number_decides_for_an_unreadable_one(unreadable: str) -> None:
    assert read_number(f"{unreadable}; so 3", "last") == 3
    assert read_number(f"3; then {unreadable}", "first") == 3
    with pytest.raises(Unparseable, match="last number"):
        read_number(f"3; then {unreadable}.", "last")
    with pytest.raises(Unparseable, match="first number"):
        read_number(f"{unreadable}; then 3", "first")


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


@pytest.mark.parametrize("value", ["[70, 72]", "[72]", '{"a": 72}', '"70 or 72"', "true"])
def test_a_json_value_that_is_no_number_is_unparseable(value: str) -> None:
    answer = build_extraction({"json": "answer"}, "task.extract").read(f'{{"answer": {value}}}')
    with pytest.raises(Unparseable):
        NumericMatchChecker(72).check(answer, Instance("1", [], {}))


@pytest.mark.parametrize("text", ["<think>maybe 72", "<think>72</think>five", "72</think>five"])
def test_no_number_is_read_from_reasoning_that_the_prompt_asks_for(text: str) -> None:
    with pytest.raises(Unparseable):
        NumericMatchChecker(72).check(text, Instance("1", [], {}))
    with pytest.raises(Unparseable):
        build_extraction({"number": "last"}, "task.extract").read(text)


@pytest.mark.parametrize("value", ["72", "72.0", '"72 apples"'])
def test_a_json_value_that_is_a_number_is_read(value: str) -> None:
    answer = build_extraction({"json": "answer"}, "task.extract").read(f'{{"answer": {value}}}')
    assert NumericMatchChecker(72).check(answer, Instance("1", [], {})).passed


def test_many_digits_are_exact() -> None:
    digits = "-" + "1234567890" * 9
    assert read_number(digits, "last") == Decimal(digits)


PIECES = r"""
    1 12 000 1, .5 a USD $ - – − ^ _ { } ( ) \frac \a × 10^ 是 年 万 ½ ² ₂ ٣ ， ~ k / : \, \text{ *
    ~~ <b> &#39; or minus mil ! x \u00a0 \u0305 | ` Ab
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


@pytest.mark.parametrize(
    "text",
    [
        "between 5 and 7",
        "It is between 5 and 7 apples.",
        "entre 5 et 7",
        "It lies between 5 kg and 7 kg.",
        "zwischen 5 % und 7 %",
        "between 5% and 7%",
    ],
)
def test_the_end_of_a_range_in_words_is_no_answer(text: str) -> None:
    with pytest.raises(Unparseable):
        read_number(text, "last")
    assert read_number("It is between 5 and 7, so 6", "last") == 6


@pytest.mark.parametrize(
    "text",
    [
        "Der Gesamtpreis beträgt 1.250 €.",
        "Das kostet insgesamt 1.250 Euro.",
        "El precio total es de 1.250 euros.",
        "O custo total é de R$ 1.250.",
        "Il prezzo totale è di € 1.250.",
        "Totalnya Rp1.250.",
        "In der Stadt leben 1.250 Menschen.",
        "De totale prijs is € 1.250,-.",
        "Toplam fiyat 1.250 TL'dir.",
        "Hay 12.500 habitantes.",
        "**1.250** €",
        "1.250 kr.",
    ],
)
def test_a_point_that_may_separate_thousands_is_no_decimal_point(text: str) -> None:
    with pytest.raises(Unparseable):
        read_number(text, "last")


@pytest.mark.parametrize(
    "text",
    [
        "1.250",
        "It is $1.250.",
        "1.250 kg",
        "1.250 is the answer",
        "£1.250",
        "1.250 miles",
        "**1.250**",
    ],
)
def test_a_single_point_is_a_decimal_point(text: str) -> None:
    assert read_number(text, "last") == Decimal("1.25")


@pytest.mark.parametrize(
    "text",
    [
        "Die Antwort ist 72. Nein, doch siebzig.",
        "Die Antwort ist 72. Moment, das stimmt nicht.",
        "La réponse est 72. Non, c'est faux.",
        "La respuesta es 72. Perdón, me equivoqué.",
        "答案是72。不对，算错了。",
        "答えは72です。いや、間違えました。",
        "Ответ: 72. Нет, это неверно.",
        "Es sind nicht 72.",
        "Ce n'est pas 72.",
        "不是72。",
        "No son 72.",
        "72ではありません。",
        "Это не 72.",
        "ليست 72.",
        "72 नहीं है।",
        "72개가 아닙니다.",
        "It should be less than 72.",
        "Weniger als 72.",
        "Moins de 72.",
        "少于72个。",
        "72未満です。",
        "Menos de 72.",
        "меньше 72",
        "No es 72.",
        "Non sono 72.",
        "Não são 72.",
        "72개 미만입니다.",
        "72以下です。",
        "72以上です。",
        "72より少ない。",
        "72個以上です。",
        "至少72个。",
        "超过72个。",
        "72个以上。",
        "mindestens 72",
        "au moins 72",
        "al menos 72",
        "almeno 72",
        "72'den az.",
        "ikke 72",
        "inte 72",
        "niet 72",
        "não é 72",
        "bukan 72",
        "không phải 72",
        "ไม่ใช่ 72",
        "לא 72",
        "La risposta è 72. Scusa, ho sbagliato.",
        "A resposta é 72. Desculpe, errei.",
        "Het antwoord is 72. Sorry, dat klopt niet.",
        "정답은 72입니다. 아니요, 틀렸습니다.",
        "Odpowiedź: 72. Przepraszam, pomyliłem się.",
        "Cevap 72. Pardon, yanlış.",
        "72 or more",
    ],
)
def test_a_number_that_is_denied_limited_or_taken_back_in_any_language_is_not_read(
    text: str,
) -> None:
    with pytest.raises(Unparseable):
        read_number(text, "last")
