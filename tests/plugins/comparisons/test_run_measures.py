"""Comparisons of runs by what each is measured by."""

import json

import pytest

from tests.cli.command import harness, mistake, words
from tests.cli.test_measures import PROMPTING, TOO_FEW, prompt_in_three_ways


@pytest.fixture(scope="module")
def prompted(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], str]:
    return prompt_in_three_ways(tmp_path_factory.mktemp("runs"))


def test_feedback_that_cannot_help_is_no_better_than_retrying(
    prompted: tuple[dict[str, str], str],
) -> None:
    env, printed = prompted
    assert f"jsonl: against {PROMPTING}.best_of_4" in printed
    assert "pass@4 0.746 ± 0.038" in printed
    runs = [f"{PROMPTING}.{name}" for name in ("best_of_4", "feedback")]
    ended = harness("compare", *runs, "--format", "json", env=env)
    (other,) = json.loads(ended.stdout)["others"]
    found = other["overall"]
    assert other["marks"] == ["SIMULATED", "pass rate against pass@4"]
    assert (round(found["first"], 4), round(found["second"], 4)) == (0.7462, 0.7846)
    assert found["n"] == 130
    assert found["p_value"] > 0.5
    single = harness("compare", *runs, "--score", "pass_rate", "--format", "json", env=env)
    assert json.loads(single.stdout)["others"][0]["overall"]["p_value"] < 0.001


def test_a_table_takes_each_runs_own_measure(prompted: tuple[dict[str, str], str]) -> None:
    ended = harness("table", PROMPTING, "--rows", "", "--format", "markdown", env=prompted[0])
    assert ended.returncode == 0, ended.stderr
    assert "pass@4 (inst" in ended.stdout
    assert "Instances with fewer verdicts are excluded" in ended.stdout


@pytest.mark.parametrize("verb", [("compare",), ("table", "--rows", "")])
def test_too_few_samples_are_refused(
    verb: tuple[str, ...], prompted: tuple[dict[str, str], str]
) -> None:
    name, *option = verb
    said = mistake(harness(name, PROMPTING, *option, "--score", "pass@4", env=prompted[0]))
    assert TOO_FEW in words(said)
