"""The pytest plug-in, in a project of its own."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from harness.plugins.mock.server import MockServer
from tests.rows import TASK

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PLUGIN = PROJECT["entry-points"]["pytest11"]["harness"]

CONFIG = """
[tool.pytest.ini_options]
addopts = "-q -rA -p no:cacheprovider"
filterwarnings = ["error"]
"""
RUN_FILE = (
    TASK
    + """\
model: {backend: simulated, accuracy: 1.0}
limit: 26
samples: 2
check: {min: {pass_rate: 0.5}}
variants:
  good: {}
  bad: {model.accuracy: 0.1, check: {baseline: quality.good, max_drop: 0.05}}
  few: {model.accuracy: 0.6}
"""
)
TESTS = """
import harness

def test_passes(harness_run):
    run = harness_run("quality.yaml", variant="good")
    assert run.check()
    assert run.check({"pass_rate": 0.6}, by="structure").outcome == "too few to tell"

def test_fails(harness_run):
    assert harness_run("quality.yaml", variant="bad").check({"pass_rate": 0.9})
"""
UNUSED = """
import sys

def test_nothing_of_the_harness_was_imported():
    found = {name for name in sys.modules if name.partition(".")[0] == "harness"}
    assert found == {"harness", "harness.plugins", "harness.plugins.pytest"}
    assert "numpy" not in sys.modules
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    files = {
        "pyproject.toml": CONFIG,
        "quality.yaml": RUN_FILE,
        "unnamed.yaml": "not: a run file",
        "wrong.yaml": RUN_FILE.replace("samples", "sampels"),
        "unbounded.yaml": RUN_FILE.replace("check: {min: {pass_rate: 0.5}}", ""),
        "test_fixture.py": TESTS,
        "test_unused.py": UNUSED,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def ran(project: Path, *arguments: str) -> tuple[int, str]:
    """Run pytest with the plug-in; return its exit code and output."""
    folders = {f"HARNESS_{name}_DIR": str(project / name.lower()) for name in ("RUNS", "CACHE")}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", PLUGIN, *arguments],
        capture_output=True, text=True, check=False, timeout=120, cwd=project,
        env=os.environ | folders | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "300"},
    )  # fmt: skip
    return ended.returncode, ended.stdout + ended.stderr


def test_run_files_are_tests(project: Path) -> None:
    files = ("quality.yaml", "test_fixture.py", "wrong.yaml", "unbounded.yaml")
    code, output = ran(project, "--harness", "--continue-on-collection-errors", *files)
    assert code == 1
    assert "3 failed, 2 passed, 2 errors" in output
    assert "PASSED quality.yaml::good" in output
    assert "FAILED quality.yaml::bad - quality.bad against quality.good: failed: change" in output
    assert "FAILED quality.yaml::few - quality.few: too few to tell: pass_rate 0." in output
    assert "needed to tell) (quality.few: SIMULATED)" in output
    assert "PASSED test_fixture.py::test_passes" in output
    assert "assert quality.bad: failed: pass_rate 0." in output
    assert "ERROR wrong.yaml" in output
    assert "unknown key 'sampels' (did you mean 'samples'?)" in output
    assert "ERROR unbounded.yaml" in output
    assert "There is no bound to check. Set one, such as --harness-min pass_rate=0.9" in output
    assert "What fails: harness show quality.bad --failed" in output
    assert "What fails: harness show quality.few" not in output
    assert "Traceback" not in output


def test_options_replace_the_bounds_of_a_file(project: Path) -> None:
    options = ("--harness-min", "pass_rate=0.55", "--harness-min", "pass@2=0.02")
    options = (*options, "--harness-too-few", "skip")
    code, output = ran(project, "--harness", *options, "unbounded.yaml", "-k", "good or few")
    assert (code, "1 passed, 1 skipped" in output) == (0, True), output
    options = (*options[:-1], "pass", "--harness-max", "cost=1")
    code, output = ran(project, "--harness", *options, "unbounded.yaml", "-k", "good or few")
    assert (code, "2 passed" in output) == (0, True), output
    options = ("--harness-max", "pass_rate=0.1", "unbounded.yaml", "-k", "good")
    code, output = ran(project, "--harness", *options)
    assert (code, "bound ≤ 0.1000" in output) == (1, True), output


APPLICATION = """
task:
  rows: [{prompt: "Say a.", target: a}]
  checks: contains
model: {backend: ./app.py}
check: {min: {pass_rate: 0}, too_few: pass}
"""


def test_a_passing_run_says_if_its_application_was_not_asked(project: Path) -> None:
    (project / "app.py").write_text("def answer(prompt): return 'a'")
    (project / "app.yaml").write_text(APPLICATION)
    note = "The last answer of your application in app is from 20"
    for asked in (True, False):
        code, output = ran(project, "--harness", "app.yaml")
        assert code == 0, output
        assert (note in output) != asked


ROWS = """
task:
  rows: [{prompt: "Say a.", target: a}]
  checks: [exact_match]
model: simulated/1
check: {min: {exact_match: 0}}
"""


def test_an_edited_row_is_answered_with_a_command(project: Path) -> None:
    file = project / "part" / "rows.yaml"
    file.parent.mkdir()
    file.write_text(ROWS)
    code, output = ran(project, "--harness", "--harness-too-few", "pass", "part/rows.yaml")
    assert code == 0, output
    file.write_text(ROWS.replace("Say a.", "Say a!"))
    code, output = ran(project, "--harness", "part/rows.yaml")
    assert (code, "For a new run: harness run part/rows.yaml --fresh." in output) == (1, True)
    assert "fresh=True" not in output


def test_a_bound_on_an_unknown_score_fails_before_any_call(project: Path) -> None:
    (project / "typo.yaml").write_text(ROWS.replace("exact_match: 0", "exactmatch: 0"))
    code, output = ran(project, "--harness", "typo.yaml")
    assert code == 1
    assert "check: 'exactmatch' is not a score" in output
    assert "Did you mean 'exact_match'?" in output
    assert not (project / "runs" / "typo").exists()
    (project / "typo.yaml").write_text(ROWS)
    code, output = ran(project, "--harness", "typo.yaml", "--harness-min", "pas_rate=0.5")
    assert code == 1
    assert "check: 'pas_rate' is not a score" in output
    assert "Did you mean 'pass_rate'?" in output
    assert not (project / "runs" / "typo").exists()


def test_a_run_whose_calls_failed_is_not_skipped(project: Path) -> None:
    with MockServer(faults={"400": 1.0}) as server:
        model = f"{{backend: openai, name: tested, base_url: '{server.base_url}'}}"
        text = f"{TASK}limit: 4\nmodel: {model}\ncheck: {{min: {{pass_rate: 0}}}}\n"
        (project / "broken.yaml").write_text(text)
        code, output = ran(project, "--harness", "--harness-too-few", "skip", "broken.yaml")
    assert (code, "1 failed" in output) == (1, True), output
    assert "4 of 4 samples have no verdict (4 failed calls): run the run file again" in output


@pytest.mark.parametrize("way", ["file", "fixture"])
def test_code_in_a_runs_folder_is_named_also_if_the_test_passes(tmp_path: Path, way: str) -> None:
    folder = tmp_path / "runs" / "foreign"
    folder.mkdir(parents=True)
    for name in ("config.yaml", "manifest.json"):
        (folder / name).write_text("{}")
    executed = tmp_path / "executed"
    code = f"open({str(executed)!r}, 'w')\ndef good(text): return True\n"
    (folder / "foreign.py").write_text(code)
    task = "task: {rows: [{prompt: a, target: a}], checks: [./foreign.py]}\n"
    check = "model: {backend: simulated}\ncheck: {min: {pass_rate: 0}}\n"
    (folder / "mine.yaml").write_text(task + check)
    (tmp_path / "pyproject.toml").write_text(CONFIG)
    text = "def test_it(harness_run): assert harness_run('runs/foreign/mine.yaml', name='own')\n"
    (tmp_path / "test_it.py").write_text(text)
    tests = ("--harness", "runs/foreign/mine.yaml") if way == "file" else ("test_it.py",)

    named = f"UserWarning: Executing {folder / 'foreign.py'}, and what it imports"
    code, output = ran(tmp_path, *tests, "--harness-too-few", "pass")
    assert (code, named in output, executed.exists()) == (1, True, False), output
    code, output = ran(tmp_path, *tests, "--harness-too-few", "pass", "-W", "default")
    assert (code, named in output, executed.exists()) == (0, True, True), output


def test_a_session_that_does_not_use_it_is_not_touched(project: Path) -> None:
    code, output = ran(project, "test_unused.py", ".", "--deselect", "test_fixture.py")
    assert (code, "1 passed, 2 deselected" in output) == (0, True), output
