"""`harness judge --gold`: the corpus' own passages before COLLIE's judge of coherence."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import msgspec
import pytest
import yaml

from harness.datasets.folder import DataFolder
from harness.plugin_loader import kind
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.command import ROOT, begun, harness, mistake
from tests.cli.test_run import wait_for_lines

CONFIG = ROOT / "configs" / "gpt4_collie_coherence.yaml"
TASK: Any = kind("tasks").build("collie", {"dataset": "builtin"}, data=DataFolder(Path("nowhere")))
GOLDS = {
    one.id: TASK.reference(one) for one in TASK.instances() if one.groups["structure"] == "pass01"
}
SAMPLES = 3
SURE = {"backend": "simulated", "accuracy": 1}


def worth(gold: str) -> int:
    """Of a passage of the corpus, by the judge."""
    return 7 + len(gold) % 3


def said(ask: MockRequest, _: int) -> str:
    if not ask.prompt.startswith("Analyze the following passage"):
        return f"Invented for {ask.digest}."
    gold = next((text for text in GOLDS.values() if text in ask.prompt), None)
    return f"Thus, the coherency score is {5 if gold is None else worth(gold)}."


class Run:
    """The shipped config on the built-in data, model and judge on loopback."""

    name = CONFIG.stem

    def __init__(self, folder: Path, server: MockServer, judge: MockServer | None = None) -> None:
        self.folder = folder / self.name
        self.environment = os.environ | {
            "HARNESS_RUNS_DIR": str(folder),
            "HARNESS_CACHE_DIR": str(folder / "cache"),
            "COLUMNS": "200",
        }
        (self.judge,) = yaml.safe_load(CONFIG.read_text())["judges"]
        self.judge["model"] |= {
            "base_url": (judge or server).base_url,
            "price": {"input": 0, "output": 1000},
        }
        self.options = [
            *("-o", "task.dataset=builtin", "-o", f"model.base_url={server.base_url}"),
            *("-o", "model.price={input: 0, output: 0}"),
            *("-o", f"judges={json.dumps([self.judge])}"),
        ]

    def harness(self, *arguments: str | Path, code: int = 0) -> str:
        ended = harness(*arguments, env=self.environment)
        assert ended.returncode == code, ended.stderr
        return ended.stdout + ended.stderr

    def golds(self, *arguments: str, name: str | None = None, code: int = 0) -> str:
        what = ("judge", name or self.name, "--judge", "coherence", "--gold")
        return self.harness(*what, *arguments, code=code)

    def lines(self, file: str) -> list[dict[str, Any]]:
        return [
            msgspec.json.decode(line) for line in (self.folder / file).read_bytes().splitlines()
        ]

    def metrics(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode((self.folder / "metrics.json").read_bytes())
        return found


@pytest.fixture
def server() -> Iterator[MockServer]:
    with MockServer(answers=said) as running:
        yield running


def test_the_corpus_own_passages_are_scored_apart_and_once(
    tmp_path: Path, server: MockServer
) -> None:
    run = Run(tmp_path, server)
    run.harness("run", CONFIG, *run.options)
    before, asked = run.metrics(), server.stats().requests
    files = [run.folder / name for name in ("attempts.jsonl", "judgements.jsonl")]
    content = [file.read_bytes() for file in files]
    assert f"coherence: {len(GOLDS)} reference answers judged" in run.golds()
    assert server.stats().requests == asked + SAMPLES * len(GOLDS)
    assert [file.read_bytes() for file in files] == content
    assert {one["instance"]: one["text"] for one in run.lines("gold/attempts.jsonl")} == GOLDS

    after = run.metrics()
    for figure in ("overall", "scores", "groups", "pass_at_k", "outcomes", "n_attempts"):
        assert after[figure] == before[figure], figure
    (found,) = after["golds"].values()
    worths = [worth(text) for text in GOLDS.values()]
    n, differences = len(worths), [5 - one for one in worths]
    deviation = math.sqrt(sum((d - mean(differences)) ** 2 for d in differences) / (n - 1))
    assert found["mean"] == pytest.approx(mean(worths))
    assert (found["n"], found["n_pairs"]) == (n, n)
    assert found["difference"] == pytest.approx(mean(differences))
    assert found["difference_stderr"] == pytest.approx(deviation / math.sqrt(n))
    low, high = found["difference_ci95"]
    assert low < mean(differences) < high < 0
    judge, paid = after["judges"]["coherence"], before["judges"]["coherence"]
    assert judge["n_calls"] == paid["n_calls"] + SAMPLES * n
    assert after["cost_usd"] == pytest.approx(judge["cost_usd"])
    assert judge["cost_usd"] > paid["cost_usd"]
    (row,) = [
        line for line in run.harness("show", run.name).split("reference answers")[1].splitlines()
        if line.startswith("coherence.score")
    ]  # fmt: skip
    assert row.split()[1:3] == [str(n), f"{mean(worths):.3f}"]

    asked = server.stats().requests
    assert "0 reference answers judged" in run.golds()
    run.harness("run", CONFIG, *run.options, "--name", "again")
    run.golds(name="again")
    assert server.stats().requests == asked, "another run's golds are the same calls"


def test_killed_while_golds_are_judged_it_goes_on_and_pays_none_twice(tmp_path: Path) -> None:
    with MockServer(answers=said) as server, MockServer(answers=said, latency=0.05) as slow:
        run = Run(tmp_path, server, slow)
        run.options += ["-o", "limits.concurrency=4"]
        run.harness("run", CONFIG, *run.options)
        before = slow.stats().requests
        process = begun(*("judge", run.name, "--judge", "coherence", "--gold"), env=run.environment)
        wait_for_lines(run.folder / "gold" / "judgements.jsonl", 2)
        process.kill()
        process.communicate()
        assert len(run.lines("gold/judgements.jsonl")) < len(GOLDS)
        run.golds()
        scored = run.lines("gold/judgements.jsonl")
        assert sorted(one["instance"] for one in scored) == sorted(GOLDS), "none twice"
        asked = slow.stats().requests - before
        assert asked <= SAMPLES * len(GOLDS) + 2 * 4, "those in flight alone"
        assert run.metrics()["golds"]["coherence.score"]["n"] == len(GOLDS)


def test_a_budget_holds_for_golds_too(tmp_path: Path, server: MockServer) -> None:
    run = Run(tmp_path, server)
    run.harness("run", CONFIG, *run.options)
    spent, asked = run.metrics()["cost_usd"], server.stats().requests
    enough = f"{spent + 1.01:.4f}"  # for a call: 1,000 tokens at the most, a dollar
    assert "Raise --budget." in run.golds("--budget", enough, code=3)
    assert spent <= run.metrics()["cost_usd"] <= float(enough)
    assert 0 < server.stats().requests - asked < SAMPLES * len(GOLDS)
    run.golds("--budget", "1000")
    assert server.stats().requests == asked + SAMPLES * len(GOLDS), "what was paid is kept"
    assert run.metrics()["golds"]["coherence.score"]["n"] == len(GOLDS)


def test_without_a_gold_there_is_nothing_to_judge(tmp_path: Path) -> None:
    environment = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path)}
    task = ["-o", "task.dataset=builtin", "-o", "judges=[]", "--limit", "2"]
    model = ["-o", "model={backend: simulated}", "--name", "wild"]
    config = ROOT / "configs" / "vllm_wildifeval.yaml"
    ended = harness("run", config, *task, *model, "-o", "limits=null", env=environment)
    assert ended.returncode == 0, ended.stderr
    judge = tmp_path / "judge.yaml"
    judge.write_text("{name: score, as: whole, model: {backend: simulated}}")
    told = mistake(harness("judge", "wild", "--judge", judge, "--gold", env=environment))
    assert "There is no reference answer to any instance of the run 'wild'" in told
    assert not (tmp_path / "wild" / "judges.json").exists()


def test_panels_follow_once_all_of_their_judges_have_scored_the_golds(tmp_path: Path) -> None:
    environment = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path), "COLUMNS": "200"}
    criteria = {"fine": {"question": "Is it?", "choices": {"good": 1, "bad": 0}}}
    judges = [
        {"name": "choice", "as": name, "model": SURE, "criteria": criteria} for name in ("a", "b")
    ]
    panel = {"as": "jury", "of": ["a", "b"], "by": "mean", "quorum": 1}
    ended = harness(
        *("run", ROOT / "configs" / "jsonl_example.yaml", "--limit", "4", "--name", "many"),
        *("-o", f"judges={json.dumps(judges)}", "-o", f"panels={json.dumps([panel])}"),
        env=environment,
    )
    assert ended.returncode == 0, ended.stderr

    def golds(judge: str | Path) -> Any:
        return harness("judge", "many", "--judge", judge, "--gold", env=environment)

    assert golds("a").returncode == 0
    assert "have not all judged the reference answers" in mistake(golds("jury"))
    assert golds("b").returncode == 0
    found = msgspec.json.decode((tmp_path / "many" / "metrics.json").read_bytes())
    assert found["golds"].keys() == {"a.fine", "b.fine", "jury.fine"}
    votes = [
        msgspec.json.decode(line)["scores"]["jury.fine"]["details"]["panel"].keys()
        for line in (tmp_path / "many" / "gold" / "judgements.jsonl").read_bytes().splitlines()
        if msgspec.json.decode(line)["judge"] == "jury"
    ]
    assert len(votes) == 4
    assert set().union(*votes) == {"a", "b"}
    assert "judge jury" not in harness("show", "many", env=environment).stdout, "it asks nobody"

    same = tmp_path / "same.yaml"
    same.write_text("{name: pairwise, against: gold, model: {backend: simulated}}")
    assert "There is no reference answer" in mistake(golds(same)), "beside itself it is no better"


def test_changed_judgements_of_references_are_refused(tmp_path: Path) -> None:
    environment = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path)}
    run = ("run", ROOT / "configs" / "jsonl_example.yaml", "--limit", "4", "--name", "many")
    criteria = {"fine": {"question": "Is it?", "choices": {"good": 1, "bad": 0}}}
    judge = {"name": "choice", "as": "a", "model": SURE, "criteria": criteria}
    option = f"judges={json.dumps([judge])}"
    assert harness(*run, "-o", option, env=environment).returncode == 0
    judged = ("judge", "many", "--judge", "a", "--gold")
    assert harness(*judged, env=environment).returncode == 0
    assert harness("show", "many", env=environment).returncode == 0
    path = tmp_path / "many" / "gold" / "judgements.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    for words in (("show", "many"), judged):
        assert "gold/judgements.jsonl was changed" in mistake(harness(*words, env=environment))
    shutil.rmtree(path.parent)
    assert "gold/" in mistake(harness("show", "many", env=environment))
    for words in (judged, ("show", "many")):
        assert harness(*words, env=environment).returncode == 0
