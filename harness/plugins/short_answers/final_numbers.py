r"""Reads the number with which a reply concludes.

That number is in the last ``\boxed{…}`` or ``#### 72``, or announced ("The answer is 72"), or the
last one of the reply. It is read only if nothing in the reply speaks against it: no other number
where a reader would look for the answer, and no sentence that denies it or takes it back.

If the reply neither announces nor boxes a number, and has several, the last one counts only if
something positive says that it is the result: an equation, a word such as "so" or "total",
emphasis, or a line of its own. Otherwise, as in "She has 4 left after giving away 8", no number
decides.

>>> str(read_number("5 + 5 = 10. The answer is 10 apples.", "last"))
'10'
"""

# ruff: noqa: RUF001 (letters of many scripts)

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from harness.errors import Unparseable
from harness.plugins.short_answers.numbers import (
    Numeral,
    first_or_last,
    numerals,
    numerals_in_place,
    without_list_marks,
)
from harness.scoring.conclusions import (
    ABOUT_ANSWER,
    ANSWER,
    CORRECTED_TO,
    CORRECTION,
    LONGEST_CLAUSE,
    LONGEST_SENTENCE,
    first_turn,
    is_aside,
    is_conditional,
    is_denied,
    is_retracted,
    undecided,
    unmarked,
    without_struck_out,
)
from harness.scoring.patterns import Take

ROUNDING = Decimal("0.01")  # maximum relative difference between a value and its rounding
LONGEST_WORD = 5  # characters of a short statement in a script without spaces
MOST_EARLIER = 100  # numbers of a reply among which the result of an equation is looked for
LONGEST_END = 400  # characters of the end of a reply in which rivals are looked for

_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"[^\W\d_]{2}")


def read_number(text: str, take: Take) -> Decimal:
    """Return the first or last number in the text. See docs/jsonl.md for the notations.

    Raises:
        Unparseable: If the text has no number, or if its first or last number is unreadable or part
            of an expression, such as ``72 / 100`` and ``70 or 72``, or if the last number is not
            certain to be the final one.
    """
    if take == "first":
        return first_or_last(without_list_marks(text), take)
    text = without_struck_out(text)
    turn = first_turn(text, lambda before: _DIGIT.search(before) is not None)
    is_continued = len(turn) < len(text)
    conclusion = _conclusion(turn)
    text = conclusion.text
    end = conclusion.end
    if is_continued and not conclusion.is_announced and _WORD.search(turn):
        raise Unparseable("The answer continues with another question, without a final number.")
    value = first_or_last(text[:end], take)
    for rival in conclusion.rivals:
        if any(numeral.value != value for numeral in numerals(rival)):
            raise Unparseable("It is uncertain which of the answer's numbers is final.")
    if conclusion.calculation and not _is_result(conclusion.calculation):
        raise Unparseable("The answer has several numbers, and none is stated as its result.")
    last_digit = max((digit.end() for digit in _DIGIT.finditer(text, 0, end)), default=end)
    first_digit = len(text[:last_digit].rstrip("0123456789.,"))
    if is_retracted(text, last_digit) or is_denied(text, first_digit, last_digit):
        raise Unparseable("The answer denies its last number, or takes it back.")
    if undecided(text[last_digit:]):
        raise Unparseable("The answer ends by saying that there is no answer.")
    if not conclusion.is_announced and _ENDS_IN_WORDS.search(text, last_digit):
        raise Unparseable("The answer concludes with words instead of a number.")
    return value


# Where a reply states its final number

_BOXED_NUMBER = re.compile(
    r"\\(?:boxed|fbox)\s?(?P<boxed>\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})(?=(?P<rest>[^\d\n]*+))"
    r"|^####[^\S\n]*(?P<number>\S+)[^\S\n]*$",  # the latter as in GSM8K
    re.M,
)
_BETWEEN_BOXES = re.compile(
    r"[^\w\n\\]*(?:\\[a-z]+\{ *)?(?:or|and|oder|und|ou|et|o|y|e)? *\}?[^\w\n\\]*"
    r"(?:\w *= *)?[^\w\n\\]*",
    re.I,
)
_CONFIDENCE = re.compile(
    r"(?<=[\d.)])[\s,;*(]{1,4}(?:with\s+|I['\u2019]?a?m\s+)?(?:about\s+|over\s+)?"
    r"\d{1,3}\s?%\s+(?:confiden\w+|sure|certain\w*)[.!)*\s]*\Z",
    re.I,
)
_FOOTER = re.compile(  # what a reply says last about itself, or asks
    r"(?:^|(?<=[.!?]\s))[*_(#>\- ]{0,8}(?:(?:confidence|certainty)\b[\w ]{0,20}[*_]{0,2}:"
    r"|(?:please\s+)?(?:let\s+me\s+know|feel\s+free)\b|(?:I\s+)?hope\b|if\s+you\b"
    r"|(?:would|do|shall|should|can|is)\s+(?:I|you|there)\b(?=[^\n]*\?))[^\n]*\s*\Z",
    re.I | re.M,
)
_ANNOUNCED_NUMBER = re.compile(
    rf"(?:{ANSWER.pattern}|^[#\t ]{{0,8}}(?:(?:the|my|final|correct)\s+){{0,3}}answer\s*\n\s*)"
    r"(?P<stated>(?![,;])(?:[^.!?\n。(\[【]|[.](?=\d))*+)",
    re.I | re.M,
)
_NUMBER_WORD = (
    r"(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    r"|(?:thir|four|fif|six|seven|eigh|nine)teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty"
    r"(?:[-\s]\w+)?|(?:an?\s+)?(?:hundred|thousand|million|dozen))"
)
_NO_NUMBER = re.compile(  # the beginning of a statement that is an answer, and no number
    r"\W*(?:none|nothing|neither|nope|yes|nan|infinit\w+|undefined|impossible|indeterminate|inconclusive"
    r"|unknown|uncertain|undetermined|insufficient|n/a|can\s?not|can['\u2019]t|does\s+not"
    r"|no(?=\W*\Z|\s*[,;:!—(]|\s+(?:solutions?|answers?|such|values?|numbers?|real|integer|roots?|one|way)\b)"
    r"|not\s+(?!(?:only|obvious|clear|hard|difficult|trivial)\b)[^\W\d]\w*"
    r"|aucun\w*|kein\w*|geen|ningun\w*|ningún|nessun\w*|nenhum\w*|нет|imposs[ií]\w+|unmöglich|невозможно"
    r"|没有|不可能|なし)(?!\w)",
    re.I,
)
_NUMBER_IN_WORDS = re.compile(
    rf"\W*{_NUMBER_WORD}(?=\s*(?:[,;:.!—(]|-\s|\Z|(?:because|since|as)\b))", re.I
)
_ENDS_IN_WORDS = re.compile(  # as in "He had 15. So he has seven left.", after the last digit
    r"(?:[.!?;,:\n。、\uff0c\uff1b\uff1a*]|\bso\b)[^.!?;,\n。、\uff0c\d]{0,60}?(?<!\w)"
    rf"(?:(?!one\b){_NUMBER_WORD}(?!-?\w)|none\s+(?:is|are|was|were|of\s+them)\b"
    r"|null|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf"
    r"|zéro|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|onze|douze"
    r"|cero|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|doce"
    r"|zero|dois|duas|três|quatro|sete|oito|nove|dez|doze|due|tre|quattro|cinque|sette|otto|dieci"
    r"|ноль|два|две|три|четыре|пять|шесть|семь|восемь|девять|десять)(?!\w)[^.!?;,\n。\d]{0,40}\W*\Z"
    r"|[。、,\uff0c\n\uff1a:][^。、,\uff0c\n\d]{0,20}[零两兩二三四五六七八九十][个個つ只元円本枚人]?[^。、,\uff0c\n\d]{0,6}\W*\Z",
    re.I,
)
_SHORT = re.compile(r"[^\w\n]*(?:[^\W\d]|[^\W\d\s][^\s\d]*(?:\s+[^\s\d]+)?)[^\w\n]*")
_WITHOUT_SPACES = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\u0e00-\u0e7f]")
_IN_DIGITS_TOO = re.compile(  # after a statement in words: seventy (72), B. 72
    r"[\s(\[]*[^\w\s(]?\d[\d.,]*\W*(?:\Z|\n|[)\]])|[.)]\s+[^\w\s]?\d[\d.,]*\W*(?:\Z|\n)"
)
_COMMAND = re.compile(r"\\(?:[A-Za-z]+|.)")
_OF_A_PART = re.compile(r"\d|\b(?:part|step|first|second|third|each|every)\b", re.I)
_BEFORE_NUMBER = re.compile(  # between a colon and the number that it announces
    r"(?:[^\w\n]|\\[a-z]+|[A-Z]{2,3}\b|[A-Za-z] ?="
    r"|(?:about|approximately|around|exactly|only)\b)*+",
)
_DERIVED = re.compile(r"\b(?:by|as|from|in|if|when|because)\b", re.I)
_EQUATION = re.compile(  # before the last number
    r"(?:[=≈]|\bwhich\s+is\b|\bnot\b.{1,40}\bbut\b)[^\w=]*\d(?:[\d.,]*\d)?\D*\Z"
)
_REMARK = re.compile(  # the beginning of a remark, which continues to the end of the reply
    r"(?:(?:^|(?<=[.!?]\s)|(?<=。))[#>\- ]{0,8}|(?P<within>(?<=[,;]\s))(?:which\s+)?)(?:(?P<proof>"
    r"(?:(?:(?:we|you|I|this|it)(?:\s+can)?|to|let\s+me|let['\u2019]?s)\s+)?(?:(?:double|sanity)[\s-]?)?"
    r"(?:(?P<insertion>plug|substitut|einsetzen|подстав|代入)|check|verif(?:y|ies|ied|ying|ication)\b|confirm|satisf|proof\b"
    r"|test(?:s|ing)?\b|indeed\b|as\s+a\s+check\b|vérifi|comprob|verifich|verificando|检验|檢驗)"
    r"(?=[^\n]{0,200}=)(?!(?s:.{0,400}?)(?:\b(?:so|thus|therefore|hence|asks?|but|however|question"
    r"|wrong|incorrect|mistake|error|actually|wait|instead)\b|[≠✗✘✖❌])))"
    r"|(?(within)(?!))(?:(?:explanation|reason\w*|rationale|steps?"
    r"|calculation|breakdown|sources?|references?|confidence|certainty|probability|erklärung|explication"
    r"|explicación|解释|説明|설명|(?P<check>(?:double[\s-]?)?check|verif\w*|v[eé]rification|notes?"
    r"|prob[ea]|comprobación|проверка|验证|驗證|验算|驗算|検算|검산))\b[\w ]{0,20}(?::|\n)"
    r"|here\s+(?:is|are)\b|(?:please\s+)?note\s+that\b"
    r"|(?:let\s+me|to|we\s+can|let['\u2019]?s)\s+(?:double[\s-]?)?(?:check|verify)\b))",
    re.I | re.M,
)
_DOUBTFUL = re.compile(
    r"\b(?:wrong|incorrect|mistake|error|actually|wait|correct(?:ion|ed)|instead)\b|[≠✗✘✖❌]", re.I
)
_ASIDES = re.compile(
    r"\n\s*\[\^?\d{1,3}\][^\n]*"
    r"|\[(?:\^?\d{1,3}|[a-z][^\[\]\n]{0,60})\]|【[^【】\n]{0,60}】"  # citations
    r"|\((?!(?:or|and|oder|und|ou|et|o|y|e)\b)[^()=\n]{1,200}\)",
    re.I,
)
_NAME = r"(?<![^\W_])[A-Za-z](?:[\w\u2080-\u2089']|_\{\w{1,9}\}){0,9}"  # of a variable or quantity
_AT = (  # what a result holds for: at x = 5
    r"\b(?:at|where|when(?:ever)?|for|with|given|using|letting|setting|suppos\w+|assum\w+|pour|quando|cuando|für|bei"
    rf"|при|где)\s+(?:[a-z]{{3,12}}\s+)?[*_$(]{{0,3}}{_NAME}[*_ ]{{0,3}}=[\s*_$]{{0,4}}"
)
_ARGUMENT = re.compile(rf"{_AT}[-\u2212]?\d[\d.,]*", re.I)
_WITH_ARGUMENT = re.compile(rf"\d[^\d\n]{{0,40}}?(?P<argument>{_ARGUMENT.pattern})", re.I)
_NAMED_END = re.compile(  # an equation that names what it computes: y = 10 - 4 = 6
    rf"(?:[,;:!?.\n]\s|\b(?:so|then|get|and)\s)\W{{0,6}}{_NAME}\s?="
    r"(?:[^,;:!?.\n]|\.(?=\d))*\.?\W*\Z"
)
_SEVERAL_EQUATIONS = re.compile(
    r"=[^=,;]{0,40}\d[^=]{0,40}(?:[,;]|\\quad|\b(?:and|or)\b)[^=]{0,40}="
)
_OPENING_NUMBER = re.compile(  # 8, and below it "Explanation: …"
    r"\s*+[^\w\n]*+\d[\d.,]*+[^\w\n]*(?:[^\W\d_]+[^\w\n]*)?\n\s*\n"
    r"(?=[#*_>\- ]{0,8}(?:explanation|reason(?:ing)?|rationale|erklärung|begründung|explication"
    r"|explicación|解释|説明|설명)[*_]{0,2}[ ]?[:\uff1a\n])",
    re.I,
)
_ALONE = re.compile(  # a number on a line of its own, before a check
    r"(?:\A|\n)[^\w\n]*\d[\d.,]*+[^\w\n]*(?:[^\W\d_]+[^\w\n]*)?\n\s*\Z"
)
_RESULT = re.compile(r"=([^=\d\n]{0,10}\d[\d.,]*)(?![^\n=]{0,40}=)")


class _Conclusion(NamedTuple):
    """The place of a reply's final number, and what must hold for it to be the answer.

    ``rivals`` are texts in which no other number may be. The last number of ``calculation``, if
    there is one, must be stated as its result.
    """

    text: str  # the reply without remarks about itself
    end: int  # of the final number's statement
    rivals: Sequence[str]
    is_announced: bool = True  # or boxed
    calculation: str = ""


def _conclusion(text: str) -> _Conclusion:
    """Return the place of a reply's final number.

    Raises:
        Unparseable: If the last box or announcement has no number, or if the text boxes
            alternatives.
    """
    text = _without_footer(_without_footer(_CONFIDENCE.sub("", text)))
    plain_text = unmarked(text)
    announcements = _announcements(plain_text)
    in_words = [match for match in announcements if _is_in_words(match)]
    announcements = [match for match in announcements if _DIGIT.search(match["stated"])]
    direct = [match for match in announcements if _is_direct(match)]
    boxes = list(_BOXED_NUMBER.finditer(text))
    last_numbers = [match.start() for match in (*direct[-1:], *boxes[-1:])]
    if in_words and in_words[-1].start() >= max(last_numbers, default=0):
        raise Unparseable("The answer concludes with words instead of a number.")
    if boxes and not (direct and direct[-1].start() >= boxes[-1].end()):
        return _boxed(text, boxes)
    if direct:
        if (boxes or len(direct) > 1) and is_conditional(plain_text, direct[-1].start("stated")):
            raise Unparseable("The reply states another number under a condition.")
        return _announced(text, direct[-1])
    opening = _OPENING_NUMBER.match(text)
    if opening is not None and _DOUBTFUL.search(text, opening.end()) is None:
        results = _RESULT.findall(text, opening.end())
        return _Conclusion(text, opening.end(), results[-1:])
    start = announcements[-1].end() if announcements else 0
    is_named = _NAMED_END.search(text[-LONGEST_SENTENCE:]) is not None
    remarks = []
    for match in _REMARK.finditer(plain_text, start):
        is_proof = match["proof"] is not None and not (match["insertion"] and is_named)
        if is_proof and _ALONE.search(text[max(0, match.start() - LONGEST_END) : match.start()]):
            return _Conclusion(text, match.start(), (), is_announced=False)
        if is_proof or match["check"] or announcements:
            remarks.append(match.start())
    rivals = _rivals(text, remarks[-1] if remarks else len(text))
    text = without_list_marks(text)
    return _Conclusion(text, len(text), rivals, is_announced=False, calculation=text)


def _boxed(text: str, boxes: Sequence[re.Match[str]]) -> _Conclusion:
    last = boxes[-1]
    boxed = last["boxed"]
    if len(boxes) > 1 and _BETWEEN_BOXES.fullmatch(text, boxes[-2].end(), last.start()):
        raise Unparseable("The answer boxes several numbers.")
    if not _DIGIT.search(boxed or last["number"]):
        raise Unparseable("The last box of the answer contains no number.")
    if not boxed:
        return _Conclusion(text, last.end(), ())
    if _NO_NUMBER.match(_COMMAND.sub(" ", boxed)) or _SEVERAL_EQUATIONS.search(boxed):
        raise Unparseable("The last box of the answer contains more than a number.")
    end = last.end("rest")
    return _Conclusion(text, end, ())


def _announced(text: str, announcement: re.Match[str]) -> _Conclusion:
    plain_text = announcement.string
    end = announcement.end()
    stated = announcement["stated"]
    remark = _REMARK.search(plain_text, end)
    argument = _WITH_ARGUMENT.search(plain_text, announcement.start("stated"), end)
    if argument is not None:
        end = argument.start("argument")
        stated = plain_text[announcement.start("stated") : end]
    rest = text[end:]
    if remark is not None and not _DOUBTFUL.search(plain_text, remark.start()):
        rest = text[end : remark.start()]
    rest = _ASIDES.sub(" ", _ARGUMENT.sub(" ", rest))
    if _EQUATION.search(stated):
        return _Conclusion(text, end, [rest], calculation=without_list_marks(stated))
    return _Conclusion(text, end, [rest, stated])


def _without_footer(text: str) -> str:
    footer = _FOOTER.search(text)
    return text[: footer.start()] if footer and _DIGIT.search(text, 0, footer.start()) else text


def _announcements(unmarked: str) -> list[re.Match[str]]:
    """Return the announcements of numbers, with the rest of their sentences as ``stated``."""
    announcements = []
    for match in _ANNOUNCED_NUMBER.finditer(unmarked):
        is_of_part = match["of"] and _OF_A_PART.search(match["of"])
        is_heading = match["aside"] and ":" in match[0]  # Solution: First, …
        if not (is_of_part or is_heading or is_aside(unmarked, match)):
            announcements.append(match)
    return announcements


def _is_in_words(announcement: re.Match[str]) -> bool:
    """Return whether an announcement leads to an answer in words, such as "none of the 72"."""
    stated = _COMMAND.sub(" ", announcement["stated"]).strip()
    if _NO_NUMBER.match(stated):
        return True
    if _IN_DIGITS_TOO.match(announcement.string, announcement.end("stated")):
        return False
    if _NUMBER_IN_WORDS.match(stated):
        return True
    if _DIGIT.search(stated) or ABOUT_ANSWER.match(stated) or not _SHORT.fullmatch(stated):
        return False
    return len(stated) <= LONGEST_WORD or _WITHOUT_SPACES.search(stated) is None


def _is_direct(announcement: re.Match[str]) -> bool:
    """Return whether an announcement leads to a number at once, rather than to a calculation."""
    before = _DIGIT.split(announcement["stated"], maxsplit=1)[0]
    introduction = announcement[0][: announcement.start("stated") - announcement.start()]
    if set(":=→\n").isdisjoint(introduction):
        return not _DERIVED.search(before)
    return _BEFORE_NUMBER.fullmatch(before) is not None


# Numbers that a reader takes for the answer, although another one is the last
_FIRST_LINE = re.compile(  # 72, before an explanation
    r"\A\s*+([^\w\n]*+\d[\d.,]*+[^\w\n]*)\n\s*\n(?=[^\n]*[^\W\d_]{2})"
)
_IN_BOLD = re.compile(  # Pay **$64** for 16 glasses
    r"\*\*((?:[^\w\s*]|[A-Z]{3} )?[-\u2212]?\d[\d,]*(?:\.\d+)?(?: ?[^\W\d_]+){0,3}"
    r"(?: ?[%$€£¥₹₩₽₺])?)\*\*"
    r"[^*=]*\d[^*=]*\Z"
)
_BEFORE_PARENTHESES = re.compile(  # 2.5 hours (150 minutes)
    r"([^\w\s(]?\d(?:[^\s():.]|\.\d)*)(?:[^\d():\n.!?]|[.!?](?=\W*\())*+"
    r"(?<!\\)\([^()\n]*\d[^()\n]*\)[^\w\n]*\Z"
)
_BEFORE_CHECK = re.compile(r"([^\w\s(]?\d[^\s()]*)\D*\Z")
_IS_THE_ANSWER = re.compile(  # 45 is the answer
    r"(?:\A|[\n.!?]\s)\W*?([^\w\s(]?\d[\d,]*(?:\.\d+)?)\s+is\s+(?:the|my)\s+(?:\w+\s+)?answer\b",
    re.I,
)
_BOLD_TAG = re.compile(r"__|</?(?:b|strong)>", re.I)


def _rivals(text: str, remark: int) -> list[str]:
    """Return what a reader may take for the answer of a text that does not announce a number.

    Args:
        text: The text.
        remark: Where its last remark begins.
    """
    end = text[-LONGEST_END:]
    searches = [
        _FIRST_LINE.search(text),
        _IN_BOLD.search(_BOLD_TAG.sub("**", end)),
        _BEFORE_PARENTHESES.search(end),
        _IS_THE_ANSWER.search(end),
    ]
    if remark < len(text) and "\n\n" not in text[remark:].strip():  # it ends the text
        searches.append(_BEFORE_CHECK.search(text[:remark][-LONGEST_END:]))
    return [match[1] for match in searches if match]


# Whether the last of several numbers is the result

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
_ARGUMENT_BEFORE = re.compile(rf"{_AT}\Z", re.I)
_NAMED_BEFORE = re.compile(  # the name alone: x, not 2x or x + y
    rf"(?:\A|[\n,;:.(\[&|]|[^\W\d_]{{2}}|(?<!\w)[yoeи])[\s*_$\\(•-]*(?P<name>{_NAME})[\s*_$]*[:=]{_OPEN}\Z"
)
_ANOTHER_NAMED = re.compile(  # after a named number: cm, and y =
    r"(?:[ ]?[^\W\d_]{1,10}(?=[\s,;.)]))?"
    r"(?:[^\w=+/^→⇒>∴≈]|\b(?:and|or|but|also|und|oder|et|ou|y|o|e|и|или)\b)*"
    rf"(?:{_NAME}[ ]){{0,2}}(?P<name>{_NAME})[\s*_$]*={_OPEN}"
)
_DERIVES = re.compile(r"\b(?:then|gives|means|becomes|not)\b|n['\u2019]t\b|[≈→⇒∴]", re.I)
_ARITHMETIC = re.compile(  # before the last number: 2·35 + 10 =
    r"(?P<left>\d(?:[\d \t()\[\]{}*×·+\u2212\u2013/÷^$\\-]|[.,](?=\d))*+)=" + rf"{_OPEN}\Z"
)
_AS_EXPECTED = re.compile(  # after an equation that checks a result
    r"[^\w\n]{0,6}(?:(?:(?:which|this|that|and\s+this)\s+)?(?:match|agree|confirm|checks?\s+out|is\s+(?:correct|true|what))"
    r"|as\s+(?:expected|given|required|stated|desired|needed)\b|correct\b|true\b|[✓✔✅])",
    re.I,
)
_ACTION = re.compile(  # after "so", as in "so he saves $15": what follows from the answer, or is it
    r"[\s,]*(?:(?:he|she|they|it|I|we|you|also|then|now)\s+){0,2}"
    r"(?!(?:is|are|be|has|have|had|will|can|must|needs?|costs?|takes?|gets?|makes?|requires?|equals?|contains?"
    rf"|weighs?|holds?|about|around|altogether|total|only|just|exactly|the|then|thus|[A-Z]{{3}})\b)[a-z]{{3,}}\s+{_FILL}\Z"
)
_WOULD_BE = re.compile(rf"\b(?:would|might|may|could)\s+(?:\w+\s+)?be{_FILL}\Z", re.I)
_WILL_BE = re.compile(rf"\b(?:will|shall)\s+(?:\w+\s+)?be{_FILL}\Z", re.I)
_OTHER_TIME = re.compile(
    r"\b(?:(?:next|last|following|previous)\s+\w+|tomorrow|yesterday|later|soon|ago|by\s+then)\b",
    re.I,
)
_NOT_BUT = re.compile(rf"(?:\bnot\b|n['\u2019]t\b)[^,;]*\bbut\b{_FILL}\Z", re.I)
_BOLD = re.compile(r"(\*{1,2}|__)[^\w*\n]{0,3}\Z")
_BOLD_END = re.compile(r"[^\w*\n]*(?:[^\W\d_]+[^\w*\n]*){0,4}(?:\*|__)")


def _is_result(text: str) -> bool:
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
    if _is_equation(text, start, numbers):
        return True
    before = text[others[-1].end if others else start : last.start]
    if last.value == _last_result(text, numbers) and not _BETWEEN.search(before):
        return True
    return _is_stated(text, last, head, before, others)


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
        if len(others) == 1 and _ACTION.match(before, so):
            return _LEFT.match(_rest_of_sentence(text, last.end)) is not None
        return _BETWEEN.search(before, so) is None
    if CORRECTED_TO.search(before):
        return True
    if _BOLD.search(before) and _BOLD_END.match(text, last.end):
        return not any(_has_before(_BOLD, text, number) for number in others)
    if _FORMER.search(before if others else head) or _POINTS.search(before):
        return False
    if _LEFT.match(_rest_of_sentence(text, last.end)):
        return not any(_LEFT.match(text, number.end) for number in others)
    if others and _ALSO.search(before) and not _TOTAL.search(before):
        return False
    total = _last_end(_TOTAL, before)
    if total is not None:
        return _BETWEEN.search(before, total) is None
    if _WOULD_BE.search(before):
        return False
    if _WILL_BE.search(before) and (others or _OTHER_TIME.search(head)):
        return False
    return _IS.search(before) is not None


def _is_alternative(text: str, numbers: Sequence[Numeral]) -> bool:
    """Return whether the last number is one of several named values: x = 4 and y = 7."""
    *_, former, last = numbers
    gap = text[former.end : last.start]
    if former.value in (None, last.value) or len(gap) > LONGEST_CLAUSE:
        return False
    if any(pattern.search(gap) for pattern in (_SO, _TOTAL, _DERIVES, CORRECTION)):
        return False
    name = _NAMED_BEFORE.search(text, max(0, former.start - LONGEST_CLAUSE), former.start)
    other_name = _NAMED_BEFORE.search(gap)
    if name is None or other_name is None:
        return False
    is_same_name = name["name"] == other_name["name"] and _SENTENCE_END.search(gap) is None
    return is_same_name or _ANOTHER_NAMED.fullmatch(gap) is not None


def _proves(text: str, numbers: Sequence[Numeral]) -> bool:
    """Return whether the last equation leads from the result before it to a number before that."""
    last = numbers[-1]
    start = max(text.rfind("\n", 0, last.start) + 1, last.start - LONGEST_SENTENCE)
    equation = _ARITHMETIC.search(text, start, last.start)
    if equation is None:
        return False
    earlier = [number.value for number in numbers if number.end <= equation.start()]
    terms = re.findall(r"\d+(?:\.\d+)?", equation["left"])
    if not earlier or str(earlier[-1]) not in terms:
        return False
    if _AS_EXPECTED.match(text, last.end):
        return True
    return last.value in earlier and earlier.index(last.value) < earlier.index(earlier[-1])


def _has_before(pattern: re.Pattern[str], text: str, number: Numeral) -> bool:
    """Return whether a pattern matches directly before a number, in bounded time."""
    start = max(0, number.start - LONGEST_CLAUSE)
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


def _subordinate(head: str) -> int | None:
    """Return the offset of a subordinate clause that continues to the end of a sentence's head."""
    for match in _SUBORDINATE.finditer(head):
        is_first = not re.search(r"\w", head[: match.start()])
        if not (is_first and re.search(r",\s", head[match.end() :])):
            return match.start()
    return None


def _is_equation(text: str, start: int, numbers: Sequence[Numeral]) -> bool:
    """Return whether the last number is the result of an equation, and no conversion."""
    *earlier, last = numbers
    equals = _EQUALS.search(text, max(start, last.start - LONGEST_SENTENCE), last.start)
    if equals is None:
        return False
    side = equals.start()
    side_start = max([start, *(text.rfind(mark, start, side) + 1 for mark in "=≈→⇒")])
    terms = [number for number in earlier if side_start <= number.start and number.end <= side]
    is_sign = not equals[0].lstrip(", ").startswith("which")
    term = terms[0].value if len(terms) == 1 else None
    if term is None or last.value is None:
        return bool(terms) or is_sign
    unit = text[terms[0].end : side].replace("*", "")
    before = text[side_start : terms[0].start].replace("**", "")
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
