"""Runs as Parquet and CSV: every cell, read back, equals the run's value."""

import csv
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings

from harness.errors import ConfigError, StoreFailed
from harness.plugins.exchange import exported_run
from harness.plugins.exchange.exported_run import ExportedRows, write_csv, write_parquet
from harness.records import Attempt, Score, Usage
from harness.store.files import replace_output
from harness.store.index import AttemptLine
from tests.plugins.exchange.made import attempt, attempts, run


def read_parquet(path: Path) -> list[dict[str, Any]]:
    found = duckdb.connect().execute("SELECT * FROM read_parquet(?)", [str(path)])
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def exported(tmp: Path, found: list[Attempt], **options: bool) -> list[dict[str, Any]]:
    write_parquet(ExportedRows([run(tmp / "r", found)], **options), tmp / "r.parquet")
    return read_parquet(tmp / "r.parquet")


@settings(max_examples=10, deadline=None)
@given(attempts())
def test_parquet_reads_back_equal(found: list[Attempt]) -> None:
    with tempfile.TemporaryDirectory() as tmp:
        rows = exported(Path(tmp), found, attempts=True)
    by_key = {(one.instance, one.sample, one.round): one for one in found}
    assert len(rows) == len(by_key)
    last = {(one.instance, one.sample): one.round for one in found}  # drawn in order
    assert all(row["is_last"] == (row["round"] == last[row["instance"], row["sample"]])
               for row in rows)  # fmt: skip
    for row in rows:
        one = by_key[row["instance"], row["sample"], row["round"]]
        same = ("cluster", "outcome", "passed", "text", "reasoning", "feedback", "finish_reason")
        for name in (*same, "call_id", "cost_usd", "latency_s", "cached", "error"):
            assert row[name] == getattr(one, name), name
        for name in Usage.__struct_fields__:
            assert row[name] == (getattr(one.usage, name) if one.usage else None)
        scored = json.loads(row["details"] or "{}")
        assert scored == {n: dict(s.details) for n, s in one.scores.items() if s.details}
        for name, score in one.scores.items():
            if name != "A" and name != "a":  # told apart by a number, not by case
                value = row[f"score_{name}"]
                assert value == (None if score.value is None else float(score.value))
                assert row[f"reason_{name}"] == score.reason
        asked = one.request.get("messages")
        assert (row["prompt"] is None) == (asked is None)
        assert json.loads(row["prompt"] or "null") == asked


def test_a_row_is_a_samples_last_attempt_with_its_first_prompt(tmp_path: Path) -> None:
    found = [attempt("a", round_=n, passed=n == 3, text=f"answer {n}") for n in (1, 2, 3)]
    table = ExportedRows([run(tmp_path / "r", [*found, attempt("a", 1)])])
    out = io.StringIO(newline="")
    write_csv(table, out)
    rows = list(csv.DictReader(io.StringIO(out.getvalue(), newline=""), strict=True))
    assert len(table) == 2
    assert [(row["round"], row["passed"], row["text"]) for row in rows] == [
        ("3", "true", "answer 3"),
        ("1", "true", "done"),
    ]
    assert rows[0]["prompt"] == rows[1]["prompt"] != ""


def test_every_field_of_an_attempt_has_a_column(tmp_path: Path) -> None:
    in_parts = {"groups", "usage"}  # a column for each label, and for each kind of token
    columns = ExportedRows([run(tmp_path / "r", [attempt()])]).columns
    assert "is_last" not in columns
    calls_of_others = {"user"}  # a second model's, like the judgements
    fields = set(AttemptLine.__struct_fields__) - in_parts - calls_of_others
    assert fields <= columns.keys()
    assert {"group_parity", *Usage.__struct_fields__} <= columns.keys()


@settings(max_examples=10, deadline=None)
@given(attempts())
def test_csv_holds_what_parquet_does(found: list[Attempt]) -> None:
    with tempfile.TemporaryDirectory() as tmp:
        rows = exported(Path(tmp), found, attempts=True)
        table = ExportedRows([run(Path(tmp) / "r", found)], attempts=True)
        out = io.StringIO(newline="")
        write_csv(table, out)
    read = list(csv.DictReader(io.StringIO(out.getvalue(), newline=""), strict=True))
    assert [
        {name: _read(kind, line[name]) for name, kind in table.columns.items()} for line in read
    ] == [{name: "" if cell is None else cell for name, cell in row.items()} for row in rows]


def _read(kind: str, cell: str) -> object:
    if cell == "" or kind == "VARCHAR":
        return cell
    return cell == "true" if kind == "BOOLEAN" else (int if kind == "BIGINT" else float)(cell)


def test_csv_distinguishes_null_from_empty_text(tmp_path: Path) -> None:
    out = io.StringIO(newline="")
    found = [attempt("a", text="", error=None, feedback="x")]
    write_csv(ExportedRows([run(tmp_path / "r", found)]), out)
    assert '"","",' not in out.getvalue()
    assert ',"",,"x",' in out.getvalue()  # text, reasoning, feedback


def test_superseded_lines_are_not_exported(tmp_path: Path) -> None:
    found = [attempt("a", round_=n, text=f"old {n}") for n in (1, 2)]
    found += [attempt("b"), attempt("a", text="new")]
    rows = exported(tmp_path, found, attempts=True)
    assert {(row["instance"], row["round"], row["text"]) for row in rows} == {
        ("b", 1, "done"),
        ("a", 1, "new"),
    }
    assert len(rows) == 2


def test_columns_that_differ_only_in_case(tmp_path: Path) -> None:
    scores = {"a": Score(1.0), "A": Score(0.0, reason="why")}
    (row,) = exported(tmp_path, [attempt("a", groups={"g": "x", "G": "y"}, scores=scores)])
    assert [row["group_g"], row["group_G_2"], row["score_a"], row["score_A_2"]] == ["x", "y", 1, 0]


def test_several_runs_in_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported_run, "MAX_ROWS", 7)
    first = [attempt(f"i{n}", text=None if n < 40 else f"t{n}") for n in range(50)]
    second = [attempt(f"i{n}", scores={"other": Score(0.5)}) for n in range(5)]
    runs = [run(tmp_path / "one", first), run(tmp_path / "two", second, simulated=True)]
    write_parquet(ExportedRows(runs), tmp_path / "it's.parquet")
    rows = read_parquet(tmp_path / "it's.parquet")
    assert [row["instance"] for row in rows] == [f"i{n}" for n in (*range(50), *range(5))]
    assert [row["text"] for row in rows[38:42]] == [None, None, "t40", "t41"]
    assert {(row["run"], row["simulated"]) for row in rows} == {("one", False), ("two", True)}
    assert rows[0]["score_other"] is None
    assert rows[-1]["score_exact"] is None
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_a_failed_export_leaves_an_existing_file_unchanged(tmp_path: Path) -> None:
    out = tmp_path / "r.parquet"
    out.write_text("before")
    table = ExportedRows([run(tmp_path / "r", [attempt("a")])])
    table.runs[0].index.path.write_text("{}\n" * 9)
    with pytest.raises(Exception, match="not an attempt"):
        write_parquet(table, out)
    assert out.read_text() == "before"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["r", "r.parquet"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to("real")
    with replace_output(tmp_path / "link") as temporary:
        temporary.write_text("after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "after"


def test_targets_that_are_not_export_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "attempts.jsonl").write_text("paid work")
    for name in ("pipe", "runs", "none/x", "runs/attempts.jsonl"):
        with pytest.raises(ConfigError), replace_output(tmp_path / name):
            raise AssertionError
    assert (tmp_path / "runs" / "attempts.jsonl").read_text() == "paid work"


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    def fill() -> None:
        with replace_output(tmp_path / "x") as temporary:
            temporary.write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(StoreFailed, match="No space left"):
        fill()
    assert list(tmp_path.iterdir()) == []
