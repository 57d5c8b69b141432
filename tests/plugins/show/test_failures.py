from pathlib import Path

from harness.plugins.show.failures import read_failed
from harness.records import Attempt
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
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
