"""`harness errors`: a sheet of failures for people, and the tally of their labels."""

import csv
import io
import json
import os
from pathlib import Path

import pytest

from harness.plugins.judging.error_labels import Failure, tally
from tests.cli.command import harness, mistake

KINDS = ("copies the input", "Wrong  label", "wrong label")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return os.environ | {"HARNESS_RUNS_DIR": str(tmp_path_factory.mktemp("runs"))}


@pytest.fixture(scope="module")
def sheet(environment: dict[str, str]) -> list[dict[str, str]]:
    """Two failures of each of the six built-in tasks, of a model that is always wrong."""
    path = "configs/natural_instructions_builtin.yaml"
    ended = harness("run", path, "--name", "failing", "-o", "model.accuracy=0", env=environment)
    assert ended.returncode == 0, ended.stderr
    drawing = ("errors", "draw", "failing", "-n", "2", "--by", "task", "--seed")
    drawn = [harness(*drawing, seed, env=environment).stdout for seed in ("0", "0", "1")]
    assert drawn[0] == drawn[1] != drawn[2]
    return list(csv.DictReader(io.StringIO(drawn[0])))


def labelled(path: Path, sheet: list[dict[str, str]], shift: int = 0) -> str:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, sheet[0].keys())
        writer.writeheader()
        for number, row in enumerate(sheet):
            writer.writerow(row | {"error": KINDS[(number + shift) % len(KINDS)]})
    return str(path)


def test_failures_of_each_group_with_prompt_and_answer(sheet: list[dict[str, str]]) -> None:
    groups = [row["group"] for row in sheet]
    assert len(groups) == 12
    assert {groups.count(group) for group in groups} == {2}
    assert all(row["prompt"] and row["answer"] and row["reason"] for row in sheet)
    assert not any(row["error"] or row["note"] for row in sheet)


def test_kinds_of_error_and_the_agreement_of_two_people(
    sheet: list[dict[str, str]], tmp_path: Path
) -> None:
    first = labelled(tmp_path / "first.csv", [*sheet[:11]])
    found = json.loads(harness("errors", "tally", first, "--format", "json").stdout)
    totals = {kind: sum(groups.values()) for kind, groups in found["labels"].items()}
    assert totals == {"wrong label": 7, "copies the input": 4}
    assert found["agreement"] is None
    second = labelled(tmp_path / "second.csv", sheet, shift=1)
    found = json.loads(harness("errors", "tally", first, second, "--format", "json").stdout)
    # Both say "wrong label" of 4 failures; of the other 7, only one of them does.
    own, other = 7 / 11, 8 / 11
    chance = own * other + (1 - own) * (1 - other)
    assert found["agreement"]["mean"] == pytest.approx((4 / 11 - chance) / (1 - chance))
    assert found["agreement"]["n"] == 11
    shown = harness("errors", "tally", first, second).stdout
    assert "wrong label" in shown
    assert "Cohen's kappa" in shown


def test_several_answers_to_an_instance_are_no_independent_labels() -> None:
    kinds = [("a", "a"), ("a", "b"), ("b", "b"), ("b", "b"), ("a", "a"), ("b", "a")]

    def sheet(person: int, samples: int) -> list[Failure]:
        return [
            Failure("run", f"{number}", sample, "", "", "", "", both[person])
            for number, both in enumerate(kinds)
            for sample in range(samples)
        ]

    once, thrice = (tally(sheet(0, n), sheet(1, n)).agreement for n in (1, 3))
    assert once is not None
    assert thrice is not None
    assert (once.n, once.n_clusters) == (6, 6)
    assert (thrice.n, thrice.n_clusters) == (18, 6)
    assert thrice.mean == pytest.approx(once.mean) == pytest.approx(1 / 3)
    assert thrice.stderr == pytest.approx(once.stderr)


def test_a_cell_that_a_spreadsheet_would_execute_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": "a", "prompt": "=1+1", "gold": "no"}\n')
    (tmp_path / "run.yaml").write_text(
        f"task: {{name: jsonl, path: {tmp_path / 'rows.jsonl'}, gold: gold, "
        "checks: [{exact_match: {target: no}}]}\n"
        f"model: {{backend: replay, name: m, path: {tmp_path / 'said.jsonl'}, match: instance, "
        "columns: {instance: id, text: text}}\n"
    )
    (tmp_path / "said.jsonl").write_text('{"id": "a", "text": "=HYPERLINK(1)"}\n')
    ended = harness("run", str(tmp_path / "run.yaml"), "--name", "hostile")
    assert ended.returncode == 0, ended.stderr
    (row,) = csv.DictReader(io.StringIO(harness("errors", "draw", "hostile").stdout))
    assert (row["prompt"], row["answer"]) == ("'=1+1", "'=HYPERLINK(1)")


def test_mistakes(sheet: list[dict[str, str]], environment: dict[str, str], tmp_path: Path) -> None:
    draw = ("errors", "draw", "failing")
    assert "no label 'tsk'" in mistake(harness(*draw, "--by", "tsk", env=environment))
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    assert "no column 'run'" in mistake(harness("errors", "tally", str(other)))
    empty = labelled(tmp_path / "all.csv", sheet)
    other.write_text(harness(*draw, env=environment).stdout)
    assert "no labelled failure in common" in mistake(harness("errors", "tally", empty, str(other)))


def test_rows_that_were_pasted_twice_count_once(
    sheet: list[dict[str, str]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = labelled(tmp_path / "first.csv", sheet)
    once = harness("errors", "tally", path, "--format", "json")
    text = Path(path).read_text()
    rows = list(csv.reader(io.StringIO(text)))
    with Path(path).open("a", newline="") as file:
        csv.writer(file).writerows(rows[1:4])
    twice = harness("errors", "tally", path, "--format", "json")
    assert twice.stdout == once.stdout
    assert "has 3 rows twice: each counts once" in caplog.messages[-1]
    rows[1][rows[0].index("error")] = "something else"
    with Path(path).open("a", newline="") as file:
        csv.writer(file).writerows(rows[1:2])
    assert "labels a failure twice, and differently" in mistake(harness("errors", "tally", path))
