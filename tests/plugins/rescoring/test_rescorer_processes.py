"""Recorded attempts, scored by several processes: the same lines and counts as by one."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.plan import prompt_hash
from harness.engine.resolving import build_task
from harness.errors import ConfigError
from harness.plugins.rescoring.rescorer import Rescorer, VerdictChanges, batches
from harness.records import SCHEMA_VERSION, Attempt, Instance, Score
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from harness.store.judgements import Judgement, Register, RegisteredJudge, text_hash, write_register
from harness.store.run_folder import RunFolder
from harness.workers import Workers
from tests.backends.stand_ins import alive

pytestmark = pytest.mark.usefixtures("executing_code")

ROWS = 150
CHECK = """
def check(text: str, instance) -> str:
    {before}
    return "" if text == instance.data.row["target"] else f"not {{text}}"
"""


def run_of_rows(folder: Path, before: str = "") -> RunFile:
    """A run file on rows, of which every third is a conversation of two turns."""
    (folder / "check.py").write_text(CHECK.format(before=before))
    rows = [
        {"id": f"row {n}", "target": str(n), "topic": f"t{n % 3}"}
        | ({"turns": ["a", "b"]} if n % 3 == 0 else {"prompt": f"Write {n}."})
        for n in range(ROWS)
    ]
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    task = {"name": "jsonl", "path": "rows.jsonl", "checks": ["./check.py"], "groups": ["topic"]}
    model = {"backend": "openai", "name": "m"}
    return RunFile.model_validate({"task": task, "model": model, "folder": folder})


def record(folder: RunFolder, run: RunFile, settings: Settings) -> None:
    """Write attempts in another order than that of the rows, with a judge's judgements."""
    task = build_task(run, settings)
    instances = list[Instance[object]](task.instances())
    clusters = {one.id: prompt_hash(task, one) for one in instances}
    instances.append(Instance("removed", None))
    folder.path.mkdir(parents=True)
    folder.write_config(run)
    judge = RegisteredJudge({"model": {"name": "j"}}, decides=True)
    write_register(folder.path, Register(judged=("ok",), judges={"j": judge}))
    with (
        JsonLinesWriter(folder.attempts) as attempts,
        JsonLinesWriter(folder.path / "judgements.jsonl") as judgements,
    ):
        for place, instance in enumerate(reversed(instances)):
            turns = getattr(instance.data, "next_turns", ()) and 2
            for sample in (1, 0):
                for round_ in range(1, (turns or 1) + 1):
                    text = str(ROWS - place - sample)
                    name = SCHEMA_VERSION, instance.id, sample, round_
                    passed = place % 4 == 0
                    one = Attempt(
                        *name,
                        instance.groups,
                        clusters.get(instance.id, "c"),
                        {},
                        "error" if place % 7 == 3 else "ok",
                        0.0,
                        1.0,
                        text=text,
                        finish_reason="stop",
                        passed=passed,
                        scores={"./check.py": Score(passed, passed)},
                    )
                    attempts.append(one)
                    if place % 5:
                        says = {"j.good": Score(place % 2 == 0, place % 2 == 0)}
                        of = SCHEMA_VERSION, "j", *name[1:], text_hash(text)
                        judgements.append(Judgement(*of, "ok", 0.0, 0.0, scores=says))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path)


def scored(
    folder: RunFolder, run: RunFile, settings: Settings, jobs: int
) -> tuple[bytes, VerdictChanges, list[object]]:
    task, index = build_task(run, settings), AttemptIndex(folder.attempts)
    rescorer = Rescorer(task, run, settings, index.path, index.register.judged)
    lines, changes, changed = b"", VerdictChanges(), list[object]()
    with Workers(jobs) as workers:
        for found in workers.map_in_order(rescorer.score, batches(task, index)):
            lines += found.lines
            changes.add(found.changes)
            changed += found.changed
    return lines, changes, changed


def test_two_processes_write_the_same_scores_as_one(tmp_path: Path, settings: Settings) -> None:
    run, folder = run_of_rows(tmp_path), RunFolder(tmp_path / "runs", "run")
    record(folder, run, settings)
    lines, changes, changed = scored(folder, run, settings, jobs=1)
    assert lines.count(b"\n") == len(AttemptIndex(folder.attempts)) > 2 * ROWS
    assert changed
    assert changes.gone
    assert changes.left
    again, other, changed_again = scored(folder, run, settings, jobs=2)
    assert again == lines
    assert vars(other) == vars(changes)
    assert list(other.groups["topic"]) == list(changes.groups["topic"])
    assert changed_again == changed


def test_an_error_of_a_check_is_reported_by_whichever_process(
    tmp_path: Path, settings: Settings
) -> None:
    folder = RunFolder(tmp_path / "runs", "run")
    record(folder, run_of_rows(tmp_path), settings)
    failing = run_of_rows(tmp_path, before='assert instance.id != "row 141", "a slip"')
    said = set()
    for jobs in (1, 2):
        with pytest.raises(ConfigError, match="AssertionError on instance 'row 141': a slip") as at:
            scored(folder, failing, settings, jobs)
        said.add(str(at.value))
    assert len(said) == 1


def test_a_killed_command_leaves_the_old_scores_and_no_process(
    tmp_path: Path, settings: Settings
) -> None:
    folder = RunFolder(tmp_path / "runs", "run")
    slow = run_of_rows(tmp_path, before='__import__("time").sleep(0.02)')
    record(folder, slow, settings)
    scores = folder.path / "scores.jsonl"
    scores.write_bytes(b"old\n")
    command = [sys.executable, "-m", "harness", "score", "run", "--jobs", "2"]
    environment = os.environ | {"HARNESS_RUNS_DIR": str(folder.path.parent)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    threads = Path(f"/proc/{process.pid}/task")
    while len(ids := [i for of in threads.glob("*/children") for i in of.read_text().split()]) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    for one in ids:
        while alive(int(one)):  # the test's own time limit ends it if they stay
            time.sleep(0.05)
    assert scores.read_bytes() == b"old\n"
