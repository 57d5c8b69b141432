"""Shards whose attempts were lost are not merged."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.plugins.mock.server import MockServer
from tests.cli.command import QUICK, harness, mistake, on
from tests.cli.test_manage import cut, emptied


def copied(path: Path) -> None:
    """The file is that of the other shard."""
    shutil.copy(path.parents[1] / "first-1of2" / path.name, path)


@pytest.mark.parametrize("damage", [emptied, cut, Path.unlink, copied])
def test_lost_attempts_are_not_merged(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    env = on(tmp_path / "runs")
    for shard in ("1/2", "2/2"):
        assert harness(*QUICK, "first", "--shard", shard, env=env).returncode == 0
    damage(tmp_path / "runs" / "first-2of2" / "attempts.jsonl")
    problem = "line is from another run" if damage is copied else "lacks at least"
    assert problem in mistake(harness("merge", "first", env=env))


@pytest.mark.parametrize("caching", ["run", False, "shared"])
def test_lost_attempts_of_a_merged_run_are_not_paid_again(
    tmp_path: Path, caching: str | bool
) -> None:
    """Also if replies are not shared between runs: those of the shards are the merged run's."""
    env = on(tmp_path / "runs") | {"HARNESS_CACHE_DIR": str(tmp_path)}
    with MockServer() as server:
        model = {"backend": "openai", "name": "m", "base_url": server.base_url, "cache": caching}
        rows = [{"q": f"{number}", "target": "a"} for number in range(8)]
        task = {"rows": rows, "prompt": "{{ q }}", "checks": ["contains"]}
        file = {"task": task, "model": model, "samples": 2, "decoding": {"max_tokens": 20}}
        (tmp_path / "mine.yaml").write_text(json.dumps(file))
        command = ["run", str(tmp_path / "mine.yaml"), "--name", "mine"]
        for shard in ("1/2", "2/2"):
            ended = harness(*command, "--shard", shard, env=env)
            assert ended.returncode == 0, ended.stderr
        assert harness("merge", "mine", env=env).returncode == 0
        metrics = tmp_path / "runs" / "mine" / "metrics.json"
        before = json.loads(metrics.read_bytes())
        paid = server.stats().requests
        attempts = tmp_path / "runs" / "mine" / "attempts.jsonl"
        lines = attempts.read_bytes().splitlines(keepends=True)
        attempts.write_bytes(b"".join(lines[:-6]))
        ended = harness(*command, env=env)
        assert ended.returncode == 0, ended.stderr
        assert len(attempts.read_bytes().splitlines()) == len(lines)
        assert server.stats().requests == paid
        after = json.loads(metrics.read_bytes())
        for key in ("n_calls", "n_cached_calls", "paid_usd"):  # of the shards, so of the run
            assert after[key] == before[key]


def test_a_variant_of_which_all_shards_are_lost_is_named(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    variants = ("-o", "variants={good: {}, bad: {model.accuracy: 0.1}}")
    for shard in ("1/2", "2/2"):
        ended = harness(*QUICK, "q", *variants, "--shard", shard, env=on(runs))
        assert ended.returncode == 0, ended.stderr
    for number in (1, 2):
        (runs / f"q-{number}of2.bad").rename(tmp_path / f"{number}")
    said = mistake(harness("merge", "q", env=on(runs)))
    assert "All shards of 'q.bad' are missing" in said
    assert not (runs / "q.good").exists()
    for number in (1, 2):
        (tmp_path / f"{number}").rename(runs / f"q-{number}of2.bad")
    assert harness("merge", "q", env=on(runs)).returncode == 0
    assert harness("check", "q", "--min", "pass_rate=0", env=on(runs)).returncode == 0
