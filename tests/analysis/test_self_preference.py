from harness.analysis.comparable import differing
from harness.analysis.metrics import JudgeFacts, Metrics
from harness.analysis.self_preference import marked, notes, unequal
from tests.analysis.variants import variant

OWN = JudgeFacts(model="gpt-4", family="OpenAI")
OTHER = JudgeFacts(model="gpt-4")


def judged(**judges: JudgeFacts) -> Metrics:
    return variant("run", {"a": 0.5}, judges=judges).metrics


def test_scores_of_a_judge_of_the_models_own_family_are_marked() -> None:
    found = judged(own=OWN, other=OTHER)
    told = {name: marked(found, name) for name in ("own.score", "other.score", "own", "f1.x")}
    assert told == {"own.score": True, "other.score": False, "own": False, "f1.x": False}
    assert notes(found) == [
        "self-preference: the judge 'own' asks gpt-4, of the model's own family (OpenAI)"
    ]
    assert notes(found, ["other"]) == []


def test_a_panel_is_of_the_family_of_any_of_its_judges() -> None:
    jury = JudgeFacts(of=("own", "other"), family="OpenAI")
    found = judged(own=OWN, other=OTHER, jury=jury)
    assert marked(found, "jury.score")
    assert notes(found, ["jury"]) == [
        "self-preference: the panel 'jury' has the judge 'own', which asks gpt-4, of the model's "
        "own family (OpenAI)"
    ]
    (said,) = unequal([("a", judged(jury=jury)), ("b", judged(jury=JudgeFacts(of=("other",))))])
    assert said.startswith("The panel 'jury' shares a family (OpenAI) with the model of a but not")


def test_runs_that_a_judge_may_prefer_to_others_are_told() -> None:
    (said,) = unequal([("a", judged(j=OWN)), ("b", judged(j=OTHER)), ("c", judged())])
    assert said == (
        "The judge 'j' shares a family (OpenAI) with the model of a but not with that of b: it "
        "may prefer its own kind."
    )
    assert not list(unequal([("a", judged(j=OWN)), ("b", judged(j=OWN))]))
    assert not list(unequal([("a", judged(j=OTHER)), ("b", judged(j=OTHER))]))


def test_every_comparison_of_runs_tells_it() -> None:
    base = variant("base", {"a": 0.5}, judges={"j": OTHER})
    own = variant("own", {"a": 0.5}, judges={"j": OWN})
    assert any("may prefer its own kind" in note for note in differing(base, [own]))
