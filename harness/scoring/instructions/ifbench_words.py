"""IFBench's instructions about words and sentences: their letters, order and places."""

from __future__ import annotations

import re
import string
from collections import Counter
from itertools import pairwise
from typing import Any

from harness.plugins import import_extra
from harness.scoring import cut, listed
from harness.scoring.instructions.language_data import FEATURES_REACH, first_tag
from harness.scoring.instructions.texts import (
    bare,
    counted,
    ifbench,
    missed,
    sentences,
    tokens,
    unpunctuated,
)

ALPHABET = string.ascii_lowercase
CONSONANTS = "bcdfghjklmnpqrstvwxyz"
PRIMES = frozenset(n for n in range(2, 100) if all(n % factor for factor in range(2, n)))
N_PALINDROMES = 10
SHORTEST_PALINDROME = 5
MOST_VOWELS = 3

_CLUSTER = re.compile(f"[{CONSONANTS}]{{2}}")


@ifbench("words:alphabet")
def alphabet(text: str) -> str:
    """Each word begins with the letter after that of the word before, ``a`` after ``z``."""
    found = [word.lower() for word in unpunctuated(text).split()]
    if not found or found[0][0] not in ALPHABET:
        return "the first word does not begin with a letter from a to z"
    first = ALPHABET.index(found[0][0])
    for place, word in enumerate(found):
        if word[0] != (wanted := ALPHABET[(first + place) % 26]):
            return f"word {place + 1}, {cut(word, 40)!r}, does not begin with {wanted!r}"
    return ""


@ifbench("words:vowel")
def vowel(text: str) -> str:
    """A single paragraph with at most three different vowels."""
    if "\n" in text.strip():
        return "more than one paragraph"
    found = [letter for letter in "aeiou" if letter in text.strip().lower()]
    if len(found) <= MOST_VOWELS:
        return ""
    return f"{len(found)} different vowels, at most {MOST_VOWELS} wanted"


@ifbench("words:consonants")
def consonants(text: str) -> str:
    """Each word has two consonants next to each other."""
    missing = [word for word in text.lower().split() if not _CLUSTER.search(word)]
    return f"no two adjacent consonants in {listed(missing)}" if missing else ""


@ifbench("words:palindrome")
def palindrome(text: str) -> str:
    """At least ten words of five letters or more that read the same backwards."""
    found = unpunctuated(text).lower().split()
    count = sum(len(word) >= SHORTEST_PALINDROME and word == word[::-1] for word in found)
    what = f"palindromes of {SHORTEST_PALINDROME} letters or more"
    return missed(count, "at least", N_PALINDROMES, what)


@ifbench("words:prime_lengths")
def prime_lengths(text: str) -> str:
    """The length of each word is a prime number."""
    wrong = [word for word in unpunctuated(text).split() if len(word) not in PRIMES]
    return f"the length of {listed(wrong)} is not a prime number" if wrong else ""


@ifbench("words:start_verb")
def start_verb(text: str) -> str:
    """The first word is a verb, by NLTK's tagger."""
    found = tokens(text)[:FEATURES_REACH]
    tag = first_tag(found) if found else "nothing"
    return "" if "VB" in tag else f"the first word is not a verb but tagged {tag}"


@ifbench("words:repeats")
def repeats(text: str, small_n: int) -> str:
    """No word occurs more often than a number."""
    counts = Counter(unpunctuated(text.lower()).split())
    often = [f"{cut(word, 40)!r} {n} times" for word, n in counts.items() if n > small_n]
    return f"{', '.join(often[:8])}; at most {small_n} wanted" if often else ""


@ifbench("words:odd_even_syllables")
def odd_even_syllables(text: str) -> str:
    """Words with odd and even numbers of syllables alternate; syllables are counted by SyllaPy."""
    count: Any = import_extra("syllapy", "ifeval").count
    found = unpunctuated(text).lower().split()
    known = {word: count(word) % 2 for word in set(found)}
    for one, other in pairwise(found):
        if known[one] == known[other]:
            parity = "an odd" if known[one] else "an even"
            return f"{cut(one, 40)!r} and {cut(other, 40)!r} both have {parity} number of syllables"
    return ""


@ifbench("words:last_first")
def last_first(text: str) -> str:
    """The last word of each sentence is the first of the next."""
    marks = string.punctuation + " "
    for one, other in pairwise(sentences(text)):
        last, first = one.rstrip(marks).split()[-1:], other.lstrip(marks).split()[:1]
        if not last or not first or last[0].lower() != first[0].lower():
            said = " and ".join(repr(cut(" ".join(each), 40)) for each in (last, first))
            return f"{said} end and begin adjacent sentences, the same word wanted"
    return ""


@ifbench("words:paragraph_last_first")
def paragraph_last_first(text: str) -> str:
    """The first word of each line is also its last."""
    for line in text.split("\n"):
        found = bare(line.strip().lower()).split()
        if found and found[0] != found[-1]:
            first, last = (repr(cut(found[place], 40)) for place in (0, -1))
            return f"a paragraph begins with {first} and ends with {last}"
    return ""


@ifbench("words:no_consecutive")
def no_consecutive(text: str) -> str:
    """No two adjacent words begin with the same letter."""
    for one, other in pairwise(unpunctuated(text.lower()).split()):
        if one[0] == other[0]:
            return f"{cut(one, 40)!r} and {cut(other, 40)!r} begin with the same letter"
    return ""


@ifbench("words:keywords_specific_position")
def keywords_specific_position(text: str, keyword: str, n: int, m: int) -> str:
    """The n-th sentence has the keyword as its m-th word, in any case."""
    found = sentences(text)
    if wrong := missed(len(found), "at least", n, "sentences"):
        return wrong
    spoken = [word for word in tokens(found[n - 1]) if any(map(str.isalnum, word))]
    if len(spoken) < m:
        return f"sentence {n} has {counted(len(spoken), 'words', f'at least {m}')}"
    if spoken[m - 1].lower() == keyword.strip().lower():
        return ""
    return f"word {m} of sentence {n} is {cut(spoken[m - 1], 40)!r}, {keyword.strip()!r} wanted"


@ifbench("words:words_position")
def words_position(text: str, keyword: str, *, corrected: bool = False) -> str:
    """The second and the second to last word are the keyword.

    A single mark at the end is not a word, but two marks or ``...`` are (not if corrected).
    """
    found = tokens(text)
    if corrected:
        found = [token for token in found if any(map(str.isalnum, token))]
    elif found and found[-1] in string.punctuation:
        found.pop()
    if len(found) < 2:
        return "fewer than two words"
    second, last = found[1].lower(), found[-2].lower()
    if second == last == keyword.strip().lower():
        return ""
    said = f"{cut(second, 40)!r} and {cut(last, 40)!r} are the second and the second to last word"
    return f"{said}, {keyword.strip()!r} wanted"


@ifbench("sentence:alliteration_increment")
def alliteration_increment(text: str) -> str:
    """Each sentence has more alliterating words than the one before; one sentence always passes."""
    before = -1
    for place, sentence in enumerate(sentences(text), 1):
        stripped = (word.lstrip(string.punctuation + " ") for word in sentence.lower().split())
        count, running = 0, False
        for one, other in pairwise(filter(None, stripped)):
            alike = one[0] == other[0]
            count += alike * (1 if running else 2)
            running = alike
        if count <= before:
            return f"sentence {place} has {count} alliterating words, more than {before} wanted"
        before = count
    return ""


@ifbench("sentence:increment")
def increment(text: str, small_n: int) -> str:
    """Each sentence has exactly so many words more than the one before."""
    counts = [len(unpunctuated(sentence).split()) for sentence in sentences(text)]
    for place, (one, other) in enumerate(pairwise(counts), 2):
        if other != one + small_n:
            return f"sentence {place} has {counted(other, 'words', one + small_n)}"
    return ""


@ifbench("sentence:keyword")
def sentence_keyword(text: str, word: str, N: int) -> str:
    """The N-th sentence contains a whole word, in any case."""
    found = sentences(text)
    if wrong := missed(len(found), "at least", N, "sentences"):
        return wrong
    if N > 0 and re.search(rf"\b{re.escape(word)}\b", found[N - 1], re.IGNORECASE):
        return ""
    return f"sentence {N} does not contain {word!r}"
