from typing import Any

import pytest
from pydantic import ValidationError

from harness.config.run_file import RunFile, flatten
from harness.config.sections import TaskSection
from harness.records import Decoding
from tests.config.run_files import run


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
