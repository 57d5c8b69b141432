"""A user edits a check of a run that was paid for, and continues it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.config.settings import Settings
from harness.engine.preparation import prepare
from harness.engine.run_files import read_runs
from harness.execution import set_code_permission
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from harness.plugins.rescoring.rescorer import rescore
from tests.cli.command import harness, mistake
from tests.installed import install_plugin

CHECK = """
def check(text: str, most: int = {most}) -> str:
    return "" if len(text) <= most else f"{{len(text)}} characters, at most {{most}}"
"""


def said(ask: MockRequest, _: int) -> str:
    if ask.model == "judge":
        return "yes" if "xxx" in ask.prompt else "no"
    return "x" * len(ask.prompt.partition("?")[0])


class Study:
    """A run file, rows and a check in a folder, and the server that answers."""

    def __init__(self, folder: Path, server: MockServer) -> None:
        self.folder, self.server = folder, server
        self.rows = [{"id": str(n), "prompt": f"{'q' * n}?"} for n in range(1, 9)]
        self.tree: dict[str, Any] = {
            "task": {"name": "jsonl", "path": "rows.jsonl", "checks": ["./check.py"]},
            "model": {"backend": "openai", "name": "m", "base_url": server.base_url},
        }
        self.write(most=4)

    def write(self, most: int) -> None:
        (self.folder / "check.py").write_text(CHECK.format(most=most))
        (self.folder / "rows.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in self.rows))
        (self.folder / "mine.yaml").write_text(json.dumps(self.tree))

    def run(self, *options: str, verb: str = "run") -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"HARNESS_RUNS_DIR": "runs", "OPENAI_API_KEY": "k"}
        named = "mine.yaml" if verb == "run" else "mine"
        return harness(verb, named, *options, cwd=self.folder, env=environment)

    def passes(self) -> int:
        found = json.loads((self.folder / "runs/mine/metrics.json").read_text())
        assert found["overall"]["n"] == len(self.rows)
        return round(found["overall"]["pass_rate"] * len(self.rows))


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    with MockServer(answers=said) as server:
        yield Study(tmp_path, server)


def finished(ended: subprocess.CompletedProcess[str]) -> str:
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


def test_an_edited_check_scores_the_paid_answers_again_and_the_run_goes_on(study: Study) -> None:
    finished(study.run("--limit", "3"))
    study.write(most=6)
    refused = mistake(study.run())
    assert "The run 'mine' was made with another version of ./check.py." in refused
    assert "To score its answers again and continue with them: --rescore." in refused
    told = finished(study.run("--rescore"))
    assert "3 recorded answers were scored again: " in told
    assert study.passes() == 6
    assert study.server.stats().requests == 8
    finished(study.run())
    manifest = json.loads((study.folder / "runs/mine/manifest.json").read_text())
    assert manifest["sessions"][1]["rescored"]["attempts"] == 3
    assert study.server.stats().requests == 8


def test_a_run_of_an_earlier_version_continues_with_a_note_that_its_check_is_not_compared(
    study: Study,
) -> None:
    finished(study.run("--limit", "3"))
    manifest = study.folder / "runs/mine/manifest.json"
    manifest.write_text(manifest.read_text().replace('"code/./check.py', '"./check.py'))
    study.write(most=5)
    told = " ".join(finished(study.run("--limit", "4")).split())
    assert "hashed code differently: a change of ./check.py since then is not noticed" in told
    assert "hashed code" not in finished(study.run("--limit", "5"))
    study.write(most=6)
    assert "another version of ./check.py" in mistake(study.run())


def test_after_harness_score_the_run_goes_on(study: Study) -> None:
    finished(study.run("--limit", "3"))
    study.write(most=1)
    scored = study.run(verb="score")
    assert "Changed since the run: ./check.py" in scored.stderr
    assert "To continue the run with these scores, run its run file again." in scored.stderr
    finished(study.run())
    assert study.passes() == 1
    study.write(most=2)
    assert "--rescore" in mistake(study.run()), "these scores are older than the check"


KILLING_CHECK = """
import os
from pathlib import Path

def check(text: str) -> bool:
    if str(len(text)) in Path("kill").read_text().split() and "x" in text:
        os.kill(os.getpid(), 9)
    return len(text) != 2
"""


def attempts_of(study: Study) -> Path:
    return study.folder / "runs" / "mine" / "attempts.jsonl"


def process(study: Study, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HARNESS_RUNS_DIR": "runs", "OPENAI_API_KEY": "k"}
    command = [sys.executable, "-m", "harness", *words]
    return subprocess.run(
        command, cwd=study.folder, env=environment, capture_output=True, text=True, check=False
    )


def cut_last_line(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


@pytest.mark.parametrize("killed", [True, False])
def test_lost_new_scores_are_made_again(study: Study, killed: bool) -> None:
    """Otherwise, the earlier scores of the answers would count again."""
    finished(study.run("--limit", "3"))
    (study.folder / "check.py").write_text(KILLING_CHECK)
    (study.folder / "kill").touch()
    if killed:
        lines = attempts_of(study).read_bytes().splitlines()
        answered = {json.loads(line)["instance"] for line in lines}
        later = [row["id"] for row in study.rows if row["id"] not in answered]
        (study.folder / "kill").write_text(" ".join(later))
        assert process(study, "run", "mine.yaml", "--rescore").returncode == -9
        (study.folder / "kill").write_text("")
    else:
        finished(study.run("--rescore", "--limit", "3"))
    assert len(attempts_of(study).read_bytes().splitlines()) > 3
    cut_last_line(attempts_of(study))
    shown = process(study, "show", "mine")
    assert "INCOMPLETE" in shown.stdout
    assert re.search("a part of (attempts.jsonl|the file) is lost", shown.stderr)
    assert "3 recorded answers were scored again" in finished(study.run())
    assert study.passes() == 7
    assert not process(study, "show", "mine").stderr


def test_scores_of_two_versions_are_noticed(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process was killed after the new scores were written, and before the manifest was."""
    finished(study.run())
    assert study.passes() == 4
    study.write(most=6)
    monkeypatch.chdir(study.folder)
    _, runs = read_runs("mine.yaml")
    settings = Settings(runs_dir=Path("runs"), cache_dir=Path("cache"), data_dir=Path())
    with set_code_permission("allowed"):
        rescore(prepare(runs[""], "mine", settings, rescore=True))
    cut_last_line(attempts_of(study))
    problem = "may have scores by two versions of the checks. To score all answers again"
    shown = process(study, "show", "mine")
    assert "INCOMPLETE" in shown.stdout
    assert problem in " ".join(shown.stderr.split())
    assert "--rescore" in mistake(study.run())
    finished(study.run("--rescore"))
    assert study.passes() == 6
    assert not process(study, "show", "mine").stderr


@pytest.mark.parametrize("how", ["options", "target"])
def test_options_of_a_check_and_targets_may_change_too(study: Study, how: str) -> None:
    checks: list[Any] = [{"./check.py": {"most": 5}}]
    if how == "target":
        study.rows = [{**row, "target": "xx"} for row in study.rows]
        checks = ["exact_match"]
    study.tree["task"]["checks"] = checks
    study.write(most=0)
    finished(study.run())
    assert study.passes() == (5 if how == "options" else 1)
    if how == "target":
        study.rows = [{**row, "target": "x" * int(row["id"])} for row in study.rows]
    else:
        study.tree["task"]["checks"] = [{"./check.py": {"most": 7}}]
    study.write(most=0)
    assert "--rescore" in mistake(study.run())
    finished(study.run("--rescore"))
    assert study.passes() == (7 if how == "options" else 8)
    assert study.server.stats().requests == 8


def test_the_verdicts_combine_the_new_scores_with_the_recorded_judgements(study: Study) -> None:
    study.tree["task"]["checks"] = ["./check.py", {"judge": "long", "criteria": ["It is long."]}]
    model = study.tree["model"] | {"name": "judge"}
    study.tree["judges"] = [{"name": "yes_no", "as": "long", "model": model}]
    study.write(most=0)
    finished(study.run())
    asked = study.server.stats().requests
    study.write(most=9)
    scored = study.run(verb="score").stdout
    assert re.search(r"false → true +6 *\n", scored)
    assert "0 of 8, now 6 of 8" in scored
    assert "8 recorded answers were scored again: 6 verdicts changed" in finished(study.run())
    assert study.passes() == 6
    assert study.server.stats().requests == asked
    assert re.search(r"changed +0 *\npassed +6 of 8", study.run(verb="score").stdout)


def test_changed_values_of_a_numeric_score_are_counted(study: Study) -> None:
    check = "def check(text: str) -> float:\n    return min(len(text), {most}) / 10\n"
    (study.folder / "check.py").write_text(check.format(most=4))
    finished(study.run())
    (study.folder / "check.py").write_text(check.format(most=6))
    told = finished(study.run("--rescore"))
    assert "again: 0 verdicts changed, and scores of 4 answers." in told
    assert study.server.stats().requests == 8


def test_a_sample_that_gets_another_round_after_rescoring_is_counted_once(study: Study) -> None:
    study.tree["task"]["checks"] = ["./check.py", {"judge": "long", "criteria": ["It is long."]}]
    model = study.tree["model"] | {"name": "judge"}
    study.tree["judges"] = [{"name": "yes_no", "as": "long", "model": model}]
    study.tree["rounds"] = {"max": 2}
    study.write(most=0)
    assert "samples 8/8" in finished(study.run())
    study.write(most=9)
    told = finished(study.run("--rescore"))
    assert "mine: 16 recorded answers were scored again: " in told
    assert "samples 8/8" in told


def test_another_prompt_or_another_model_is_another_run(study: Study) -> None:
    finished(study.run())
    study.rows[0]["prompt"] = "Another?"
    study.write(most=4)
    lines = (study.folder / "runs/mine/attempts.jsonl").read_bytes()
    refused = mistake(study.run("--rescore"))
    assert "cannot be scored again: the prompt of '1' has changed." in refused
    assert (study.folder / "runs/mine/attempts.jsonl").read_bytes() == lines
    study.rows = study.rows[1:]
    study.write(most=4)
    assert "some of its instances are not in the data" in mistake(study.run("--rescore"))
    other = study.run("--rescore", "-o", "model.name=other")
    assert "--rescore" not in mistake(other)
    study.tree["task"]["prompt"] = "{{ prompt }}!"
    study.write(most=4)
    assert "--rescore" not in mistake(study.run())


def test_rounds_that_followed_other_feedback_are_asked_again_and_no_others(study: Study) -> None:
    study.tree["rounds"] = {"max": 2}
    study.write(most=4)
    finished(study.run())
    assert study.server.stats().requests == 8 + 4
    study.write(most=6)
    told = finished(study.run("--rescore"))
    assert "8 recorded answers" not in told
    assert "12 recorded answers were scored again" in told
    assert "4 later rounds followed other feedback" in told
    assert study.server.stats().requests == 8 + 4 + 2
    index = json.loads((study.folder / "runs/mine/metrics.json").read_text())
    assert index["rounds"]["n"] == {"1": 8, "2": 2}


TASK = """
    from harness.plugin import Task
    from harness.records import Instance, Message, Score

    class Echo(Task):
        on_truncated = "fail"

        def __init__(self, path: str = ""):
            pass

        def instances(self):
            yield Instance("a", "{data}")

        def fingerprint(self):
            return {{"rows": "{data}", "wording": "{prompt}"}}

        def messages(self, instance, shots):
            return (Message("user", "{prompt}"),)

        def score(self, instance, text):
            return {{"right": Score(True, True)}}

        def feedback(self, instance, text, scores):
            return ""

        def reference(self, instance):
            return instance.data
    """


@pytest.mark.parametrize(("changed", "rescorable"), [("data", True), ("prompt", False)])
def test_a_task_of_another_package_offers_to_score_again_only_with_the_same_prompts(
    tmp_path: Path, changed: str, rescorable: bool
) -> None:
    tree = {"task": {"name": "echo", "path": ""}, "model": {"backend": "simulated"}}
    (tmp_path / "mine.yaml").write_text(json.dumps(tree))
    words = {"data": "yes", "prompt": "Say yes."}
    ended = []
    for site in ("before", "after"):
        install_plugin(tmp_path / site, TASK.format(**words), {"tasks": {"echo": "Echo"}})
        environment = {"HARNESS_RUNS_DIR": "runs", "PYTHONPATH": str(tmp_path / site)}
        ended.append(harness("run", "mine.yaml", cwd=tmp_path, env=os.environ | environment))
        words[changed] = "Say no."
    assert ended[0].returncode == 0, ended[0].stderr
    refused = mistake(ended[1])
    assert "The run 'mine' was made with another version of" in refused
    assert ("--rescore" in refused) == rescorable
