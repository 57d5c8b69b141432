"""JSONSchemaBench as its users run it: refused schemas, copies, and recorded answers."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder
from harness.plugins.benchmarks.jsonschemabench.task import JSONSchemaBenchTask
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.command import ROOT, harness, mistake

NAME = "openai_jsonschemabench"
CONFIG = ROOT / "configs" / f"{NAME}.yaml"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"HARNESS_RUNS_DIR": str(tmp_path / "runs"), "OPENAI_API_KEY": "k"}


def attempts(folder: Path, run: str) -> list[dict[str, Any]]:
    lines = (folder / "runs" / run / "attempts.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def table(environment: Mapping[str, str], *arguments: str) -> dict[tuple[str, str, str], Any]:
    """(the prompt or constraint of the row, its data set, figure) to the cell."""
    ended = harness("table", *arguments, "--format", "json", env=environment)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    return {
        (row["settings"].get("decoding.constraint", ""), row["group"], figure["name"]): cell
        for row in found["rows"]
        for figure, cell in zip(found["figures"], row["cells"], strict=True)
    }


def test_a_refused_schema_is_a_result_and_its_keywords_are_named(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    task = JSONSchemaBenchTask(data=DataFolder(tmp_path))
    answers = {task.messages(one, ())[-1].content: task.reference(one) for one in task.instances()}

    def model(ask: MockRequest, index: int) -> str:
        return answers.get(ask.prompt) or "No."

    def run(url: str, *options: str) -> None:
        ended = harness("run", CONFIG, "-o", f"model.base_url={url}", *options, env=environment)
        assert ended.returncode == 0, ended.stderr

    refused = ("schema:pattern", "schema:oneOf")
    with MockServer(answers=model, refuse=refused) as server:
        run(server.base_url)
        run(server.base_url)
        asked = server.stats().requests
    assert asked == 3 * 16  # a refused schema is not sent again by the same run
    found = attempts(tmp_path, f"{NAME}.constrained")
    lost = [one for one in found if one["outcome"] == "refused"]
    assert len(lost) == 6
    assert {one["passed"] for one in lost} == {False}
    assert {one["finish_reason"] for one in lost} == {"constraint_refused"}
    assert {one["scores"]["declared"]["value"] for one in lost} == {False}
    assert all("is not permitted" in one["text"] for one in lost)

    cells = table(environment, NAME)
    assert cells["task", "events", "declared"]["value"] == 0.25
    assert cells["task", "events", "empirical"]["value"] == 0.25
    assert cells["task", "events", "compliance rate"]["value"] == 1.0
    assert cells["task", "events", "tokens"]["n"] == 1
    assert cells["task", "events", "ms"]["value"] > 0
    assert cells["null", "events", "declared"]["value"] == 1.0

    shown = harness("show", f"{NAME}.constrained", "--rejected", env=environment)
    assert "6 of 16 constraints were rejected by the provider." in shown.stdout
    assert re.search(r"(?m)^pattern +5 +5 +100%", shown.stdout), shown.stdout
    by = harness("show", f"{NAME}.constrained", "--rejected", "--by", "dataset", env=environment)
    assert "3 of 4 constraints were rejected by the provider." in by.stdout
    assert "dataset settings" in by.stdout
    arguments = ("show", f"{NAME}.constrained", "--rejected", "--by", "nothing")
    assert "has no label 'nothing'" in mistake(harness(*arguments, env=environment))

    # The verdicts are a function of what was recorded.
    again = harness("score", f"{NAME}.constrained", env=environment)
    assert again.returncode == 0, again.stderr
    assert table(environment, NAME)["task", "events", "declared"]["value"] == 0.25


def test_other_rejections_and_other_tasks_keep_the_outcome_error(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    with MockServer(faults={"400": 1.0}) as server:
        ended = harness(
            *("run", CONFIG, "--limit", "4", "-o", f"model.base_url={server.base_url}"),
            env=environment,
        )
        assert ended.returncode == 1, ended.stderr
    for one in attempts(tmp_path, f"{NAME}.constrained"):
        assert (one["outcome"], one["passed"], one["scores"]) == ("error", None, {})


def test_copies_tell_too_much_from_too_little(tmp_path: Path, environment: dict[str, str]) -> None:
    """A server that ignores constraints copies all: it constrains too little, never too much."""

    def model(ask: MockRequest, index: int) -> str:
        return ask.prompt.rpartition("\n\n")[2]

    with MockServer(answers=model) as server:
        ended = harness(
            *("run", ROOT / "configs" / "vllm_jsonschemabench_copies.yaml", "--name", "copies"),
            *("-o", f"model.base_url={server.base_url}"),
            env=environment,
        )
        assert ended.returncode == 0, ended.stderr
    for group in ("articles", "events", "functions", "settings"):
        found = {
            key[2]: cell["value"]
            for key, cell in table(environment, "copies").items()
            if key[1] == group
        }
        assert (found["over-constrained"], found["under-constrained"]) == (0.0, 1.0)
        assert "empirical" not in found


def test_recorded_answers_are_matched_by_the_names_of_schemas(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    rows = [
        {
            "key": "functions---book_table",
            "response": '```json\n{"restaurant": "x", "guests": 2}\n```',
        },
        {"key": "functions---convert_money", "response": '{"amount": 0}'},
        {"key": "settings---server", "response": '{"host": "192.0.2.7"}'},
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for verdicts, server in (("official", False), ("strict", True)):
        ended = harness(
            *("run", ROOT / "configs" / "replay_jsonschemabench.yaml", "--name", verdicts),
            *("-o", "task.dataset=builtin", "-o", f"task.verdicts={verdicts}"),
            *("-o", f"model.path={path}"),
            env=environment,
        )
        assert "13 attempts failed" in ended.stderr
        found = {one["instance"]: one for one in attempts(tmp_path, verdicts)}
        assert found["functions---book_table"]["passed"] is True
        assert found["functions---convert_money"]["passed"] is False
        assert found["settings---server"]["passed"] is server
        assert sum(one["outcome"] == "error" for one in found.values()) == 13
