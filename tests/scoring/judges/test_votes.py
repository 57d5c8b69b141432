import pytest

from harness.scoring.judges._votes import share_of_yes, vote


@pytest.mark.parametrize("text", ["yes", "Yes.", "YES", "\nyes\n", "**Yes**", '"yes"', "Ġyes"])
def test_a_yes(text: str) -> None:
    assert vote(text) is True


@pytest.mark.parametrize("text", ["no", "No.", " NO!", "_no_"])
def test_a_no(text: str) -> None:
    assert vote(text) is False


@pytest.mark.parametrize("text", ["", "Yes, it does.", "yes no", "none", "Maybe", "It is.", "nope"])
def test_anything_else_is_no_vote(text: str) -> None:
    assert vote(text) is None


def test_the_share_is_of_the_votes_that_are_votes() -> None:
    assert share_of_yes([True, False, None, True]) == pytest.approx(2 / 3)
    assert share_of_yes([False]) == 0.0
    assert share_of_yes([None, None]) is None
    assert share_of_yes([]) is None
