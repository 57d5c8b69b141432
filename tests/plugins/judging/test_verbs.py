"""`harness judge validate`: a loopback judge of known error rates comes out as computed."""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.plugins.mock.answers import Answer
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.command import ROOT, harness, mistake
from tests.cli.test_completion import offered
from tests.plugins.report.pages import data

TASKS, CRITERIA = 50, 4
RIGHT = {0.05: 0.1, 0.25: 0.3, 0.75: 0.6, 0.95: 0.9}
"""The judge's probability of yes to how often yes is the truth."""
WEIGHTS = {"small": (4, 3, 2, 1), "medium": (2, 3, 3, 2), "large": (1, 1, 2, 6)}
"""How often a model's answers get each of these probabilities, in tenths."""
ABSTAINS = 0.04


def verdicts(model: str, task: str, criterion: str) -> tuple[float | None, bool]:
    """The judge's probability, now and then none, and the truth: the same for server and test."""
    key = f"{model}/{task.split()[1]}/{criterion.split()[1]}"
    chance = random.Random(hashlib.sha256(key.encode()).hexdigest())
    abstains = chance.random() < ABSTAINS
    (probability,) = chance.choices(list(RIGHT), WEIGHTS[model])
    return None if abstains else probability, chance.random() < RIGHT[probability]


def between(text: str, tag: str) -> str:
    return text.split(f"<{tag}>\n")[1].split(f"\n</{tag}>")[0]


def answer(ask: MockRequest, _: int) -> str | Answer:
    if "<judged_text>" not in ask.prompt:
        return f"{ask.model} answers."
    model = between(ask.prompt, "judged_text").split()[0]
    found, truth = verdicts(model, between(ask.prompt, "task"), between(ask.prompt, "criterion"))
    if ask.model == "truth":
        found = 0.99 if truth else 0.01
    if found is None:
        return Answer("Perhaps", [{"Perhaps": -0.01, "Maybe": -5.0}])
    word = "Yes" if found >= 0.5 else "No"
    return Answer(word, [{"Yes": math.log(found), "No": math.log(1 - found)}])


def truths(model: str) -> list[tuple[float | None, bool]]:
    """Of each criterion of a model's answers, task by task."""
    return [
        verdicts(model, f"Task {t}", f"Criterion {c}")
        for t in range(TASKS)
        for c in range(CRITERIA)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("validate")


@pytest.fixture(scope="module")
def judged(folder: Path) -> Iterator[Path]:
    """The runs of three models, each judged by both judges."""
    kinds = ["Length", "Style and Tone"]
    constraints = {f"Criterion {c} is to be met.": kinds[c % 2] for c in range(CRITERIA)}
    tasks = [
        {"id": f"t{t}", "task": f"Task {t} asks for a text.", "constraints": constraints}
        for t in range(TASKS)
    ]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    with MockServer(answers=answer) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_RUNS_DIR", str(folder / "runs"))
        patch.setenv("HARNESS_CACHE_DIR", str(folder / "cache"))
        model = {"backend": "openai", "base_url": server.base_url}
        for name in WEIGHTS:
            content = {
                "task": {"name": "wildifeval", "dataset": str(folder / "tasks.jsonl")},
                "model": {**model, "name": name},
                "judges": [
                    {"name": "yes_no", "as": one, "model": {**model, "name": one}}
                    for one in ("tested", "truth")
                ],
            }
            file = folder / f"{name}.yaml"
            file.write_text(json.dumps(content))  # JSON is YAML
            ended = harness("run", file)
            assert ended.returncode == 0, ended.stderr
        yield folder / "runs"


@pytest.fixture
def runs(judged: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_RUNS_DIR", str(judged))
    return judged


def validated(*arguments: str | Path) -> dict[str, Any]:
    ended = harness("judge", "validate", *arguments, "--format", "json")
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_the_figures_are_those_of_the_known_error_rates(runs: Path) -> None:
    found = validated(*WEIGHTS, "--judge", "tested", "--against", "truth", "--by", "category")
    share = np.array(list(WEIGHTS.values()), float).sum(axis=0) / 30
    p, truth = np.array(list(RIGHT)), np.array(list(RIGHT.values()))
    says = p >= 0.5
    is_right = np.where(says, truth, 1 - truth)
    accuracy = float(share @ is_right)
    own, other = float(share @ says), float(share @ truth)
    by_chance = own * other + (1 - own) * (1 - other)
    confidence = np.maximum(p, 1 - p)
    covariance = share @ (confidence * is_right) - (share @ confidence) * accuracy
    sensitivity = share @ (truth * says) / other
    specificity = share @ ((1 - truth) * ~says) / (1 - other)
    agreed, sure = found["agreement"], found["calibration"]
    expected = [
        (agreed["accuracy"], accuracy),
        (agreed["kappa"], (accuracy - by_chance) / (1 - by_chance)),
        (agreed["sensitivity"], sensitivity),
        (agreed["specificity"], specificity),
        (sure["covariance_with_right"], covariance),
    ]
    for figure, value in expected:
        assert 0 < figure["stderr"] < 0.05
        assert abs(figure["mean"] - value) < 4 * figure["stderr"]
    n = agreed["accuracy"]["n"]
    assert agreed["accuracy"]["stderr"] == pytest.approx(
        math.sqrt(accuracy * (1 - accuracy) / n), rel=0.25
    ), "the criteria of a prompt are independent here"
    assert sure["n"] == n
    assert [one["n"] > 0 for one in sure["bins"]] == [k in (0, 2, 7, 9) for k in range(10)]
    for place, (probability, yes) in zip((0, 2, 7, 9), RIGHT.items(), strict=True):
        one = sure["bins"][place]
        assert one["mean_probability"] == pytest.approx(probability)
        assert abs(one["yes"]["mean"] - yes) < 4 * one["yes"]["stderr"]
    assert sure["expected_error"] == pytest.approx(share @ abs(p - truth), abs=0.04)
    assert [part["group"] for part in found["parts"]] == ["Length", "Style and Tone"]
    assert sum(part["agreement"]["accuracy"]["n"] for part in found["parts"]) == n
    check_counts(found)
    check_rankings(found)


def check_counts(found: dict[str, Any]) -> None:
    """Every criterion is somewhere, and an abstention is no no."""
    said = [one for model in WEIGHTS for one in truths(model)]
    confusion = dict.fromkeys(found["agreement"]["confusion"], 0)
    for probability, truth in said:
        own = "abstained" if probability is None else "yes" if probability >= 0.5 else "no"
        confusion[f"{own}_{'yes' if truth else 'no'}"] += 1
    assert found["agreement"]["confusion"] == confusion
    assert confusion["abstained_yes"] > 0 < confusion["abstained_no"]
    assert (found["n"], found["n_clusters"]) == (len(said), TASKS)
    assert set(found["left_out"].values()) == {0}


def check_rankings(found: dict[str, Any]) -> None:
    scores = {(one["run"], one["score"]): one for one in found["scores"]}
    for model in WEIGHTS:
        said = truths(model)
        answers = [said[at : at + CRITERIA] for at in range(0, len(said), CRITERIA)]
        both = [
            (np.mean([p >= 0.5 for p, _ in one if p is not None]), np.mean([t for _, t in one]))
            for one in answers
            if any(p is not None for p, _ in one)
        ]
        own, other = np.mean(both, axis=0)
        assert scores[model, "soft"]["judge"]["mean"] == pytest.approx(own)
        assert scores[model, "soft"]["reference"]["mean"] == pytest.approx(other)
        assert scores[model, "soft"]["judge"]["n"] == len(both)
    taus = {one["score"]: one for one in found["rankings"]}
    assert (taus["soft"]["tau_b"], taus["soft"]["n_runs"]) == (1.0, 3)
    assert taus["soft"]["p_value"] == pytest.approx(1 / 3)
    assert set(taus) == {"strict", "soft"}


def test_people_may_be_the_reference(runs: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    said = truths("small")
    lines = [
        {
            "instance": f"t{t}",
            "sample": 0,
            "criterion": c if t % 2 else f"Criterion {c} is to be met.",
            "label": said[t * CRITERIA + c][1],
        }
        for t in range(0, TASKS, 2)
        for c in range(CRITERIA)
    ]
    lines += [{"instance": "t1", "criterion": 0, "label": None}]
    lines += [{"instance": "nobody", "criterion": 0, "label": True}]
    labels.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = validated("small", "--judge", "tested", "--against", labels)
    right = [
        (p >= 0.5) == truth
        for t in range(0, TASKS, 2)
        for p, truth in said[t * CRITERIA : (t + 1) * CRITERIA]
        if p is not None
    ]
    assert found["agreement"]["accuracy"]["mean"] == pytest.approx(np.mean(right))
    assert found["agreement"]["reference_abstained"] == 1
    assert found["left_out"]["unmatched"] == 1
    (said,) = (note for note in found["notes"] if "sample 0 of 'nobody' matches nothing" in note)
    assert said.endswith("'small' has no such answer.")
    assert found["left_out"]["only_judge"] == (TASKS // 2) * CRITERIA - 1
    assert found["scores"] == found["rankings"] == []
    assert found["confidence_covariance"]["n"] == 0, "people give no probability"


def test_a_table_to_read(runs: Path) -> None:
    shown = harness("judge", "validate", *WEIGHTS, "--judge", "tested")
    assert shown.returncode == 0, shown.stderr
    assert "tested against truth" in shown.stdout
    for said in (
        "confidence covariance, both judges",
        "Cohen's kappa",
        "abstains",
        "0.9-1.0",
        "tau-b",
        "large soft",
    ):
        assert said in shown.stdout


def test_several_judges_against_one_reference(runs: Path) -> None:
    labels = [
        {
            "instance": f"t{t}",
            "run": model,
            "criterion": c,
            "label": truths(model)[t * CRITERIA + c][1],
        }
        for model in WEIGHTS
        for t in range(0, TASKS, 10)
        for c in range(CRITERIA)
    ]
    file = runs.parent / "people.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in labels))
    arguments = (*WEIGHTS, "--judge", "tested", "--judge", "truth", "--against", str(file))
    ended = harness("judge", "validate", *arguments, "--format", "json")
    assert ended.returncode == 0, ended.stderr
    tested, truth = json.loads(ended.stdout)
    assert (tested["judge"], truth["judge"]) == ("tested", "truth")
    assert tested["agreement"]["accuracy"]["mean"] < truth["agreement"]["accuracy"]["mean"] == 1
    page = runs.parent / "report.html"
    assert harness("report", *WEIGHTS, "--output", page).returncode == 0
    told = data(page, "overview")["judges"]
    n = TASKS // 10 * CRITERIA
    for one, run in zip(told["truth"].split("; "), WEIGHTS, strict=True):
        assert one.startswith("agrees with human labels (people.jsonl) on 100% (")
        assert one.endswith(f"of {n} verdicts, kappa 1.00, in {run}")
    alone = validated(*WEIGHTS, "--judge", "tested", "--against", file)
    assert tested == alone, "each as if it were the only one"
    few = file.with_name("few.jsonl")
    few.write_text("".join(json.dumps(line) + "\n" for line in labels[:3]))
    validated(next(iter(WEIGHTS)), "--judge", "truth", "--against", few)
    assert harness("report", *WEIGHTS, "--output", page).returncode == 0
    assert data(page, "overview")["judges"] == told, "the file with most labels counts"
    shown = " ".join(harness("judge", "validate", *arguments).stdout.split())
    assert "judges against" in shown
    for judge in (tested, truth):
        assert f"{judge['agreement']['accuracy']['mean']:.3f}" in shown
    assert "for one judge" in mistake(harness("judge", "validate", *arguments, "--by", "category"))
    one = (*WEIGHTS, "--judge", "tested", "--against", "truth", "--by", "categry")
    assert "Did you mean 'category'?" in mistake(harness("judge", "validate", *one))


def test_what_cannot_be_meant_is_refused(runs: Path, tmp_path: Path) -> None:
    assert "which judge should be validated" in mistake(harness("judge", "validate", "small"))
    assert "cannot be compared with itself" in mistake(
        harness("judge", "validate", "small", "--judge", "truth", "--against", "truth")
    )
    assert "Did you mean 'tested'" in mistake(
        harness("judge", "validate", "small", "--judge", "testd")
    )
    assert "rules" in mistake(
        harness("judge", "validate", "small", "--judge", "tested", "--against", "rules")
    )
    missing = tmp_path / "none.jsonl"
    assert "Cannot read" in mistake(
        harness("judge", "validate", "small", "--judge", "tested", "--against", missing)
    )


def test_judging_is_as_it_was(runs: Path) -> None:
    again = harness("judge", "small", "--judge", "tested")
    assert again.returncode == 0, again.stderr
    helped = harness("judge", "--help")
    assert "--budget" in helped.stdout
    assert "harness judge validate" in " ".join(helped.stdout.split())
    assert "--against" in harness("judge", "validate", "--help").stdout
    assert "--against" in (ROOT / "docs" / "judge_validation.md").read_text()


def test_a_tab_offers_both(runs: Path) -> None:
    assert offered("harness judge v") == ["validate"]
    assert offered("harness judge sm") == ["small"]
    assert offered("harness judge validate me") == ["medium"]
    assert offered("harness judge validate small --aga") == ["--against"]
