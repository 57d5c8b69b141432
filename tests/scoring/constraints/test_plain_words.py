import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.scoring.constraints import punkt
from harness.scoring.constraints.plain_words import plain_words
from tests.scoring.constraints.nltk_reference import english_parameters, stock_words

WORDS = (
    "a I it Dr etc e.g U.S the There 5 1990 3.5 x-y B stewart don't John's they've can't he'd "
    "n't 's o'clock cannot gonna d'ye -"
)
MARKS = ".,:;?!@#$%&()[]\"'- \n"
words = st.sampled_from(WORDS.split())
marks = st.sampled_from([*MARKS, ". ", ". ", ", ", ", ", '." ', ' "', '" '])
plainish = st.lists(st.one_of(words, words, marks, st.just(" "), st.just(" ")), max_size=14).map(
    "".join
)
anything = st.lists(
    st.one_of(words, marks, st.characters(), st.sampled_from(["’", "“", "—", "``", "é", "\xa0"])),
    max_size=14,
).map("".join)


@pytest.mark.parametrize("parameters", [english_parameters, punkt.own])
@settings(max_examples=1500, deadline=None)
@given(text=plainish | anything)
def test_plain_words_are_nltks_words(parameters: object, text: str) -> None:
    in_use = parameters() if callable(parameters) else None
    if in_use is None:
        pytest.skip("no English Punkt parameters: set NLTK_DATA")
    plain = plain_words(text)
    if plain is not None:
        assert tuple(plain) == stock_words(text, in_use)


@pytest.mark.parametrize(
    "text",
    [
        "The students' books aren't here.",  # an apostrophe at a word's end
        "It was John's. She knew.",  # a clitic before a period
        "He paid 5,000.",
        "“Yes,” he said.",
        "Well... no -- never.",
        "I cannot.",
        'He said "no."Then',
        '\n"Go" he said',
        "a\tb",
    ],
)
def test_what_is_not_plain_is_left_to_nltk(text: str) -> None:
    assert plain_words(text) is None
