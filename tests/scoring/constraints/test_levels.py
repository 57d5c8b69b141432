import pytest

from harness.scoring.constraints.levels import MEMORABLE, Splitter
from tests.scoring.constraints.nltk_reference import english, own


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
