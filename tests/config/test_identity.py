from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config.identity import GROWING, MAY_CHANGE, conflicts, judge_conflicts
from harness.config.run_file import RunFile, flatten
from harness.config.sections import JudgeSection
from tests.config.run_files import BASE, JUDGE, judges, run


def test_a_run_continues_as_itself() -> None:
    assert conflicts(run(), run()) == []


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
    assert conflicts(run(), run(**changes)) == [named]


def test_another_path_of_the_paraphraser_makes_another_run() -> None:
    """Unlike the model's and the judges', its weights have no fingerprint."""
    polish = {"backend": "vllm_server", "name": "m", "path": "here"}
    there = polish | {"path": "there", "api_key_env": "KEY"}
    assert conflicts(run(polish=polish), run(polish=there)) == ["polish.path"]


def test_every_differing_key_is_named() -> None:
    assert conflicts(run(), run(seed=7, samples=1, decoding={})) == [
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
    assert conflicts(run(), run(**changes)) == []


def test_a_run_of_all_instances_is_not_cut_down() -> None:
    assert conflicts(run(limit=None), run(limit=5)) == ["limit"]


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
    assert set(conflicts(one, two)) == expected
    assert conflicts(one, two) == sorted(expected)


@given(runs, runs, runs)
def test_what_two_steps_may_do_one_may(one: RunFile, two: RunFile, three: RunFile) -> None:
    assert set(conflicts(one, three)) <= {*conflicts(one, two), *conflicts(two, three)}


def test_every_key_that_may_grow_or_change_is_a_key() -> None:
    keys = set(flatten(run().model_dump(mode="json"))) | set(RunFile.model_fields)
    assert set(GROWING) <= keys
    assert {key for key in MAY_CHANGE if "." not in key} <= keys


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
    assert conflicts(judges(JUDGE), now) == named


def test_a_judge_is_compared_with_itself_alike() -> None:
    one = JudgeSection.model_validate(JUDGE)
    other = JudgeSection.model_validate(JUDGE | {"max_tokens": 7, "limits": {"rpm": 5}})
    assert judge_conflicts(one, one) == []
    assert judge_conflicts(one, other) == ["max_tokens"]


def test_a_backend_says_which_of_its_options_may_change() -> None:
    def owned(**options: object) -> RunFile:
        return run(model={"backend": "vllm_server", "name": "m", **options})

    one = owned(engine={"tensor_parallel_size": 2}, replicas=1, start_s=5.0)
    assert conflicts(one, owned(gpus="0", engine={"dtype": "half"})) == []
    assert conflicts(one, owned(lora="other")) == ["model.lora"]
    other = [run(model={"backend": "openai", "engine": engine}) for engine in ("a", "b")]
    assert conflicts(*other) == ["model.engine"]
    judge = [
        judges(JUDGE | {"model": {"backend": "vllm_server", "name": "m", "restarts": number}})
        for number in (1, 2)
    ]
    assert conflicts(*judge) == []
