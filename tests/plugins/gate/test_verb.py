"""`harness check`: decisions, exit codes and formats on recorded runs."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from harness.cli.verbs import all_verbs
from harness.plugins.mock.server import MockServer
from tests.cli.command import harness, mistake, words
from tests.cli.test_judges import answer, judge, run_file
from tests.rows import QUICKSTART, TASK
from tests.unsealed import unseal


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for more in ([], ["--model", "simulated/weak", "-o", "model.accuracy=0.1"]):
        ended = harness("run", QUICKSTART, "--limit", "52", *more, env=on(folder))
        assert ended.returncode == 0, ended.stderr
    return folder


def on(runs: Path) -> dict[str, str]:
    return os.environ | {"HARNESS_RUNS_DIR": str(runs)}


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        (["--min", "pass_rate=0.5"], 0, "passed"),
        (["--min", "pass_rate=0.99"], 4, "failed"),
        (["--min", "pass_rate=0.83"], 5, "too few to tell"),
        (["--min", "pass_rate=0.5", "--min", "pass@2=0.995"], 4, "failed"),
        (["--min", "pass_rate=0.5", "--by", "structure"], 5, "too few to tell"),
        (["--baseline", "quickstart.simulated-weak", "--max-drop", "0.02"], 0, "passed"),
    ],
)
def test_the_exit_code_is_the_decision(runs: Path, asked: list[str], code: int, said: str) -> None:
    ended = harness("check", "quickstart", *asked, env=on(runs))
    assert ended.returncode == code, ended.stderr
    assert f": {said}" in ended.stdout
    assert "SIMULATED" in ended.stdout
    assert ("--too-few pass counts this as passed" in ended.stderr) == (code == 5)


def test_a_failed_gate_names_the_command_that_lists_the_failures(runs: Path) -> None:
    ended = harness("check", "quickstart", "--min", "pass_rate=0.99", env=on(runs))
    assert "harness show quickstart --failed" in ended.stdout


def test_a_rate_in_per_cent_is_refused(runs: Path) -> None:
    ended = harness("check", "quickstart", "--min", "pass_rate=90", env=on(runs))
    assert "between 0 and 1" in mistake(ended)
    for score in ("pass_rate", "exact_match"):
        asked = ("--baseline", "quickstart.simulated-weak", "--max-drop", "5", "--score", score)
        assert "write 0.05" in mistake(harness("check", "quickstart", *asked, env=on(runs)))


def test_a_drop_below_the_baseline_fails(runs: Path) -> None:
    asked = ("--baseline", "quickstart", "--max-drop", "0.02")
    ended = harness("check", "quickstart.simulated-weak", *asked, env=on(runs))
    assert ended.returncode == 4
    assert "change of pass_rate" in ended.stdout


def test_how_a_run_differs_from_its_baseline_is_said_in_every_format(runs: Path) -> None:
    asked = ("check", "quickstart", "--baseline", "quickstart.simulated-weak", "--max-drop", "0.02")
    for form in ("table", "markdown", "json", "junit"):
        ended = harness(*asked, "--format", form, env=on(runs))
        assert "model.accuracy" in ended.stdout
    refuse_other_than_junit(ended.stdout)


def test_junit_lists_the_instances_that_broke(tmp_path: Path) -> None:
    """Of 60 rows, the first 30 fail. In the baseline, the first two failed too."""
    (tmp_path / "length.py").write_text("def length(text):\n    return float(len(text))\n")
    rows = [{"id": f"r{n}", "prompt": f"Row {n}.", "groups": {"half": "ab"[n // 30]}}
            for n in range(60)]  # fmt: skip
    for name, first in (("new", 30), ("old", 2)):
        answers = [{"instance": f"r{n}", "rounds": [{"text": "no" if n < first else "yes"}]}
                   for n in range(60)]  # fmt: skip
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, answers)))
        model = {"backend": "replay", "path": f"{name}.jsonl", "match": "instance"}
        checks = [{"regex_match": {"pattern": "yes"}}, "./length.py"]
        task = {"name": "jsonl", "rows": rows, "checks": checks}
        (tmp_path / f"{name}.yaml").write_text(json.dumps({"task": task, "model": model}))
        assert harness("run", tmp_path / f"{name}.yaml", env=on(tmp_path)).returncode == 0

    def listed(*asked: str) -> dict[str, list[str]]:
        ended = harness("check", "new", *asked, "--format", "junit", env=on(tmp_path))
        refuse_other_than_junit(ended.stdout)
        cases = ElementTree.fromstring(ended.stdout).iter("testcase")
        return {
            str(case.get("name")): (case[0].text or "").splitlines()[1:]
            for case in cases
            if len(case)
        }

    first = [f"r{n}" for n in range(20)]
    found = listed(
        "--min", "pass_rate=0.9", "--by", "half", "--min", "length=2.9", "--max", "cost=1"
    )
    for name in ("pass_rate", "pass_rate a", "length", "length a"):
        assert found.pop(name) == [*first, "and 10 more"]
    assert found == {"pass_rate b": [], "length b": []}  # too few to tell
    assert listed("--min", "length=3") == {"length": [*first, "and 10 more"]}  # 3 is no failure
    dropped = listed("--baseline", "old", "--max-drop", "0.1")
    assert dropped == {"change of pass_rate": [*[f"r{n}" for n in range(2, 22)], "and 8 more"]}
    assert listed("--max", "regex_match=0.1")["regex_match"][0] == "r30"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A folder with the runs `strict` and `lenient`: the same 20 answers, with different checks."""
    answers = [{"instance": str(n), "rounds": [{"text": "yes" if n % 2 else "no"}]}
               for n in range(20)]  # fmt: skip
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)))
    model = {"backend": "replay", "path": "answers.jsonl", "match": "instance"}
    rows = [{"id": str(n), "prompt": f"Is {n} odd?"} for n in range(20)]
    check = {"baseline": "strict", "max_drop": 0}
    for name, pattern in (("strict", "yes"), ("lenient", ".")):
        checks = [{"regex_match": {"pattern": pattern}}]
        task = {"name": "jsonl", "rows": rows, "checks": checks}
        tree = {"task": task, "model": model, "check": check}
        (tmp_path / f"{name}.yaml").write_text(json.dumps(tree))
        ended = harness("run", tmp_path / f"{name}.yaml", env=on(tmp_path))
        assert ended.returncode == 0, ended.stderr
    return tmp_path


def test_runs_with_different_checks_are_not_compared(rules: Path) -> None:
    said = mistake(harness("check", "lenient", env=on(rules)))
    assert "they differ in task.checks" in said
    strict = rules / "strict.yaml"
    strict.write_text((rules / "lenient.yaml").read_text())
    assert harness("run", strict, "--rescore", env=on(rules)).returncode == 0
    assert harness("check", "lenient", env=on(rules)).returncode == 0


def test_a_drop_alone_applies_to_the_baseline_of_the_run_file(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "quickstart", tmp_path / "quickstart")
    shutil.copytree(runs / "quickstart.simulated-weak", tmp_path / "weak")
    checked = ("-o", "check={baseline: quickstart, max_drop: 0.02}", "--limit", "52")
    weak = ("--name", "weak", "--model", "simulated/weak", "-o", "model.accuracy=0.1")
    assert harness("run", QUICKSTART, *weak, *checked, env=on(tmp_path)).returncode == 0
    for more in ([], ["--min", "pass_rate=0"]):
        asked = ("check", "weak", "--max-drop", "1", *more)
        assert harness(*asked, env=on(tmp_path)).returncode == 0
    assert harness("check", "weak", env=on(tmp_path)).returncode == 4


def test_a_baseline_that_a_record_names_executes_no_code(tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    code = tmp_path / "check.py"
    code.write_text("def good(text):\n    return True\n")
    base = tmp_path / "base.yaml"
    base.write_text(
        "task: {rows: [{prompt: a, target: b}, {prompt: c, target: d}], checks: [./check.py: {}]}\n"
        "model: {backend: simulated}\n"
    )
    bounds = f"check={{min: {{pass_rate: 0}}, baseline: '{base}', max_drop: 0.9}}"
    for more in ([], ["-o", bounds, "--name", "late"]):
        ended = harness("run", base, *more, env=on(tmp_path))
        assert ended.returncode == 0, ended.stderr
    code.write_text(f"open({str(marker)!r}, 'w')\n{code.read_text()}")
    ended = harness("check", "late", env=on(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert "base" in ended.stdout
    script = "import harness; harness.open_run('late').check()"
    command = [sys.executable, "-c", script]
    subprocess.run(command, env=on(tmp_path), cwd=tmp_path, check=True, capture_output=True)
    assert not marker.exists()


def test_an_empty_cell_of_needed_instances_is_explained(runs: Path) -> None:
    bounds = ("--min", "pass_rate=0.83", "--max", "cost=1")
    shown = harness("check", "quickstart", *bounds, env=on(runs)).stdout
    [cost] = [line for line in shown.splitlines() if line.startswith("cost ")]
    assert cost.split()[-1] == "-"
    assert "-: the run has enough, or the number cannot be estimated." in words(shown)
    alone = harness("check", "quickstart", *bounds[:2], env=on(runs)).stdout
    assert "needed: instances that decide" in alone
    assert "the run has enough" not in alone


def test_formats(runs: Path) -> None:
    asked = ("check", "quickstart", "--min", "pass_rate=0.83", "--format")
    found = json.loads(harness(*asked, "json", env=on(runs)).stdout)
    [run] = found["runs"]
    assert (found["outcome"], run["decisions"][0]["bound"]) == ("too few to tell", 0.83)
    assert run["decisions"][0]["n"] == 52
    assert run["decisions"][0]["needed"] > 52
    [suite] = ElementTree.fromstring(harness(*asked, "junit", env=on(runs)).stdout)
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "1")
    assert "too few to tell" in str(suite.find("testcase/error").attrib)  # type: ignore[union-attr]
    assert "| pass_rate |" in harness(*asked, "markdown", env=on(runs)).stdout


@pytest.mark.parametrize("more", [["--min", "pass_rate=0.99"], ["--by", "structure"]])
def test_junit_xml_keeps_to_its_schema(runs: Path, more: list[str]) -> None:
    asked = ["--min", "pass_rate=0.83", "--baseline", "quickstart.simulated-weak"]
    more = [*asked, "--max-drop", "0.02", *more, "--format", "junit"]
    refuse_other_than_junit(harness("check", "quickstart", *more, env=on(runs)).stdout)


def refuse_other_than_junit(text: str) -> None:
    """The XSD is that of Jenkins' xUnit plug-in, as in pytest's source distribution (MIT)."""
    xmlschema = pytest.importorskip("xmlschema")
    schema = xmlschema.XMLSchema(Path(__file__).with_name("junit-10.xsd"))
    schema.validate(text)


SCORE = "reader.strict"  # of a judge that does not decide


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run `letters`, of which calls and judgements failed."""
    folder = tmp_path_factory.mktemp("broken")
    with (
        MockServer(answers=answer, faults={"400": 0.3}) as server,
        MockServer(answers=answer, faults={"400": 0.3}) as judging,
    ):
        check = {"min": {SCORE: 0}, "max_unjudged": 0.9}
        file = run_file(folder, server, judge(judging), limit=100, check=check)
        ended = harness("run", file, env=on(folder))
    assert "judgements failed" in ended.stderr
    return folder


def test_a_run_with_too_few_verdicts_does_not_pass(broken: Path) -> None:
    asked = ("check", "letters", "--min", f"{SCORE}=0")
    ended = harness(*asked, "--format", "json", env=on(broken))
    assert ended.returncode == 5
    found = json.loads(ended.stdout)
    [run] = found["runs"]
    [decision], [lacking] = run["decisions"], run["unjudged"]
    assert (found["outcome"], decision["outcome"]) == ("too few to tell", "passed")
    failed, owed = lacking["failed_calls"], lacking["no_judgement"]
    assert min(failed, owed) > 0
    assert failed + owed + decision["n"] == lacking["n_samples"] == 100
    said = f"{failed + owed} of 100 samples have no verdict ({failed} failed calls, {owed} failed"
    for form in ("table", "markdown", "junit"):
        ended = harness(*asked, "--format", form, env=on(broken))
        assert (ended.returncode, said in " ".join(ended.stdout.split())) == (5, True), ended.stdout
    [suite] = ElementTree.fromstring(ended.stdout)
    assert (suite.get("tests"), suite.get("errors")) == ("2", "1")
    assert suite.find("testcase[@name='verdicts']/error") is not None
    assert harness(*asked, "--too-few", "pass", env=on(broken)).returncode == 5
    assert harness(*asked, "--too-few", "fail", env=on(broken)).returncode == 4
    refuse_other_than_junit(ended.stdout)


def test_a_share_of_samples_without_a_verdict_can_be_allowed(broken: Path) -> None:
    asked = ("--min", f"{SCORE}=0", "--max-unjudged", "0.9")
    ended = harness("check", "letters", *asked, env=on(broken))
    assert (ended.returncode, "allowed by max_unjudged" in ended.stdout) == (0, True), ended.stdout
    assert harness("check", "letters", env=on(broken)).returncode == 0
    assert harness("check", "letters", "--max-unjudged", "0.1", env=on(broken)).returncode == 5


def test_a_baseline_with_too_few_verdicts_decides_nothing(broken: Path) -> None:
    shutil.copytree(broken / "letters", broken / "before")
    asked = ("--baseline", "before", "--max-drop", "0.5", "--score", SCORE)
    ended = harness("check", "letters", *asked, env=on(broken))
    assert ended.returncode == 5
    assert "samples of before have no verdict" in " ".join(ended.stdout.split())


@pytest.mark.parametrize(
    ("counts", "code", "kind"), [("pass", 0, "skipped"), ("fail", 4, "failure")]
)
def test_what_too_few_instances_count_as(runs: Path, counts: str, code: int, kind: str) -> None:
    asked = ("check", "quickstart", "--min", "pass_rate=0.83", "--too-few", counts)
    ended = harness(*asked, env=on(runs))
    assert ended.returncode == code
    assert f"too few to tell, which counts as {counts}ed" in ended.stdout
    text = harness(*asked, "--format", "junit", env=on(runs)).stdout
    [suite] = ElementTree.fromstring(text)
    assert suite.find(f"testcase/{kind}") is not None
    refuse_other_than_junit(text)


def test_several_runs_are_decided_together(runs: Path) -> None:
    asked = ("check", "quickstart", "quickstart.simulated-weak", "--min", "pass_rate=0.6")
    ended = harness(*asked, env=on(runs))
    assert (ended.returncode, "2 runs: failed" in ended.stdout) == (4, True)
    found = json.loads(harness(*asked, "--format", "json", env=on(runs)).stdout)
    assert [run["outcome"] for run in found["runs"]] == ["passed", "failed"]
    unsure = (*asked[:3], "--min", "pass_rate=0.01", "--by", "structure", "--too-few", "pass")
    shown = harness(*unsure, env=on(runs)).stdout
    assert "2 runs: too few to tell, which counts as passed" in shown
    one = json.loads(harness(*asked[:2], *asked[3:], "--format", "json", env=on(runs)).stdout)
    wide, narrow = (run["runs"][0]["decisions"][0]["ci95"] for run in (found, one))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    text = harness(*asked, "--format", "junit", env=on(runs)).stdout
    assert [suite.get("failures") for suite in ElementTree.fromstring(text)] == ["0", "1"]
    refuse_other_than_junit(text)


def test_the_same_answers_have_not_changed(runs: Path) -> None:
    asked = ("run", QUICKSTART, "--limit", "52", "--name", "again")
    assert harness(*asked, env=on(runs)).returncode == 0
    asked = ("check", "again", "--baseline", "quickstart", "--max-drop", "0")
    ended = harness(*asked, env=on(runs))
    assert (ended.returncode, "have the same answers" in ended.stdout) == (0, True), ended.stdout
    unseal(runs / "again")
    lines = (runs / "again/attempts.jsonl").read_text()
    (runs / "again/attempts.jsonl").write_text(lines.replace('"text": "', '"text": " '))
    assert harness(*asked, env=on(runs)).returncode == 5


def test_a_run_file_stands_for_its_variants(tmp_path: Path) -> None:
    text = (
        f"{{{TASK.strip()}, limit: 26, samples: 2, "
        "model: {backend: simulated, accuracy: 1}, check: {baseline: quality.good, max_drop: 0.1}, "
        "variants: {good: {}, same: {limits.concurrency: 3}, bad: {model.accuracy: 0.1}}}"
    )
    (tmp_path / "quality.yaml").write_text(text)
    assert harness("run", tmp_path / "quality.yaml", env=on(tmp_path)).returncode == 0
    ended = harness("check", "quality", "--format", "json", env=on(tmp_path))
    assert ended.returncode == 4
    found = {run["run"]: run for run in json.loads(ended.stdout)["runs"]}
    assert [run["outcome"] for run in found.values()] == ["passed", "passed", "failed"]
    assert found["quality.good"]["decisions"] == []  # not compared with itself


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run `letters`, whose calls have a price and take time."""
    folder = tmp_path_factory.mktemp("timed")
    with MockServer(answers=answer) as server:
        model = {"backend": "openai", "name": "model", "base_url": server.base_url}
        model["price"] = {"input": 9, "output": 9}
        file = run_file(folder, server, model=model, limit=52)
        # Another server may have had the same port.
        ended = harness("run", file, env=on(folder) | {"HARNESS_CACHE_DIR": str(folder / "cache")})
    assert ended.returncode == 0, ended.stderr
    return folder


def test_cost_is_compared_as_it_is(timed: Path) -> None:
    asked = ("check", "letters", "--format", "json", "--max")
    [run] = json.loads(harness(*asked, "cost=1000", env=on(timed)).stdout)["runs"]
    [cost] = run["decisions"]
    assert (cost["outcome"], cost["method"], cost["ci95"]) == ("passed", "exact", None)
    assert cost["value"] > 0
    exactly, each = f"cost={cost['value']:.12f}", cost["value"] / 156
    assert harness(*asked, f"cost={cost['value'] + 1e-9:.12f}", env=on(timed)).returncode == 0, (
        exactly
    )
    assert harness(*asked, f"cost_per_sample={each - 1e-9:.12f}", env=on(timed)).returncode == 4
    ended = harness("check", "letters", "--max", "cost=0.001", env=on(timed))
    assert (ended.returncode, "≤ $0.0010" in ended.stdout) == (4, True), ended.stdout


def test_a_percentile_of_latency(timed: Path) -> None:
    asked = ("check", "letters", "--max", "latency_p95=60", "--format", "json")
    ended = harness(*asked, env=on(timed))
    [latency] = json.loads(ended.stdout)["runs"][0]["decisions"]
    # All 52 calls are within the bound: the interval begins below 0.95.
    assert (latency["outcome"], latency["n"], latency["at_most"]) == ("too few to tell", 52, True)
    assert 0 < latency["value"] < 60
    ended = harness("check", "letters", "--max", "latency_p50=60", env=on(timed))
    assert (ended.returncode, "≤ 60.000 s" in ended.stdout) == (0, True), ended.stdout
    assert harness("check", "letters", "--max", "latency_p50=0", env=on(timed)).returncode == 4


def test_an_unknown_cost_is_not_within_a_bound(broken: Path) -> None:
    ended = harness("check", "letters", "--max", "cost=1000", env=on(broken))
    assert "calls of the run 'letters' is unknown" in mistake(ended)


def test_the_bounds_of_the_run_file(tmp_path: Path) -> None:
    checked = ("-o", "check={min: {pass_rate: 0.99}}", "--limit", "13")
    assert harness("run", QUICKSTART, *checked, env=on(tmp_path)).returncode == 0
    assert harness("check", "quickstart", env=on(tmp_path)).returncode == 4
    found = harness("check", "quickstart", "--by", "structure", env=on(tmp_path))
    assert "para01" in found.stdout
    given = ("--min", "pass_rate=0.1")
    assert harness("check", "quickstart", *given, env=on(tmp_path)).returncode == 0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([], "There is no bound"),
        (["--min", "pass_rate"], "is not a bound"),
        (["--min", "pass_rate=70%"], "Write --min pass_rate=0.7."),
        (["--max", "latency_p95"], "Write --max latency_p95=2"),
        (["--max", "latncy_p95=2"], "Did you mean 'latency_p95'?"),
        (["--baseline", "quickstart", "--max-drop", "0"], "compared with itself"),
        (["--min", "nothing=0.5"], "no score 'nothing'"),
        (["--max-drop", "0.1"], "need a baseline"),
        (["--min", "pass_rate=0.5", "--by", "shape"], "no label 'shape'"),
    ],
)
def test_mistakes(runs: Path, asked: list[str], said: str) -> None:
    assert said in mistake(harness("check", "quickstart", *asked, env=on(runs)))


def test_a_bound_that_a_verdict_cannot_reach_is_refused(tmp_path: Path) -> None:
    task = {"rows": [{"prompt": "Say a.", "target": "a"}], "checks": ["exact_match", "./n.py"]}
    (tmp_path / "n.py").write_text("def n(text):\n    return 7.0 + len(text)\n")
    file = tmp_path / "bounds.yaml"
    file.write_text(json.dumps({"task": task, "model": "simulated/1"}))
    assert harness("run", file, env=on(tmp_path)).returncode == 0
    for kind in ("min", "max"):
        for bound in ("1.2", "-0.1", "90"):
            asked = (f"--{kind}", f"exact_match={bound}")
            said = mistake(harness("check", "bounds", *asked, env=on(tmp_path)))
            assert f"{kind}.exact_match is {bound}: a rate is between 0 and 1" in said
    for asked in (("--min", "n=1.2"), ("--max", "exact_match=1"), ("--min", "exact_match=0")):
        ended = harness("check", "bounds", *asked, "--too-few", "pass", env=on(tmp_path))
        assert ended.returncode == 0, ended.stderr


FIRST_TURN = {"content": "Say b.", "checks": [{"contains": {"target": "b"}, "as": "b"}]}
CONVERSATION = {"id": "c", "turns": [FIRST_TURN, "Say a."], "target": "a"}


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"min": {"schma": 0.7}}, "check: 'schma' is not a score of the task or of a judge."),
        ({"max": {"last": 0.7, "cost": 1, "latency_p95": 3}}, "check: 'last' is not a score"),
        ({"baseline": "other", "max_drop": 0, "score": "schemas"}, "Did you mean 'schema'?"),
        ({"min": {"kind": 0.5}}, "Write 'kind.SCORE'"),
        ({"min": {"pass@2": 0.5}}, "check: 'pass@2' needs more than samples: 1."),
        ({"min": {"schema": 0, "pass_rate": 0, "pass@1": 0, "own": 0, "b": 0, "kind.strict": 0},
          "max": {"cost": 1, "latency_p95": 3, "cost_per_sample": 1}}, ""),
    ],
)  # fmt: skip
def test_bounds_on_unknown_scores_are_refused_before_any_call(
    tmp_path: Path, bounds: dict[str, Any], said: str
) -> None:
    own = {"id": "own", "prompt": "Say x.", "target": "x",
           "checks": [{"contains": {"target": "x"}, "as": "own"}]}  # fmt: skip
    rows = [{"id": "a", "prompt": "Say a.", "target": "a"}, CONVERSATION, own]
    checks = [{"exact_match": {}, "as": "schema"}, {"judge": "kind", "criteria": "It is kind."}]
    judge = {"name": "yes_no", "as": "kind", "model": "simulated/1"}
    tree = {"task": {"rows": rows, "checks": checks}, "model": "simulated/1", "judges": [judge]}
    file = tmp_path / "bounded.yaml"
    file.write_text(json.dumps(tree | {"check": bounds}))
    ended = harness("run", file, env=on(tmp_path))
    if said:
        assert said in mistake(ended)
        assert not (tmp_path / "bounded").exists()
    else:
        assert ended.returncode == 0, ended.stderr
        scores = harness("check", "bounded", "--min", "kind=0", env=on(tmp_path))
        assert "Did you mean 'kind.strict'?" in mistake(scores)
        assert harness("check", "bounded", env=on(tmp_path)).returncode in (0, 5)


def test_a_run_with_numbers_only_has_no_pass_rate(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text(
        "def check(text: str) -> float:\n    return float(len(text.split()))\n"
    )
    (tmp_path / "rows.jsonl").write_text('{"id": "a", "prompt": "Say so."}')
    task = {"name": "jsonl", "path": "rows.jsonl", "checks": ["./words.py"]}
    file = tmp_path / "numbers.yaml"
    file.write_text(json.dumps({"task": task, "model": {"backend": "simulated"}}))
    ended = harness("run", file, env=on(tmp_path))
    assert ended.returncode == 0, ended.stderr
    for asked in ("pass_rate=0.5", "pass@1=0.5"):
        said = mistake(harness("check", "numbers", "--min", asked, env=on(tmp_path)))
        assert "Its scores: words." in said
    ended = harness("check", "numbers", "--min", "words=0", env=on(tmp_path))
    assert ended.returncode != 1, ended.stderr


def test_an_unfinished_run_is_not_decided(runs: Path, tmp_path: Path) -> None:
    started = tmp_path / "quickstart"
    started.mkdir()
    for file in (runs / "quickstart").glob("*.*"):
        (started / file.name).write_bytes(file.read_bytes())
    manifest = json.loads((started / "manifest.json").read_text())
    manifest["owed"] = 3
    (started / "manifest.json").write_text(json.dumps(manifest))
    ended = harness("check", "quickstart", "--min", "pass_rate=0.5", env=on(tmp_path))
    assert "is not finished" in mistake(ended)


OF_PLUGINS = [
    *("report", "matrix", "view", "export --output x.csv", "judge --judge yes_no"),
    *("judge-validate", "errors-draw", "ablation"),
]
OF_RUNS = [
    *("check", "show", "compare", "table", "score", "rm", "mv new"),
    *(command for command in OF_PLUGINS if re.split("[ -]", command)[0] in all_verbs()),
]


@pytest.mark.parametrize("command", OF_RUNS)
def test_every_command_suggests_the_nearest_run(runs: Path, command: str) -> None:
    verb, *more = command.split()
    said = mistake(harness(*verb.split("-"), "quickstrt", *more, env=on(runs)))
    assert "Did you mean 'quickstart'?" in said


def test_a_run_file_that_has_changed_or_is_another_is_not_decided_by_its_name(
    tmp_path: Path,
) -> None:
    rows, env = tmp_path / "rows.jsonl", on(tmp_path / "runs")
    rows.write_text('{"id": "a", "q": "Say a.", "target": "a"}\n')
    text = (
        "{task: {name: jsonl, path: rows.jsonl, prompt: '{{ q }}', checks: [exact_match]}, "
        "model: {backend: simulated, accuracy: 1}, check: {max: {cost: 1}}}"
    )
    file, other = tmp_path / "num.yaml", tmp_path / "other/num.yaml"
    file.write_text(text)
    other.parent.mkdir()
    other.write_text(text.replace("{{ q }}", "Other: {{ q }}"))
    ended = harness("run", file, env=env)
    assert ended.returncode == 0, ended.stderr
    base = tmp_path / "base.yaml"
    base.write_text(text.replace("{{ q }}", "Before: {{ q }}"))
    assert harness("run", base, env=env).returncode == 0
    rows.unlink()  # neither data nor keys are needed
    assert harness("check", file, env=env).returncode == 0
    for command in filter("ablation".__ne__, OF_RUNS):
        verb, *more = command.split()
        said = mistake(harness(*verb.split("-"), other, *more, env=env))
        assert "task.prompt" in said, command
        assert "name it: num." in said
    assert harness("check", "num", env=env).returncode == 0
    asked = ("--baseline", str(other), "--max-drop", "0.1")
    assert "task.prompt" in mistake(harness("check", "num", *asked, env=env))
    file.write_text(text.replace("max: {cost: 1}", "baseline: base.yaml, max_drop: 0.1"))
    assert "change of pass_rate" in harness("check", file, env=env).stdout
    base.write_text(text)
    assert "base.yaml as it is now" in mistake(harness("check", file, env=env))
    ended = harness("compare", "num", "base", "--baseline", base, env=env)
    assert "base.yaml as it is now" in mistake(ended)
    missing = tmp_path / "missing/num.yaml"
    assert "Cannot read" in mistake(harness("check", missing, env=env))
    file.write_text(text.replace("cost: 1", "cost: 2"))
    told = harness("check", file, "--format", "json", env=env)
    [decision] = json.loads(told.stdout)["runs"][0]["decisions"]
    assert (decision["bound"], decision["at_most"]) == (2, True)
    file.write_text(text.replace("check:", "variants: {b: {samples: 2}}, check:"))
    assert "'num' is not a run of" in mistake(harness("check", file, env=env))


def test_a_run_made_with_another_check_or_other_rows_is_not_decided_by_its_file(
    tmp_path: Path,
) -> None:
    """Its name still decides, and so does the file without its rows or after `harness score`."""
    rows, code, env = tmp_path / "rows.jsonl", tmp_path / "mine.py", on(tmp_path / "runs")
    rows.write_text('{"prompt": "Say a.", "target": "a"}\n')
    code.write_text("def mine(text, target):\n    return target in text\n")
    task = {"path": "rows.jsonl", "checks": ["./mine.py"]}
    tree = {"task": task, "model": "simulated/1", "check": {"max": {"cost": 1}}}
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps(tree))
    assert harness("run", file, env=env).returncode == 0
    assert harness("check", file, env=env).returncode == 0
    code.write_text("def mine(text, target):\n    return target == text\n")
    said = mistake(harness("check", file, env=env))
    assert "it was made with another version of ./mine.py" in said
    assert "--rescore" in said
    assert "./mine.py" in mistake(
        harness("check", "mine", "--baseline", file, "--max-drop", "0.1", env=env)
    )
    assert harness("show", file, env=env).returncode == 0
    assert harness("check", "mine", env=env).returncode == 0
    assert harness("score", "mine", env=env).returncode == 0
    assert harness("check", file, env=env).returncode == 0
    rows.write_text('{"prompt": "Say a.", "target": "a"}\n{"prompt": "Say b.", "target": "b"}\n')
    assert "another version of the data" in mistake(harness("check", file, env=env))
    assert harness("run", file, "--rescore", env=env).returncode == 0
    assert harness("check", file, env=env).returncode == 0
    rows.unlink()
    assert harness("check", file, env=env).returncode == 0


def test_a_run_of_another_recording_is_neither_decided_nor_continued(tmp_path: Path) -> None:
    """But a recording may grow."""
    recording, env = tmp_path / "recording.jsonl", on(tmp_path / "runs")
    lines = [
        json.dumps({"instance": name, "rounds": [{"text": name}]}) + "\n" for name in ("a", "b")
    ]
    recording.write_text(lines[0])
    rows = [{"id": name, "prompt": "?", "target": name} for name in ("a", "b")]
    model = {"backend": "replay", "path": "recording.jsonl", "match": "instance"}
    tree = {
        "task": {"rows": rows, "checks": ["exact_match"]},
        "model": {**model, "missing": "error"},
    }
    file = tmp_path / "recorded.yaml"
    file.write_text(json.dumps({**tree, "check": {"min": {"pass_rate": 0.1}, "too_few": "pass"}}))
    assert harness("run", file, env=env).returncode == 1  # one answer is missing
    recording.write_text("".join(lines))
    assert harness("run", file, env=env).returncode == 0
    assert harness("check", file, env=env).returncode == 0
    recording.write_text("".join(lines).replace('"text": "b"', '"text": "c"'))
    for command in ("run", "check"):
        said = mistake(harness(command, file, env=env))
        assert "with another version of the recording" in said
    assert harness("run", file, "--fresh", env=env).returncode == 0
    metrics = json.loads((tmp_path / "runs/recorded/metrics.json").read_text())
    assert metrics["overall"]["pass_rate"] == 0.5


def test_a_run_whose_judge_has_another_prompt_is_not_decided_by_its_file(tmp_path: Path) -> None:
    prompt, env = tmp_path / "rate.jinja", on(tmp_path / "runs")
    prompt.write_text("Rate 1 to 10: {{ text }}")
    judge = {"name": "score", "prompt": "./rate.jinja", "passes_from": 5}
    tree = {
        "task": {"rows": [{"prompt": "Say a."}], "checks": [{"judge": "score"}]},
        "model": "simulated/1",
        "judges": [{**judge, "model": "simulated/1"}],
        "check": {"max": {"cost": 1}},
    }
    file = tmp_path / "judged.yaml"
    file.write_text(json.dumps(tree))
    ended = harness("run", file, env=env)
    assert ended.returncode == 0, ended.stderr
    assert harness("check", file, env=env).returncode == 0
    prompt.write_text("Rate strictly: {{ text }}")
    assert "another version of judge_score_prompt" in mistake(harness("check", file, env=env))


def test_rows_that_have_changed_in_a_run_file_are_not_decided(tmp_path: Path) -> None:
    text = (
        "{task: {rows: [{q: Say a., target: a}], prompt: '{{ q }}', checks: [exact_match]}, "
        "model: {backend: simulated, accuracy: 1}, check: {max: {cost: 1}}}"
    )
    file, env = tmp_path / "rows.yaml", on(tmp_path / "runs")
    file.write_text(text)
    assert harness("run", file, env=env).returncode == 0
    assert harness("check", file, env=env).returncode == 0
    file.write_text(text.replace("Say a.", "Say b."))
    assert "task.rows" in mistake(harness("check", file, env=env))
