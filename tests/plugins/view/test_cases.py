"""Which cases a filter selects, and in which order."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.plugins.view.cases import (
    MISSING,
    CaseFilter,
    CaseTable,
    Findings,
    FoundCases,
    TextSearch,
)
from harness.records import Score
from harness.store.attempt_lines import AttemptLines
from harness.store.index import AttemptIndex, AttemptLine
from tests.store.test_index import attempt
from tests.store.test_index_following import add


def scored(passed: bool, number: float | None) -> dict[str, Any]:
    return {"passed": passed, "scores": {"rule": Score(passed, passed), "style": Score(number)}}


FIRST = [
    attempt("b", 0, 1, **scored(False, 0.25)),
    attempt("b", 0, 2, **scored(True, 0.75)),
    attempt("a", 0, 1, **scored(True, 0.5), groups={"kind": "odd"}),
    attempt("a", 1, 1, **scored(False, None), text="Größe «x»", groups={"kind": "odd"}),
]
SECOND = [
    attempt("a", 0, 1, **scored(False, 0.1), groups={"kind": "odd"}),
    attempt("c", 0, 1, passed=None, outcome="error", text=None, error='It said "no"\n.'),
    attempt("b", 0, 1, **scored(True, 1.0)),
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> CaseTable:
    indexes = []
    for name, attempts in (("one", FIRST), ("two", SECOND)):
        path = add(tmp_path_factory.mktemp(name) / "attempts.jsonl", *attempts)
        lines = AttemptLines(path, "followed")
        lines.read_more()
        indexes.append(AttemptIndex(path, lines=lines))
    return CaseTable(["one", "two"], indexes)


def names(table: CaseTable, found: FoundCases) -> list[str]:
    """Each case as instance/sample, with the round of each run's cell ("-" if it has none)."""
    told = []
    for cells in found.cells.T.tolist():
        lines = [
            None if row == MISSING else next(index.read(AttemptLine, [row]))
            for index, row in zip(table.indexes, cells, strict=True)
        ]
        first = next(line for line in lines if line is not None)
        rounds = "".join("-" if line is None else str(line.round) for line in lines)
        told.append(f"{first.instance}/{first.sample}:{rounds}")
    return told


def find(table: CaseTable, known: Findings | None = None, **asked: Any) -> list[str]:
    return names(table, table.find(CaseFilter(**asked), known or Findings(), None))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ["b/0:21", "a/0:11", "a/1:1-", "c/0:-1"]),
        ({"round": "1"}, ["b/0:11", "a/0:11", "a/1:1-", "c/0:-1"]),
        ({"verdict": "failed"}, ["a/0:11", "a/1:1-"]),
        ({"verdict": "failed", "round": "1"}, ["b/0:11", "a/0:11", "a/1:1-"]),
        ({"verdict": "failed", "round": "any"}, ["b/0:11", "a/0:11", "a/1:1-"]),
        ({"verdict": "passed", "round": "any"}, ["b/0:21", "a/0:11"]),
        ({"verdict": "failed", "where": "two"}, ["a/0:11"]),
        ({"verdict": "failed", "run": ("one",)}, ["a/1:1-"]),
        ({"verdict": "not judged"}, ["c/0:-1"]),
        ({"verdict": "no such verdict"}, []),
        ({"outcome": "error"}, ["c/0:-1"]),
        ({"outcome": "no such outcome"}, []),
        ({"groups": (("kind", "odd"),)}, ["a/0:11", "a/1:1-"]),
        ({"groups": (("kind", "even"),)}, []),
        ({"differ": "1"}, ["a/0:11"]),
        ({"differ": "1", "run": ("one",)}, []),
        ({"score": "style", "differ": "1"}, ["b/0:21", "a/0:11"]),
        ({"score": "rule", "verdict": "failed"}, ["a/0:11", "a/1:1-"]),
        ({"score": "no such score"}, []),
        ({"score": "style", "sort": "one"}, ["a/0:11", "b/0:21", "a/1:1-", "c/0:-1"]),
        ({"sort": "fails"}, ["a/0:11", "a/1:1-", "b/0:21", "c/0:-1"]),
        ({"sort": "-fails"}, ["b/0:21", "c/0:-1", "a/0:11", "a/1:1-"]),
        ({"change": "better:two"}, []),
        ({"reason": "too long"}, []),
        ({"run": ("no such run",)}, []),
    ],
)
def test_a_filter_selects_cases(
    table: CaseTable, asked: dict[str, Any], expected: Sequence[str]
) -> None:
    assert find(table, **asked) == expected


def test_reasons_and_changes_select_what_is_known(table: CaseTable) -> None:
    one = table.indexes[0]
    rows = one.find_rows("a", 1)
    reasons = {"too long": [one.offset[rows], np.zeros(0, np.int64)]}
    digest = int(one.attempts.instances.digest[one.attempts.instance[rows[0]]])
    known = Findings(reasons, {"better:two": [digest]})
    assert find(table, known, reason="too long") == ["a/1:1-"]
    assert find(table, known, change="better:two") == ["a/0:11", "a/1:1-"]


def test_values_and_instances_are_counted(table: CaseTable) -> None:
    found = table.find(CaseFilter(score="style"), Findings(), None)
    assert (len(found), found.instances) == (4, 3)
    values = found.values[0]
    assert values is not None
    assert values[found.cells[0, 0]] == 0.75


def test_no_attempts_are_no_cases(tmp_path: Path) -> None:
    index = AttemptIndex(tmp_path / "attempts.jsonl")
    assert find(CaseTable(["x", "y"], [index, index]), sort="fails", differ="1") == []


def test_a_search_selects_cases(table: CaseTable) -> None:
    hits = []
    for index in table.indexes:
        search = TextSearch(index.path, "answer")
        search.search_on(index.path.stat().st_size)
        hits.append(search.hits)
    found = find(table, Findings(hits=hits), q="answer")
    assert found == ["b/0:21", "a/0:11"]  # not the first attempt of a case
