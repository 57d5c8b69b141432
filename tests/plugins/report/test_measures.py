"""Reports of runs with different measures."""

from pathlib import Path

import pytest

from tests.cli.command import harness, mistake, words
from tests.cli.test_measures import PROMPTING, TOO_FEW, prompt_in_three_ways


@pytest.fixture(scope="module")
def prompted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    environment, _ = prompt_in_three_ways(tmp_path_factory.mktemp("runs"))
    return environment


def test_too_few_samples_are_refused(prompted: dict[str, str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    said = mistake(harness("report", PROMPTING, "-o", page, "--score", "pass@4", env=prompted))
    assert TOO_FEW in words(said)


def test_a_report_names_both_measures(prompted: dict[str, str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ended = harness("report", PROMPTING, "-o", page, "--attempts", "0", env=prompted)
    assert ended.returncode == 0, ended.stderr
    text = page.read_text()
    assert "pass rate against pass@4" in text
    assert "<td>pass@4, last round</td><td>74.6%</td>" in text
