import json
from pathlib import Path
from typing import Any

from harness.datasets.folder import DataFolder
from harness.plugin_loader import kind
from tests.cli.command import harness, mistake


def test_a_map_of_criteria_from_words_and_from_embeddings(tmp_path: Path) -> None:
    describe = ("data", "describe", "wildifeval", "--format", "json", "--map", tmp_path / "map.svg")
    words = harness(*describe)
    assert words.returncode == 0, words.stderr
    drawn = (tmp_path / "map.svg").read_text()
    assert "61 different criteria of wildifeval" in drawn
    assert "Persona and Role" in drawn
    built: Any = kind("tasks").build("wildifeval", {}, data=DataFolder(tmp_path))
    texts = [one.text for each in built.instances() for one in built.criteria(each)]
    path = tmp_path / "embeddings.jsonl"
    path.write_text(
        "".join(json.dumps({"text": t, "embedding": [len(t), 1]}) + "\n" for t in texts)
    )
    assert harness(*describe, "--embeddings", path).returncode == 0
    assert (tmp_path / "map.svg").read_text() != drawn
    path.write_text(json.dumps({"text": texts[0], "embedding": [1]}) + "\n")
    assert "no embedding of 60 texts" in mistake(harness(*describe, "--embeddings", path))
