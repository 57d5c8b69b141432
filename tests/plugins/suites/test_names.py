"""The names of an evaluation's runs."""

import pytest

from harness.plugin_loader import kind
from harness.plugins.suites.api import evaluation

pytestmark = pytest.mark.skipif(
    "lm_eval" not in kind("tasks").names(), reason="the plug-in of these tasks is not installed"
)


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("lm_eval:/home/me/my_task.yaml", "my_task"),
        ("lm_eval:./tasks/my_task.yml", "my_task"),
        ("lm_eval:gsm8k", "gsm8k"),
    ],
)
def test_a_task_that_is_named_by_its_file_gives_the_files_name_to_its_runs(
    task: str, name: str
) -> None:
    suite = evaluation([task], ["simulated/0.5"], {})
    assert list(suite.runs) == [f"{name}.simulated-0.5"]
    assert suite.runs[f"{name}.simulated-0.5"].task.options["task"] == task.partition(":")[2]
