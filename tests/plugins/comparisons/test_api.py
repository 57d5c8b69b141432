"""Comparisons of runs in a program."""

from pathlib import Path

import pytest

import harness
from harness.errors import ConfigError
from tests.test_api import file

pytestmark = pytest.mark.usefixtures("program_folder")


def test_the_runs_of_variants_are_compared() -> None:
    several = file(["exact_match"], variants={"one": {}, "two": {"samples": 2}})
    Path("rows.jsonl").write_text(
        '{"prompt": "a", "target": "yes"}\n{"prompt": "b", "target": "no"}'
    )
    runs = harness.run_all(several, progress=False)
    comparison = harness.compare(*runs.values())
    assert comparison.found.others[0].overall.difference == 0
    assert list(comparison.to_frame()["n"]) == [2]
    assert "run.two" in repr(comparison)
    assert "<pre" in comparison._repr_html_()
    assert repr(harness.compare("run.one", "run.two")) == repr(comparison)
    assert repr(harness.compare("run")) == repr(comparison)  # the name stands for both runs
    with pytest.raises(ConfigError, match="two or more"):
        harness.compare("run.one")
