"""Runs on an object store: what is up- and downloaded, and what two machines may not do."""

import json
import shutil
from pathlib import Path

import pytest

from harness.analysis.summary import compute_metrics
from harness.config.prices import Price
from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.executor import execute
from harness.engine.preparation import prepare
from harness.errors import ConfigError, RunConflict, StoreFailed
from harness.plugins.judging.references import Label, keep_labels, kept_labels
from harness.plugins.remote_runs.object_store import RemoteRuns
from harness.store.files import write_json
from harness.store.run_folder import RunFolder

RUN = {
    "task": {"name": "last_letter", "n": 20},
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
        self.store = folder / "store"
        self.remote = RemoteRuns(f"file://{self.store}")

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
    message = one.remote.pull(one.folder)
    assert "machine has other versions of attempts.jsonl: it is kept as run-" in message
    assert one.attempts() == two.attempts()
    (kept,) = one.folder.path.parent.glob("run-*")
    assert (kept / "attempts.jsonl").read_text().splitlines() == own
    assert json.loads((kept / "manifest.json").read_text())["run"] == kept.name


async def test_files_that_can_be_written_again_keep_no_run_from_being_continued(
    one: Machine, two: Machine
) -> None:
    """For example, `harness score` was called on a machine that is behind."""
    await one.run()
    one.remote.push(one.folder)
    two.remote.pull(two.folder)
    await one.run(limit=8)
    one.remote.push(one.folder)
    (two.folder.path / "scores.jsonl").write_text("{}\n")
    two.folder.update_manifest({"display": {}})
    two.folder.metrics.unlink()
    assert two.remote.pull(two.folder).endswith("store.")
    assert two.attempts() == one.attempts()
    assert (two.folder.path / "scores.jsonl").exists()
    assert compute_metrics(two.folder).complete
    two.remote.push(two.folder)
    assert "scores.jsonl" in {path.name for path in (two.store / "run").iterdir()}


async def test_the_folder_of_a_refused_run_is_filled(one: Machine, two: Machine) -> None:
    await one.run()
    one.remote.push(one.folder)
    two.folder.path.mkdir(parents=True)
    write_json(two.folder.manifest, {"id": "new"})
    two.folder.write_prices({"model": Price(input=1, output=1)})
    assert two.remote.pull(two.folder).endswith("store.")
    assert two.attempts() == one.attempts()
    assert compute_metrics(two.folder).complete


@pytest.mark.parametrize("names", [["attempts.jsonl"], ["attempts.jsonl", "manifest.json"]])
async def test_a_download_of_an_earlier_version_is_completed(
    one: Machine, two: Machine, names: list[str]
) -> None:
    await one.run()
    one.remote.push(one.folder)
    two.folder.path.mkdir(parents=True)
    for name in names:
        shutil.copy(one.store / "run" / name, two.folder.path)
    await one.run(limit=8)
    one.remote.push(one.folder)
    assert two.remote.pull(two.folder).endswith("store.")
    assert compute_metrics(two.folder).complete
    assert two.attempts() == one.attempts()


async def test_an_interrupted_download_is_resumed(one: Machine, two: Machine) -> None:
    await one.run()
    one.remote.push(one.folder)
    two.folder.path.parent.mkdir()
    two.folder.path.touch()  # a folder cannot be made
    with pytest.raises(StoreFailed):
        two.remote.pull(two.folder)
    downloads = two.folder.path.with_name(".download-run")
    before = {path: path.stat().st_ino for path in downloads.iterdir()}
    two.folder.path.unlink()
    two.remote.pull(two.folder)
    assert two.folder.attempts.stat().st_ino in before.values()
    assert not downloads.exists()
    assert compute_metrics(two.folder).complete


async def test_what_a_killed_upload_has_uploaded_is_not_taken_for_another_machines(
    one: Machine,
) -> None:
    await one.run(limit=2)
    one.remote.push(one.folder)
    record = one.folder.path / ".remote.json"
    before = record.read_bytes()
    await one.run(limit=5)
    one.remote.push(one.folder)
    record.write_bytes(before)
    await one.run(limit=8)
    own = one.attempts()
    assert "this machine has more than the copy" in one.remote.pull(one.folder)
    one.remote.push(one.folder)
    assert one.attempts() == own
    assert (one.store / "run" / "attempts.jsonl").read_bytes() == one.folder.attempts.read_bytes()
    assert compute_metrics(one.folder).complete


async def test_another_run_of_the_name_is_not_mixed_with_the_earlier_one(
    one: Machine, two: Machine
) -> None:
    await one.run()
    one.remote.push(one.folder)
    two.remote.pull(two.folder)
    (two.folder.path / "labels").mkdir()
    one.folder.remove()
    one.remote.set_aside("run")
    await one.run(limit=3)
    one.remote.push(one.folder)
    assert "is of another run: it is kept as run-" in two.remote.pull(two.folder)
    assert two.attempts() == one.attempts()
    assert not (two.folder.path / "labels").exists()


@pytest.mark.parametrize("grown", ["one", "two"])
async def test_labels_and_attempts_of_two_machines_are_kept(
    one: Machine, two: Machine, grown: str
) -> None:
    labels = [Label("seed0/0", True)]
    await one.run()
    keep_labels(one.folder, "quality", "mine.jsonl", labels)
    one.remote.push(one.folder)
    two.remote.pull(two.folder)
    first, second = (one, two) if grown == "two" else (two, one)
    keep_labels(first.folder, "quality", "mine.jsonl", labels * 2)
    keep_labels(first.folder, "quality", "more.jsonl", labels)
    first.remote.push(first.folder)
    await second.run(limit=8)
    assert "kept as" not in second.remote.pull(second.folder)
    second.remote.push(second.folder)
    assert "kept as" not in first.remote.pull(first.folder)
    for machine in (first, second):
        assert len(machine.attempts()) == 8
        assert kept_labels(machine.folder.path, "quality").keys() == {"mine.jsonl", "more.jsonl"}
        assert compute_metrics(machine.folder).complete


async def test_labels_that_differ_on_two_machines_are_kept(one: Machine, two: Machine) -> None:
    await one.run()
    one.remote.push(one.folder)
    two.remote.pull(two.folder)
    for machine, label in ((one, True), (two, False)):
        keep_labels(machine.folder, "quality", "mine.jsonl", [Label("seed0/0", label)])
    one.remote.push(one.folder)
    message = two.remote.pull(two.folder)
    assert "has other versions of labels/quality/mine.jsonl: it is kept as run-" in message
    assert kept_labels(two.folder.path, "quality").keys() == {"mine.jsonl"}


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
    with one.remote.uploads(one.folder, said.append):
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


@pytest.mark.parametrize(
    ("names", "problem"),
    [(["n" * 256], "more than 255 bytes"), (["a", "a/b"], "lies in another object")],
)
def test_objects_that_cannot_be_files_are_named_before_anything_is_written(
    tmp_path: Path, names: list[str], problem: str
) -> None:
    remote = RemoteRuns("memory:///")
    for name in (*names, "config.yaml"):
        remote._store.put(f"run/{name}", b"")
    folder = RunFolder(tmp_path, "run")
    with pytest.raises(StoreFailed, match=problem):
        remote.pull(folder)
    assert not folder.path.exists()
