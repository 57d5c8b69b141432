"""ROUGE-L against the library that the field reports by."""

import random
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from harness.plugins.benchmarks.natural_instructions.overlap import (
    MEMORABLE,
    bare,
    before_stop,
    drops_words,
    exact_match,
    first_line,
    named_label,
    rouge_l,
    rouge_l_unicode,
    token_f1,
    tokens,
)


@pytest.mark.parametrize("answer", ["yes", " Yes.\n", "YES..."])
def test_case_space_and_final_periods_do_not_count(answer: str) -> None:
    assert exact_match(answer, ["no", "Yes."])


@pytest.mark.parametrize(
    ("answer", "reference"),
    [("A", "The"), ("+", "-"), ("yes, it is", "yes"), ("", "yes"), ("1.5", "15")],
)
def test_what_differs_otherwise_does_not_match(answer: str, reference: str) -> None:
    assert not exact_match(answer, [reference])


def test_token_f1_is_squads() -> None:
    assert token_f1("the cat, sat", ["A cat sat down."]) == pytest.approx(2 * 2 / (2 + 3))
    assert token_f1("sat cat", ["cat sat", "dog"]) == 1.0
    assert token_f1("cat cat cat", ["cat"]) == pytest.approx(0.5)
    assert token_f1("dog", ["cat"]) == 0.0


def test_token_f1_of_texts_without_words() -> None:
    assert token_f1("a", ["the"]) == 0.0
    assert token_f1("A.", ["a"]) == 1.0
    assert token_f1("", ["a"]) == token_f1("x", []) == 0.0


@settings(deadline=None)
@given(st.text(), st.lists(st.text(), max_size=3))
def test_measures_stay_within_bounds_and_agree(answer: str, references: list[str]) -> None:
    f1 = token_f1(answer, references)
    assert 0 <= f1 <= 1
    if exact_match(answer, references):
        assert f1 == 1 or not references


@pytest.mark.parametrize(
    ("answer", "reference", "official", "unicode"),
    [
        ("Привет, мир", "привет мир", 0, 1),
        ("the café was nice", "the cafe\u0301 was nice", 0.75, 1),
        ("he’s running", "he’s run", 1, 1),
        ("मुझे पसंद है", "मुझे पसंद है।", 0, 1),
    ],
)
def test_rouge_l_of_words_that_the_official_one_ignores(
    answer: str, reference: str, official: float, unicode: float
) -> None:
    assert rouge_l(answer, [reference]) == official
    assert rouge_l_unicode(answer, [reference]) == unicode


@pytest.mark.skipif(find_spec("icu4py") is None, reason="needs the extra icu")
def test_rouge_l_divides_scripts_without_spaces() -> None:
    assert rouge_l_unicode("我喜欢猫", ["我喜欢狗"]) == pytest.approx(2 / 3)


@settings(deadline=None)
@given(st.text(st.characters(max_codepoint=127)), st.text(st.characters(max_codepoint=127)))
def test_both_rouge_l_are_equal_for_ascii(answer: str, reference: str) -> None:
    assert rouge_l_unicode(answer, [reference]) == rouge_l(answer, [reference])
    assert rouge_l_unicode(f"“{answer}”", [reference]) == rouge_l(answer, [reference])
    assert not drops_words([f"“{answer}”", reference])


LABELS = {"yes", "no", "not sure"}


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("Yes.", "yes"),
        ("Yes, because it is.", "yes"),
        ("no\nreason", "no"),
        ("Not sure at all", "not sure"),
        ("nothing", None),
        ("It is yes", None),
        ("", None),
    ],
)
def test_an_answer_names_the_label_that_it_begins_with(answer: str, label: str | None) -> None:
    assert named_label(answer, LABELS) == label


def test_a_label_of_signs_is_one_too() -> None:
    assert named_label("+ is the answer", {"+", "-"}) == "+"
    assert named_label("5", {bare("5 or more"), "5"}) == "5"
    assert named_label("5 or more, I think", {bare("5 or more"), "5"}) == "5 or more"


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


@settings(max_examples=150, deadline=None)
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


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (" Yes.\n\ninput: Next", "Yes."),
        ("\n\n no \nyes", "no "),
        ("one\u2028two", "one"),
        ("", ""),
        (" \n ", ""),
    ],
)
def test_the_first_line_is_the_first_that_is_not_empty(text: str, line: str) -> None:
    assert first_line(text) == line


@pytest.mark.parametrize(
    ("text", "stops", "answer"),
    [
        ("\n\nyes\n\nno", ["\n\n"], "yes"),
        ("a; b. c", [".", ";"], "a"),
        ("no stop ", ["!"], "no stop "),
        ("", ["!"], ""),
        (" all", [], "all"),
    ],
)
def test_an_answer_ends_before_its_first_stop(text: str, stops: list[str], answer: str) -> None:
    assert before_stop(text, stops) == answer


def test_scipy_is_not_imported() -> None:
    code = (
        "import sys\n"
        "from harness.plugins.benchmarks.natural_instructions.overlap import rouge_l\n"
        "rouge_l('a cat', ['cats'])\n"
        "print([name for name in ('scipy.stats', 'scipy.sparse') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
