"""Feedback against asking again: unequal numbers of tries, and samples that are no tries."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs

from harness.analysis.identical_samples import IDENTICAL_SAMPLES_PREFIX
from harness.plugins.comparisons.run_differences import UNEQUAL_TRIES, differing, unequal_tries
from harness.plugins.mock.server import MockServer
from tests.cli.command import harness, words
from tests.plugins.comparisons.variants import variant
from tests.plugins.report.pages import data

ROUNDS = variant("feedback", {}, settings={"samples": 1, "rounds.max": 4})
RETRY = variant("retry2", {}, settings={"samples": 2, "rounds.max": 1}, measure="pass@2")
ONCE = variant("once", {})


def test_fewer_samples_than_rounds_are_reported() -> None:
    (note,) = (text for text in differing(RETRY, [ROUNDS, ONCE]) if text.startswith(UNEQUAL_TRIES))
    assert note == (
        f"{UNEQUAL_TRIES}: up to 4 in feedback (rounds), but 2 in retry2 (pass@2). A fair measure "
        "of asking again is pass@4 of 4 samples or more."
    )


@pytest.mark.parametrize(("measure", "round_"), [("pass@4", None), ("pass@2", 2), ("pass^2", None)])
def test_equal_numbers_of_tries_are_not_reported(measure: str, round_: int | None) -> None:
    retry = replace(RETRY, metrics=structs.replace(RETRY.metrics, measure=measure))
    assert not list(unequal_tries([retry, ROUNDS], round_))


def test_rounds_of_several_samples_are_tries_of_each() -> None:
    settings = {"samples": 2, "rounds.max": 2}
    both = variant("both", {}, settings=settings, measure="pass@2")
    (note,) = unequal_tries([RETRY, both])
    assert "up to 4 in both (rounds), but 2 in retry2 (pass@2)" in note


TREE: dict[str, Any] = {
    "task": {
        "rows": [{"id": f"r{n}", "text": f"question {n}", "kind": "k"} for n in range(4)],
        "prompt": "{{ text }}",
        "checks": [{"contains": {"target": "a"}}],
        "groups": ["kind"],
    },
    "decoding": {"temperature": 0},
    "variants": {
        "once": {},
        "retry2": {"samples": 2, "measure": "pass@2"},
        "feedback": {"rounds.max": 4},
    },
}
GREEDY = "study.retry2: samples: 2 at temperature 0."


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str], str]:
    """Return the folder and environment of a study at temperature 0, and what its run printed."""
    folder = tmp_path_factory.mktemp("tries")
    env = {**os.environ, "HARNESS_RUNS_DIR": "runs", "HARNESS_CACHE_DIR": "cache"}
    with MockServer(answers=lambda request, index: "B") as server:
        model = {"backend": "openai", "preset": "vllm", "name": "m", "base_url": server.base_url}
        (folder / "study.yaml").write_text(yaml.safe_dump({**TREE, "model": model}))
        planned = harness("run", "study.yaml", "--dry-run", env=env, cwd=folder)
        assert GREEDY in words(planned.stdout + planned.stderr), planned.stderr
        warm = harness(
            "run", "study.yaml", "--dry-run", "-o", "decoding.temperature=1", env=env, cwd=folder
        )
        assert "at temperature" not in words(warm.stdout + warm.stderr)
        ended = harness("run", "study.yaml", env=env, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return folder, env, words(ended.stdout + ended.stderr)


def test_a_run_warns_of_samples_at_temperature_0(study: tuple[Path, dict[str, str], str]) -> None:
    assert GREEDY in study[2]
    assert "pass@2 is no measure of asking again" in study[2]


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "study.retry2", "study.feedback"),
        ("matrix", "study"),
        ("ablation", "study"),
        ("table", "study"),
        ("table", "study.retry2", "--score", "pass@2"),
        ("show", "study.retry2"),
    ],
    ids=" ".join,
)
def test_repeated_samples_are_reported_with_pass_at_k(
    arguments: tuple[str, ...], study: tuple[Path, dict[str, str], str]
) -> None:
    folder, env, _ = study
    ended = harness(*arguments, env=env, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    text = words(ended.stdout)
    assert IDENTICAL_SAMPLES_PREFIX in text
    assert "the same text at temperature 0, in 4 of 4 instances" in text
    several = {"compare", "matrix", "ablation"} & {*arguments} or arguments == ("table", "study")
    assert (UNEQUAL_TRIES in text) == bool(several)


def test_a_report_warns_of_tries_at_its_top(study: tuple[Path, dict[str, str], str]) -> None:
    folder, env, _ = study
    ended = harness("report", "study", "-o", "report.html", env=env, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    warnings = data(folder / "report.html", "overview")["warnings"]
    assert sum(IDENTICAL_SAMPLES_PREFIX in warning for warning in warnings) == 1
    assert sum(UNEQUAL_TRIES in warning for warning in warnings) == 1
