"""`harness tasks`: the tasks, their options and data sets."""

import os
from pathlib import Path

from harness.plugin_loader import kind
from tests.cli.command import harness, mistake, words
from tests.installed import third_party


def test_tasks_are_listed_in_a_line_each() -> None:
    ended = harness("tasks")
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert [line.split()[0] for line in lines] == kind("tasks").names()
    assert "ifeval  Instructions that a program can verify (Zhou et al. 2023)." in lines
    assert "harness tasks NAME" in ended.stderr


def test_a_task_is_shown_with_its_options_and_data_sets(tmp_path: Path) -> None:
    environment = os.environ | {"HARNESS_DATA_DIR": str(tmp_path)}
    ended = harness("tasks", "collie", env=environment)
    assert ended.returncode == 0, ended.stderr
    said = words(ended.stdout)
    assert "collie The COLLIE benchmark" in said
    assert "dataset text; default builtin builtin, v1, or a path." in said
    assert "dataset=builtin here" in said
    assert "dataset=v1 missing. Run 'harness data fetch collie'" in said
    (tmp_path / "collie").mkdir()
    (tmp_path / "collie" / "instances.jsonl").touch()
    one = words(harness("tasks", "collie", env=environment).stdout)
    assert "dataset=v1 here" in one
    assert "followbench" not in one
    assert "Did you mean 'collie'?" in mistake(harness("tasks", "colie"))


def test_tasks_of_other_packages_are_shown_too(tmp_path: Path) -> None:
    code = '''
    from typing import Literal

    from harness.plugin import Task

    class plugin(Task):
        """Riddles [bold]\\x1b[2J.

        kind, hint: what is asked,
            and how.
        """

        def __init__(
            self, kind: Literal["easy", "hard"], hint: bool | None = None, end: str = "", *, data
        ):
            pass
    '''
    third_party(tmp_path / "1", code, "tasks", "riddles")
    third_party(tmp_path / "2", "raise RuntimeError('no GPU')", "tasks", "broken", "other")
    path = os.pathsep.join([str(tmp_path / "1"), str(tmp_path / "2")])
    listed = harness("tasks", env=os.environ | {"PYTHONPATH": path})
    assert "riddles  Riddles [bold]\\x1b[2J." in listed.stdout
    assert "broken  cannot be used: " in listed.stdout
    assert "collie" in listed.stdout
    assert "\x1b" not in listed.stdout
    for width in (60, 80):
        env = os.environ | {"PYTHONPATH": path, "COLUMNS": f"{width}"}
        ended = harness("tasks", "riddles", env=env)
        assert ended.returncode == 0, ended.stderr
        said = words(ended.stdout)
        assert "riddles Riddles [bold]\\x1b[2J." in said
        assert "kind easy or hard; required what is asked, and how." in said
        assert "hint true or false or null; default null what is asked, and how." in said
        assert 'end text; default ""' in said
        assert "no GPU" in words(harness("tasks", "broken", env=env).stdout)
        assert "\x1b" not in ended.stdout
        assert all(len(line) <= width for line in ended.stdout.splitlines())


def test_a_task_of_another_tool_is_shown_by_the_task_that_runs_it() -> None:
    ended = harness("tasks", "lm_eval:gsm8k")
    assert ended.returncode == 0, ended.stderr
    assert "num_fewshot" in ended.stdout
    assert "Whether gsm8k exists was not checked." in words(ended.stderr)
    assert "harness eval lm_eval:gsm8k --model MODEL --dry-run" in words(ended.stderr)
    assert "listed by lm-eval ls tasks" in words(ended.stdout)
