"""IFBench's 29 kinds of instruction for training models (Pyatkin et al. 2025, arXiv 2507.02833).

As in the published code, regular expressions split sentences, and NLTK splits words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from harness.scoring import listed
from harness.scoring.instructions import ifeval
from harness.scoring.instructions.texts import (
    Relation,
    bare,
    counted,
    exactly,
    expression,
    missed,
    tokens,
    training,
    words,
)
from harness.scoring.patterns import Pattern

_DOT, _END = "\ue000", "\ue001"  # a dot that ends no sentence; the end of a sentence
_STARTERS = (
    r"(Mr|Mrs|Ms|Dr|Prof|Capt|Cpt|Lt|He\s|She\s|It\s|They\s|Their\s|Our\s|We\s|But\s|However\s"
    r"|That\s|This\s|Wherever)"
)
_STEPS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(Mr|St|Mrs|Ms|Dr)\.", rf"\1{_DOT}"),
        (r"\.(com|net|org|io|gov|edu|me)", rf"{_DOT}\1"),
        (r"([0-9])\.([0-9])", rf"\1{_DOT}\2"),
        (r"\.{2,}", lambda dots: _DOT * len(dots[0]) + _END),
        (r"Ph\.D\.", f"Ph{_DOT}D{_DOT}"),
        (r"\s([A-Za-z])\. ", rf" \1{_DOT} "),
        (rf"([A-Z]\.[A-Z]\.(?:[A-Z]\.)?) {_STARTERS}", rf"\1{_END} \2"),
        (r"([A-Za-z])\.([A-Za-z])\.([A-Za-z])\.", rf"\1{_DOT}\2{_DOT}\3{_DOT}"),
        (r"([A-Za-z])\.([A-Za-z])\.", rf"\1{_DOT}\2{_DOT}"),
        (rf" (Inc|Ltd|Jr|Sr|Co)\. {_STARTERS}", rf" \1{_END} \2"),
        (r" (Inc|Ltd|Jr|Sr|Co)\.", rf" \1{_DOT}"),
        (r" ([A-Za-z])\.", rf" \1{_DOT}"),
        (r"\.([”\"])", r"\1."),
        (r'!"', '"!'),
        (r'\?"', '"?'),
        (r"([.?!])", rf"\1{_END}"),
    )
]
"""Substitutions, in order, that mark the ends of sentences."""

_STARS = re.compile(r"\s?\*\*\*\s?")
_NO_WORD = re.compile(r"[^\w\s]")


def _sentences(text: str) -> list[str]:
    text = f" {text}  ".replace("\n", " ")
    for pattern, replacement in _STEPS:
        text = pattern.sub(replacement, text)
    found = [part.strip() for part in text.replace(_DOT, ".").split(_END)]
    return found if found[-1] else found[:-1]


@training("copy:repeat_phrase")
def repeat_phrase(text: str, phrase: str, small_n: int, *, corrected: bool = False) -> str:
    """A phrase repeated, each time with at most one word changed; the last time exactly one."""
    changes = [_changed(found, phrase) for found in _repetitions(text, phrase)]
    if wrong := exactly(len(changes), small_n, "repetitions of the phrase"):
        return wrong
    allowed = (1,) if corrected else (0, 1)  # corrected: exactly one word each time
    for place, changed in enumerate(changes, 1):
        if changed not in allowed:
            return f"repetition {place} does not change exactly one word"
    last_is_changed = not changes or changes[-1] == 1
    return "" if last_is_changed else "the last repetition of the phrase has no changed word"


def _changed(found: str, phrase: str) -> int:
    """Return the number of changed words; -1 if the number of words differs."""
    one, other = found.split(), phrase.split()
    if len(one) != len(other):
        return -1
    return sum(a != b for a, b in zip(one, other, strict=True))


def _repetitions(text: str, phrase: str) -> Iterator[str]:
    """Yield the parts of lines from the phrase's first word to its last, as short as possible."""
    first, last = phrase.split()[0], phrase.split()[-1]
    if re.escape(first + last) != first + last:  # the published code takes words as patterns
        yield from Pattern(f"{first} .*? {last}", "The phrase").findall(text)
        return
    for line in text.split("\n"):
        begin = line.find(f"{first} ")
        while begin >= 0:
            end = line.find(f" {last}", begin + len(first) + 1)
            if end < 0:
                break
            end += len(last) + 1
            yield line[begin:end]
            begin = line.find(f"{first} ", end)


@training("copy:copy")
@training("copy:copying_simple")
def copied(text: str, prompt_to_repeat: str) -> str:
    """The text is the given one, in any case."""
    same = text.strip().lower() == prompt_to_repeat.strip().lower()
    return "" if same else "the text is not a copy of what it should repeat"


@training("new:copy_span_idx")
def copied_span(
    text: str, prompt_to_repeat: str, n_start: int, n_end: int, *, corrected: bool = False
) -> str:
    """The text is the given one from one character to before another, in any case."""
    # Corrected, the last character is included, as the prompts say.
    return copied(text, prompt_to_repeat[n_start : n_end + corrected])


@training("copy:copying_multiple")
def copied_times(text: str, prompt_to_repeat: str, N: int) -> str:
    """The given text N times, in any case, separated by ``******``."""
    parts = text.split("******")
    if wrong := exactly(len(parts), N, "copies divided by ******"):
        return wrong
    return next(filter(None, (copied(part, prompt_to_repeat) for part in parts)), "")


@training("detectable_format:sentence_hyphens")
def sentence_hyphens(text: str) -> str:
    """Sentences are joined by hyphens without spaces; later parts without a partner pass."""
    # The published code compares the first parts only, if there are fewer sentences than parts.
    for part, sentence in zip(text.split("-"), _sentences(text.replace("-", " ")), strict=False):
        if part != sentence:
            return f"{part!r:.60} is not a sentence between hyphens"
    return ""


@training("keywords:no_adjacent_consecutive")
def no_adjacent_consecutive(text: str) -> str:
    """No word begins with the letter after the one that the word before begins with."""
    first = [word[0].lower() for word in text.split()]
    for one, other in pairwise(first):
        if len(one) != 1 or len(other) != 1 or ord(other) - ord(one) == 1:
            return f"a word beginning with {other!r} follows one beginning with {one!r}"
    return ""


@training("detectable_format:square_brackets")
def square_brackets(text: str) -> str:
    """Each word is in square brackets."""
    wrong = [one for one in text.split() if not (one.startswith("[") and one.endswith("]"))]
    return f"{listed(wrong)} not in square brackets" if wrong else ""


@training("detectable_format:bigram_wrapping")
def bigram_wrapping(text: str) -> str:
    """Each pair of words is in ``<<`` and ``>>``; a last single word passes."""
    found = text.split()
    for one, other in zip(found[::2], found[1::2], strict=False):
        if not (one.startswith("<<") and other.endswith(">>")):
            return f"{f'{one} {other}'!r:.60} is not in << and >>"
    return ""


@training("keywords:word_count_different_numbers")
def frequency(text: str, keyword: str, frequency: int, relation: Relation) -> str:
    """How often a keyword occurs, in any case, also within words."""
    return ifeval.frequency(text, keyword, frequency, relation)


@training("keywords:word_once")
def word_once(text: str, keyword: str) -> str:
    """A keyword occurs exactly once, in any case, also within words."""
    return _times(text, keyword, 1)


@training("count:count_increment_word")
def count_increment_word(text: str, keyword1: str, keyword2: str) -> str:
    """One keyword occurs once and another twice, in any case, also within words."""
    return _times(text, keyword1, 1) or _times(text, keyword2, 2)


def _times(text: str, keyword: str, wanted: int) -> str:
    count = len(expression(keyword.strip()).findall(text))
    return exactly(count, wanted, f"occurrences of {keyword.strip()!r:.60}", f"exactly {wanted}")


@training("keywords:exclude_word_harder")
def exclude_word(text: str, keyword: str, *, corrected: bool = False) -> str:
    """A keyword does not occur between two spaces, in the given case."""
    keyword = keyword.strip()
    if corrected:  # a whole word anywhere, in any case
        return ifeval.forbidden(text, [keyword], corrected=True)
    return f"contains {keyword!r:.60}" if f" {keyword} " in text else ""


@training("paragraphs:paragraphs")
def two_paragraphs(text: str) -> str:
    """Two paragraphs divided by ``***``."""
    return ifeval.number_paragraphs(text, 2)


@training("paragraphs:paragraphs2")
def two_blocks(text: str) -> str:
    """Two paragraphs divided by an empty line; an empty one in the middle fails."""
    parts = text.split("\n\n")
    if not all(part.strip() for part in parts[1:-1]):
        return "an empty paragraph between two others"
    return exactly(sum(bool(part.strip()) for part in parts), 2, "paragraphs")


@training("first_word:first_word_sent")
def first_words(text: str, first_word: str | list[str]) -> str:
    """Each sentence begins with a word, in any case."""
    return _at_ends(text, _one(first_word), "begin", 0)


@training("last_word:last_word_sent")
def last_words(text: str, last_word: str | list[str]) -> str:
    """Each sentence ends with a word, in any case; its punctuation is removed."""
    return _at_ends(text, _one(last_word), "end", -1)


def _one(word: str | list[str]) -> str:
    return (word if isinstance(word, str) else word[0]).strip().lower()


def _at_ends(text: str, word: str, what: str, place: int) -> str:
    for number, sentence in enumerate(_sentences(text), 1):
        found = sentence.split()[place] if sentence else ""
        found = found if place == 0 else _NO_WORD.sub("", found)
        if found.lower() != word:
            return f"sentence {number} {what}s with {found!r:.60}, {word!r:.60} wanted"
    return ""


@training("first_word:first_word_answer")
def first_word(text: str, first_word: str) -> str:
    """The text begins with a word, in any case."""
    found, wanted = text.split()[0].lower(), _one(first_word)
    return "" if found == wanted else f"begins with {found!r:.60}, {wanted!r:.60} wanted"


@training("last_word:last_word_answer")
def last_word(text: str, last_word: str) -> str:
    """The text ends with a word, in any case; its punctuation is removed."""
    found, wanted = _NO_WORD.sub("", text.split()[-1]).lower(), _one(last_word)
    return "" if found == wanted else f"ends with {found!r:.60}, {wanted!r:.60} wanted"


@training("count:lowercase_counting")
def lowercase_counting(text: str, N: int) -> str:
    """At most N words of lower-case ASCII letters."""
    found = len(re.findall(r"\b[a-z]+\b", text))
    return "" if found <= N else counted(found, "words in lower case", f"at most {N}")


@training("letters:letter_counting")
def letter_counting(text: str, N: int, relation: Relation) -> str:
    """The number of ASCII letters."""
    return missed(len(re.findall("[a-zA-Z]", text)), relation, N, "letters")


@training("count:counting_composition")
def counting_composition(text: str, n_sent: int, n_words: int, *, corrected: bool = False) -> str:
    """Three paragraphs divided by ``***``, with so many sentences of so many words and marks."""
    split = words if corrected else tokens  # corrected: punctuation marks are no words
    parts = _STARS.split(text)
    for number, part in enumerate(parts, 1):
        found = _sentences(part)
        if wrong := exactly(len(found), n_sent, "sentences"):
            return f"paragraph {number} has {wrong}"
        for sentence in found:
            if wrong := exactly(len(split(sentence)), n_words, "words"):
                return f"paragraph {number} has a sentence of {wrong}"
    return exactly(len(parts), 3, "paragraphs divided by ***")


@training("count:count_unique")
def count_unique(text: str, *, corrected: bool = False) -> str:
    """No word or punctuation mark occurs twice."""
    # Corrected, punctuation may be repeated, and case does not matter.
    found = words(text.lower()) if corrected else tokens(text)
    repeated = [one for one, count in Counter(found).items() if count > 1]
    return f"{listed(repeated)} more than once" if repeated else ""


@training("keywords:palindrome")
def palindrome(text: str, *, corrected: bool = False) -> str:
    """A word reads the same backwards, punctuation included; ``a`` and ``I`` do."""
    if not corrected:
        found = any(word == word[::-1] for word in text.split())
        return "" if found else "there is no palindrome"
    bare_words = (bare(word).lower() for word in text.split())
    found = any(len(word) > 2 and word == word[::-1] for word in bare_words)
    return "" if found else "there is no palindrome of three letters or more"


@training("keywords:keyword_specific_position")
def keyword_specific_position(
    text: str, keyword: str | list[str], n: int, m: int, *, corrected: bool = False
) -> str:
    """The m-th word or punctuation mark of the n-th sentence is a keyword."""
    found = _sentences(text)
    if wrong := missed(len(found), "at least", n, "sentences"):
        return wrong
    split = words if corrected else tokens  # corrected: punctuation marks are no words
    parts = split(found[n - 1])
    if wrong := missed(len(parts), "at least", m, "words"):
        return f"sentence {n} has {wrong}"
    wanted = (keyword if isinstance(keyword, str) else keyword[0]).strip()
    said = f"word {m} of sentence {n} is {parts[m - 1]!r:.60}, {wanted!r:.60} wanted"
    return "" if parts[m - 1] == wanted else said


@training("keywords:start_end")
def start_end(text: str) -> str:
    """The first and last word are the same, in any case, and nothing follows it."""
    found = tokens(text)
    if wrong := missed(len(found), "at least", 2, "words"):
        return wrong
    same = found[0].lower() == found[-1].lower()
    return "" if same else f"begins with {found[0]!r:.60} and ends with {found[-1]!r:.60}"


@training("punctuation:punctuation_dot")
def no_dot(text: str) -> str:
    """The text has no dot."""
    return "contains a dot" if "." in text else ""


@training("punctuation:punctuation_exclamation")
def no_exclamation(text: str) -> str:
    """The text has no exclamation mark."""
    return "contains an exclamation mark" if "!" in text else ""


training("letters:letter_counting2")(ifeval.letters)
