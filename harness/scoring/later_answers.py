"""Whether a reply replaces an answer, or takes it back, in what it states after it.

>>> states_another('{"label": "spam"} **Final label:** ham', 17, "spam", "label")
True
>>> states_another('{"label": "spam"} The label is based on its link.', 17, "spam", "label")
False
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice

from harness.scoring.conclusions import (
    ABOUT_ANSWER,
    ANSWER_NOUN,
    MAX_CLAUSE_CHARS,
    MAX_LABELS,
    MAX_SENTENCE_CHARS,
    blank_emphasis,
    is_limit,
    is_mentioned,
    is_replaced,
    is_retracted,
)

_START = (  # of a sentence
    r"(?:(?:^|[.!?;]\s)[^\w\n]{0,10}|,\s(?=(?:the|my)\b))"
    r"(?:(?:so|thus|therefore|hence|but|however|then|no|wait|actually|in\s+conclusion|overall|and)\W{1,3}){0,2}"
)
_OWN = (  # that make a label one of the reply's answer
    r"(?:my|final|correct(?:ed)?|revised|updated|actual|right|real|true|proper|new|better|best|overall"
    r"|(?:more|most)\s+\w+)"
)
_COLON = r"\s{0,3}(?:[:=→\uff1a]|[\u2013\u2014-](?=\s))[^\w\n$€£-]{0,10}"
_IS = (
    r"\s+(?:is|was|(?:should|must|ought\s+to|has\s+to|needs\s+to)\s+(?:have\s+been|be|say|read)|would\s+be|becomes)\b"
    r"(?:\s+now)?\s*:?\s*"
)
_HEADING = r"[^\w\n]{0,5}\n\s*"
_VALUE = r"(?P<value>[^\n]{1,200})"
_BELOW = r"(?<=\n)(?P<below>[^\n]{1,200})"
_SHORT_VALUE = (  # one that does not describe the answer
    r"(?P<short>(?:an?\s+|the\s+)?[^\s.,;:!?\n]{1,40}(?:\s[^\s.,;:!?\n]{1,40}){0,2}?)"
    r"(?=\s*(?:[.,;!\n]|\Z|\b(?:because|since|as|instead|rather|and|not)\b))"
)
_DESCRIBES = re.compile(
    r"[^.]*\sof\s|\w+ly\s+(?:an?|the)\b|(?:(?:\w+ly|very|quite|also|the|an?|most|well|both)\s+)*(?:\w{3,}(?:ed|able|ible|ing|ght|wn|sen|ven)|accurate|appropriate|correct|straight\S*|self\S*"
    r"|final|right|wrong|sure|certain|evident|self|in|at|of|for|on|from|as|one|chosen|given|very|well|high|low|strong|sound|fair|best"
    r"|most|more|less|too|so|such|what|because|since|due|easy|simple|plain|apparent|likely|common|important|relevant|subjective)\b",
    re.I,
)
_QUALITY_AS_ANSWER = re.compile(r"\W*(?:positive|negative|neutral|even|odd|true)\W*", re.I)
_FOREIGN_LABEL = (
    r"(?:(?:étiquette|catégorie|classification|réponse|etiqueta|categoría|clasificación|respuesta|etichetta|categoria"
    r"|classificazione|risposta|resposta|classificação)\s+(?:finale?|correcte|correcta|corretta|correta)"
    r"|(?:endgültige[sr]?|richtige[sr]?|korrekte[sr]?|finale[sr]?)\s+(?:label|antwort|kategorie|einstufung|klassifikation|klassifizierung)"
    r"|(?:итогов|окончательн|правильн|верн)\w+\s+(?:метка|категория|ответ|класс|классификация)"
    r"|(?:最终|最終|最后|最後|正确|正確)的?(?:标签|標籤|分类|分類|答案|类别|類別|ラベル)|最終ラベル|正しいラベル|최종\s?(?:라벨|레이블|답))"
)
_FOREIGN_LINK = r"\s{0,3}(?:[:=\uff1a]|\b(?:ist|est|es|è|é|это)\b|是|为|為|は|은|는)[^\w\n]{0,10}"
_CHANGE = (
    r"(?:please\s+|(?:I|we)(?:['\u2019](?:d|ll)|\s+(?:should|would|will|must))\s+(?:now\s+)?|let['\u2019]?s\s+)?"
    rf"(?:(?:change|revise|correct|switch|update|amend)\s+(?:(?:the|my|this|that)\s+(?:\w+\s+)?{ANSWER_NOUN}|it|this|that)\s+(?:in)?to"
    r"|(?<=[d]\s)(?:label|call|classify|mark|categori[sz]e|tag)\s+(?:it|this|that)(?:\s+as)?)\s+"
)
_NEGATED = re.compile(r"\b(?:not|no|instead|rather|than|from|never|isn)\b|n['\u2019]t\b", re.I)
_QUALITY = (
    r"(?:(?:more|most)\s+(?:appropriate|accurate|suitable|fitting|apt|plausible|precise|correct|likely(?!\s+to\b))"
    r"|better\s+suited|(?:the\s+|an?\s+)?(?:better|best|right|correct|proper|actual)\s+(?:\w+\s+)?"
    rf"(?:fit|match|term|description|one|{ANSWER_NOUN}))"
)
_BETTER = re.compile(  # a sentence that calls something better than the answer
    rf"{_START}(?:(?:still|yet|though|perhaps|maybe|in\s+hindsight|I\s+(?:now\s+)?(?:think|believe|feel)(?:\s+that)?),?\s+){{0,2}}"
    r"(?!(?:this|that|these|those|it|they|he|she|i|we|you|there|which|what|such|its?|his|her|the\s+(?!\S+\s+(?:label|category|class|answer|option)\b"
    r"|label\b|category\b|class\b|answer\b|option\b))\b)"
    r"(?P<subject>[^\s.,:;!?\n]{1,40}(?:\s[^\s.,:;!?\n]{1,40}){0,3}?)\s+"
    r"(?:(?:is|was|seems?|looks?|appears?|feels?|sounds?|(?:would|might|may|could|should)\s+(?:have\s+been|be))\s+(?:to\s+be\s+)?"
    rf"(?:\w+ly\s+|much\s+|far\s+|the\s+|an?\s+|even\s+){{0,2}}{_QUALITY}"
    r"|(?:(?:would|might|may|could)\s+)?(?:fit|suit|match|describe|capture|reflect|work)s?\s+(?:\w+\s+){0,3}better)\b"
    r"(?P<than>\s+(?:\w+\s+){0,2}than\b[^.!?\n]{0,60})?",
    re.I | re.M,
)


_CHANGED = re.compile(r"[^\w\n]{0,4}[→⇒]\s{0,2}\w")
_LABEL_BEFORE = re.compile(r"(?P<name>[^\W_][^\n:=]{0,60}?)[^\w\n:=]*[:=][^\w\n]*\Z")
_BEFORE_LABEL = (
    r"(?:^|[.!?,;:\u2013\u2014]\s)[\W_]{0,10}"
    r"(?:(?:the|my|so|thus|no|wait|actually|correction|correct(?:ed)?|right|revised|updated|final|new|better|real)\W{1,4}){0,3}"
)


@lru_cache(maxsize=64)
def _labelled(name: str, *, nouns: bool) -> re.Pattern[str]:
    """Return a pattern of a sentence that states an answer.

    ``name`` is the answer's label. With ``nouns``, any word for an answer is a label, not only one
    after a word such as "final".
    """
    own_name = r"\s+".join(map(re.escape, blank_emphasis(name).split()))
    own_name = rf"{own_name}\b" if own_name else r"(?!)"
    plain_label = own_name
    if nouns:
        plain_label = rf"{own_name}|{ANSWER_NOUN}"
    final_label = rf"(?:the\s+|a\s+)?(?:{_OWN}\s+){{1,3}}(?:{own_name}|{ANSWER_NOUN})"
    label = rf"(?P<label>{final_label}|(?:the\s+)?(?:{plain_label}))"
    return re.compile(
        rf"{_START}{label}(?:{_COLON}{_VALUE}|{_IS}{_SHORT_VALUE}|{_HEADING}{_BELOW})"
        rf"|{_START}{_FOREIGN_LABEL}{_FOREIGN_LINK}(?P<foreign>[^\n]{{1,200}})"
        rf"|{_START}{_CHANGE}(?P<changed>[^\n]{{1,200}})",
        re.I | re.M,
    )


def states_another(
    text: str,
    end: int,
    answer: str,
    name: str,
    *,
    nouns: bool = False,
    fields: tuple[str, ...] = (),
) -> bool:
    """Return whether a reply states another answer in words after an offset.

    Examples are "**Final label:** ham" and "However, ham seems more appropriate".

    Args:
        text: The reply.
        end: The end of the answer.
        answer: The answer. A statement that repeats it is not another one.
        name: The name of the answer, such as the key of a JSON object.
        nouns: Whether words such as "category" name the answer too.
        fields: Names that are not the answer's, in any case.
    """
    if len(answer) > MAX_CLAUSE_CHARS or not answer:
        return False
    rest = blank_emphasis(text[end:])
    others = {blank_emphasis(field).casefold() for field in fields}
    if _is_denied(rest, answer):
        return True
    for statement in islice(_labelled(name, nouns=nouns).finditer(rest), MAX_LABELS):
        if _is_another(rest, statement, answer) and _label(statement) not in others:
            return True
    for statement in islice(_BETTER.finditer(rest), MAX_LABELS):
        is_compared = statement["than"] and not _names(statement["than"], answer)
        if not is_compared and not _names(statement["subject"], answer):
            return True
    return False


def _label(statement: re.Match[str]) -> str:
    return (statement["label"] or "").casefold().removeprefix("the ")


def _is_another(text: str, statement: re.Match[str], answer: str) -> bool:
    """Return whether a statement (a match of `_labelled`) is the reply's, and not the answer."""
    value = statement["foreign"] or statement["changed"]
    if value:
        return not repeats(value, answer)
    short_value = statement["short"]
    value = short_value or statement["value"] or statement["below"]
    if repeats(value, answer) or (short_value and _DESCRIBES.match(short_value)):
        return False
    start, end = statement.span("label")
    is_about_answer = ABOUT_ANSWER.match(value) and not _QUALITY_AS_ANSWER.fullmatch(value)
    return not (is_about_answer or is_limit(text, start) or is_mentioned(text, start, end))


def _is_denied(text: str, answer: str) -> bool:
    """Return whether a sentence says that the answer is wrong: "It is not spam."."""
    denial = (
        rf"{_START}(?:it|this|that|(?:the|this)\s+\w+)(?:\s+(?:is|was)(?:n['\u2019]t|\s+not)|['\u2019]s\s+not)"
        rf"\s+(?:an?\s+|the\s+)?{re.escape(answer)}\s*(?:[.!,;]|\n|\Z)"
    )
    return re.search(denial, text, re.I | re.M) is not None


def repeats(value: str, answer: str) -> bool:
    """Return whether what a label introduces is the answer, or a sentence that states it."""
    stated = value.strip(" \t\r\"'([{$\\:\uff1a")
    if not re.search(r"\w", stated):
        return True
    if re.match(rf"{re.escape(_bare(answer))}(?:\.0+)?(?!\w|[.,]\d)", _bare(stated)):
        return True
    return _names(value, answer) and _NEGATED.search(value) is None


def _names(text: str, answer: str) -> bool:
    """Return whether a text contains the answer as a word."""
    word = rf"(?<![\w.]){re.escape(_bare(answer))}(?!\w|\.\d)"
    return re.search(word, _bare(text)) is not None


def _bare(text: str) -> str:
    return re.sub(r"(?<=\d),(?=\d{3})", "", text).casefold().strip()


def is_taken_back(text: str, label: str, end: int, answer: str) -> bool:
    """Return whether a text takes an answer of any kind back after an offset, or replaces it.

    Args:
        text: The reply.
        label: What the reply writes before the answer, such as "Sentiment: ".
        end: The end of the answer and of what belongs to it.
        answer: The answer.
    """
    if is_retracted(text, end) or _CHANGED.match(text, end):
        return True
    return _is_relabelled(text, label, end, answer) or is_replaced(
        blank_emphasis(text), end, answer
    )


def _is_relabelled(text: str, label: str, end: int, answer: str) -> bool:
    """Return whether a sentence after an offset has the label of an answer, but not the answer.

    Case and emphasis are ignored: "**sentiment:** negative" has the label "Sentiment:". Only a
    label that ends in a colon or an equals sign is looked for.
    """
    match = _LABEL_BEFORE.search(blank_emphasis(label[-MAX_CLAUSE_CHARS:]))
    if match is None:
        return False
    name = r"\s+".join(map(re.escape, match["name"].split()))
    relabelled = re.compile(rf"{_BEFORE_LABEL}(?P<label>{name}\s*[:=])", re.I | re.M)
    plain_text = blank_emphasis(text)
    beginning = answer[:MAX_CLAUSE_CHARS].casefold()
    for statement in islice(relabelled.finditer(plain_text, end), MAX_LABELS):
        rest = plain_text[statement.end() : statement.end() + MAX_SENTENCE_CHARS]
        stated = rest.strip(" \t\r\n\"'([{$\\")
        is_repeated = not stated or stated.casefold().startswith(beginning)
        if is_limit(plain_text, statement.start("label")):
            continue
        if not is_repeated and not is_mentioned(plain_text, *statement.span("label")):
            return True
    return False
