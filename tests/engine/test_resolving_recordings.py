"""Recordings that change between the sessions of a run."""

import json
from pathlib import Path

import pytest

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.resolving import recording_hashes, replace_grown_hashes
from harness.store.run_folder import RunFolder

NAMES = {"own.jsonl": "recording_sha256", "judge.jsonl": "judge_good_recording_sha256"}


@pytest.mark.parametrize("changed", NAMES)
@pytest.mark.parametrize(
    ("now", "is_same"), [("ab", True), ("abc", True), ("ba", False), ("a", False)]
)
def test_a_recording_of_any_model_may_only_grow(
    changed: str, now: str, is_same: bool, tmp_path: Path
) -> None:
    for name in NAMES:
        (tmp_path / name).write_text("ab")
    model, judge = ({"backend": "replay", "path": name} for name in NAMES)
    tree = {"task": {"name": "collie"}, "model": model, "folder": tmp_path}
    tree["judges"] = [{"name": "yes_no", "as": "good", "model": judge}]
    run, settings = RunFile.model_validate(tree), Settings(data_dir=tmp_path / "data")
    folder = RunFolder(tmp_path / "runs", "run")
    before = recording_hashes(run, settings)
    assert before.keys() == {*NAMES.values()}
    folder.path.mkdir(parents=True)
    manifest = {"schema_version": 1, "run": "run", "task": "collie", "fingerprint": before}
    folder.manifest.write_text(json.dumps(manifest))
    (tmp_path / changed).write_text(now)
    present = replace_grown_hashes(recording_hashes(run, settings), folder, run, settings)
    differing = {name for name in before if present[name] != before[name]}
    assert differing == (set() if is_same else {NAMES[changed]})
