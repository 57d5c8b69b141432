"""Runs of Anthropic's models: broken and ignored streams, and seeds."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness
from tests.cli.test_load import at
from tests.cli.test_providers import MODELS, run_rows
from tests.cli.test_run import attempts, runs

__all__ = ["runs"]


def test_what_arrived_of_a_broken_stream_is_kept_beside_the_error(runs: Path) -> None:
    options = ("model.backend=anthropic", "decoding={max_tokens: 30000}", "limits.attempts=1")
    answer = lambda ask, index: "Snow fell on the town.\n" * 50  # noqa: E731
    faulty = {"faults": {"truncated_body": 1.0}, "fault_on": ["Write: "]}
    with MockServer(answers=answer, **faulty) as server:
        url = f"model.base_url={server.url}"
        ended = harness(*at(server, *options, url, "limit=2"))
        assert ended.returncode == 1, ended.stderr  # no call has an answer
    found = list(attempts(runs, "gpt4").values())
    assert [attempt["outcome"] for attempt in found] == ["error"] * 2
    assert all(attempt["partial"].startswith("Snow fell on the town.") for attempt in found)
    assert all(attempt["text"] is None and "broke" in attempt["error"] for attempt in found)


def test_a_gateway_that_ignores_stream(tmp_path: Path) -> None:
    with MockServer(faults={"no_stream": 1}) as server:
        model = yaml.safe_load(MODELS["anthropic"].replace("URL", server.url))
        _, rows = run_rows(tmp_path, model, decoding={"max_tokens": 30_000, "temperature": None})
        assert server.stats().requests == 3
    assert {row["outcome"] for row in rows.values()} == {"ok"}


def test_another_seed_makes_new_calls_even_if_the_provider_accepts_no_seed(
    runs: Path, tmp_path: Path
) -> None:
    file = tmp_path / "rows.yaml"
    rows = [{"id": f"r{n}", "prompt": f"{n}?", "target": "x"} for n in range(3)]
    task = {"name": "jsonl", "rows": rows, "checks": ["contains"]}
    calls = []
    with MockServer() as server:
        model = {"backend": "anthropic", "name": "m", "base_url": server.url}
        content = {"task": task, "model": model, "decoding": {"max_tokens": 9}}
        file.write_text(json.dumps(content))
        for name, seed in (("one", 1), ("two", 2), ("again", 2)):
            ended = harness("run", file, "--name", name, "-o", f"seed={seed}")
            assert ended.returncode == 0, ended.stderr
            calls.append(server.stats().answered)
    assert calls == [3, 6, 6]
