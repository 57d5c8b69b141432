import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as replaced

from harness.analysis.metrics import ReferenceScore
from harness.report.runs import (
    Reported,
    common_start,
    headline,
    references,
    shortened,
)
from harness.report.table import Table
from tests.report.html.pages import attempt, compared, reported_run, two_runs


def texts(table: Table | None) -> list[list[str]]:
    assert table
    return [[column.heading for column in table.columns], *map(table.texts, table.rows)]


def test_a_row_for_each_run(tmp_path: Path) -> None:
    headings, before, after = texts(headline(two_runs(tmp_path)))
    told = dict(zip(headings, before, strict=True))
    assert told["run"] == "before"
    assert told["instances"] == "6"
    assert told["pass rate, last round ± s.e."].startswith("0.500 ± ")
    assert told["in any round"] == "-"
    assert told["pass@2"] == "0.500"
    assert told["per solved"] == "$0.0040"
    assert dict(zip(headings, after, strict=True))["in any round"] == "0.667 (of 2)"


def test_how_often_any_of_the_rounds_passed(tmp_path: Path) -> None:
    headings, row = texts(headline(two_runs(tmp_path)[1:]))
    assert dict(zip(headings, row, strict=True))["in any round"] == "0.667 (of 2)"


def test_a_column_for_each_k(tmp_path: Path) -> None:
    runs = [
        reported_run(
            tmp_path / str(k),
            str(k),
            [attempt("a", sample, passed=not sample) for sample in range(k)],
        )
        for k in (1, 2, 4)
    ]
    told = [
        dict(zip(texts(headline(runs))[0], row, strict=True)) for row in texts(headline(runs))[1:]
    ]
    assert "pass rate ± s.e." in told[0]  # of one round
    assert [one["pass@2"] for one in told] == ["-", "1.000", "0.500"]
    assert [one["pass@4"] for one in told] == ["-", "-", "1.000"]
    assert [one["pass^4"] for one in told] == ["-", "-", "0.000"]


def test_a_recorded_run_has_neither_latency_nor_cost(tmp_path: Path) -> None:
    run = reported_run(tmp_path, "run", [attempt("a")], manifest={"backend": "replay"})
    headings, row = texts(headline([run]))
    told = dict(zip(headings, row, strict=True))
    assert (told["median latency"], told["cost"]) == ("recorded", "recorded")
    assert "per solved" not in told


def test_columns_that_say_something_of_no_run_are_left_out(tmp_path: Path) -> None:
    run = reported_run(tmp_path, "run", [attempt("a", cost_usd=None)], latencies=None)
    headings, row = texts(headline([run]))
    told = dict(zip(headings, row, strict=True))
    assert not {"median latency", "per solved"} & told.keys()
    assert not re.search("pass@|pass.k|round", " ".join(headings))
    assert told["cost"] == "unknown"


def test_marks_and_outcomes_are_told(tmp_path: Path) -> None:
    lines = [
        attempt("a"),
        attempt("b", passed=None, outcome="error"),
        attempt("c", outcome="truncated"),
    ]
    table = headline([reported_run(tmp_path, "run", lines, marks=["SIMULATED"])])
    assert table.rows[0].marks == ["SIMULATED"]
    told = dict(zip(*texts(table), strict=True))
    assert (told["not judged"], told["not ok"]) == ("1", "1 truncated, 1 error")


def test_golds_stand_beside_each_runs_own_answers(tmp_path: Path) -> None:
    run = reported_run(tmp_path, "run", [attempt("a")])
    assert references([run]) is None
    found = ReferenceScore(
        mean=7.5, stderr=0.25, n=9, n_clusters=9, n_pairs=8, n_pair_clusters=8,
        difference=-0.5, difference_stderr=0.125, difference_ci95=(-0.75, -0.25),
    )  # fmt: skip
    run = replace(run, metrics=replaced(run.metrics, references={"j.score": found}))
    ((*_, row),) = [texts(references([run]))]
    assert row == ["run", "j.score", "9", "7.500 ± 0.250", "8", "-0.500 ± 0.125",
                   "-0.750 to -0.250"]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "start"),
    [
        ([], ""),
        (["glue.zero"], ""),
        (["glue.zero", "glue.four"], "glue."),
        (["glue.a.zero", "glue.a.four"], "glue.a."),
        (["glue.a.zero", "glue.b.zero"], "glue."),
        (["glue.zero", "glue.zero_four"], "glue."),
        (["glue.zero", "squad.zero"], ""),
        (["glue.zero", "glue"], ""),
        (["glue.zero", "glue."], ""),
        (["a.b.c", "a.b."], "a."),
        (["glue.zero", "glue. "], ""),
        (["gluezero", "gluefour"], ""),
        (["gpt-4.1", "gpt-4.5"], ""),
        (["x.gpt-4.1", "x.gpt-4.5"], "x."),
        (["top5.one", "top5.two"], "top5."),
    ],
)
def test_variants_share_the_name_of_their_run_file(names: list[str], start: str) -> None:
    assert common_start(names) == start


@given(st.lists(st.text(max_size=300), max_size=8, unique=True))
def test_any_names_have_a_common_start(names: list[str]) -> None:
    start = common_start(names)
    assert all(name.startswith(start) for name in names)
    assert not start or all(len(name) > len(start) for name in names)


def test_runs_and_their_comparison_lose_it(tmp_path: Path) -> None:
    names = ["glue.zero", "glue.four"]
    runs = [reported_run(tmp_path / name, name, [attempt("a")]) for name in names]
    short = shortened(Reported(runs, compared(runs)))
    assert [run.name for run in short.runs] == ["zero", "four"]
    assert short.comparison
    assert (short.comparison.baseline, short.comparison.others[0].run) == ("zero", "four")
    alone = Reported(runs[:1])
    assert shortened(alone) is alone
