from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.config.identity import GROWING, conflicts, judge_conflicts
from harness.config.judges import JudgeSection
from harness.config.run_file import MAY_CHANGE, RunFile, flatten
from harness.config.run_names import check_name
from harness.config.secrets import shown
from harness.config.sections import TaskSection
from harness.records import Decoding

BASE: dict[str, Any] = {
    "task": {"name": "collie", "dataset": "v1"},
    "model": {"backend": "openai", "name": "gpt-4", "base_url": "http://localhost/v1"},
    "decoding": {"temperature": 0.7, "max_tokens": 1000, "stop": ["\n"]},
    "samples": 4,
    "rounds": {"max": 3},
    "limit": 50,
}


def run(**changes: Any) -> RunFile:
    return RunFile.model_validate(BASE | changes)


def problem(**changes: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        run(**changes)
    return str(caught.value.errors()[0]["msg"])


def test_a_run_file_needs_a_task_and_a_model_alone() -> None:
    small = RunFile.model_validate({"task": {"name": "t"}, "model": {"backend": "b"}})
    assert small.samples == 1
    assert small.decoding == Decoding()
    assert small.rounds.max == 1
    assert small.rounds.stop_on_pass
    assert small.seed == 0
    assert small.limit is None


def test_keys_that_a_section_does_not_know_are_the_plug_ins_options() -> None:
    assert run().task.options == {"dataset": "v1"}
    assert run().model.options == {"base_url": "http://localhost/v1"}


@pytest.mark.parametrize("section", ["decoding", "rounds", "limits", "budget"])
def test_a_section_of_the_harness_refuses_unknown_keys(section: str) -> None:
    with pytest.raises(ValidationError):
        run(**{section: {"nonsense": 1}})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("temperature", value) for value in (-0.1, float("nan"), float("inf"), True, "hot")],
        *[("top_p", value) for value in (0, -1, 1.01, float("nan"), float("-inf"))],
        *[("max_tokens", value) for value in (0, -1, 1.5, 10**30, True, "many")],
        *[("stop", value) for value in ("\n", [""], ["a", ""], [1], {"a": 1}, None)],
    ],
)
def test_decoding_that_no_model_can_do_is_refused(key: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        run(decoding={key: value})


@pytest.mark.parametrize("temperature", [None, 0, 0.0, 1e-3, 2])
@pytest.mark.parametrize("top_p", [None, 0.1, 1])
def test_decoding_that_models_can_do_is_taken(
    temperature: float | None, top_p: float | None
) -> None:
    found = run(decoding={"temperature": temperature, "top_p": top_p, "stop": []}).decoding
    assert (found.temperature, found.top_p) == (temperature, top_p)


@pytest.mark.parametrize("value", [0, -1, True, 2.0, "3", None, 2**31, 10**30])
@pytest.mark.parametrize("key", ["samples", "rounds.max", "limits.attempts", "limits.concurrency"])
def test_a_count_is_a_whole_number_from_one(key: str, value: Any) -> None:
    section, _, last = key.partition(".")
    with pytest.raises(ValidationError):
        run(**{section: {last: value} if last else value})


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), None])
def test_a_time_limit_is_a_finite_time(value: float | None) -> None:
    with pytest.raises(ValidationError):
        run(limits={"timeout_s": value})


@pytest.mark.parametrize("seed", [True, 1.0, "1", 2**63, -(2**63) - 1])
def test_a_seed_is_a_whole_number_that_files_can_hold(seed: Any) -> None:
    with pytest.raises(ValidationError):
        run(seed=seed)
    assert run(seed=None).seed is None
    assert run(seed=2**63 - 1).seed == 2**63 - 1


JUDGE: dict[str, Any] = {"name": "parser", "model": {"backend": "openai", "name": "m"}}


def judges(*sections: dict[str, Any]) -> RunFile:
    return run(judges=list(sections))


def test_a_judge_has_a_name_a_model_and_options_of_its_own() -> None:
    (judge,) = judges(JUDGE | {"as": "second", "max_tokens": 5}).judges
    assert (judge.name, judge.as_, judge.options) == ("parser", "second", {"max_tokens": 5})
    (judge,) = judges(JUDGE).judges
    assert judge.as_ == "parser"
    assert judge.model.limits is None
    assert judges(JUDGE) == RunFile.model_validate(judges(JUDGE).model_dump(mode="json"))


def test_the_limits_of_a_judge_stand_beside_its_model_or_in_it() -> None:
    limits = {"limits": {"concurrency": 3}}
    beside, within = judges(JUDGE | limits), judges(JUDGE | {"model": JUDGE["model"] | limits})
    assert beside == within
    assert beside.judges[0].model.limits is not None
    both = JUDGE | limits | {"model": JUDGE["model"] | limits}
    assert "keep one of the two" in problem(judges=[both])


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("parser", "a judge is a section"),
        ({"model": JUDGE["model"]}, "name is missing"),
        ({"name": "parser"}, "model is missing"),
        (JUDGE | {"as": "a.b"}, "as: letters, digits"),
        (JUDGE | {"as": ""}, "as: letters, digits"),
        (JUDGE | {"limits": {"concurency": 3}}, "Did you mean 'concurrency'?"),
        (JUDGE | {"model": {"backend": "b", "price": {"input": 1}}}, "model.price"),
        (JUDGE | {"model": {"backend": "b", "api_key": "sk-1"}}, "would hold a secret"),
        (JUDGE | {"token": "sk-1"}, "would hold a secret"),
    ],
)
def test_a_judge_that_cannot_be_is_refused_and_no_value_shown(section: Any, said: str) -> None:
    found = problem(judges=[section])
    assert said in found
    assert "sk-1" not in found


def test_two_judges_have_two_names() -> None:
    assert "two are named 'parser'" in problem(judges=[JUDGE, JUDGE])
    assert len(judges(JUDGE, JUDGE | {"as": "other"}).judges) == 2


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


@pytest.mark.parametrize("key", ["api_key", "API-Key", "token", "password", "Authorization"])
@pytest.mark.parametrize("section", ["task", "model"])
def test_a_secret_in_a_run_file_is_refused_and_not_shown(key: str, section: str) -> None:
    said = problem(**{section: BASE[section] | {key: "sk-SECRET"}})
    assert key in said
    assert "environment variable" in said
    assert "api_key_env" in said
    assert "SECRET" not in said


def test_the_name_of_a_secrets_variable_is_no_secret() -> None:
    assert run(model=BASE["model"] | {"api_key_env": "MY_KEY"}).model.options["api_key_env"]
    assert run(model=BASE["model"] | {"api_key": None}), "an option left empty holds none"


@pytest.mark.parametrize(
    "url",
    ["http://me:SECRET@host/v1", "https://SECRET@host", "me:SECRET@host/v1", "//u:SECRET@h?x"],
)
def test_a_url_with_a_password_is_refused_and_not_shown(url: str) -> None:
    said = problem(model=BASE["model"] | {"base_url": url})
    assert "base_url" in said
    assert "SECRET" not in said


@pytest.mark.parametrize(
    "url", ["http://host/v1/models/m@001", "http://host:8000", "https://h?a@b"]
)
def test_a_url_may_have_an_at_sign_elsewhere(url: str) -> None:
    assert run(model=BASE["model"] | {"base_url": url})


def test_a_value_run_into_its_key_is_not_shown() -> None:
    said = problem(model=BASE["model"] | {"api_key:sk-SECRET": None})
    assert "a space is missing after the colon" in said
    assert "SECRET" not in said


@pytest.mark.parametrize(
    ("key", "expected"),
    [("a.b", "a.b"), ("a:b", "a…"), ("a=b", "a…"), ("a b", "a…"), (" a ", "a…"), ("", "")],
)
def test_a_key_is_shown_without_what_was_run_into_it(key: str, expected: str) -> None:
    assert shown(key) == expected


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "1", "_x", "é", "a" * 200, "a..b"])
def test_a_name_that_a_folder_can_have(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "../x", "a/b", "a\\b", "/a", "-a", ".a", "a b", "a:b"),
        *("a\n", "a\0", "\ud800", "a" * 201, "é" * 101),
    ],
)
def test_a_name_that_a_folder_cannot_have(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a run") as caught:
        check_name(name)
    assert len(str(caught.value)) < 200


@given(st.text())
def test_a_name_never_leaves_its_folder(name: str) -> None:
    try:
        check_name(name)
    except ValueError:
        return
    assert "/" not in name
    assert name not in (".", "..")
    assert len(name.encode()) <= 200


@pytest.mark.parametrize(
    "variants",
    [
        {"../x": {}},
        {"": {}},
        {"a": None},
        {"a": 3},
        {"a": {"variants": {}}},
        {"a": {"variants.b.samples": 1}},
        {"a": {"": 1}},
        {"a": {"task.": 1}},
        {"a": {".task": 1}},
        ["a"],
        None,
    ],
)
def test_variants_are_names_with_overrides(variants: Any) -> None:
    with pytest.raises(ValidationError):
        run(variants=variants)


def test_flattened_sections_are_dotted_keys() -> None:
    assert flatten({"a": {"b": {"c": 1}, "d": []}, "e": {}}) == {"a.b.c": 1, "a.d": [], "e": {}}


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


def test_sections_are_frozen() -> None:
    with pytest.raises(ValidationError):
        run().samples = 3  # type: ignore[misc]
    with pytest.raises(ValidationError):
        TaskSection(name="a").name = "b"  # type: ignore[misc]
