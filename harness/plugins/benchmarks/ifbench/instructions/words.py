"""IFBench's instructions about words, sentences and punctuation: counts, shares and positions."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from harness.plugins.benchmarks.ifbench.instructions.language_data import (
    first_tag,
    published_list,
    stopwords,
    syllable_counter,
)
from harness.plugins.benchmarks.ifeval.instructions import (
    Checks,
    bare,
    count_reason,
    require,
    require_count,
    require_none,
    require_relation,
    sentences,
    shown,
    tokens,
    unpunctuated,
    words,
)
from harness.scoring.text import count_words, fold_case, has_other_scripts
from harness.scoring.text import words as words_in_any_script

CHECKS = Checks()

CONJUNCTIONS = frozenset(published_list("conjunctions"))
NAMES = published_list("names")
PRONOUNS = frozenset(published_list("pronouns"))
TIMES = (1, 2, 3, 5, 7)  # required occurrences of the five keywords of `keywords_multiple`

ALPHABET = string.ascii_lowercase
CONSONANTS = "bcdfghjklmnpqrstvwxyz"

N_PALINDROMES = 10
SHORTEST_PALINDROME = 5
MOST_VOWELS = 3


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % factor for factor in range(2, number))


PRIMES = frozenset(filter(_is_prime, range(100)))

_NAME = re.compile(rf"\b(?:{'|'.join(NAMES)})\b")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_INTERROBANGS = ("?!", "!?", "\N{INTERROBANG}")
_CLUSTER = re.compile(f"[{CONSONANTS}]{{2}}")


@CHECKS("count:word_count_range")
def word_count_range(text: str, min_words: int, max_words: int, *, corrected: bool = False) -> None:
    """Check for ``min_words`` to ``max_words`` words; ``don't`` and ``3.5`` are two words each.

    In the corrected check, ICU divides scripts without spaces into words.
    """
    count = len(words(text))
    if corrected and has_other_scripts(text):
        count = count_words(text)
    bounds = f"{min_words:,} to {max_words:,}"
    require(min_words <= count <= max_words, count_reason(count, "words", bounds))


@CHECKS("count:unique_word_count")
def unique_word_count(text: str, N: int, *, corrected: bool = False) -> None:
    """Check for at least ``N`` different words, ignoring case.

    Lone punctuation marks count as one more word; in the corrected check, they do not, and ICU
    divides scripts without spaces into words.
    """
    different = {bare(word) for word in text.lower().split()}
    if corrected:
        different.discard("")
        if has_other_scripts(text):
            different = set(words_in_any_script(fold_case(text)))
    require_relation(len(different), "at least", N, "words (different)")


@CHECKS("count:conjunctions")
def conjunctions(text: str, small_n: int, *, corrected: bool = False) -> None:
    """Check for at least ``small_n`` different conjunctions.

    ``And``, ``and`` and ``and,`` are different; in the corrected check, they are the same.
    """
    different = {word for word in text.split() if bare(word).lower() in CONJUNCTIONS}
    if corrected:
        different = {bare(word).lower() for word in different}
    require_relation(len(different), "at least", small_n, "conjunctions (different)")


@CHECKS("count:person_names")
def person_names(text: str, N: int) -> None:
    """Check that at least ``N`` different first names from the published list of 50 occur."""
    require_relation(len(set(_NAME.findall(text))), "at least", N, "names of the list")


@CHECKS("count:numbers")
def numbers(text: str, N: int, *, corrected: bool = False) -> None:
    """Check for exactly ``N`` numbers. ``1,000`` is one number.

    ``10-12`` counts as one number; in the corrected check, as two.
    """
    matches = re.findall(r"\d+", unpunctuated(text))
    if corrected:
        matches = _NUMBER.findall(text)
    require_count(len(matches), N, "numbers")


@CHECKS("count:pronouns")
def pronouns(text: str, N: int) -> None:
    """Check for at least ``N`` pronouns; ``he/she`` counts as two."""
    count = sum(word in PRONOUNS for word in tokens(text.replace("/", " ").lower()))
    require_relation(count, "at least", N, "pronouns")


@CHECKS("count:punctuation")
def punctuation(text: str) -> None:
    """Check that each of the marks ``.,!?;:`` occurs, and also an interrobang such as ``?!``.

    The marks of one interrobang do not count as separate marks.
    """
    used = next((mark for mark in _INTERROBANGS if mark in text), None)
    require(used, "there is no interrobang (?!)")
    rest = text.replace(used or "", "", 1)
    missing = [mark for mark in ".,!?;:" if mark not in rest]
    require_none(missing, "{} missing")


@CHECKS("count:keywords_multiple")
def keywords_multiple(
    text: str, keyword1: str, keyword2: str, keyword3: str, keyword4: str, keyword5: str
) -> None:
    """Check that the keywords occur 1, 2, 3, 5 and 7 times, even within words, ignoring case."""
    keywords = (keyword1, keyword2, keyword3, keyword4, keyword5)
    lowered = text.lower()
    for keyword, times in zip(map(str.strip, keywords), TIMES, strict=True):
        require_count(lowered.count(keyword.lower()), times, f"occurrences of {keyword!r}")


@CHECKS("count:words_japanese")
def words_japanese(text: str, N: int) -> None:
    """Check that every ``N``-th word has a Japanese character, is a number, or is punctuation."""
    if N <= 0:
        return
    all_words = text.split()
    for place in range(N, len(all_words) + 1, N):
        word = bare(all_words[place - 1])
        passes = not word or word.isdigit() or _JAPANESE.search(word)
        require(passes, f"word {place}, {word[:40]!r}, is not Japanese")


@CHECKS("ratio:stop_words")
def stop_words(text: str, percentage: int) -> None:
    """Check that at most ``percentage`` percent of the words are stop words (NLTK's list)."""
    all_words = words(text)
    require(all_words, "there are no words")
    count = sum(word.lower() in stopwords() for word in all_words)
    share = count / len(all_words) * 100
    require(share <= percentage, f"{share:.1f}% stop words, at most {percentage}% wanted")


@CHECKS("ratio:sentence_type")
def sentence_type(text: str, *, corrected: bool = False) -> None:
    """Check for twice as many sentences that end in ``.`` as sentences that end in ``?``.

    Text without either passes; in the corrected check, it fails.
    """
    plain, questions, _ = _ends(text)
    problem = f"{plain} declarative and {questions} interrogative sentences, a ratio of 2:1 wanted"
    require(plain == 2 * questions, problem)
    require(plain or not corrected, "no sentence of either type")


@CHECKS("ratio:sentence_balance")
def sentence_balance(text: str, *, corrected: bool = False) -> None:
    """Check for equal numbers of sentences that end in ``.``, in ``?`` and in ``!``.

    Text without any of them passes; in the corrected check, it fails.
    """
    ends = _ends(text)
    numbers_of_each = "{} declarative, {} interrogative and {} exclamatory sentences".format(*ends)
    require(len(set(ends)) == 1, f"{numbers_of_each}, as many of each wanted")
    require(any(ends) or not corrected, "no sentence of any type")


def _ends(text: str) -> tuple[int, int, int]:
    """Return the numbers of sentences that end in ``.``, in ``?`` and in ``!``."""
    last = [sentence[-1:] for sentence in sentences(text)]
    return last.count("."), last.count("?"), last.count("!")


@CHECKS("ratio:sentence_words")
def sentence_words(text: str, *, corrected: bool = False) -> None:
    """Check for three sentences of equal length in characters.

    In the corrected check, no word may occur twice, ignoring case.
    """
    lengths = [len(sentence.strip()) for sentence in sentences(text)]
    require_count(len(lengths), 3, "sentences")
    problem = "{}, {} and {} characters, as many wanted".format(*lengths)
    require(len(set(lengths)) == 1, problem)
    if corrected:
        counts = Counter(unpunctuated(text).lower().split())
        repeated = [word for word, n in counts.items() if n > 1]
        require_none(repeated, "{} repeated")


@CHECKS("ratio:overlap")
def overlap(text: str, reference_text: str, percentage: int, *, corrected: bool = False) -> None:
    """Check that a given percentage of the text's distinct trigrams is also in ``reference_text``.

    Up to two percentage points more or less are allowed. Trigrams consist of characters; in the
    corrected check, of words.
    """
    if corrected:
        trigrams = _trigrams(tokens(text))
        reference_trigrams = _trigrams(tokens(reference_text))
    else:
        trigrams = _trigrams(text)
        reference_trigrams = _trigrams(reference_text)
    require(trigrams, f"there are no trigrams, {percentage}% wanted")
    share = len(trigrams & reference_trigrams) / len(trigrams)
    holds = percentage - 2 <= share * 100 <= percentage + 2
    require(holds, f"a trigram overlap of {share:.0%}, {percentage}% wanted")


def _trigrams(parts: Sequence[str]) -> set[tuple[str, ...]]:
    return set(zip(parts, parts[1:], parts[2:], strict=False))


@CHECKS("words:alphabet")
def alphabet(text: str) -> None:
    """Check that the words' first letters follow the alphabet, with ``a`` after ``z``."""
    all_words = unpunctuated(text).lower().split()
    starts = all_words and all_words[0][0] in ALPHABET
    require(starts, "the first word does not begin with a letter from a to z")
    first = ALPHABET.index(all_words[0][0])
    for place, word in enumerate(all_words):
        letter = ALPHABET[(first + place) % 26]
        problem = f"word {place + 1}, {shown(word)}, does not begin with {letter!r}"
        require(word[0] == letter, problem)


@CHECKS("words:vowel")
def vowel(text: str) -> None:
    """Check for a single paragraph with at most three different vowels."""
    paragraph = text.strip().lower()
    require("\n" not in paragraph, "more than one paragraph")
    n_vowels = len(set("aeiou").intersection(paragraph))
    problem = f"{n_vowels} different vowels, at most {MOST_VOWELS} wanted"
    require(n_vowels <= MOST_VOWELS, problem)


@CHECKS("words:consonants")
def consonants(text: str) -> None:
    """Check that each word contains two adjacent consonants."""
    missing = [word for word in text.lower().split() if not _CLUSTER.search(word)]
    require_none(missing, "no two adjacent consonants in {}")


@CHECKS("words:palindrome")
def palindrome(text: str) -> None:
    """Check for at least ten palindromes of five letters or more."""
    all_words = unpunctuated(text).lower().split()
    palindromes = [word for word in all_words if word == word[::-1]]
    count = sum(len(word) >= SHORTEST_PALINDROME for word in palindromes)
    what = f"palindromes of {SHORTEST_PALINDROME} letters or more"
    require_relation(count, "at least", N_PALINDROMES, what)


@CHECKS("words:prime_lengths")
def prime_lengths(text: str) -> None:
    """Check that each word's length is a prime number."""
    wrong = [word for word in unpunctuated(text).split() if len(word) not in PRIMES]
    require_none(wrong, "the length of {} is not a prime number")


@CHECKS("words:start_verb")
def start_verb(text: str) -> None:
    """Check that the first word is a verb according to NLTK's tagger."""
    all_tokens = tokens(text)
    tag = "nothing"
    if all_tokens:
        tag = first_tag(all_tokens)
    require("VB" in tag, f"the first word is not a verb but tagged {tag}")


@CHECKS("words:repeats")
def repeats(text: str, small_n: int) -> None:
    """Check that no word occurs more than ``small_n`` times, ignoring case."""
    often = []
    for word, n in Counter(unpunctuated(text.lower()).split()).items():
        if n > small_n:
            often.append(f"{shown(word)} {n} times")
    require(not often, f"{', '.join(often[:8])}; at most {small_n} wanted")


@CHECKS("words:odd_even_syllables")
def odd_even_syllables(text: str) -> None:
    """Check that words with odd and even numbers of syllables (by SyllaPy) alternate."""
    count = syllable_counter()
    all_words = unpunctuated(text).lower().split()
    parities = {word: count(word) % 2 for word in set(all_words)}
    for previous, next_word in pairwise(all_words):
        parity = "an odd" if parities[previous] else "an even"
        problem = f"{shown(previous)} and {shown(next_word)} both have {parity} number of syllables"
        require(parities[previous] != parities[next_word], problem)


@CHECKS("words:last_first")
def last_first(text: str) -> None:
    """Check that each sentence begins with the previous sentence's last word, ignoring case."""
    marks = string.punctuation + " "
    for sentence, next_sentence in pairwise(sentences(text)):
        last = " ".join(sentence.rstrip(marks).split()[-1:])
        first = " ".join(next_sentence.lstrip(marks).split()[:1])
        both = f"{shown(last)} and {shown(first)} end and begin adjacent sentences"
        same = last and last.lower() == first.lower()
        require(same, f"{both}, the same word wanted")


@CHECKS("words:paragraph_last_first")
def paragraph_last_first(text: str) -> None:
    """Check that each line begins and ends with the same word, ignoring case."""
    for line in text.split("\n"):
        line_words = bare(line.strip().lower()).split()
        if line_words:
            first = line_words[0]
            last = line_words[-1]
            problem = f"a paragraph begins with {shown(first)} and ends with {shown(last)}"
            require(first == last, problem)


@CHECKS("words:no_consecutive")
def no_consecutive(text: str) -> None:
    """Check that no two adjacent words begin with the same letter, ignoring case."""
    for word, next_word in pairwise(unpunctuated(text.lower()).split()):
        problem = f"{shown(word)} and {shown(next_word)} begin with the same letter"
        require(word[0] != next_word[0], problem)


@CHECKS("words:keywords_specific_position")
def keywords_specific_position(text: str, keyword: str, n: int, m: int) -> None:
    """Check that the keyword is the ``m``-th word of the ``n``-th sentence, ignoring case."""
    all_sentences = sentences(text)
    require_relation(len(all_sentences), "at least", n, "sentences")
    spoken = _spoken(tokens(all_sentences[n - 1]))
    require_relation(len(spoken), "at least", m, "words", f"sentence {n} has ")
    word = spoken[m - 1]
    expected = keyword.strip()
    problem = f"word {m} of sentence {n} is {shown(word)}, {expected!r} wanted"
    require(word.lower() == expected.lower(), problem)


def _spoken(all_tokens: Sequence[str]) -> list[str]:
    """Return the tokens that have a letter or digit."""
    return [token for token in all_tokens if any(map(str.isalnum, token))]


@CHECKS("words:words_position")
def words_position(text: str, keyword: str, *, corrected: bool = False) -> None:
    """Check that the keyword is the second and the second-to-last word, ignoring case.

    Punctuation marks count as words, except for one at the end; in the corrected check, none does.
    """
    all_tokens = tokens(text)
    if corrected:
        all_tokens = _spoken(all_tokens)
    elif all_tokens and all_tokens[-1] in string.punctuation:
        all_tokens.pop()
    require(len(all_tokens) > 1, "fewer than two words")
    second = all_tokens[1].lower()
    last = all_tokens[-2].lower()
    expected = keyword.strip()
    problem = f"{shown(second)} and {shown(last)} are the second and the second to last word"
    require(second == last == expected.lower(), f"{problem}, {expected!r} wanted")


@CHECKS("sentence:alliteration_increment")
def alliteration_increment(text: str) -> None:
    """Check that each sentence has more alliterating words than the previous sentence.

    A word alliterates if it begins with the same letter as the word before or after it.
    """
    before = -1
    for place, sentence in enumerate(sentences(text), 1):
        stripped = [word.lstrip(string.punctuation + " ") for word in sentence.lower().split()]
        count = 0
        running = False
        for word, next_word in pairwise(filter(None, stripped)):
            same_letter = word[0] == next_word[0]
            if same_letter:
                count += 1 if running else 2
            running = same_letter
        problem = f"sentence {place} has {count} alliterating words, more than {before} wanted"
        require(count > before, problem)
        before = count


@CHECKS("sentence:increment")
def increment(text: str, small_n: int) -> None:
    """Check that each sentence has exactly ``small_n`` more words than the previous one."""
    counts = [len(unpunctuated(sentence).split()) for sentence in sentences(text)]
    for place, (previous, next_count) in enumerate(pairwise(counts), 2):
        require_count(next_count, previous + small_n, "words", where=f"sentence {place} has ")


@CHECKS("sentence:keyword")
def sentence_keyword(text: str, word: str, N: int) -> None:
    """Check that the ``N``-th sentence contains ``word`` as a whole word, ignoring case."""
    all_sentences = sentences(text)
    require_relation(len(all_sentences), "at least", N, "sentences")
    holds = N > 0 and re.search(rf"\b{re.escape(word)}\b", all_sentences[N - 1], re.IGNORECASE)
    require(holds, f"sentence {N} does not contain {word!r}")
