from typing import Any

import pytest

from harness.errors import ConfigError, Unparseable
from harness.plugins import kind
from harness.records import Decoding, Instance, Reply
from harness.scoring.judges.score import NumberJudge
from tests.conftest import Sums

PASSAGE = Instance("a", 1, {"structure": "pass01"})


def built(**options: Any) -> NumberJudge:
    judge: NumberJudge = kind("judges").build("score", options, task=Sums(), model="j")
    return judge


def replies(*texts: str) -> list[Reply]:
    return [Reply(text, "stop") for text in texts]


def conclusions(*scores: object) -> list[Reply]:
    return replies(*(f"Hm. Thus, the coherency score is {score}." for score in scores))


def test_it_asks_as_collie_does_three_times() -> None:
    requests = built().requests(PASSAGE, "Snow fell.")
    assert [request.sample for request in requests] == [0, 1, 2]
    assert len({request.messages for request in requests}) == 1
    said = requests[0].messages[0].content
    assert said.startswith(
        "Analyze the following passage, then at the last line conclude "
        '"Thus, the coherency score is s", where s is an integer from 1 to 10.'
    )
    assert "<judged_text>\nSnow fell.\n</judged_text>" in said
    assert requests[0].decoding == Decoding(temperature=0.7, max_tokens=1000)


def test_the_score_is_the_mean_of_what_can_be_read() -> None:
    found = built().parse(PASSAGE, conclusions(7, 8, 9))["score"]
    assert (found.value, found.passed) == (8.0, None)
    assert found.details == {"readings": [7.0, 8.0, 9.0]}
    found = built().parse(PASSAGE, conclusions(7, "high", 11))["score"]
    assert (found.value, found.details) == (7.0, {"readings": [7.0, None, None]})


def test_nothing_to_read_is_no_zero() -> None:
    with pytest.raises(Unparseable, match="number"):
        built().parse(PASSAGE, conclusions("high", 11, ""))


def test_a_mark_makes_it_a_verdict() -> None:
    assert built().verdicts is False
    judge = built(passes_from=8)
    assert judge.verdicts is True
    assert judge.parse(PASSAGE, conclusions(7, 8, 9))["score"].passed is True
    found = judge.parse(PASSAGE, conclusions(7, 7, 9))["score"]
    assert (found.passed, found.reason) == (False, "The score is 7.66667, below 8.")


def test_other_groups_are_not_judged() -> None:
    judge = built(where={"structure": ["pass01"]})
    other = Instance("b", 1, {"structure": "sent01"})
    assert len(judge.requests(PASSAGE, "Snow.")) == 3
    assert judge.requests(other, "Snow.") == []
    assert judge.parse(other, []) == {}


def test_other_bounds_and_another_pattern() -> None:
    judge = built(low=0, high=1, pattern=r"mark (\S+)", samples=1)
    assert "from 0 to 1." in judge.requests(PASSAGE, "Snow.")[0].messages[0].content
    assert judge.parse(PASSAGE, replies("mark 0.5"))["score"].value == 0.5


@pytest.mark.parametrize(
    "options",
    [
        {"samples": 0},
        {"max_tokens": 0},
        {"low": 10},
        {"passes_from": 11},
        {"pattern": "score"},
        {"prompt": "nothing"},
        {"temperature": -0.1},
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        built(**options)


def test_it_can_be_simulated() -> None:
    judge = built()
    requests = judge.requests(PASSAGE, "Thus, the coherency score is 1.")
    assert judge.parse(PASSAGE, replies(*map(judge.simulated, requests)))["score"].value == 8.0
