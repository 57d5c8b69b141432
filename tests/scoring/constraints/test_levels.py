import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.scoring import punkt
from harness.scoring.constraints.check import MEMORABLE, Splitter, plain_words
from tests.scoring.constraints.nltk_reference import english, english_parameters, own, stock_words


@pytest.fixture(params=[english, own])
def units(request: pytest.FixtureRequest) -> Splitter:
    splitter: Splitter = request.param()
    return splitter


@pytest.mark.parametrize(
    ("unit", "text", "expected"),
    [
        ("character", "a b.", ("a", "", "b", "")),
        ("word", "Mr. Fox, it's 5,000!", ("Mr", "Fox", "it", "'s", "5,000")),
        ("word", "'Well,' she said...", ("Well", "she", "said", "")),
        ("sentence", " One. Two? Dr. Who. ", ("One", "Two?", "Dr. Who")),
        ("paragraph", "One.\n\nTwo\nlines.\n\n", ("One", "Two\nlines", "")),
        ("word", "", ()),
        ("sentence", "", ()),
        ("paragraph", "", ("",)),
        ("character", "", ()),
    ],
)
def test_units(units: Splitter, unit: str, text: str, expected: tuple[str, ...]) -> None:
    assert units.units(text, unit) == expected  # type: ignore[arg-type]


def test_long_texts_are_not_kept() -> None:
    splits: list[str] = []

    class Sentences:
        name = "counting"

        def tokenize(self, text: str) -> list[str]:
            splits.append(text)
            return [text]

    units = Splitter(Sentences(), str.split)
    for text in ("short", "x" * MEMORABLE + "y"):
        first, second = units.units(text, "sentence"), units.units(text, "sentence")
        assert first == second == (text,)
    assert [len(text) for text in splits] == [5, MEMORABLE + 1, MEMORABLE + 1]


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        ".",
        "'",
        '"',
        "! ",
        "a.\n",
        "é. ",
        '..."',
        "(a. ",
        "a' ",
        ",:",
        "\n",
        ". . . .a",
        "n't ",
    ],
)
def test_hostile_texts_take_no_longer_than_their_length(piece: str) -> None:
    """No blow-up: each of these took minutes or was cut off if it were quadratic."""
    text = piece * (20_000 // len(piece))
    units = own()
    for unit in ("word", "sentence", "paragraph"):
        assert isinstance(units.units(text, unit), tuple)


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
@settings(max_examples=150)
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
