"""The measure and filter of the example plug-in, in a build."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.command import harness, mistake
from tests.plugins.builders.collie.corpus import write_corpus
from tests.test_example_plugin import PACKAGE, install_example, run_file


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    install_example(tmp_path / "site")
    return os.environ | {"PYTHONPATH": str(tmp_path / "site"), "HARNESS_RUNS_DIR": str(tmp_path)}


def test_its_measure_and_filter_build_a_benchmark_that_runs(
    environment: dict[str, str], tmp_path: Path
) -> None:
    write_corpus(tmp_path / "text", documents=12, characters=6_000)
    source = tmp_path / "source.yaml"
    source.write_text(
        f"name: own\nload: {{name: text, path: {tmp_path / 'text'}}}\n"
        "filters: [{name: shrugs, word: rain}, no_sentence]\n"
        "post_processors: [single_newlines]\n"
    )
    ended = harness(
        "build", "collie", "--structures", PACKAGE / "primes.yaml", "--source", source,
        "--out", tmp_path / "primes", env=environment,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    file = tmp_path / "primes" / "instances.jsonl"
    built = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(built) > 5
    assert "a prime number of words" in built[0]["prompt"]
    for row in built:
        _, letter, least = row["targets"]
        ends = "".join(mark if mark in ".!?" else " " for mark in row["example"]).count
        assert sum(map(ends, ".!?")) >= least
        assert letter not in row["example"].lower()
        assert "rain" not in row["example"].lower()

    asked = run_file(
        tmp_path, f"task: {{name: collie, dataset: {file}}}\nmodel: {{backend: simulated}}\n"
    )
    ended = harness("run", asked, "-o", "model.accuracy=0.5", env=environment)
    assert ended.returncode == 0, ended.stderr
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_bytes())
    assert len(manifest["fingerprint"]["measure_sha256/prime"]) == 64
    lines = (tmp_path / "run" / "attempts.jsonl").read_bytes().splitlines()
    golds = {row["id"]: row["example"] for row in built}
    for attempt in map(json.loads, lines):
        assert attempt["passed"] or attempt["text"] != golds[attempt["instance"]]
    assert {attempt["passed"] for attempt in map(json.loads, lines)} == {True, False}


def test_a_measure_that_is_not_there_is_told(tmp_path: Path) -> None:
    write_corpus(tmp_path / "text", documents=1, characters=500)
    ended = harness(
        "build", "collie", "--structures", PACKAGE / "primes.yaml",
        "--source", tmp_path / "text", "--out", tmp_path / "primes",
    )  # fmt: skip
    assert "no measure named 'prime'" in mistake(ended)
