"""Text in any script: its form for comparisons, and its words and sentences by Unicode's rules.

Words are sequences of non-space characters with a letter or digit. In scripts without spaces
between words, such as Chinese, ICU's dictionaries divide them (extra ``icu``). Text that
cannot be divided raises `Uncountable`: no count is better than a wrong one.

>>> count_words("A well-known word, don't you think?")
6
>>> normalize_text("cafe\\u0301") == "café"
True
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

from harness.errors import ExtraMissing, Unparseable, import_extra, install_command
from harness.ports import Checker
from harness.records import WARNING_KEY, Score

NO_DICTIONARY = (
    "Words in Chinese, Japanese, Thai, Lao, Khmer and Burmese are only found with ICU's "
    f"dictionaries: {install_command('icu')}"
)
"""The message if ICU is needed but not installed."""

Normalization = Literal["NFC", "NFKC", "none"]

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe0e\ufe0f\ufeff]"
)
"""Matches characters that do not show: soft hyphens, zero-width spaces and joiners, marks of the
writing direction, and variation selectors."""
_LINE_ENDS = re.compile("\r\n?|\u2028")
_SPACE = re.compile(  # any but those between the digits of a number: 1\u202f500
    "(?!(?<=\\d)[\u00a0\u2009\u202f]\\d{3}(?!\\d))[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]"
)
_HYPHEN = re.compile("[\u2010\u2011]")
_QUOTES = str.maketrans("‘’‚‛ʼ“”„‟", "'''''\"\"\"\"")  # noqa: RUF001


class Uncountable(Unparseable):
    """The words or sentences of a text cannot be counted, because of its script."""

    def score(self) -> Score:
        """Return a score without a value, about which the run warns."""
        return Score(None, None, str(self), {WARNING_KEY: str(self)})


def normalize_text(text: str, form: Literal["NFC", "NFKC"] = "NFC") -> str:
    """Return a text in a form in which it can be compared with others.

    Canonically equivalent characters become equal (é may be written in two ways), all line ends
    become ``\\n``, U+2029 becomes a blank line, and characters that do not show are removed. NFKC
    also replaces full-width characters, ligatures, superscripts and the like.
    """
    if text.isascii():
        return _LINE_ENDS.sub("\n", text) if "\r" in text else text
    text = unicodedata.normalize(form, _INVISIBLE.sub("", text))
    return _LINE_ENDS.sub("\n", text).replace("\u2029", "\n\n")


def fold_case(text: str) -> str:
    """Return normalised text (`normalize_text`) without differences of case.

    ß equals SS, and İ equals i. The dotless ı stays different from i.
    """
    if text.isascii():
        return text.lower()
    folded_case = unicodedata.normalize("NFC", text).casefold().replace("i\u0307", "i")
    return unicodedata.normalize("NFC", folded_case)


@dataclass(frozen=True, slots=True)
class TextComparison:
    """How a check compares texts. Call it to get a text's form for comparisons.

    Attributes:
        ignore_case: Treat upper and lower case as equal (`fold_case`).
        form: Unicode's normalisation form (`normalize_text`), in which all kinds of spaces within a
            line are equal, apart from those within a number, and so are all kinds of hyphens.
            With ``none``, they are not, and the form is NFC.
        straight_quotes: Treat curly quotes and apostrophes as straight ones.
    """

    ignore_case: bool = False
    form: Normalization = "NFC"
    straight_quotes: bool = False

    def __call__(self, text: str) -> str:
        """Return the form of a text, which equal texts have in common."""
        if self.form == "none":
            text = normalize_text(text)
        else:
            text = _HYPHEN.sub("-", _SPACE.sub(" ", normalize_text(text, self.form)))
        if self.straight_quotes:
            text = text.translate(_QUOTES)
        return fold_case(text) if self.ignore_case else text


class ExtractedValue(str):
    """An extracted text whose value is compared with targets, such as that of a number."""

    __slots__ = ()

    def equals(self, target: str) -> bool:
        """Return whether a target has the same value."""
        return self == target


# The characters of scripts without spaces between words. Their digits and marks are included.
_HAN_AND_KANA = (
    "\u3005-\u3007\u3031-\u3035\u303b\u3040-\u309f\u30a1-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U000323af"
)
_THAI_AND_LAO = "\u0e01-\u0e3a\u0e40-\u0eff"
_KHMER_AND_BURMESE = (
    "\u1000-\u1049\u104c-\u109f\u1780-\u17d3\u17d7\u17dc-\u17e9\ua9e0-\ua9ff\uaa60-\uaa7f"
)
_BY_DICTIONARY = _HAN_AND_KANA + _THAI_AND_LAO + _KHMER_AND_BURMESE
_NO_DICTIONARY = (  # Tibetan, Tai scripts, Balinese, Javanese and Ahom
    "\u0f00-\u0fff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f\ua980-\ua9df\uaa80-\uaadf"
    "\U00011700-\U0001174f"
)
_CJK_PUNCTUATION = (
    "\u3001-\u3003\u3008-\u3020\u3030\u30fb\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
_SPACELESS = re.compile(f"[{_BY_DICTIONARY}]")
_NO_WORDS = re.compile(f"[{_NO_DICTIONARY}]")
_NO_SENTENCES = re.compile(f"[{_THAI_AND_LAO}{_NO_DICTIONARY}]")
_SCRIPT_BOUNDARY = re.compile(f"[{_BY_DICTIONARY}{_NO_DICTIONARY}{_CJK_PUNCTUATION}]")
_NOT_SPACELESS = f"[^{_BY_DICTIONARY}{_CJK_PUNCTUATION}]"
_RUNS = re.compile(  # a full-width comma or period between digits belongs to the number
    rf"[{_BY_DICTIONARY}]+|(?:{_NOT_SPACELESS}|(?<=\d)[\uff0c\uff0e](?=\d))+"
)
_BEYOND_LATIN = re.compile("[^\0-\u036f\u1e00-\u1eff\u2000-\u2bff]")  # a quick first test
_LETTERS = re.compile(r"[^\W\d_]+")
_LETTERS_BEYOND_LATIN = re.compile(
    r"[^\W\d_\0-\u036f\u1d00-\u1dbf\u1e00-\u1eff\u2000-\u2bff\u2c60-\u2c7f\ua720-\ua7ff"
    "\uab30-\uab6f\uff21-\uff5a\U0001d400-\U0001d7ff]+"
)


def count_words(text: str) -> int:
    """Return the number of words of a text. Raises the same error as `words`."""
    return sum(any(map(str.isalnum, piece)) for piece in _split_words(text))


def words(text: str) -> list[str]:
    """Return the words of the text, without punctuation at either end.

    Raises:
        Uncountable: If the text has a script without spaces, and the extra ``icu`` is not
            installed or has no dictionary of the script.
    """
    pieces = _split_words(text)
    return [_strip_punctuation(piece) for piece in pieces if any(map(str.isalnum, piece))]


def _split_words(text: str) -> Iterable[str]:
    if text.isascii() or not (_BEYOND_LATIN.search(text) and _SCRIPT_BOUNDARY.search(text)):
        return text.split()
    return _divide(text)


def _divide(text: str) -> Iterator[str]:
    if _NO_WORDS.search(text):
        raise Uncountable("There are no rules for the words of this text's script.")
    for run in _RUNS.finditer(text):
        if not _SPACELESS.match(run[0]):
            yield from run[0].split()
            continue
        ends = icu_word_ends(text)
        if ends is None:
            raise Uncountable(NO_DICTIONARY)
        start = run.start()
        for offset in range(run.start() + 1, run.end() + 1):
            if offset in ends or offset == run.end():
                yield text[start:offset]
                start = offset


def _strip_punctuation(word: str) -> str:
    start = 0
    end = len(word)
    while start < end and unicodedata.category(word[start]).startswith("P"):
        start += 1
    while end > start and unicodedata.category(word[end - 1]).startswith("P"):
        end -= 1
    return word[start:end]


@lru_cache(8)
def icu_word_ends(text: str) -> frozenset[int] | None:
    """Return the offsets at which ICU ends the words and other parts of a text.

    The result is None if the extra ``icu`` is not installed.
    """
    if (icu := _icu_breakers()) is None:
        return None
    return frozenset([end for _, end in icu.WordBreaker(text, "en").segments()])


@cache
def _icu_breakers() -> Any:
    try:
        return import_extra("icu4py.breakers", "icu")
    except ExtraMissing:
        return None


class MayCountWords(Checker):
    """Base class of checkers that may count the words of a text."""

    @property
    def counts_words(self) -> bool:
        """Whether the checker counts words of any script (`words`)."""
        return True


def lacks_dictionary(checker: object, text: str) -> bool:
    """Return whether a checker counts words that need the extra ``icu``, which is missing."""
    counts_words = isinstance(checker, MayCountWords) and checker.counts_words
    return counts_words and _SPACELESS.search(text) is not None and _icu_breakers() is None


def count_occurrences(target: str, text: str, *, apart: bool = False) -> int:
    """Return how often a target occurs in a text as whole words, without overlaps.

    Args:
        target: The text to count.
        text: The text that may contain it.
        apart: As in `is_whole_word`.
    """
    count = 0
    start = 0
    if not target:
        return 0
    while (offset := text.find(target, start)) >= 0:
        is_whole = is_whole_word(target, text, offset, apart=apart)
        count += is_whole
        start = offset + (len(target) if is_whole else 1)
    return count


def is_whole_word(target: str, text: str, offset: int, *, apart: bool = False) -> bool:
    """Return whether a target at an offset of a text is not part of a longer word.

    Between scripts with and without spaces, as in 用Python写, is a boundary. Within a script
    without spaces, boundaries are those of ICU. Without ICU, any offset may be one.

    Args:
        target: The text that was found.
        text: The text that contains it.
        offset: Where ``target`` begins in ``text``.
        apart: Require that no letter or digit is next to ``target``, even if that begins or ends
            with a symbol: ``-5`` is then not whole in ``3-5``.
    """
    end = offset + len(target)
    starts_with_symbol = apart and not _is_word_character(target[0])
    if offset > 0 and _is_within_word(text, offset, at_symbol=starts_with_symbol):
        return False
    ends_with_symbol = apart and not _is_word_character(target[-1])
    return end == len(text) or not _is_within_word(text, end, at_symbol=ends_with_symbol)


def _is_within_word(text: str, offset: int, *, at_symbol: bool) -> bool:
    """Return whether the characters before and after an offset belong to one word.

    Args:
        text: The text.
        offset: The offset, which is neither the start nor the end of the text.
        at_symbol: Whether one of the characters is a symbol. It is then enough that the other one
            is part of a word.
    """
    left = text[offset - 1]
    right = text[offset]
    if at_symbol:
        return _is_word_character(left) or _is_word_character(right)
    if not (_is_word_character(left) and _is_word_character(right)):
        return False
    if _is_mark(right):
        return True
    spaceless = sum(_SCRIPT_BOUNDARY.match(character) is not None for character in (left, right))
    if spaceless < 2:
        return spaceless == 0
    if _NO_WORDS.match(left) or _NO_WORDS.match(right):
        return False
    ends = icu_word_ends(text)
    return ends is not None and offset not in ends


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_" or _is_mark(character)


def _is_mark(character: str) -> bool:
    return not character.isascii() and unicodedata.category(character).startswith("M")


def has_other_scripts(text: str) -> bool:
    """Return whether a text has letters to which rules for English do not apply.

    These are letters of a script without spaces, or other letters than Latin ones if they are the
    majority.
    """
    if text.isascii() or not _BEYOND_LATIN.search(text):
        return False
    if _SPACELESS.search(text) or _NO_WORDS.search(text):
        return True
    beyond_latin = sum(map(len, _LETTERS_BEYOND_LATIN.findall(text)))
    return beyond_latin * 2 > sum(map(len, _LETTERS.findall(text)))


def english_rules_details(text: str, remedy: str) -> dict[str, str]:
    """Return details for the score of a text by an official check that divides it as English.

    Args:
        text: The text.
        remedy: The end of the warning.

    Returns:
        A warning if the rules of English do not apply to the text, otherwise no details.
    """
    if not has_other_scripts(text):
        return {}
    warning = f"the official check divides text into words and sentences as in English{remedy}"
    return {WARNING_KEY: warning}


_CLOSERS = "\"'”’»›)\\]}」』）】》〉］｝"  # noqa: RUF001


@cache
def _sentence_end_patterns() -> tuple[Any, Any]:
    """Return patterns of a possible end of a sentence, and of a mark that always ends one."""
    import regex

    marks = regex.compile(
        rf"((?:[\p{{STerm}}.．]++|;|\n\s*+))[{_CLOSERS}]*+".replace("STerm", "SB=STerm"),  # noqa: RUF001
        regex.V1,
    )
    return marks, regex.compile(r"[\p{SB=STerm}--[!?]]", regex.V1)


def sentences(text: str, split: Callable[[str], list[str]]) -> list[str]:
    """Return the sentences of a text, without the space around them.

    Text of `has_other_scripts` is first divided at Unicode's marks that end sentences (。！？؟।),
    at blank lines and, in scripts without spaces, at line breaks.

    Args:
        text: The text.
        split: Divides text by the rules of English.

    Raises:
        Uncountable: If the text has Thai, Lao or another script without such marks.
    """
    if not has_other_scripts(text):
        return split(text)
    if _NO_SENTENCES.search(text):
        raise Uncountable("There are no rules for the sentences of this text's script.")
    pieces: list[str] = []
    start = 0
    marks, certain_mark = _sentence_end_patterns()
    for match in marks.finditer(text):
        before = text[match.start() - 1 : match.start()]
        after = text[match.end() : match.end() + 1]
        if certain_mark.search(match[1]) or _ends_sentence(match[1], before, after):
            pieces += _join_pieces(split(text[start : match.end()]))
            start = match.end()
    pieces += _join_pieces(split(text[start:]))
    complete: list[str] = []
    for sentence in map(str.strip, pieces):
        if any(map(str.isalnum, sentence)):
            complete.append(sentence)
        elif complete:  # only marks, which belong to the sentence before
            complete[-1] += sentence
    return complete


def _ends_sentence(mark: str, before: str, after: str) -> bool:
    """Return whether a mark between two characters ends a sentence."""
    follows_spaceless = bool(before) and (bool(_SPACELESS.match(before)) or before in _CLOSERS)
    if mark.startswith("\n"):
        return follows_spaceless or mark.count("\n") > 1
    if mark == ";":  # the question mark of Greek
        return "\u0370" <= before <= "\u03ff" and (not after or after.isspace())
    if "!" in mark or "?" in mark:
        return follows_spaceless or bool(_SPACELESS.match(after))
    if "．" in mark:  # noqa: RUF001
        return not after.isdigit()
    return follows_spaceless and not (after.isascii() and after.isalnum())


def _join_pieces(pieces: list[str]) -> list[str]:
    """Return pieces of a text, joined where a letter in lower case follows a period."""
    joined: list[str] = []
    for piece in pieces:
        first = piece[:1]
        if joined and joined[-1].endswith(".") and first.islower() and not first.isascii():
            joined[-1] += f" {piece}"
        else:
            joined.append(piece)
    return joined
