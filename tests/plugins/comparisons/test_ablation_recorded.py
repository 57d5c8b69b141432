"""`harness ablation` on the recorded answers of GPT-3: 23 variants of 13,000 answers."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.cli.command import ROOT, harness, mistake
from tests.plugins.comparisons.test_ablation_verb import on, table

pytestmark = pytest.mark.exhaustive

REPLAY = "replay_gpt3_natural_instructions"
CONFIG = ROOT / "configs" / f"{REPLAY}.yaml"


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


def test_the_means_over_the_tasks(replayed: Path) -> None:
    found = table(replayed, name=REPLAY)["table"]
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
    rows = {row["variant"]: row for row in table(replayed, name=REPLAY)["table"]["rows"]}
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
    found = table(replayed, name=REPLAY)
    claims = [(claim["verdict"], claim["evidence"].split(":")[0]) for claim in found["claims"]]
    assert claims == [
        ("undecided", "definition_prompt over prompt"),
        ("holds", "prompt_positive_max over positive_max"),
        ("undecided", "of 4 fields added to prompt, smallest and largest gain"),
        ("holds", claims[3][1]),
    ]
    assert re.match(r"10 of 10 other encodings .* gain on some groups and lose", claims[3][1])
    fields = {(gain["field"], gain["less"]): gain for gain in found["fields"]}
    negative = fields["Negative Examples", "prompt_positive_max"]
    assert negative["more"] == "prompt_negative_positive_max"
    assert round(100 * negative["difference"], 2) == -6.55
    assert list(negative["other_forms"]) == ["Positive Examples"]
    assert fields["Things to Avoid", "prompt"]["difference"] < 0


def test_gains_by_category_and_another_baseline(replayed: Path) -> None:
    found = table(replayed, "--by", "category", "--baseline", "positive_max", name=REPLAY)["table"]
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
    ended = harness("ablation", REPLAY, env=on(replayed, COLUMNS="112"))
    printed = [line.rstrip() for line in ended.stdout.split("\n")]
    lines = [line for line in shown.splitlines() if line != "…"]
    assert len(lines) > 20
    assert [line for line in lines if line not in printed] == []


def test_a_category_is_not_compared_where_the_tasks_differ(replayed: Path) -> None:
    said = mistake(harness("ablation", REPLAY, "--over", "category", env=on(replayed)))
    assert "use different groups of 'task'" in said
    assert "--over task" in said
