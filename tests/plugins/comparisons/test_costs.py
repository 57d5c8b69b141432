from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as replaced

from harness.analysis.metrics import JudgeFacts, Metrics
from harness.plugins.comparisons.costs import cost_table, latencies, read_latencies
from harness.records import CONSTRAINT_REFUSED, CallTotals, Usage
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from tests.plugins.comparisons.written import write_run
from tests.report.attempts import attempt
from tests.report.test_runs import texts
from tests.store.test_index import attempt as stored_attempt


def test_the_costs_of_other_models_stand_beside_those_of_the_model(tmp_path: Path) -> None:
    usage = Usage(20, 2)
    totals = {"n_calls": 9, "usage": Usage(90, 9), "cost_usd": 9.0}
    own = CallTotals(n_calls=2, usage=usage, cost_usd=0.5)
    judge = JudgeFacts(model="j", n_calls=4, cost_usd=0.75)
    alone = write_run(tmp_path, "alone", [attempt("a")])[0].metrics
    alone = replaced(alone, n_calls=2, usage=usage, cost_usd=0.5)
    judged = replaced(alone, **totals, model_calls=own, judges={"j": judge, "k": judge})
    unknown = replaced(judged, judges={"j": replaced(judge, cost_usd=None)})
    played = replaced(judged, judges={}, user_calls=CallTotals(n_calls=7, cost_usd=8.5))

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


def test_the_tokens_of_a_call_are_over_the_calls_that_report_them(tmp_path: Path) -> None:
    metrics = write_run(tmp_path, "some", [attempt("a")])[0].metrics
    some = replaced(metrics, n_calls=5, n_calls_without_usage=3, usage=Usage(20, 9))
    none = replaced(metrics, n_calls=5, n_calls_without_usage=5, usage=None)
    headings, *cells = texts(cost_table([(some, None), (none, None)]))
    place = headings.index("out a call")
    assert [row[place] for row in cells] == ["4.5", "n/a"]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_quantiles_are_in_order_and_hold_all(seconds: list[float]) -> None:
    found = latencies(iter(seconds))
    assert found is not None
    assert found.n == len(seconds)
    assert (found.quantiles[0], found.quantiles[100]) == (min(seconds), max(seconds))
    assert np.all(np.diff(found.quantiles) >= 0)
    assert found.median == pytest.approx(np.median(seconds))


def test_no_call_has_none() -> None:
    assert latencies([]) is None


def test_each_call_once_and_neither_cached_nor_failed(tmp_path: Path) -> None:
    told = [
        {"call_id": "1", "latency_s": 1.0},
        {"call_id": "1", "latency_s": 1.0},
        {"call_id": "2", "latency_s": 2.0, "cached": True},
        {"call_id": "3", "latency_s": 3.0, "outcome": "error"},
        {"call_id": "4"},
        {"call_id": "5", "latency_s": 5.0, "outcome": "refused"},
        {"call_id": "7", "latency_s": 0.0, "finish_reason": CONSTRAINT_REFUSED},
        {"latency_s": 6.0},
        {"latency_s": 6.0},
        {"latency_s": 8.0, "outcome": "crashed"},
        {"outcome": "crashed"},
    ]
    path = tmp_path / "attempts.jsonl"
    with JsonLinesWriter(path) as writer:
        for number, fields in enumerate(told):
            writer.append(msgspec.structs.replace(stored_attempt(f"{number}", 0, 1), **fields))
    assert sorted(read_latencies(AttemptIndex(path))) == [1.0, 5.0, 6.0, 6.0, 8.0]


def test_no_file_has_none(tmp_path: Path) -> None:
    assert list(read_latencies(AttemptIndex(tmp_path / "none"))) == []
