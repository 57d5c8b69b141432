"""The statement in which a reply ends: its last one, without what the reply quotes.

A reply may reason, correct itself and quote other texts before it states its answer. Every reader
of options, verdicts and scores finds statements here, and decides only which ones are valid.
An earlier statement never stands in for a last one that is not valid.

>>> unquoted('It says "Answer: yes". Answer: `no`')
'It says  … . Answer: no'
>>> [statement.text for statement in statements("The answer is A. Correction: B")]
['A', 'B']
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

from harness.errors import Unparseable

LONGEST_INTRODUCTION = 100  # characters before a quotation that may introduce it
LONGEST_CLAUSE = 60  # characters before an announcement that may withdraw it
LONGEST_SENTENCE = 200  # characters of a statement
MOST_QUOTATIONS = 1_000  # any further quotations in a reply are not its own statements

# Full-width signs, letters in circles and mathematical letters.
_FORMS = [*range(0xFF01, 0xFF5F), 0x3000, *range(0x24B6, 0x24EA), *range(0x1D400, 0x1D800)]
ASCII_FORMS = {code: unicodedata.normalize("NFKC", chr(code)) for code in _FORMS}
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{|<(?:final_?)?answer>", re.I)
_MARKUP = re.compile(
    r"\\(?:text|textbf|textit|mathrm|mathbf)\s*\{|\\[()\[\]]|</?(?:[a-z]|\w\w{1,20})>|<\|\w{1,30}\|>|[*_`\"“”„«»「」$}]"
)
_SPACES = re.compile(r"\s++")


def plain(text: str, boxed: str = "") -> str:
    r"""Return text without emphasis, LaTeX commands, tags, double quotes and repeated spaces.

    ``boxed`` replaces the beginning of a ``\boxed{…}``.
    """
    bare = _MARKUP.sub("", _BOXED.sub(boxed, text.translate(ASCII_FORMS)))
    # Long runs of line breaks, which models repeat endlessly, would make searches quadratic.
    return _SPACES.sub(lambda run: "\n" * min(run[0].count("\n"), 2) or " ", bare).strip()


_NOUN = (
    r"(?:\b(?:answer|verdict|conclusion|decision|judge?ment|correction|(?P<aside>option|choice"
    r"|response|solution|pick|letter)|réponse|antwort|respuesta|resposta|risposta|antwoord|ответ"
    r"|відповідь|odpowied[zź]|svar(?:et)?|cevap|jawaban(?:nya)?|đáp án|उत्तर|الجواب|الإجابة)"
    r"|\bcâu\s+trả\s+lời"
    r"|答案|回答|选项|正解|答え|정답|답)"
)
_LINK = (
    r"(?:(?:is|was|would\s+be|turns\s+out\s+to\s+be|must\s+be|should\s+be|will\s+be|remains|est|ist|lautet|es|é|è|jest|är"
    r"|er|adalah|là|это|हैं?|هو|هي|(?<=उत्तर\s))\b|应该是|應該是|是|为|為|选(?!项)|は|은|는|[-=]>|[:=→—\u2013】]|-(?=\s))"
)
_FILL = (
    r"(?:[\s:\uff1a=✅✓✔]|[-•](?=\s)|\b(?:is|the|correct|final|best|right|option|choice|letter|answer"
    r"|(?:should|must|would|will)\s+be|clearly|definitely|probably|likely|most|therefore|thus|indeed|simply|just|actually|now|still"
    r"|instead|rather|that|clear|obvious|simple|as follows|it['\u2019]s|it\s+is"
    r"|la|le|les|el|die|der|das|opción|opção|lettre|letra|a\s+letra|(?:a|to)(?=\s+[A-Z]\b)|lettera|buchstabe|буква|вариант|correcta|correcte"
    r"|correta|corretta|richtig)\b|选项|選択肢)*+"
)
_QUALIFIED = (  # between the noun and the link, as in "the answer to this question is"
    r"(?:(?P<of>\s+(?:to|for|of|here|in|from|among)\b[^.:;!?\n]{0,60}?)"
    r"|\s+(?:correcta|correcte|correta|corretta|correct|finale?)\b)?"
)
ANSWER = re.compile(rf"{_NOUN}{_QUALIFIED}\s*{_LINK}{_FILL}", re.I)
SCORE = re.compile(rf"\b(?:score|rating|grade|mark)(?P<aside>){_QUALIFIED}\s*{_LINK}{_FILL}", re.I)
_CONCLUDED = re.compile(
    r"(?:(?:\b(?:I|we|I['\u2019](?:d|ll|m))\s+(?:(?!(?:never|not|hardly|doubt|deny|initially|originally)\b)\w{1,20}\s+){0,3}?|\blet['\u2019]?s\s+|\bwould\s+"
    r"|(?:^|[.!?:;,\n][^\S\n]?|\bso\s)(?=choose|pick|select|go|use\s+[A-Z]\b))"
    r"(?:choose|use|chose|pick|select|say|answer|mean|meant|think|believe|guess|conclude"
    r"|go(?:ing)?\s+with|opt(?:ing)?\s+for|settle\s+on)\b"
    r"|^[#\t ]{0,8}(?:(?:the|my|final|correct)\s+){0,3}answer\s*\n"
    r"|\bit(?:['\u2019]s|\s+is|\s+(?:must|should)\s+be)\b"
    r"|\b(?:chang|switch|revis|updat|amend|correct)\w*\s+(?:(?:my|the)\s+\w+|it)\s+to\b|\bmake\s+that\b"
    r"|\b(?:therefore|thus|so|hence|donc|dunque|значит)\b,?"
    r"|\b(?:wait|actually|sorry|oops|on\s+reflection|on\s+second\s+thoughts?)\b[\s,.:;!…—\u2013-]+"
    r"|\b(?:no|nein|non|нет)\s*[,.:;!—\u2013]+"
    r"|(?:\bnot\b|n['\u2019]t\b)[^.!?\n]{0,40}?\bbut\b"
    r"|\b(?:nicht|pas|no|non|не)\s[^.!?\n]{0,40}?\b(?:sondern|mais|sino|ma|bensì|\u0430)\b|不是[^。\n]{0,40}?而是|(?:では?|じゃ)なくて?、?|[가이]\s?아(?:니라|닌)|\bbetween\b[^.!?\n]{0,60}?,"
    r"|\b(?:that\s+)?leaves\b|所以|因此|(?<![不没別别未])(?:选择|選擇|选(?!项))|不对[,\uff0c]|よって|따라서)"
    + _FILL,
    re.I | re.M,
)
_WITHDRAWN = re.compile(
    r"(?:\b(?:for|of|behind|about)\s+(?:(?:the|my|this|that|your|correct|right|final)\s+){0,3}\Z"
    r"|(?:\b(?:if|whether|why|unless|doubt|thought|says|claims|may|might|could"
    r"|(?:some|many|others|people|you|they|who|one)\s+(?:\w+\s+)?"
    r"(?:say|think|choose|pick|believe|argue))"
    r"|(?:\bnot|n['\u2019]t)\s+(?:think|believe|say|sure|see)|never"
    r"|(?:false|wrong|incorrect|untrue)\s+(?:that|to))\b[^.!?;:,\n]{0,40}\Z"
    r"|\b(?:initially|intuitively|originally|at\s+first(?:\s+(?:glance|sight))?)\b,?[^.!?;:,\n]{0,40}\Z)",
    re.I,
)
ASIDE = re.compile(  # words that make an answer one that the reply does not give
    r"\b(?:each|every|wrong|incorrect|false|worst|worse|least|unlikely|(?:second|next)(?:[\s-]best)?|common"
    r"|popular|frequent|previous|former|initial|original|old|earlier|tempting|attractive|alternative|other|another|runner[\s-]up"
    r"|their|his|her|the\s+(?!question|problem)\w+['\u2019]s)\b[^.!?;:,\n]{0,20}\Z",
    re.I,
)
_QUOTED = re.compile(  # what a text or a person says, before the statement that it quotes
    r"\b(?:texts?|essay|answer|response|reply|passage|stor\w+|poem|it|user|student|assistant"
    r"|candidate\w*(?:['\u2019]s)?"
    r"|model|author|prompt|instruction|line|he|she|they)\b[^.!?\n]{0,40}\b(?:says?|said|claims?(?:\s+that)?|states?"
    r"|writes?|wrote|reads?|(?:ends?|closes|begins|starts|conclude[sd]?)(?:\s+with)?|asks?(?:\s+for)?|asked\s+for"
    r"|(?:contains?|includes?)(?=[^.!?\n]{0,30}\b(?:instruction|line|sentence|statement|words?|phrase|claim|command)s?\W*\Z)"
    r"|tries|wants|line)\b[^.!?\n]{0,40}\s*\Z",
    re.I,
)
_YOURS = re.compile(r"\byour\s+(?:\w+\s+)?\Z", re.I)
_HYPOTHETICAL = re.compile(
    r"(?:^|[.!?;\n]\s*)(?:if(?!\s+I\b)|had|under|(?:for|in|with)\b(?!\s+(?:this|these|that|those|short|all)\b))"
    r"\b[^.!?\n]{0,200},\s*(?:the\s+|my\s+)?(?:\w+\s+)?\Z",
    re.I,
)
_CONDITIONAL = re.compile(  # in the sentence of a statement
    r"\b(?:if|unless|when(?:ever)?|in\s+case|provided|assuming|only)\b"
    r"|(?:^|:\s*)\W*(?:for|under|among|with|in(?!\s+(?:conclusion|summary|total|fact|short|sum|reality|general"
    r"|any|this|other\s+words|the\s+end)\b))\b[^.!?\n,]{1,60},",
    re.I,
)
_WERE = re.compile(r"\bif\b.*\bwere\b", re.I | re.S)
_WOULD = re.compile(r"\bwould\s+be\b", re.I)
_WITHDRAWN_CONCLUSION = re.compile(
    r"\b(?:because|since|although|though|while|when|as|that|than)\s+\Z", re.I
)
_NO_ANSWER = re.compile(
    r"n(?:one|othing|either)\b|un(?:known|clear|decided|determined)|impossible|n/a|all\b|both\b"
    r"|not\s+(?:listed|among|given|here|in|known|clear|possible|available|any|one)\b",
    re.I,
)
_NAME = re.compile(r"(?:(?:a|an|the)\s+)?(?:[A-Z\d]|\w\b(?=\W*\Z))")
_LETTER = re.compile(r"[A-Z]\W*")
_UNDECIDED = re.compile(
    r"\b(?:I\s+(?:\w{1,20}\s+)?(?:do\s+not|don['\u2019]t)\s+know"
    r"|I(?:['\u2019]m|\s+am)\s+(?:not\s+|un)sure"
    r"|I\s+(?:can\s?not|can['\u2019]t)\s+(?:decide|tell|say|answer|determine)"
    r"|cannot\s+be\s+determined|(?<![A-Za-z][.):]\s)none\s+of\s+(?:the|these|them|those)"
    r"(?:\s+(?:above|options|answers|choices))*"
    r"(?:\s+(?:(?:is|are|seems?|looks?|can\s+be)\s+(?:correct|right|true|valid)|(?:fits?|match(?:es)?|works?)"
    r"(?:\s+(?:really|well|exactly))?))?)(?=\s*(?:[.!]|\n|\Z))",
    re.I,
)
_SENTENCE = re.compile(r"(?:[^.!?\n。]|\.(?=\w))*")
_RETRACTION = re.compile(  # at the beginning of a sentence
    r"(?:(?<=[.!?\n。\uff01\uff1f।…;)}])|\A)[\s*_—\u2013-]{0,10}"
    r"(?:(?:oh|oops|ups|wait|hmm+|sorry|no|nein|non|нет|well|but|actually|等等|等一下)[\s,.!…—\u2013\uff0c-]+){0,3}"
    r"(?:(?:(?:please|let['\u2019]?s)\s+)?(?:scratch|strike|disregard|forget)\s+(?:that|this|it|my)\b"
    r"|(?:that|this|it|my\s+\w+|the\s+(?:answer|result)\s+above)"
    r"(?:(?:['\u2019]s|\s+(?:is|was|seems|looks|must\s+be))\s+(?:\w+ly\s+|too\s+)?"
    r"(?:wrong|incorrect|mistaken|not\s+(?:right|correct)|an?\s+(?:mistake|error)|false|untrue"
    r"|generous|harsh|strict|lenient)"
    r"|\s+(?:(?:is|was)n['\u2019]t|can(?:not|['\u2019]t)\s+be)\s+(?:right|correct))\b(?!\s+(?:to|that|for|if|when)\b)"
    r"|(?:\w+\s+){0,2}I\s+(?:(?:was|am)\s+(?:wrong|mistaken)|made\s+an?\s+(?:\w+\s+)?(?:mistake|error)"
    r"|mis(?:read|counted|calculated)|take\s+(?:that|it)\s+back|forgot|disagree)\b"
    r"|(?:it|that|this|the\s+(?:answer|result))\s+(?:should|must|ought)\b"
    r"|let\s+me\s+re(?:compute|calculate|count|consider|do)\b|on\s+(?:second\s+thoughts?|reflection)\b"
    r"|(?:probably|maybe|perhaps|I\s+(?:guess|think|suppose))\s+not\b|just\s+kidding\b"
    r"|I(?:['\u2019]m|\s+am)\s+(?:really\s+)?(?:not\s+(?:really\s+)?|un)sure\b"
    r"|(?:he|she|they)\s+(?:is|are)\s+(?:wrong|mistaken)\b|or\s+is\s+it\b|my\s+(?:mistake|bad|error)\b|correction\b"
    r"|(?:das|es)\s+(?:ist|war)\s+(?:\w+\s+)?falsch|das\s+stimmt\s+(?:so\s+)?nicht|falsch[.!,]|korrektur\b"
    r"|ich\s+(?:korrigiere|habe\s+mich\s+(?:geirrt|ver\w+))"
    r"|c['\u2019]est\s+(?:faux|incorrect)|je\s+me\s+(?:suis\s+tromp|corrige)|faux[.!,]"
    r"|(?:eso\s+)?(?:es|está)\s+(?:mal|incorrecto)\b|me\s+(?:he\s+)?equivo\w+|corrección\b"
    r"|(?:mi\s+sono|ho)\s+sbagliat\w+|è\s+sbagliato|(?:isso\s+)?está\s+errado|me\s+enganei"
    r"|(?:это\s+)?не(?:верно|правильно)[.!,]|я\s+ошиб\w+"
    r"|(?:这|這|我|上面)?(?:是|算|答)?(?:不对|不對|[错錯](?:了|误|誤)|更正|纠正)|間違|訂正|틀렸|خطأ|गलत"
    r"|(?:(?:no|nein|non|não|нет|いや|아니|لا|नहीं|不)\s*[,、\uff0c،]\s*"
    r"(?:(?:it['\u2019]s|it\s+is|es\s+ist|c['\u2019]est|en\s+realidad(?:\s+es)?|en\s+fait"
    r"|in\s+realtà|na\s+verdade|eigentlich|tatsächlich)\s+)?|(?:actually|sorry)\s*,\s*)"
    r"[^\s.!?。]{1,20}(?:[.!。]|\Z))",  # No, fifteen.
    re.I,
)


_IN_DOUBT = re.compile(r"\W{0,4}(?:or\s+is\s+it\b|I\s+(?:guess|think|suppose)\s+not\b)", re.I)


class Statement(NamedTuple):
    """What a reply announces as its answer.

    A ``binding`` statement decides even if it is not valid, as in "Final answer: unknown".
    """

    start: int
    text: str  # the rest of the sentence
    named: bool  # by a noun, such as "answer"
    binding: bool


def statements(text: str, announced: re.Pattern[str] = ANSWER) -> list[Statement]:
    """Return the statements of a `plain` text in their order.

    ``announced`` matches what announces them: `ANSWER` or `SCORE`.
    """
    announced_texts = []
    for match in announced.finditer(text):
        if not _is_aside(text, match):
            stated = _sentence(text, match.end())
            colon = match["aside"] is None and not set(":=→").isdisjoint(match[0])
            binding = bool(_LETTER.fullmatch(stated) or _NO_ANSWER.match(stated))
            if match["of"] is None:
                binding = binding or colon or _NAME.match(stated) is not None
            announced_texts.append(Statement(match.end(), stated, True, binding))
    for match in _CONCLUDED.finditer(text):
        clause = _clause_before(text, match)
        if not (_WITHDRAWN.search(clause) or _WITHDRAWN_CONCLUSION.search(clause)):
            stated = _sentence(text, match.end())
            announced_texts.append(
                Statement(match.end(), stated, False, bool(_LETTER.fullmatch(stated)))
            )
    return sorted(announced_texts)


def is_withdrawn(text: str, start: int) -> bool:
    """Return whether the words before an offset say that what follows is not (or no more) meant."""
    return _WITHDRAWN.search(text[max(0, start - LONGEST_CLAUSE) : start]) is not None


def is_conditional(text: str, start: int) -> bool:
    """Return whether the sentence at an offset states something under a condition only."""
    before = text[max(0, start - LONGEST_SENTENCE) : start]
    begin = max(before.rfind(end) for end in (". ", "! ", "? ", "\n")) + 1
    return _CONDITIONAL.search(before[begin:] + _sentence(text, start)) is not None


def undecided(text: str) -> list[int]:
    """Return the offsets of sentences such as "I don't know." and "None of the above."."""
    return [match.start() for match in _UNDECIDED.finditer(text)]


_DIGIT = re.compile(r"\d")
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
_UNMARKED = ASCII_FORMS | dict.fromkeys(map(ord, "*_`"), " ")
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
    r"(?:^|(?<=[.!?]\s)|(?<=。))[#>\- ]{0,8}(?:(?:explanation|reason\w*|rationale|steps?"
    r"|calculation|breakdown|sources?|references?|confidence|certainty|probability|erklärung|explication"
    r"|explicación|解释|説明|설명|(?P<check>(?:double[\s-]?)?check|verif\w*|v[eé]rification|notes?"
    r"|prob[ea]|comprobación|проверка|验证|驗證|验算|驗算|検算|검산))\b[\w ]{0,20}(?::|\n)"
    r"|here\s+(?:is|are)\b|(?:please\s+)?note\s+that\b"
    r"|(?:let\s+me|to|we\s+can|let['\u2019]?s)\s+(?:double[\s-]?)?(?:check|verify)\b)",
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
_LONGEST_END = 400  # characters of the end of a reply in which rivals are looked for
_RIVALS = (  # numbers that a reader takes for the answer, although another one is the last
    # 72, before an explanation
    re.compile(r"\A\s*+([^\w\n]*+\d[\d.,]*+[^\w\n]*)\n\s*\n(?=[^\n]*[^\W\d_]{2})"),
    re.compile(  # Pay **$64** for 16 glasses
        r"\*\*([^\w\s*]?[-\u2212]?\d[\d,]*(?:\.\d+)?(?: ?[^\W\d_]+){0,3} ?%?)\*\*"
        r"[^*=]*\d[^*=]*\Z"
    ),
    re.compile(  # 2.5 hours (150 minutes)
        r"([^\w\s(]?\d(?:[^\s():.]|\.\d)*)(?:[^\d():\n.!?]|[.!?](?=\W*\())*+"
        r"(?<!\\)\([^()\n]*\d[^()\n]*\)[^\w\n]*\Z"
    ),
    re.compile(r"([^\w\s(]?\d[^\s()]*)\D*\Z"),  # the number before a check
    re.compile(  # 45 is the answer
        r"(?:\A|[\n.!?]\s)\W*?([^\w\s(]?\d[\d,]*(?:\.\d+)?)\s+is\s+(?:the|my)\s+(?:\w+\s+)?answer\b",
        re.I,
    ),
)


class Conclusion(NamedTuple):
    """A reply, the end of its final number, and texts in which no other number may be."""

    text: str
    end: int
    equal: list[str]
    announced: bool


def conclusion(text: str) -> Conclusion:
    r"""Return the end of the statement of a reply's final number, without remarks.

    That number is in the last ``\boxed{…}`` or ``#### 72``, or announced ("The answer is 72"), or
    the last one of the text. It is uncertain if ``equal`` has another number: in what follows an
    announced number, or where a reader would look for the answer.

    Raises:
        Unparseable: If the last box has no number, or if the text boxes alternatives.
    """
    text = _without_footer(_without_footer(_CONFIDENCE.sub("", text)))
    unmarked = text.translate(_UNMARKED)
    announcements = _announcements(unmarked)
    direct = [match for match in announcements if _is_direct(match)]
    boxes = list(_BOXED_NUMBER.finditer(text))
    if boxes and not (direct and direct[-1].start() > boxes[-1].start()):
        last = boxes[-1]
        if len(boxes) > 1 and _BETWEEN_BOXES.fullmatch(text, boxes[-2].end(), last.start()):
            raise Unparseable("The answer boxes several numbers.")
        if not _DIGIT.search(last["boxed"] or last["number"]):
            raise Unparseable("The last box of the answer contains no number.")
        end = last.end("rest") if last["boxed"] else last.end()
        return Conclusion(text[:end], end, [], True)
    if not direct:
        start = announcements[-1].end() if announcements else 0
        remarks = [
            match.start()
            for match in _REMARK.finditer(unmarked, start)
            if match["check"] or announcements
        ]
        return Conclusion(text, len(text), _rivals(text, remarks), False)
    end = direct[-1].end()
    stated = direct[-1]["stated"]
    if (boxes or len(direct) > 1) and is_conditional(unmarked, direct[-1].start("stated")):
        raise Unparseable("The reply states another number under a condition.")
    remark = _REMARK.search(unmarked, end)
    is_remark = remark is not None and not _DOUBTFUL.search(unmarked, remark.start())
    rest = text[end : remark.start()] if remark is not None and is_remark else text[end:]
    equal = [_ASIDES.sub(" ", rest)]
    if not _EQUATION.search(stated):
        equal.append(stated)
    return Conclusion(text, end, equal, True)


def _without_footer(text: str) -> str:
    footer = _FOOTER.search(text)
    return text[: footer.start()] if footer and _DIGIT.search(text, 0, footer.start()) else text


def _announcements(unmarked: str) -> list[re.Match[str]]:
    """Return the announcements of numbers, with the rest of their sentences as ``stated``."""
    announcements = []
    for match in _ANNOUNCED_NUMBER.finditer(unmarked):
        is_of_part = match["of"] and _OF_A_PART.search(match["of"])
        is_heading = match["aside"] and ":" in match[0]  # Solution: First, …
        if not (is_of_part or is_heading or _is_aside(unmarked, match)):
            announcements.append(match)
    return [match for match in announcements if _DIGIT.search(match["stated"])]


def _is_direct(announcement: re.Match[str]) -> bool:
    """Return whether an announcement leads to a number at once, rather than to a calculation."""
    before = _DIGIT.split(announcement["stated"], maxsplit=1)[0]
    introduction = announcement[0][: announcement.start("stated") - announcement.start()]
    if set(":=→\n").isdisjoint(introduction):
        return not _DERIVED.search(before)
    return _BEFORE_NUMBER.fullmatch(before) is not None


def _rivals(text: str, remarks: list[int]) -> list[str]:
    """Return what a reader may take for the answer of a text that does not announce a number."""
    is_last = bool(remarks) and "\n\n" not in text[remarks[-1] :].strip()
    before = text[: remarks[-1]] if is_last else ""
    end = text[-_LONGEST_END:]
    texts = (text, end, end, before[-_LONGEST_END:], end)
    matches = [pattern.search(part) for pattern, part in zip(_RIVALS, texts, strict=True)]
    return [match[1] for match in matches if match]


_NEXT_TURN = re.compile(
    r"^[ \t#*]*+(?:(?:next|new)[ \t]+)?(?:question|q|problem|exercise|frage|pregunta|问题|問題|질문"
    r"|вопрос|human|user|instruction)[ \t]*+\d*+[ \t*]*+[:\uff1a]"
    r"|<\|(?:endoftext|end_of_text|im_end|eot_id)\|>",
    re.I | re.M,
)


def first_turn(text: str, has_answer: Callable[[str], bool]) -> str:
    """Return a reply without a further question or turn that the model has made up.

    A reply that has no answer before the question, such as one that repeats it, is returned whole.
    """
    match = _NEXT_TURN.search(text)
    if match is None or not has_answer(text[: match.start()]):
        return text
    return text[: match.start()]


def is_retracted(text: str, end: int) -> bool:
    """Return whether a sentence after an offset takes back what the text states before it.

    Examples are "Scratch that.", "That is wrong." and "No, fifteen."
    """
    return _RETRACTION.search(text, end) is not None or _IN_DOUBT.match(text, end) is not None


def is_quoted(text: str, start: int) -> bool:
    """Return whether the words before an offset say that another text states what follows."""
    return _QUOTED.search(text, max(0, start - LONGEST_INTRODUCTION), start) is not None


def _is_aside(text: str, announcement: re.Match[str]) -> bool:
    """Return whether an announcement is of an answer that the reply does not give."""
    clause = _clause_before(text, announcement)
    if _WITHDRAWN.search(clause) or ASIDE.search(clause) or is_quoted(text, announcement.start()):
        return True
    if ":" not in announcement[0] and _YOURS.search(clause):
        return True
    before = text[max(0, announcement.start() - LONGEST_SENTENCE) : announcement.start()]
    hypothesis = _HYPOTHETICAL.search(before)
    if hypothesis is None:
        return False
    return bool(_WOULD.search(announcement[0]) or _WERE.search(hypothesis[0]))


def _clause_before(text: str, match: re.Match[str]) -> str:
    return text[max(0, match.start() - LONGEST_CLAUSE) : match.start()]


def _sentence(text: str, start: int) -> str:
    match = _SENTENCE.match(text, start, start + LONGEST_SENTENCE)
    return match[0].strip() if match else ""


_QUOTATION = re.compile(
    r"(?P<block>^[ \t]*>[^\n]*(?:\n[ \t]*>[^\n]*)*)"
    r"|(?P<fence>`{3,}+(?P<fenced>.*?)(?:`{3,}+|\Z))"
    r"|[\[(][^\[\]()\n:]{0,400}[\])]|\{\s*\"[^{}]*\}|\[[^\[\].:]{0,400}(?:\]|\Z)"  # lists and JSON
    r"|(?P<inline>``[^`\n]+?''|(?P<ticks>`{1,2})[^`]+(?P=ticks)"
    r"|(?<!\w)\"[^\"]+\"(?!\w)|(?<!\w)[“”„‟](?=\S)[^“”„‟]+[“”‟]|(?<!\w)[«»][^«»]+[«»]"
    r"|(?<!\w)[\u2039\u203a][^\u2039\u203a]+[\u2039\u203a]"
    r"|「[^「」]+」|『[^『』]+』|《[^《》]+》"
    r"|(?<!\w)[\u2018\u201a'](?!\s)(?:[^'\u2019\u2018\n]|(?<=\w)['\u2019](?=\w))+['\u2019](?!\w))",
    re.M | re.S,
)
_INFO = re.compile(r"\w*[ \t]*\n")  # the language after an opening fence
_QUOTE_MARK = re.compile(r"^[ \t]*>[ \t]?", re.M)
_QUOTING = re.compile(
    r"\b(?:sa(?:y|ys|id|ying)|claim\w*|stat(?:es|ed|ing)|contain\w*|includ\w*|read(?:s|ing)?"
    r"|w(?:rites?|rote|ritten)|quot\w+|has|had|having|with|ends?|ended|ending|beg[iau]n\w*|start\w*"
    r"|t(?:ells?|old)|asks?|asked|instruct\w*|tr(?:y|ies|ied)|attempt\w*|inject\w*|add(?:s|ed)?"
    r"|insert\w*|append\w*|print\w*|repeat\w*|requir\w*|demand\w*|want\w*|expect\w*|phrase\w*"
    r"|example|such|format|e\.g|instead|than|dit|sagt|dice|contient|enthält|contiene)\b"
    r"|说|写|包含|言",
    re.I,
)
_CLAUSE_END = re.compile(r"[.;!?,]\s|[。\uff0c\uff1b]|\b(?:and|so|but)\b")
_LINE_END = re.compile(r"[\s.,;!?*_)。]*(?:\n|\Z)")
_HEADING = re.compile(
    r"(?:^|[.!?]\s)(?:my\s+|the\s+)?(?:final|result|list|output|conclusion|evaluation|assessment)"
    r"[\w ]{0,20}:\Z",
    re.I,
)
_COMPLETE = (":", "\uff1a", ".", "!", "?", "。")


def unquoted(text: str) -> str:
    """Return text with "…" in place of quotations: in quotation marks, code or block quotes.

    Marks around what the text itself states are dropped instead, as around a whole line or after
    "the answer is".
    """
    pieces = []
    end = 0
    for number, match in enumerate(_QUOTATION.finditer(text)):
        if match["block"]:
            content = _QUOTE_MARK.sub("", match[0])
        elif match["fence"]:
            content = _INFO.sub("", match["fenced"], count=1).strip("\n")
        elif match["inline"]:
            content = match[0].strip("`") if match["ticks"] else match[0][1:-1]
        else:
            continue
        pieces.append(text[end : match.start()])
        stated = number < MOST_QUOTATIONS and _is_stated(text, match, content)
        pieces.append(content if stated else " … ")
        end = match.end()
    return "".join([*pieces, text[end:]])


def _is_stated(text: str, quotation: re.Match[str], content: str) -> bool:
    """Return whether the text states what a quotation contains, rather than quoting it."""
    before = text[max(0, quotation.start() - LONGEST_INTRODUCTION) : quotation.start()]
    line = before.rpartition("\n")[2]
    starts_line = not line.strip(" \t*_#-")
    introduction = line
    if starts_line:
        introduction = before[: len(before) - len(line)].strip().rpartition("\n")[2]
    introduction = introduction.strip(" \t*_")
    last_clause = _CLAUSE_END.split(introduction.rstrip(":\uff1a,.;!? "))[-1]
    if _QUOTING.search(last_clause):
        return False
    if _announces(introduction) and not _states(content):
        return True
    if not starts_line or _LINE_END.match(text, quotation.end()) is None:
        return False
    if not introduction and not text[quotation.end() :].strip():
        return True
    if quotation["block"] or (introduction and not introduction.endswith(_COMPLETE)):
        return False
    return not quotation["fence"] or not _states(content)


def _announces(introduction: str) -> bool:
    """Return whether a text ends in words such as "the answer is" or "final list:"."""
    if _HEADING.search(introduction):
        return True
    return any(statement.start == len(introduction) for statement in _states(introduction))


def _states(text: str) -> list[Statement]:
    return [*statements(text), *statements(text, SCORE)]
