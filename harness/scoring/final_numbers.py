"""Whether a reply's last number is its answer, if the reply neither announces nor boxes a number.

A reply with a single value states it. Among several, the last one counts only if something
positive says that it is the result: an equation, a word such as "so" or "total", emphasis, or a
line of its own. Otherwise, as in "She has 4 left after giving away 8", no number decides.
"""

# ruff: noqa: RUF001 (letters of many scripts)

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

ROUNDING = Decimal("0.01")  # maximum relative difference between a value and its rounding


class Value(NamedTuple):
    """A number in a text, with its offsets, and its value, which is None if it is not certain."""

    start: int
    end: int
    value: Decimal | None


_SENTENCE_END = re.compile(r"(?:[.!?](?=[\s*_)\"'])|[。।؟])[*_)\"' ]*|\n")
_LABEL = re.compile(  # the number of a step or of a part, before which nothing else stands
    r"(?:^|[\n.!?:]\s*)\W*(?:(?:step|part|case|schritt|teil|étape|paso|passo|stap"
    r"|шаг)[ ]#?|第[ ]?)\Z",
    re.I,
)
_BULLET = re.compile(r"[ \t]*(?:[-•+]|\*(?!\*)|\d+[.)])[ \t]")
_BARE = re.compile(r"[^\w\n]*(?:[^\W\d_]+[^\w\n,;:]*){0,3}")  # a unit after the number
_OPEN = r"(?:[\s*_`\"'$(\[{~#>]|\\[(\[]|\\[A-Za-z]+\{|[✓✔✅])*"
_FILL = (
    rf"(?:{_OPEN}(?:only|just|exactly|precisely|a\s+total\s+of|equal\s+to|genau|exactement|exactamente"
    rf"|rund|always|also|now|still|then|the|therefore|thus|US|[A-Z]{{3}})\b)*{_OPEN}"
)
_APPROXIMATELY = re.compile(
    r"(?:\b(?:about|around|roughly|approximately|approx|nearly|almost|etwa|ungefähr|rund|circa|ca|environ"
    r"|unos|unas|aproximadamente|cerca|около|примерно|około|yaklaşık)\b|[≈~约約]|약)[^\w]*\Z",
    re.I,
)
_EQUALS = re.compile(rf"(?:[=≈→⇒]|,?\s*\bwhich\s+(?:is|equals)\b)(?P<fill>{_FILL})\Z")
_OPERATOR = re.compile(r"[-+\u2013\u2212*/×÷·^%]|\b(?:times|plus|minus|of|by)\b")
_ANOTHER_TERM = re.compile(r"[,;:+×÷!]|[ ][-\u2013\u2212/][ ]|[ ][A-Za-z][ ]?\Z")  # after a number
_IS = re.compile(
    r"(?:\b(?:is|are|be|equals|becomes|ist|sind|beträgt|betragen|est|sont|es|son|é|são|è|sono|равно|равна"
    r"|равен|составляет|jest|wynosi|är|er|là|adalah)\b|[是为為はก]|等[于於]|कल|है|כן|הוא|هو|هي|คอ)"
    rf"{_FILL}\Z",
    re.I,
)
_POINTS = re.compile(  # to what has already been said: a conversion
    r"\b(?:that|this|which|these|those|das|dies|c|ce|cela|eso|esto|isso|это|dat|det)\b['\u2019]?\s*"
    rf"(?:\w+\s+)?(?:s|is|are|ist|sind|est|sont|es|son|é|são|è)?{_FILL}\Z",
    re.I,
)
_SO = re.compile(
    r"\b(?i:so|therefore|thus|hence|consequently|daher|somit|folglich|deshalb|donc|luego|por\s+(?:lo\s+)?tanto"
    r"|entonces|portanto|então|quindi|dunque|pertanto|dus|daarom|значит|поэтому|следовательно|więc|zatem"
    r"|dolayısıyla|vậy|alltså|jadi)\b|\bAlso(?=\s+(?:hat|haben|ist|sind|bleib\w+|gibt|beträgt|kostet|braucht)\b)"
    r"|所以|因此|故|よって|したがって|ゆえに|따라서|그러므로|इसलिए|इसलए|لذلك|إذن|ดงนน|לכן|[⇒∴]"
)
_TOTAL = re.compile(
    r"\b(?:(?:sub)?totals?|totalling|altogether|sum|result|answer|leaves|leaving|remain(?:s|ing)?|in\s+all|final"
    r"|comes?\s+(?:out\s+)?to|ends?\s+up\s+with|insgesamt|Gesamt\w*|Summe|Ergebnis|übrig|bleiben|bleibt|en\s+tout|somme|résultat|reste(?:nt)?"
    r"|quedan?|sobran?|suma|resultado|restam|sobram|soma|totale|somma|risultato|restano|rimangono|totaal|som"
    r"|итого|всего|осталось|остаётся|сумма|результат|łącznie|razem|suma|zostało|zostaje|toplam|tổng|còn)\b"
    r"|[剩共]|合計|合计|总计|總計|残り|총|남|कल|مجموع|الإجمالي|รวม|เหลอ|[סך]ה\"?כ",
    re.I,
)
_LEFT = re.compile(  # after the number
    r"[^\w\n.]{0,6}(?:(?!and\b|or\b)[^\W\d_]+[ *_]{1,3}){0,4}?(?:left|remain(?:s|ing)?"
    r"|altogether|in\s+total|in\s+all|overall"
    r"|total|übrig|insgesamt|au\s+total|en\s+tout|en\s+total|no\s+total|in\s+totale|in\s+totaal|restantes?|łącznie|razem|всего)\b",
    re.I,
)
_SUBORDINATE = re.compile(
    r"\b(?:after|because|since|as|whereas|while|although|though|when|if|unless|until|before|compared|than"
    r"|instead|without|including|excluding|given|considering|assuming|despite|weil|denn|nachdem|obwohl|wenn"
    r"|falls|während|bevor|car|parce|puisque|après|comme|quand|porque|ya\s+que|pues|después|tras|aunque|cuando"
    r"|já\s+que|pois|depois|após|embora|perché|poiché|dopo|omdat|want|nadat|hoewel|потому|так\s+как|поскольку"
    r"|после|хотя|если|ведь|bo|ponieważ|gdyż|çünkü|vì|karena|eftersom|fordi|för\s+att)\b"
    r"|因为|因為|由于|由於|虽然|如果|からです|لأن|क्योंकि|कयक|เพราะ",
    re.I,
)
_BETWEEN = re.compile(  # words that make the number after them no result
    r"\b(?:from|out\s+of|up|down|or|to|not|but|for|per|by|with|versus|vs|i\.?e|e\.?g|that\s+is|equivalent|von|aus|ou|oder)\b",
    re.I,
)
_ALSO = re.compile(
    r"[,;:()\u2013\u2014]|\b(?:and|but|while|und|et|y|e|и|en|och|og|i)\b|[、和而]", re.I
)
_FORMER = re.compile(
    r"\b(?:original\w*|initial\w*|previous\w*|former\w*|earlier|start\w*|beg[aiu]n\w*|old|yesterday|first|last|other"
    r"|wrong|incorrect|was|were|had|gave|given|ate|lost|used|spent|took|away|each|per|ursprünglich\w*|anfangs|war|hatte"
    r"|était|avait|tenía|era)\b|原[来本]|本来|最初|はじめ",
    re.I,
)
_NOT_BUT = re.compile(rf"(?:\bnot\b|n['\u2019]t\b)[^,;]*\bbut\b{_FILL}\Z", re.I)
_BOLD = re.compile(r"(\*{1,2}|__)[^\w*\n]{0,3}\Z")
_BOLD_END = re.compile(r"[^\w*\n]*(?:[^\W\d_]+[^\w*\n]*){0,4}(?:\*|__)")


def is_concluded(text: str, numbers: Sequence[Value]) -> bool:
    """Return whether the last number of a text is its only value, or stated as the result.

    Args:
        text: The text in which the numbers are.
        numbers: All numbers of the text, in their order.
    """
    last = numbers[-1]
    numbers = [number for number in numbers if not _LABEL.search(text[: number.start])] or [last]
    if numbers[-1] != last:
        return False
    if all(number.value == last.value for number in numbers):
        return True
    start = max((end.end() for end in _SENTENCE_END.finditer(text, 0, last.start)), default=0)
    ending = _SENTENCE_END.search(text, last.end)
    end = ending.start() if ending else len(text)
    others = [number for number in numbers if number.start >= start and number.value != last.value]
    before = text[max([start, *(number.end for number in others)]) : last.start]
    if not others and _is_bare_line(text, last):
        return True
    head = text[start : last.start]
    subordinate = _subordinate(head)
    if subordinate is not None and not _SO.search(head, subordinate):
        main = [number for number in others if number.start < start + subordinate]
        agreed = [number for number in numbers if start <= number.start < start + subordinate]
        return bool(agreed) and not main
    if _is_equation(text, start, numbers):
        return True
    is_result = last.value == _last_result(text, numbers)
    if is_result and not _BETWEEN.search(before):
        return True
    return _is_stated(text[last.end : end], head, before, text, others, last)


def _is_stated(
    after: str, head: str, before: str, text: str, others: Sequence[Value], last: Value
) -> bool:
    """Return whether the words around the last number say that it is the result."""
    if _APPROXIMATELY.search(before) and others:
        return False
    if _NOT_BUT.search(head):
        return True
    so = max((match.end() for match in _SO.finditer(before)), default=-1)
    if so >= 0:
        return _BETWEEN.search(before, so) is None
    if _BOLD.search(before) and _BOLD_END.match(text, last.end):
        return not any(_BOLD.search(text[: other.start]) for other in others)
    if _FORMER.search(head if not others else before) or _POINTS.search(before):
        return False
    if _LEFT.match(after):
        return not any(_LEFT.match(text, other.end) for other in others)
    if others and _ALSO.search(before) and not _TOTAL.search(before):
        return False
    total = max((match.end() for match in _TOTAL.finditer(before)), default=-1)
    if total >= 0:
        return _BETWEEN.search(before, total) is None
    return _IS.search(before) is not None


def _is_bare_line(text: str, number: Value) -> bool:
    """Return whether a number is alone on its line, apart from a unit."""
    line_start = text.rfind("\n", 0, number.start) + 1
    line_end = text.find("\n", number.end)
    line_end = len(text) if line_end < 0 else line_end
    if _BULLET.match(text, line_start) or re.search(r"[^\W_]", text[line_start : number.start]):
        return False
    return line_start > 0 and _BARE.fullmatch(text[number.end : line_end]) is not None


def _subordinate(head: str) -> int | None:
    """Return the offset of a subordinate clause that continues to the end of a sentence's head."""
    for match in _SUBORDINATE.finditer(head):
        is_first = not re.search(r"\w", head[: match.start()])
        if not (is_first and re.search(r",\s", head[match.end() :])):
            return match.start()
    return None


def _is_equation(text: str, start: int, numbers: Sequence[Value]) -> bool:
    """Return whether the last number is the result of an equation, and no conversion."""
    last = numbers[-1]
    equals = _EQUALS.search(text[start : last.start])
    if equals is None:
        return False
    side = start + equals.start()
    side_start = max([start, *(text.rfind(mark, 0, side) + 1 for mark in "=≈→⇒")])
    left = [number for number in numbers[:-1] if side_start <= number.start and number.end <= side]
    is_sign = not equals[0].lstrip(", ").startswith("which")
    number = left[0] if len(left) == 1 else None
    term = number.value if number is not None else None
    result = last.value
    if number is None or term is None or result is None:
        return bool(left) or is_sign
    unit = text[number.end : side].replace("*", "")
    if _OPERATOR.search(text[side_start : number.start].replace("**", "")) or _ANOTHER_TERM.search(
        unit
    ):
        return is_sign
    is_rounded = abs(term - result) <= ROUNDING * abs(term)
    return term == result or (is_rounded and not unit.strip(" $)\\"))


def _last_result(text: str, numbers: Sequence[Value]) -> Decimal | None:
    """Return the result of the last equation before the last number, or None."""
    for index in range(len(numbers) - 2, 0, -1):
        number = numbers[index]
        line_start = text.rfind("\n", 0, number.start) + 1
        if _EQUALS.search(text[line_start : number.start]) and _is_equation(
            text, line_start, numbers[: index + 1]
        ):
            return number.value
    return None
