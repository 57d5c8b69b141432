"""Ablations and matrices of runs with different measures."""

import pytest

from tests.cli.command import harness, mistake, words
from tests.cli.test_measures import PROMPTING, TOO_FEW, prompt_in_three_ways


@pytest.fixture(scope="module")
def prompted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    environment, _ = prompt_in_three_ways(tmp_path_factory.mktemp("runs"))
    return environment


@pytest.mark.parametrize(
    ("verb", "named"), [("ablation", "pass rate against pass@4"), ("matrix", "by pass@4")]
)
def test_every_verb_takes_each_runs_own_measure(
    verb: str, named: str, prompted: dict[str, str]
) -> None:
    ended = harness(verb, PROMPTING, "--format", "markdown", env=prompted)
    assert ended.returncode == 0, ended.stderr
    assert named in ended.stdout
    assert "Instances with fewer verdicts are excluded" in ended.stdout


@pytest.mark.parametrize("verb", ["ablation", "matrix"])
def test_too_few_samples_are_refused(verb: str, prompted: dict[str, str]) -> None:
    said = mistake(harness(verb, PROMPTING, "--score", "pass@4", env=prompted))
    assert TOO_FEW in words(said)
