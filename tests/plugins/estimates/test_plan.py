"""Dry runs: what they say, and that they do nothing."""

from pathlib import Path
from typing import Any

from tests.cli.command import harness
from tests.cli.test_jsonl import ROWS, environment, written
from tests.cli.test_load import PRICE
from tests.cli.test_run import GPT4, runs
from tests.rows import QUICKSTART, TASK

__all__ = ["environment", "runs"]


def test_a_dry_run_needs_no_key_and_does_nothing(runs: Path) -> None:
    ended = harness(*GPT4, "--dry-run")
    assert ended.returncode == 0, ended.stderr
    assert "OPENAI_API_KEY" in ended.stdout
    assert "2,600 distinct" in ended.stdout
    assert "Write: " in ended.stdout
    assert not runs.exists()


def test_a_dry_run_of_a_changed_file_plans_a_new_run(runs: Path) -> None:
    quick = ("run", QUICKSTART, "--limit", "13")
    assert harness(*quick).returncode == 0
    before = sorted(runs.iterdir())
    changed = harness(*quick, "-o", "decoding.temperature=0.5", "--dry-run")
    assert changed.returncode == 0, changed.stderr
    assert "different values: decoding.temperature" in changed.stderr
    assert "This is the plan of a new run" in changed.stderr
    assert sorted(runs.iterdir()) == before
    fresh = harness(*quick, "-o", "decoding.temperature=0.5", "--dry-run", "--fresh")
    assert fresh.stdout == changed.stdout
    assert str(runs / "quickstart") in "".join(fresh.stdout.split())  # it may be wrapped
    assert sorted(runs.iterdir()) == before


def test_the_dry_run_of_variants_counts_shared_calls_once(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "both.yaml"
    file.write_text(
        TASK + "model: {backend: openai, name: gpt-4}\nlimit: 13\n"
        "decoding: {max_tokens: 100}\nvariants: {one: {}, two: {samples: 2}, three: {seed: 1}}\n"
    )
    said = harness("run", file, "--dry-run").stdout
    figures = [line.split()[-1] for line in said.splitlines() if line.startswith("calls to pay")]
    # The first answers of the second are the first's; another seed asks for others.
    assert figures == ["13", "39"], "of each run, and of all"
    assert "3 runs" in said
    assert said.count("OPENAI_API_KEY: needed for") == 1, "what holds for all runs is said once"


def test_the_dry_run_of_prompts_shows_each_prompt_and_what_is_the_same_once(
    runs: Path, tmp_path: Path
) -> None:
    file = tmp_path / "prompts.yaml"
    file.write_text(
        "task: {rows: [{q: A, target: a}, {q: B, target: b}, {q: C, target: c}],"
        " checks: contains}\n"
        "model: simulated/0.5\n"
        'matrix: {task.prompt: {plain: "{{ q }}", brief: "{{ q }} briefly"}, samples: [1, 4]}\n'
    )
    said = harness("run", file, "--dry-run").stdout
    lines = [line.split() for line in said.splitlines()]
    assert [line for line in lines if line[:1] == ["instances"]] == [["instances", "3"]]
    assert [line[1] for line in lines if line[:1] == ["samples"]] == ["3,", "12,"] * 2
    assert said.count("first prompt") == 2
    assert "A briefly" in said
    assert len(lines) < 50


def test_a_dry_run_says_what_a_run_would_cost(runs: Path) -> None:
    said = harness(*GPT4, "-o", "samples=1", *PRICE, "-o", "rounds.max=3", "--dry-run").stdout
    facts: dict[str, Any] = dict(
        line.split("  ", 1) for line in said.splitlines() if "  " in line and line[0] != " "
    )
    low, high = (float(part.strip(" $")) for part in facts["cost"].split(" to "))
    assert 0 < low < 130 * 1000 * 1000 / 1e6 < high
    calls = [int(part.replace(",", "")) for part in facts["calls to pay"].split(" to ")]
    assert calls == [130, 390]
    assert (
        "no price for no-such"
        in harness(*GPT4, "-o", "samples=1", "-o", "model.name=no-such", "--dry-run").stdout
    )


def test_a_dry_run_names_the_targets_that_fail_their_own_checks(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    ended = harness("run", written(tmp_path, ROWS[:3]), "--dry-run", env=environment)
    assert ended.returncode == 0, ended.stderr
    said = " ".join(ended.stdout.split())
    assert "1 of 3 pass; these fail: 1 (short: at most 2 words, has 3), 3 (short" in said
