r"""Reads the numbers in a text.

A text is read in three steps. `_plain` writes digits, signs, separators and LaTeX of all kinds in
ASCII. `_TOKEN` splits the text into words and numbers, each of which it matches whole, with
everything that is attached to it: ``GPT-4`` is one word, and ``2024-05-01`` one number. `_value`
reads the numbers whose value is certain. No part of a word or of an unreadable number is ever read
as a number.

>>> [str(numeral.value) for numeral in numerals("From 7-8 to 1,250.5 kg, or 12\\,000 g")]
['None', '1250.5', '12000']
"""

# ruff: noqa: RUF001 (signs and letters of many scripts)

from __future__ import annotations

import html
import re
import unicodedata
from collections import deque
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from harness.errors import Unparseable
from harness.scoring.conclusions import CROSSES, without_struck_out
from harness.scoring.patterns import MatchPosition
from harness.wording import truncate

MOST_DIGITS = 200  # maximum number of characters in a number; longer numbers are unreadable
MOST_GAP = 60  # characters between two numbers of one expression
MOST_EXPONENT_DIGITS = 3  # in 1e100 and 10^100; larger exponents are unreadable


class Numeral(NamedTuple):
    """A number as the text writes it, and its value, which is None if it is not certain."""

    text: str
    value: Decimal | None
    start: int  # offsets in the text that `numerals_in_place` returns
    end: int


def numerals(text: str) -> Iterator[Numeral]:
    """Yield the numbers in the text, including those that are unreadable, in linear time."""
    return map(_numeral, _numbers(_plain(text)))


def numerals_in_place(text: str) -> tuple[str, list[Numeral]]:
    """Return the text with its signs, digits and LaTeX in ASCII, and the numbers in it."""
    plain_text = _plain(text)
    return _with_letters(plain_text, text), list(map(_numeral, _numbers(plain_text)))


def only_number(text: str) -> Decimal | None:
    """Return the number in the text, or None if it is unreadable or not the only one."""
    first_two = list(islice(numerals(text), 2))
    return first_two[0].value if len(first_two) == 1 else None


def first_or_last(text: str, take: MatchPosition) -> Decimal:
    """Return the first or last number in a text, without regard to what the text says of it.

    Raises:
        Unparseable: If the text has no number, or if that number is unreadable or part of an
            expression, such as ``72 / 100`` and ``70 or 72``.
    """
    plain_text = _plain(text)
    tokens = _numbers(plain_text)
    pair = list(islice(tokens, 2)) if take == "first" else list(deque(tokens, maxlen=2))
    if not pair:
        raise Unparseable("The answer contains no number.")
    numeral = _numeral(pair[0] if take == "first" else pair[-1])
    shown_number = f" ({truncate(numeral.text, 40)})" if numeral.text in text else ""
    if numeral.value is None:
        raise Unparseable(f"The {take} number of the answer{shown_number} has no certain value.")
    if len(pair) > 1 and _are_linked(plain_text, *pair):
        problem = f"The {take} number of the answer{shown_number} is part of an expression."
        raise Unparseable(f"{problem} No part of it is read.")
    return numeral.value


_LIST_MARKS = re.compile(r"^[ \t]*(\d{1,2})[.)][ \t]+(?=\S)", re.MULTILINE)


def without_list_marks(text: str) -> str:
    """Return a text without the numbers of a list's items (1 and 2, or 1 with a bracket)."""
    marks = _LIST_MARKS.findall(text)
    is_list = marks[:2] == ["1", "2"] or (marks == ["1"] and text.lstrip().startswith("1)"))
    return _LIST_MARKS.sub("", text) if is_list else text


# Step 1: the text in ASCII

_LETTER_WITHOUT_CASE = "\ue000"  # stands for any of them; words do not contain it
_CHARACTERS = {
    **dict.fromkeys("\u2010\u2011\ufe63", "-"),  # hyphens
    "\u2012": "\u2013",  # a sign or a dash
    **dict.fromkeys("\u207b\u2796", "\u2212"),  # signs that are no dashes
    "\u2015": "\u2014",  # dashes that are no signs
    **dict.fromkeys("\u2019\u02bc\u2032\u066c", "'"),  # the last is a thousands separator
    "\u066b": ".",  # the Arabic decimal separator
    "\u060c": ",",
    "\u066a": "%",
    **dict.fromkeys("\u301c\u223c", "~"),
    "\u2044": "/",
    "\u2215": "/",
    "\u22c5": "·",
}
_UNREADABLE_MARK = "\u201a"  # between digits
_SPACE = "\u00a0"  # stands for a space of markup, and for any space that is not ASCII
_MARKUP_FORMS = r"""
    $ \$   % \%   # \#   & \&   _ \_
    ° ^\circ ^{\circ} \degree
    × \times   · \cdot \bullet   ÷ \div   ± \pm \mp   π \pi
    √ \lfloor \lceil   ≠ \ne \neq \neg \lnot   ≥ \ge \geq \le \leq
    log \sin \cos \tan \ln \log \exp \max \min \gcd
    ^{ <sup>   _{ <sub>   } </sup> </sub>
"""
"""Each form that replaces markup, and this markup. A number after a function is not the answer,
whichever function it is."""
_SPACE_MARKUP = r"\, \; \: \quad \qquad \enspace \thinspace \medspace \thickspace"


def _markup() -> dict[str, str]:
    """Return what replaces each markup."""
    forms = {r"\!": "", r"\ ": _SPACE, **dict.fromkeys(_SPACE_MARKUP.split(), _SPACE)}
    for line in re.split(r"\s{2,}", _MARKUP_FORMS.strip()):
        form, *commands = line.split()
        forms |= dict.fromkeys(commands, form)
    return forms


_MARKUP = _markup()
_MARKUP_COMMAND = re.compile(
    "|".join(
        re.escape(command) + r"(?![A-Za-z])" * command[-1].isalpha()
        for command in sorted(_MARKUP, key=len, reverse=True)
    )
)
_ENTITY = re.compile(r"&(?:#\w{1,6}|[A-Za-z]{2,8});")
_INLINE_TAG = re.compile(r"</?(?:b|i|u|em|strong|span|font|wbr)(?:\ [^<>]{0,80})?/?>")
_WIDTH = re.compile(r"\\(?:tag|hspace|mspace|hskip|mskip|kern|mkern)\*?\{[^{}]*\}")
_GROUP = re.compile(
    r"(?<![\w}\]^])(?<![A-Za-z}\]][ ])\{[ ]?([-+\u2013\u2212]?\d[\d.,]*)\}"  # -{5}
    r"|(?:(?<![}^])|\\(?:text|math|mbox|hbox)[a-z]*)\{\ ?([^\w{}\\]?)\ ?\}"  # 1{,}234, \text{-}5
)
_DASH_SIGN = re.compile(r"[-\u2013](?=\ ?\u00a0\ ?\d)")  # no dash has a wide space after it
_LABEL_DASH = re.compile(r"(?<!\w)[A-Z]\w++\ [-\u2013](?=\ )")  # Answer - 5
_SPACES = re.compile(r"(?<! )\ *+(?:\u00a0\ *+)++")
_RAISED = dict(zip(map(ord, "⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹"), "+-0123456789", strict=True))
_INDICES = "₀₁₂₃₄₅₆₇₈₉"
_RAISED_NUMBER = re.compile("[⁺⁻]?[⁰¹²³⁴-⁹]+")
_MINUS_LETTERS = re.compile(
    r"(?:[负負]|零下|[氷冰]点以?下|マイナス|마이너스|영하|سالب|ناقص|منفی|מינוס"
    r"|ลบ|ऋण|माइनस|शून्य\ से(?=[^।\n]{0,20}नीचे))\ ?(?=[\d$])"
)
_NOT_LETTERS = re.compile(
    r"(?:[至最][少多低高大小]|最[少多]でも?|少なくとも|多くとも|不[到足]|최[소대]"
    r"|(?<!\w)לא|לפחות|อย่างน้อย|ไม่เกิน|على\ الأقل|[不并並]是|[并並]非|不[为為]"
    r"|不等[于於]|[小大少多][于於]|超[过過]|ไม่ใช่|ليس\w*)\ ?(?=[\d$])"
)
_JOINING_LETTERS = re.compile(
    r"(?<=\d)\ ?(?:[年月日号號時时点點分秒到至比又元块塊角余和与與]|小时|小時|時間|分钟|分鐘|分之|"
    r"から|あまり|或者?|还是|または|또는|หรือ|أو|או|या|"
    r"시간|분의|[년월일시분])\ ?(?=\d)"
)
"""Matches what makes one expression of two numbers: a date, a time, a range, alternatives."""
_SCALE_LETTERS = re.compile(
    r"(?<=\d)[*_`$)}\s]{0,4}(?:[十万萬億亿兆割成折打]|百(?!分)|千(?![克米瓦卡])|[個个]?半|的?一半|[만억조천백십]|"
    r"(?:درج\w*\ (?:مئوية\ )?)?تحت\ الصفر|"
    r"ล้าน|แสน|หมื่น|พัน|مليون|ملايين|مليار|ألف|آلاف|هزار|میلیون|میلیارد|ہزار|لاکھ|کروڑ|אלף|אלפים|מיליון|"
    r"लाख|करोड़|हज़ार|हजार|হাজার|লাখ|লক্ষ|কোটি|ஆயிரம்|லட்சம்|கோடி|వేలు?|లక్షలు?|ಸಾವಿರ|ആയിരം)"
    r"|(?<=\d)\ ?[^\W\d_A-Za-z]{0,2}?\ ?(?:では?(?:な[いく]|ありません)|じゃな[いく]"
    r"|[은는이가]?\ ?아[니닌닙]|नहीं"  # not
    r"|以[上下内內外]|未[満满]|より|超|미만|이[하상]|초과|보다)"
    r"|(?<=\d)[\u0300-\u036f]+"  # the line above repeating decimals
)
"""Matches what multiplies the number before it, or changes it in another way."""
_DENOMINATOR_LETTERS = re.compile(r"(?:分[之の]|분의)\ ?(?=\d)")

_UNITS = """
    meters? metres? miles? feet inch(?:es)? yards? seconds? minutes? hours? days? weeks? months?
    years?
    grams? kilograms? kilos? pounds? ounces? tons? tonnes? lit(?:er|re)s? gallons? cups? degrees?
    radians?
    percent(?:age)? points? dollars? cents? kilomet\\w+ centimet\\w+ millimet\\w+ millilit\\w+
    milligram\\w* volts? watts?
    amps? amperes? ohms? joules? newtons? pascals? hertz moles? bits? bytes? times units? square
    cubic
    million\\w* billion\\w* thousand hundred
"""
_AFTER_VALUE = """
    the and is or are was were which because since after as per for with when where while if then
    than that
    this these so not but from into on at by of about approximately rounded correct exactly
    respectively
    [Aa]nswer wrong incorrect
"""
_POINT = r"[1-9]\d{0,2}\.\d{3}(?![\w.,]?\d)"
_CONTINENTAL = (
    r"(?:[€₺₫₴₲₡]|R\$|\b(?:EUR|Euros?|BRL|Rp|IDR|TRY|TL|DKK|NOK|SEK|kr|ARS|CLP|COP|VND|zł|PLN|Kč|CZK"
    r"|Ft|HUF|lei|RON|грн|UAH|руб\w*|RUB|đồng|reais|real|pesos|lire?|rupiah)(?![^\W\d_])\.?)"
)
_OTHER_WORD = rf"[ ][*_]{{0,2}}(?!(?i:{'|'.join((_UNITS + _AFTER_VALUE).split())})\b)[^\W\d_]{{4}}"
_UNCERTAIN_POINT = re.compile(
    rf"{_CONTINENTAL}[\s*_]{{0,4}}{_POINT}|(?<![\w.,]){_POINT}[*_]{{0,2}}(?=[\s*_]{{0,3}}{_CONTINENTAL}|{_OTHER_WORD})"
)
"""Matches a number whose point may separate thousands: 1.250 €, 1.250 Menschen."""


def _plain(text: str) -> str:
    """Return the text with the digits, signs and separators of all scripts and of LaTeX in ASCII.

    A few other characters remain, such as ``×``, ``±`` and letters that have case.
    """
    text = _without_tags(text)
    text = _UNCERTAIN_POINT.sub(lambda number: number[0].replace(".", _UNREADABLE_MARK), text)
    if not text.isascii():
        text = _without_number_letters(text)
        text = _RAISED_NUMBER.sub(lambda raised: f"^{{{raised[0].translate(_RAISED)}}}", text)
        text = text.translate({ord(c): _plain_character(c) for c in set(text) if not c.isascii()})
    text = _MARKUP_COMMAND.sub(lambda command: _MARKUP[command[0]], text)
    text = _WIDTH.sub(_SPACE, text)
    text = _GROUP.sub(lambda group: group[1] or group[2] or "", text)
    text = _LABEL_DASH.sub(lambda label: f"{label[0][:-1]}\u2014", text)
    text = _DASH_SIGN.sub("\u2212", text)
    return _SPACES.sub(" ", text)


def _without_tags(text: str) -> str:
    text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    text = without_struck_out(text)
    text = _INLINE_TAG.sub("*", text)
    return unicodedata.normalize("NFC", text)


def _without_number_letters(text: str) -> str:
    """Return the text with signs in place of the letters that make another number of a number."""
    text = _MINUS_LETTERS.sub("\u2212", text)
    text = _NOT_LETTERS.sub("≠", text)
    text = _JOINING_LETTERS.sub(":", text)
    text = _SCALE_LETTERS.sub("k", text)
    return _DENOMINATOR_LETTERS.sub("√", text)


def _with_letters(plain_text: str, text: str) -> str:
    """Return the plain form of a text with its letters without case, at the same offsets."""
    if _LETTER_WITHOUT_CASE not in plain_text:
        return plain_text
    letters = iter(_without_number_letters(_without_tags(text)))

    def next_letter(mark: re.Match[str]) -> str:
        for character in letters:
            if not character.isascii() and _plain_character(character) == _LETTER_WITHOUT_CASE:
                return character
        return mark[0]

    return re.sub(_LETTER_WITHOUT_CASE, next_letter, plain_text)


@lru_cache(4096)
def _plain_character(character: str) -> str:
    if character in _CHARACTERS:
        return _CHARACTERS[character]
    if "\uff01" <= character <= "\uff5e":  # full-width ASCII
        return chr(ord(character) - 0xFEE0)
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category == "Sc":
        return "$"
    if category == "Zs":
        return _SPACE
    if category in ("Cf", "Mn", "Mc", "Me"):  # marks of direction, accents
        return ""
    if category == "No" and "\u2044" in (fraction := unicodedata.normalize("NFKC", character)):
        return fraction.replace("\u2044", "/")
    if category in ("Lo", "Lm", "No", "Nl") and character not in _INDICES:
        return _LETTER_WITHOUT_CASE
    return character


# Step 2: words and numbers

_CURRENCIES = """
    AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN
    BZD CAD CDF CHF CLP CNH CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL
    GHS GIP GMD GNF GTQ GYD HKD HNL HRK HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF
    KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR
    MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RMB RON RSD RUB RWF SAR SBD SCR
    SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD
    UYU UZS VED VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWL Rs Rp kr Kr Fr RM
"""
"""The codes of ISO 4217, and abbreviations that directly precede an amount."""

_SCALES = r"""
    (?:plus|minus|times|point|divided\sby)\s(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|half)
    (?:four|fif|six|seven|eigh|nin|twelf)ths değil hiljad\w*
    hundred\w* honderd\w* hundert\w* thousand\w* halves thirds tenths? grand lakhs? crores?
    bn tn mia mill mn cr
    doz dozens? dutzend douzaines? docenas? tsd mio mrd mille mil mila mll mld mln mii bin
    juta ribu ezer sz[aá]z
    mil+[ijy]*[aá]r\w* [mbt]r?il+[hijy]*[oóõã]\w* tausend\w* tusen\w* tusind\w* duizend\w*
    tys tysi\w* tis[ií]c\w* tisu[cć]\w* tisoč\w* tuha[tn]\w* tūkst\w* t[ỷỉ] trăm nghìn ngàn triệu
    т[ыи]с т[ыи]сяч\w* хиљад\w* хиляд\w* мл[нрд]+ м[иі]л[лиьй]*[оа]\w*
    χιλι\w* εκατομμ\w* δισεκατ\w* squared cubed factorial pi
    and\s(?:an?|one|two|three)\s(?:half|thirds?|quarters?)
    [dt][ea]n\s(?:az|fazla|çok) (?:or|and)\s(?:more|less|fewer|above|below|over|under)
    ou\s(?:plus|moins|mais|menos)
    oder\s(?:mehr|weniger) o\s(?:más|menos|più|meno) of\s(?:meer|minder) lub\s(?:więcej|mniej)
    и(?:ли)?\s(?:более|менее)
"""
"""Patterns of words that multiply the number before them, or change it in another way."""
_DEGREES = (
    r"(?:(?:degrees?|gra[duo]\w*|degrés?|градус\w*|stup\w*|stop\w*|aste\w*|fok|độ|°?[cf]|[°℃])"
    r"[*_]{0,2}\s(?:c\s|celsius\s)?)?"
)
_BELOW_ZERO = r"""
    below\szero below\sfreezing unter\snull bajo\scero abaixo\sde\szero sotto\s?(?:lo\s)?zero
    (?:(?:au-|en\s)dessous\sde|sous)\széro onder\snul onder\shet\svriespunt under\sn(?:ul|oll)
    ниже\sнуля мороза pod\snulou mrazu poniżej\szera mrozu pakkasta nulla\salatt dưới\skhông dưới\s0
    negativ[oi]s? négatifs minusgrad\w* kuldegrad\w* pakkasast\w*
"""
"""Patterns of words that make the number before them negative, after the word for degrees."""
_CLOSE = r"(?:[*_`\"'$)\]}]|\\[)\]]){0,4}"
_OPEN = r"(?:[*_`\"'$(\[{]|\\[(\[]|\\[A-Za-z]+\{[ ]?){0,4}"
_BEFORE_FACTOR = rf"{_CLOSE}[ \n-]{{0,3}}{_OPEN}"
_ATTACHED_SCALES = {*"kKMBbT", "mn", "bn", "Mio", "Mrd", "MM", "pi", "π"}
_VARIABLES = {*"ijnxyz", "xy"}
# Words that make another number of the number after them
_WORDS_BEFORE = (
    r"(?i:(?:not|cannot|(?<=[a-z]n['\u2019]t))[ ](?:be|say|equal[ ]to|get|answer|pick|choose)"
    r"|rul(?:e|ed|ing)[ ]out|nor|doubt[ ](?:that[ ])?it[ ]is"
    r"|(?:anything|everything|all)[ ]but|except"
    r"|twice|thrice|double|triple|(?:half|roots?|thirds?|quarters?|squares?|cubes?|log\w*)[ ]of"
    r"|at[ ](?:least|most)|up[ ]to|over|than[ ]or[ ]equal[ ]to"
    r"|elfu|bukan|không[ ]phải"
    r"|not|never|than|nie|niet|inte|ikke|pas|no[ ](?:es|son|hay|eran?|fueron)|non[ ](?:è"
    r"|sono|erano|ci[ ]sono)"
    r"|não[ ](?:é|são|eram?|há)|не"
    r"|mindestens|höchstens|maximal|minimal|almeno|al[ ]massimo|au[ ](?:moins|plus|maximum"
    r"|minimum)|co[ ]najmniej"
    r"|co[ ]najwyżej|minstens|hooguit|maximaal|en[ ](?:az|fazla)|como[ ](?:mínimo|máximo"
    r"|mucho)|al[ ]menos"
    r"|a[ ]lo[ ]sumo|no[ ](?:máximo|mínimo)|(?:pelo|ao)[ ]menos|minst|högst|mindst"
    r"|ít[ ]nhất|setidaknya|paling"
    r"|sqrt|ln|log(?:_(?:\{[^{}]*\}|\w+))?|sin|cos|tan|exp|(?<=[a-z]n['\u2019])t|nicht|minus|neg|negativ[eo]?|négatif"
    r"|moins|menos|meno|минус|мінус|eksi|âm"
    r"|(?:mehr|weniger|größer|kleiner)[ ]als|(?:meer|minder)[ ]dan|(?:più|meno)[ ]di"
    r"|(?:plus|moins|más|menos|mais)[ ]de|больше|меньше|более|менее"
    r"|hälfte[ ]von|mitad[ ]de|moitié[ ]de|metade[ ]de|metà[ ]di"
    r"|không[ ]phải[ ]là|s\u0131f\u0131r\u0131n[ ]alt\u0131nda|"
    r"(?:hundred|thousand|million)(?:[ ]and)?(?![ ]\())(?:\b|(?<=\}))"
)

_SIGN = r"[-+\u2013\u2212]"
_CURRENCY = rf"(?:[A-Z]{{0,3}}\$|(?:{'|'.join(_CURRENCIES.split())})\.?)[ ]?"
_DIGITS = r"""(?:
    (?: [1-9]\d{0,2} (?:[ ]\d{3}(?!\d))++ | \d++ (?:[ ]\d{3}(?!\d)){2,}+ )  # 12 000
        (?:[ ]\d++)*+ (?:[.,]\d++)?
    | (?:(?<![.\w])\.)?+ \d++ (?:[.,'_]\d++ | ~0\d\d(?!\d))*+
    )"""
_POWER = rf"(?: [eE]{_SIGN}?\d++ | (?:[ ]?[*×x·][ ]?10)? \^ (?:\{{[^{{}}]*\}} | {_SIGN}?\w+) )"
_JOIN = r"""(?:
    (?:[%$°] | [^\W\d_]{1,3} | \ue000{1,2})? [-\u2013\u2014~]{1,3}  # 7-8, 7kg-8kg
    | \.\.+ | [ ]?±[ ]? | [ ](?=\d+/\d)
    | (?!\)[-\u2013\u2212]) [^\w\s=≈≠≤≥<>→⇒|\ue000]{1,3}  # any other marks
    )"""
_OPERATOR = rf"""(?:
    (?:(?<=[^\W_]) | (?<=[)\]}}%-])) [-+\u2013\u2212/*×÷·^_.] \{{?  # (x)-5, π/2, answer.5
    | (?<=\ue000)\.
    | (?<=[\d)%][ ]) [-\u2013\u2212]
    | (?: (?: (?<=[$([{{]) | (?<=[=:$([{{][ ]) | (?<=[^\W\d_A-Z][ ]) ) [-\u2013] | \u2212 )
      [ ]{{1,3}} {_OPEN}  # x = - 5
    | [-\u2013\u2212] (?!\$) {_OPEN} (?<![-\u2013\u2212])  # -(5), -**5**
    | {_WORDS_BEFORE} [.:]?[ ] {_OPEN}
    | (?: \| | (?<=\\lvert)[ ]? ) (?=[-\u2013\u2212])  # |-5|
    | (?: [±√∛∜≠≥≤¬{CROSSES}] | != | =/= | <>
        | (?: (?<![^\s$(]) | (?<=(?<![\w</])[A-Za-z]) ) [<>] (?=\d) (?![\d.,]+>)  # >72, n>72
        | (?<=(?<!\w)[A-Za-z][ ])(?:[<>]=?|\+) | (?<=[a-z]{{2}}[ ])[<>]=?(?=[ ]) )[ ]? {_OPEN}
    | =[ ]?(?=\d+x\b)
    | (?<=(?<!\w)[fgh])\(
    | [×·][ ]?(?=10\^)  # 4π × 10^5
    )"""
_ATTACHED = rf"(?: (?<=_)\{{[^{{}}]*\}} | [\^_] (?:\{{[^{{}}]*\}} | {_SIGN}?\w+) )"  # ^2, _{12}
_ARGUMENT = r"(?: \{(?: [^{}] | \{(?: [^{}] | \{[^{}]*\} )*+\} )*+\} | \d )"  # of \frac

_TOKEN = re.compile(
    rf"""
    # Most words. Without this alternative, reading takes half as long again.
    (?!{_WORDS_BEFORE}) [^\W\d_]++ (?![\w.(}}^$-])

    | (?P<expression>
        \\begin\{{[a-zA-Z]?matrix\}} (?: (?!\\end\b)[\s\S] ){{0,400}}+
        | \\(?:[dtc]?frac|[dt]?binom|sqrt|overline|bar|dot)
          (?:\[[^][]*\])? (?:[ ]?{_ARGUMENT}){{1,2}}
        | (?:sqrt|cbrt|log|ln|exp|abs) \([^()]*\)
      )

    | \\ (?: u[0-9a-fA-F]{{4}}\w*+ | [A-Za-z]++ {_ATTACHED}*+ )  # an escape, a command

    | (?P<operator> {_OPERATOR} )?
      (?P<sign> {_SIGN} )? (?: (?P<currency> {_CURRENCY} ) (?P<inner_sign> {_SIGN} )? )?
      (?P<digits> {_DIGITS} ) (?P<power> {_POWER} )?
      (?P<joined> (?: {_JOIN} {_SIGN}?(?:{_CURRENCY})?{_SIGN}? {_DIGITS} {_POWER}? )*+ )
      (?P<variable> (?=x(?:[$)}}\\^] | [ ]?[-+=])) )?  # 5x + 1
      (?P<unit> [^\W\d_]\w*+ )? (?: \}}*+ {_ATTACHED} )*+
      (?P<factor> {_BEFORE_FACTOR} (?: (?i:{"|".join(_SCALES.split())}
        | {_DEGREES}(?:{"|".join(_BELOW_ZERO.split())}))\b | π )
        | [ ]?\\[A-Za-z]+\{{[ ]?(?:[kKMBTi]|bn|mn)\}} | [ ](?:k\b|[kKMB]\$) )?
      (?P<open> (?=
        [ ]?(?:\\(?:[dtc]?frac|sqrt)|√) | ,[-\u2013\u2014][ ]?\d
        | \.?\\(?:overline|bar|dot)
        | ! (?: [ ]?[-+/×÷·=$}}\\] | [ ]\*[ ] )
        | \+ (?: \s | [.,;!?)] | \Z )
      ) )?
      (?P<no_cents> (?=,[-\u2013\u2014]) )?  # 8,- €

    | [^\W\d_]\w*+ (?: -\w++ | (?<=\d)[.,/]\d\w*+ | \}}*+ {_ATTACHED} )*+
    """,
    re.VERBOSE,
)
_DIGIT = re.compile(r"\d")

_MONTHS = (
    r"jan(?:uary|uar|vier)?|enero|feb(?:ruary|ruar|rero)?|février|mar(?:ch|s|zo)?|märz|a[pv]r(?:il)?"
    r"|abril|ma[iy]o?|jun[ei]?o?|juin|jul[yi]?o?|juillet|aug(?:ust)?|ao[uû]t|agosto"
    r"|sep(?:t(?:ember|embre|iembre)?)?|o[ck]t(?:ober|obre|ubre)?|nov(?:ember|embre|iembre)?"
    r"|de[cz](?:ember|embre)?|décembre|diciembre"
)
_LINK = re.compile(
    rf"""
    (?: [ ]? [^\W\d_]{{1,12}} )? !? {_CLOSE} [,;]? [ ]?
    (?: (?<=[ ])\(? | \\[a-z]+\{{[ ]? | (?=[×÷·]) )
    (?: [-+\u2013\u2212*/:×÷·^%x±] | \*\* | \+/?- | \\?(?:b?mod|n?mid|over|choose|to|ast)
      | (?:and/)?or | oder | ou | o | или | або | eller | lub | veya
      | remainder | rest | r
      | (?:(?:or|oder|ou)[ ])?(?:maybe|possibly|perhaps|alternatively|vielleicht)
      | (?:de[ ])?(?:{_MONTHS})\.?(?:[ ]de)?
      | bis | à | a | hasta | до | tot | til | till | until | through | vs\.? | versus
      | plus | times | (?:(?:divided|multiplied)[ ])?by | per | (?:out[ ])?of(?:[ ]the)?
      | point | comma | komma | virgule | virgola | coma | запятая
    )
    (?: [ ] | [ ]?\}}[ ]? ) {_OPEN}
    | [ ] (?: or | oder | ou | o | или ) [ ] [^\W\d_][ ]?=[ ]?  # x = 5 or x = 7
    | [ ]?%[ ]of[ ](?:the[ ])?
    | [ ][,.;´‚‘][ ]?  # 1 ,234
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Matches what makes one expression, or two alternatives, of the numbers around it."""
_AND_WORDS = "and|und|et|y|e|и|en|og|och"
_AND = re.compile(rf"(?: ?[%°]| ?[^\W\d_]{{1,12}})? (?:{_AND_WORDS}) ", re.IGNORECASE)
_LIST_AND = re.compile(rf"{_CLOSE},? (?:{_AND_WORDS}|&) {_OPEN}", re.IGNORECASE)  # 5 and 7
_LIST_COMMA = re.compile(rf"{_CLOSE} ?[,;] ?{_OPEN}")
_LIST_START = re.compile(rf"(?:\A|[\n=:(\[{{]) ?{_OPEN}\Z")
_LIST_END = re.compile(rf" ?{_CLOSE}(?:(?<=[)\]}}])|[.!?]?{_CLOSE}\s*?(?:\n|\Z))")
_BETWEEN = re.compile(
    r"\b(?:between|zwischen|entre|tra|fra|tussen|mellem|mellan|между)\s(?:\w+\s)?\Z", re.IGNORECASE
)
_LAST_DIGITS = re.compile(r"[ ]0\d|[ ]{2,3}\d{3}(?!\d)|[ ]\.\d")  # in 1 0000, 12  000, 1 .5
# A quantity in two units: 2 hours 30 minutes, 5' 11"
_PART = re.compile(
    r"[ ]?(?:h|hrs?|hours?|stunden?|heures?|horas?|ore|час\w*|min|minutes?|minut\w*|days?|weeks?|"
    r"months?|years?|ft|feet|foot|k?m|lbs?|pounds?|kg|dollars?|euros?|['°])"
    r",?[ ](?:(?:and|und|et|y|e|и)[ ])?",
    re.IGNORECASE,
)
_NEXT_PART = re.compile(
    r"[ ]?(?:(?:h|hours?|min|minut\w*|мин\w*|s|sec|seconds?|sek\w*|days?|months?|in|inch(?:es)?|oz|"
    r"c?m|g|cents?)\b|[\"'])",
    re.IGNORECASE,
)


def _numbers(plain_text: str) -> Iterator[re.Match[str]]:
    """Yield the tokens that are numbers or expressions of numbers."""
    for token in _TOKEN.finditer(plain_text):
        if token["expression"]:
            if _DIGIT.search(token[0]):
                yield token
        elif token["digits"] and not _is_name(token):
            yield token


def _end(token: re.Match[str]) -> int:
    """Return where a number ends, without its unit."""
    return token.end() if token["expression"] else token.end("joined")


def _are_linked(plain_text: str, left: re.Match[str], right: re.Match[str]) -> bool:
    """Return whether neighbouring numbers are parts of one expression or quantity, or alternatives.

    Examples are ``72 / 100``, ``70 or 72`` and ``2 hours 30 minutes``.
    """
    gap = plain_text[_end(left) : right.start()]
    if len(gap) > MOST_GAP:
        return False
    if _LINK.fullmatch(gap) or _LIST_AND.fullmatch(gap):
        return True
    if _AND.fullmatch(gap) and _BETWEEN.search(plain_text, max(0, left.start() - 30), left.start()):
        return True
    if _LIST_COMMA.fullmatch(gap) and _is_list(plain_text, left, right, gap):
        return True
    if left["factor"] and plain_text[left.end() : right.start()] in (" ", " and "):  # 5 thousand 2
        return True
    if not gap.strip(" ") and _LAST_DIGITS.match(plain_text, _end(left)):
        return True
    return bool(_PART.fullmatch(gap) and _NEXT_PART.match(plain_text, _end(right)))


def _is_list(plain_text: str, left: re.Match[str], right: re.Match[str], comma: str) -> bool:
    """Return whether a comma between two numbers makes a list of them: ``(3, 4)``, ``is 5, 7.``

    In ``In 2020, 345 people came`` it does not.
    """
    if _LIST_START.search(plain_text, max(0, left.start() - 10), left.start()):
        return True
    if _LIST_END.match(plain_text, right.end()):
        return True
    is_one_number = len(left["digits"] or "") <= 3 and len(right["digits"] or "") == 3
    return comma == ", " and is_one_number  # 1, 234 people


def _is_name(token: re.Match[str]) -> bool:
    """Return whether a number with a letter is a name: 3D, 5G."""
    return token["unit"] in ("D", "G") and len(token["digits"]) == 1


# Step 3: values

# Numbers with a decimal point, and with a decimal comma or several points, in groups of digits
_WITH_POINT = re.compile(
    r"\d+(\.\d+)?|\.\d+|[1-9]\d{0,2}([, '_~])\d{3}(\2\d{3})*(\.\d+)?"
    r"|[1-9]\d?(,\d{2})+,\d{3}(\.\d+)?"
)
_WITH_COMMA = re.compile(r"[1-9]\d{0,2}([. '_~])\d{3}(\1\d{3})*,\d+|[1-9]\d{0,2}(\.\d{3}){2,}")
_MINUS_SIGNS = dict.fromkeys(map(ord, "\u2013\u2212"), "-")
_POWER_OF_10 = re.compile(
    rf"(?:[eE]|.*\^\{{?)(?P<exponent>{_SIGN}?\d{{1,{MOST_EXPONENT_DIGITS}}})\}}?"
)


def _numeral(token: re.Match[str]) -> Numeral:
    value = None if token["expression"] else _value(token)
    return Numeral(token[0].strip(), value, token.start(), _end(token))


def _value(token: re.Match[str]) -> Decimal | None:
    if token["operator"] or token["joined"] or token["factor"] or token["open"] is not None:
        return None
    unit = token["unit"] or ""
    currency = token["currency"] or ""
    if unit in _ATTACHED_SCALES or (unit == "m" and currency):  # 10k, $10m
        return None
    if token["no_cents"] is not None and "." in token["digits"]:  # 1.250,- is not 1.25
        return None
    if unit and unit[0] in _INDICES:  # 101₂
        return None
    if unit in _VARIABLES or token["variable"] is not None:
        return None
    if _DIGIT.search(unit):  # 5h30, 0x1F
        return None
    if token["digits"] == "0" and unit[:1] in ("x", "X"):  # 0xC
        return None
    if token["inner_sign"] and currency[-1].isalpha():  # EUR-5, BSD-2
        return None
    digits = _decimal_digits(token["digits"])
    if digits is not None and token["power"]:
        digits = _scientific(digits, token["power"])
    if digits is None:
        return None
    is_negative = bool({token["sign"], token["inner_sign"]} & set("-\u2013\u2212"))
    return Decimal(f"-{digits}" if is_negative else digits)


def _scientific(digits: str, power: str) -> str | None:
    """Return digits with their exponent, such as ``e5`` and ``×10^5``, or None if unreadable."""
    match = _POWER_OF_10.fullmatch(power)
    if match is None:
        return None
    exponent = match["exponent"].translate(_MINUS_SIGNS)
    if not power.startswith("^"):
        return f"{digits}E{exponent}"
    return f"1E{exponent}" if digits == "10" else None


def _decimal_digits(digits: str) -> str | None:
    """Return digits with a decimal point and no separators, or None if their value is uncertain."""
    if len(digits) > MOST_DIGITS:
        return None
    if _WITH_POINT.fullmatch(digits):
        return re.sub("[, '_~]", "", digits)
    if _WITH_COMMA.fullmatch(digits):
        return re.sub("[. '_~]", "", digits).replace(",", ".")
    return None
