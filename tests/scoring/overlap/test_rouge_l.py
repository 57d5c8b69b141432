"""ROUGE-L against the library that the field reports by."""

import random
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from harness.scoring.overlap.rouge_l import MEMORABLE, rouge_l, tokens

LIBRARY = RougeScorer(["rougeL"], use_stemmer=True)

WORDS = [
    *["run", "running", "runs", "The", "the", "cats", "cat", "cat's", "café", "hours", "HOURS."],
    *["flies", "dying", "skies", "u.s.", "10", "1,000", "agreed", "plotted", "İstanbul", "straße"],
    *["ﬁne", "x\ny", "²", "generously", "ies", "sses", "at", "was", "-", "…", "\u2028"],
]

texts = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join),
    st.text(max_size=60),
    st.text(st.sampled_from("abcs ingedyl.,'\n"), max_size=80),
)


def library(answer: str, references: list[str]) -> float:
    return max(LIBRARY.score(text, answer)["rougeL"].fmeasure for text in references)


@settings(max_examples=400, deadline=None)
@example("", [""])
@example("a", ["a"])
@given(texts, st.lists(texts, min_size=1, max_size=4))
def test_it_is_the_librarys(answer: str, references: list[str]) -> None:
    assert rouge_l(answer, references) == pytest.approx(
        library(answer, references), abs=1e-12, rel=0
    )


@settings(deadline=None)
@given(st.lists(st.sampled_from("abcd"), max_size=200), st.lists(st.sampled_from("abcd")))
def test_it_is_the_librarys_where_words_come_again(first: list[str], second: list[str]) -> None:
    answer, reference = " ".join(first), " ".join(second)
    assert rouge_l(answer, [reference]) == library(answer, [reference])


def test_long_texts_are_not_remembered_and_score_the_same() -> None:
    draw = random.Random(1)
    answer, reference = (" ".join(draw.choices(WORDS, k=600)) for _ in range(2))
    assert min(len(answer), len(reference)) > MEMORABLE
    assert rouge_l(answer, [reference]) == library(answer, [reference])


def test_words_are_stemmed_from_four_letters() -> None:
    assert tokens("Running, was 3.5 hours") == ("run", "was", "3", "5", "hour")


def test_no_reference_and_no_word_score_nothing() -> None:
    assert rouge_l("a", []) == rouge_l("", ["a"]) == rouge_l("…", ["…"]) == 0.0


def test_a_hundred_thousand_short_answers_take_less_than_25_seconds() -> None:
    """Measured on a tenth, in the time of this process; answers and references all differ."""
    draw = random.Random(1)
    known = ["".join(draw.choices("abcdefghinorst", k=draw.randint(3, 10))) for _ in range(20_000)]
    pairs = [
        (" ".join(draw.choices(known, k=12)), [" ".join(draw.choices(known, k=12))])
        for _ in range(10_000)
    ]
    rouge_l("warm up", ["warm up"])
    began = time.process_time()
    for answer, references in pairs:
        rouge_l(answer, references)
    assert time.process_time() - began < 2.5
