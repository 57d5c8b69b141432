"""The GitHub action: its steps are run by bash as GitHub does, with a `gh` that only records."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness
from tests.conftest import ROOT
from tests.rows import QUICKSTART

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = ACTION["runs"]["steps"]
EXPRESSION = re.compile(r"\$\{\{ *([^}]*?) *\}\}")
GH = """#!/bin/sh
printf '%s\\n' "$*" >> "$LOG"
case "$*" in
  *--jq*) [ "$GH_TOKEN" = good ] || exit 1; echo "$FOUND" ;;
esac
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name in ("quickstart", "other"):
        asked = ("run", QUICKSTART, "--limit", "52", "--name", name)
        ended = harness(*asked, env=os.environ | variables(folder))
        assert ended.returncode == 0, ended.stderr
    return folder


def variables(runs: Path) -> dict[str, str]:
    return {"HARNESS_RUNS_DIR": str(runs)}


class Job:
    """A job on a pull request that uses the action."""

    def __init__(self, folder: Path, runs: Path, found: str = "", **given: str) -> None:
        bin_ = folder / "bin"
        bin_.mkdir()
        (bin_ / "gh").write_text(GH)
        (bin_ / "gh").chmod(0o755)
        own = str(Path(sys.executable).parent)
        self.folder, self.log = folder, folder / "gh.log"
        self.environment = variables(runs) | {
            "PATH": f"{bin_}:{own}:{os.environ['PATH']}", "HOME": str(folder), "FOUND": found,
            "LOG": str(self.log), "GITHUB_REPOSITORY": "us/ours",
            "GITHUB_OUTPUT": str(folder / "output"), "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        }  # fmt: skip
        defaults = {name: one.get("default", "") for name, one in ACTION["inputs"].items()}
        inputs = {**defaults, "token": "good", **given}
        self.values = {f"inputs.{name}": value for name, value in inputs.items()}
        self.values |= {
            "runner.temp": str(folder),
            "github.event.pull_request.number": "7",
        }
        self.output = ""
        self.failed = [step["name"] for step in STEPS if "run" in step and self.run(step)]

    def run(self, step: dict[str, Any]) -> int:
        more = {
            name: EXPRESSION.sub(lambda found: self.values[found[1]], value)
            for name, value in step.get("env", {}).items()
        }
        ended = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            capture_output=True, text=True, check=False, cwd=self.folder,
            env=self.environment | more,
        )  # fmt: skip
        self.output += ended.stdout + ended.stderr
        if step.get("id") == "check" and (self.folder / "output").exists():
            for line in (self.folder / "output").read_text().splitlines():
                name, _, value = line.partition("=")
                self.values[f"steps.check.outputs.{name}"] = value
        return ended.returncode


def test_a_broken_bound_blocks_and_is_posted(runs: Path, tmp_path: Path) -> None:
    job = Job(tmp_path, runs, run="quickstart", min="pass_rate=0.5\n  pass_rate=0.99 ")
    assert job.failed == ["Block"], job.output
    assert "::error::harness check: failed." in job.output
    summary = (tmp_path / "summary").read_text()
    assert summary.startswith("**quickstart: failed")
    assert 'failures="1"' in (tmp_path / "harness-check.xml").read_text()
    comment = (tmp_path / "harness-check.md.comment").read_text()
    assert comment == f"<!-- harness check quickstart -->\n{summary}"
    _, posted = job.log.read_text().splitlines()
    assert posted.startswith("api --silent repos/us/ours/issues/7/comments -F body=@")


def test_too_few_may_pass_and_a_comment_is_replaced(runs: Path, tmp_path: Path) -> None:
    given = {"run": "quickstart", "min": "pass_rate=0.83", "too-few": "pass"}
    job = Job(tmp_path, runs, found="12\n34", **given)
    assert job.failed == [], job.output
    summary = (tmp_path / "summary").read_text()
    assert summary.startswith("**quickstart: too few to tell, which counts as passed")
    assert 'skipped="1"' in (tmp_path / "harness-check.xml").read_text()
    assert "-X PATCH repos/us/ours/issues/comments/12 -F" in job.log.read_text()


def test_several_runs_and_maximums(runs: Path, tmp_path: Path) -> None:
    given = {
        "run": "  quickstart\n\nother \n",
        "min": "pass_rate=0.5",
        "max": "cost=1 pass_rate=0.99",
    }
    job = Job(tmp_path, runs, **given)
    assert job.failed == [], job.output
    assert (tmp_path / "summary").read_text().startswith("**2 runs: passed")
    assert "harness check quickstart_other" in (tmp_path / "harness-check.md.comment").read_text()


def test_too_few_blocks_by_default(runs: Path, tmp_path: Path) -> None:
    job = Job(tmp_path, runs, run="quickstart", min="pass_rate=0.83")
    assert job.failed == ["Block"]
    assert "::error::harness check: too few to tell." in job.output


def test_a_mistake_blocks_and_no_value_is_code(runs: Path, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    code = f'$(touch {touched})`touch {touched}`"; touch {touched}; #'
    given = dict.fromkeys(("run", "baseline", "score", "by", "max", "too-few"), code)
    job = Job(tmp_path, runs, token="bad", **given, **{"min": f"*={code}", "max-drop": "0.1"})
    assert job.failed == ["Block"]
    assert "::error::harness check: error." in job.output
    assert "::warning::The decision could not be posted" in job.output
    assert "**harness check failed**" in (tmp_path / "summary").read_text()
    assert not touched.exists()


def test_every_input_is_used_and_no_script_has_an_expression() -> None:
    used = EXPRESSION.findall(str(STEPS)) + [step.get("if", "") for step in STEPS]
    found = {name for text in used for name in re.findall(r"inputs\.([\w-]+)", text)}
    assert found == set(ACTION["inputs"])
    assert not any("${{" in step.get("run", "") for step in STEPS)
    assert all(one["description"] for one in [*ACTION["inputs"].values(), ACTION])


def documented_steps() -> list[dict[str, Any]]:
    page = (ROOT / "docs/check.md").read_text()
    [text] = re.findall(r"```yaml\n(# \.github/.*?)```", page, re.DOTALL)
    steps: list[dict[str, Any]] = yaml.safe_load(text)["jobs"]["quality"]["steps"]
    return steps


def test_the_documented_workflow_uses_its_inputs() -> None:
    [own] = [step for step in documented_steps() if step.get("uses") == "OWNER/harness@main"]
    assert set(own["with"]) <= set(ACTION["inputs"])


def scripts(of: str) -> str:
    [found] = [step["run"] for step in documented_steps() if of in step.get("run", "")]
    return str(found)


@pytest.mark.exhaustive
def test_in_the_documented_workflow_the_gate_decides_on_failed_calls(tmp_path: Path) -> None:
    runs, environment = tmp_path / "runs", os.environ | {"HARNESS_CACHE_DIR": str(tmp_path)}
    own = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def bash(script: str, path: str = own) -> int:
        more = {"PATH": path, "HARNESS_RUNS_DIR": str(runs), "OPENAI_API_KEY": "key"}
        arguments = ["bash", "-e", "-c", script]
        return subprocess.run(
            arguments, check=False, cwd=tmp_path, env=environment | more
        ).returncode

    with MockServer(faults={"400": 0.5}) as server:
        model = {"backend": "openai", "name": "tested", "base_url": server.base_url}
        rows = [{"prompt": f"Say {n}.", "target": str(n)} for n in range(30)]
        tree = {"task": {"rows": rows, "checks": ["contains"]}, "model": model}
        (tmp_path / "quality.yaml").write_text(yaml.safe_dump(tree))
        assert bash("harness run quality.yaml") == 1
        assert bash(scripts("harness run")) == 0
    given = {"run": "quality", "min": "pass_rate=0"}
    for share, failed in (("0", ["Block"]), ("1", [])):
        folder = tmp_path / share
        folder.mkdir()
        assert Job(folder, runs, **given, **{"max-unjudged": share}).failed == failed
    assert bash(scripts("harness report")) == 0
    assert (runs / "quality" / "report.html").exists()
    (tmp_path / "harness").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "harness").chmod(0o755)
    assert bash(scripts("harness run"), f"{tmp_path}:{own}") != 0
