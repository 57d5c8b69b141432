r"""Whether the last number of a calculation is its result.

Something positive must say so: an equation, a word such as "so" or "total", emphasis, or a line of
its own. A number is no result if it may be about the result instead: in a check (2·35 + 10 = 80),
in what the result holds for (at x = 5), or as one of several named values (x = 4, y = 7).

>>> is_result("x = 4 + 4 = 8"), is_result("x = 4 and y = 8")
(True, False)
"""

# ruff: noqa: RUF001 (letters of many scripts)

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import permutations

from harness.plugins.short_answers.numbers import Numeral, numerals_in_place
from harness.scoring.conclusions import (
    CORRECTED_TO,
    CORRECTION,
    MAX_CLAUSE_CHARS,
    MAX_SENTENCE_CHARS,
)

ROUNDING = Decimal("0.01")  # maximum relative difference between a value and its rounding
MOST_TERMS = 8  # numbers of a sentence of which a total may be computed
MOST_EARLIER = 100  # numbers of a reply among which the result of an equation is looked for

NAME = r"(?<![^\W_])[A-Za-z](?:[\w\u2080-\u2089']|_\{\w{1,9}\}){0,9}"  # of a variable or quantity
AT = (  # what a result holds for: at x = 5
    r"\b(?:at|where|when(?:ever)?|for|with|given|using|letting|setting|suppos\w+|assum\w+|pour|quando|cuando|für|bei"
    rf"|при|где)\s+(?:[a-z]{{3,12}}\s+)?[*_$(]{{0,3}}{NAME}[*_ ]{{0,3}}=[\s*_$]{{0,4}}"
)

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
_FUNCTION = re.compile(r"(?:[\w\u2080-\u2089]\(|√)\Z")  # before its argument
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
    r"\b(?i:so(?!\s+that\b)|therefore|thus|hence|consequently|daher|somit|folglich|deshalb|donc|luego|por\s+(?:lo\s+)?tanto"
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
    r"|instead|without|including|excluding|given|considering|assuming|despite|so\s+that|where|weil|denn|nachdem|obwohl|wenn"
    r"|falls|während|bevor|(?<!\bthe\s)(?<!\ba\s)(?<!\bhis\s)(?<!\bher\s)(?<!\btheir\s)car|parce|puisque|après|comme|quand|porque|ya\s+que|pues|después|tras|aunque|cuando"
    r"|já\s+que|pois|depois|após|embora|perché|poiché|dopo|omdat|want|nadat|hoewel|потому|так\s+как|поскольку"
    r"|damit|um|pour\s+que|para\s+que|чтобы|после|хотя|если|ведь|bo|ponieważ|gdyż|çünkü|vì|karena|eftersom|fordi|för\s+att)\b"
    r"|因为|因為|由于|由於|虽然|如果|からです|لأن|क्योंकि|कयक|เพราะ",
    re.I,
)
_BETWEEN = re.compile(  # words that make the number after them no result
    r"\b(?:from|out\s+of|up|down|or|to|not|but|for|per|by|with|versus|vs|i\.?e|e\.?g|that\s+is|equivalent|von|aus|ou|oder)\b",
    re.I,
)
_WITHIN_PHRASE = re.compile(  # before "total" and the like: words on which their number depends
    rf"{_BETWEEN.pattern}|\b(?:at|of\s+(?:the|a|his|her|its|their)|within|um|pour|sur|avec|para|sobre|con|com|per|su|из|mit|met|om)\b"
    r"|\bde\s+un\s*\Z|才能|[凑够]|なるには|で\Z",
    re.I,
)
_AT = re.compile(r"\bat\s+\W*\Z", re.I)
_A_TOTAL = re.compile(r"(?:\bfor\s+)?\ban?\s+(?:grand\s+)?\Z", re.I)  # for a total of 40
_NEEDED = re.compile(  # an answer that is what is missing, so that a total after it is another
    r"\A\W*add\b|\b(?:needs?|must|should|requires?|short|missing)\b", re.I
)
_MORE = re.compile(r"\b(?:more|further|another|additional)\b", re.I)
_FOR_A_TOTAL = re.compile(r"\bfor\s+an?\s+(?:grand\s+)?total\s+of\W*\Z", re.I)
_CLAUSE = re.compile(
    r"[\u2013\u2014]\s|[,;:、]|\b(?:and|so|but|then|thus|therefore|hence|which|und|et|y|e|и|en|och|og|i)\b",
    re.I,
)
_LEAVES = re.compile(
    r"leav|remain|left|übrig|bleib|reste|queda|sobra|restam|restan|rimang|остал|остаё|zosta|剩|残|남|còn",
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
_ARGUMENT_BEFORE = re.compile(rf"{AT}\Z", re.I)
_NAMED_BEFORE = re.compile(  # the name alone: x, not 2x or x + y
    rf"(?:\A|[\n,;:.(\[&|]|[^\W\d_]{{2}}|(?<!\w)[yoeи])[\s*_$\\(•-]*(?P<name>{NAME})[\s*_$]*[:=]{_OPEN}\Z"
)
_ANOTHER_NAMED = re.compile(  # after a named number: cm, and y =
    r"(?:[ ]?[^\W\d_]{1,10}(?=[\s,;.)]))?"
    r"(?:[^\w=+/^→⇒>∴≈]|\b(?:and|or|but|also|und|oder|et|ou|y|o|e|и|или)\b)*"
    rf"(?:{NAME}[ ]){{0,2}}(?P<name>{NAME})[\s*_$]*={_OPEN}"
)
_IN_PASSING = re.compile(  # before an equation that is no calculation: with 1 cm = 5 km
    r"\d[^\d=]*\b(?:with|where|at|given|using|since)\b[^\d,;=]*\Z", re.I
)
_DERIVES = re.compile(r"\b(?:then|gives|means|becomes|not)\b|n['\u2019]t\b|[≈→⇒∴]", re.I)
_ARITHMETIC = re.compile(  # before the last number: 2·35 + 10 =
    r"(?P<left>\d(?:[\d \t()\[\]{}*×·+\u2212\u2013/÷^$\\-]|[.,](?=\d))*+)=" + rf"{_OPEN}\Z"
)
_CONTINUES = re.compile(rf"=\s*\Z|(?:{_TOTAL.pattern})\W*:\W*\Z", re.I)  # before a further equation
_CHECK_MARK = re.compile(r"\n\W*[✓✔✅]\W*\Z")
_AS_EXPECTED = re.compile(  # after an equation that checks a result
    r"[^\w\n]{0,6}(?:(?:(?:which|this|that|and\s+this)\s+)?(?:match|agree|confirm|checks?\s+out|is\s+(?:correct|true|what))"
    r"|as\s+(?:expected|given|required|stated|desired|needed)\b|correct\b|true\b|[✓✔✅])",
    re.I,
)
_BEFORE_SO = re.compile(rf"[,;.:\u2013\u2014\uff0c]\W{{0,4}}(?:and\s+)?(?:{_SO.pattern})")
_ACTION = re.compile(  # after "so", as in "so he saves $15": what follows from the answer, or is it
    r"[\s,]*(?:(?:he|she|they|it|I|we|you|also|then|now)\s+){0,2}"
    r"(?!(?:is|are|be|has|have|had|will|can|must|needs?|costs?|takes?|gets?|makes?|requires?|equals?|contains?"
    rf"|weighs?|holds?|about|around|altogether|total|only|just|exactly|the|then|thus|[A-Z]{{3}})\b)[a-z]{{3,}}\s+{_FILL}\Z"
)
_GIVES = re.compile(
    rf"(?:\A\W*(?:(?:so|thus|then),?\s+)?(?:\w+ing\b[^.;:,]{{1,80}}|this|that|which)\s(?:gives|yields|leaves|makes|results\s+in)(?:\s+(?:us|you|me))?"
    rf"|\A\W*(?:\w+,?\s+)?(?:we|I|you)?\s*(?:add|multiply|divide|subtract)\b[^.;:,]{{1,80}}\sto\s+(?:get|find|obtain){_FILL}\Z"
    rf"|\A\W*(?:when|if|by|after|since|because|as|with|dividing|sharing)\b[^.;:]{{1,120}},\s+"
    rf"(?:(?:we|you|I)\s+(?:get|obtain|have|find)|there\s+are|(?:each|every)\s+\w+\s+(?:gets|receives))){_FILL}\Z",
    re.I,
)
_WOULD_BE = re.compile(rf"\b(?:would|might|may|could)\s+(?:\w+\s+)?be{_FILL}\Z", re.I)
_WILL_BE = re.compile(rf"\b(?:will|shall)\s+(?:\w+\s+)?be{_FILL}\Z", re.I)
_OTHER_TIME = re.compile(
    r"\b(?:(?:next|last|following|previous)\s+\w+|tomorrow|yesterday|later|soon|ago|by\s+then)\b",
    re.I,
)
_GIVEN = re.compile(  # a sentence before its first number, which the question gives
    r"\W*(?:(?:so|thus|therefore|hence|then|finally),?\s+)?(?:"
    r"(?:(?:each|every\s+one|all)\s+(?:of\s+)?)?(?:the|these|those|his|her|its|their)\s+[*_]*"
    r"|(?P<phrase>(?:after|in|for|over|within|during|at|with|out\s+of)\s[^,\d]*))\Z",
    re.I,
)
_WORD = re.compile(r"[^\W\d_]{2}")
_TO_MAIN_CLAUSE = re.compile(r"[^,]*,\s")
_OTHER_CLAUSE = re.compile(
    r"[,;:]|\b(?:and|or|but|while|who|whose|which|would|could|might|may|more|other|others)\b", re.I
)
_NOT_BUT = re.compile(rf"(?:\bnot\b|n['\u2019]t\b)[^,;]*\bbut\b{_FILL}\Z", re.I)
_BOLD = re.compile(r"(\*{1,2}|__)[^\w*\n]{0,3}\Z")
_BOLD_END = re.compile(r"[^\w*\n]*(?:[^\W\d_]+[^\w*\n]*){0,4}(?:\*|__)")


def is_result(text: str) -> bool:
    """Return whether the last number of a text is its only value, or stated as the result."""
    text, numbers = numerals_in_place(text)
    if not numbers:  # as in "version = 5G"
        return False
    last = numbers[-1]
    numbers = [number for number in numbers if not _has_before(_LABEL, text, number)] or [last]
    if numbers[-1] != last:
        return False
    if all(number.value == last.value for number in numbers):
        return True
    if _is_alternative(text, numbers) or _proves(text, numbers):
        return False
    start = max((end.end() for end in _SENTENCE_END.finditer(text, 0, last.start)), default=0)
    in_sentence = [number for number in numbers if number.start >= start]
    others = [number for number in in_sentence if number.value != last.value]
    if not others and _is_bare_line(text, last):
        return True
    head = text[start : last.start]
    subordinate = _subordinate(head)
    if subordinate is not None and not _SO.search(head, subordinate):
        in_main_clause = [n for n in in_sentence if n.start < start + subordinate]
        return bool(in_main_clause) and all(n.value == last.value for n in in_main_clause)
    if _has_before(_ARGUMENT_BEFORE, text, last):
        return False
    if _is_equation(text, start, numbers) or _has_only_given_others(text, start, numbers):
        return True
    before = text[others[-1].end if others else start : last.start]
    if last.value == _last_result(text, numbers) and not (others and _BETWEEN.search(before)):
        return True
    return _is_stated(text, last, head, before, others)


def _has_only_given_others(text: str, start: int, numbers: Sequence[Numeral]) -> bool:
    """Return whether the only other number of a text is one that its only sentence begins with.

    Examples are "After the 20% discount, it costs $64." and "Each of the 4 friends pays $30."
    """
    last = numbers[-1]
    first = numbers[0]
    if len(numbers) != 2 or first.start < start:
        return False
    given = _GIVEN.fullmatch(text, start, first.start)
    if given is None:
        return False
    gap = text[first.end : last.start]
    if _WORD.search(gap) is None:
        return False
    if given["phrase"] is not None:
        main_clause = _TO_MAIN_CLAUSE.match(gap)
        if main_clause is None:
            return False
        gap = gap[main_clause.end() :]
    return not any(words.search(gap) for words in (_OTHER_CLAUSE, _BETWEEN, _AT))


def _is_stated(text: str, last: Numeral, head: str, before: str, others: Sequence[Numeral]) -> bool:
    """Return whether the words around the last number say that it is the result.

    Args:
        text: The text in which the numbers are.
        last: The number.
        head: The sentence before it.
        before: The part of ``head`` after another number.
        others: The other numbers of the sentence.
    """
    if _APPROXIMATELY.search(before) and others:
        return False
    if _NOT_BUT.search(head):
        return True
    so = _last_end(_SO, before)
    if so is not None:
        is_purpose = _NEEDED.search(head) or _MORE.search(head)
        if is_purpose and _BEFORE_SO.search(before) is None:
            return False
        if len(others) == 1 and _ACTION.match(before, so):
            return _LEFT.match(_rest_of_sentence(text, last.end)) is not None
        return _BETWEEN.search(before, so) is None
    if CORRECTED_TO.search(before) or _GIVES.search(head):
        return True
    if _BOLD.search(before) and _BOLD_END.match(text, last.end):
        return not any(_has_before(_BOLD, text, number) for number in others)
    if _FOR_A_TOTAL.search(before) and _is_computed(last, others):
        return _NEEDED.search(head) is None
    if _FORMER.search(before if others else head) or _POINTS.search(before):
        return False
    left = _LEFT.match(_rest_of_sentence(text, last.end))
    if left is not None:
        is_former = any(_LEFT.match(text, number.end) for number in others)
        return not is_former and not _depends(last, head, before, len(before), left[0], others)
    if others and _ALSO.search(before) and not _TOTAL.search(before):
        return False
    totals = list(_TOTAL.finditer(before))
    if totals:
        total = totals[-1]
        if _depends(last, head, before, total.start(), total[0], others):
            return False
        return not any(words.search(before, total.end()) for words in (_BETWEEN, _AT))
    if _WOULD_BE.search(before):
        return False
    if _WILL_BE.search(before) and (others or _OTHER_TIME.search(head)):
        return False
    return _IS.search(before) is not None


def _depends(
    last: Numeral, head: str, before: str, end: int, marker: str, others: Sequence[Numeral]
) -> bool:
    """Return whether a marker such as "total" or "left" only adds something to another number.

    Examples are "out of a total of 150", "to have 40 in total" and ", with 2 left over".

    Args:
        last: The last number.
        head: The sentence before it.
        before: The part of ``head`` after another number.
        end: Where in ``before`` the marker begins, at most.
        marker: The marker.
        others: The other numbers of the sentence.
    """
    if not others:
        return False
    total = _A_TOTAL.search(before, 0, end)
    if total is not None:
        is_computed = _is_computed(last, others)
        if _NEEDED.search(head) or (_MORE.search(head) and not is_computed):
            return True
        end = total.start()
    clause = _last_end(_CLAUSE, before[:end]) or 0
    if _WITHIN_PHRASE.search(before, clause, end):
        return True
    if _LEAVES.search(marker) is None:
        return len(others) == 1 and total is None and clause > 0
    if marker.startswith("leav") or _FORMER.search(head):
        return False
    return not _is_computed(last, others)


def _is_computed(last: Numeral, others: Sequence[Numeral]) -> bool:
    """Return whether a number is the sum, difference or product of two of the last others."""
    values = [number.value for number in others[-MOST_TERMS:] if number.value is not None]
    for left, right in permutations(values, 2):
        if last.value in (left + right, left - right, left * right):
            return True
    return False


def _is_alternative(text: str, numbers: Sequence[Numeral]) -> bool:
    """Return whether the last number is one of several named values: x = 4 and y = 7."""
    *_, former, last = numbers
    gap = text[former.end : last.start]
    if former.value in (None, last.value) or len(gap) > MAX_CLAUSE_CHARS:
        return False
    if any(pattern.search(gap) for pattern in (_SO, _TOTAL, _DERIVES, CORRECTION)):
        return False
    name = _NAMED_BEFORE.search(text, max(0, former.start - MAX_CLAUSE_CHARS), former.start)
    other_name = _NAMED_BEFORE.search(gap)
    if name is None or other_name is None:
        return False
    is_same_name = name["name"] == other_name["name"] and _SENTENCE_END.search(gap) is None
    return is_same_name or _ANOTHER_NAMED.fullmatch(gap) is not None


def _proves(text: str, numbers: Sequence[Numeral]) -> bool:
    """Return whether the last equation leads from the result before it to a number before that."""
    last = numbers[-1]
    start = max(text.rfind("\n", 0, last.start) + 1, last.start - MAX_SENTENCE_CHARS)
    equation = _ARITHMETIC.search(text, start, last.start)
    if equation is None:
        return False
    if _CONTINUES.search(text, start, equation.start()):
        return False
    earlier = [number.value for number in numbers if number.end <= equation.start()]
    terms = re.findall(r"\d+(?:\.\d+)?", equation["left"])
    if not earlier or str(earlier[-1]) not in terms:
        return False
    mark = _CHECK_MARK.search(text, max(0, start - MAX_CLAUSE_CHARS), equation.start())
    if _AS_EXPECTED.match(text, last.end) or mark is not None:
        return True
    return last.value in earlier and earlier.index(last.value) < earlier.index(earlier[-1])


def _has_before(pattern: re.Pattern[str], text: str, number: Numeral) -> bool:
    """Return whether a pattern matches directly before a number, in bounded time."""
    start = max(0, number.start - MAX_CLAUSE_CHARS)
    return pattern.search(text, start, number.start) is not None


def _last_end(pattern: re.Pattern[str], text: str) -> int | None:
    """Return the end of the last match of a pattern, or None."""
    return max((match.end() for match in pattern.finditer(text)), default=None)


def _rest_of_sentence(text: str, start: int) -> str:
    ending = _SENTENCE_END.search(text, start)
    return text[start : ending.start() if ending else len(text)]


def _is_bare_line(text: str, number: Numeral) -> bool:
    """Return whether a number is alone on its line, apart from a unit."""
    line_start = text.rfind("\n", 0, number.start) + 1
    if _BULLET.match(text, line_start) or re.search(r"[^\W_]", text[line_start : number.start]):
        return False
    rest_of_line = text[number.end :].partition("\n")[0]
    return line_start > 0 and _BARE.fullmatch(rest_of_line) is not None


_QUANTITY_IS = re.compile(  # the remainder when 47 is divided by 6 is
    r"(?:\A|\b(?:so|thus|therefore|hence),?\s+)\W*(?:the|its|our|this)\s+(?:[a-z-]+\s+){0,3}?(?:remainder|quotient|sum|difference|product|result|value|total|average|mean|area"
    r"|volume|perimeter|number|amount|probability|answer|price|cost|distance|time|rate)(?:\s+of\s+[^.,;:=]{1,60}?)?\s+(?:when|if|after|as|for|given|considering)\s+"
    rf"[^,;:=.]{{1,80}}\s(?:is|are|equals|would\s+be|will\s+be){_FILL}\Z",
    re.I,
)


_BEGINNING = re.compile(r"\W*(?:(?:so|thus|therefore|hence|then|finally|now)\b\W*)?", re.I)


def _subordinate(head: str) -> int | None:
    """Return the offset of a subordinate clause that continues to the end of a sentence's head."""
    if _QUANTITY_IS.search(head):
        return None
    for match in _SUBORDINATE.finditer(head):
        is_first = _BEGINNING.fullmatch(head, 0, match.start()) is not None
        if not (is_first and re.search(r",\s", head[match.end() :])):
            return match.start()
    return None


def _is_equation(text: str, start: int, numbers: Sequence[Numeral]) -> bool:
    """Return whether the last number is the result of an equation, and no conversion."""
    *earlier, last = numbers
    equals = _EQUALS.search(text, max(start, last.start - MAX_SENTENCE_CHARS), last.start)
    if equals is None:
        return False
    side = equals.start()
    side_start = max([start, *(text.rfind(mark, start, side) + 1 for mark in "=≈→⇒")])
    terms = [number for number in earlier if side_start <= number.start and number.end <= side]
    is_sign = not equals[0].lstrip(", ").startswith("which")
    term = terms[0].value if len(terms) == 1 else None
    if terms and _IN_PASSING.search(text[side_start : terms[-1].start][-MAX_SENTENCE_CHARS:]):
        return False
    if term is None or last.value is None:
        return bool(terms) or is_sign
    unit = text[terms[0].end : side].replace("*", "")
    before = text[side_start : terms[0].start].replace("**", "")
    if _FUNCTION.search(before):
        return is_sign
    if _OPERATOR.search(before) or _ANOTHER_TERM.search(unit):
        return is_sign
    is_rounded = abs(term - last.value) <= ROUNDING * abs(term)
    return term == last.value or (is_rounded and not unit.strip(" $)\\"))


def _last_result(text: str, numbers: Sequence[Numeral]) -> Decimal | None:
    """Return the result of the last equation before the last number, or None."""
    numbers = numbers[-MOST_EARLIER:]
    for index in range(len(numbers) - 2, 0, -1):
        line_start = text.rfind("\n", 0, numbers[index].start) + 1
        if _is_equation(text, line_start, numbers[: index + 1]):
            return numbers[index].value
    return None
