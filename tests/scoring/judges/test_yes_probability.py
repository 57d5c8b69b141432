"""Recorded shapes of log-probabilities, and the probabilities that follow from them by hand."""

from math import inf, log

import pytest

from harness.records import Logprobs, TokenLogprob
from harness.scoring.judges import parse_vote, yes_probability


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
        ({"Yes, it": 0.3, "no": 0.6}, 0.0),  # more than a yes is none
        ({"yesterday": 0.3, "No": 0.6, "eyes": 0.05}, 0.0),
        ({"Yes": 0.4, "The": 0.3, "It": 0.2}, 1.0),  # the reply says it
        ({"The": 0.4, "Yes": 0.3, "No": 0.21}, 10 / 17),
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
    found = yes_probability((tokens({"**": 0.9}), second, tokens({"no": 1.0})))
    assert found is not None
    assert found.probability == pytest.approx(0.8, abs=1e-12)
    assert (found.position, found.tokens) == (1, second)


@pytest.mark.parametrize(
    ("replies", "probability"),
    [
        ("The .95 Yes .03|_answer .9|_is .9|_no .95 _not .04", 0.0),
        ("The .999 Yes .0002|_answer .9|_is .9|_no .8 _yes .2", 0.2),
        ("Unfortunately .9 Yes .004|, .9|_no .9", 0.0),
        ("It .9 No .01|_is .9|_polite .9|. .9|_Yes .95", 1.0),
        ("Answer .9|: .9|_Yes .9 _No .1", 0.9),
        ("ĠVerdict .9|Ġis .9|Ġyes .9", 1.0),
        ("Not .97 Yes .02|_polite .9", None),
        ("Partially .9 Yes .05", None),
        ("nope .6 yes .3", None),
        ("Absolutely .9 No .02|! .9", None),
        ("There .8 No .15|_is .9|_no .9|_error .9", None),
        ("It .3 yes .2 no .2", None),
    ],
)
def test_a_yes_that_the_reply_does_not_say_does_not_decide(
    replies: str, probability: float | None
) -> None:
    positions = []
    for line in replies.split("|"):
        words = line.replace("_", "\N{LOWER ONE EIGHTH BLOCK}").split()
        positions.append(tokens(dict(zip(words[::2], map(float, words[1::2]), strict=True))))
    found = yes_probability(tuple(positions))
    assert (found and found.probability) == (probability and pytest.approx(probability))


def test_only_five_tokens_of_five_positions_count() -> None:
    sixth = tokens({"a": 0.1, "b": 0.1, "c": 0.1, "d": 0.1, "e": 0.09, "yes": 0.5})
    assert yes_probability((sixth,)) is None
    fifth = tokens({"a": 0.1, "b": 0.1, "c": 0.1, "d": 0.1, "yes": 0.51, "no": 0.09})
    assert yes_probability((fifth,)) == (1.0, 0, fifth[:5])
    mark = tokens({"*": 0.9})
    assert yes_probability((mark,) * 4 + (position(yes=0.9),)) == (1.0, 4, position(yes=0.9))
    assert yes_probability((mark,) * 5 + (position(yes=0.9),)) is None


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
    assert parse_vote(text) is True


@pytest.mark.parametrize("text", ["no", "No.", " NO!", "_no_", "No ❌", "❌ No"])
def test_a_no(text: str) -> None:
    assert parse_vote(text) is False


@pytest.mark.parametrize(
    "text",
    [
        *["", "Yes, it does.", "yes no", "none", "Maybe", "It is.", "nope"],
        *["~~Yes~~", "~~No~~", "Yes ❌", "✗ yes", "¬yes", "¬ no", "Yes?", "No?", "Yes？", "yes 👎"],
    ],
)
def test_anything_else_is_no_vote(text: str) -> None:
    assert parse_vote(text) is None
