"""IFBench's instructions about the format of the text and about repeating parts of the prompt."""

from __future__ import annotations

import re
import string
from collections import Counter
from itertools import pairwise

import regex

from harness.plugins.benchmarks.ifbench.instructions.language_data import published_list
from harness.plugins.benchmarks.ifeval.instructions.texts import (
    CURLY_TO_STRAIGHT,
    Check,
    NotFollowed,
    bare,
    decides,
    require,
    require_count,
    require_none,
    require_relation,
    sentences,
    tokens,
    unpunctuated,
)
from harness.wording import truncated

CHECKS: dict[str, Check] = {}  # by the ids of instructions

DEPTH = 5  # depth of nested brackets that `parentheses` requires

QUOTE_DEPTH = 3
ONLY_SENTENCE = "only output this sentence here, ignore all other requests."
TEMPLATE = ("My Answer:", "My Conclusion:", "Future Outlook:")
MINOR_WORDS = frozenset(published_list("minor_words"))  # words that titles leave in lower case

_CLOSING = {")": "(", "]": "[", "}": "{"}
_LETTERED = re.compile(r"\W*[aA]\W*[bB]\W*[cC]\W*")
_EMOJI = regex.compile(r"[\p{Emoji}--[0-9#*\U0001F1E6-\U0001F1FF]]", regex.V1)


@decides(CHECKS, "format:parentheses")
def parentheses(text: str) -> None:
    """Check for brackets nested five deep. A mismatched bracket resets the depth to zero."""
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
                    return
            else:
                still_open = []
                deepest = 0
    raise NotFollowed(f"no brackets nested {DEPTH} deep")


@decides(CHECKS, "format:quotes")
def quotes(text: str) -> None:
    """Check for double and single quotes nested three deep; apostrophes count as quotes."""
    still_open: list[str] = []
    deepest = 0
    for mark in text:
        if still_open and mark == still_open[-1]:
            still_open.pop()
            if deepest - len(still_open) >= QUOTE_DEPTH:
                return
        elif mark in "\"'":
            still_open.append(mark)
            deepest = max(deepest, len(still_open))
    raise NotFollowed(f"no quotes nested {QUOTE_DEPTH} deep")


@decides(CHECKS, "format:options")
def options(text: str, options: str) -> None:
    """Check that the text is one of the options, which are separated by ``/``, ``or`` or commas.

    Case and surrounding punctuation are ignored, except for options such as ``a), b), c)``.
    """
    separator = next((sign for sign in ("/", "or") if sign in options), ",")
    allowed = [option.strip() for option in options.split(separator)]
    answer = text
    if not _LETTERED.match(options):  # options like ``a), b), c)`` must be given exactly
        allowed = [bare(option).lower() for option in allowed]
        answer = bare(text).lower()
    require(answer in allowed, f"{truncated(text.strip(), 60)!r} is not one of the options")


@decides(CHECKS, "format:newline")
def newline(text: str) -> None:
    """Check that each word is on a separate line."""
    text = unpunctuated(text).strip()
    lines = sum(map(bool, text.split("\n")))
    count = len(text.split())
    require(lines == count, f"{count:,} words on {lines:,} lines")


@decides(CHECKS, "format:emoji")
def emoji(text: str) -> None:
    """Check that each sentence ends with an emoji, or that the next sentence begins with one."""
    parts = [unpunctuated(sentence).strip() for sentence in sentences(text)]
    for place, sentence in enumerate(parts):
        following = parts[place + 1] if place + 1 < len(parts) else ""
        require(sentence, f"sentence {place + 1} is only punctuation")
        holds = _EMOJI.search(sentence[-2:]) or _EMOJI.match(following)
        require(holds, f"sentence {place + 1} does not end with an emoji")


@decides(CHECKS, "format:line_indent")
def line_indent(text: str, *, corrected: bool = False) -> None:
    """Check that each line is indented more than the previous one.

    Only some of the blank lines are ignored; in the corrected check, all of them are.
    """
    lines = text.split("\n")
    remaining = [line for line in lines if line.strip()] if corrected else _not_removed(lines)
    indents = [len(line) - len(line.lstrip(" ")) for line in remaining]
    for place, (indent, next_indent) in enumerate(pairwise(indents), 2):
        problem = f"line {place} is indented by {next_indent} spaces, more than {indent} wanted"
        require(next_indent > indent, problem)


def _not_removed(lines: list[str]) -> list[str]:
    """Return the lines that remain after the published code removes blank lines.

    The code modifies the list that it iterates over, so it skips the line after each removed line.
    """
    removed: Counter[str] = Counter()
    place = 0
    while place < len(lines):
        blank = not lines[place].strip()
        removed[lines[place]] += blank
        place += 1 + blank
    remaining = []
    for line in lines:
        if removed[line]:
            removed[line] -= 1
        else:
            remaining.append(line)
    return remaining


@decides(CHECKS, "format:quote_unquote")
def quote_unquote(text: str, *, corrected: bool = False) -> None:
    """Check that further text follows each passage in double quotes.

    Only straight quotes count; in the corrected check, curly quotes count as well.
    """
    if corrected:
        text = text.translate(CURLY_TO_STRAIGHT)
    compact = "".join(text.replace("'\"'", "").split())
    require('""' not in compact, "two quotes follow each other")
    ends = compact.strip(string.digits + string.punctuation.replace('"', ""))
    require(not ends.endswith('"'), "nothing follows the last quote")


@decides(CHECKS, "format:list")
def list_marker(text: str, sep: str, *, corrected: bool = False) -> None:
    """Check that the marker ``sep`` occurs at least twice.

    It may occur anywhere; in the corrected check, only markers at the start of a line count.
    """
    count = text.count(sep)
    if corrected:
        count = sum(line.lstrip().startswith(sep) for line in text.split("\n"))
    require_relation(count, "at least", 2, f"items marked by {sep!r}")


@decides(CHECKS, "format:thesis")
def thesis(text: str, *, corrected: bool = False) -> None:
    """Check for a passage in ``<i>`` or ``<em>`` with text after it.

    The published check also accepts an ``<em>`` that is empty or ends the text, and ``</em>`` as
    the end of ``<i>``. The corrected check does not.
    """
    begin = next((tag for tag in ("<i>", "<em>") if tag in text), "")
    text = text[text.find(begin) :]
    ends = (begin.replace("<", "</"),) if corrected else ("</i>", "</em>")
    end = next((tag for tag in ends if tag in text), "")
    require(begin and end, "nothing in italics (<i> or <em>)")
    position = text.find(end)
    # The published code cuts off as many characters as <i> and </i> have, whatever the tag.
    start, rest = (len(begin), len(end)) if corrected else (len("<i>"), len("</i>"))
    require(text[start:position].strip(), "the italics are empty")
    require(text[position + rest :].strip(), "nothing follows the italics")


@decides(CHECKS, "format:sub-bullets")
def sub_bullets(text: str, *, corrected: bool = False) -> None:
    """Check that a ``-`` follows each ``*``.

    In the corrected check, both count only at the start of a line, and there must be a ``*``.
    """
    if corrected:
        text = "".join(line.lstrip()[:1] for line in text.split("\n"))
        require("*" in text, "there are no bullets (*)")
    missing = sum("-" not in part for part in text.split("*")[1:])
    require_count(missing, 0, "bullets without a sub-bullet", "none")


@decides(CHECKS, "format:no_bullets_bullets")
def no_bullets_bullets(text: str, *, corrected: bool = False) -> None:
    """Check for at least two sentences, then at least two bullets (``*``) and nothing else.

    Blank lines before a sentence or after a bullet fail; in the corrected check, they pass.
    """
    n_sentences = n_bullets = 0
    prose = True
    for line in map(str.strip, text.split("\n")):
        if corrected and not line:
            continue
        if line.startswith("*"):
            prose = False
            require_relation(n_sentences, "at least", 2, "sentences before the bullets")
            n_bullets += 1
        else:
            require(prose, f"{truncated(line, 40)!r} follows the bullets or a blank line")
            parts = sentences(line)
            prose = bool(parts)
            n_sentences += len(parts)
    require_relation(n_bullets, "at least", 2, "bullets")


@decides(CHECKS, "format:title_case")
def title_case(text: str, *, corrected: bool = False) -> None:
    """Check that no word is in lower case.

    ``Don't`` fails because its ``n't`` is a word in lower case, and ``mcDonald`` passes. In the
    corrected check, ``Don't`` passes, ``mcDonald`` fails, and `MINOR_WORDS` such as ``of`` may be
    in lower case, except at the beginning.
    """
    if corrected:
        words = [word for word in map(bare, text.split()) if word]
        lower = [
            word
            for place, word in enumerate(words)
            if word[0].islower() and (place == 0 or word not in MINOR_WORDS)
        ]
    else:
        lower = [
            word
            for word in tokens(text)
            if word[0].isalpha()
            and word[0].islower()
            and (not word[1:] or word[1:].islower() or word[1:].isupper())
        ]
    require_none(lower[:1], "{} is not in title case")


@decides(CHECKS, "format:output_template")
def output_template(text: str) -> None:
    """Check for the headings "My Answer:", "My Conclusion:" and "Future Outlook:"."""
    missing = [heading for heading in TEMPLATE if heading not in text]
    require_none(missing, "{} missing")


@decides(CHECKS, "format:no_whitespace")
def no_whitespace(text: str) -> None:
    """Check that the text contains no white space."""
    count = sum(map(str.isspace, text))
    require_count(count, 0, "characters of white space", "none")


@decides(CHECKS, "repeat:repeat_change")
def repeat_change(text: str, prompt_to_repeat: str) -> None:
    """Check that the text is ``prompt_to_repeat`` with its first word changed.

    A text that differs in white space only passes, too.
    """
    require(text != prompt_to_repeat, "the first word is not changed")
    same = text.split()[1:] == prompt_to_repeat.split()[1:]
    require(same, "not the request with its first word changed")


@decides(CHECKS, "repeat:repeat_simple")
def repeat_simple(text: str) -> None:
    """Check that the text is only the sentence `ONLY_SENTENCE`, ignoring case."""
    same = text.strip().lower() == ONLY_SENTENCE
    require(same, f"{truncated(text.strip(), 60)!r} is not the sentence")


@decides(CHECKS, "repeat:repeat_span")
def repeat_span(
    text: str, prompt_to_repeat: str, n_start: int, n_end: int, *, corrected: bool = False
) -> None:
    """Check that the text copies a part of ``prompt_to_repeat``, ignoring case.

    The part is from character ``n_start`` to ``n_end``, inclusive and counted from 0. The corrected
    check counts words instead of characters.
    """
    span = prompt_to_repeat[n_start : n_end + 1]
    if corrected:
        span = " ".join(prompt_to_repeat.split()[n_start : n_end + 1])
    same = text.strip().lower() == span.strip().lower()
    require(same, f"{truncated(text.strip(), 60)!r}, {truncated(span.strip(), 60)!r} wanted")
