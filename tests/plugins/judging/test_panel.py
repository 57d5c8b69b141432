"""Judges that decide together, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config.sections import PanelSection
from harness.engine.judges import JudgeScores
from harness.errors import Unparseable
from harness.plugins.judging.panel import Panel
from harness.records import SPLIT_KEY, Score
from harness.scoring.judges import criteria_scores
from tests.conftest import Scripted, Sums
from tests.engine.test_judging import Setting

YES, NO, NONE = Score(True, True), Score(False, False, "It is rude."), Score(None)
VERDICTS = {True: YES, False: NO, None: NONE}


def verdicts(**said: bool | None) -> JudgeScores:
    return {name: {"good": VERDICTS[one]} for name, one in said.items()}


def strict(*verdicts: bool | None, probabilities: Sequence[float | None] = ()) -> Any:
    """A judge's scores of criteria that are named by their places."""
    given = dict(enumerate(probabilities))
    return criteria_scores(
        [
            {
                "constraint": f"c{place}",
                "passed": passed,
                "groups": {"category": "Length"},
                **({"probability": given[place]} if place in given else {}),
            }
            for place, passed in enumerate(verdicts)
        ]
    )


@pytest.mark.parametrize(
    ("said", "decided"),
    [
        ({"a": True, "b": True, "c": False}, True),
        ({"a": True, "b": False, "c": False}, False),
        ({"a": True, "b": True, "c": None}, True),
    ],
)
def test_the_majority_decides(said: dict[str, bool | None], decided: bool) -> None:
    found = Panel(["a", "b", "c"]).combine(verdicts(**said))["good"]
    assert (found.value, found.passed) == (decided, decided)
    assert found.details == {"panel": said}
    assert found.reason == ("" if decided else "It is rude.")


@pytest.mark.parametrize(
    ("said", "quorum"),
    [
        ({"a": True, "b": None, "c": None}, None),  # one of three is no majority of the panel
        ({"a": True, "b": False, "c": None}, None),  # a tie
        ({"a": True, "b": True, "c": None}, 3),
    ],
)
def test_too_few_verdicts_and_ties_are_no_verdict(
    said: dict[str, bool | None], quorum: int | None
) -> None:
    with pytest.raises(Unparseable):
        Panel(["a", "b", "c"], quorum=quorum).combine(verdicts(**said))


def test_a_mean_of_numbers_passes_from_its_mark() -> None:
    said = {"a": {"score": Score(8.0)}, "b": {"score": Score(5.0)}, "c": {"score": Score(None)}}
    plain = Panel(["a", "b", "c"], "mean").combine(said)["score"]
    assert (plain.value, plain.passed) == (6.5, None)
    low = Panel(["a", "b", "c"], "mean", passes_from=7).combine(said)["score"]
    assert (low.value, low.passed, low.reason) == (6.5, False, "The panel's mean is 6.5, below 7.")
    assert Panel(["a", "b", "c"], "mean", passes_from=6.5).combine(said)["score"].passed


def test_scores_without_verdicts_are_no_matter_of_a_majority() -> None:
    said = {name: {"good": YES, "length": Score(3.0)} for name in "abc"}
    assert set(Panel(list("abc")).combine(said)) == {"good"}


def test_criteria_are_combined_one_by_one() -> None:
    """Each judge finds another criterion broken: each is met by the majority, and so are all."""
    said = {
        "a": strict(False, True, True),
        "b": strict(True, False, True),
        "c": strict(True, True, None),
    }
    found = Panel(list("abc")).combine(said)
    assert found["strict"].passed is True
    assert found["soft"].value == 1.0
    first, _, third = found["strict"].details["constraints"]
    assert first["probability"] == pytest.approx(2 / 3)
    assert first["panel"] == {"a": False, "b": True, "c": True}
    assert first["groups"] == {"category": "Length"}
    assert (third["passed"], third["panel"]["c"]) == (True, None)


def test_of_criteria_the_mean_of_the_probabilities_decides() -> None:
    said = {
        "a": strict(False, True, probabilities=[0.45, 0.9]),
        "b": strict(False, True, probabilities=[0.4, 0.8]),
        "c": strict(True, False, probabilities=[0.95]),  # the second without one: 0
    }
    first, second = Panel(list("abc"), "mean").combine(said)["strict"].details["constraints"]
    assert (first["passed"], first["probability"]) == (True, pytest.approx(0.6))
    assert (second["passed"], second["probability"]) == (True, pytest.approx(1.7 / 3))


def test_a_tie_on_a_criterion_counts_as_half() -> None:
    scores = Panel(["a", "b"]).combine({"a": strict(True, True), "b": strict(False, True)})
    assert scores["soft"].value == 0.75
    assert scores["strict"].value is None


def test_a_rules_verdict_stays_beside_the_panels() -> None:
    told = {"constraint": "c", "passed": True, "rule": False}
    said = {name: criteria_scores([told]) for name in "ab"}
    (found,) = Panel(list("ab")).combine(said)["strict"].details["constraints"]
    assert found["rule"] is False


def test_what_was_put_before_no_judge_has_no_score() -> None:
    assert Panel(["a", "b"]).combine({"a": {}, "b": {}}) == {}


def test_a_judge_without_a_verdict_is_not_one_that_was_not_asked() -> None:
    panel = Panel(["a", "b", "c"])
    with pytest.raises(Unparseable):
        panel.combine({"a": {}, "b": {}, "c": None})
    assert panel.combine({"a": {"good": YES}, "b": {}, "c": {}})["good"].passed
    with pytest.raises(Unparseable):
        panel.combine({"a": {"good": YES}, "b": None, "c": {}})
    assert panel.combine({"a": {"good": YES}, "b": {"good": YES}, "c": None})["good"].passed
    strict_quorum = Panel(["a", "b", "c"], quorum=3)
    assert strict_quorum.combine({"a": {"good": YES}, "b": {}, "c": {}})["good"].passed
    with pytest.raises(Unparseable):
        strict_quorum.combine({"a": {"good": YES}, "b": {"good": YES}, "c": None})


def test_a_mark_is_of_scores_that_have_verdicts() -> None:
    """That a judge looks at the place alone is its own fault, and not the answer's."""
    said: JudgeScores = {
        name: {"preferred": Score(0.5, True), "consistent": Score(0.0)} for name in ("a", "b")
    }
    found = Panel(["a", "b"], "mean", passes_from=0.5).combine(said)
    assert {name: score.passed for name, score in found.items()} == {
        "preferred": True,
        "consistent": None,
    }


def test_a_mark_is_of_the_mean_probability_of_criteria_too() -> None:
    said: JudgeScores = {name: strict(True, probabilities=[0.6]) for name in "ab"}
    assert Panel(list("ab"), "mean").combine(said)["strict"].passed is True
    assert Panel(list("ab"), "mean", passes_from=0.9).combine(said)["strict"].passed is False


def test_criteria_that_the_panel_is_divided_on_are_named_as_such() -> None:
    found = Panel(["a", "b"]).combine({"a": strict(True), "b": strict(False)})["strict"]
    reason = "The panel's judges tie, or too few of them decide on: c0"
    assert (found.value, found.reason) == (None, reason)


def test_a_panels_share_is_not_above_those_of_its_judges() -> None:
    own = {"a": strict(True, True, True, False), "b": strict(True, False, None, False)}
    panel = Panel(["a", "b"]).combine(own)
    assert [one["soft"].value for one in own.values()] == [0.75, 1 / 3]
    assert panel["soft"].value == pytest.approx((1 + 0.5 + 0) / 3)  # a tie counts as half
    assert panel["soft"].details == {"decided": 2, "abstained": 2}


def test_a_plug_in_may_tell_of_anything() -> None:
    odd = [{"passed": True}, "x", {"constraint": 3, "passed": True}]
    said: JudgeScores = {
        name: {"good": Score(True, True, "", {"constraints": odd})} for name in ("a", "b")
    }
    assert Panel(["a", "b"]).combine(said)["good"].passed is True


def test_criteria_that_differ_are_not_mixed() -> None:
    said = {"a": strict(True), "b": strict(True, False), "c": strict(True, True)}
    found = Panel(list("abc")).combine(said)
    assert found["strict"].passed is True
    assert "constraints" not in found["strict"].details


@given(st.lists(st.sampled_from([True, False, None]), min_size=2, max_size=9))
def test_a_verdict_is_that_of_more_than_half_of_those_who_have_one(
    votes: list[bool | None],
) -> None:
    names = [f"j{place}" for place in range(len(votes))]
    said = verdicts(**dict(zip(names, votes, strict=True)))
    yes, no = votes.count(True), votes.count(False)
    try:
        found = Panel(names).combine(said)["good"].passed
    except Unparseable:
        assert yes == no or 2 * (yes + no) <= len(votes)
    else:
        assert found is (yes > no)
        assert yes != no
        assert 2 * (yes + no) > len(votes)


def test_a_mean_probability_at_the_mark_passes() -> None:
    said = {
        "a": strict(False, probabilities=[0.25]),
        "b": strict(True, probabilities=[0.75]),
    }
    (found,) = Panel(list("ab"), "mean").combine(said)["strict"].details["constraints"]
    assert (found["probability"], found["passed"]) == (0.5, True)


def test_a_quorum_of_more_than_were_asked_needs_all_who_were() -> None:
    said = {"a": {"good": YES}, "b": {"good": YES}, "c": {}}
    assert Panel(list("abc"), quorum=3).combine(said)["good"].passed is True
    with pytest.raises(Unparseable):
        Panel(list("abc"), quorum=3).combine(said | {"b": {"good": NONE}})


def test_only_judges_that_say_no_give_the_reason() -> None:
    unclear = Score(None, None, "I cannot tell.")
    said = {"a": {"good": NO}, "b": {"good": NO}, "c": {"good": unclear}}
    assert Panel(list("abc")).combine(said)["good"].reason == "It is rude."


def test_a_split_vote_that_passes_is_marked() -> None:
    """The panel's soft score is then above that of each judge."""
    own = {"a": strict(True, False, True), "b": strict(False, True, True)}
    panel = Panel(["a", "b"], "mean").combine(own)
    assert (panel["soft"].value, own["a"]["soft"].value) == (1.0, pytest.approx(2 / 3))
    assert panel["soft"].details[SPLIT_KEY]
    assert SPLIT_KEY not in Panel(["a", "b"], "mean", passes_from=0.6).combine(own)["soft"].details
    agreed = {"a": strict(True), "b": strict(True)}
    assert SPLIT_KEY not in Panel(["a", "b"], "mean").combine(agreed)["soft"].details
    assert SPLIT_KEY not in Panel(["a", "b"]).combine(own)["soft"].details
    divided: JudgeScores = {"a": {"good": YES}, "b": {"good": NO}}
    assert Panel(["a", "b"], "mean", passes_from=0.5).combine(divided)["good"].details[SPLIT_KEY]


async def test_a_panel_decides_on_rounds_and_its_judges_do_not(tmp_path: Path) -> None:
    """Each judge alone fails a round that the majority passes."""
    setting = Setting(tmp_path, Sums(2), rounds={"max": 3})
    says = {"one": [1, 2], "two": [2], "three": [2, 3]}  # the rounds that each lets pass
    judges = {
        name: Scripted(lambda r, own=own: "yes" if r.origin.round in own else "no")
        for name, own in says.items()
    }
    jury = PanelSection.model_validate({"as": "jury", "of": list(judges)})
    await setting.run(panels=[jury], decides=False, **judges)
    found = {(j.judge, j.round): j for j in setting.judgements() if j.instance == "sum/1"}
    assert found["jury", 1].scores["jury.good"].passed is False
    assert found["jury", 2].scores["jury.good"].passed is True
    assert not any(number == 3 for _, number in found)
    feedback = setting.attempts()["sum/1", 0, 1].feedback
    assert feedback == "The judge says no."
    assert sorted(setting.passed()) == [0, 0, 1, 1]
