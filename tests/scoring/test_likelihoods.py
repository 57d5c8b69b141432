"""Log-likelihoods in the reply of a backend: one for each answer, neither fewer nor more."""

import pytest

from harness.errors import Unparseable
from harness.scoring.likelihoods import read_likelihoods


def test_each_answer_has_its_sum_and_whether_it_is_the_likeliest() -> None:
    first, second = read_likelihoods("[[-1.5, true, 2], [-3.25, false]]", 2)
    assert (first.total, first.greedy, first.tokens) == (-1.5, True, 2)
    assert (second.total, second.greedy, second.tokens) == (-3.25, False, None)


@pytest.mark.parametrize("n", [1, 3])
def test_fewer_or_more_than_the_answers_are_unparseable(n: int) -> None:
    with pytest.raises(Unparseable, match=f"2 log-likelihoods for {n} requests"):
        read_likelihoods("[[-1.5, true], [-3.25, false]]", n)


@pytest.mark.parametrize("text", ["", "Paris", "{}", "[-1.5]", "[[null, true]]"])
def test_what_is_no_list_of_them_is_unparseable(text: str) -> None:
    with pytest.raises(Unparseable, match="not log-likelihoods"):
        read_likelihoods(text, 1)
