"""The run file that `harness eval` makes."""

import pytest

from harness.engine.suite import MAX_TOKENS, evaluation
from harness.errors import ConfigError


@pytest.mark.parametrize(
    ("changes", "lengths"),
    [({}, [None, MAX_TOKENS]), ({"decoding.max_tokens": 9}, [9, 9])],
)
def test_lm_evals_tasks_limit_their_answers_unless_you_do(
    changes: dict[str, int], lengths: list[int | None]
) -> None:
    tasks = [{"name": "lm_eval", "task": "sums"}, "ifeval"]
    made = evaluation(tasks, ["openai/gpt-4o-mini"], changes)
    assert [run.decoding.max_tokens for run in made.runs.values()] == lengths


def test_a_function_that_is_no_models_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not the name of a model"):
        evaluation(["ifeval"], [print], {})  # type: ignore[list-item]
