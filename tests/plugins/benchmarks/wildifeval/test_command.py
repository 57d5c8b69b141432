"""WildIFEval as its users run it: model and judge on the loopback server, to the matrices."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import scipy
import yaml

from harness.datasets.folder import DataFolder
from harness.plugin_loader import kind
from harness.plugins.mock.answers import Answer
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.command import ROOT, begun, harness
from tests.cli.test_run import wait_for_lines

RATES = {"small": 0.6, "large": 0.9}
"""How often a model's answers meet a constraint, by the judge."""


def probability(model: str, task: str, constraint: str) -> float | None:
    """Of yes, by the judge: the same for the test and for its server; now and then none."""
    key = f"{model}/{' '.join(task.split())}/{' '.join(constraint.split())}"
    chance = random.Random(hashlib.sha256(key.encode()).hexdigest())
    if chance.random() < 0.02:
        return None
    return 0.97 if chance.random() < RATES.get(model, 0.8) else 0.08


def between(text: str, tag: str) -> str:
    return text.split(f"<{tag}>\n")[1].split(f"\n</{tag}>")[0]


def answer(ask: MockRequest, _: int) -> str | Answer:
    """Of a model its name and what it was asked; of the judge a word and its probabilities."""
    if "<judged_text>" not in ask.prompt:
        return f"{ask.model} answers."
    model = between(ask.prompt, "judged_text").split(" ")[0]
    found = probability(model, between(ask.prompt, "task"), between(ask.prompt, "criterion"))
    if found is None:
        return Answer("Perhaps", [{"Perhaps": -0.01, "Maybe": -5.0}])
    word = "Yes" if found >= 0.5 else "No"
    return Answer(word, [{"Yes": math.log(found), "No": math.log(1 - found)}])


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HARNESS_RUNS_DIR", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> Path:
    """The data folder, which the command has too."""
    monkeypatch.setenv("HARNESS_DATA_DIR", str(data_dir))
    return data_dir


@pytest.fixture
def server() -> Iterator[MockServer]:
    with MockServer(answers=answer) as running:
        yield running


def lines(folder: Path, file: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in (folder / file).read_bytes().splitlines()]


def run_file(folder: Path, server: MockServer, name: str, **changes: Any) -> Path:
    content = {
        "task": {"name": "wildifeval", "dataset": "paper_examples"},
        "model": {"backend": "openai", "name": name, "base_url": server.base_url},
        "decoding": {"temperature": 0.7, "max_tokens": 1000},
        "judges": [{
            "name": "yes_no",
            "model": {"backend": "openai", "name": "judge", "base_url": server.base_url},
        }],
        **changes,
    }  # fmt: skip
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(content))  # JSON is YAML
    return path


def expected(model: str, data: Path) -> tuple[dict[str, bool | None], dict[str, float | None]]:
    """Strict and soft of each task, by the definition of issue 8."""
    task: Any = kind("tasks").build(
        "wildifeval", {"dataset": "paper_examples"}, data=DataFolder(data)
    )
    strict: dict[str, bool | None] = {}
    soft: dict[str, float | None] = {}
    for instance in task.instances():
        said = [
            probability(model, task.instruction(instance), criterion.text)
            for criterion in task.criteria(instance)
        ]
        judged = [found >= 0.5 for found in said if found is not None]
        some_no = not all(judged)
        strict[instance.id] = False if some_no else None if len(judged) < len(said) else True
        soft[instance.id] = sum(judged) / len(judged) if judged else None
    return strict, soft


def test_the_papers_examples_from_end_to_end(
    runs: Path, server: MockServer, tmp_path: Path, examples: Path
) -> None:
    for model in RATES:
        ended = harness("run", run_file(tmp_path, server, model))
        assert ended.returncode == 0, ended.stderr
        strict, soft = expected(model, examples)
        said = lines(runs / model, "judgements.jsonl")
        assert {one["instance"]: one["scores"]["yes_no.strict"]["value"] for one in said} == strict
        found = {one["instance"]: one["scores"]["yes_no.soft"]["value"] for one in said}
        assert found == pytest.approx(soft)
        metrics = json.loads((runs / model / "metrics.json").read_text())
        judged = [value for value in strict.values() if value is not None]
        assert metrics["overall"]["pass_rate"] == pytest.approx(sum(judged) / len(judged))
        assert set(metrics["groups"]) == {"n_constraints", "domain"}
    assert server.stats().requests == 2 * (20 + 82)
    check_matrices(examples)
    check_categories(examples)


def matrix(*arguments: str) -> dict[str, Any]:
    ended = harness("matrix", *RATES, *arguments, "--format", "json")
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def check_matrices(data: Path) -> None:
    """McNemar on strict and a paired t on soft, over the tasks that both have a value of."""
    small, large = (expected(model, data) for model in RATES)
    both = [name for name in small[0] if small[0][name] is not None and large[0][name] is not None]
    better = sum(bool(large[0][name]) > bool(small[0][name]) for name in both)
    worse = sum(bool(large[0][name]) < bool(small[0][name]) for name in both)
    for score in ("yes_no.strict", "pass_rate"):
        (pair,) = matrix("--score", score)["matrix"]["pairs"]
        assert pair["comparison"]["method"] == "exact McNemar"
        p = scipy.stats.binomtest(better, better + worse, 0.5).pvalue
        assert pair["comparison"]["p_value"] == pytest.approx(p)
        assert (pair["comparison"]["better"], pair["comparison"]["worse"]) == (better, worse)
    (pair,) = matrix("--score", "yes_no.soft")["matrix"]["pairs"]
    values = [[one[1][name] for name in one[1]] for one in (large, small)]
    p = scipy.stats.ttest_rel(*values).pvalue
    assert pair["comparison"]["p_value"] == pytest.approx(p)
    assert pair["starred"] == (p < 0.01)


def check_categories(data: Path) -> None:
    """The share of constraints of a category that are met, and what order that gives."""
    rankings = matrix("--by", "category")["rankings"]
    assert (rankings["of"], rankings["judge"]) == ("constraints", "yes_no")
    assert rankings["without"] == [0, 0]
    task: Any = kind("tasks").build(
        "wildifeval", {"dataset": "paper_examples"}, data=DataFolder(data)
    )
    for place, model in enumerate(RATES):
        met: dict[str, list[bool]] = {}
        for instance in task.instances():
            for criterion in task.criteria(instance):
                found = probability(model, task.instruction(instance), criterion.text)
                if found is not None:
                    met.setdefault(criterion.groups["category"], []).append(found >= 0.5)
        rates = {
            scoring["name"]: scoring["values"][place]["mean"]
            for scoring in rankings["scorings"]
            if scoring["kind"] == "group"
        }
        assert rates == pytest.approx({name: sum(all_) / len(all_) for name, all_ in met.items()})
    shown = harness("matrix", *RATES, "--by", "category")
    assert "share of constraints satisfied" in " ".join(shown.stdout.split())


@pytest.mark.exhaustive
def test_kill_9_among_judgements_judges_nothing_twice(
    runs: Path, tmp_path: Path, examples: Path
) -> None:
    with MockServer(answers=answer, latency=0.02) as server:
        file = run_file(tmp_path, server, "small", limits={"concurrency": 4})
        for kill in (3, 9):
            process = begun("run", file)
            wait_for_lines(runs / "small" / "judgements.jsonl", kill)
            time.sleep(random.Random(kill).random() / 50)
            process.kill()
            process.communicate()
        assert harness("run", file).returncode == 0
        said = lines(runs / "small", "judgements.jsonl")
        assert len(said) == len({one["instance"] for one in said}) == 20
        strict, _ = expected("small", examples)
        assert {one["instance"]: one["scores"]["yes_no.strict"]["value"] for one in said} == strict
        recorded = {name for one in said for name in one["call_ids"]}
        assert len(recorded) == 82
        again = sum(body.requests - 1 for body in server.bodies().values())
        assert again <= 2 * (4 + 4 * 8 + 25), "only what was on the way with a kill"


@pytest.mark.parametrize("name", ["claude_wildifeval", "vllm_wildifeval"])
def test_a_config_runs_with_its_judge(
    name: str, runs: Path, server: MockServer, tmp_path: Path
) -> None:
    content = yaml.safe_load((ROOT / "configs" / f"{name}.yaml").read_text())
    hosted = content["model"]["backend"] == "anthropic"
    judges: list[Mapping[str, Any]] = content["judges"]
    for judge in judges:
        judge["model"]["base_url"] = server.base_url
    url = server.url if hosted else server.base_url
    keys = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "b"}
    ended = harness(
        "run", ROOT / "configs" / f"{name}.yaml",
        "-o", f"model.base_url={url}", "-o", f"judges={json.dumps(judges)}",
        env=os.environ | keys,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    metrics = json.loads((runs / name / "metrics.json").read_text())
    assert metrics["n_instances"] == 16
    assert {"yes_no.strict", "yes_no.soft"} <= metrics["scores"].keys()
    assert server.stats().requests == 16 + 61
    attempts = lines(runs / name, "attempts.jsonl")
    decoding = attempts[0]["request"]["decoding"]
    assert decoding["max_tokens"] == 1000
    assert decoding.get("temperature") == (None if hosted else 0.7)
    assert all(len(one["request"]["messages"]) == 1 for one in attempts)


def test_offline(runs: Path) -> None:
    simulated = "{backend: simulated, accuracy: 0.7}"
    ended = harness(
        "run", ROOT / "configs" / "vllm_wildifeval.yaml", "-o", "model={backend: simulated}",
        "-o", f"judges=[{{name: yes_no, votes: 3, model: {simulated}}}]",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "SIMULATED" in ended.stdout
    table = json.loads(harness("table", "vllm_wildifeval", "--format", "json").stdout)
    assert [figure["name"] for figure in table["figures"]] == ["strict", "soft"]
    assert [column["group"] for column in table["columns"]] == [*"12345678", None] * 2
