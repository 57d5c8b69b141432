"""Runs on an object store: what is up- and downloaded, and what two machines may not do."""

import json
import shutil
from pathlib import Path

import pytest

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.executor import execute
from harness.engine.preparation import prepare
from harness.errors import ConfigError, RunConflict, StoreFailed
from harness.store.remote import RemoteRuns, Uploads
from harness.store.run_folder import RunFolder

RUN = {
    "task": {"name": "last_letter", "n": 2},
    "model": {"backend": "simulated", "name": "m", "accuracy": 0.5},
    "limit": 5,
}


class Machine:
    """A machine with its own folder of runs, and an object store that it shares with others."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = RunFolder(folder / name, "run")
        self.settings = Settings(
            runs_dir=folder / name, cache_dir=folder / f"{name}-cache", data_dir=folder
        )
        self.remote = RemoteRuns(f"file://{folder}/store")

    async def run(self, limit: int = 5) -> None:
        run = RunFile.model_validate(RUN | {"limit": limit})
        await execute(prepare(run, "run", self.settings))

    def attempts(self) -> list[str]:
        return self.folder.attempts.read_text().splitlines()


@pytest.fixture
def one(tmp_path: Path) -> Machine:
    return Machine(tmp_path, "one")


@pytest.fixture
def two(tmp_path: Path) -> Machine:
    return Machine(tmp_path, "two")


async def test_a_run_is_continued_on_another_machine(one: Machine, two: Machine) -> None:
    await one.run()
    one.remote.push(one.folder)
    assert two.remote.names() == ["run"]
    assert "continued from its copy" in two.remote.pull(two.folder)
    await two.run(limit=8)
    two.remote.push(two.folder)
    assert two.attempts()[:5] == one.attempts()
    one.remote.pull(one.folder)
    assert one.attempts() == two.attempts()
    assert one.remote.pull(one.folder) == ""


async def test_only_changed_files_are_uploaded(one: Machine, tmp_path: Path) -> None:
    await one.run()
    one.remote.push(one.folder)
    copy = tmp_path / "store" / "run"
    before = {path.name: path.stat().st_mtime_ns for path in copy.iterdir()}
    assert {"attempts.jsonl", "config.yaml", "manifest.json", "metrics.json"} <= before.keys()
    assert not {".lock", "status.json"} & before.keys()
    with one.folder.attempts.open("ab") as file:
        file.write(b"\n")
    one.remote.push(one.folder)
    changed = {path.name for path in copy.iterdir() if path.stat().st_mtime_ns != before[path.name]}
    assert changed == {"attempts.jsonl"}


async def test_what_another_machine_has_uploaded_is_not_overwritten(
    one: Machine, two: Machine
) -> None:
    await one.run()
    one.remote.push(one.folder)
    two.remote.pull(two.folder)
    await two.run(limit=8)
    two.remote.push(two.folder)
    await one.run(limit=6)
    with pytest.raises(RunConflict, match="was changed by another machine"):
        one.remote.push(one.folder)
    own = one.attempts()
    assert "it is kept as run-" in one.remote.pull(one.folder)
    assert one.attempts() == two.attempts()
    (kept,) = one.folder.path.parent.glob("run-*")
    assert (kept / "attempts.jsonl").read_text().splitlines() == own
    assert json.loads((kept / "manifest.json").read_text())["run"] == kept.name


async def test_a_new_run_takes_the_name_of_an_earlier_copy(one: Machine) -> None:
    await one.run()
    one.remote.push(one.folder)
    one.remote.set_aside("run")
    (kept,) = (name for name in one.remote.names() if name != "run")  # an empty folder is left
    assert kept.startswith("run-")
    other = RunFolder(one.folder.path.parent, kept)
    one.remote.pull(other)
    assert other.attempts.read_bytes() == one.folder.attempts.read_bytes()


async def test_a_failed_upload_is_reported_and_made_good_later(
    one: Machine, tmp_path: Path
) -> None:
    await one.run()
    said: list[str] = []
    with Uploads(one.remote, one.folder, said.append):
        shutil.rmtree(tmp_path / "store")
        (tmp_path / "store").write_text("no folder")
    assert "Cannot" in said[-1]
    assert "harness sync run" in said[-1]
    (tmp_path / "store").unlink()
    one.remote = RemoteRuns(one.remote.url)
    one.remote.push(one.folder)
    assert one.remote.names() == ["run"]


def test_mistakes_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="HARNESS_RUNS_URL cannot be used") as raised:
        RemoteRuns("ftp://host/runs")
    assert "s3://BUCKET/PREFIX" in str(raised.value.remedy)
    settings = Settings(runs_dir=tmp_path, cache_dir=tmp_path, runs_url=f"file://{tmp_path}/store")
    with pytest.raises(ConfigError, match="no cache that machines share"):
        prepare(RunFile.model_validate(RUN), "run", settings)


async def test_a_key_that_is_no_path_is_named(one: Machine, tmp_path: Path) -> None:
    await one.run()
    one.remote.push(one.folder)
    (tmp_path / "store" / "\x1b[31m").mkdir()
    with pytest.raises(StoreFailed, match=r"list the runs .* invalid path") as raised:
        one.remote.names()
    assert raised.value.remedy.startswith("Rename or delete this object")
    one.folder.remove()
    assert "continued from its copy" in one.remote.pull(one.folder)
