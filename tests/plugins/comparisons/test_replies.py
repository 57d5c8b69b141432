"""The instances to which two runs have the same replies."""

from pathlib import Path

from harness.plugins.comparisons.replies import read_replies
from harness.store.columns import name_digest
from harness.store.json_lines import JsonLinesWriter
from tests.store.test_index import attempt


def test_replies_are_the_same_by_instance_whatever_calls_failed(tmp_path: Path) -> None:
    failed = {"outcome": "error", "passed": None, "text": None, "call_id": None}
    differences = {
        "same": ({}, {}),
        "failed": (failed, {}),
        "judged": ({}, {"passed": None}),
        "drawn again": ({}, {"text": "another"}),
        "scored differently": ({}, {"passed": False}),
        "a sample and a round": ({}, {"sample": 0, "round": 2}),
        "nothing": ({"sample": 0, **failed}, failed),
    }
    replies = []
    for run in (0, 1):
        path = tmp_path / str(run) / "attempts.jsonl"
        path.parent.mkdir()
        with JsonLinesWriter(path) as writer:
            for name, fields in differences.items():
                if name != "nothing":
                    writer.append(attempt(name, call_id=name))
                writer.append(attempt(name, **{"sample": 1, "call_id": name, **fields[run]}))
                writer.append(attempt(name, sample=2 + run, **failed))
        replies.append(read_replies(path))
    expected = {name_digest(name) for name in ("same", "failed", "judged")}
    for one, other in (replies, reversed(replies)):
        assert {*one.same_as(other).tolist()} == expected
