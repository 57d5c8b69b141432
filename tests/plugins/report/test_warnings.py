"""What reports say of position bias and of ignored settings."""

import json
import os
from pathlib import Path

from tests.cli.command import harness
from tests.plugins.choices.test_runs import planted
from tests.plugins.ignored_settings.test_answers import LONG, UNSAMPLED, cautions
from tests.plugins.report.pages import data


def report(folder: Path) -> Path:
    env = {**os.environ, "HARNESS_RUNS_DIR": "runs", "HARNESS_CACHE_DIR": "cache"}
    ended = harness("report", "run", "-o", "report.html", env=env, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return folder / "report.html"


def test_position_bias_is_drawn(tmp_path: Path) -> None:
    planted(tmp_path, 0.3)
    page = json.dumps(data(report(tmp_path), "overview"))
    assert "Chosen minus right, by position of the option" in page


def test_ignored_settings_are_warnings(tmp_path: Path) -> None:
    sentences = cautions(tmp_path, lambda *_: LONG, samples=3, decoding={"temperature": 0.7})
    assert UNSAMPLED in sentences[0]
    warnings = data(report(tmp_path), "overview")["warnings"]
    assert all(f"run: {sentence}" in warnings for sentence in sentences)
