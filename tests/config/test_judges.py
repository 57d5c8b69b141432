from typing import Any

import pytest

from harness.config.run_file import RunFile
from tests.config.run_files import JUDGE, judges, problem


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
        (JUDGE | {"limits": {"concurency": 3}}, "did you mean 'concurrency'?"),
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
