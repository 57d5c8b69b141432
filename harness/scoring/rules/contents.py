"""Rules about the contents and the form of an answer.

Only whole words count, and punctuation separates words: ``run`` occurs in ``run-up`` but not in
``running``, and ``can`` occurs in ``can't``. docs/wildifeval.md lists the rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from harness.scoring.rules import lengths
from harness.scoring.rules.lengths import MARK, CountBounds, Wording, bounds_of, bullets, matched
from harness.scoring.text import Uncountable, comparable, folded, is_whole_word, occurrences


@dataclass(frozen=True, slots=True)
class Keywords:
    """A rule on how often each of the quoted texts ``wanted`` must occur.

    ``name`` is ``keyword``, ``forbidden_word`` or ``keyword_count``. If ``exact``, case matters.
    """

    name: str
    wanted: tuple[str, ...]
    bounds: CountBounds
    exact: bool = False

    def check(self, text: str) -> str:
        """Return the violations, or an empty string."""
        shown = _plain(text, self.exact)
        reasons = []
        for one in self.wanted:
            n = occurrences(_plain(one, self.exact), shown)
            if not self.bounds.has(n):
                counted = f"{one!r} {self.bounds.of('time')}, has {n:,}"
                there = f"there is {'' if n else 'no '}{one!r}"
                reasons.append(counted if self.name == "keyword_count" else there)
        return "; ".join(reasons)


def _plain(text: str, exact: bool = False) -> str:
    spaced = " ".join(comparable(text).replace("\u2019", "'").split())
    return spaced if exact else folded(spaced)


_FENCE = re.compile(r"```[ \t]*(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.IGNORECASE | re.DOTALL)
_NUMBERED = re.compile(r"[ \t]*(?:\*\*)?[0-9]{1,4}[.)](?:\*\*)?[ \t]+\S")
COMMAS = ",\uff0c\u060c\u3001"
END_MARKS = (
    ".!?\u2026\"'\u201d\u2019)*_ \t\n"
    "\u3002\uff01\uff1f\uff0e\u061f\u06d4\u0964\u0965\u1362\u300d\u300f\uff09"
)
_DOUBLE = '"\u201c\u201d\u201e\u00ab\u00bb'


@dataclass(frozen=True, slots=True)
class Form:
    """A rule on the form of the whole answer, named by a key of `CHECKS`."""

    name: str

    def check(self, text: str) -> str:
        """Return the violation, or an empty string.

        Raises:
            Uncountable: If letters should be capitals, but the text's script has none.
        """
        return CHECKS[self.name](text)


@dataclass(frozen=True, slots=True)
class Edge:
    """A rule that the answer starts or ends with the text ``wanted``.

    If ``word`` is set, punctuation at the end of the answer is ignored.
    """

    name: str
    wanted: str
    word: bool = False

    def check(self, text: str) -> str:
        """Return the violation, or an empty string."""
        first = self.name == "starts_with"
        bare, most = text.strip(), 4 * len(self.wanted) + 100  # lower-case no more than necessary
        if self.word and not first:
            bare = bare.rstrip(END_MARKS)
        shown, wanted = _plain(bare[:most] if first else bare[-most:]), _plain(self.wanted)
        found = shown.startswith(wanted) if first else shown.endswith(wanted)
        if found and is_whole_word(wanted, shown, 0 if first else len(shown) - len(wanted)):
            return ""
        return f"does not {'start' if first else 'end'} with {self.wanted!r}"


def _json(text: str, kind: type | None = None) -> str:
    bare = text.strip()
    written = fenced[1] if (fenced := _FENCE.fullmatch(bare)) else bare
    try:
        # int refuses NaN and Infinity; numbers of any length are valid, so none is converted.
        found = json.loads(written, parse_int=str, parse_float=str, parse_constant=int)
    except ValueError:
        return "not JSON"
    except RecursionError:
        return "nested too deeply to be read as JSON"
    if kind is not None and not isinstance(found, kind):
        return f"JSON, but no {'object' if kind is dict else 'array'}"
    return ""


def _list(n: int, kind: str) -> str:
    return "" if n >= 2 else f"no {kind} list: {n} such lines"


def _numbered(text: str) -> str:
    return _list(sum(bool(_NUMBERED.match(line)) for line in text.splitlines()), "numbered")


def _table(text: str) -> str:
    for above, line in pairwise(text.splitlines()):
        if "|" in above and _is_ruler(line) and _cells(above) == _cells(line):
            return ""
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
    if upper and not any(map(str.isupper, text)) and any(map(str.isalpha, text)):
        raise Uncountable("The letters of this text's script have no case.")
    return "" if any(map(str.isalpha, text)) else "there are no letters"


def _commas(text: str) -> str:
    n = sum(map(text.count, COMMAS))
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
"""Maps each form to a function that returns what is wrong with an answer, or an empty string."""

_OCCURRENCES = {"keyword": CountBounds(1, None), "forbidden_word": CountBounds(None, 0)}


def recognise(wording: Wording) -> Keywords | Form | Edge | None:
    """Return a rule on contents or form, or None if the wording does not clearly state one."""
    for name, bounds in _OCCURRENCES.items():
        if found := matched(name, wording.text):
            return _rule(name, found, wording, bounds)
    if found := matched("keyword_count", wording.text):
        often = _often(found)
        return _rule("keyword_count", found, wording, often) if often and not often.bare else None
    if edge := matched("edge", wording.text):
        word = edge["kind"] == "word"
        wanted = lengths.word_or_text(wording.quoted[int(edge[3])], is_word=word)
        name = "starts_with" if edge["first"] else "ends_with"
        return Edge(name, wanted, word) if wanted else None
    return next((Form(name) for name in CHECKS if matched(name, wording.text)), None)


def _often(found: re.Match[str]) -> CountBounds | None:
    if found["often"] is None:
        parsed = bounds_of(found)
        return parsed and parsed[0]
    n = 1 if found["often"] == "once" else 2
    low = None if found["how"] in ("at most", "no more than", "not more than") else n
    return CountBounds(low, None if found["how"] == "at least" else n)


def _rule(
    name: str, found: re.Match[str], wording: Wording, bounds: CountBounds
) -> Keywords | None:
    is_word = found["kind"].rstrip("s") in ("word", "keyword", "key word")
    quoted = [wording.quoted[int(number)] for number in re.findall(MARK, found[0])]
    wanted = tuple(filter(None, (lengths.word_or_text(one, is_word=is_word) for one in quoted)))
    sure = len(wanted) == len(quoted)
    return Keywords(name, wanted, bounds, bool(found["exact"])) if sure else None
