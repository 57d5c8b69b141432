from pathlib import Path

from harness.report.provenance import differences, origins, packages, settings
from tests.report.html.pages import attempt, reported_run, two_runs
from tests.report.test_runs import texts


def test_the_settings_that_differ(tmp_path: Path) -> None:
    runs = two_runs(tmp_path)
    assert texts(differences(runs)) == [
        ["setting", "before", "after"],
        ["model", "before", "after"],
    ]
    assert differences(runs[:1]) is None
    assert texts(settings(runs))[2] == ["task.shots", "0", "0"]


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
