"""Copies of a run, and what must not replace them."""

import json
from pathlib import Path

import pytest

import harness
from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.executor import execute
from harness.engine.preparation import prepare
from harness.errors import DataMissing, RunConflict, StoreFailed
from harness.plugins.judging.references import Label, keep_labels
from harness.plugins.remote_runs.object_store import RemoteRuns, synchronise
from harness.store.file_states import seal_line
from harness.store.run_folder import RunFolder

NAMES = ("runs_dir", "cache_dir", "data_dir")
QUICK = {"task": {"name": "collie"}, "model": {"backend": "simulated"}}
JUDGED = {
    "task": {
        "rows": [{"prompt": f"What is {n}?", "target": str(n)} for n in range(5)],
        "checks": ["exact_match", {"judge": "kind", "criteria": ["It is polite."]}],
    },
    "model": {"backend": "simulated", "name": "1"},
    "judges": [{"name": "yes_no", "as": "kind", "model": {"backend": "simulated", "name": "1"}}],
}


async def test_a_run_with_lost_attempts_does_not_replace_its_copy(tmp_path: Path) -> None:
    remote = RemoteRuns(f"file://{tmp_path}/store")
    one, two = (Settings(**dict.fromkeys(NAMES, tmp_path / name)) for name in ("one", "two"))
    job = prepare(RunFile.model_validate(QUICK), "run", one)
    await execute(job)
    assert synchronise(remote, job.folder) == ""
    copy = tmp_path / "store" / "run" / "attempts.jsonl"
    before = copy.read_bytes()
    job.folder.attempts.write_bytes(b"")
    with pytest.raises(RunConflict, match="lacks at least 130 finished samples"):
        synchronise(remote, job.folder)
    assert copy.read_bytes() == before
    other = RunFolder(two.runs_dir, "run")
    assert "continued from its copy" in synchronise(remote, other)
    assert other.attempts.read_bytes() == before
    with pytest.raises(DataMissing, match="no run 'none' here"):
        synchronise(remote, RunFolder(two.runs_dir, "none"))


class Synchronised:
    """A finished run with labels, and its copy."""

    def __init__(self, folder: Path, run: RunFolder) -> None:
        self.here, self.copy = run.path, folder / "store" / "run"
        self._folder, self._root = run, folder
        self._remote = RemoteRuns(f"file://{folder}/store")

    def sync(self) -> str:
        return synchronise(self._remote, self._folder)

    def new_machine(self) -> dict[str, bytes]:
        """Return the files that another machine gets."""
        folder = RunFolder(self._root / "new", "run")
        assert "continued from its copy" in synchronise(self._remote, folder)
        return _contents(folder.path)

    def set_aside(self) -> list[Path]:
        return list(self.here.parent.glob("run-*"))


def _contents(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    names = {path.relative_to(folder).as_posix(): path for path in paths}
    local = ("status.json", "stop.json")
    return {
        name: path.read_bytes()
        for name, path in names.items()
        if not name.startswith((".", "servers")) and name not in local
    }


@pytest.fixture
def run(tmp_path: Path) -> Synchronised:
    harness.run(JUDGED, name="run", progress=False)
    folder = RunFolder(Settings().runs_dir, "run")
    keep_labels(folder, "quality", "mine.jsonl", [Label("seed0/0", True)])
    (folder.path / "notes.txt").write_text("Mine.")
    run = Synchronised(tmp_path, folder)
    run.sync()
    return run


FILES = (
    ["attempts.jsonl"],
    ["config.yaml"],
    ["manifest.json"],
    ["rows.jsonl", "metrics.json", "judges.json"],
    ["judgements.jsonl"],
    ["labels/quality/mine.jsonl", "notes.txt"],
    [],  # all but the manifest
)


@pytest.mark.parametrize("names", FILES)
def test_files_that_the_store_has_lost_are_uploaded_again(
    run: Synchronised, names: list[str]
) -> None:
    before = _contents(run.copy)
    assert {name for names in FILES for name in names} <= before.keys()
    for name in names or before.keys() - {"manifest.json"}:
        (run.copy / name).unlink()
    assert "missing at file://" in run.sync()
    assert _contents(run.copy) == before
    assert run.sync() == ""
    assert run.new_machine() == before


@pytest.mark.parametrize("names", FILES)
def test_files_that_the_folder_has_lost_are_downloaded_again(
    run: Synchronised, names: list[str]
) -> None:
    before = _contents(run.here)
    for name in names or before.keys() - {"manifest.json"}:
        (run.here / name).unlink()
    message = run.sync()
    assert "missing on this machine, and downloaded again" in message
    assert "continued" not in message
    assert _contents(run.here) == _contents(run.copy) == before
    assert run.sync() == ""


def test_a_lost_file_is_not_restored_from_a_damaged_copy(run: Synchronised) -> None:
    (run.here / "config.yaml").unlink()
    before = (run.copy / "config.yaml").read_bytes()
    (run.copy / "config.yaml").write_bytes(before + b"#\n")
    with pytest.raises(StoreFailed, match=r"config.yaml is missing"):
        run.sync()
    assert not (run.here / "config.yaml").exists()


@pytest.mark.parametrize(
    "names",
    [
        ["config.yaml"],
        ["judges.json", "rows.jsonl"],
        ["metrics.json"],
        ["attempts.jsonl"],
        ["judgements.jsonl", "config.yaml"],
    ],
)
def test_a_damaged_file_of_the_store_replaces_no_good_one(
    run: Synchronised, names: list[str]
) -> None:
    before = _contents(run.here)
    for name in names:
        (run.copy / name).write_bytes(b"{}\n" + before[name][:-9])
    assert f"damaged at file://{run.copy.parent}, and kept as on this machine: " in run.sync()
    assert _contents(run.here) == _contents(run.copy) == before
    assert not run.set_aside()
    assert run.sync() == ""


@pytest.mark.parametrize("name", ["attempts.jsonl", "judgements.jsonl"])
@pytest.mark.parametrize("place", [0, -1])
def test_lines_that_are_twice_count_once(run: Synchronised, name: str, place: int) -> None:
    before = _contents(run.here)
    lines = before[name].splitlines(keepends=True)
    lines.insert(place if place == 0 else len(lines), lines[place])
    (run.copy / name).write_bytes(b"".join(lines))
    message = run.sync()
    assert f"lines that were twice at file://{run.copy.parent} count once: {name}" in message
    assert "continued" not in message
    assert _contents(run.here) == _contents(run.copy) == before
    assert run.sync() == ""
    (run.copy / name).write_bytes(b"".join(lines))
    assert run.new_machine() == before
    assert _contents(run.copy) == before
    run.sync()
    (run.here / name).write_bytes(b"".join(lines))
    assert run.sync() == ""
    assert _contents(run.here) == _contents(run.copy) == before


@pytest.mark.parametrize("name", ["config.yaml", "judges.json", "labels/quality/mine.jsonl"])
def test_a_file_that_is_damaged_on_both_sides_is_set_aside(run: Synchronised, name: str) -> None:
    (run.copy / name).write_text("{}\n")
    (run.here / name).write_text("{}\n\n")
    try:
        message = run.sync()
    except StoreFailed as error:  # a run with other settings is refused
        message = error.message
    assert f"has other versions of {name}: it is kept as run-" in message
    (aside,) = run.set_aside()
    assert (aside / name).read_text() == "{}\n\n"
    assert (run.here / name).read_text() == "{}\n"


def test_settings_of_an_incomplete_upload_are_no_damage(run: Synchronised) -> None:
    """The manifest is uploaded last: an upload was killed, or is at work."""
    before = (run.here / "judges.json").read_bytes()
    line = json.loads((run.copy / "judgements.jsonl").read_bytes().splitlines()[-1])
    tag, _, _ = line.pop("run").partition(".")
    with (run.copy / "judgements.jsonl").open("ab") as file:
        file.write(seal_line(json.dumps(line | {"ended_at": 0.0}).encode() + b"\n", tag))
    (run.copy / "judges.json").write_bytes(before + b"\n")
    with pytest.raises(StoreFailed, match=r"has other versions of judges.json: it is kept as run-"):
        run.sync()
    (aside,) = run.set_aside()
    assert (aside / "judges.json").read_bytes() == before
    assert (run.copy / "judges.json").read_bytes() == before + b"\n"


def test_changed_settings_do_not_replace_the_copy(run: Synchronised) -> None:
    before = _contents(run.copy)
    with (run.here / "config.yaml").open("a") as file:
        file.write("#\n")
    with pytest.raises(StoreFailed, match=r"config.yaml was changed"):
        run.sync()
    assert _contents(run.copy) == before
