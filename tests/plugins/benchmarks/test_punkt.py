"""NLTK without what it can spare, which everybody else still gets."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import DataInvalid
from harness.plugins.benchmarks import punkt
from tests.plugins.benchmarks.punkt_reference import english_parameters, stock_sentences

PIECES = (
    "a I it Dr etc e.g U.S the There He 5 1990 B stewart word Word end-of i2 international é ’ ” "
    ". . . ? ! , ; : ) ( \" ' [ -- ... \n \n\n \xa0 \t"
)
pieces = st.sampled_from([*PIECES.split(" "), ". ", ". ", "? ", '." ', ".) "])
texts = st.lists(pieces | st.just(" "), max_size=16).map("".join)


@pytest.mark.parametrize("parameters", [english_parameters, punkt.own])
@settings(max_examples=400, deadline=None)
@given(text=texts | st.text(max_size=30))
def test_sentences_are_nltks(parameters: object, text: str) -> None:
    in_use = parameters() if callable(parameters) else None
    if in_use is None:
        pytest.skip("no English Punkt parameters: set NLTK_DATA")
    assert in_use.tokenize(text) == stock_sentences(text, in_use)


def test_own_abbreviations_end_no_sentence() -> None:
    assert punkt.own().tokenize("Dr. Fox met Mrs. Hen, i.e. her aunt. They ate.") == [
        "Dr. Fox met Mrs. Hen, i.e. her aunt.",
        "They ate.",
    ]


def test_each_splitter_says_what_it_is() -> None:
    assert punkt.own().name.endswith("own abbreviations")
    official = english_parameters()
    if official is not None:
        assert official.name.startswith("nltk 3.")
        assert official.name.endswith("punkt_tab english")


@pytest.fixture
def _fresh() -> object:
    for cached in (punkt.english, punkt.best):
        cached.cache_clear()
    yield
    for cached in (punkt.english, punkt.best):
        cached.cache_clear()


@pytest.mark.usefixtures("_fresh")
def test_without_parameters_the_own_abbreviations_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nltk.data.path", [])
    assert punkt.best() is punkt.own()


@pytest.mark.usefixtures("_fresh")
def test_damaged_parameters_are_a_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("nltk_data")
    folder = root / "tokenizers" / "punkt_tab" / "english"
    folder.mkdir(parents=True)
    for name in ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab"):
        (folder / name).write_bytes(b"\xff\xfe no table")
    monkeypatch.setattr("nltk.data.path", [str(root)])
    with pytest.raises(DataInvalid, match="cannot be read"):
        punkt.english()


ABSENT = "import sys; {}; print([m for m in ('scipy.stats', 'scipy.sparse') if m in sys.modules])"


def test_what_is_spared_is_not_imported() -> None:
    use = "import harness.plugins.benchmarks.punkt"
    done = subprocess.run(
        [sys.executable, "-c", ABSENT.format(use)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_it_can_be_imported_afterwards() -> None:
    use = "import harness.plugins.benchmarks.punkt, scipy.sparse, scipy.stats"
    done = subprocess.run(
        [sys.executable, "-c", ABSENT.format(use)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['scipy.stats', 'scipy.sparse']\n"
