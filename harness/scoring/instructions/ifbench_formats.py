"""IFBench's instructions about the form of a text, and about repeating parts of the prompt."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

import regex

from harness.scoring import cut
from harness.scoring.instructions.language_data import published_list
from harness.scoring.instructions.texts import Check, bare, counted, sentences, tokens, unpunctuated

DEPTH = 5
"""Nested brackets that `parentheses` wants."""

QUOTE_DEPTH = 3
ONLY_SENTENCE = "only output this sentence here, ignore all other requests."
TEMPLATE = ("My Answer:", "My Conclusion:", "Future Outlook:")
MINOR_WORDS = frozenset(published_list("minor_words"))
"""Words that titles leave in lower case."""

_CLOSING = {")": "(", "]": "[", "}": "{"}
_LETTERED = re.compile(r"\W*[aA]\W*[bB]\W*[cC]\W*")
_EMOJI = regex.compile(r"[\p{Emoji}--[0-9#*\U0001F1E6-\U0001F1FF]]", regex.V1)
_CURLY = str.maketrans(
    dict.fromkeys("\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}", '"')
)


def parentheses(text: str) -> str:
    """Brackets nested five deep, of which the innermost is closed; a wrong one begins anew."""
    still_open: list[str] = []
    deepest = 0
    for mark in text:
        if mark in "([{":
            still_open.append(mark)
            deepest = max(deepest, len(still_open))
        elif mark in _CLOSING:
            if still_open and still_open[-1] == _CLOSING[mark]:
                still_open.pop()
                if deepest >= DEPTH:
                    return ""
            else:
                still_open, deepest = [], 0
    return f"no brackets nested {DEPTH} deep"


def quotes(text: str) -> str:
    """Quotes nested three deep, alternately double and single; apostrophes count as quotes."""
    still_open: list[str] = []
    deepest = 0
    for mark in text:
        if still_open and mark == still_open[-1]:
            still_open.pop()
            if deepest - len(still_open) >= QUOTE_DEPTH:
                return ""
        elif mark in "\"'":
            still_open.append(mark)
            deepest = max(deepest, len(still_open))
    return f"no quotes nested {QUOTE_DEPTH} deep"


def options(text: str, options: str) -> str:
    """The text is one of the options, which are divided by ``/``, ``or`` or commas.

    Options like ``a), b), c)`` must be given exactly; others in any case and punctuation.
    """
    separator = "/" if "/" in options else "or" if "or" in options else ","
    known = [option.strip() for option in options.split(separator)]
    found = text
    if not _LETTERED.match(options):
        known, found = [bare(option).lower() for option in known], bare(text).lower()
    return "" if found in known else f"{cut(text.strip(), 60)!r} is not one of the options"


def newline(text: str) -> str:
    """Each word is on a line of its own."""
    text = unpunctuated(text).strip()
    lines, count = sum(map(bool, text.split("\n"))), len(text.split())
    return "" if lines == count else f"{count:,} words on {lines:,} lines"


def emoji(text: str) -> str:
    """Each sentence ends with an emoji, or the next one begins with it."""
    found = [unpunctuated(sentence).strip() for sentence in sentences(text)]
    for place, sentence in enumerate(found):
        following = found[place + 1] if place + 1 < len(found) else ""
        if not sentence:
            return f"sentence {place + 1} is only punctuation"
        if not (_EMOJI.search(sentence[-2:]) or _EMOJI.match(following)):
            return f"sentence {place + 1} does not end with an emoji"
    return ""


def line_indent(text: str) -> str:
    """Each line is indented further than the one before; some blank lines count as lines."""
    lines = text.split("\n")
    # The published code removes lines while it goes through them: it then skips the next line,
    # and what it removes is the first line that is equal.
    removed: Counter[str] = Counter()
    place = 0
    while place < len(lines):
        blank = not lines[place].strip()
        removed[lines[place]] += blank
        place += 1 + blank
    kept = []
    for line in lines:
        if removed[line]:
            removed[line] -= 1
        else:
            kept.append(line)
    return _stairs(kept)


def text_line_indent(text: str) -> str:
    """Corrected `line_indent`: blank lines do not count."""
    return _stairs([line for line in text.split("\n") if line.strip()])


def _stairs(lines: list[str]) -> str:
    indents = [len(line) - len(line.lstrip(" ")) for line in lines]
    for place, (one, other) in enumerate(pairwise(indents), 2):
        if other <= one:
            return f"line {place} is indented by {other} spaces, more than {one} wanted"
    return ""


def quote_unquote(text: str) -> str:
    """Text follows each quote in straight double quotes."""
    found = "".join(text.replace("'\"'", "").split())
    if '""' in found:
        return "two quotes follow each other"
    ends = found.strip(string.digits + string.punctuation.replace('"', ""))
    return "nothing follows the last quote" if ends.endswith('"') else ""


def any_quote_unquote(text: str) -> str:
    """Corrected `quote_unquote`: quotes in curly double quotes too."""
    return quote_unquote(text.translate(_CURLY))


def list_marker(text: str, sep: str) -> str:
    """The marker occurs at least twice, anywhere."""
    return _markers(text.count(sep), sep)


def list_marker_first(text: str, sep: str) -> str:
    """Corrected `list_marker`: the marker begins at least two lines."""
    return _markers(sum(line.lstrip().startswith(sep) for line in text.split("\n")), sep)


def _markers(count: int, sep: str) -> str:
    return "" if count >= 2 else counted(count, f"items marked by {sep!r}", "at least 2")


def thesis(text: str) -> str:
    """There are italics (``<i>`` or ``<em>``) with text after them; an empty ``<em>`` passes."""
    return _thesis(text, cut_tags=False)


def text_thesis(text: str) -> str:
    """Corrected `thesis`: an empty ``<em>`` does not count, and each tag has its own end."""
    return _thesis(text, cut_tags=True)


def _thesis(text: str, cut_tags: bool) -> str:
    begin = next((tag for tag in ("<i>", "<em>") if tag in text), "")
    text = text[text.find(begin) :]
    ends = (begin.replace("<", "</"),) if cut_tags else ("</i>", "</em>")
    end = next((tag for tag in ends if tag in text), "")
    if not begin or not end:
        return "nothing in italics (<i> or <em>)"
    at = text.find(end)
    if not text[len(begin) if cut_tags else len("<i>") : at].strip():
        return "the italics are empty"
    rest = text[at + (len(end) if cut_tags else len("</i>")) :]
    return "" if rest.strip() else "nothing follows the italics"


def sub_bullets(text: str) -> str:
    """A ``-`` follows each ``*`` before the next one; a text without ``*`` passes."""
    missing = sum("-" not in part for part in text.split("*")[1:])
    return counted(missing, "bullets without a sub-bullet", "none") if missing else ""


def line_sub_bullets(text: str) -> str:
    """Corrected `sub_bullets`: bullets begin a line, and there is at least one."""
    marks = "".join(line.lstrip()[:1] for line in text.split("\n"))
    bullets = re.sub(r"[^*-]", "", marks).split("*")[1:]
    missing = sum(not part for part in bullets)
    if not bullets:
        return "there are no bullets (*)"
    return counted(missing, "bullets without a sub-bullet", "none") if missing else ""


def no_bullets_bullets(text: str) -> str:
    """At least two sentences, then at least two bullets (``*``) to the end of the text.

    A sentence after a blank line fails.
    """
    return _then_bullets(text.split("\n"))


def text_then_bullets(text: str) -> str:
    """Corrected `no_bullets_bullets`: blank lines do not count."""
    return _then_bullets([line for line in text.split("\n") if line.strip()])


def _then_bullets(lines: list[str]) -> str:
    n_sentences = n_bullets = 0
    prose = True
    for line in lines:
        if line.strip().startswith("*"):
            prose = False
            if n_sentences < 2:
                return counted(n_sentences, "sentences before the bullets", "at least 2")
            n_bullets += 1
        elif prose:
            found = sentences(line.strip())
            prose = bool(found)
            n_sentences += len(found)
        else:
            return f"{cut(line.strip(), 40)!r} follows the bullets or a blank line"
    return "" if n_bullets >= 2 else counted(n_bullets, "bullets", "at least 2")


def title_case(text: str) -> str:
    """No word is in lower case: ``don't`` is two words, of which one is; ``mcDonald`` passes."""
    for word in tokens(text):
        rest = word[1:]
        if (
            word[0].isalpha()
            and word[0].islower()
            and (not rest or rest.islower() or rest.isupper())
        ):
            return f"{cut(word, 40)!r} is not in title case"
    return ""


def major_words_title_case(text: str) -> str:
    """Corrected `title_case`: ``don't`` is one word, and words like ``of`` may be in lower case."""
    found = [word for word in map(bare, text.split()) if word]
    for place, word in enumerate(found):
        if word[0].islower() and (place == 0 or word not in MINOR_WORDS):
            return f"{cut(word, 40)!r} is not in title case"
    return ""


def output_template(text: str) -> str:
    """The three headings of the template occur."""
    missing = [heading for heading in TEMPLATE if heading not in text]
    return f"{', '.join(map(repr, missing))} missing" if missing else ""


def no_whitespace(text: str) -> str:
    """The text has no white space."""
    count = sum(map(str.isspace, text))
    return counted(count, "characters of white space", "none") if count else ""


def repeat_change(text: str, prompt_to_repeat: str) -> str:
    """The text is the request with another first word, or none, and any spacing."""
    if text == prompt_to_repeat:
        return "the first word is not changed"
    same = text.split()[1:] == prompt_to_repeat.split()[1:]
    return "" if same else "not the request with its first word changed"


def repeat_simple(text: str) -> str:
    """The text is the published sentence, in any case."""
    same = text.strip().lower() == ONLY_SENTENCE
    return "" if same else f"{cut(text.strip(), 60)!r} is not the sentence"


def repeat_span(text: str, prompt_to_repeat: str, n_start: int, n_end: int) -> str:
    """The text is a span of the request's characters, although the prompts number its words."""
    return _span(text, prompt_to_repeat[n_start : n_end + 1])


def repeat_words(text: str, prompt_to_repeat: str, n_start: int, n_end: int) -> str:
    """Corrected `repeat_span`: a span of words, from 0, with both ends."""
    return _span(text, " ".join(prompt_to_repeat.split()[n_start : n_end + 1]))


def _span(text: str, wanted: str) -> str:
    same = text.strip().lower() == wanted.strip().lower()
    return "" if same else f"{cut(text.strip(), 60)!r}, {cut(wanted.strip(), 60)!r} wanted"


OFFICIAL: Mapping[str, Check] = {
    "format:parentheses": parentheses,
    "format:quotes": quotes,
    "format:options": options,
    "format:newline": newline,
    "format:emoji": emoji,
    "format:line_indent": line_indent,
    "format:quote_unquote": quote_unquote,
    "format:list": list_marker,
    "format:thesis": thesis,
    "format:sub-bullets": sub_bullets,
    "format:no_bullets_bullets": no_bullets_bullets,
    "format:title_case": title_case,
    "format:output_template": output_template,
    "format:no_whitespace": no_whitespace,
    "repeat:repeat_change": repeat_change,
    "repeat:repeat_simple": repeat_simple,
    "repeat:repeat_span": repeat_span,
}
CORRECTED: Mapping[str, Check] = {
    "format:line_indent": text_line_indent,
    "format:quote_unquote": any_quote_unquote,
    "format:list": list_marker_first,
    "format:thesis": text_thesis,
    "format:sub-bullets": line_sub_bullets,
    "format:no_bullets_bullets": text_then_bullets,
    "format:title_case": major_words_title_case,
    "repeat:repeat_span": repeat_words,
}
