"""Puts untrusted text between tags that it cannot close.

A model may read a tag that looks like the real one as the real one: with letters of other scripts,
full-width forms, or characters between them that do not show. Those are escaped too.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

TAG = "judged_text"

# Characters that look like "<" or "/", and whose compatibility forms are not these.
_OPENING = "<\u02c2\u1438\u2039\u2329\u276e\u27e8\u3008\ufe64\uff1c"
_SLASH = "/\u2044\u2215\u29f8\uff0f\u2571"
_UNDERSCORE = "_ \u00a0\u02cd\u203f\u2017\ufe4d-\ufe4f\uff3f-"
# Letters of other scripts that look like Latin ones (Unicode, UTS 39, "confusables").
_LOOK_ALIKE = {
    "a": "\u0430\u03b1\u0251",
    "b": "\u044c\u0184",
    "c": "\u0441\u03f2",
    "d": "\u0501\u0257",
    "e": "\u0435\u04bd\u03b5",
    "f": "\u0192\u03dd",
    "g": "\u0261\u0581\u0123",
    "h": "\u04bb\u0570",
    "i": "\u0456\u03b9\u0131\u04cf",
    "j": "\u0458\u03f3",
    "k": "\u043a\u03ba",
    "l": "\u04cf\u0269|1",
    "m": "\u043c",
    "n": "\u0578\u03b7",
    "o": "\u043e\u03bf\u05850",
    "p": "\u0440\u03c1",
    "q": "\u051b\u0566",
    "r": "\u0433\u1d26",
    "s": "\u0455\ua7315",
    "t": "\u0442\u03c4",
    "u": "\u03c5\u057d\u1d1c",
    "v": "\u0475\u03bd\u1d20",
    "w": "\u051d\u0461\u1d21",
    "x": "\u0445\u03c7",
    "y": "\u0443\u03b3\u04af",
    "z": "\u1d22",
}
_FORMS = (  # of letters with a compatibility form: full-width, mathematical, enclosed, raised
    *(range(0x00A0, 0x0250), range(0x02B0, 0x0300), range(0x1D2C, 0x1DC0), range(0x2070, 0x2190)),
    *(range(0x2460, 0x2500), range(0xFF00, 0xFFF0), range(0x1D400, 0x1D800)),
    range(0x1F110, 0x1F190),
)
_HIDDEN = (  # characters that do not show, and combining marks
    r"[\u0000-\u0008\u000e-\u001f\u007f-\u009f\u00ad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5"
    r"\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20d0-\u20f0\u3164\ufe00-\ufe0f\ufeff"
    r"\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_GAP = rf"(?:\s|{_HIDDEN})*+"


@cache
def _forms() -> dict[str, str]:
    """Return the characters that stand for each letter or digit, by the letter."""
    forms: dict[str, str] = {}
    for code in (code for block in _FORMS for code in block):
        plain = unicodedata.normalize("NFKD", chr(code))[:1].casefold()
        if plain.isascii() and plain.isalnum():
            forms[plain] = forms.get(plain, "") + chr(code)
    return forms


def _letter(letter: str) -> str:
    if letter == "_":
        return f"[{_UNDERSCORE}]"
    others = _LOOK_ALIKE.get(letter, "") + _forms().get(letter, "")
    return f"[{re.escape(letter + others)}]"


@cache
def _patterns(*tags: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of the beginning of a tag, and of the escaped beginning of one."""
    between = f"{_HIDDEN}*+"
    names = "|".join(between.join(map(_letter, tag.casefold())) for tag in tags)
    name = f"{_GAP}(?:[{_SLASH}]{_GAP})?(?:{names})"
    written = rf"&(?=(?:amp;)*(?:lt|#x[0-9a-f]+);{name})"
    return (
        re.compile(f"[{_OPENING}](?={name})", re.IGNORECASE),
        re.compile(written, re.IGNORECASE),
    )


def fenced(text: str, tag: str = TAG) -> str:
    """Return untrusted text between ``tag`` tags. Such tags, and `TAG` tags, in it are escaped.

    Different texts stay different.
    """
    beginning, written = _patterns(*dict.fromkeys((tag, TAG)))
    inert = beginning.sub(_escaped, written.sub("&amp;", text))
    return f"<{tag}>\n{inert}\n</{tag}>"


def _escaped(opening: re.Match[str]) -> str:
    return "&lt;" if opening[0] == "<" else f"&#x{ord(opening[0]):x};"


def fenced_texts(prompt: str) -> list[str]:
    """Return the texts that `fenced` put between tags in a prompt, still escaped."""
    return re.findall(rf"<{TAG}>\n(.*?)\n</{TAG}>", prompt, re.DOTALL)
