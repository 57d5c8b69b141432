"""IFBench's instructions about numbers of words, names and marks, and about shares of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from harness.scoring import listed
from harness.scoring.instructions.language_data import published_list, stopwords
from harness.scoring.instructions.texts import (
    bare,
    counted,
    exactly,
    ifbench,
    missed,
    sentences,
    tokens,
    unpunctuated,
    words,
)

CONJUNCTIONS = frozenset(published_list("conjunctions"))
NAMES = published_list("names")
PRONOUNS = frozenset(published_list("pronouns"))
TIMES = (1, 2, 3, 5, 7)
"""How often the five keywords of `keywords_multiple` are wanted."""

_NAME = re.compile(rf"\b(?:{'|'.join(NAMES)})\b")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_INTERROBANGS = ("?!", "!?", "\N{INTERROBANG}")


@ifbench("count:word_count_range")
def word_count_range(text: str, min_words: int, max_words: int) -> str:
    """Number of words within a range; ``don't`` and ``3.5`` are two words each."""
    count = len(words(text))
    wanted = f"{min_words:,} to {max_words:,}"
    return "" if min_words <= count <= max_words else counted(count, "words", wanted)


@ifbench("count:unique_word_count")
def unique_word_count(text: str, N: int, *, corrected: bool = False) -> str:
    """Number of distinct words, in any case; a mark between spaces counts as one more word."""
    found = {bare(word) for word in text.lower().split()} - ({""} if corrected else set())
    return missed(len(found), "at least", N, "words (different)")


@ifbench("count:conjunctions")
def conjunctions(text: str, small_n: int, *, corrected: bool = False) -> str:
    """Number of different coordinating conjunctions; ``and``, ``And`` and ``and,`` are three."""
    found = {word for word in text.split() if bare(word).lower() in CONJUNCTIONS}
    if corrected:  # case and punctuation make no difference
        found = {bare(word).lower() for word in found}
    return missed(len(found), "at least", small_n, "conjunctions (different)")


@ifbench("count:person_names")
def person_names(text: str, N: int) -> str:
    """Number of different first names from the published list of 50."""
    return missed(len(set(_NAME.findall(text))), "at least", N, "names of the list")


@ifbench("count:numbers")
def numbers(text: str, N: int, *, corrected: bool = False) -> str:
    """Number of numbers once punctuation is deleted: ``1,000`` is one, and so is ``10-12``."""
    # Corrected, only a comma or period continues a number, so ``10-12`` is two.
    found = _NUMBER.findall(text) if corrected else re.findall(r"\d+", unpunctuated(text))
    return exactly(len(found), N, "numbers")


@ifbench("count:pronouns")
def pronouns(text: str, N: int) -> str:
    """Number of pronouns; those joined by slashes count separately."""
    count = sum(word in PRONOUNS for word in tokens(text.replace("/", " ").lower()))
    return missed(count, "at least", N, "pronouns")


@ifbench("count:punctuation")
def punctuation(text: str) -> str:
    """Every standard punctuation mark, and an interrobang (``?!``, ``!?`` or one character)."""
    used = next((mark for mark in _INTERROBANGS if mark in text), None)
    if used is None:
        return "there is no interrobang (?!)"
    rest = text.replace(used, "", 1)
    missing = [mark for mark in ".,!?;:" if mark not in rest]
    return f"{listed(missing)} missing" if missing else ""


@ifbench("count:keywords_multiple")
def keywords_multiple(
    text: str, keyword1: str, keyword2: str, keyword3: str, keyword4: str, keyword5: str
) -> str:
    """Five keywords, in any case, exactly 1, 2, 3, 5 and 7 times, even inside other words."""
    keywords = (keyword1, keyword2, keyword3, keyword4, keyword5)
    for keyword, wanted in zip(map(str.strip, keywords), TIMES, strict=True):
        count = text.lower().count(keyword.lower())
        if wrong := exactly(count, wanted, f"occurrences of {keyword!r}"):
            return wrong
    return ""


@ifbench("count:words_japanese")
def words_japanese(text: str, N: int) -> str:
    """Every N-th word has a Japanese character; numbers and punctuation may stand there too."""
    for place, word in list(enumerate(text.split(), 1))[N - 1 :: N] if N > 0 else ():
        word = bare(word)
        if word and not word.isdigit() and not _JAPANESE.search(word):
            return f"word {place}, {word[:40]!r}, is not Japanese"
    return ""


@ifbench("ratio:stop_words")
def stop_words(text: str, percentage: int) -> str:
    """Share of stop words (NLTK's English list) among all words, at most a percentage."""
    found = words(text)
    if not found:
        return "there are no words"
    share = sum(word.lower() in stopwords() for word in found) / len(found) * 100
    return "" if share <= percentage else f"{share:.1f}% stop words, at most {percentage}% wanted"


@ifbench("ratio:sentence_type")
def sentence_type(text: str, *, corrected: bool = False) -> str:
    """Twice as many sentences that end in a period as in a question mark; none of both passes."""
    plain, asked, _ = _ends(text)
    if plain != 2 * asked:
        return f"{plain} declarative and {asked} interrogative sentences, a ratio of 2:1 wanted"
    return "no sentence of either type" if corrected and not plain else ""


@ifbench("ratio:sentence_balance")
def sentence_balance(text: str, *, corrected: bool = False) -> str:
    """As many sentences end in ``.`` as in ``?`` and in ``!``; none of each passes."""
    ends = _ends(text)
    if len(set(ends)) > 1:
        said = "{} declarative, {} interrogative and {} exclamatory sentences".format(*ends)
        return f"{said}, as many of each wanted"
    return "no sentence of any type" if corrected and not any(ends) else ""


def _ends(text: str) -> tuple[int, int, int]:
    """Return the numbers of sentences that end in a period, question and exclamation mark."""
    last = [sentence[-1:] for sentence in sentences(text)]
    return last.count("."), last.count("?"), last.count("!")


@ifbench("ratio:sentence_words")
def sentence_words(text: str, *, corrected: bool = False) -> str:
    """Three sentences with the same number of characters; the words are not compared."""
    lengths = [len(sentence.strip()) for sentence in sentences(text)]
    if len(lengths) != 3:
        return counted(len(lengths), "sentences", 3)
    if len(set(lengths)) > 1:
        return "{}, {} and {} characters, as many wanted".format(*lengths)
    repeated = [word for word, n in Counter(unpunctuated(text).lower().split()).items() if n > 1]
    return f"{listed(repeated)} repeated" if corrected and repeated else ""


@ifbench("ratio:overlap")
def overlap(text: str, reference_text: str, percentage: int, *, corrected: bool = False) -> str:
    """Share of the text's runs of three characters that a reference text has, within 2 points."""
    both: list[Sequence[str]] = [text, reference_text]
    if corrected:  # runs of three words
        both = [tokens(text), tokens(reference_text)]
    found, known = (set(zip(one, one[1:], one[2:], strict=False)) for one in both)
    share = len(found & known) / len(found) if found else -1.0
    if percentage - 2 <= share * 100 <= percentage + 2:
        return ""
    said = f"a trigram overlap of {share:.0%}" if found else "there are no trigrams"
    return f"{said}, {percentage}% wanted"
