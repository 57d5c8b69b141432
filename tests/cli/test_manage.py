"""`harness rm` and `mv`, and all the ways to name a run."""

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from harness.store.run_folder import RunFolder
from tests.cli.command import QUICK, harness, is_complete, mistake, on
from tests.installed import has_verb
from tests.rows import TASK


def has_verb_of(command: Sequence[str]) -> bool:
    """Whether the package of a command's verb is installed."""
    return has_verb(command[0])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("made")
    ended = harness(*QUICK, "first", "-o", "model.accuracy=0.2", env=on(runs))
    assert ended.returncode == 0, ended.stderr
    return runs


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "runs")
    return tmp_path / "runs"


def test_rm_asks_first(runs: Path) -> None:
    ended = harness("rm", "first", env=on(runs))
    assert "Nothing was deleted." in mistake(ended)
    assert "first" in ended.stdout
    assert (runs / "first" / "attempts.jsonl").exists()
    ended = harness("rm", "first", "--yes", env=on(runs))
    assert ended.returncode == 0
    assert "The cache keeps their paid replies" in ended.stderr
    assert not (runs / "first").exists()


def test_a_run_in_progress_is_neither_deleted_nor_renamed(runs: Path) -> None:
    with RunFolder(runs, "first").lock():
        for words in (("rm", "first", "--yes"), ("mv", "first", "second")):
            said = mistake(harness(*words, env=on(runs)))
            assert "Another process is working on the run 'first'" in said
    assert (runs / "first" / "config.yaml").exists()


def test_mv_renames_a_run_also_in_its_files(runs: Path) -> None:
    before = RunFolder(runs, "first").run_id()
    ended = harness("mv", "first", "second", env=on(runs))
    assert ended.returncode == 0, ended.stderr
    found = {name: json.loads((runs / "second" / name).read_text()) for name in
             ("manifest.json", "metrics.json")}  # fmt: skip
    assert {one["run"] for one in found.values()} == {"second"}
    assert found["manifest.json"]["id"] == before
    again = harness(*QUICK, "second", "-o", "model.accuracy=0.2", env=on(runs))
    assert again.returncode == 0, again.stderr
    assert [folder.name for folder in runs.iterdir()] == ["second"]


@pytest.mark.parametrize("damage", ["link", "pipe", "text"])
def test_mv_changes_nothing_if_a_file_cannot_be_read(runs: Path, damage: str) -> None:
    metrics = runs / "first" / "metrics.json"
    metrics.rename(runs / "elsewhere.json")
    if damage == "link":
        metrics.symlink_to(runs / "elsewhere.json")
    elif damage == "pipe":
        os.mkfifo(metrics)
    else:
        metrics.write_text("{")
    before = (runs / "first" / "manifest.json").read_bytes()
    assert str(metrics) in mistake(harness("mv", "first", "second", env=on(runs)))
    assert not (runs / "second").exists()
    assert (runs / "first" / "manifest.json").read_bytes() == before
    metrics.unlink()
    assert harness("mv", "first", "second", env=on(runs)).returncode == 0


@pytest.mark.parametrize(("new", "said"), [("first", "exists already"), ("a/b", "name")])
def test_mv_refuses_names_that_are_taken_or_none(runs: Path, new: str, said: str) -> None:
    assert said in mistake(harness("mv", "first", new, env=on(runs)))
    assert (runs / "first" / "config.yaml").exists()


NAMING = ("rm", *filter(has_verb, ["show"]))
"""Verbs that take a run; rm asks first, and deletes nothing without an answer."""


@pytest.mark.parametrize("verb", NAMING)
@pytest.mark.parametrize(
    "named",
    ["first", "{}/first", "{}/first/", "{}/first/attempts.jsonl", "first.yaml"],
)
def test_a_run_is_named_by_name_or_path(made: Path, named: str, verb: str) -> None:
    ended = harness(verb, named.format(made), env=on(made))
    assert ended.returncode == (1 if verb == "rm" else 0), ended.stderr
    assert "first" in "".join(ended.stdout.splitlines()[:3])


@pytest.mark.parametrize("verb", NAMING)
def test_a_run_is_named_by_where_one_is(made: Path, verb: str) -> None:
    for cwd, named in ((made / "first", "."), (made / "first", "attempts.jsonl")):
        ended = harness(verb, named, env=on(made), cwd=cwd)
        assert ended.returncode == (1 if verb == "rm" else 0), ended.stderr
        assert "first" in ended.stdout


@pytest.mark.parametrize("listing", ["ls", *(["show first"] if has_verb("show") else [])])
def test_a_listing_is_also_json(made: Path, listing: str) -> None:
    ended = harness(*listing.split(), "--format", "json", env=on(made))
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)


def test_the_list_of_runs_says_when_they_started(made: Path) -> None:
    env = on(made) | {"COLUMNS": "200"}
    listed = json.loads(harness("ls", "--format", "json", env=env).stdout)
    shown = harness("ls", env=env).stdout
    for one in listed:
        manifest = json.loads((made / one["run"] / "manifest.json").read_bytes())
        at = datetime.fromisoformat(one["started_at"])
        assert at.timestamp() == int(manifest["started_at"])
        assert f"{at.astimezone():%Y-%m-%d %H:%M}" in shown
    assert "started" not in harness("ls", env=env | {"COLUMNS": "70"}).stdout.splitlines()[0]


def test_the_list_counts_the_attempts_of_a_file_that_has_changed(runs: Path) -> None:
    path = runs / "first" / "attempts.jsonl"

    def listed() -> dict[str, Any]:
        (found,) = json.loads(harness("ls", "--format", "json", env=on(runs)).stdout)
        return dict(found)

    os.utime(path)  # as in a copy
    assert listed()["complete"]
    path.write_bytes(b"")
    assert not listed()["complete"]
    assert "0 of 104" in harness("ls", env=on(runs)).stdout
    if has_verb("show"):
        shown = harness("show", "first", "--format", "json", env=on(runs))
        assert not json.loads(shown.stdout)["complete"]


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def copied(path: Path) -> None:
    """The file is that of another run."""
    shutil.copy(path.parents[1] / "second" / path.name, path)


@pytest.mark.parametrize("damage", [emptied, cut, Path.unlink, copied])
def test_no_command_accepts_lost_attempts(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    env = on(tmp_path / "runs")
    for name in ("first", "second"):
        assert harness(*QUICK, name, env=env).returncode == 0
    damage(tmp_path / "runs" / "first" / "attempts.jsonl")
    problem = "line is from another run" if damage is copied else "lacks at least"
    if damage is copied:
        assert problem in harness("ls", env=env).stderr
    else:
        assert not is_complete("first", env)
    if has_verb("show"):
        shown = harness("show", "first", "--format", "json", env=env)
        if damage is copied:
            assert problem in mistake(shown)
        else:
            assert not json.loads(shown.stdout)["complete"]
    if has_verb("compare"):
        compared = harness("compare", "first", "second", env=env, apart=True)
        assert problem in compared.stderr
    commands = [("show", "first", "--side-by-side"), ("score", "first")]
    for command in filter(has_verb_of, commands):
        ended = harness(*command, env=env, apart=True)
        assert problem in ended.stderr or damage in (emptied, Path.unlink)  # no attempts: refused


def test_a_run_without_its_run_file_is_listed_as_damaged(tmp_path: Path) -> None:
    """Comparisons of the variants must not omit it. A new run keeps its attempts."""
    file, runs = tmp_path / "file.yaml", tmp_path / "runs"
    model = "{backend: simulated, name: m}"
    variants = "variants: {a: {}, b: {seed: 2}, c: {seed: 3}}"
    file.write_text(f"{TASK}model: {model}\nlimit: 2\n{variants}\n")
    assert harness("run", str(file), env=on(runs)).returncode == 0
    (runs / "file.b" / "config.yaml").unlink()
    problem = "file.b/config.yaml is missing: what the run's attempts stand for is unknown."
    for remaining in ("with metrics", "without"):
        ended = harness("ls", env=on(runs))
        assert re.search(r"file\.b +DAMAGED", ended.stdout), remaining
        assert problem in ended.stderr
        (runs / "file.b" / "metrics.json").unlink(missing_ok=True)
    commands = [("compare", "file"), ("show", "file.b"), ("score", "file.b"), ("run", str(file))]
    for words in filter(has_verb_of, commands):
        assert problem in mistake(harness(*words, env=on(runs)))
    attempts = (runs / "file.b" / "attempts.jsonl").read_bytes()
    assert harness("run", str(file), "--fresh", env=on(runs)).returncode == 0
    (kept,) = runs.glob("file-*.b")
    assert (kept / "attempts.jsonl").read_bytes() == attempts
    assert harness("rm", kept.name, "--yes", env=on(runs)).returncode == 0


NESTED = '{"a":' * 50_000
WRONG: tuple[object, ...] = (None, [[1]], {"a": None}, "x")


def test_no_damaged_file_of_one_run_hides_the_others(runs: Path) -> None:
    """Nor does it end with a traceback: a run's folder may come from somebody else."""
    good, evil = runs / "first", runs / "evil"
    manifest = json.loads((good / "manifest.json").read_text())
    contents = {path.name: [NESTED, "[1]", "null"] for path in good.glob("*.json*")}
    contents["manifest.json"] += [
        json.dumps(manifest | {key: value}) for key in manifest for value in WRONG
    ]
    for name, texts in contents.items():
        for text in texts:
            shutil.rmtree(evil, ignore_errors=True)
            shutil.copytree(good, evil)
            (evil / name).write_text(text)
            ended = harness("ls", env=on(runs))
            assert "first" in ended.stdout, (name, text[:200])
            assert "Traceback" not in ended.stderr, (name, text[:200])
