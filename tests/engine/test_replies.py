"""A damaged cache is refilled from the attempts of runs."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from harness.config.settings import Settings
from harness.engine.replies import open_cache, recorded_replies, replies_path
from harness.plugins.mock.server import MockServer
from harness.records import Reply
from harness.store.run_folder import RunFolder
from tests.cli.command import harness, on
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


def damage(how: str = "garbled") -> None:
    path = replies_path(Settings())
    for part in path.parent.glob(f"{path.name}-*"):
        part.unlink()
    for earlier in path.parent.glob(f"{path.name}.damaged-*"):
        earlier.unlink()
    if how == "deleted":
        path.unlink()
    elif how == "emptied":
        path.write_bytes(b"")
    else:
        with path.open("r+b") as file:
            file.write(b"\xff" * 100)


def calls(name: str) -> tuple[float, int, int]:
    """Return a run's pass rate, and how many of its calls were made and cached."""
    metrics = json.loads((Settings().runs_dir / name / "metrics.json").read_bytes())
    return metrics["overall"]["pass_rate"], metrics["n_calls"], metrics["n_cached_calls"]


ANSWERS = """
task:
  rows: [{id: a, question: What, target: right}, {id: b, question: Who, target: right}]
  prompt: '{{ question }}'
  checks: [contains]
model: {backend: openai, name: m, base_url: URL, price: {input: 1.0, output: 10.0}}
decoding: {max_tokens: 20}
"""


@pytest.fixture
def answers(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """A run file, and a list whose last element the server of its model answers with."""
    texts = ["right"]
    with MockServer(answers=lambda *_: texts[-1]) as server:
        file = tmp_path / "answers.yaml"
        file.write_text(ANSWERS.replace("URL", server.base_url))
        yield str(file), texts


def run_file(file: str, *options: str, env: dict[str, str] | None = None) -> None:
    ended = harness("run", file, "--yes", *options, env=env)
    assert ended.returncode == 0, ended.stderr


def test_replies_of_a_local_server_elsewhere_are_not_restored(
    answers: tuple[str, list[str]], tmp_path: Path
) -> None:
    """A loopback address stands for another server on a colleague's machine."""
    file, texts = answers
    elsewhere = tmp_path / "elsewhere"
    texts.append("wrong")
    env = on(elsewhere, HARNESS_CACHE_DIR=str(tmp_path / "other cache"))
    run_file(file, "--name", "acolleague", env=env)
    texts.append("right")
    run_file(file, "--name", "p")
    runs = Settings().runs_dir
    shutil.copytree(elsewhere / "acolleague", runs / "acolleague")
    damage()
    run_file(file, "--name", "x")
    assert calls("x") == (1.0, 2, 2)
    shutil.rmtree(runs / "p")
    shutil.rmtree(runs / "x")
    damage()
    run_file(file, "--name", "y")
    assert calls("y") == (1.0, 2, 0), "paid for, rather than another server's"


def test_replies_of_a_public_server_are_restored_after_those_of_own_runs(
    answers: tuple[str, list[str]], tmp_path: Path
) -> None:
    file, texts = answers
    runs = Settings().runs_dir
    for name in ("own", "foreign"):
        texts.append(name)
        env = on(tmp_path / name, HARNESS_CACHE_DIR=str(tmp_path / f"cache of {name}"))
        run_file(file, "--name", name, env=env)
        config = tmp_path / name / name / "config.yaml"
        url = re.search(r"base_url: (\S+)", config.read_text())
        assert url
        config.write_text(config.read_text().replace(url[1], "https://api.example.com/v1"))
        shutil.copytree(tmp_path / name / name, runs / name)
    foreign = [msgspec.msgpack.decode(row[1])["text"] for row in recorded_replies(runs)]
    assert foreign == ["foreign", "foreign", "own", "own"], "by name"
    manifest = runs / "own" / "manifest.json"
    content = json.loads(manifest.read_bytes())
    content["place"] = RunFolder(runs, "own").first_account()
    manifest.write_text(json.dumps(content))
    rows = [msgspec.msgpack.decode(row[1])["text"] for row in recorded_replies(runs)]
    assert rows == ["own", "own", "foreign", "foreign"]


@pytest.mark.parametrize("how", ["mv", "--fresh", "merge"])
def test_a_renamed_run_is_still_ones_own(answers: tuple[str, list[str]], how: str) -> None:
    file, _ = answers
    runs = Settings().runs_dir
    if how == "merge":
        for shard in ("1/2", "2/2"):
            run_file(file, "--name", "p", "--shard", shard)
        assert harness("merge", "p").returncode == 0
        for part in runs.glob("p-*"):
            shutil.rmtree(part)
    else:
        run_file(file, "--name", "p")
    if how == "mv":
        assert harness("mv", "p", "q").returncode == 0
    if how == "--fresh":
        run_file(file, "--name", "p", "--fresh")
        [dated] = runs.glob("p-2*")
        shutil.rmtree(dated)
    damage()
    run_file(file, "--name", "x")
    assert calls("x") == (1.0, 2, 2)


def test_edited_lines_are_not_restored(answers: tuple[str, list[str]]) -> None:
    file, _ = answers
    run_file(file, "--name", "p")
    attempts = Settings().runs_dir / "p" / "attempts.jsonl"
    lines = attempts.read_text().splitlines(keepends=True)
    edited = lines[0].replace('"text":"right"', '"text":"wrong"')
    huge = re.sub(r'"input_tokens":\d+', f'"input_tokens":{2**80}', lines[1])
    assert edited != lines[0]
    assert huge != lines[1]
    attempts.write_text(edited + huge)
    damage()
    run_file(file, "--name", "x")
    assert calls("x") == (1.0, 2, 0)


@pytest.mark.parametrize("how", ["garbled", "emptied", "deleted"])
@pytest.mark.parametrize("budget", [(), ("-o", "budget.usd=1.0")], ids=["no cap", "cap"])
def test_what_a_lost_cache_had_outlives_a_deleted_run(
    answers: tuple[str, list[str]], how: str, budget: tuple[str, ...]
) -> None:
    file, _ = answers
    run_file(file, "--name", "p", *budget)
    paid = json.loads((Settings().runs_dir / "p" / "metrics.json").read_bytes())["paid_usd"]
    damage(how)
    ended = harness("rm", "p", "--yes")
    assert ended.returncode == 0, ended.stderr
    assert "The cache keeps their paid replies" in ended.stderr
    with open_cache(Settings()) as cache:
        kept = cache.payments_of(RunFolder(Settings().runs_dir, "p").first_account())
    assert sum(kept.values()) == pytest.approx(paid)
    run_file(file, "--name", "p", *budget)
    assert calls("p") == (1.0, 2, 2)


def test_rm_names_the_replies_that_the_cache_lacks(answers: tuple[str, list[str]]) -> None:
    """The user has deleted them: they are not saved again."""
    file, _ = answers
    run_file(file, "--name", "p")
    assert harness("cache", "prune", "--all", "--yes").returncode == 0
    ended = harness("rm", "p")
    assert "The cache lacks the replies to 2 calls" in ended.stderr
    ended = harness("rm", "p", "--yes")
    assert "The cache lacks the replies to 2 calls: a new run pays for them again." in ended.stderr
    assert "keeps their paid replies" not in ended.stderr
    run_file(file, "--name", "p")
    assert calls("p") == (1.0, 2, 0)
