"""`harness show --side-by-side`: the answers of several runs."""

import json
from pathlib import Path

from tests.cli.command import harness
from tests.cli.test_jsonl import ONE_FILE, environment

__all__ = ["environment"]


def test_answers_of_prompts_and_models_side_by_side(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(ONE_FILE)
    ended = harness("run", file, env=environment)
    assert ended.returncode == 0, ended.stderr
    env = environment | {"COLUMNS": "160"}
    shown = harness("show", "mine", "--side-by-side", env=env).stdout.splitlines()
    variants = ("plain.simulated-1", "plain.simulated-0", "brief.simulated-1", "brief.simulated-0")
    assert shown[0].split() == ["instance", *variants]
    narrow = harness("show", "mine", "--side-by-side", env=environment | {"COLUMNS": "80"}).stdout
    lines = narrow.splitlines()
    assert lines[0].split() == ["plain.", "plain.", "brief.", "brief."]
    assert lines[1].split() == ["instance", *2 * ("simulated-1", "simulated-0")]
    assert shown[-2].split() == ["passed", *2 * ("2", "of", "2", "0", "of", "2")]
    [sea] = (line for line in shown if line.startswith("1: The sea?"))
    assert sea.count("✓ Caspian") == 2
    assert sea.count("(lacks 'Caspian')") == 2
    asked = (
        "show",
        "mine.plain.simulated-1",
        "mine.plain.simulated-0",
        "--side-by-side",
        "--failed",
    )
    found = json.loads(harness(*asked, "--format", "json", env=env).stdout)
    assert [(one["run"][-1], one["instance"], one["passed"]) for one in found] == [
        *(("1", "1", True), ("0", "1", False), ("1", "2", True), ("0", "2", False)),
    ]
    alone = json.loads(harness("show", asked[1], *asked[3:], "--format", "json", env=env).stdout)
    assert alone == []
