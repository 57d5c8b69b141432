"""The run file that `harness eval` makes of tasks of lm-eval."""

import pytest

from harness.plugins.suites.api import MAX_TOKENS, evaluation


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
