"""`harness rm`, `mv`, `show --failed`, and all the ways to name a run."""

import json
import os
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from harness.store.run_folder import RunFolder
from tests.cli.command import harness, mistake
from tests.cli.test_compare import QUICK, on


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


def attempts_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]


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
    with RunFolder(runs, "first").hold():
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


@pytest.mark.parametrize(("new", "said"), [("first", "exists already"), ("a/b", "name")])
def test_mv_refuses_names_that_are_taken_or_none(runs: Path, new: str, said: str) -> None:
    assert said in mistake(harness("mv", "first", new, env=on(runs)))
    assert (runs / "first" / "config.yaml").exists()


@pytest.mark.parametrize(
    "named",
    ["first", "{}/first", "{}/first/", "{}/first/attempts.jsonl", "first.yaml"],
)
def test_a_run_is_named_by_name_or_path(made: Path, named: str) -> None:
    ended = harness("show", named.format(made), env=on(made))
    assert ended.returncode == 0, ended.stderr
    assert "first" in ended.stdout.splitlines()[1]


def test_a_run_is_named_by_where_one_is(made: Path) -> None:
    for cwd, named in ((made / "first", "."), (made / "first", "attempts.jsonl")):
        ended = harness("show", named, env=on(made), cwd=cwd)
        assert ended.returncode == 0, ended.stderr


def test_failed_attempts_are_listed_with_what_is_wrong(made: Path) -> None:
    attempts = attempts_of(made / "first")
    failed = [one for one in attempts if not one["passed"]]
    assert failed
    ended = harness("show", "first", "--failed", env=on(made))
    assert f"{len(failed)} of {len(attempts)} attempts failed." in ended.stdout
    found = json.loads(
        harness("show", "first", "--failed", "--format", "json", env=on(made)).stdout
    )
    key = ("instance", "sample", "round")
    assert sorted(tuple(one[part] for part in key) for one in found) == sorted(
        tuple(one[part] for part in key) for one in failed
    )
    assert all(one["reason"] for one in found)


def test_failed_attempts_of_an_instance(made: Path) -> None:
    attempts = attempts_of(made / "first")
    instance = next(one["instance"] for one in attempts if not one["passed"])
    more = "--instance", instance, "--failed", "--format", "json"
    found = json.loads(harness("show", "first", *more, env=on(made)).stdout)
    assert found
    assert {one["instance"] for one in found} == {instance}
    assert not any(one["passed"] for one in found)


LISTINGS = ["ls", "show first", "configs", "tasks", "backends", "checkers", "judges"]


@pytest.mark.parametrize("listing", [*LISTINGS, "checkers word_count", "prices gpt-4o", "data ls"])
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
    shown = harness("show", "first", "--format", "json", env=on(runs))
    assert not json.loads(shown.stdout)["complete"]


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def copied(path: Path) -> None:
    """The file is that of the other shard."""
    shutil.copy(path.parents[1] / "first-1of2" / path.name, path)


@pytest.mark.parametrize("damage", [emptied, cut, Path.unlink, copied])
def test_no_command_accepts_lost_attempts(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    env = on(tmp_path / "runs")
    for shard in ("1/2", "2/2"):
        assert harness(*QUICK, "first", "--shard", shard, env=env).returncode == 0
    damage(tmp_path / "runs" / "first-2of2" / "attempts.jsonl")
    problem = "may have attempts of another run" if damage is copied else "lacks at least"
    assert problem in mistake(harness("merge", "first", env=env))
    shown = harness("show", "first-2of2", "--format", "json", env=env)
    assert not json.loads(shown.stdout)["complete"]
    apart: dict[str, bool] = {"close_fds": True}  # in a process of its own
    compared = harness("compare", "first-1of2", "first-2of2", env=env, **apart)
    assert problem in compared.stderr
    for command in (
        ("export", "first-2of2", "--output", str(tmp_path / "rows.csv")),
        ("show", "first-2of2", "--side-by-side"),
        ("score", "first-2of2"),
    ):
        ended = harness(*command, env=env, **apart)
        assert problem in ended.stderr or damage in (emptied, Path.unlink)  # no attempts: refused


def test_a_copy_with_lost_attempts_keeps_no_other_from_being_copied(tmp_path: Path) -> None:
    urls = {
        "HARNESS_RUNS_URL": f"file://{tmp_path}/store",
        "HARNESS_CACHE_URL": "postgresql://none",
    }
    here, there = (on(tmp_path / name) for name in ("here", "there"))
    for name in ("first", "second"):
        assert harness(*QUICK, name, env=here).returncode == 0
    assert harness("sync", "first", "second", env=here | urls).returncode == 0
    cut(tmp_path / "store" / "first" / "attempts.jsonl")
    ended = harness("sync", env=there | urls)
    assert ended.returncode == 1
    said = " ".join(ended.stderr.split())
    assert "first: attempts.jsonl lacks at least" in said
    assert "To repeat them, run the run file again" in said
    assert "second is the same here" in said


def test_a_checker_is_shown_as_a_run_file_has_it() -> None:
    said = harness("checkers", "word_count").stdout
    assert "checks: [{word_count: {exactly: 3}}]" in said
    assert "at_most" in said
    assert "Did you mean 'word_count'?" in mistake(harness("checkers", "wordcount"))
    said = harness("judges", "yes_no").stdout
    assert "judges: [{name: yes_no, model: {backend: openai, name: gpt-4o-mini}}]" in said
