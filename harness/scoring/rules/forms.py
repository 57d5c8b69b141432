"""Rules about form: JSON, lists, tables, capitals, first and last words, commas, quotation marks.

Each applies to the whole answer and means no more than its name (docs/wildifeval.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.scoring.rules.keywords import stands
from harness.scoring.rules.lengths import bullets
from harness.scoring.rules.wording import (
    ENSURE,
    MARK,
    MODAL,
    SUBJECT,
    WHOLE,
    Wording,
    word_or_text,
)

_FENCE = re.compile(r"```[ \t]*(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.IGNORECASE | re.DOTALL)
_NUMBERED = re.compile(r"[ \t]*(?:\*\*)?[0-9]{1,4}[.)](?:\*\*)?[ \t]+\S")
COMMAS = ",\uff0c\u060c\u3001"
END_MARKS = ".!?\u2026\"'\u201d\u2019)*_ \t\n"
_DOUBLE = '"\u201c\u201d\u201e\u00ab\u00bb'


@dataclass(frozen=True, slots=True)
class Form:
    """A form by its name, one of `CHECKS`."""

    name: str

    def check(self, text: str) -> str:
        """Check the form of the whole text."""
        return CHECKS[self.name](text)


@dataclass(frozen=True, slots=True)
class Edge:
    """The first or last words: ``starts_with`` or ``ends_with``.

    One ``word`` stands by itself, and end marks may follow it.
    """

    name: str
    wanted: str
    word: bool = False

    def check(self, text: str) -> str:
        """Compare the first or last words."""
        first = self.name == "starts_with"
        bare, most = text.strip(), 4 * len(self.wanted) + 100  # fold no more than may matter
        if self.word and not first:
            bare = bare.rstrip(END_MARKS)
        shown, wanted = _folded(bare[:most] if first else bare[-most:]), _folded(self.wanted)
        found = shown.startswith(wanted) if first else shown.endswith(wanted)
        if found and stands(wanted, shown, 0 if first else len(shown) - len(wanted)):
            return ""
        return f"does not {'start' if first else 'end'} with {self.wanted!r}"


def _folded(text: str) -> str:
    return " ".join(text.replace("\u2019", "'").split()).lower()


def _json(text: str, kind: type | None = None) -> str:
    bare = text.strip()
    fenced = _FENCE.fullmatch(bare)
    try:
        found = json.loads(
            fenced[1] if fenced else bare, parse_int=str, parse_float=str, parse_constant=_refused
        )
    except ValueError:
        return "not JSON"
    except RecursionError:
        return "nested too deeply to be read as JSON"
    if kind is not None and not isinstance(found, kind):
        return f"JSON, but no {'object' if kind is dict else 'array'}"
    return ""


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _list(n: int, kind: str) -> str:
    return "" if n >= 2 else f"no {kind} list: {n} such lines"


def _numbered(text: str) -> str:
    return _list(sum(bool(_NUMBERED.match(line)) for line in text.splitlines()), "numbered")


def _table(text: str) -> str:
    above = ""
    for line in text.splitlines():
        if "|" in above and _is_ruler(line) and _cells(above) == _cells(line):
            return ""
        above = line
    return "no table in Markdown"


def _cells(line: str) -> int:
    return line.strip().strip("|").count("|") + 1


def _is_ruler(line: str) -> bool:
    bare = line.strip()
    if not set(bare) <= set("|:- \t") or "|" not in bare:
        return False
    cells = bare.removeprefix("|").removesuffix("|").split("|")
    return all(cell.strip().strip(":").strip("-") == "" and "-" in cell for cell in cells)


def _case(text: str, *, upper: bool) -> str:
    other, name = (str.islower, "small") if upper else (str.isupper, "capital")
    wrong = next((one for one in text if other(one)), None)
    if wrong is not None:
        return f"there is the {name} letter {wrong!r}"
    return "" if any(map(str.isalpha, text)) else "there are no letters"


def _commas(text: str) -> str:
    n = sum(text.count(one) for one in COMMAS)
    return f"{n:,} comma{'' if n == 1 else 's'}" if n else ""


def _in_quotation_marks(text: str) -> str:
    bare = text.strip()
    quoted = len(bare) > 2 and bare[0] in _DOUBLE and bare[-1] in _DOUBLE
    return "" if quoted else "not in quotation marks"


CHECKS: Mapping[str, Callable[[str], str]] = {
    "json": _json,
    "json_object": lambda text: _json(text, dict),
    "json_array": lambda text: _json(text, list),
    "numbered_list": _numbered,
    "bulleted_list": lambda text: _list(bullets(text), "bulleted"),
    "markdown_table": _table,
    "upper_case": lambda text: _case(text, upper=True),
    "lower_case": lambda text: _case(text, upper=False),
    "no_commas": _commas,
    "quotation_marks": _in_quotation_marks,
}
"""Name -> what is wrong with a text; empty if nothing is."""

_MAKE = (
    "(?:respond|answer|reply|write|output|format|present|return|provide|give|produce|generate|"
    "structure|organi[sz]e|make)"
)
_HEAD = (
    rf"{ENSURE}(?:(?:use|in|as|with|only) "
    rf"|{_MAKE} (?:{SUBJECT} )?(?:only )?(?:in |as |with |using )?(?:only )?"
    rf"|{SUBJECT} (?:{MODAL} )?(?:be |have )?(?:formatted |written |presented |returned )?"
    r"(?:in |as )?(?:only )?)?"
)
_HAVE = rf"{ENSURE}(?:{SUBJECT} (?:{MODAL} )?)?(?:include|contain|have)s? "
_LISTED = "(?:the form of )?(?:an? )?"
_NOT = "(?:do not|don't|never|must not|should not|may not|does not)"
_NO = rf"(?:{SUBJECT} )?{_NOT} (?:use|contain|include)"
_WITHOUT = (
    rf"{ENSURE}(?:{_NO}|avoid(?: using)?|without(?: using)?|refrain from using|use no|no)(?: any)?"
)
_UPPER = "(?:upper ?case|upper-case|capital|capitalized)(?: letters)?|caps|capitals"
_LOWER = "(?:lower ?case|lower-case|small)(?: letters)?"


def _all_in(case: str, plain: str) -> str:
    return (
        rf"{ENSURE}(?:use |{_MAKE} (?:{SUBJECT} )?|{SUBJECT} (?:{MODAL} )?(?:be )?(?:written )?)?"
        rf"(?:(?:in )?(?:all|only|entirely|completely)(?: in)? (?:{case})|in {plain}(?: letters)?)"
        r"(?: only)?"
    )


_PATTERNS = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("json", rf"{_HEAD}(?:the )?(?:valid )?json(?: format)?(?: only)?"),
        ("json_object", rf"{_HEAD}(?:an? )?(?:single )?(?:valid )?json object(?: only)?"),
        ("json_array", rf"{_HEAD}(?:an? )?(?:single )?(?:valid )?json (?:array|list)(?: only)?"),
        ("numbered_list", rf"(?:{_HEAD}|{_HAVE}){_LISTED}(?:numbered|ordered) list(?: format)?"),
        (
            "bulleted_list",
            rf"(?:{_HEAD}|{_HAVE}){_LISTED}(?:(?:bulleted|bullet[- ]point|bullet|unordered) list"
            r"(?: format)?|bullet points|bullet[- ]point form(?:at)?)",
        ),
        (
            "markdown_table",
            rf"(?:{_HEAD}|{_HAVE}){_LISTED}(?:markdown table|table in markdown)(?: format)?",
        ),
        ("upper_case", _all_in(_UPPER, "(?:upper ?case|upper-case)")),
        ("lower_case", _all_in(_LOWER, "(?:lower ?case|lower-case)")),
        ("no_commas", rf"{_WITHOUT} commas?(?: (?:are )?allowed)?"),
        (
            "quotation_marks",
            rf"{ENSURE}(?:(?:wrap|enclose|put|place|surround) {WHOLE}|{WHOLE} {MODAL} be "
            r"(?:wrapped|enclosed|put|placed)) (?:in|with|inside|within|between) (?:double )?"
            r"(?:quotation marks|quotes|quote marks)",
        ),
    )
)
_EDGE = re.compile(
    rf"{ENSURE}(?:{SUBJECT} (?:{MODAL} )?)?(?:(?P<first>start|begin)|end|finish|conclude)s?"
    rf"(?: {SUBJECT})? with (?:the )?(?:(?P<kind>word|words|phrase|sentence|text) )?{MARK}"
)


def recognise(wording: Wording) -> Form | Edge | None:
    """Return the rule that a wording states; None if there is none or in doubt."""
    edge = _EDGE.fullmatch(wording.text)
    if edge:
        word = edge["kind"] == "word"
        wanted = word_or_text(wording.quoted[int(edge[3])], is_word=word)
        name = "starts_with" if edge["first"] else "ends_with"
        return Edge(name, wanted, word) if wanted else None
    return next((Form(name) for name, one in _PATTERNS if one.fullmatch(wording.text)), None)
