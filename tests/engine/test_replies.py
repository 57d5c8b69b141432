"""A damaged cache is refilled from the attempts of runs."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from harness.config.settings import Settings
from harness.engine.replies import open_cache, recorded_replies, replies_path
from harness.plugins.mock.server import MockServer
from harness.records import Reply
from tests.cli.command import harness
from tests.rows import QUICKSTART


def run(url: str, *options: str) -> None:
    ended = harness(
        *("run", QUICKSTART, "--limit", "6", "-o", "samples=2"),
        *("-o", "rounds.max=2", "-o", f"model={{backend: openai, name: m, base_url: '{url}'}}"),
        *options,
    )
    assert ended.returncode == 0, ended.stderr


def test_what_a_run_has_recorded_is_not_paid_for_again(mock_server: MockServer) -> None:
    run(mock_server.base_url, "--name", "first")
    paid = mock_server.stats().requests
    assert paid > 6
    settings = Settings()
    path = replies_path(settings)
    with open_cache(settings) as cache:
        rows = list(recorded_replies(settings.runs_dir))
        assert len({row[0] for row in rows}) == paid
        for key, encoded, *_ in rows:
            kept = cache.get(key.hex())
            restored = msgspec.msgpack.decode(encoded, type=Reply)
            assert kept is not None
            assert msgspec.structs.replace(kept, model=None) == restored
    with path.open("r+b") as file:
        file.write(b"\xff" * 100)
    run(mock_server.base_url, "--name", "second")
    assert mock_server.stats().requests == paid
    assert len(list(path.parent.glob("*.damaged-*"))) == 1


def test_replies_that_attempts_do_not_reproduce_are_skipped(mock_server: MockServer) -> None:
    run(mock_server.base_url, "--name", "plain")
    attempts = Path(os.environ["HARNESS_RUNS_DIR"]) / "plain" / "attempts.jsonl"
    line = msgspec.json.decode(attempts.read_bytes().splitlines()[0])
    decoding = line["request"]["decoding"]
    changes = [
        {},
        {"request": {**line["request"], "decoding": {**decoding, "logprobs": 5}}},
        {"request": {**line["request"], "decoding": {**decoding, "prompt_logprobs": True}}},
        {"request": {**line["request"], "decoding": None}},
        {"request": {**line["request"], "model": ["m"]}},
        {"request": {}},
        {"text": " ", "finish_reason": "stop"},
        {"text": None, "outcome": "error"},
        {"call_id": None},
        {"call_id": "no key"},
        {"v": 99},
    ]
    attempts.write_bytes(b"".join(msgspec.json.encode(line | one) + b"\n" for one in changes))
    with attempts.open("ab") as file:
        file.write(b'{"torn')
    [row] = recorded_replies(attempts.parents[1])
    assert row[0].hex() == line["call_id"]
