"""A file that grows is read on."""

from pathlib import Path

import numpy as np

from harness.records import Score, Usage
from harness.store.attempt_lines import AttemptLines
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from tests.store.test_index import attempt

FIRST = [
    attempt(
        "a",
        passed=False,
        scores={"x": Score(0.5, share=True), "y": Score(False, False)},
        latency_s=2.0,
    ),
    attempt("b", cached=True, latency_s=9.0, cost_usd=1.0, usage=Usage(5, 5)),
]
MORE = [
    attempt("c", passed=None, scores={"x": Score(None)}, cost_usd=0.25, usage=Usage(3, 4)),
    attempt("a", passed=True, scores={"z": Score(True, True)}),  # replaces the first line
]


def add(path: Path, *attempts: object) -> Path:
    with JsonLinesWriter(path) as writer:
        for one in attempts:
            writer.append(one)  # type: ignore[arg-type]
    return path


def assert_same(lines: AttemptLines, path: Path) -> None:
    found, expected = AttemptIndex(path, lines=lines), AttemptIndex(path)
    assert found.offset.tolist() == expected.offset.tolist()
    assert found.attempts.passed.tolist() == expected.attempts.passed.tolist()
    assert list(found.attempts.scores) == list(expected.attempts.scores)
    for name, values in expected.attempts.scores.items():
        np.testing.assert_array_equal(found.attempts.scores[name], values)
    assert found.attempts.shares == expected.attempts.shares
    assert found.attempts.instances.groupings == expected.attempts.instances.groupings
    assert lines.size == path.stat().st_size


def test_a_growing_file_is_read_on(tmp_path: Path) -> None:
    path = add(tmp_path / "attempts.jsonl", *FIRST)
    lines = AttemptLines(path, "followed")
    assert lines.read_more()
    assert not lines.read_more()
    assert_same(lines, path)
    with path.open("ab") as file:
        file.write(b'{"v":1,')  # the run is just writing it
    assert not lines.read_more()
    add(path, *MORE)
    assert lines.read_more()
    assert lines.n_lines == 4
    assert_same(lines, path)


def test_a_large_file_is_read_in_parts(tmp_path: Path) -> None:
    path = add(tmp_path / "attempts.jsonl", *FIRST, *MORE)
    lines = AttemptLines(path, "followed")
    counted: list[int] = []
    while lines.read_more(1):
        counted.append(len(lines.counted_attempts().first_lost_draw))
    assert counted == [1, 2, 3, 3]  # the fourth line replaces the first
    assert_same(lines, path)


def test_calls_have_columns(tmp_path: Path) -> None:
    path = add(tmp_path / "attempts.jsonl", *FIRST, *MORE)
    lines = AttemptLines(path, "followed")
    lines.read_more()
    calls = AttemptIndex(path, lines=lines).call_columns
    assert sorted(calls["cost_usd"].tolist()) == [0.0, 0.0, 0.25]  # a cached reply costs nothing
    assert sorted(calls["tokens"].tolist()) == [0, 0, 7]
    assert np.isnan(calls["latency_s"]).all()
    assert calls["ended_at"].tolist() == [2.0] * 3
