"""How long calls took: each once, and only those that were made."""

from pathlib import Path

import msgspec

from harness.records import CONSTRAINT_REFUSED
from harness.store.calls import (
    read_latencies,
    read_replies,
)
from harness.store.columns import name_digest
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from tests.store.test_index import attempt


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
            writer.append(msgspec.structs.replace(attempt(f"{number}", 0, 1), **fields))
    assert sorted(read_latencies(AttemptIndex(path))) == [1.0, 5.0, 6.0, 6.0, 8.0]


def test_no_file_has_none(tmp_path: Path) -> None:
    assert list(read_latencies(AttemptIndex(tmp_path / "none"))) == []


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
