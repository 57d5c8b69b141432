"""Answers that an earlier version scored."""

import json
from pathlib import Path

import pytest

import harness
from tests.engine.test_every_path import CASES, run_files
from tests.plugins.replay.test_every_path import recording


def test_answers_scored_by_earlier_rules_are_not_mixed_in_silence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    warning = "scored by an earlier version"
    file = {**run_files(CASES, tmp_path)[0], "model": recording(CASES, tmp_path)}
    folder = harness.run(file, name="early", limit=2).path
    manifest = folder / "manifest.json"
    content = json.loads(manifest.read_text())
    del content["scoring"]  # as an earlier version wrote it
    manifest.write_text(json.dumps(content))
    assert warning not in capfd.readouterr().err
    harness.run(file, name="early", limit=3)
    assert warning in capfd.readouterr().err
    harness.run(file, name="early", limit=4, rescore=True)
    capfd.readouterr()
    harness.run(file, name="early")
    assert warning not in capfd.readouterr().err
