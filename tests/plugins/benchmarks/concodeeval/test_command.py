"""ConCodeEval as its users run it: the shipped files, offline and against the loopback provider."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder
from harness.plugin_loader import kind
from harness.plugins.mock.server import MockServer
from tests.cli.command import ROOT, harness, mistake

REPRESENTATIONS = ("json", "yaml", "xml", "python", "natural_language")
OFFLINE = ("json", "xml")
"""Of them, those that are run where the files as they stand are run elsewhere (docs, configs)."""
GENERATION, VALIDATION = "gpt4_concodeeval_generation", "gpt4_concodeeval_validation"
WRONG_XML = "<all><item><item/></item></all>"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"HARNESS_RUNS_DIR": str(tmp_path), "OPENAI_API_KEY": "k"}


def run(name: str, environment: dict[str, str], *options: str) -> str:
    ended = harness("run", ROOT / "configs" / f"{name}.yaml", *options, env=environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def table(environment: dict[str, str], *arguments: str) -> dict[tuple[str, ...], float]:
    """(the row's group and settings, figure, column's group) to the value."""
    ended = harness("table", *arguments, "--format", "json", env=environment)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    return {
        (row["group"], *row["settings"].values(), found["figures"][column["figure"]]["name"],
         column["group"] or "all"): cell["value"]
        for row in found["rows"]
        for column, cell in zip(found["columns"], row["cells"], strict=True)
        if cell is not None and cell["value"] is not None
    }  # fmt: skip


def task(name: str, **options: Any) -> Any:
    return kind("tasks").build(f"concodeeval_{name}", options, data=DataFolder(Path("nowhere")))


def test_offline_zero_and_few_shot_and_the_papers_table(
    environment: dict[str, str], tmp_path: Path
) -> None:
    offline = ("-o", "model={backend: simulated, accuracy: 0.6}", "--limit", "45")
    for name in (GENERATION, VALIDATION):
        zero = {each: {"task.representation": each} for each in OFFLINE}
        few = {each: {**zero[each], "task.shots.run": f"{name}.{each}"} for each in OFFLINE}
        run(name, environment, *offline, "-o", f"variants={json.dumps(zero)}")
        run(f"{name}_few_shot", environment, *offline, "-o", f"variants={json.dumps(few)}")
    ended = harness("table", GENERATION, VALIDATION, env=environment | {"COLUMNS": "200"})
    assert ended.returncode == 0, ended.stderr
    for said in ("SIMULATED", "Gen Acc", "IS%", "RTV%", "Val Acc", "Macro-F1", "2407.03387"):
        assert said in ended.stdout
    found = table(environment, GENERATION, VALIDATION)
    figures = {"Gen Acc", "IS%", "no block", "unparseable", "RTV%"}
    figures |= {"Val Acc", "Val Acc, answered", "Macro-F1", "Macro-F1, answered"}
    assert {key[-2] for key in found} == figures
    assert {key[0] for key in found} == set(OFFLINE)
    assert {key[-1] for key in found} == {"json", "yaml", "xml", "all"}
    both = table(environment, GENERATION, f"{GENERATION}_few_shot")
    assert len({key[:-2] for key in both}) == 4  # a row for each number of shots
    # A valid and an invalid sample are what validation is shown.
    path = tmp_path / f"{VALIDATION}_few_shot.xml" / "attempts.jsonl"
    for line in path.read_text().splitlines():
        messages = json.loads(line)["request"]["messages"]
        said = [message["content"] for message in messages if message["role"] == "assistant"]
        assert sorted(said) == ["no", "yes"]


def test_the_table_of_known_answers_from_the_loopback_provider(
    environment: dict[str, str],
) -> None:
    """A third of the samples valid, a third of a wrong root, a third of them not in a block."""
    answers, expected = {}, dict.fromkeys(("valid", "root", "none"), 0)
    instances = 0
    for representation in REPRESENTATIONS:
        built = task("generation", representation=representation)
        for instance in built.instances():
            prompt = built.messages(instance, ())[-1].content
            chosen = ("valid", "root", "none")[len(prompt) % 3]
            root = instance.groups["root"]
            other = "5" if root == "array" else "- 5"
            if instance.groups["output"] == "xml":
                other = "<all>5</all>" if root in ("array", "object") else WRONG_XML
            if instance.groups["output"] == "json":
                other = "5" if other == "5" else "[5]"
            texts = {"valid": built.reference(instance), "root": f"```\n{other}\n```", "none": "5"}
            answers[prompt] = texts[chosen]
            expected[chosen] += 1
            instances += 1
    with MockServer(answers=answers) as server:
        run(GENERATION, environment, "-o", f"model.base_url={server.base_url}")
        assert server.stats().requests == instances == 5 * 3 * 62
    found = table(environment, GENERATION)
    for figure, chosen in {"Gen Acc": "valid", "RTV%": "root", "no block": "none"}.items():
        rates = [found[representation, figure, "all"] for representation in REPRESENTATIONS]
        assert sum(rates) * 186 == pytest.approx(expected[chosen]), figure
    assert all(found[name, "unparseable", "all"] == 0 for name in REPRESENTATIONS)
    shown = harness(
        "show", f"{GENERATION}.yaml", "--constraints", "--by", "schema_third", env=environment
    )
    assert all(third in shown.stdout for third in ("first", "middle", "last")), shown.stderr
    both = [f"{GENERATION}.{each}" for each in OFFLINE]
    arguments = ("--constraints", "--by", "schema_third")
    shown = harness("show", *both, *arguments, env=environment | {"COLUMNS": "120"})
    assert all(said in shown.stdout for said in (*both, "first", "last", "share")), shown.stderr
    several = harness("show", *both, env=environment)
    assert "One in full: harness show" in several.stdout
    shown = harness("show", f"{GENERATION}.yaml", "--constraints", env=environment)
    assert "multipleOf" in shown.stdout


def test_validation_on_the_loopback_provider(environment: dict[str, str]) -> None:
    """Always yes: right for the valid samples alone, F1 of no is 0."""
    built = task("validation")
    labels = [instance.data.label for instance in built.instances()]
    yes = labels.count("yes") / len(labels)
    with MockServer(answers=lambda ask, index: "Yes, it does.") as server:
        some = json.dumps({each: {"task.representation": each} for each in OFFLINE})
        url = f"model.base_url={server.base_url}"
        run(VALIDATION, environment, "-o", url, "-o", f"variants={some}")
    found = table(environment, VALIDATION)
    for name in OFFLINE:
        assert found[name, "Val Acc", "all"] == pytest.approx(yes)
        assert found[name, "Val Acc, answered", "all"] == pytest.approx(yes)
        assert found[name, "Macro-F1", "all"] == pytest.approx(yes / (1 + yes))
        assert found[name, "Macro-F1, answered", "all"] == pytest.approx(yes / (1 + yes))


def test_rejected_schemas_are_told_by_keyword_and_are_no_failed_samples(
    environment: dict[str, str],
) -> None:
    with MockServer(faults={"400": 0.5}) as server:
        harness(
            *("run", "configs/vllm_concodeeval_constrained.yaml"),
            *("-o", f"model.base_url={server.base_url}"),
            env=environment,
        )
    shown = harness(
        "compare", "vllm_concodeeval_constrained", "--cost", env=environment | {"COLUMNS": "160"}
    )
    took = shown.stdout.partition("out a call")[2]
    row = next(
        line for line in took.splitlines() if line.startswith("vllm_concodeeval_constrained.f")
    )
    calls, failed, tokens_in, tokens_out, *_ = (part.strip(",") for part in row.split()[1:])
    assert int(calls) > 0 < int(failed)
    assert int(tokens_in.replace(",", "")) > int(calls) < int(tokens_out.replace(",", ""))
    shown = harness(
        "show",
        "vllm_concodeeval_constrained.constrained",
        "--rejected",
        env=environment | {"COLUMNS": "160"},
    )
    assert shown.returncode == 0, shown.stderr
    assert "of 62 constraints were rejected" in shown.stdout
    assert "root: string" in shown.stdout
    assert "configured to reject this request" in shown.stdout
    mistaken = harness("show", "vllm_concodeeval_constrained.free", "--rejected", env=environment)
    assert "did not constrain decoding" in mistake(mistaken)


@pytest.mark.parametrize("name", ["last_letter_free", "last_letter_constrained", "jsonl_example"])
def test_the_offline_files_run_against_the_loopback_provider_too(
    name: str, environment: dict[str, str], mock_server: MockServer
) -> None:
    backend = "{backend: openai, name: m, preset: vllm}"
    run(
        name,
        environment,
        *("--limit", "8", "-o", f"model={backend}", "-o", f"model.base_url={mock_server.base_url}"),
    )
    assert mock_server.stats().requests >= 8
