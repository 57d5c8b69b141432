"""IFEval's instructions about a text's form, language and letter case, its beginning and end.

The official checkers search with patterns that take quadratic time on some texts; these scan once.
"""

from __future__ import annotations

import json
import re
from typing import Any

from harness.scoring import cut
from harness.scoring.instructions.language_data import identified
from harness.scoring.instructions.texts import (
    CURLY_TO_STRAIGHT,
    exactly,
    expression,
    ifeval,
    missed,
)

ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
"""The answers that `constrained_response` accepts."""

DIVIDER = "******"
FENCES = ("```json", "```Json", "```JSON", "```")
"""Prefixes that are removed from JSON, once each."""

_EMPHASIS = re.compile(r"\*[^\n*]*\*")
_STRONG = re.compile(r"\*\*[^\n*]*\*\*")
_HIGHLIGHT = re.compile(r"(?<!\*)(\*{1,3})(?![\s*])[^*\n]*(?<!\s)\1(?!\*)")
_BULLET = re.compile(r"^[^\S\n]*(?:\*(?!\*)|-(?!-))(?=.*\w)", re.MULTILINE)
_STAR = re.compile(r"^\*[^*].*$", re.MULTILINE)
_POSTSCRIPTS = {"P.P.S": re.compile(r"p\.\s?p\.\s?s"), "P.S.": re.compile(r"p\.\s?s\.")}


@ifeval("combination:repeat_prompt")
def repeat_prompt(text: str, prompt_to_repeat: str) -> str:
    """The text begins with the request, in any case."""
    if text.strip().lower().startswith(prompt_to_repeat.strip().lower()):
        return ""
    return f"begins with {cut(text.strip(), 60)!r}, not with the request"


@ifeval("combination:two_responses")
def two_responses(text: str) -> str:
    """Two different responses, separated by six asterisks, which may also come first or last."""
    parts = [part.strip() for part in text.split(DIVIDER)]
    found = [part for part in parts if part]
    if not all(parts[1:-1]):
        return f"an empty response between two {DIVIDER}"
    if wrong := exactly(len(found), 2, f"responses divided by {DIVIDER}"):
        return wrong
    return "the two responses are equal" if found[0] == found[1] else ""


@ifeval("startend:end_checker")
def end_phrase(text: str, end_phrase: str, *, corrected: bool = False) -> str:
    """The text ends with a phrase, in any case, perhaps before a closing ``"``."""
    wanted, shown = end_phrase.strip(), text.strip()
    ends = [shown.strip('"')]
    if corrected:  # also finds a phrase that ends in a quote, or is in curly quotes
        curly = "\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"
        ends = [shown, shown.strip(f'"{curly}').strip()]
    if any(end.lower().endswith(wanted.lower()) for end in ends):
        return ""
    return f"ends with {shown[-60:]!r}, {cut(wanted, 80)!r} wanted"


@ifeval("startend:quotation")
def quotation(text: str, *, corrected: bool = False) -> str:
    """The text is in straight double quotes."""
    text = (text.translate(CURLY_TO_STRAIGHT) if corrected else text).strip()
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return "" if quoted else "not in double quotation marks"


@ifeval("punctuation:no_comma")
def no_comma(text: str) -> str:
    """The text has no comma."""
    return exactly(text.count(","), 0, "commas", "none")


@ifeval("change_case:english_capital")
def english_capital(text: str, *, corrected: bool = False) -> str:
    """English in capital letters only."""
    if not text.isupper():
        return "not all in capital letters"
    # langdetect ignores words in capital letters, and so guesses by the few others.
    return response_language(text.lower() if corrected else text, "en")


@ifeval("change_case:english_lowercase")
def english_lowercase(text: str) -> str:
    """English in lower-case letters only."""
    return response_language(text, "en") if text.islower() else "not all in lower-case letters"


@ifeval("language:response_language")
def response_language(text: str, language: str, *, corrected: bool = False) -> str:
    """The text's language by langdetect; a text without letters passes."""
    found = identified(text)
    known = (None, language)
    # Corrected, ``zh`` stands for both of langdetect's Chinese codes.
    if found in known or (corrected and found.partition("-")[0] == language):
        return ""
    return f"its language is {found}, {language} wanted"


@ifeval("detectable_content:number_placeholders")
def placeholders(text: str, num_placeholders: int, *, corrected: bool = False) -> str:
    """Least number of ``[placeholders]``; ``[]`` counts."""
    found = [  # from each "[" to the next "]" on its line, without overlaps
        piece.partition("[")[2]
        for line in text.split("\n")
        for piece in line.split("]")[:-1]
        if "[" in piece
    ]
    count = sum(bool(one.strip()) for one in found) if corrected else len(found)
    return missed(count, "at least", num_placeholders, "placeholders")


@ifeval("detectable_content:postscript")
def postscript(text: str, postscript_marker: str, *, corrected: bool = False) -> str:
    """The marker ``P.S.`` or ``P.P.S`` occurs, in any case; also within a word."""
    marker = postscript_marker.strip()
    if corrected:  # literal, and not part of a word or of ``P.P.S.``
        literal = r"\.\s?".join(map(re.escape, marker.split(".")))
        found = re.search(rf"(?<![\w.]){literal}", text, re.IGNORECASE)
    else:
        found = (_POSTSCRIPTS.get(marker) or expression(marker.lower())).search(text.lower())
    return "" if found else f"there is no {marker!r:.60}"


@ifeval("detectable_format:number_bullet_lists")
def bullets(text: str, num_bullets: int, *, corrected: bool = False) -> str:
    """Exact number of lines that begin with ``*`` (not ``**``) or ``-``; a rule ``---`` is one."""
    if corrected:  # rules such as ``---`` and lines without a word are none
        count = len(_BULLET.findall(text))
    else:
        lines = [line.lstrip() for line in text.split("\n")]
        stars = _STAR.findall("\n".join(lines))  # a lone ``*`` and the next line are one bullet
        count = len(stars) + sum(line.startswith("-") for line in lines)
    return exactly(count, num_bullets, "bullets")


@ifeval("detectable_format:constrained_response")
def constrained_response(text: str, *, corrected: bool = False) -> str:
    """One of three `ANSWERS` occurs."""
    count = sum(one in text for one in ANSWERS)
    if corrected:  # exactly one of the three
        return exactly(count, 1, "of the three answers", "one")
    return "" if count else "none of the three answers"


@ifeval("detectable_format:number_highlighted_sections")
def highlights(text: str, num_highlights: int, *, corrected: bool = False) -> str:
    """Least number of ``*parts*`` and ``**parts**``, so that ``***x***`` counts twice."""
    if corrected:  # emphasis as in Markdown, each once, and no bullets
        count = len(_HIGHLIGHT.findall(text))
    else:
        emphasised = [one.strip("*") for one in _EMPHASIS.findall(text)]
        strong = [one.removeprefix("**").removesuffix("**") for one in _STRONG.findall(text)]
        count = sum(bool(one.strip()) for one in (*emphasised, *strong))
    return missed(count, "at least", num_highlights, "highlights")


@ifeval("detectable_format:multiple_sections")
def sections(text: str, section_spliter: str, num_sections: int) -> str:
    """Least number of section headings: the given word and a number."""
    word = section_spliter.strip()
    count = len(expression(word, r"(?-i:\s?{}\s?\d+\s?)").findall(text))
    return missed(count, "at least", num_sections, f"sections {word!r:.60}")


@ifeval("detectable_format:json_format")
def json_format(text: str, *, corrected: bool = False) -> str:
    """The whole text is JSON, perhaps in a code fence; NaN counts as JSON."""

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    text = text.strip()
    for fence in FENCES:
        text = text.removeprefix(fence)
    try:
        constant = refuse if corrected else None  # NaN and infinities
        json.loads(text.removesuffix("```").strip(), parse_constant=constant)
    except RecursionError:
        return "not JSON (nested too deep)"
    except ValueError as error:
        return f"not JSON ({error!s:.120})"
    return ""


@ifeval("detectable_format:title")
def title(text: str) -> str:
    """A ``<<title>>`` that is not blank."""
    for line in text.split("\n"):
        start, end = line.find("<<"), line.rfind(">>")
        if 0 <= start < end - 2 and line[start : end + 2].lstrip("<").rstrip(">").strip():
            return ""
    return "there is no <<title>>"
