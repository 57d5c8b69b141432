"""Extracts a short answer from a reply by pattern, number or key (docs/jsonl.md).

Structured answers are extracted as blocks instead (`harness.scoring.validators`).

>>> build_extraction({"regex": "= ([0-9]+)"}, "task.extract").read("5 + 5 = 10")
'10'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

from harness.declarations import declared_members
from harness.errors import ConfigError, Unparseable, suggest_name
from harness.plugin_loader import Kind
from harness.scoring.conclusions import (
    MAX_LABELS,
    announces,
    first_turn,
    is_denied,
    is_limit,
    is_mentioned,
    is_own_statement,
    is_remark,
    is_sample,
    is_superseded,
    is_withdrawn,
    without_struck_out,
)
from harness.scoring.later_answers import is_taken_back, states_another
from harness.scoring.patterns import MatchPosition, Pattern, PatternTooSlow, literals_around_group
from harness.wording import truncate

# A label at the end of a text, such as "Sentiment:" and "the score is".
_LABEL = re.compile(r"[^\W\d_]{2}\W*(?:[:=]|\s(?:is|was|are)\b)[^\w\n]*\Z|\banswer\W*\Z", re.I)
_LABEL_NAME = re.compile(r"(\w+)[*_]{0,3}\s*(?:[:=]|\bis\b)[^\w\n]*\Z", re.I)
_OPENING_QUOTES = ('"', "\u201c", "\u201e", "\u00ab", "`", " '", "\u2018")
_WORD = re.compile(r"[^\W\d_]{2}")
_ALTERNATIVE = re.compile(  # after an answer in words: positive or negative
    r"\s*(?:/\s*[^\W\d_]|,?\s*\bor\s+[^\W\d_]|,?\s*but\s+also\b|(?:is|was)(?:\s+not|n['\u2019]t)\b)",
    re.I,
)
_NEGATED = re.compile(r"not\b|\w+['\u2019]t\b", re.I)  # as in "The answer isn't B"


class FoundAnswer(NamedTuple):
    """An answer that a pattern finds in a reply.

    Attributes:
        answer: The answer.
        pattern: The index of the pattern.
        start: The offset of the pattern's match.
        end: The offset of its end.
        label: The part of the match before the answer, such as "Answer: ".
    """

    answer: str
    pattern: int
    start: int
    end: int
    label: str = ""

    @property
    def is_labelled(self) -> bool:
        """Whether the match has a label before the answer, such as "Sentiment:" and "score is"."""
        return _LABEL.search(self.label) is not None

    def is_mentioned(self, text: str) -> bool:
        """Return whether the match announces an answer that the reply only mentions."""
        if announces(text[self.start : self.end]) and is_mentioned(text, self.start, self.end):
            return True
        if not self.is_labelled:
            return False
        if is_sample(text, self.start, self.end) or self._is_in_quotes(text):
            return True
        return is_remark(text, self.start, self.end)

    def _is_in_quotes(self, text: str) -> bool:
        """Return whether a quotation mark stands before the match, and words before that."""
        line = text[text.rfind("\n", 0, self.start) + 1 : self.start]
        return line.endswith(_OPENING_QUOTES) and _WORD.search(line) is not None

    def is_limit(self, text: str) -> bool:
        """Return whether the match is about what an answer can be, such as "Maximum score: 10"."""
        return self.is_labelled and is_limit(text, self.start)

    def is_superseded(self, text: str) -> bool:
        """Return whether the match announces an answer that the reply replaces or takes back."""
        if not announces(text[self.start : self.end]):
            return False
        return is_superseded(text, self.start, self.end, self.answer)

    def is_taken_back(self, text: str) -> bool:
        """Return whether the reply later takes back what is matched, whether announced or not."""
        if is_taken_back(text, self.label, self.end, self.answer):
            return True
        if not self.is_labelled:
            return False
        name = _LABEL_NAME.search(self.label)
        return states_another(text, self.end, self.answer, name[1] if name else "")


def matched_answer(match: Any) -> str:
    """Return the first group that took part in a match, or "" if none did.

    If the pattern has no groups, return the whole match.
    """
    groups = match.groups() or (match[0],)
    return str(next((group for group in groups if group is not None), ""))


def _matched_label(match: Any) -> str:
    """Return the part of a match before its answer (`matched_answer`)."""
    for index, group in enumerate(match.groups(), start=1):
        if group is not None:
            return str(match[0][: match.start(index) - match.start()])
    return ""


class RegexExtraction:
    """An extraction of the first or the last match of any of several patterns in a reply.

    If two patterns match at the same offset, the earlier pattern in the list wins.

    Args:
        patterns: The regular expressions.
        where: The beginning of error messages.
        take: Whether the first or the last match counts.
        ignore_case: Treat ``a`` and ``A`` as equal.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        where: str,
        take: MatchPosition = "first",
        ignore_case: bool = False,
    ) -> None:
        self.patterns = tuple(
            Pattern(pattern, where, ignore_case=ignore_case) for pattern in patterns
        )
        self.take: MatchPosition = take

    @property
    def announcements(self) -> tuple[str, ...]:
        """The literal text before each pattern's group, or () if any pattern has no such text."""
        prefixes = []
        for pattern in self.patterns:
            literals = literals_around_group(pattern.pattern)
            prefixes.append(literals[0].strip() if literals else "")
        return tuple(prefixes) if all(prefixes) else ()

    def find(self, text: str) -> FoundAnswer | None:
        """Find the answer in a reply. The result is None if no pattern matches.

        Raises:
            PatternTooSlow, ConfigError: As in `Pattern.search`.
        """
        if self.take == "last":
            text = self._first_turn(text)
        limit = None
        match = self._next(text)
        # What the reply only mentions is no announcement of its own.
        for _ in range(MAX_LABELS):
            if match is None:
                return limit
            if match.is_limit(text):
                limit = limit or match
            elif not match.is_mentioned(text):
                return match
            match = self._next(text, match)
        return None

    def _next(self, text: str, match: FoundAnswer | None = None) -> FoundAnswer | None:
        """Return the first or last match, or the one that follows or precedes a match."""
        if self.take == "last":
            return self._last(text if match is None else text[: match.start])
        if match is not None:
            text = " " * match.end + text[match.end :]
        return min(self._find_all(text, "first"), key=lambda match: match.start, default=None)

    def _first_turn(self, text: str) -> str:
        text = without_struck_out(text)
        return first_turn(text, lambda before: bool(self._find_all(before, "last")))

    def _last(self, text: str) -> FoundAnswer | None:
        return min(self._find_all(text, "last"), key=lambda match: -match.start, default=None)

    def _find_all(self, text: str, take: MatchPosition) -> list[FoundAnswer]:
        matches = []
        for index, pattern in enumerate(self.patterns):
            match = pattern.find(text, take)
            if match is not None:
                start, end = match.span()
                answer = matched_answer(match).strip()
                matches.append(FoundAnswer(answer, index, start, end, _matched_label(match)))
        return matches

    def read(self, text: str) -> str:
        """Return the answer that `find` returns.

        Raises:
            Unparseable: If there is no answer, or it is empty.
            PatternTooSlow, ConfigError: As in `Pattern.search`.
        """
        match = self.find(text)
        if match and self._is_replaced(match, text):
            raise Unparseable("The reply takes back what the pattern matches, or answers again.")
        if match and match.answer:
            return match.answer
        patterns = ", ".join(f"{pattern.pattern!r:.60}" for pattern in self.patterns)
        hint = f"after {self.announcements[0]!r}" if self.announcements else f"by {patterns}"
        raise Unparseable(f"No answer was found {hint}.")

    def _is_replaced(self, match: FoundAnswer, text: str) -> bool:
        """Return whether the reply answers again after its last match, or takes that back."""
        if self.take == "last":
            turn = self._first_turn(text)
            if match.is_superseded(turn) or match.is_taken_back(turn):
                return True
            return self._is_doubtful(match, turn)
        turn = first_turn(text, lambda before: match.end <= len(before))
        if not match.is_taken_back(turn):
            return False
        last_match = self._last(turn)  # what precedes it is not the reply's last statement
        return last_match is None or last_match.is_taken_back(turn)

    def _is_doubtful(self, match: FoundAnswer, text: str) -> bool:
        """Return whether a last match is denied, or may not replace another answer before it."""
        if not match.is_labelled:
            return False
        if is_withdrawn(text, match.start):
            return True
        if match.answer.isalpha() and _ALTERNATIVE.match(text, match.end):
            return True
        answer_start = match.start + len(match.label)
        if is_denied(text, answer_start, match.end):
            return True
        earlier = self.find(text[: match.start])
        if earlier is None or earlier.answer == match.answer:
            return False
        is_negated = _NEGATED.match(text, answer_start) is not None
        return is_negated or not is_own_statement(text, match.start, earlier.start)

    def write(self, answer: str) -> str | None:
        """Return a reply from which `read` extracts an answer, or None if there is none."""
        text = self.fill(answer)
        match = self.find(text) if text is not None else None
        return text if match is not None and match.answer == answer.strip() else None

    def fill(self, answer: str) -> str | None:
        """Return the answer between the literal texts around the first pattern's group, or None."""
        literals = literals_around_group(self.patterns[0].pattern)
        return answer.join(literals) if literals else None


class Extraction(Protocol):
    """A way to extract the answer from a reply."""

    @property
    def announcements(self) -> tuple[str, ...]:
        """Texts that announce an answer. A prompt should contain one of them."""

    def read(self, text: str) -> str:
        """Return the answer in a reply, or raise Unparseable or PatternTooSlow."""

    def write(self, answer: str) -> str | None:
        """Return a reply from which `read` extracts an answer, or None if it knows none."""


class ExtractionKind(NamedTuple):
    """A kind of extraction, selected by a key of ``extract``.

    A plug-in declares such an object, by the key, among the ``extractions`` of its ``extensions``.
    """

    options: tuple[str, ...]  # further keys that it allows
    build: Callable[[Mapping[str, Any], str], Extraction]  # from ``extract``, and its key


def parse_take(take: Any, where: str) -> MatchPosition:
    """Return ``take`` if it is ``first`` or ``last``, or raise ConfigError."""
    if take not in ("first", "last"):
        raise ConfigError(f"{where} must be first or last, not {take!r:.40}.")
    return cast("MatchPosition", take)


def _build_regex(raw: Mapping[str, Any], where: str) -> RegexExtraction:
    take = parse_take(raw.get("take", "first"), f"{where}.take")
    patterns = raw["regex"]
    if isinstance(patterns, str):
        patterns = [patterns]
    is_list = isinstance(patterns, list) and bool(patterns)
    if not is_list or not all(isinstance(pattern, str) for pattern in patterns):
        raise ConfigError(f"{where}.regex must be a pattern or a list of them.")
    ignore_case = raw.get("ignore_case", False)
    if not isinstance(ignore_case, bool):
        raise ConfigError(f"{where}.ignore_case must be true or false.")
    return RegexExtraction(patterns, f"{where}.regex", take, ignore_case)


REGEX = ExtractionKind(("take", "ignore_case"), _build_regex)


def build_extraction(raw: Mapping[str, Any], where: str) -> Extraction:
    """Build an extraction from its section of a run file.

    Args:
        raw: The section, with the key of one kind, such as ``regex``.
        where: The name of the section, such as ``task.extract``, for error messages.

    Raises:
        ConfigError: If the section is invalid.
    """
    keys = ["regex", *declared_members("extractions")]
    selected = [key for key in raw if key in keys]
    if len(selected) != 1:
        problem = "does not say how to extract"
        if selected:
            problem = f"has both {' and '.join(selected[:2])}"
        raise ConfigError(f"{where} {problem}.", suggest_name(str(next(iter(raw), "")), keys))
    [name] = selected
    kind = REGEX
    if name != "regex":
        kind = cast("ExtractionKind", Kind("extractions").load(name))
    for key in raw:
        if key not in (name, *kind.options):
            valid_keys = (*keys, *kind.options)
            raise ConfigError(
                f"{where}: {name} has no {key!r:.60}.", suggest_name(str(key), valid_keys)
            )
    return kind.build(raw, where)


# Checks that a prompt asks for an answer in the form that the parser of its answers reads.
# In "Let Me Speak Freely?" (arXiv 2408.02442), the prompt's example had two letters while the
# expected answers had four. "Say What You Mean" by .txt found that this mismatch, not structured
# output, lowered the scores. The parser is therefore run on the prompt before any paid call.

PLACEHOLDER = re.compile(r"""[\s"'`*(]*(?:[<\[{(…_]|\.\.\.|(?:[A-Z]{3,}|[XYN])\b)""")
"""Matches a placeholder for an answer: ``<answer>``, ``[X]``, ``…``, ``ANSWER``."""
MAX_CONTEXT_CHARS = 60  # after an expected text, which are examined and shown


def prompt_mismatches(
    messages: Sequence[str], answers: Sequence[str], parser: Extraction
) -> list[str]:
    """Return a warning about each mismatch between a prompt and the parser of its answers.

    Args:
        messages: The texts of the prompt.
        answers: The answers in the prompt's worked examples.
        parser: The parser.
    """
    warnings: dict[str, None] = {}
    for answer in answers:
        if not can_read(parser, answer):
            warnings[f"The parser reads no answer in the prompt's example {answer!r:.80}."] = None
    lines = []
    for text in (*messages, *answers):
        for announcement in parser.announcements:
            for match in re.finditer(re.escape(announcement), text, re.IGNORECASE):
                context = text[match.start() : match.end() + MAX_CONTEXT_CHARS]
                lines.append(context.partition("\n")[0])
    if parser.announcements and not lines:
        announcements = " or ".join(map(repr, parser.announcements))
        warnings[f"The prompt does not ask for what its parser looks for: {announcements}."] = None
    if isinstance(parser, RegexExtraction):
        for line in lines:
            if not can_read(parser, line) and not _has_placeholder(line, parser.announcements):
                shown = truncate(line, 40)
                warnings[f"The prompt says {shown!r} where its parser would read no answer."] = None
    return list(warnings)


def misread_answer(parser: Extraction, answer: str) -> str | None:
    """Return what a parser misreads in a reply of its format.

    Returns:
        The text that it reads instead of the answer, or "" if it reads nothing. None if it reads
        the answer, is too slow, or has no format with a place for the answer.
    """
    text = parser.fill(answer) if isinstance(parser, RegexExtraction) else None
    try:
        read_answer = None if text is None else parser.read(text)
    except Unparseable:
        return ""
    except PatternTooSlow:
        return None
    return read_answer if read_answer != answer.strip() else None


def can_read(parser: Extraction, text: str) -> bool:
    """Return whether the parser finds a non-empty answer in the text."""
    try:
        return bool(parser.read(text))
    except (Unparseable, PatternTooSlow):
        return False


def _has_placeholder(line: str, prefixes: Sequence[str]) -> bool:
    """Return whether a line has a placeholder or nothing after the longest of some prefixes."""
    remainder = line
    for prefix in prefixes:
        if line.lower().startswith(prefix.lower()):
            remainder = min(remainder, line[len(prefix) :], key=len)
    remainder = remainder.strip()
    return not remainder.strip(""":"'`*.""") or PLACEHOLDER.match(remainder) is not None
