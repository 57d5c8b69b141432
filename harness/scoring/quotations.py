"""Quotations: which texts a reply quotes, and which it states itself.

>>> replace_quotations('It says "Answer: yes". Answer: `no`')
'It says  … . Answer: no'
"""

import re

from harness.scoring.conclusions import (
    MAX_INTRODUCTION_CHARS,
    SCORE,
    Statement,
    statements,
    text_before,
)

MAX_QUOTATIONS = 1_000  # any further quotations in a reply are not its own statements

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
_OPTION_LABEL = re.compile(r"(?<!\w)[A-Z](?:[).]|\s?[:\u2013\u2014-])[*_]*[ \t]?\Z")
_HEADING = re.compile(
    r"(?:^|[.!?]\s)(?:my\s+|the\s+)?(?:final|result|list|output|conclusion|evaluation|assessment)"
    r"[\w ]{0,20}:\Z",
    re.I,
)
_COMPLETE = (":", "\uff1a", ".", "!", "?", "。")


def replace_quotations(text: str) -> str:
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
        stated = number < MAX_QUOTATIONS and _states_quotation(text, match, content)
        pieces.append(content if stated else " … ")
        end = match.end()
    return "".join([*pieces, text[end:]])


def _states_quotation(text: str, quotation: re.Match[str], content: str) -> bool:
    """Return whether the text states what a quotation contains, rather than quoting it."""
    before = text_before(text, quotation.start(), MAX_INTRODUCTION_CHARS)
    if _OPTION_LABEL.search(before):
        return True
    line = before.rpartition("\n")[2]
    starts_line = not line.strip(" \t*_#-")
    introduction = line
    if starts_line:
        introduction = before[: len(before) - len(line)].strip().rpartition("\n")[2]
    introduction = introduction.strip(" \t*_")
    last_clause = _CLAUSE_END.split(introduction.rstrip(":\uff1a,.;!? "))[-1]
    if _QUOTING.search(last_clause):
        return False
    if _introduces(introduction) and not _all_statements(content):
        return True
    if not starts_line or _LINE_END.match(text, quotation.end()) is None:
        return False
    if not introduction and not text[quotation.end() :].strip():
        return True
    if quotation["block"] or (introduction and not introduction.endswith(_COMPLETE)):
        return False
    return not quotation["fence"] or not _all_statements(content)


def _introduces(introduction: str) -> bool:
    """Return whether a text ends in words such as "the answer is" or "final list:"."""
    if _HEADING.search(introduction):
        return True
    return any(statement.start == len(introduction) for statement in _all_statements(introduction))


def _all_statements(text: str) -> list[Statement]:
    return [*statements(text), *statements(text, SCORE)]
