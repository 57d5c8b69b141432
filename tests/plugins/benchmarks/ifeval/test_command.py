"""IFEval with a model on loopback that reads the feedback, and IFBench's recorded answers."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.datasets.folder import DataFolder
from harness.plugins.benchmarks.ifeval.task import IFEvalTask
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.command import ROOT, harness, mistake
from tests.plugins.suites.test_verb import on

CONFIG = ROOT / "configs" / "gpt4_ifeval.yaml"


def test_feedback_makes_a_model_follow_the_instructions(tmp_path: Path) -> None:
    """Half of the answers follow their instructions in round 2, all of them in round 3."""
    instances = {
        one.data.messages[-1].content: one.data
        for one in IFEvalTask(data=DataFolder(tmp_path)).instances()
    }
    slow = set(list(instances)[::2])

    def model(ask: MockRequest, index: int) -> str:
        prompt, *turns = [one.text for one in ask.turns if one.role == "user"]
        item = instances[prompt]
        if turns:
            assert turns[-1].startswith("Your answer does not follow these instructions yet:\n- ")
        improved = len(turns) > (1 if prompt in slow else 0)
        return (item.reference if improved else item.wrong) or ""

    with MockServer(answers=model) as server:
        model_ = f"model.base_url={server.base_url}"
        environment = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path)}
        ended = harness("run", CONFIG, "-o", model_, env=environment)
        assert ended.returncode == 0, ended.stderr
    attempts = [
        json.loads(line)
        for line in (tmp_path / "gpt4_ifeval.feedback" / "attempts.jsonl").read_text().splitlines()
    ]
    passed = {
        number: [one["passed"] for one in attempts if one["round"] == number]
        for number in (1, 2, 3)
    }
    n, n_slow = len(instances), len(slow)
    assert passed == {1: [False] * n, 2: passed[2], 3: [True] * n_slow}
    assert (passed[2].count(True), passed[2].count(False)) == (n - n_slow, n_slow)
    compared = harness("compare", "gpt4_ifeval", env=environment)
    assert "+1.0000" in compared.stdout, compared.stdout


def test_every_table_has_one_accuracy_by_instruction(tmp_path: Path) -> None:
    """The share of all instructions that are followed, not the mean of the prompts' shares."""
    environment = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path)}
    asked = ("eval", "ifeval", "--model", "simulated/0.5", "--name", "a")
    assert harness(*asked, env=environment).returncode == 0
    lines = (tmp_path / "a.ifeval.simulated-0.5/attempts.jsonl").read_text().splitlines()
    scores = [json.loads(line)["scores"] for line in lines]
    shares, counts = (
        [one[name]["value"] for one in scores] for name in ("strict_instructions", "n_instructions")
    )
    accuracy = sum(map(float.__mul__, shares, map(float, counts))) / sum(counts)
    assert accuracy != pytest.approx(sum(shares) / len(shares))

    def of(*words: str) -> Any:
        return json.loads(harness(*words, "--format", "json", env=environment).stdout)

    run = "a.ifeval.simulated-0.5"
    shown = of("show", run)
    table = of("table", run)
    names = [figure["name"] for figure in table["figures"]]
    [gate] = of("check", run, "--min", "strict_instructions=0.1")["runs"]
    figures = [table["rows"][0]["cells"][names.index("instruction strict")]["value"]]
    figures += [shown["scores"]["strict_instructions"]["mean"], gate["decisions"][0]["value"]]
    figures += [
        sum(
            group["scores"]["strict_instructions"]["mean"] * group["n"] * int(n)
            for n, group in shown["groups"]["n_instructions"].items()
        )
        / sum(counts)
    ]
    assert figures == pytest.approx([accuracy] * 4)
    other = ("eval", "ifeval", "--model", "simulated/0.7", "--name", "b")
    assert harness(*other, env=environment).returncode == 0
    score = ("--score", "strict_instructions")
    better = "b.ifeval.simulated-0.7"
    [against] = of("compare", run, better, *score)["others"]
    matrix = of("matrix", run, better, *score)["matrix"]
    bounds = ("--baseline", run, "--max-drop", "0.5")
    [gate] = of("check", better, *score, *bounds)["runs"]
    [overall] = [pair["comparison"] for pair in matrix["pairs"]]
    assert matrix["weight"] == "n_instructions"
    rows = [row["value"]["mean"] for row in matrix["rows"]]
    assert rows == pytest.approx([accuracy, against["overall"]["second"]])
    changes = [against["overall"], overall, {"difference": gate["decisions"][0]["value"]}]
    for change in changes:
        assert change["difference"] == pytest.approx(rows[1] - rows[0])


def test_prompts_without_a_recorded_answer_have_no_score(tmp_path: Path, data_dir: Path) -> None:
    folders = [data_dir.parent / "nltk_data", data_dir / "ifbench" / "nltk_data"]
    if not folders[1].is_dir():
        pytest.skip("no recorded answers to IFBench")
    environment = os.environ | {
        "HARNESS_RUNS_DIR": str(tmp_path),
        "HARNESS_DATA_DIR": str(data_dir),
        "NLTK_DATA": os.pathsep.join(map(str, folders)),
    }
    ended = harness("run", ROOT / "configs" / "replay_ifbench.yaml", env=environment)
    assert ended.returncode == 1, ended.stderr
    metrics = json.loads((tmp_path / "replay_ifbench" / "metrics.json").read_text())
    assert metrics["outcomes"]["ok"] == 147
    assert metrics["outcomes"]["error"] == 153
    assert metrics["overall"]["pass_rate"] == 42 / 147
    printed = harness("table", "replay_ifbench", env=environment | {"COLUMNS": "120"}).stdout
    assert all(figure in printed for figure in ("28.6", "29.3", "31.3", "33.5")), printed


def test_scores_that_are_missing_or_may_be_wrong_are_reported(tmp_path: Path) -> None:
    answers = {"bo": "བོད་ཡིག", "hi": "यह है। वह है।", "en": "One. Two."}
    lines = (json.dumps({"id": name, "text": text}) for name, text in answers.items())
    (tmp_path / "answers.jsonl").write_text("\n".join(lines))
    (tmp_path / "scripts.yaml").write_text("""
task:
  rows: [{id: bo, prompt: a}, {id: hi, prompt: b}, {id: en, prompt: c}]
  checks:
    - word_count: {at_most: 9}
    - ifeval:length_constraints/number_sentences: {num_sentences: 2, relation: at least}
model:
  {backend: replay, path: answers.jsonl, match: instance, columns: {instance: id, text: text}}
decoding: {max_tokens: 100}
""")
    environment = os.environ | {"HARNESS_RUNS_DIR": "runs"}
    for command in (("run", "scripts.yaml"), ("score", "scripts")):
        ended = harness(*command, cwd=tmp_path, env=environment)
        assert ended.returncode == 0, ended.stderr
        told = " ".join((ended.stdout + ended.stderr).split())
        assert "word_count: on 1 answer, the score is missing: There are no rules" in told
        assert "number_sentences: on 2 answers, the score may be wrong: the official" in told


def test_real_models_get_the_published_data_which_is_fetched_at_first_use(tmp_path: Path) -> None:
    nowhere = {"HARNESS_DATA_DIR": str(tmp_path / "data"), "HTTPS_PROXY": "http://127.0.0.1:9"}
    url = "model.base_url=http://127.0.0.1:9"
    asked = ("eval", "ifeval", "--model", "openai/gpt-4o-mini", "-o", url)
    missing = mistake(harness(*asked, env=on(tmp_path) | nowhere))
    assert "harness data fetch ifeval" in missing
    refused = mistake(harness(*asked, env=on(tmp_path) | nowhere | {"HARNESS_FETCH": "true"}))
    assert "Cannot fetch" in refused
    assert "or download it by hand to " in refused
    assert "-o task.dataset=builtin" in refused
    unset = mistake(harness(*asked[:-2], env=on(tmp_path) | nowhere | {"HARNESS_FETCH": "true"}))
    assert "OPENAI_API_KEY is not set" in unset
    assert "Fetching" not in unset
    ours = harness(*asked, "-o", "task.dataset=builtin", "--dry-run", env=on(tmp_path) | nowhere)
    assert ours.returncode == 0, ours.stderr


def test_simulated_models_alone_get_our_own_instances(tmp_path: Path) -> None:
    env = on(tmp_path) | {"HARNESS_DATA_DIR": str(tmp_path / "data")}
    asked = ("eval", "ifeval", "--dry-run", "--model")
    both = mistake(harness(*asked, "openai/gpt-4o-mini,simulated", env=env))
    assert "harness data fetch ifeval" in both
    alone = harness(*asked, "simulated", env=env)
    assert alone.returncode == 0, alone.stderr


def test_what_an_installed_data_set_needs_is_fetched_for_new_runs_only(tmp_path: Path) -> None:
    row = '{"key": 1, "prompt": "Hi", "kwargs": [{}], '
    row += '"instruction_id_list": ["punctuation:no_comma"]}'
    data = tmp_path / "data" / "ifeval" / "input_data.jsonl"
    data.parent.mkdir(parents=True)
    data.write_text(row)
    file = tmp_path / "a.yaml"
    file.write_text("task: {name: ifeval, dataset: public}\nmodel: {backend: simulated}\n")
    nowhere = {"HARNESS_DATA_DIR": str(tmp_path / "data"), "HTTPS_PROXY": "http://127.0.0.1:9"}
    env = on(tmp_path / "runs") | nowhere | {"HARNESS_FETCH": "true"}
    begun = harness("run", file, env=env)
    assert "Fetching punkt" in begun.stderr
    assert "To try again: harness data fetch punkt" in begun.stderr
    assert begun.returncode == 0, begun.stderr
    assert "Fetching" not in harness("run", file, "-o", "samples=2", env=env).stderr
    assert "Fetching punkt" in harness("run", file, "--fresh", env=env).stderr


def test_the_shipped_example_runs(tmp_path: Path) -> None:
    env = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path / "runs")}
    harness("run", "configs/conversation_example.yaml", env=env)
    found = tmp_path / "runs" / "conversation_example" / "metrics.json"
    metrics = msgspec.json.decode(found.read_bytes())
    assert metrics["simulated"]
    assert [one["n_answers"] for one in metrics["turns"].values()] == [15, 15, 15]
    assert 0.5 < metrics["overall"]["pass_rate"] < 1
    for answered in (1, 0):
        options = ("-o", f"model.accuracy={answered}", "--name", f"always-{answered}")
        harness("run", "configs/conversation_example.yaml", *options, env=env)
        found = tmp_path / "runs" / f"always-{answered}" / "metrics.json"
        assert msgspec.json.decode(found.read_bytes())["overall"]["pass_rate"] == answered
