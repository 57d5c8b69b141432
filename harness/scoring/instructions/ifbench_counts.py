"""IFBench's instructions about numbers of words, names and marks, and about shares of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from harness.scoring.instructions.language_data import published_list, stopwords
from harness.scoring.instructions.texts import (
    Check,
    bare,
    counted,
    listed,
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

NEEDS_STOPWORDS = frozenset({"ratio:stop_words"})
"""Ids of the instructions that need NLTK's stop words."""

_NAME = re.compile(rf"\b(?:{'|'.join(NAMES)})\b")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_INTERROBANGS = ("?!", "!?", "\N{INTERROBANG}")


def word_count_range(text: str, min_words: int, max_words: int) -> str:
    """Number of words within a range; ``don't`` and ``3.5`` are two words each."""
    count = len(words(text))
    wanted = f"{min_words:,} to {max_words:,}"
    return "" if min_words <= count <= max_words else counted(count, "words", wanted)


def unique_word_count(text: str, N: int) -> str:
    """Number of distinct words, in any case; a mark between spaces counts as one more word."""
    return _at_least(len({bare(word) for word in text.lower().split()}), N, "words (different)")


def unique_real_words(text: str, N: int) -> str:
    """Corrected `unique_word_count`: punctuation between spaces is not a word."""
    found = {bare(word) for word in text.lower().split()} - {""}
    return _at_least(len(found), N, "words (different)")


def _at_least(count: int, wanted: int, what: str) -> str:
    return "" if count >= wanted else counted(count, what, f"at least {wanted:,}")


def conjunctions(text: str, small_n: int) -> str:
    """Number of different coordinating conjunctions; ``and``, ``And`` and ``and,`` are three."""
    found = {word for word in text.split() if bare(word).lower() in CONJUNCTIONS}
    return _at_least(len(found), small_n, "conjunctions (different)")


def different_conjunctions(text: str, small_n: int) -> str:
    """Corrected `conjunctions`: case and punctuation make no difference."""
    found = {bare(word).lower() for word in text.split()} & CONJUNCTIONS
    return _at_least(len(found), small_n, "conjunctions (different)")


def person_names(text: str, N: int) -> str:
    """Number of different first names from the published list of 50."""
    return _at_least(len(set(_NAME.findall(text))), N, "names of the list")


def numbers(text: str, N: int) -> str:
    """Number of numbers once punctuation is deleted: ``1,000`` is one, and so is ``10-12``."""
    return _exactly(len(re.findall(r"\d+", unpunctuated(text))), N)


def separate_numbers(text: str, N: int) -> str:
    """Corrected `numbers`: only a comma or period continues a number, so ``10-12`` is two."""
    return _exactly(len(_NUMBER.findall(text)), N)


def _exactly(count: int, wanted: int) -> str:
    return "" if count == wanted else counted(count, "numbers", wanted)


def pronouns(text: str, N: int) -> str:
    """Number of pronouns; those joined by slashes count separately."""
    found = [word for word in tokens(text.replace("/", " ").lower()) if word in PRONOUNS]
    return _at_least(len(found), N, "pronouns")


def punctuation(text: str) -> str:
    """Every standard punctuation mark, and an interrobang (``?!``, ``!?`` or one character)."""
    if not any(mark in text for mark in _INTERROBANGS):
        return "there is no interrobang (?!)"
    rest = text.replace("?!", "", 1)
    if len(rest) == len(text):
        rest = text.replace("!?", "", 1)
    missing = [mark for mark in ".,!?;:" if mark not in rest]
    return f"{listed(missing)} missing" if missing else ""


def keywords_multiple(
    text: str, keyword1: str, keyword2: str, keyword3: str, keyword4: str, keyword5: str
) -> str:
    """Five keywords, in any case, exactly 1, 2, 3, 5 and 7 times, even inside other words."""
    for keyword, wanted in zip(
        (keyword1, keyword2, keyword3, keyword4, keyword5), TIMES, strict=True
    ):
        count = text.lower().count(keyword.strip().lower())
        if count != wanted:
            return counted(count, f"occurrences of {keyword.strip()!r}", wanted)
    return ""


def words_japanese(text: str, N: int) -> str:
    """Every N-th word has a Japanese character; numbers and punctuation may stand there too."""
    for place, word in list(enumerate(text.split(), 1))[N - 1 :: N] if N > 0 else ():
        word = bare(word)
        if word and not word.isdigit() and not _JAPANESE.search(word):
            return f"word {place}, {word[:40]!r}, is not Japanese"
    return ""


def stop_words(text: str, percentage: int) -> str:
    """Share of stop words (NLTK's English list) among all words, at most a percentage."""
    found = words(text)
    if not found:
        return "there are no words"
    share = sum(word.lower() in stopwords() for word in found) / len(found) * 100
    return "" if share <= percentage else f"{share:.1f}% stop words, at most {percentage}% wanted"


def sentence_type(text: str) -> str:
    """Twice as many sentences that end in a period as in a question mark; none of both passes."""
    plain, asked, _ = _ends(text)
    if plain == 2 * asked:
        return ""
    return f"{plain} declarative and {asked} interrogative sentences, a ratio of 2:1 wanted"


def some_sentence_types(text: str) -> str:
    """Corrected `sentence_type`: there must be such sentences."""
    return sentence_type(text) or ("" if any(_ends(text)[:2]) else "no sentence of either type")


def sentence_balance(text: str) -> str:
    """As many sentences end in ``.`` as in ``?`` and in ``!``; none of each passes."""
    ends = _ends(text)
    if len(set(ends)) == 1:
        return ""
    said = "{} declarative, {} interrogative and {} exclamatory sentences".format(*ends)
    return f"{said}, as many of each wanted"


def some_sentences_of_each(text: str) -> str:
    """Corrected `sentence_balance`: there must be such sentences."""
    return sentence_balance(text) or ("" if any(_ends(text)) else "no sentence of any type")


def _ends(text: str) -> tuple[int, int, int]:
    """Return the numbers of sentences that end in a period, question and exclamation mark."""
    last = [sentence[-1:] for sentence in sentences(text)]
    return last.count("."), last.count("?"), last.count("!")


def sentence_words(text: str) -> str:
    """Three sentences with the same number of characters; the words are not compared."""
    lengths = [len(sentence.strip()) for sentence in sentences(text)]
    if len(lengths) != 3:
        return counted(len(lengths), "sentences", 3)
    return "" if len(set(lengths)) == 1 else f"{_enumerated(lengths)} characters, as many wanted"


def sentences_of_different_words(text: str) -> str:
    """Corrected `sentence_words`: no word may occur twice."""
    found = Counter(unpunctuated(text).lower().split())
    repeated = [word for word, count in found.items() if count > 1]
    return sentence_words(text) or (f"{listed(repeated)} repeated" if repeated else "")


def _enumerated(numbers: Sequence[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def overlap(text: str, reference_text: str, percentage: int) -> str:
    """Share of the text's runs of three characters that a reference text has, within 2 points."""
    return _overlap(text, reference_text, percentage)


def word_overlap(text: str, reference_text: str, percentage: int) -> str:
    """Corrected `overlap`: runs of three words."""
    return _overlap(tokens(text), tokens(reference_text), percentage)


def _overlap(text: Sequence[str], reference: Sequence[str], percentage: int) -> str:
    found, known = (set(zip(one, one[1:], one[2:], strict=False)) for one in (text, reference))
    share = len(found & known) / len(found) if found else -1.0
    if percentage - 2 <= share * 100 <= percentage + 2:
        return ""
    said = f"a trigram overlap of {share:.0%}" if found else "there are no trigrams"
    return f"{said}, {percentage}% wanted"


OFFICIAL: Mapping[str, Check] = {
    "count:word_count_range": word_count_range,
    "count:unique_word_count": unique_word_count,
    "count:conjunctions": conjunctions,
    "count:person_names": person_names,
    "count:numbers": numbers,
    "count:pronouns": pronouns,
    "count:punctuation": punctuation,
    "count:keywords_multiple": keywords_multiple,
    "count:words_japanese": words_japanese,
    "ratio:stop_words": stop_words,
    "ratio:sentence_type": sentence_type,
    "ratio:sentence_balance": sentence_balance,
    "ratio:sentence_words": sentence_words,
    "ratio:overlap": overlap,
}
CORRECTED: Mapping[str, Check] = {
    "count:unique_word_count": unique_real_words,
    "count:conjunctions": different_conjunctions,
    "count:numbers": separate_numbers,
    "ratio:overlap": word_overlap,
    "ratio:sentence_type": some_sentence_types,
    "ratio:sentence_balance": some_sentences_of_each,
    "ratio:sentence_words": sentences_of_different_words,
}
