"""Run folders and a cache written by version 0.1 are read, resumed, compared and reported.

`fixtures/version_0_1` was written by that version: simulated runs (two variants of 4 instances), a
run with two judges and a panel, one whose references were judged, and one of a paid model whose
replies are in the cache. The runs there were made with ``--limit 4``, the paid one with 3.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import harness
from tests.conftest import ROOT

FIXTURES = ROOT / "tests" / "fixtures" / "version_0_1"
TIMES = {"run", "started_at", "ended_at", "latency_s", "cached"}


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("runs", "cache"):
        shutil.copytree(FIXTURES / name, tmp_path / name)
        monkeypatch.setenv(f"HARNESS_{name.upper()}_DIR", str(tmp_path / name))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return tmp_path / "runs"


def lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, in the order of their keys, without what differs between sessions."""
    rows = [json.loads(line, object_hook=_as_earlier) for line in path.read_bytes().splitlines()]
    timeless = [{key: value for key, value in row.items() if key not in TIMES} for row in rows]
    return sorted(timeless, key=lambda r: (r["instance"], r["sample"], r["round"], r.get("judge")))


def _as_earlier(found: dict[str, Any]) -> dict[str, Any]:
    """Remove and add what differs: whether a score is a share, verdicts by rules, and a count."""
    for key in ("share", "rule", "rules", "rule_reason"):
        found.pop(key, None)
    return {"cache_write_tokens": 0, **found} if "reasoning_tokens" in found else found


def without_calls(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "calls"} for row in rows]


def run(*arguments: str) -> str:
    ended = harness("run", *arguments)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("file", ["simulated", "judged", "coherence"])
def test_a_run_of_today_has_the_same_attempts_and_judgements(file: str, folders: Path) -> None:
    run(str(FIXTURES / f"{file}.yaml"), "--limit", "4", "--fresh")
    again = [folder for folder in folders.iterdir() if folder.name.partition(".")[0] == file]
    assert again
    for folder in again:
        before = FIXTURES / "runs" / folder.name
        assert lines(folder / "attempts.jsonl") == lines(before / "attempts.jsonl")
        if (before / "judgements.jsonl").exists():
            found, known = (lines(one / "judgements.jsonl") for one in (folder, before))
            assert without_calls(found) == without_calls(known)


@pytest.mark.parametrize("file", ["simulated", "judged", "coherence"])
def test_a_run_is_continued_as_if_it_had_never_stopped(file: str, folders: Path) -> None:
    run(str(FIXTURES / f"{file}.yaml"), "--limit", "6")
    run(str(FIXTURES / f"{file}.yaml"), "--limit", "6", "--fresh")
    (kept,) = {one.name.partition(".")[0] for one in folders.glob(f"{file}-20*")}
    whole = [folder for folder in folders.iterdir() if folder.name.partition(".")[0] == file]
    assert whole
    for folder in whole:
        continued = folders / folder.name.replace(file, kept)
        assert lines(continued / "attempts.jsonl") == lines(folder / "attempts.jsonl")


def test_a_finished_run_owes_nothing(folders: Path) -> None:
    before = (folders / "paid" / "attempts.jsonl").read_bytes()
    run(str(FIXTURES / "paid.yaml"), "--limit", "3")  # its server is no longer there
    assert (folders / "paid" / "attempts.jsonl").read_bytes() == before


def test_the_cache_serves_every_paid_reply(folders: Path) -> None:
    run(str(FIXTURES / "paid.yaml"), "--limit", "3", "--fresh")
    found, before = (
        lines(root / "paid" / "attempts.jsonl") for root in (folders, FIXTURES / "runs")
    )
    for row in (*found, *before):
        for rewriting in row.get("polish", ()):
            rewriting.pop("cached", None)
    assert found == before


def test_a_changed_run_file_is_still_refused_with_its_keys(folders: Path) -> None:
    ended = harness("run", FIXTURES / "judged.yaml", "-o", "seed=3")
    assert ended.returncode == 1
    assert "seed" in ended.stderr


def test_a_run_whose_judges_left_criteria_to_rules_is_read_but_not_continued(
    folders: Path, tmp_path: Path
) -> None:
    for name in ("config.yaml", "judges.json"):
        path = folders / "judged" / name
        text = path.read_text().replace('"rules": "beside"', '"rules": "skip"')
        first, separator, judges = text.partition("judges:")
        path.write_text(first + separator + judges.replace("rules: beside", "rules: skip"))
    for arguments in (
        ["show", "judged"],
        ["show", "judged", "--constraints"],
        ["judge", "validate", "judged", "--judge", "first", "--against", "second"],
        ["report", "judged", "-o", str(tmp_path / "judged.html")],
    ):
        ended = harness(*arguments)
        assert ended.returncode == 0, [arguments, ended.stdout, ended.stderr]
    ended = harness("run", FIXTURES / "judged.yaml", "--limit", "6")
    assert ended.returncode == 1
    assert "The judge 'yes_no' has no option 'rules'." in ended.stderr


def test_every_reader_reads_them(folders: Path, tmp_path: Path) -> None:
    for arguments in (
        ["ls"],
        ["show", "simulated.one_shot"],
        ["show", "simulated.one_shot", "--constraints"],
        ["show", "judged"],
        ["show", "coherence"],
        ["compare", "simulated.zero_shot", "simulated.one_shot", "--cost", "--ids"],
        ["table", "simulated", "--rows", "structure"],
        ["judge", "validate", "judged", "--judge", "first", "--against", "second"],
        ["judge", "coherence", "--judge", "coherence", "--gold"],
        ["score", "paid"],
        ["report", "simulated.zero_shot", "simulated.one_shot", "-o", str(tmp_path / "r.html")],
        ["export", "paid", "-o", str(tmp_path / "paid.csv")],
        ["cache", "stats"],
    ):
        ended = harness(*arguments)
        assert ended.returncode == 0, [arguments, ended.stdout, ended.stderr]


def test_the_figures_are_those_of_the_version_that_ran_it(folders: Path) -> None:
    for file in ("simulated", "judged", "coherence"):
        run(str(FIXTURES / f"{file}.yaml"), "--limit", "4")  # nothing is owed: only measured
    for folder in (FIXTURES / "runs").iterdir():
        known, found = (
            json.loads((one / "metrics.json").read_bytes())
            for one in (folder, folders / folder.name)
        )
        del known["overall"]["ci95"]  # a rate has another interval since (CHANGELOG.md)
        for part in ("overall", "outcomes", "rounds"):
            assert found[part] == found[part] | known[part], (folder.name, part)


def test_the_cache_file_is_left_readable_for_the_earlier_version(folders: Path) -> None:
    def schema() -> list[tuple[str]]:
        with sqlite3.connect(folders.parent / "cache" / "replies.sqlite") as file:
            return file.execute("select sql from sqlite_master order by name").fetchall()

    before = schema()
    run(str(FIXTURES / "paid.yaml"), "--limit", "3", "--fresh")
    assert set(before) <= set(schema())
