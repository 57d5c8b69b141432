from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.config.identity import (
    CHANGEABLE_KEYS,
    GROWING_KEYS,
    conflicting_judge_keys,
    conflicting_keys,
)
from harness.config.run_file import RunFile, flatten
from harness.config.sections import JudgeSection, ShotsSection, TaskSection
from tests.config.run_files import BASE, JUDGE, judges, problem, run
from tests.conftest import run_file


def test_a_run_continues_as_itself() -> None:
    assert conflicting_keys(run(), run()) == []


def test_a_run_continues_on_a_cluster_and_back() -> None:
    placement = {"engine": "ray", "replicas": 4}
    placed = run(model=BASE["model"] | {"placement": placement})
    more = run(model=BASE["model"] | {"placement": placement | {"replicas": 8, "gpus": 1}})
    for before, now in ((run(), placed), (placed, more), (more, run())):
        assert conflicting_keys(before, now) == []


@pytest.mark.parametrize(
    ("before", "now", "differing"),
    [
        ("fail", None, []),  # unset: it continues as it began
        ("exclude", None, []),
        (None, "fail", []),
        ("exclude", "fail", []),
        ("fail", "exclude", ["model.on_error"]),
    ],
)
def test_crashes_that_count_go_on_to_count(
    before: str | None, now: str | None, differing: list[str]
) -> None:
    runs = [run(model=BASE["model"] | {"on_error": value}) for value in (before, now)]
    assert conflicting_keys(*runs) == differing


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"task": {"name": "other", "dataset": "v1"}}, "task.name"),
        ({"task": {"name": "collie", "dataset": "builtin"}}, "task.dataset"),
        ({"task": {"name": "collie"}}, "task.dataset"),
        ({"task": {"name": "collie", "dataset": "v1", "extra": 1}}, "task.extra"),
        ({"task": BASE["task"] | {"shots": 1}}, "task.shots"),
        ({"model": BASE["model"] | {"backend": "simulated"}}, "model.backend"),
        ({"model": BASE["model"] | {"name": "gpt-5"}}, "model.name"),
        ({"model": BASE["model"] | {"base_url": "http://other/v1"}}, "model.base_url"),
        ({"decoding": BASE["decoding"] | {"temperature": 0}}, "decoding.temperature"),
        ({"decoding": BASE["decoding"] | {"max_tokens": None}}, "decoding.max_tokens"),
        ({"decoding": BASE["decoding"] | {"stop": []}}, "decoding.stop"),
        ({"rounds": {"max": 3, "stop_on_pass": False}}, "rounds.stop_on_pass"),
        ({"seed": 1}, "seed"),
        ({"seed": None}, "seed"),
        ({"samples": 3}, "samples"),
        ({"rounds": {"max": 2}}, "rounds.max"),
        ({"limit": 49}, "limit"),
    ],
)
def test_what_makes_another_run_is_named(changes: dict[str, Any], named: str) -> None:
    assert conflicting_keys(run(), run(**changes)) == [named]


def test_another_path_of_the_paraphraser_makes_another_run() -> None:
    """Unlike the model's and the judges', its weights have no fingerprint."""
    polish = {"backend": "vllm_server", "name": "m", "path": "here"}
    there = polish | {"path": "there", "api_key_env": "KEY"}
    assert conflicting_keys(run(polish=polish), run(polish=there)) == ["polish.path"]


def test_every_differing_key_is_named() -> None:
    assert conflicting_keys(run(), run(seed=7, samples=1, decoding={})) == [
        "decoding.max_tokens",
        "decoding.stop",
        "decoding.temperature",
        "samples",
        "seed",
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"samples": 20},
        {"rounds": {"max": 4}},
        {"limit": 51},
        {"limit": None},
        {"limits": {"concurrency": 1, "timeout_s": 1, "attempts": 1}},
        {"variants": {"a": {"samples": 2}}},
        {"model": BASE["model"] | {"path": "elsewhere.jsonl"}},
        {"task": BASE["task"] | {"path": "elsewhere"}},
    ],
)
def test_what_may_grow_or_change_is_no_conflict(changes: dict[str, Any]) -> None:
    assert conflicting_keys(run(), run(**changes)) == []


def test_a_run_of_all_instances_is_not_cut_down() -> None:
    assert conflicting_keys(run(limit=None), run(limit=5)) == ["limit"]


counts = st.integers(1, 100)
runs = st.builds(
    run,
    samples=counts,
    rounds=st.fixed_dictionaries({"max": counts, "stop_on_pass": st.booleans()}),
    limit=st.none() | counts,
    seed=st.none() | st.integers(0, 3),
    limits=st.fixed_dictionaries({"concurrency": counts}),
    decoding=st.fixed_dictionaries({"temperature": st.sampled_from([None, 0, 0.5])}),
)


@given(runs, runs)
def test_conflicts_are_the_keys_that_differ_but_those_that_may(one: RunFile, two: RunFile) -> None:
    expected = set()
    for key in ("seed", "decoding.temperature", "rounds.stop_on_pass"):
        section, _, last = key.partition(".")
        before, now = getattr(one, section), getattr(two, section)
        if last:
            before, now = getattr(before, last), getattr(now, last)
        if before != now:
            expected.add(key)
    if two.samples < one.samples:
        expected.add("samples")
    if two.rounds.max < one.rounds.max:
        expected.add("rounds.max")
    if (two.limit or 1000) < (one.limit or 1000):
        expected.add("limit")
    assert set(conflicting_keys(one, two)) == expected
    assert conflicting_keys(one, two) == sorted(expected)


@given(runs, runs, runs)
def test_what_two_steps_may_do_one_may(one: RunFile, two: RunFile, three: RunFile) -> None:
    assert set(conflicting_keys(one, three)) <= {
        *conflicting_keys(one, two),
        *conflicting_keys(two, three),
    }


def test_every_key_that_may_grow_or_change_is_a_key() -> None:
    keys = set(flatten(run().model_dump(mode="json"))) | set(RunFile.model_fields)
    assert set(GROWING_KEYS) <= keys
    assert {key for key in CHANGEABLE_KEYS if "." not in key} <= keys


@pytest.mark.parametrize(
    ("now", "named"),
    [
        (judges(JUDGE | {"max_tokens": 7}), ["judges.parser.max_tokens"]),
        (judges(JUDGE | {"model": {"backend": "b"}}), None),
        (judges(JUDGE, JUDGE | {"as": "other"}), ["judges.other"]),
        (judges(JUDGE | {"as": "other"}), ["judges.other", "judges.parser"]),
        (run(), ["judges"]),
        (judges(JUDGE | {"limits": {"concurrency": 3}}), []),
        (judges(JUDGE | {"model": JUDGE["model"] | {"api_key_env": "MY_KEY"}}), []),
    ],
)
def test_other_judges_make_another_run(now: RunFile, named: list[str] | None) -> None:
    if named is None:
        named = ["judges.parser.model.backend", "judges.parser.model.name"]
    assert conflicting_keys(judges(JUDGE), now) == named


def test_a_judge_is_compared_with_itself_alike() -> None:
    one = JudgeSection.model_validate(JUDGE)
    other = JudgeSection.model_validate(JUDGE | {"max_tokens": 7, "limits": {"rpm": 5}})
    assert conflicting_judge_keys(one, one) == []
    assert conflicting_judge_keys(one, other) == ["max_tokens"]


JUDGES = [JUDGE | {"as": name} for name in "abc"]


def with_panels(*panels: dict[str, Any]) -> RunFile:
    return run(judges=JUDGES, panels=list(panels))


def test_a_panel_is_of_judges_of_the_run() -> None:
    (panel,) = with_panels({"as": "jury", "of": ["a", "c"], "by": "mean", "passes_from": 7}).panels
    assert (panel.as_, panel.of, panel.by, panel.passes_from) == ("jury", ("a", "c"), "mean", 7)
    again = RunFile.model_validate(with_panels({"as": "jury", "of": ["a", "c"]}).model_dump())
    assert again == with_panels({"as": "jury", "of": ["a", "c"]})


@pytest.mark.parametrize(
    ("panel", "said"),
    [
        ({"as": "jury", "of": ["a", "z"]}, "there is no judge 'z'"),
        ({"as": "jury", "of": ["a"]}, "two or more judges"),
        ({"as": "jury", "of": ["a", "a"]}, "each once"),
        ({"as": "a", "of": ["b", "c"]}, "two are named 'a'"),
        ({"as": "a", "of": ["a", "c"]}, "names the panel itself"),
        ({"of": ["a", "b"]}, "as is missing"),
        ({"as": "jury", "of": ["a", "b"], "quorum": 3}, "there are 2 judges"),
        ({"as": "jury", "of": ["a", "b"], "passes_from": 3}, "set by: mean"),
        ({"as": "jury", "of": ["a", "b"], "quorom": 2}, "quorum'?)"),
        ({"as": "j.k", "of": ["a", "b"]}, "letters, digits"),
        ({"as": "jury", "of": ["a", "b"], "by": "vote"}, "majority"),
        ("jury", "panels.0 must be a section"),
    ],
)
def test_a_panel_that_cannot_be_is_refused(panel: Any, said: str) -> None:
    found = problem(judges=JUDGES, panels=[panel])
    assert said in found


def test_another_panel_makes_another_run() -> None:
    before = with_panels({"as": "jury", "of": ["a", "b"]})
    assert conflicting_keys(before, before) == []
    assert conflicting_keys(before, with_panels({"as": "jury", "of": ["a", "c"]})) == [
        "panels.jury.of"
    ]
    assert conflicting_keys(before, with_panels()) == ["panels"]
    other = with_panels({"as": "jury", "of": ["a", "b"]}, {"as": "two", "of": ["b", "c"]})
    assert conflicting_keys(before, other) == ["panels.two"]


def shots(given: Any) -> ShotsSection:
    return TaskSection(name="t", shots=given).shots


def test_a_number_is_a_section_with_the_defaults() -> None:
    assert shots(3) == shots({"n": 3}) == ShotsSection(n=3)
    assert TaskSection(name="t").shots == ShotsSection(n=0)


def test_a_zero_shot_run_is_written_as_it_always_was() -> None:
    for shots in (0, {"n": 0}, {"n": 0, "form": "message"}):
        written = run_file(task={"name": "t", "shots": shots}).model_dump(mode="json")
        assert written["task"] == {"name": "t", "shots": 0}


def test_a_few_shot_run_is_written_as_a_section_that_reads_back() -> None:
    run = run_file(task={"name": "t", "shots": {"n": 2, "within": ["a"], "source": {"x": 1}}})
    written = run.model_dump(mode="json")["task"]["shots"]
    assert written["within"] == ["a"]
    assert written["form"] == "turns"
    assert run_file(task={"name": "t", "shots": written}) == run


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (-1, "greater than or equal to 0"),
        (True, "must be a whole number, or a section"),
        (2.0, "must be a whole number, or a section"),
        ("2", "must be a whole number, or a section"),
        (None, "must be a whole number, or a section"),
        ({"n": True}, "valid integer"),
        ({"n": 10**6}, "less than or equal to"),
        ({"n": 1, "seed": 1.0}, "valid integer"),
        ({"n": 1, "ids": ["a"]}, "need each other"),
        ({"n": 1, "select": "ids"}, "need each other"),
        ({"n": 1, "run": "r"}, "need each other"),
        ({"n": 1, "select": "errors"}, "need each other"),
        ({"n": 2, "select": "ids", "ids": ["a"]}, "n is 2, but ids names 1"),
        ({"n": 1, "select": "ids", "ids": ["a", "a"]}, "'a' twice"),
        ({"n": 1, "select": "ids", "ids": [1]}, "valid string"),
        ({"n": 1, "select": "errors", "run": "r", "source": {"a": 1}}, "remove source"),
        ({"n": 1, "select": "ids", "ids": ["a"], "across": "g"}, "remove across"),
        ({"n": 1, "within": ["g", "h"], "across": "g"}, "makes all shots share 'g'"),
        ({"n": 1, "across": ["g"]}, "valid string"),
        ({"n": 1, "order": "sorted"}, "'selected', 'reversed' or 'random'"),
        ({"n": 1, "source": {"deep": [{"password": "x"}]}}, "would contain a secret"),
        ({"n": 1, "k": 2}, "Extra inputs"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        shots(given)
    assert problem in caught.value.errors()[0]["msg"]


@pytest.mark.parametrize(
    ("before", "now", "named"),
    [
        (0, {"n": 0, "seed": 3}, []),
        (1, {"n": 1, "select": "first"}, []),
        (0, 1, ["task.shots"]),
        (2, 0, ["task.shots"]),
        (1, 2, ["task.shots.n"]),
        ({"n": 1, "seed": 1}, {"n": 1, "form": "task"}, ["task.shots.form", "task.shots.seed"]),
        ({"n": 1, "source": {"a": 1}}, {"n": 1, "source": {"a": 2}}, ["task.shots.source.a"]),
        (2, {"n": 2, "across": None}, []),
        (2, {"n": 2, "across": "g"}, ["task.shots.across"]),
    ],
)
def test_other_shots_are_another_run(before: Any, now: Any, named: list[str]) -> None:
    old, new = (run_file(task={"name": "t", "shots": given}) for given in (before, now))
    assert conflicting_keys(old, new) == named
