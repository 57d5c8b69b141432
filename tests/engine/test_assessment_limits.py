"""What is written can be read: scores that cannot be recorded are refused before they are."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.engine.assessment import assess, normalize_scores
from harness.errors import ConfigError, Unparseable
from harness.records import CONSTRAINT_REFUSED, MAX_MAGNITUDE, Attempt, Instance, Reply, Score
from harness.store.columns import TableLine
from harness.store.json_lines import encode
from tests.conftest import Sums

INSTANCE = next(iter(Sums().instances()))


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def cyclic() -> Any:
    value: dict[str, Any] = {}
    value["a"] = value
    return value


RECORDABLE = [
    Score(MAX_MAGNITUDE),
    Score(-MAX_MAGNITUDE),
    Score(10**100),
    Score(2**70),
    Score(5e-324),
    Score(None),
    Score(np.float32(0.5), share=True),
    Score(True, True, "half \ud83d", {"a": "half \ud83d"}),
    Score(np.float64(0.5), np.bool_(True)),
    Score(np.float32(0.5)),
    Score(np.int64(3)),
    Score(1.0, details={"a": np.float32(1), "b": np.arange(3), "c": {1: np.int8(2)}}),
    Score(1.0, details={"a": nested(99)}),
    Score(1.0, details={"a": [[]] * 200, "b": "[" * 200}),
    Score(1.0, details={"a": 10**400, "b": float("nan")}),
]


@pytest.mark.parametrize("score", RECORDABLE)
def test_a_recordable_score_is_read_back_from_its_line(score: Score) -> None:
    scores = normalize_scores({"a": score}, "x")
    attempt = Attempt(1, "x", 0, 1, {}, "", {}, "ok", 0.0, 0.0, scores=scores)
    line = encode(attempt)
    read = msgspec.json.decode(line, type=Attempt).scores["a"]
    expected = None if score.value is None else float(score.value)
    assert read.value == expected
    assert read.passed == score.passed
    assert msgspec.json.decode(line, type=TableLine).scores["a"].value == expected
    assert type(scores["a"].value) in (bool, int, float, type(None))


def test_a_score_of_pythons_own_values_is_not_copied() -> None:
    score = Score(0.5, True, "", {"a": [1]}, share=True)
    assert normalize_scores({"a": score}, "x")["a"] is score


def shown(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # an integer of more than 4,300 digits
        return ""


VALUES: list[Any] = [
    *(1e101, -1.1e100, 10**101, 10**400, 10**5000, float("nan"), float("inf"), -float("inf")),
    *(np.float64(1e300), np.float32("nan"), np.array([1, 2]), "0.5", "abc", Decimal("1.5"), [1]),
]


@pytest.mark.parametrize("value", VALUES, ids=map(str, range(len(VALUES))))
def test_a_value_beyond_the_limits_is_refused_with_its_score_and_the_limit(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"The score 'length' of instance 'x' has the value") as e:
        normalize_scores({"fine": Score(1), "length": Score(value)}, "x")
    assert "from -1e+100 to 1e+100" in e.value.remedy
    assert len(e.value.message) < 200
    assert ("…" in e.value.message) == (len(shown(value)) > 60)


PARTS: list[tuple[Any, str]] = [
    (Score(1, 1), "has the verdict 1"),  # type: ignore[arg-type]
    (Score(True, True, None), "has the reason None"),  # type: ignore[arg-type]
    (Score(1, details="text"), "has the details"),  # type: ignore[arg-type]
    (Score(1, details={"a": object()}), "details that cannot be recorded"),
    (Score(1, details={"a": 10**5000}), "details that cannot be recorded"),
    (Score(1, details={"a": msgspec.Raw(b"{")}), "details that cannot be recorded"),
    (Score(1, details={(1, 2): 3}), "details that cannot be recorded"),  # type: ignore[dict-item]
    (Score(1, details=cyclic()), "details that cannot be recorded"),
    (Score(1, details={"a": nested(5_000)}), "details that cannot be recorded"),
    (Score(1, details={"a": nested(100)}), "nested too deeply"),
    (Score(1.5, share=True), r"the share 1\.5"),
    (0.5, r"is 0\.5"),
]


@pytest.mark.parametrize(("score", "problem"), PARTS)
def test_every_other_part_is_checked(score: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        normalize_scores({"a": score}, "x")


def test_only_numbers_say_whether_they_are_shares() -> None:
    scores = {"share": Score(1.0, share=True), "count": Score(1.0), "verdict": Score(True)}
    line = msgspec.json.decode(encode(dict(normalize_scores(scores, "x"))))
    assert [line[name].get("share") for name in scores] == [True, False, None]


def test_scores_are_a_mapping() -> None:
    with pytest.raises(ConfigError, match=r"The scores of instance 'x' are 0\.5"):
        normalize_scores(0.5, "x")  # type: ignore[arg-type]


class Excessive(Sums):
    """A task whose scores are all too large."""

    measure = "size"

    def score(self, instance: Instance[int], text: str) -> Mapping[str, Score]:
        if text == "unparseable":
            error = Unparseable("no")
            error.scores = self.score(instance, "")
            raise error
        return {"size": Score(1e200)}

    def score_of_no_answer(self, instance: Instance[int]) -> Mapping[str, Score]:
        return {"size": Score(1e200)}

    def score_of_refused_constraint(self, instance: Instance[int]) -> Mapping[str, Score]:
        return {"size": Score(1e200)}


@pytest.mark.parametrize(
    ("text", "reason"),
    [("1", "stop"), ("", "stop"), ("unparseable", "stop"), ("400", CONSTRAINT_REFUSED)],
)
def test_all_scores_of_a_task_are_checked(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=r"'size' of instance 'sum/0' has the value 1e\+200"):
        assess(Excessive(), INSTANCE, Reply(text, reason))
