from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as replaced

from harness.analysis.metrics import JudgeFacts, Metrics
from harness.records import CallFigures, Usage
from harness.report.runs import common_start, cost_table
from harness.report.table import Table
from tests.report.attempts import attempt, write_run


def texts(table: Table | None) -> list[list[str]]:
    assert table
    return [[column.heading for column in table.columns], *map(table.texts, table.rows)]


def test_the_costs_of_other_models_stand_beside_those_of_the_model(tmp_path: Path) -> None:
    usage = Usage(20, 2)
    totals = {"n_calls": 9, "usage": Usage(90, 9), "cost_usd": 9.0}
    own = CallFigures(n_calls=2, usage=usage, cost_usd=0.5)
    judge = JudgeFacts(model="j", n_calls=4, cost_usd=0.75)
    alone = write_run(tmp_path, "alone", [attempt("a")])[0].metrics
    alone = replaced(alone, n_calls=2, usage=usage, cost_usd=0.5)
    judged = replaced(alone, **totals, model_calls=own, judges={"j": judge, "k": judge})
    unknown = replaced(judged, judges={"j": replaced(judge, cost_usd=None)})
    played = replaced(judged, judges={}, user_calls=CallFigures(n_calls=7, cost_usd=8.5))

    def shown(*runs: Metrics) -> list[list[str]]:
        headings, *cells = texts(cost_table([(one, None) for one in runs]))
        assert {(row[1], row[3]) for row in cells} == {("2", "20, 2")}
        return [row[headings.index("cost") :] for row in (headings, *cells)]

    assert shown(alone) == [["cost"], ["$0.5000"]]
    assert shown(alone, judged, unknown) == [
        ["cost", "judges' cost"],
        ["$0.5000", "$0.00"],
        ["$0.5000", "$1.50"],
        ["$0.5000", "unknown"],
    ]
    assert shown(played) == [["cost", "user's cost"], ["$0.5000", "$8.50"]]


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
