"""`harness score --engine ray`: the scores of one machine, from the machines of a cluster."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness.backends._ray_tasks import RayTasks
from harness.config.settings import Settings
from harness.engine.cluster_rescoring import ClusterRescorer
from harness.engine.rescoring import batches
from harness.engine.resolving import build_task
from harness.errors import ConfigError, DataInvalid
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder
from harness.workers import Workers
from tests.backends.ray.conftest import RayCluster
from tests.backends.ray.runs import PlacedRun
from tests.engine.test_rescoring_processes import record, run_of_rows, scored

pytestmark = pytest.mark.usefixtures("executing_code")

ROWS = 1_500
CHECK = """
import fault
from fault import right

def check(text, instance):
    fault.strike(instance.id)
    return "" if right(text, instance.data.row["target"]) else f"not {text}"
"""
FAULT = """
import functools, os, signal, time
from pathlib import Path

HERE = Path({folder!r})

def strike(name):
    (HERE / "machines" / str(os.getppid())).touch()
    time.sleep(0.001)
    if name == {name!r} and not (HERE / "died").exists():
        (HERE / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)

@functools.cache
def right(text, target):
    return text == target
"""


def faulty_check(folder: Path, beside: Path, name: str) -> None:
    """Write a check of two files that ends its process on an instance, but only once."""
    (folder / "machines").mkdir()
    (folder / "died").touch()
    (beside / "check.py").write_text(CHECK)
    (beside / "fault.py").write_text(FAULT.format(folder=str(folder), name=name))


def test_the_scores_of_a_cluster_are_those_of_one_machine_while_a_worker_dies(
    cluster: RayCluster, tmp_path: Path
) -> None:
    run = PlacedRun(tmp_path / "run", cluster.address)
    rows = [{"id": f"row {n}", "prompt": f"Say {n}.", "target": str(n)} for n in range(ROWS)]
    (run.folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    faulty_check(tmp_path, run.folder, "row 700")
    task = {"name": "jsonl", "path": "rows.jsonl", "checks": ["./check.py"]}
    model = {"backend": "simulated", "accuracy": 0.5}
    with run.started(model, task=task, limit=None, samples=2) as process:
        assert process.wait() == 0, run.output()
    assert run.written() == 2 * ROWS
    said = run.harness("score", "run")
    scores = run.folder / "runs" / "run" / "scores.jsonl"
    alone = scores.read_bytes().splitlines()
    scores.unlink()
    (tmp_path / "died").unlink()
    machines = set((tmp_path / "machines").iterdir())
    assert run.harness("score", "run", "--engine", "ray") == said
    assert (tmp_path / "died").exists()
    assert scores.read_bytes().splitlines()[1:] == alone[1:]
    assert len(set((tmp_path / "machines").iterdir()) - machines) > 1


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[RunFolder, Settings]:
    """A run of rows, of conversations and single prompts, with a judge's judgements."""
    settings = Settings(data_dir=tmp_path / "data")
    files = tmp_path / "files"
    files.mkdir()
    folder = RunFolder(files / "runs", "run")
    record(folder, run_of_rows(files), settings)
    return folder, settings


def test_other_machines_need_no_file_of_the_run(
    cluster: RayCluster, recorded: tuple[RunFolder, Settings], tmp_path: Path
) -> None:
    folder, settings = recorded
    files = folder.path.parents[1]
    run = run_of_rows(files)
    faulty_check(tmp_path, files, "row 71")
    lines, changes, changed = scored(folder, run, settings, jobs=1)
    (tmp_path / "died").unlink()
    task, index = build_task(run, settings), AttemptIndex(folder.attempts)
    rescorer = ClusterRescorer.of(task, run, settings, index)
    pieces = [rescorer.read(batch) for batch in batches(task, index)]
    assert len(pieces) > 1
    shutil.rmtree(files)
    with Workers(engine=RayTasks(address=cluster.address)) as workers:
        found = list(workers.in_order(rescorer.score, pieces))
    assert (tmp_path / "died").exists()
    assert b"".join(one.lines for one in found) == lines
    assert [change for one in found for change in one.changed] == changed
    for one in found[1:]:
        found[0].changes.add(one.changes)
    assert vars(found[0].changes) == vars(changes)


def test_a_machine_with_another_version_of_a_package_is_an_error(
    cluster: RayCluster, recorded: tuple[RunFolder, Settings]
) -> None:
    folder, settings = recorded
    run, index = run_of_rows(folder.path.parents[1]), AttemptIndex(folder.attempts)
    task = build_task(run, settings)
    rescorer = ClusterRescorer.of(task, run, settings, index)
    rescorer.packages["regex"] = "1.0"
    pieces = map(rescorer.read, batches(task, index))
    with (
        Workers(engine=RayTasks(address=cluster.address)) as workers,
        pytest.raises(ConfigError, match=r"On .*: The version of regex is .*, and 1\.0 where"),
    ):
        list(workers.in_order(rescorer.score, pieces))


def test_another_splitter_and_a_damaged_line_are_errors(
    recorded: tuple[RunFolder, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, settings = recorded
    monkeypatch.setenv("HARNESS_DATA_DIR", str(settings.data_dir))  # which the rescorer sets
    run, index = run_of_rows(folder.path.parents[1]), AttemptIndex(folder.attempts)
    task = build_task(run, settings)
    rescorer = ClusterRescorer.of(task, run, settings, index)
    piece = rescorer.read(next(batches(task, index)))
    with pytest.raises(ConfigError, match=r"Sentences would be split by .*, and not by another"):
        replace(rescorer, splitter="another").score(piece)
    with pytest.raises(DataInvalid, match="A line of the run's files is damaged"):
        rescorer.score(piece._replace(attempts=[b"{}", *piece.attempts[1:]]))
