"""A third party's package, installed by pip, adds a part of each kind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.command import harness

PACKAGE = Path(__file__).parent / "example_plugin"


def install_example(folder: Path) -> None:
    """Install the example with pip into a folder."""
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--no-deps", "--no-build-isolation", "--no-index", "--target", folder, PACKAGE],
        check=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip has installed the example."""
    folder = tmp_path_factory.mktemp("site")
    install_example(folder)
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
    assert "Check them ('harness docs plugins')" in last


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
