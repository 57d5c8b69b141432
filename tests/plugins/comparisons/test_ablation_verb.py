"""`harness ablation`: on small runs, and what it must refuse."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import ROOT, harness, mistake
from tests.unsealed import unseal

OURS = """
task: {name: natural_instructions, dataset: builtin, instances: 3}
model: {backend: simulated, accuracy: 0.6}
decoding: {max_tokens: 50}
variants:
  plain: {task.encoding: prompt}
  full: {task.encoding: full}
"""


def on(runs: Path, **more: str) -> dict[str, str]:
    return os.environ | {"HARNESS_RUNS_DIR": str(runs)} | more


def table(runs: Path, *options: str, name: str = "abl") -> dict[str, Any]:
    ended = harness("ablation", name, "--format", "json", *options, env=on(runs))
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of runs after a small ablation of our own tasks."""
    folder = tmp_path_factory.mktemp("ours")
    (folder / "abl.yaml").write_text(OURS)
    ended = harness("run", folder / "abl.yaml", env=on(folder / "runs"))
    assert ended.returncode == 0, ended.stderr
    return folder / "runs"


@pytest.fixture
def copied(ours: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ours, tmp_path / "runs"))


def test_simulated_runs_are_marked_and_prove_nothing(ours: Path) -> None:
    found = table(ours)
    assert [row["marks"] for row in found["table"]["rows"]] == [["SIMULATED"], ["SIMULATED"]]
    assert {claim["verdict"] for claim in found["claims"]} == {"not tested"}
    assert found["table"]["n_groups"] == 6
    assert found["table"]["notes"] == ["The variants differ in task.encoding."]
    by_path = table(ours, name=str(ours / "abl"))
    assert by_path == found


def change_manifest(runs: Path, variant: str, **changes: Any) -> None:
    path = runs / f"abl.{variant}" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_runs_of_an_earlier_version_come_in_the_order_in_which_they_were_begun(
    copied: Path,
) -> None:
    change_manifest(copied, "plain", started_at=2e9)
    assert [row["variant"] for row in table(copied)["table"]["rows"]] == ["plain", "full"]
    for variant in ("plain", "full"):
        change_manifest(copied, variant, variants=[])
    found = table(copied)["table"]
    assert [row["variant"] for row in found["rows"]] == ["full", "plain"]
    assert found["baseline"] == "full"


def test_a_run_that_is_not_done_is_marked(copied: Path) -> None:
    attempts = copied / "abl.full" / "attempts.jsonl"
    attempts.write_bytes(b"".join(attempts.read_bytes().splitlines(keepends=True)[:7]))
    change_manifest(copied, "full", owed=11)
    rows = table(copied)["table"]["rows"]
    assert rows[1]["marks"][:2] == ["SIMULATED", "INCOMPLETE 7 of 18"]
    attempts.unlink()
    rows = table(copied)["table"]["rows"]
    assert rows[1]["marks"] == ["SIMULATED", "NO ATTEMPTS"]
    assert rows[1]["mean"] is None


def test_runs_that_cannot_be_compared_are_refused(copied: Path) -> None:
    change_manifest(copied, "full", fingerprint={"dataset_sha256": "another"})
    said = mistake(harness("ablation", "abl", env=on(copied)))
    assert "'abl.plain' and 'abl.full' are runs of different data sets" in said
    change_manifest(copied, "full", task="collie")
    said = mistake(harness("ablation", "abl", env=on(copied)))
    assert "different tasks: 'natural_instructions' and 'collie'" in said


def test_other_settings_are_told(copied: Path) -> None:
    unseal(copied / "abl.full")
    path = copied / "abl.full" / "config.yaml"
    path.write_text(path.read_text().replace("max_tokens: 50", "max_tokens: 9"))
    (told,) = table(copied)["table"]["notes"][1:]
    assert told == "The runs also differ in decoding.max_tokens (50, 9)."


def test_a_task_that_is_gone_hides_no_table(copied: Path) -> None:
    for variant in ("plain", "full"):
        change_manifest(copied, variant, task="gone")
    ended = harness("ablation", "abl", env=on(copied))
    assert ended.returncode == 0, ended.stderr
    assert "No claims: There is no task named 'gone'" in ended.stderr
    assert "2 groups" not in ended.stdout
    assert "over 6 groups of 'task' with" in " ".join(ended.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["alb"], "Did you mean 'abl'?"),
        (["abl.plain"], "has no variants"),
        (["abl", "--baseline", "plan"], "Did you mean 'plain'?"),
        (["abl", "--over", "tasks"], "Did you mean 'task'?"),
        (["abl", "--by", "categories"], "Did you mean 'category'?"),
        (["abl", "--over", "category", "--by", "task"], "is in several of 'task'"),
        (["abl", "--score", "rouge"], "Did you mean 'rouge_l'?"),
    ],
)
def test_mistakes(ours: Path, arguments: list[str], said: str) -> None:
    assert said in mistake(harness("ablation", *arguments, env=on(ours)))


def test_one_variant_is_no_ablation(copied: Path) -> None:
    shutil.rmtree(copied / "abl.full")
    assert "only one run abl.plain" in mistake(harness("ablation", "abl", env=on(copied)))


def test_help_loads_nothing_heavy() -> None:
    heavy = ("numpy", "scipy", "rich.table", "pydantic")
    script = f"import sys, harness.cli; print([m for m in {heavy} if m in sys.modules])"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert ended.stdout.strip() == "[]"


def test_runs_of_another_file_and_copies_are_no_variants(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(OURS)
    runs = tmp_path / "runs"
    assert harness("run", file, env=on(runs)).returncode == 0
    assert harness("run", file, "--name", "own.v2", env=on(runs)).returncode == 0
    shutil.copytree(runs / "own.plain", runs / "own.plain-copy")
    found = table(runs, name="own")["table"]["rows"]
    assert [row["variant"] for row in found] == ["plain", "full"]
    assert [r["variant"] for r in table(runs, name="own.v2")["table"]["rows"]] == ["plain", "full"]


def test_other_instances_in_equal_numbers_are_marked(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(
        "task: {name: natural_instructions}\nmodel: {backend: simulated}\nlimit: 12\n"
        "variants: {a: {}, b: {seed: 1}}\n"
    )
    assert harness("run", file, env=on(tmp_path)).returncode == 0
    _, other = table(tmp_path, name="own")["table"]["rows"]
    assert any(mark.startswith("other instances in") for mark in other["marks"])


@pytest.mark.parametrize("named", ["quickstart", "configs/quickstart.yaml"])
def test_a_run_without_variants_is_told_apart(named: str, tmp_path: Path) -> None:
    run = ("run", "configs/quickstart.yaml", "--limit", "13")
    assert harness(*run, env=on(tmp_path)).returncode == 0
    said = mistake(harness("ablation", named, env=on(tmp_path)))
    assert "has no variants" in said


def test_an_ablation_of_other_variants_than_those_of_the_run_file_is_refused(
    tmp_path: Path,
) -> None:
    text = (
        "{task: {rows: [{q: Say a., target: a, kind: b}], prompt: '{{ q }}', groups: [kind], "
        "checks: [exact_match]}, model: {backend: simulated, accuracy: 1}, "
        "variants: {a: {}, b: {samples: 2}}}"
    )
    file, env = tmp_path / "two.yaml", on(tmp_path / "runs")
    file.write_text(text)
    assert harness("run", file, env=env).returncode == 0
    assert harness("ablation", file, env=env).returncode == 0
    file.write_text(text.replace("Say a.", "Say b."))
    assert "task.rows" in mistake(harness("ablation", file, env=env))
    assert harness("ablation", "two", env=env).returncode == 0


def test_runs_without_labels_are_refused(tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text(
        "task: {rows: [{q: a, target: x}], prompt: '{{ q }}', checks: [exact_match]}\n"
        "model: {backend: simulated}\nvariants: {one: {}, other: {task.prompt: 'Say {{ q }}'}}\n"
    )
    assert harness("run", tmp_path / "plain.yaml", env=on(tmp_path)).returncode == 0
    assert "have no label in common" in mistake(harness("ablation", "plain", env=on(tmp_path)))


def test_a_run_file_with_labels_and_variants_ends_with_the_verbs_name(tmp_path: Path) -> None:
    variants = "variants={zero: {}, taught: {rounds.max: 4}}"
    quick = ("run", "tests/fixtures/quickstart.yaml", "--limit", "26", "--name", "three")
    ended = harness(*quick, "-o", variants, env=on(tmp_path))
    assert "harness ablation three" in ended.stderr
