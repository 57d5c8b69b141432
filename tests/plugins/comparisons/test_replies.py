"""The instances to which two runs have the same replies."""

from dataclasses import replace
from pathlib import Path

from harness.plugins.comparisons.replies import RunReplies, read_replies
from harness.store.columns import name_digest
from harness.store.json_lines import JsonLinesWriter
from tests.plugins.comparisons.variants import variant
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


def test_recordings_without_a_name_share_replies_only_if_they_are_the_same_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "attempts.jsonl"
    with JsonLinesWriter(path) as writer:
        writer.append(attempt("short", call_id="short"))

    def recorded(recording: str, name: str | None) -> RunReplies:
        hashes = {"dataset_sha256": "d", "recording_sha256": recording}
        run = variant("r", {}, settings={"model.name": name}, fingerprint=hashes)
        return replace(run, attempts=path).replies()

    for first, second, name, n_shared in (
        ("a:9", "b:9", None, 0),
        ("a:9", "a:9", None, 1),
        ("a:9", "b:9", "m", 1),  # one model, whose calls have their own ids
    ):
        shared = recorded(first, name).same_as(recorded(second, name))
        assert len(shared) == n_shared, (first, second, name)
