"""IFBench's 29 kinds of instruction for training models (Pyatkin et al. 2025, arXiv 2507.02833).

As in the published code, sentences are split by regular expressions and words by NLTK.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from harness.plugins.benchmarks.ifeval.instructions import (
    Checks,
    Relation,
    bare,
    count_reason,
    expression,
    ifeval,
    require,
    require_count,
    require_none,
    require_parts,
    require_relation,
    tokens,
    words,
)
from harness.scoring.patterns import Pattern
from harness.scoring.text import fold_case, has_other_scripts
from harness.scoring.text import words as words_in_any_script

CHECKS = Checks()

_DOT = "\ue000"  # a dot that ends no sentence
_END = "\ue001"  # the end of a sentence
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
    parts = [part.strip() for part in text.replace(_DOT, ".").split(_END)]
    if not parts[-1]:
        parts.pop()
    return parts


@CHECKS("copy:repeat_phrase")
def repeat_phrase(text: str, phrase: str, small_n: int, *, corrected: bool = False) -> None:
    """Check for ``small_n`` copies of a phrase, each with at most one word changed.

    The last copy must have exactly one changed word; in the corrected check, every copy must.
    """
    changes = [_changed(repetition, phrase) for repetition in _repetitions(text, phrase)]
    require_count(len(changes), small_n, "repetitions of the phrase")
    allowed = (1,) if corrected else (0, 1)
    for place, changed in enumerate(changes, 1):
        problem = f"repetition {place} does not change exactly one word"
        require(changed in allowed, problem)
    last_is_changed = changes[-1:] in ([], [1])
    require(last_is_changed, "the last repetition of the phrase has no changed word")


def _changed(repetition: str, phrase: str) -> int:
    """Return how many words of two strings differ, or -1 if their numbers of words differ."""
    repetition_words = repetition.split()
    phrase_words = phrase.split()
    if len(repetition_words) != len(phrase_words):
        return -1
    return sum(map(operator.ne, repetition_words, phrase_words))


def _repetitions(text: str, phrase: str) -> Iterator[str]:
    """Yield the parts of lines that begin with the phrase's first word and end with its last."""
    first = phrase.split()[0]
    last = phrase.split()[-1]
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


@CHECKS("copy:copy")
@CHECKS("copy:copying_simple")
def copied(text: str, prompt_to_repeat: str) -> None:
    """Check that the text equals ``prompt_to_repeat``, ignoring case."""
    same = text.strip().lower() == prompt_to_repeat.strip().lower()
    require(same, "the text is not a copy of what it should repeat")


@CHECKS("new:copy_span_idx")
def copied_span(
    text: str, prompt_to_repeat: str, n_start: int, n_end: int, *, corrected: bool = False
) -> None:
    """Check that the text copies a part of ``prompt_to_repeat``, ignoring case.

    The part is from character ``n_start`` up to ``n_end``, counted from 0. Character ``n_end`` is
    excluded; in the corrected check, it is included.
    """
    copied(text, prompt_to_repeat[n_start : n_end + corrected])


@CHECKS("copy:copying_multiple")
def copied_times(text: str, prompt_to_repeat: str, N: int) -> None:
    """Check for ``N`` copies of ``prompt_to_repeat``, separated by ``******``, ignoring case."""
    parts = text.split("******")
    require_count(len(parts), N, "copies divided by ******")
    for part in parts:
        copied(part, prompt_to_repeat)


@CHECKS("detectable_format:sentence_hyphens")
def sentence_hyphens(text: str) -> None:
    """Check that sentences are joined by hyphens without spaces."""
    # The published code compares the first parts only, if there are fewer sentences than parts.
    for part, sentence in zip(text.split("-"), _sentences(text.replace("-", " ")), strict=False):
        require(part == sentence, f"{part!r:.60} is not a sentence between hyphens")


@CHECKS("keywords:no_adjacent_consecutive")
def no_adjacent_consecutive(text: str) -> None:
    """Check that no two adjacent words begin with consecutive letters of the alphabet."""
    first = [word[0].lower() for word in text.split()]
    for letter, next_letter in pairwise(first):
        holds = len(letter) == 1 and len(next_letter) == 1 and ord(next_letter) - ord(letter) != 1
        problem = f"a word beginning with {next_letter!r} follows one beginning with {letter!r}"
        require(holds, problem)


@CHECKS("detectable_format:square_brackets")
def square_brackets(text: str) -> None:
    """Check that each word is in square brackets."""
    wrong = [word for word in text.split() if not (word.startswith("[") and word.endswith("]"))]
    require_none(wrong, "{} not in square brackets")


@CHECKS("detectable_format:bigram_wrapping")
def bigram_wrapping(text: str) -> None:
    """Check that each pair of words is enclosed in ``<<`` and ``>>``, except a single last word."""
    text_words = text.split()
    for word, next_word in zip(text_words[::2], text_words[1::2], strict=False):
        wrapped = word.startswith("<<") and next_word.endswith(">>")
        pair = f"{word} {next_word}"
        require(wrapped, f"{pair!r:.60} is not in << and >>")


@CHECKS("keywords:word_count_different_numbers")
def frequency(text: str, keyword: str, frequency: int, relation: Relation) -> None:
    """Check that a regular expression matches "at least" or "less than" ``frequency`` times."""
    ifeval.frequency(text, keyword, frequency, relation)


@CHECKS("keywords:word_once")
def word_once(text: str, keyword: str) -> None:
    """Check that the regular expression ``keyword`` matches exactly once, ignoring case."""
    _require_times(text, keyword, 1)


@CHECKS("count:count_increment_word")
def count_increment_word(text: str, keyword1: str, keyword2: str) -> None:
    """Check that ``keyword1`` matches once and ``keyword2`` twice, ignoring case."""
    _require_times(text, keyword1, 1)
    _require_times(text, keyword2, 2)


def _require_times(text: str, keyword: str, times: int) -> None:
    count = len(expression(keyword.strip()).findall(text))
    require_count(count, times, f"occurrences of {keyword.strip()!r:.60}", f"exactly {times}")


@CHECKS("keywords:exclude_word_harder")
def exclude_word(text: str, keyword: str, *, corrected: bool = False) -> None:
    """Check that a keyword does not occur between spaces.

    In the corrected check, it must not occur as a word anywhere, ignoring case.
    """
    keyword = keyword.strip()
    if corrected:
        ifeval.forbidden(text, [keyword], corrected=True)
    else:
        require(f" {keyword} " not in text, f"contains {keyword!r:.60}")


@CHECKS("paragraphs:paragraphs")
def two_paragraphs(text: str) -> None:
    """Check for two paragraphs separated by ``***``."""
    ifeval.number_paragraphs(text, 2)


@CHECKS("paragraphs:paragraphs2")
def two_blocks(text: str) -> None:
    """Check for two paragraphs separated by an empty line. A blank paragraph between them fails."""
    require_parts(text.split("\n\n"), 2, "paragraphs", "an empty paragraph between two others")


@CHECKS("first_word:first_word_sent")
def first_words(text: str, first_word: str | list[str]) -> None:
    """Check that each sentence begins with the given word, ignoring case.

    If ``first_word`` is a list, only its first item is used.
    """
    for number, sentence in enumerate(_sentences(text), 1):
        _require_word(sentence, 0, first_word, f"sentence {number} begins")


@CHECKS("last_word:last_word_sent")
def last_words(text: str, last_word: str | list[str]) -> None:
    """Check that each sentence ends with the given word, ignoring case and punctuation.

    If ``last_word`` is a list, only its first item is used.
    """
    for number, sentence in enumerate(_sentences(text), 1):
        _require_word(sentence, -1, last_word, f"sentence {number} ends")


@CHECKS("first_word:first_word_answer")
def first_word(text: str, first_word: str) -> None:
    """Check that the text begins with the given word, ignoring case."""
    _require_word(text, 0, first_word, "begins")


@CHECKS("last_word:last_word_answer")
def last_word(text: str, last_word: str) -> None:
    """Check that the text ends with the given word, ignoring case and punctuation."""
    _require_word(text, -1, last_word, "ends")


def _require_word(text: str, place: int, word: str | list[str], what: str) -> None:
    expected = _first(word).lower()
    actual = ""
    if text:
        actual = text.split()[place]
    if place == -1:
        actual = _NO_WORD.sub("", actual)
    require(actual.lower() == expected, f"{what} with {actual!r:.60}, {expected!r:.60} wanted")


def _first(word: str | list[str]) -> str:
    """Return a word, or the first one of a list, without white space around it."""
    if isinstance(word, list):
        word = word[0]
    return word.strip()


@CHECKS("count:lowercase_counting")
def lowercase_counting(text: str, N: int) -> None:
    """Check for at most ``N`` words of lower-case ASCII letters."""
    count = len(re.findall(r"\b[a-z]+\b", text))
    require(count <= N, count_reason(count, "words in lower case", f"at most {N}"))


@CHECKS("letters:letter_counting")
def letter_counting(text: str, N: int, relation: Relation) -> None:
    """Check for "at least" or "less than" ``N`` ASCII letters."""
    require_relation(len(re.findall("[a-zA-Z]", text)), relation, N, "letters")


@CHECKS("count:counting_composition")
def counting_composition(text: str, n_sent: int, n_words: int, *, corrected: bool = False) -> None:
    """Check for three paragraphs of ``n_sent`` sentences of ``n_words`` words each.

    Paragraphs are separated by ``***``. Punctuation marks count as words; in the corrected check,
    they do not.
    """
    split = words if corrected else tokens
    parts = _STARS.split(text)
    for number, part in enumerate(parts, 1):
        part_sentences = _sentences(part)
        require_count(len(part_sentences), n_sent, "sentences", where=f"paragraph {number} has ")
        for sentence in part_sentences:
            where = f"paragraph {number} has a sentence of "
            require_count(len(split(sentence)), n_words, "words", where=where)
    require_count(len(parts), 3, "paragraphs divided by ***")


@CHECKS("count:count_unique")
def count_unique(text: str, *, corrected: bool = False) -> None:
    """Check that no word or punctuation mark occurs twice.

    The official check counts words and punctuation marks, and distinguishes upper and lower case.
    The corrected check counts only words, and ignores case. ICU divides scripts without spaces.
    """
    if not corrected:
        text_words = tokens(text)
    elif has_other_scripts(text):
        text_words = words_in_any_script(fold_case(text))
    else:
        text_words = words(text.lower())
    repeated = [word for word, count in Counter(text_words).items() if count > 1]
    require_none(repeated, "{} more than once")


@CHECKS("keywords:palindrome")
def palindrome(text: str, *, corrected: bool = False) -> None:
    """Check that the text contains a palindrome. Even ``a`` is one.

    In the corrected check, it must have three letters or more, and case is ignored.
    """
    problem = "there is no palindrome"
    text_words = text.split()
    if corrected:
        problem = "there is no palindrome of three letters or more"
        bare_words = [bare(word).lower() for word in text_words]
        text_words = [word for word in bare_words if len(word) > 2]
    require(any(word == word[::-1] for word in text_words), problem)


@CHECKS("keywords:keyword_specific_position")
def keyword_specific_position(
    text: str, keyword: str | list[str], n: int, m: int, *, corrected: bool = False
) -> None:
    """Check that the keyword is word ``m`` of sentence ``n``, both counted from 1.

    Punctuation marks count as words; in the corrected check, they do not. If ``keyword`` is a list,
    only its first item is used.
    """
    all_sentences = _sentences(text)
    require_relation(len(all_sentences), "at least", n, "sentences")
    split = words if corrected else tokens
    parts = split(all_sentences[n - 1])
    require_relation(len(parts), "at least", m, "words", f"sentence {n} has ")
    expected = _first(keyword)
    problem = f"word {m} of sentence {n} is {parts[m - 1]!r:.60}, {expected!r:.60} wanted"
    require(parts[m - 1] == expected, problem)


@CHECKS("keywords:start_end")
def start_end(text: str) -> None:
    """Check that the first and the last word or punctuation mark are equal, ignoring case."""
    text_tokens = tokens(text)
    require_relation(len(text_tokens), "at least", 2, "words")
    same = text_tokens[0].lower() == text_tokens[-1].lower()
    require(same, f"begins with {text_tokens[0]!r:.60} and ends with {text_tokens[-1]!r:.60}")


@CHECKS("punctuation:punctuation_dot")
def no_dot(text: str) -> None:
    """Check that the text contains no period."""
    require("." not in text, "contains a dot")


@CHECKS("punctuation:punctuation_exclamation")
def no_exclamation(text: str) -> None:
    """Check that the text contains no exclamation mark."""
    require("!" not in text, "contains an exclamation mark")


CHECKS("letters:letter_counting2")(ifeval.letters)
