"""Recorded shapes of log-probabilities, and the probabilities that follow from them by hand."""

from math import inf, log

import pytest

from harness.records import Logprobs, TokenLogprob
from harness.scoring.judges import vote, yes_probability


def position(**probabilities: float) -> tuple[TokenLogprob, ...]:
    return tokens(probabilities)


def tokens(probabilities: dict[str, float]) -> tuple[TokenLogprob, ...]:
    """Tokens by their probabilities, which are easier on the hand."""
    return tuple(TokenLogprob(token, log(share)) for token, share in probabilities.items())


OTHER = tokens({"The": 0.5, "Well": 0.3, "I": 0.1})


@pytest.mark.parametrize(
    ("first", "probability"),
    [
        ({"Yes": 0.6, "No": 0.2, "Maybe": 0.1}, 0.75),  # 0.6 / 0.8
        ({" yes": 0.9, " no": 0.1}, 0.9),  # a leading space
        ({"\nyes": 0.3, "no\n": 0.6}, 1 / 3),  # a newline
        ({"Yes.": 0.8, "No.": 0.1}, 8 / 9),
        ({"YES": 0.25, "NO": 0.75}, 0.25),
        ({"Ġyes": 0.4, "ĠNo": 0.1}, 0.8),  # a byte-level tokeniser's space
        ({"▁Yes": 0.4}, None),  # SentencePiece's is a symbol that is no letter: see below
        ({"**Yes**": 0.4, "_no_": 0.4}, 0.5),
        ({"Yes": 0.3, " yes": 0.2, "YES": 0.1, "No": 0.1, "no": 0.1}, 0.75),  # 0.6 / 0.8
        ({"Yes": 0.9}, 1.0),
        ({"no": 0.9}, 0.0),
        ({"Yes, it": 0.9, "no": 0.1}, 0.0),  # more than a yes is none
        ({"yesterday": 0.5, "know": 0.3, "No": 0.1, "eyes": 0.05}, 0.0),
    ],
)
def test_the_first_position_decides(first: dict[str, float], probability: float | None) -> None:
    found = yes_probability((tokens(first), OTHER))
    expected = 1.0 if probability is None else probability
    assert found is not None
    assert found.probability == pytest.approx(expected, abs=1e-12)
    assert found.position == 0
    assert found.tokens == tokens(first)


def test_yes_in_the_second_position() -> None:
    second = tokens({" yes": 0.48, " no": 0.12, " it": 0.4})
    found = yes_probability((OTHER, second, tokens({"no": 1.0})))
    assert found is not None
    assert found.probability == pytest.approx(0.8, abs=1e-12)
    assert (found.position, found.tokens) == (1, second)


def test_the_first_position_with_more_than_one_in_ten_thousand_decides() -> None:
    faint = tokens({"The": 0.9, "yes": 0.00004, "no": 0.00005})  # 9e-5 together
    found = yes_probability((faint, tokens({"no": 0.9, "yes": 0.1})))
    assert found is not None
    assert (found.position, found.probability) == (1, pytest.approx(0.1, abs=1e-12))
    enough = tokens({"The": 0.9, "yes": 0.0001, "no": 0.00005})  # 1.5e-4 together
    found = yes_probability((enough, tokens({"no": 1.0})))
    assert found is not None
    assert (found.position, found.probability) == (0, pytest.approx(2 / 3, abs=1e-12))


def test_only_five_tokens_of_five_positions_count() -> None:
    sixth = tokens({"a": 0.3, "b": 0.2, "c": 0.2, "d": 0.1, "e": 0.1, "yes": 0.09})
    assert yes_probability((sixth,)) is None
    fifth = tokens({"a": 0.3, "b": 0.2, "c": 0.2, "d": 0.1, "yes": 0.1, "no": 0.09})
    assert yes_probability((fifth,)) == (1.0, 0, fifth[:5])
    assert yes_probability((OTHER,) * 4 + (position(yes=0.9),)) == (1.0, 4, position(yes=0.9))
    assert yes_probability((OTHER,) * 5 + (position(yes=0.9),)) is None


@pytest.mark.parametrize("logprobs", [(), ((),), (OTHER,), (OTHER, OTHER)])
def test_no_yes_and_no_no_is_an_abstention(logprobs: Logprobs) -> None:
    assert yes_probability(logprobs) is None


def test_a_token_that_cannot_be_has_no_mass() -> None:
    found = yes_probability(((TokenLogprob("yes", 0.0), TokenLogprob("no", -9999.0)),))
    assert found is not None
    assert found.probability == 1.0
    assert yes_probability(((TokenLogprob("yes", -inf), TokenLogprob("no", -9999.0)),)) is None


def test_a_long_token_is_read_in_no_time() -> None:
    long = " _Ġ" * 100_000
    found = yes_probability((tokens({f"{long}ye": 0.5, f"{long}no{long}": 0.5}),))
    assert found is not None
    assert found.probability == 0.0


@pytest.mark.parametrize("text", ["yes", "Yes.", "YES", "\nyes\n", "**Yes**", '"yes"', "Ġyes"])
def test_a_yes(text: str) -> None:
    assert vote(text) is True


@pytest.mark.parametrize("text", ["no", "No.", " NO!", "_no_"])
def test_a_no(text: str) -> None:
    assert vote(text) is False


@pytest.mark.parametrize("text", ["", "Yes, it does.", "yes no", "none", "Maybe", "It is.", "nope"])
def test_anything_else_is_no_vote(text: str) -> None:
    assert vote(text) is None
