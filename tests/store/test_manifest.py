import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness import records
from harness.config.run_file import RunFile
from harness.config.settings import read_secret
from harness.store.files import write_json
from harness.store.manifest import Manifest, package_versions
from harness.store.run_folder import RunFolder


def run(**changes: Any) -> RunFile:
    return RunFile.model_validate(
        {"task": {"name": "sums"}, "model": {"backend": "scripted", "name": "m"}, "seed": 7}
        | changes
    )


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    found = RunFolder(tmp_path, "mine")
    found.path.mkdir()
    return found


def clock(first: int) -> Callable[[], float]:
    ticks = count(first)
    return lambda: float(next(ticks))


def session(
    folder: RunFolder, made: RunFile | None = None, *, at: int = 100, ends: str | None = "finished"
) -> dict[str, Any]:
    manifest = Manifest(folder, made or run(), {"dataset": "abc"}, simulated=False, clock=clock(at))
    manifest.begin_session()
    if ends is not None:
        manifest.end_session(ends)
    return folder.read_manifest()


def test_a_manifest_says_what_the_numbers_were_made_with(folder: RunFolder) -> None:
    found = session(folder)
    assert found["schema_version"] == records.SCHEMA_VERSION
    assert (found["run"], found["task"], found["backend"], found["model"]) == (
        *("mine", "sums", "scripted", "m"),
    )
    assert found["seed"] == 7
    assert found["simulated"] is False
    assert found["fingerprint"] == {"dataset": "abc"}
    assert found["host"]["name"]
    assert found["python"].startswith("3.")
    assert len(found["config_sha256"]) == 64


def test_nothing_is_written_before_the_session_begins(folder: RunFolder) -> None:
    Manifest(folder, run(), {}, simulated=True)
    assert not folder.manifest.exists()


def test_a_session_that_has_not_ended_shows_as_killed(folder: RunFolder) -> None:
    found = session(folder, ends=None)
    assert found["sessions"] == [
        {"started_at": 100.0, "ended_at": None, "ended": "killed", "retried": ["error"]}
    ]
    assert found["ended_at"] is None
    assert found["resumed"] == 0


def test_each_session_is_kept_and_counted(folder: RunFolder) -> None:
    session(folder, at=100, ends="interrupted")
    session(folder, at=200, ends=None)
    session(folder, at=300, ends="failed")
    found = session(folder, at=400)
    assert found["resumed"] == 3
    assert found["started_at"] == 100.0
    assert found["ended_at"] == 401.0
    assert [one["ended"] for one in found["sessions"]] == [
        *("interrupted", "killed", "failed", "finished"),
    ]


def test_what_a_later_version_wrote_into_a_manifest_is_kept(folder: RunFolder) -> None:
    session(folder)
    write_json(folder.manifest, folder.read_manifest() | {"mood": "fine"})
    assert session(folder)["mood"] == "fine"


def test_a_manifest_begins_anew_where_it_was_removed(folder: RunFolder) -> None:
    session(folder)
    folder.manifest.unlink()
    assert session(folder)["resumed"] == 0


def test_the_hash_is_of_what_makes_the_run(folder: RunFolder) -> None:
    first = session(folder)["config_sha256"]
    limits = {"concurrency": 3}
    assert session(folder, run(limits=limits, variants={"a": {}}))["config_sha256"] == first
    assert session(folder, run(decoding={"temperature": 1}))["config_sha256"] != first
    assert session(folder, run(seed=8))["config_sha256"] != first


def test_the_versions_are_those_of_the_direct_dependencies() -> None:
    versions = package_versions()
    assert {"harness", "openai", "msgspec", "nltk", "pydantic", "pyyaml"} <= versions.keys()
    assert all(version[0].isdigit() for version in versions.values())


def test_no_secret_is_in_any_file_of_the_run(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_PROVIDER_KEY", "sk-SECRET")
    assert read_secret("MY_PROVIDER_KEY") == "sk-SECRET"
    made = run(model={"backend": "openai", "name": "m", "api_key_env": "MY_PROVIDER_KEY"})
    folder.write_config(made)
    session(folder, made)
    files = list(folder.path.iterdir())
    assert len(files) == 2
    for file in files:
        assert "SECRET" not in file.read_text()


def test_a_manifest_is_json_that_any_program_reads(folder: RunFolder) -> None:
    session(folder, run(seed=2**63 - 1))
    assert json.loads(folder.manifest.read_text())["seed"] == 2**63 - 1
