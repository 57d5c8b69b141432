from pathlib import Path

from harness.plugins.show.transcript import by_reason, read_failed
from harness.records import Attempt
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from tests.engine.test_recorder_crashes import run_that_crashes_at_two_lines
from tests.report.attempts import attempt


def index(folder: Path, *attempts: Attempt) -> AttemptIndex:
    with JsonLinesWriter(folder / "attempts.jsonl") as writer:
        for one in attempts:
            writer.append(one)
    return AttemptIndex(folder / "attempts.jsonl")


def test_failed_attempts_and_failed_calls_have_a_reason(tmp_path: Path) -> None:
    found = read_failed(
        index(
            tmp_path,
            attempt("a"),
            attempt("b", passed=False),
            attempt("c", passed=None, outcome="error", error="429", scores={}),
            attempt("d", passed=False, outcome="empty", text=None, scores={}),
        )
    )
    assert [(one.instance, one.reason) for one in found] == [
        ("b", "b is wrong in round 1"),
        ("c", "429"),
        ("d", "the answer has no text"),
    ]


def test_crashes_are_grouped_by_their_line(tmp_path: Path) -> None:
    run = run_that_crashes_at_two_lines(tmp_path)
    groups = by_reason(read_failed(AttemptIndex(run.path / "attempts.jsonl")))
    assert [(n, outcome) for n, outcome, _ in groups] == [(5, "crashed")] * 2
    assert groups[0][2].startswith("KeyError at lookup.py:3, such as: lookup.py's answer raised")
