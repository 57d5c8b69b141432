import pytest

from harness.errors import ConfigError
from harness.records import Reply
from harness.scoring.judges._number import ConcludingNumber, mean
from harness.scoring.judges.score import COHERENCY

COHERENCE = ConcludingNumber(COHERENCY, 1, 10)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("It flows. Thus, the coherency score is 8.", 8),
        ("Thus the coherency score is 10", 10),
        ("Thus, the coherency score is **7**.", 7),
        ('Thus, the coherency score is "1".', 1),
        ("thus, the Coherency Score is: 9/10", 9),
        ("The coherency score is 2? No. Thus, the coherency score is 3", 3),
        ("Thus, the coherency score is 0", None),
        ("Thus, the coherency score is 11", None),
        ("Thus, the coherency score is 7.5", None),
        ("Thus, the coherency score is 7-8", None),
        ("Thus, the coherency score is 7 \u2013 8", None),
        ("Thus, the coherency score is high", None),
        ("Thus, the coherency score is s", None),
        ("8", None),
        ("Thus, the coherency score is " + "9" * 400, None),
    ],
)
def test_the_concluding_number(text: str, number: float | None) -> None:
    assert COHERENCE.read(Reply(text, "stop")) == number


def test_a_reply_that_was_cut_off_concludes_with_nothing() -> None:
    assert COHERENCE.read(Reply("Thus, the coherency score is 1", "length")) is None


def test_fractions_where_the_pattern_has_them() -> None:
    number = ConcludingNumber(r"mark: (\S+)", 0, 1)
    assert number.read(Reply("Mark: 0.25", "stop")) == 0.25
    for odd in ("nan", "inf", "high", "0.2/0.3", "1e400"):
        assert number.read(Reply(f"Mark: {odd}", "stop")) is None


def test_a_pattern_that_takes_for_ever_reads_nothing() -> None:
    slow = ConcludingNumber(r"((?:a|a)*)$", 0, 1)
    assert slow.read(Reply("a" * 40 + "b", "stop")) is None


@pytest.mark.parametrize("pattern", [r"\d", r"(\d)(\d)", "("])
def test_a_pattern_has_one_group(pattern: str) -> None:
    with pytest.raises(ConfigError, match="pattern"):
        ConcludingNumber(pattern, 0, 1)


def test_bounds_are_in_order() -> None:
    with pytest.raises(ConfigError, match=r"low \(1\)"):
        ConcludingNumber(r"(\d)", 1, 1)


def test_the_mean_is_of_what_is_there() -> None:
    assert mean([1.0, None, 2.0]) == 1.5
    assert mean([None]) is None
