"""How runs differ, as a comparison reports it."""

from dataclasses import replace

import pytest

from harness.analysis.metrics import PASS_RATE, JudgeFacts, Metrics
from harness.config.identity import tree_by_name
from harness.errors import RunConflict
from harness.plugins.comparisons.comparable import Variant, settings
from harness.plugins.comparisons.run_differences import (
    UNLIKE_VERDICTS,
    changed,
    differing,
    refuse_unlike_verdicts,
    unequal,
)
from tests.analysis.summaries import metrics_of
from tests.conftest import run_file
from tests.plugins.comparisons.variants import variant


@pytest.mark.parametrize(
    ("key", "value", "refused"),
    [
        ("judges.reader", {"judges.reader.name": "yes_no"}, "judges.reader"),
        ("judges.adviser", {"judges.adviser.name": "score"}, ""),
        ("task.prompt", "{{ q }}", ""),
        ("checks_sha256", "other", "the set of checks"),
        ("check.py_sha256", "other", "check.py"),
        ("code/check.py_sha256", "other", "check.py"),
        ("template_sha256", "other", ""),
        ("judge_reader_prompt_sha256", "other", "reader"),
        ("judge_adviser_prompt_sha256", "other", ""),
    ],
)
def test_only_what_decides_on_passing_makes_verdicts_unlike(
    key: str, value: object, refused: str
) -> None:
    keys = ("checks", "check.py", "template", "judge_reader_prompt", "judge_adviser_prompt")
    fingerprint = {f"{name}_sha256": "same" for name in (*keys, "code/check.py")}
    settings: dict[str, object] = {"task.checks": ["check.py"]}
    base = variant("base", {}, settings=settings, fingerprint=fingerprint)
    if key in fingerprint:
        fingerprint = fingerprint | {key: str(value)}
    else:
        settings = settings | {key: value}
    run = variant("run", {}, settings=settings, fingerprint=fingerprint)
    run = replace(run, deciding=["reader"])
    told = next(differing(base, [run], PASS_RATE), "")
    assert not next(differing(base, [run]), "").startswith(UNLIKE_VERDICTS)
    if not refused:
        assert not told.startswith(UNLIKE_VERDICTS)
        return refuse_unlike_verdicts(base, run)
    assert told == f"{UNLIKE_VERDICTS}: run differs from base in {refused}."
    with pytest.raises(RunConflict, match=f"they differ in {refused}"):
        refuse_unlike_verdicts(base, run)


def test_a_judge_that_differs_is_told_by_its_name() -> None:
    model = {"backend": "openai", "name": "gpt-4o"}
    judge = {"name": "yes_no", "as": "first", "model": model}
    arms = {
        "base": [judge],
        "other model": [judge | {"model": model | {"name": "llama"}}],
        "other option": [judge | {"votes": 3}],
        "other price": [judge | {"model": model | {"price": {"input": 1, "output": 1}}}],
        "none": [],
    }
    base, *others = (
        variant(name, {}, settings=settings(tree_by_name(run_file(judges=judges))))
        for name, judges in arms.items()
    )
    told = {one.name: list(differing(base, [one])) for one in others}
    more = "The runs differ in judges.first"
    assert told == {
        "other model": [f"{more}.model.name (gpt-4o, llama)."],
        "other option": [f"{more}.votes (null, 3)."],
        "other price": [],
        "none": [f"{more} ({{name: yes_no, as: first, model.backend: openai, model.name…, null)."],
    }


def test_a_panel_that_differs_is_told_by_its_members() -> None:
    model = {"backend": "openai", "name": "m"}
    judges = [{"name": "yes_no", "as": name, "model": model} for name in "abc"]

    def of(*members: str, **options: str) -> Variant:
        panels = [{"as": "jury", "of": members, **options}]
        told = settings(tree_by_name(run_file(judges=judges, panels=panels)))
        return variant("".join(members), {}, settings=told)

    (told,) = differing(of("a", "b"), [of("a", "b", "c", by="mean")])
    assert told == (
        "The runs differ in panels.jury.by (majority, mean), panels.jury.of ([a, b], [a, b, c])."
    )


def later(name: str, **options: object) -> Variant:
    """A run that one judge and one panel have judged later."""
    judge = {"name": "pairwise", "as": "duel", "model": {"name": "m", "price": name}, **options}
    panel = {"as": "jury", "of": ["duel", name], "by": "mean"}
    told = settings({"judges": {"duel": judge}, "panels": {"jury": panel}})
    return replace(variant(name, {}), later=told)


def test_judges_asked_later_that_differ_are_told_where_both_runs_have_them() -> None:
    base = later("a", against="x")
    (said,) = differing(base, [later("b", against="y")])
    assert "judges.duel.against (x, y)" in said
    assert "panels.jury.of ([duel, a], [duel, b])" in said
    assert list(differing(base, [later("a", against="x")])) == []
    assert list(differing(base, [variant("none", {})])) == [], "they only advise"
    assert changed(base, variant("none", {})) == []


def test_what_differs_is_told() -> None:
    base = variant("base", {}, settings={"task.encoding": "a", "decoding.temperature": 0.0})
    other = variant(
        "other",
        {},
        settings={"task.encoding": "b", "decoding.temperature": 0.7, "model.name": "n"},
        fingerprint={"dataset_sha256": "d", "stemmer": "new"},
    )
    assert list(differing(base, [base])) == []
    of_model = {**base.settings, "model.name": "n", "model.base_url": "http://other"}
    assert list(differing(base, [replace(base, settings=of_model)])) == [], "only the model differs"
    assert list(differing(base, [base, other])) == [
        "The variants differ in task.encoding.",
        "The runs also differ in decoding.temperature (0.0, 0.7), model.name (m, n).",
    ]
    stemmed = variant("stemmed", {}, fingerprint={"dataset_sha256": "d", "stemmer": "old"})
    told = list(differing(other, [stemmed]))
    assert "They were made or scored with a different stemmer: stemmed against other." in told
    strict, lenient = (arm(one, template_sha256="t", checks_sha256=one) for one in ("a", "b"))
    told = list(differing(strict, [lenient]))
    assert "They were made or scored with a different set of checks: b against a." in told
    earlier, now = (arm(key, **{f"{key}mine_sha256": "1"}) for key in ("", "code/"))
    for texts in (differing(earlier, [now]), differing(now, [earlier])):
        assert "the same mine is unknown: an earlier version" in " ".join(texts)


def arm(
    name: str, content: str = "c", settings: dict[str, str] | None = None, **more: str
) -> Variant:
    fingerprint = {"dataset_sha256": "d", "content_sha256": content} | more
    return variant(name, {}, settings=settings, fingerprint=fingerprint)


def test_prompts_that_settings_state_are_no_warning_and_others_are() -> None:
    def version(name: str, prompt: str, template: str) -> Variant:
        return arm(name, settings={"task.prompt": prompt}, template_sha256=template)

    base = version("base", "{{ q }}", "1")
    assert list(differing(base, [version("brief", "{{ q }} briefly", "2")])) == [
        "The variants differ in task.prompt."
    ]
    assert list(differing(base, [version("edited", "{{ q }}", "2")])) == [
        "They were made or scored with a different prompt: edited against base."
    ]


FREE = arm("free", form="free", parser="strict", prompt_sha256="p", labels="given")


def test_arms_whose_prompts_differ_in_more_than_the_form_are_confounded() -> None:
    other = arm("json", "e", {"task.form": "json"}, form="json", parser="json", prompt_sha256="q")
    assert list(differing(FREE, [FREE, other])) == [
        "CONFOUNDED: the prompts of json and of free differ in more than the form of the answer, "
        "so a difference between the two cannot be attributed to the form or to decoding.",
        "The variants differ in task.form.",
        "They were made or scored with a different form, parser: json against free.",
    ]


def test_arms_that_differ_in_the_form_alone_are_what_is_compared() -> None:
    arms = [
        arm("json", settings={"task.form": "json"}, form="json", prompt_sha256="q"),
        arm("held", settings={"decoding.constraint": "task"}, form="free", prompt_sha256="p"),
        arm("lax", settings={"task.parser": "lax"}, parser="lax", parser_sha256="r"),
    ]
    base = arm("free", form="free", parser="strict", parser_sha256="s", prompt_sha256="p")
    assert list(differing(base, [base, *arms])) == [
        "The variants differ in decoding.constraint, task.form, task.parser.",
        "Except for the form of the answer, the prompts of json, lax say what those of free do: "
        "the comparison is of form, parser, prompt.",
    ]
    assert list(differing(base, [arms[1]])) == ["The variants differ in decoding.constraint."]


def test_each_arm_is_told_apart() -> None:
    """One of them is confounded, one is not, one has other labels."""
    arms = [arm("a", "e"), arm("b", form="json"), arm("c", labels="true")]
    told = list(differing(FREE, arms))
    assert [one.startswith("CONFOUNDED") for one in told] == [True, False, False]
    assert "the prompts of a and of free" in told[0]
    assert "the prompts of b say what those of free do: the comparison is of form." in told[1]
    assert told[2] == "They were made or scored with a different labels: c against free."


def test_without_a_hash_of_the_content_nothing_is_known_of_it() -> None:
    base = variant("base", {}, fingerprint={"dataset_sha256": "d", "form": "free"})
    other = arm("other", settings={"decoding.constraint": "x"}, form="json")
    told = list(differing(base, [other]))
    assert told == [
        "The runs differ in decoding.constraint (null, x).",
        "They were made or scored with a different form: other against base.",
    ]


def test_single_samples_beside_rounds_get_a_hint() -> None:
    rounds = variant("rounds", {}, settings={"samples": 1, "rounds.max": 3}, measure=None)
    samples = {"samples": 3, "rounds.max": 1}
    single = variant("three", {}, settings=samples, measure=None)
    [hint] = (note for note in differing(single, [rounds]) if "single samples" in note)
    assert hint.startswith("rounds has several rounds, but three is measured by the mean of its 3")
    assert "measure: pass@3 for three" in hint
    both = variant("both", {}, settings={"samples": 3, "rounds.max": 3}, measure=None)
    for one in (variant("best", {}, settings=samples, measure="pass@3"), rounds, both):
        assert not any("single samples" in note for note in differing(one, [rounds]))


OWN = JudgeFacts(model="gpt-4", family="OpenAI")
OTHER = JudgeFacts(model="gpt-4")


def judged(**judges: JudgeFacts) -> Metrics:
    return metrics_of("run", {"a": 0.5}, judges=judges)


def test_runs_that_a_panel_may_prefer_to_others_are_told() -> None:
    jury = JudgeFacts(of=("own", "other"), family="OpenAI")
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
