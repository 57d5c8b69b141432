"""Instructions about a text's format: lists, titles, highlights, JSON, placeholders, postscripts.

The official checkers search with patterns that take quadratic time on some texts; these scan once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.scoring.instructions.texts import Check, counted, expression

ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
"""The answers that `constrained_response` accepts."""

FENCES = ("```json", "```Json", "```JSON", "```")
"""Prefixes that are removed from JSON, once each."""

_BLANK = re.compile(r"\s*")
_EMPHASIS = re.compile(r"\*[^\n*]*\*")
_STRONG = re.compile(r"\*\*[^\n*]*\*\*")
_HIGHLIGHT = re.compile(r"(?<!\*)(\*{1,3})(?![\s*])[^*\n]*(?<!\s)\1(?!\*)")
_BULLET = re.compile(r"^[^\S\n]*(?:\*(?!\*)|-(?!-))(?=.*\w)", re.MULTILINE)
_PP_S, _P_S = re.compile(r"p\.\s?p\.\s?s"), re.compile(r"p\.\s?s\.")


def bullets(text: str, num_bullets: int) -> str:
    """Exact number of lines that begin with ``*`` (not ``**``) or ``-``; a rule ``---`` is one."""
    count = sum(1 for _ in _lines_from(text, _after_star))
    count += sum(1 for _ in _lines_from(text, _after_dash))
    return "" if count == num_bullets else counted(count, "bullets", num_bullets)


def _lines_from(text: str, marked: Callable[[str, int], int | None]) -> Iterator[int]:
    """Yield the starts of bullets; a bullet ends with its line, and begins after any white space.

    `marked` returns where the rest of a line begins after a marker at a position; None if there is
    no marker.
    """
    start = 0
    while True:
        place = _BLANK.match(text, start).end()  # type: ignore[union-attr]  # it always matches
        rest = marked(text, place)
        if rest is not None:
            yield place
        end = text.find("\n", place if rest is None else rest)
        if end < 0:
            return
        start = end + 1


def _after_star(text: str, place: int) -> int | None:
    if not text.startswith("*", place):
        return None
    return place + 2 if text[place + 1 : place + 2] not in ("*", "") else None


def _after_dash(text: str, place: int) -> int | None:
    return place + 1 if text.startswith("-", place) else None


def listed_bullets(text: str, num_bullets: int) -> str:
    """Corrected `bullets`: rules such as ``---`` and lines without a word are none."""
    count = len(_BULLET.findall(text))
    return "" if count == num_bullets else counted(count, "bullets", num_bullets)


def highlights(text: str, num_highlights: int) -> str:
    """Least number of ``*parts*`` and ``**parts**``, so that ``***x***`` counts twice."""
    emphasised = [one.strip("*") for one in _EMPHASIS.findall(text)]
    strong = [one.removeprefix("**").removesuffix("**") for one in _STRONG.findall(text)]
    count = sum(1 for one in (*emphasised, *strong) if one.strip())
    return _at_least(count, num_highlights, "highlights")


def markdown_highlights(text: str, num_highlights: int) -> str:
    """Corrected `highlights`: emphasis as in Markdown, each once, and no bullets."""
    return _at_least(len(_HIGHLIGHT.findall(text)), num_highlights, "highlights")


def sections(text: str, section_spliter: str, num_sections: int) -> str:
    """Least number of section headings: the given word and a number."""
    count = len(expression(section_spliter.strip(), r"(?-i:\s?{}\s?\d+\s?)").findall(text))
    return _at_least(count, num_sections, f"sections {section_spliter.strip()!r:.60}")


def title(text: str) -> str:
    """A ``<<title>>`` that is not blank."""
    return "" if any(map(_has_title, text.split("\n"))) else "there is no <<title>>"


def _has_title(line: str) -> bool:
    start, end = line.find("<<"), line.rfind(">>")
    return 0 <= start < end - 2 and bool(line[start : end + 2].lstrip("<").rstrip(">").strip())


def json_format(text: str) -> str:
    """The whole text is JSON, perhaps in a code fence; NaN counts as JSON."""
    return _not_json(text, None)


def strict_json_format(text: str) -> str:
    """Corrected `json_format`: NaN and infinities are not JSON."""
    return _not_json(text, _refuse_constant)


def _not_json(text: str, constant: Any) -> str:
    text = text.strip()
    for fence in FENCES:
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip(), parse_constant=constant)
    except (ValueError, RecursionError) as error:
        said = "nested too deep" if isinstance(error, RecursionError) else str(error)
        return f"not JSON ({said:.120})"
    return ""


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def constrained_response(text: str) -> str:
    """One of three `ANSWERS` occurs."""
    return "" if any(one in text for one in ANSWERS) else "none of the three answers"


def one_constrained_response(text: str) -> str:
    """Corrected `constrained_response`: exactly one of the three occurs."""
    count = sum(one in text for one in ANSWERS)
    return "" if count == 1 else counted(count, "of the three answers", "one")


def placeholders(text: str, num_placeholders: int) -> str:
    """Least number of ``[placeholders]``; ``[]`` counts."""
    return _at_least(len(_bracketed(text)), num_placeholders, "placeholders")


def named_placeholders(text: str, num_placeholders: int) -> str:
    """Corrected `placeholders`: blank ones do not count."""
    count = sum(1 for one in _bracketed(text) if one.strip())
    return _at_least(count, num_placeholders, "placeholders")


def _bracketed(text: str) -> list[str]:
    """Return the texts from each ``[`` to the next ``]`` on its line, without overlaps."""
    found = []
    for line in text.split("\n"):
        start = line.find("[")
        while start >= 0 and (end := line.find("]", start)) > 0:
            found.append(line[start + 1 : end])
            start = line.find("[", end)
    return found


def postscript(text: str, postscript_marker: str) -> str:
    """The marker ``P.S.`` or ``P.P.S`` occurs, in any case; also within a word."""
    marker, text = postscript_marker.strip(), text.lower()
    known: Mapping[str, Any] = {"P.P.S": _PP_S, "P.S.": _P_S}
    pattern = known.get(marker) or expression(marker.lower())
    return "" if pattern.search(text) else f"there is no {marker!r:.60}"


def separate_postscript(text: str, postscript_marker: str) -> str:
    """Corrected `postscript`: the marker is literal and not part of a word or of ``P.P.S.``."""
    marker = r"\.\s?".join(map(re.escape, postscript_marker.strip().split(".")))
    found = re.search(rf"(?<![\w.]){marker}", text, re.IGNORECASE)
    return "" if found else f"there is no {postscript_marker.strip()!r:.60}"


def _at_least(count: int, wanted: int, what: str) -> str:
    return "" if count >= wanted else counted(count, what, f"at least {wanted:,}")


OFFICIAL: Mapping[str, Check] = {
    "detectable_content:number_placeholders": placeholders,
    "detectable_content:postscript": postscript,
    "detectable_format:number_bullet_lists": bullets,
    "detectable_format:constrained_response": constrained_response,
    "detectable_format:number_highlighted_sections": highlights,
    "detectable_format:multiple_sections": sections,
    "detectable_format:json_format": json_format,
    "detectable_format:title": title,
}
CORRECTED: Mapping[str, Check] = {
    "detectable_content:number_placeholders": named_placeholders,
    "detectable_content:postscript": separate_postscript,
    "detectable_format:number_bullet_lists": listed_bullets,
    "detectable_format:constrained_response": one_constrained_response,
    "detectable_format:number_highlighted_sections": markdown_highlights,
    "detectable_format:json_format": strict_json_format,
}
