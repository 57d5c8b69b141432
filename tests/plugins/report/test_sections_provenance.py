from dataclasses import replace
from pathlib import Path

from msgspec.structs import replace as replaced

from harness.plugins.report.sections import differences, origins, packages, settings
from tests.plugins.report.pages import reported_run, two_runs
from tests.report.attempts import attempt
from tests.report.test_runs import texts


def test_the_settings_that_differ(tmp_path: Path) -> None:
    runs = two_runs(tmp_path)
    assert texts(differences(runs)) == [
        ["setting", "before", "after"],
        ["model", "before", "after"],
    ]
    assert differences(runs[:1]) is None
    assert texts(settings(runs))[2] == ["task.shots", "0", "0"]


def test_of_several_tasks_only_what_was_set_differs(tmp_path: Path) -> None:
    names = {"collie": {"task.dataset": "v1", "task.unique_prompts": False},
             "natural_instructions": {"task.dataset": "builtin", "task.instances": 50}}  # fmt: skip
    runs = [
        replace(run, metrics=replaced(run.metrics, task=task), settings={"task.name": task} | more)
        for run, (task, more) in zip(two_runs(tmp_path), names.items(), strict=True)
    ]
    assert texts(differences(runs))[1:] == [
        ["task name", "collie", "natural_instructions"],
        ["task dataset", "v1", "default"],
    ]


def test_how_a_run_was_made(tmp_path: Path) -> None:
    manifest = {
        "run": "run",
        "started_at": 0.0,
        "ended_at": 1e300,
        "sessions": [{"started_at": 0}],
        "host": {"name": "mine", "platform": "Linux"},
        "fingerprint": {"dataset": "v1"},
        "packages": {"numpy": "2"},
    }
    run = reported_run(tmp_path, "run", [attempt("a")], manifest=manifest)
    assert dict(texts(origins([run]))) == {
        "": "run",
        "started_at": "1970-01-01 00:00:00 UTC",
        "ended_at": "1e+300",
        "host.platform": "Linux",
        "fingerprint.dataset": "v1",
    }
    assert texts(packages([run])) == [["package", "run"], ["numpy", "2"]]
