from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.config.run_file import RunFile, check_name, flatten
from harness.config.sections import TaskSection
from harness.records import Decoding
from tests.config.run_files import JUDGE, judges, problem, run


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


def test_sections_are_frozen() -> None:
    with pytest.raises(ValidationError):
        run().samples = 3  # type: ignore[misc]
    with pytest.raises(ValidationError):
        TaskSection(name="a").name = "b"  # type: ignore[misc]


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
    assert "remove one of them" in problem(judges=[both])


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("parser", "judges.0 must be a section"),
        ({"model": JUDGE["model"]}, "name is missing"),
        ({"name": "parser"}, "model is missing"),
        (JUDGE | {"as": "a.b"}, "as: letters, digits"),
        (JUDGE | {"as": ""}, "as: letters, digits"),
        (JUDGE | {"limits": {"concurency": 3}}, "judges.0.model.limits.concurrency'?"),
        (JUDGE | {"model": {"backend": "b", "price": {"input": 1}}}, "model.price"),
        (JUDGE | {"model": {"backend": "b", "api_key": "sk-1"}}, "would contain a secret"),
        (JUDGE | {"token": "sk-1"}, "would contain a secret"),
    ],
)
def test_a_judge_that_cannot_be_is_refused_and_no_value_shown(section: Any, said: str) -> None:
    found = problem(judges=[section])
    assert said in found
    assert "sk-1" not in found


def test_two_judges_have_two_names() -> None:
    assert "two are named 'parser'" in problem(judges=[JUDGE, JUDGE])
    assert len(judges(JUDGE, JUDGE | {"as": "other"}).judges) == 2


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
