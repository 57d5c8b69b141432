"""The notes below tables, which newcomers must understand without the documentation."""

import json
from pathlib import Path

import pytest

from harness.report.text import format_interval, format_number
from tests.cli.command import harness, on, words

STUDY = """\
task:
  rows: [{q: One, target: a}, {q: Two, target: b}, {q: Three, target: c}, {q: Four, target: d}]
  checks: contains
model: {backend: simulated, accuracy: 0.5}
samples: 2
variants:
  plain: {task.prompt: "{{ q }}"}
  brief: {task.prompt: "{{ q }} briefly"}
  feedback: {task.prompt: "{{ q }}", rounds.max: 3}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notes")
    (folder / "study.yaml").write_text(STUDY)
    ended = harness("run", folder / "study.yaml", env=on(folder / "runs"))
    assert ended.returncode == 0, ended.stderr
    return folder / "runs"


def shown(runs: Path, *arguments: str) -> str:
    ended = harness(*arguments, env=on(runs))
    assert ended.returncode == 0, ended.stderr
    return words(ended.stdout)


def test_a_prompt_that_the_variants_set_is_no_warning(runs: Path) -> None:
    text = shown(runs, "compare", "study")
    assert "with a different prompt" not in text
    assert "The variants differ in task.prompt." in text
    assert "also differ in rounds.max (1, 3)" in text


def test_runs_that_share_replies_say_why_they_have_no_p_value(runs: Path) -> None:
    text = shown(runs, "compare", "study.plain", "study.feedback")
    assert "study.feedback has no p value: it shares replies with study.plain" in text
    assert "because equal requests are paid for once" in text


def test_adjusted_p_values_name_what_they_are_adjusted_for(runs: Path) -> None:
    text = shown(runs, "compare", "study")
    assert "If the 95% interval includes or touches 0, the difference may be chance." in text
    matrix = shown(runs, "matrix", "study")
    assert "Above it: the same p, adjusted by Holm's method for testing" in matrix
    assert "*" not in matrix, "no p is marked, so that no mark is explained"


def test_what_to_type_next_is_not_part_of_a_table(runs: Path) -> None:
    quick = harness("run", "quickstart", "--limit", "13", env=on(runs))
    assert quick.returncode == 0, quick.stderr
    shown_table = harness("table", "quickstart", env=on(runs))
    assert "For a row per group, add --rows structure" in shown_table.stderr
    for form in ("latex", "markdown", "json"):
        other = harness("table", "quickstart", "--format", form, env=on(runs))
        text = json.dumps(json.loads(other.stdout)["notes"]) if form == "json" else other.stdout
        assert "--rows" not in text + other.stderr


def test_a_bound_at_0_is_not_shown_as_above_it() -> None:
    assert format_interval((-0.1307, 0.0), 4, sign=True) == "-0.1307 to 0.0000"
    assert format_interval((-0.1307, 1e-6), 4, sign=True) == "-0.1307 to +0.000001"
    assert format_number(0.0, 4, sign=True) == "0.0000"
    assert format_number(0.2, 2, sign=True) == "+0.20"
