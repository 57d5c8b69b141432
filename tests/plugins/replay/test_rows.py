"""Recorded answers and a user's own benchmark."""

import json
from pathlib import Path

import msgspec

from tests.cli.command import harness
from tests.cli.test_jsonl import ROWS, environment, written

__all__ = ["environment"]


def test_a_recording_is_judged_by_ones_own_checks(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    answers = tmp_path / "answers.jsonl"
    answers.write_text(
        "".join(
            f"{json.dumps({'instance': str(n + 1), 'rounds': [{'text': f'The answer is w{n}'}]})}\n"
            for n in range(10)
        )
    )
    file = written(tmp_path, [{**row, "most": 9} for row in ROWS])
    model = f"model={{backend: replay, name: m, path: {answers}, match: instance}}"
    ended = harness("run", file, "-o", model, env=environment)
    assert ended.returncode == 0, ended.stderr
    found = msgspec.json.decode((tmp_path / "runs/mine/metrics.json").read_bytes())
    assert found["overall"]["pass_rate"] == 1
