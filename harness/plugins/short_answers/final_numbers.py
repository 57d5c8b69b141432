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

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from harness.errors import Unparseable
from harness.plugins.short_answers.numbers import (
    first_or_last,
    numerals,
    without_list_marks,
)
from harness.plugins.short_answers.results import AT, NAME, is_result
from harness.scoring.conclusions import (
    ABOUT_ANSWER,
    ANSWER,
    MAX_SENTENCE_CHARS,
    blank_emphasis,
    first_turn,
    is_aside,
    is_denied,
    is_doubtful,
    is_own_statement,
    is_remark,
    is_retracted,
    undecided_offsets,
    without_remarks,
    without_struck_out,
)
from harness.scoring.patterns import MatchPosition

LONGEST_WORD = 5  # characters of a short statement in a script without spaces
MOST_PROOFS = 20  # remarks before a proof that is compared with the result
LONGEST_END = 400  # characters of the end of a reply in which rivals are looked for

_DIGIT = re.compile(r"\d")
_BLANK_LINES = re.compile(r"\n(?:[ \t]*+\n){2,}+")  # which would make searches quadratic
_WORD = re.compile(r"[^\W\d_]{2}")


def read_number(text: str, take: MatchPosition) -> Decimal:
    """Return the first or last number in the text. See docs/jsonl.md for the notations.

    Raises:
        Unparseable: If the text has no number, or if its first or last number is unreadable or part
            of an expression, such as ``72 / 100`` and ``70 or 72``, or if the last number is not
            certain to be the final one.
    """
    if take == "first":
        return first_or_last(without_list_marks(text), take)
    text = _BLANK_LINES.sub("\n\n", without_struck_out(text))
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
    if conclusion.calculation and not is_result(conclusion.calculation):
        raise Unparseable("The answer has several numbers, and none is stated as its result.")
    last_digit = max((digit.end() for digit in _DIGIT.finditer(text, 0, end)), default=end)
    first_digit = len(text[:last_digit].rstrip("0123456789.,"))
    if is_retracted(text, last_digit) or is_denied(text, first_digit, last_digit):
        raise Unparseable("The answer denies its last number, or takes it back.")
    if undecided_offsets(text[last_digit:]):
        raise Unparseable("The answer ends by saying that there is no answer.")
    if not conclusion.is_announced:
        _refuse_other_statements(text, first_digit, last_digit)
    return value


def _refuse_other_statements(text: str, first_digit: int, last_digit: int) -> None:
    """Raise Unparseable if a reply's last number, which it does not announce, is no answer.

    Args:
        text: The reply.
        first_digit: The start of the number.
        last_digit: The end of the number.
    """
    earlier_digits = [digit.end() for digit in _DIGIT.finditer(text, 0, first_digit)]
    has_others = bool(earlier_digits)
    before = text[: max(earlier_digits, default=0)]
    number = text[first_digit:last_digit]
    is_repeated = before.endswith(number) and not before.removesuffix(number)[-1:].isalnum()
    plain_text = blank_emphasis(text)
    announcements = [*ANSWER.finditer(plain_text, 0, first_digit)]
    for match in _ANNOUNCED_NUMBER.finditer(plain_text):
        is_last = announcements and announcements[-1].start() == match.start()
        if is_repeated or not is_last or first_digit >= match.end():
            continue
        if is_aside(plain_text, match):
            raise Unparseable("The last number of the answer belongs to no answer.")
    if _ENDS_IN_WORDS.search(text, last_digit):
        raise Unparseable("The answer concludes with words instead of a number.")
    in_words = _BEGINS_IN_WORDS.match(text)
    if in_words and "=" not in text and not _IN_DIGITS_TOO.match(text, in_words.end()):
        raise Unparseable("The answer begins with words instead of a number.")
    start = max(0, first_digit - MAX_SENTENCE_CHARS)
    for ending in _SENTENCE_END.finditer(text, start, first_digit):
        start = ending.end()
    before = text[start:first_digit]
    if not is_repeated and _is_given(text, before, last_digit):
        raise Unparseable("The last number of the answer is one that the question gives.")
    if is_remark(text, first_digit, last_digit) or _HYPOTHESIS.match(before):
        raise Unparseable("The last number of the answer belongs to no answer.")
    refusal = _REFUSAL.search(text, 0, first_digit)
    is_refused = refusal is not None and not _RESUMED.search(text, refusal.end(), first_digit)
    if is_refused or _UNSOLVED.search(before) or _UNSOLVED.search(text, last_digit):
        raise Unparseable("The answer says that it is none.")
    if not has_others and (_NOTHING.match(text) or _FORMERLY.search(before)):
        raise Unparseable("The last number of the answer belongs to no answer.")
    if _ASKED.match(text, last_digit):
        raise Unparseable("The answer ends with a question.")


def _is_given(text: str, before: str, end: int) -> bool:
    """Return whether a number is one that the reply refers to, such as "the 12 eggs" and "all 12".

    Args:
        text: The reply.
        before: The sentence before the number.
        end: The end of the number.
    """
    if _ORDINAL.match(text, end):
        return False
    if _REFERRED_TO.search(before):
        return True
    return _DEFINITE.search(before) is not None and _WORD_AFTER.match(text, end) is not None


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
_OPERATORS = "\u00d7\u00b7*+\u00f7/\u2212-"
_WORKING = re.compile(  # the calculation of a number, after it: 72 (8 * 9 = 72)
    r"(?<![\d.,])(?P<result>\d++(?:[.,]\d++)*+)(?P<unit>[*_%$€£ ]*+(?:[^\W\d_]++[*_ ]*+){0,3}+)"
    rf"\((?:(?:since|because|as)\s)?(?=[^()\n]{{0,100}}\d\s?[{_OPERATORS}]\s?[$€£]?\d)"
    rf"[\d .,$€£%{_OPERATORS}]{{1,100}}"
    r"(?:=\s*[$€£]?(?P<value>\d[\d.,]*(?<=\d))[^\d()\n=]*)?\)"
)
_CONFIDENCE = re.compile(
    r"(?<=[\d.)])[\s,;*(]{1,4}(?:with\s+|I['\u2019]?a?m\s+)?(?:about\s+|over\s+)?"
    r"\d{1,3}\s?%\s+(?:confiden\w+|sure|certain\w*)[.!)*\s]*\Z",
    re.I,
)
_FOOTER = re.compile(  # what a reply says last about itself, or asks
    r"(?:^|(?<=[.!?]\s))[*_(#>\- ]{0,8}(?:(?:confidence|certainty)\b[\w ]{0,20}[*_]{0,2}:"
    r"|(?:please\s+)?(?:let\s+me\s+know|feel\s+free)\b|(?:I\s+)?hope\b|if\s+you\b"
    r"|(?:(?:would|do|shall|should|can|is)\s+(?:I|you|there)|want\s+me\s+to)\b(?=[^\n]*\?))[^\n]*\s*\Z",
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
    r"(?:[.!?;,:\n。、\uff0c\uff1b\uff1a*]|\b(?:so|leaving|end(?:s|ed)?\s+up\s+with)\b)[^.!?;,\n。、\uff0c\d]{0,60}?(?<!\w)"
    rf"(?:(?!one\b){_NUMBER_WORD}(?!-?\w)|none\s+(?:is|are|was|were|of\s+them)\b"
    r"|nothing\s+(?:is\s+|was\s+)?(?:left|remain\w*)|no\s+\w+\s+(?:(?:is|are|was|were)\s+)?(?:left|remain\w*)"
    r"|null|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf"
    r"|zéro|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|onze|douze"
    r"|cero|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|doce"
    r"|zero|dois|duas|três|quatro|sete|oito|nove|dez|doze|due|tre|quattro|cinque|sette|otto|dieci"
    r"|ноль|два|две|три|четыре|пять|шесть|семь|восемь|девять|десять)(?!\w)[^.!?;,\n。\d]{0,40}\W*\Z"
    r"|[。、,\uff0c\n\uff1a:][^。、,\uff0c\n\d]{0,20}[零两兩二三四五六七八九十][个個つ只元円本枚人]?[^。、,\uff0c\n\d]{0,6}\W*\Z",
    re.I,
)
_PART_IN_WORDS = rf"(?:{_NUMBER_WORD}|none|nothing|nobody|no\s+one)"
_BEGINS_IN_WORDS = re.compile(rf"\W*{_PART_IN_WORDS}(?=\s*[.!:(\u2014])", re.I)
_REFERRED_TO = re.compile(  # before a number that the question gives: all 12, seven of the 12
    rf"(?:\b(?:all|out\s+of|as\s+many\s+as|than)|\b{_PART_IN_WORDS}\s+of)\s+\W*\Z"
    r"|\b(?:the|these|those|his|her|its|their|our|my|your)(?:\s+(?:original|remaining|other))?\s+\Z",
    re.I,
)
_DEFINITE = re.compile(
    r"\b(?:die|der|den|dieser?|alle[rn]?|les|des|ces"
    r"|los|las|estos|sus|os|dos|das|gli|dei|delle|degli|из|этих|всех)"
    r"\s+\Z",
    re.I,
)
_ORDINAL = re.compile(r"-?(?:st|nd|rd|th|s)\b")  # the 5th floor, the 1990s
_WORD_AFTER = re.compile(r"[^\S\n]+[*_]{0,2}[^\W\d_]{2}")
_NOTHING = re.compile(  # the beginning of a reply that gives no number
    r"\W*(?:unknown|unclear|undefined|n/a|none|nothing(?!\s+(?:but|more|less))|impossible|insufficient|can\s?not|can['\u2019]t"
    r"|no(?=\s+[a-z]+\s+(?:is|are|was|were|left|remain)\b))\b",
    re.I,
)
_FORMERLY = re.compile(r"\b(?:originally|initially|used\s+to)\b", re.I)
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[\n。\uff01\uff1f।؟]")
_HYPOTHESIS = re.compile(
    r"\W*(?:if|had|were|assuming|suppos(?:e|ing))\b[^\n]*\b(?:would|might|could)\s", re.I
)
_UNSOLVED = re.compile(  # in the sentence of the last number, or after it
    r"\b(?:can\s?not|can['\u2019]?t|could\s?n['\u2019]t|(?:am|was|['\u2019]m)\s+(?:not\s+able|unable)\s+to)\s+"
    r"(?:\w+\s+)?(?:be\s+)?(?:solved?|answer(?:ed)?|help|determined?|tell|say|calculated?|computed?|know|continue)\b"
    r"|\b(?:not\s+enough|insufficient|missing)\s+(?:information|data|details)"
    r"|\b(?:do\s+not|don['\u2019]t)\s+know\b|\bit\s+is\s+(?:unclear|unknown|impossible)\b"
    r"|\b(?:answer|result|total|number|value)\s+(?:(?:is|was)(?:n['\u2019]t|\s+not)\s+(?:given|stated|known|provided)"
    r"|depends\s+on|is\s+(?:missing|unclear|unknown))\b"
    r"|\bplease\s+(?:provide|tell|give|specify)\b"
    r"|\b(?:I|we)(?:['\u2019]d|\s+would)?\s+need\s+(?:to\s+know|the\s+(?:value|number|length|speed|price)|more)\b",
    re.I,
)
_REFUSAL = re.compile(  # in any sentence before the last number, unlike "We need to know …"
    r"\bI\s+(?:can\s?not|can['\u2019]?t|could\s?n['\u2019]t)\s+"
    r"(?:\w+\s+)?(?:determine|answer|calculate|compute|solve|tell|say|give|find|work)\b"
    r"|\b(?:I['\u2019]m|I\s+am)\s+(?:unable|not\s+able)\s+to\b|\bI\s+(?:do\s+not|don['\u2019]t)\s+(?:know|have\s+enough)\b"
    r"|\bcan(?:\s?not|['\u2019]t)\s+be\s+(?:determined|calculated|computed|answered|solved)\b"
    r"|\b(?:not\s+enough|insufficient)\s+(?:information|data|details)\b"
    r"|\bich\s+kann\b[^.!?\n]{0,60}\bnicht\b|\bje\s+ne\s+(?:peux|sais)\s+pas\b|\bno\s+(?:puedo|sé)\b|\bnon\s+posso\b|\bnão\s+(?:posso|sei)\b"
    r"|\b\u043d\u0435\s+(?:могу|знаю)\b|[无無]法(?:[确確]定|[计計]算|回答|得出)|(?:計算|回答)できません|わかりません|알\s?수\s?없",
    re.I,
)
_RESUMED = re.compile(  # after a refusal: the reply answers nevertheless
    r"[=≈]|\b(?:but|however|still|yet|if|assum\w+|suppos\w+|so|thus|therefore|hence|estimate\w*|approximate\w*|about|roughly|nevertheless"
    r"|aber|jedoch|mais|cependant|pero|sin\s+embargo|ma|però|mas|porém|но|однако)\b|但|不过|しかし|하지만",
    re.I,
)
_ASKED = re.compile(r"[^.!?\n]*\?\W*(?:(?:no|nope|not\b[^.!?\n]*|nein|non)\W*)?\Z", re.I)
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
    r"|explicación|解释|説明|설명|(?:\w+\s+)?(?:tips?|takeaway|fun\s+fact|reminder|formula)|(?P<check>(?:double[\s-]?)?check|verif\w*|v[eé]rification|notes?"
    r"|prob[ea]|comprobación|проверка|验证|驗證|验算|驗算|検算|검산))\b[\w ]{0,20}(?::|\n)"
    r"|(?P<method>here,|(?:I|we)\s+used\b)|here\s+(?:is|are)\b|(?:please\s+)?note\s+that\b"
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
_OF_WORK = re.compile(  # a sentence on how the answer was found
    r"(?:^|(?<=[.!?]\s))[^\w\n]*(?:(?:this|that|it|the\s+calculation)\s+(?:took|required|needed|used)\b|(?:generated|solved|computed|calculated)\s+in\b"
    r"|I\s+(?:solved|used|did|found|worked|went|checked|arrived)\b|that\s+was\b)"
    r"[^.!?\n]*?\b\d+\s+(?:\w+\s+)?(?:steps?|seconds?|lines?|operations?|equations?|methods?|ways|times|s)\b[^.!?\n]*[.!?]?",
    re.I | re.M,
)
_ARGUMENT = re.compile(rf"{AT}[-\u2212]?\d[\d.,]*", re.I)
_WITH_ARGUMENT = re.compile(rf"\d[^\d\n]{{0,40}}?(?P<argument>{_ARGUMENT.pattern})", re.I)
_WITH_REASON = re.compile(  # 38 legs, since 28 + 10 = 38
    r"(?P<number>\W{0,4}\d[\d.,]*(?<=\d)(?:[^\S\n][^\W\d_]+){0,2}),?\s+(?:since|because)\s"
    r"(?!.*\b(?:so|thus|hence|therefore|but|however|wait|no|not)\b)[^?\n]*=",
    re.I,
)
_WITH_OTHER = re.compile(  # 84, not 48; 30 for each of the 4 friends
    r"(?P<number>\W{0,4}\d[\d.,]*(?<=\d)(?:[^\S\n][^\W\d_]+){0,2}?),?\s+"
    r"(?:not|instead\s+of|rather\s+than|for\s+each\s+of\s+the|per\s+\w+\s+for\s+the)\s+\W?\d[\d.,]*(?:\s+[^\W\d_]+)?\W*\Z",
    re.I,
)
_NAMED_END = re.compile(  # an equation that names what it computes: y = 10 - 4 = 6
    rf"(?:[,;:!?.\n]\s|\b(?:so|then|get|and)\s)\W{{0,6}}{NAME}\s?="
    r"(?:[^,;:!?.\n]|\.(?=\d))*\.?\W*\Z"
)
_SEVERAL_EQUATIONS = re.compile(
    r"=[^=,;]{0,40}\d[^=]{0,40}(?:[,;]|\\quad|\b(?:and|or)\b)[^=]{0,40}="
)
_OPENING_NUMBER = re.compile(  # 8, and below it "Explanation: …"
    r"\s*+(?:[*_#]*(?:result|total)[*_]*:)?[^\w\n]*+\d[\d.,]*+[^\w\n]*(?:[^\W\d_]+[^\w\n]*)?\n\s*\n"
    r"(?=[#*_>\- ]{0,8}(?:explanation|reason(?:ing)?|rationale|erklärung|begründung|explication"
    r"|explicación|解释|説明|설명)[*_]{0,2}[ ]?[:\uff1a\n]|(?:this|that)\s+is\s+because\b)",
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
    text = _WORKING.sub(_without_working, text)
    plain_text = blank_emphasis(text)
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
        if (boxes or len(direct) > 1) and is_doubtful(plain_text, direct[-1].start()):
            raise Unparseable("It is uncertain whether the answer's last number is its own.")
        opening_line = _FIRST_LINE.search(text)
        if opening_line and not is_own_statement(plain_text, direct[-1].start()):
            return _Conclusion(text, direct[-1].end(), [opening_line[1]])
        return _announced(text, direct[-1])
    opening = _OPENING_NUMBER.match(text)
    if opening is not None and _DOUBTFUL.search(text, opening.end()) is None:
        results = _RESULT.findall(text, opening.end())
        return _Conclusion(text, opening.end(), results[-1:])
    start = announcements[-1].end() if announcements else 0
    is_named = _NAMED_END.search(text[-MAX_SENTENCE_CHARS:]) is not None
    remarks: list[int] = []
    for match in _REMARK.finditer(plain_text, start):
        is_proof = match["proof"] is not None and not (match["insertion"] and is_named)
        if is_proof and len(remarks) < MOST_PROOFS and _is_verified(text, match):
            return _Conclusion(text, match.start(), (), is_announced=False)
        if is_proof or match["check"] or match["method"] or announcements:
            remarks.append(match.start())
    rivals = _rivals(text, remarks[-1] if remarks else len(text))
    text = without_list_marks(text)
    return _Conclusion(text, len(text), rivals, is_announced=False, calculation=text)


def _without_working(match: re.Match[str]) -> str:
    is_its_result = match["value"] in (None, match["result"])
    return match["result"] + match["unit"] if is_its_result else match[0]


def _is_verified(text: str, proof: re.Match[str]) -> bool:
    """Return whether a proof is of the number before it: one on a line of its own, or a result."""
    start = proof.start()
    if _ALONE.search(text[max(0, start - LONGEST_END) : start]):
        return True
    line, _, rest = text[start:].partition("\n")
    before = without_list_marks(text[:start])
    if proof["insertion"] or _DIGIT.search(rest) or not is_result(before):
        return False
    *_, result = numerals(before)
    terms = _TERM.findall(_EQUAL.split(line)[0])
    return result.value is not None and str(abs(result.value)) in terms


_TERM = re.compile(r"\d+(?:\.\d+)?")
_EQUAL = re.compile("[=≈]")


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
    reason = _WITH_REASON.match(stated) or _WITH_OTHER.match(stated)
    if reason is not None:
        stated = reason["number"]
    remark = _REMARK.search(plain_text, end)
    argument = _WITH_ARGUMENT.search(plain_text, announcement.start("stated"), end)
    if argument is not None:
        end = argument.start("argument")
        stated = plain_text[announcement.start("stated") : end]
    rest = text[end:]
    if remark is not None and not _DOUBTFUL.search(plain_text, remark.start()):
        rest = text[end : remark.start()]
    rest = _ASIDES.sub(" ", _ARGUMENT.sub(" ", _OF_WORK.sub(" ", without_remarks(rest))))
    if reason is not None:
        end = announcement.start("stated") + reason.end("number")
        return _Conclusion(text, end, [rest, stated])
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
_BEFORE_ASIDE = re.compile(r"([^\w\s(]?\d[^\s()]*)[^\d()]*\n\s*\n\W*\([^()]*\d[^()]*\)\W*\Z")
_TOTAL_LINE = re.compile(  # Total: 72
    r"^[^\w\n]*(?:\w+[^\S\n]+)?(?:total|result|sum)(?:[^\S\n]+\w+){0,2}[^\w\n]*[:=][ \t*_]*"
    r"([^\w\s]?\d[\d,]*(?:\.\d+)?)[^\w\n]*(?:[^\W\d_]+[^\w\n]*)?$",
    re.I | re.M,
)
_BOLD_TAG = re.compile(r"__|</?(?:b|strong)>", re.I)


def _last_total(text: str) -> list[re.Match[str]]:
    """Return the last line such as "Total: 72", unless the text then calculates with its number."""
    totals = list(_TOTAL_LINE.finditer(text))[-1:]
    return [match for match in totals if match[1].strip("$") not in text[match.end() :]]


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
        _BEFORE_ASIDE.search(end),
        *_last_total(text),
    ]
    if remark < len(text) and "\n\n" not in text[remark:].strip():  # it ends the text
        searches.append(_BEFORE_CHECK.search(text[:remark][-LONGEST_END:]))
    return [match[1] for match in searches if match]
