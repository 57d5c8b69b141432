"""`harness ablation`: on the recorded answers of GPT-3, and on what it must refuse."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import ROOT, harness, mistake

REPLAY = "replay_gpt3_natural_instructions"
CONFIG = ROOT / "configs" / f"{REPLAY}.yaml"

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


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of runs after the whole replay: 23 variants of 13,000 recorded answers."""
    data = Path(os.environ.get("HARNESS_DATA_DIR", ROOT.parent / "shared" / "data"))
    if not (data / "natural_instructions" / "gpt3_predictions.jsonl.gz").is_file():
        pytest.skip("no reference data: set HARNESS_DATA_DIR")
    runs = tmp_path_factory.mktemp("replayed")
    ended = harness("run", CONFIG, env=on(runs, HARNESS_DATA_DIR=str(data)))
    assert ended.returncode == 0, ended.stderr
    return runs


def table(runs: Path, *options: str, name: str = REPLAY) -> dict[str, Any]:
    ended = harness("ablation", name, "--format", "json", *options, env=on(runs))
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_the_means_over_the_tasks(replayed: Path) -> None:
    found = table(replayed)["table"]
    assert (found["baseline"], found["over"], found["score"]) == ("prompt", "task", "rouge_l")
    assert [row["variant"] for row in found["rows"]] == list(
        yaml.safe_load(CONFIG.read_text())["variants"]
    )
    means = {row["variant"]: round(100 * row["mean"], 2) for row in found["rows"]}
    expected = {
        "prompt": 25.65,
        "definition_prompt": 31.58,
        "prompt_positive_max": 39.54,
        "prompt_negative_positive_max": 33.00,
        "prompt_avoid": 23.56,
    }
    assert {name: means[name] for name in expected} == expected


def test_a_variant_with_some_of_the_tasks_is_compared_on_these(replayed: Path) -> None:
    rows = {row["variant"]: row for row in table(replayed)["table"]["rows"]}
    part = rows["prompt_positive_mid"]
    assert (part["gain"]["n"], part["gain"]["of"], part["same_groups"]) == (2, 7, False)
    common = [by_task(replayed, name) for name in ("prompt_positive_mid", "prompt")]
    tasks = common[0].keys()
    assert len(tasks) == 2
    apart = sum(common[0][task] - common[1][task] for task in tasks) / 2
    assert part["difference"] == pytest.approx(apart)
    assert rows["prompt_positive_max"]["gain"]["n"] == 7


def by_task(runs: Path, variant: str) -> dict[str, float]:
    metrics = json.loads((runs / f"{REPLAY}.{variant}" / "metrics.json").read_text())
    groups = metrics["groups"]["task"]
    return {name: group["scores"]["rouge_l"]["mean"] for name, group in groups.items()}


def test_every_published_score(replayed: Path, data_dir: Path) -> None:
    """rouge_l and rouge_l_first_line of all 130 pairs of task and encoding that are recorded."""
    published = json.loads((data_dir / "natural_instructions/expected_rougeL.json").read_text())
    entries = {
        (entry["task"], entry["encoding"], str(entry["n_examples"])): entry
        for entry in published["by_task_encoding"]
    }
    assert len(entries) == 130
    seen = set()
    for path in replayed.glob(f"{REPLAY}.*/metrics.json"):
        groups = json.loads(path.read_text())["groups"]
        shown = yaml.safe_load((path.parent / "config.yaml").read_text())["task"]["examples"]
        (encoding,) = groups["encoding"]
        for task, group in groups["task"].items():
            number = shown[task] if isinstance(shown, Mapping) else 0
            assert str(number) in groups["examples"]
            entry = entries[task, encoding, str(number)]
            seen.add((task, encoding, str(number)))
            scores = group["scores"]
            assert scores["rouge_l"]["mean"] == pytest.approx(entry["rougeL"], abs=1e-6)
            assert scores["rouge_l_first_line"]["mean"] == pytest.approx(
                entry["rougeL_first_line"], abs=1e-6
            )
    assert seen == entries.keys()


def test_the_claims(replayed: Path) -> None:
    found = table(replayed)
    claims = [(claim["verdict"], claim["evidence"].split(":")[0]) for claim in found["claims"]]
    assert claims == [
        ("undecided", "definition_prompt over prompt"),
        ("holds", "prompt_positive_max over positive_max"),
        ("undecided", "of 4 fields added to prompt, smallest and largest gain"),
        ("holds", claims[3][1]),
    ]
    assert re.match(r"10 of 10 other encodings .* gain on some tasks and lose", claims[3][1])
    fields = {(gain["field"], gain["less"]): gain for gain in found["fields"]}
    negative = fields["Negative Examples", "prompt_positive_max"]
    assert negative["more"] == "prompt_negative_positive_max"
    assert round(100 * negative["difference"], 2) == -6.55
    assert list(negative["other_forms"]) == ["Positive Examples"]
    assert fields["Things to Avoid", "prompt"]["difference"] < 0


def test_gains_by_category_and_another_baseline(replayed: Path) -> None:
    found = table(replayed, "--by", "category", "--baseline", "positive_max")["table"]
    assert (found["baseline"], found["by"]) == ("positive_max", "category")
    row = next(row for row in found["rows"] if row["variant"] == "prompt_positive_mid")
    assert len(row["by"]) == 5
    assert (row["by"]["verification"]["n"], row["by"]["verification"]["of"]) == (1, 2)
    assert row["by"]["classification"]["percent"] is None


@pytest.mark.parametrize("width", ["60", "80", "160"])
def test_the_printed_table(replayed: Path, width: str) -> None:
    ended = harness("ablation", REPLAY, "--by", "category", env=on(replayed, COLUMNS=width))
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.split("\n")
    assert max(map(len, lines)) <= int(width)
    assert re.search(r"^definition_prompt +(7 of 7 +)?31\.58 +\+23\.1 +\+5\.94", ended.stdout, re.M)
    text = " ".join(ended.stdout.split())
    assert "holds “models benefit from instructions” Mishra et al. 2022" in text


def test_the_table_in_the_docs_is_what_is_printed(replayed: Path) -> None:
    page = (ROOT / "docs" / "natural_instructions.md").read_text()
    (shown,) = re.findall(r"^```text\n(variant .*?)^```$", page, re.M | re.S)
    ended = harness("ablation", REPLAY, env=on(replayed, COLUMNS="100"))
    printed = [line.rstrip() for line in ended.stdout.split("\n")]
    lines = [line for line in shown.splitlines() if line != "…"]
    assert len(lines) > 20
    assert [line for line in lines if line not in printed] == []


def test_a_category_is_not_compared_where_the_tasks_differ(replayed: Path) -> None:
    said = mistake(harness("ablation", REPLAY, "--over", "category", env=on(replayed)))
    assert "use different groups of 'task'" in said
    assert "--over task" in said


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
    found = table(ours, name="abl")
    assert [row["marks"] for row in found["table"]["rows"]] == [["SIMULATED"], ["SIMULATED"]]
    assert {claim["verdict"] for claim in found["claims"]} == {"not tested"}
    assert found["table"]["n_groups"] == 6
    assert found["table"]["notes"] == ["The variants differ in task.encoding."]
    by_path = table(ours, name=str(ours / "abl"))
    assert by_path == found


def change_manifest(runs: Path, variant: str, **changes: Any) -> None:
    path = runs / f"abl.{variant}" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_the_runs_come_in_the_order_in_which_they_were_begun(copied: Path) -> None:
    change_manifest(copied, "plain", started_at=2e9)
    found = table(copied, name="abl")["table"]
    assert [row["variant"] for row in found["rows"]] == ["full", "plain"]
    assert found["baseline"] == "full"


def test_a_run_that_is_not_done_is_marked(copied: Path) -> None:
    attempts = copied / "abl.full" / "attempts.jsonl"
    attempts.write_bytes(b"".join(attempts.read_bytes().splitlines(keepends=True)[:7]))
    change_manifest(copied, "full", owed=11)
    rows = table(copied, name="abl")["table"]["rows"]
    assert rows[1]["marks"][:2] == ["SIMULATED", "INCOMPLETE 7 of 18"]
    attempts.unlink()
    rows = table(copied, name="abl")["table"]["rows"]
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
    path = copied / "abl.full" / "config.yaml"
    path.write_text(path.read_text().replace("max_tokens: 50", "max_tokens: 9"))
    (told,) = table(copied, name="abl")["table"]["notes"][1:]
    assert told == "They differ in more than the task's options: decoding.max_tokens (50, 9)."


def test_a_task_that_is_gone_hides_no_table(copied: Path) -> None:
    for variant in ("plain", "full"):
        change_manifest(copied, variant, task="gone")
    ended = harness("ablation", "abl", env=on(copied))
    assert ended.returncode == 0, ended.stderr
    assert "No claims: There is no task named 'gone'" in ended.stderr
    assert "2 tasks" not in ended.stdout
    assert "over 6 tasks" in " ".join(ended.stdout.split())


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


@pytest.mark.parametrize("named", ["quick", "configs/quick.yaml"])
def test_a_run_without_variants_is_told_apart(named: str, tmp_path: Path) -> None:
    run = ("run", "configs/quickstart.yaml", "--limit", "13", "--name", "quick")
    assert harness(*run, env=on(tmp_path)).returncode == 0
    said = mistake(harness("ablation", named, env=on(tmp_path)))
    assert "has no variants" in said
