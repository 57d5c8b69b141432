"""A third party's package, installed by pip, adds a part of each kind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.command import harness, mistake
from tests.plugins.builders.collie.corpus import write_corpus

PACKAGE = Path(__file__).parent / "example_plugin"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip has installed the example."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--no-deps", "--no-build-isolation", "--no-index", "--target", folder, PACKAGE],
        check=True,
    )  # fmt: skip
    return folder


@pytest.fixture
def environment(site: Path, tmp_path: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(site), "HARNESS_RUNS_DIR": str(tmp_path)}


def run_file(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text)
    return path


def test_a_run_on_its_task_and_backend(environment: dict[str, str], tmp_path: Path) -> None:
    file = run_file(tmp_path, "task: {name: spelling}\nmodel: {backend: parrot}\n")
    ended = harness("run", file, env=environment)
    assert ended.returncode == 0, ended.stderr
    assert "1.0000" in ended.stdout
    wrong = harness("run", file, "-o", "model.times=2", "--name", "wrong", env=environment)
    assert "0.0000" in wrong.stdout


def test_its_options_are_checked_like_any(environment: dict[str, str], tmp_path: Path) -> None:
    file = run_file(tmp_path, "task: {name: spelling, shuot: true}\nmodel: {backend: parrot}\n")
    assert "Did you mean 'shout'?" in harness("run", file, env=environment).stderr
    file = run_file(tmp_path, "task: {name: spelling}\nmodel: {backend: parot}\n")
    assert "Did you mean 'parrot'?" in harness("run", file, env=environment).stderr


def test_an_exception_names_the_plug_ins_in_use(
    environment: dict[str, str], tmp_path: Path
) -> None:
    broken = "task: {name: spelling, score_fails: true}\nmodel: {backend: parrot}\n"
    ended = harness("run", run_file(tmp_path, broken), env=environment)
    assert ended.returncode == 1
    last = ended.stderr.strip().splitlines()[-1]
    assert "plug-ins in use: backend 'parrot' (harness-example), " in last
    assert "task 'spelling' (harness-example)" in last
    assert "harness.testing" in last


def loaded(site: Path, script: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize(
    ("kind", "name", "probe"),
    [
        ("checkers", "shouting", "build('shouting', {'share': .5}).check('HEy', None).passed"),
        ("judges", "politeness", "build('politeness', {}).questions(None, 'x')[0].samples == 1"),
    ],
)
def test_its_checker_and_judge_come_in_by_the_same_door(
    site: Path, kind: str, name: str, probe: str
) -> None:
    script = (
        "from harness.plugin_loader import kind\n"
        f"assert {name!r} in kind({kind!r}).names()\nprint(kind({kind!r}).{probe})"
    )
    assert loaded(site, script).strip() == "True"


def test_its_judge_decides_what_passes_and_what_is_sent_back(
    environment: dict[str, str], tmp_path: Path
) -> None:
    def answer(ask: MockRequest, _: int) -> str:
        return "No." if "\nrhythm\n" in ask.prompt else "Yes."

    with MockServer(answers=answer) as server:
        text = (
            "{task: {name: spelling}, model: {backend: parrot}, rounds: {max: 2}, judges: "
            "[{name: politeness, as: kind, model: {backend: openai, name: j, "
            f'base_url: "{server.base_url}"}}}}]}}'
        )
        ended = harness(
            "run", run_file(tmp_path, text), env=environment | {"OPENAI_API_KEY": "none"}
        )
    assert ended.returncode == 0, ended.stderr
    lines = (tmp_path / "run" / "attempts.jsonl").read_bytes().splitlines()
    found = {(a["instance"], a["round"]): a for a in map(json.loads, lines)}
    assert set(found) == {
        ("necessary", 1), ("rhythm", 1), ("rhythm", 2), ("accommodate", 1)
    }  # fmt: skip
    assert found["rhythm", 1]["feedback"] == "The answer does not pass for 'polite'."
    assert all(attempt["passed"] for (_, number), attempt in found.items() if number == 1)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_bytes())
    assert metrics["rounds"]["each"]["1"] == pytest.approx(2 / 3)
    assert metrics["overall"]["pass_rate"] == pytest.approx(2 / 3)


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
