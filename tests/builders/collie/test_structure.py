"""Structures: the paper's, sweeps within a constraint, and mistakes of those who write one."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.builders.collie.extraction import extract
from harness.builders.collie.structure import FOLDER, PAPER, find_structures, read_structure
from harness.errors import DataInvalid, DataMissing
from harness.scoring import punkt
from harness.scoring.constraints.check import Splitter, check
from harness.tasks.collie import LEVELS
from tests.tasks.collie.structures import STRUCTURES

UNITS = Splitter(punkt.own(), punkt.word_tokens)
UNIT = {"op": "for_each", "do": {"op": "identity"}}
ENDS: dict[str, Any] = {
    "name": "ends",
    "level": "sentence",
    "constraint": {
        "target_level": "word",
        "transformation": {"op": "position", "index": {"sweep": [0, -1]}},
        "relation": "==",
    },
    "targets": {"take": "value"},
}


def test_the_papers_13_are_there() -> None:
    found = find_structures([PAPER])
    assert {structure.name: structure.about for structure in found} == STRUCTURES
    assert all(structure.level == LEVELS[structure.name[:4]] for structure in found)
    assert len(list(FOLDER.iterdir())) == 13


def test_structures_come_by_name_file_and_folder(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump([ENDS, {**ENDS, "name": "others"}]))
    (tmp_path / "b.yaml").write_text(yaml.safe_dump({**ENDS, "name": "more"}))
    names = [each.name for each in find_structures(["sent02", str(tmp_path)])]
    assert names == ["sent02", "ends", "others", "more"]
    with pytest.raises(DataInvalid, match="two structures named 'ends'"):
        find_structures([str(tmp_path), str(tmp_path / "a.yaml")])
    with pytest.raises(DataMissing, match="Did you mean 'sent02'"):
        find_structures(["sent2"])
    (tmp_path / "c.yaml").write_text("{")
    with pytest.raises(DataInvalid, match="not YAML"):
        find_structures([str(tmp_path / "c.yaml")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataMissing, match=r"no file \*.yaml"):
        find_structures([str(tmp_path / "empty")])


def test_what_is_swept_in_a_constraint_is_drawn_for_each_text() -> None:
    structure = read_structure(ENDS)
    assert len(structure.constraints) == 2
    seen = set()
    for number in range(20):
        text = f"First comes number {number} and then the last."
        found = extract(structure, text, UNITS, seed=0)
        assert found is not None
        assert found == extract(structure, text, UNITS, seed=0)
        assert check(found, text, UNITS).passed
        seen.add(found.targets)
    assert seen == {"First", "last"}


def test_one_part_of_an_or_is_enough() -> None:
    structure = read_structure(
        {
            "name": "either",
            "level": "sentence",
            "constraint": {
                "logic": "or",
                "constraints": [
                    {"target_level": level, "transformation": {"op": "count"}, "relation": relation}
                    for level, relation in (("word", "=="), ("character", ">"))
                ],
            },
            "targets": [{"sweep": [5, 6]}, 100],
        }
    )  # fmt: skip
    found = extract(structure, "This one has five words.", UNITS, seed=0)
    assert found is not None
    assert found.targets == (5, 100)
    assert extract(structure, "This one has not.", UNITS, seed=0) is None


def test_a_prompt_of_its_own() -> None:
    structure = read_structure({**ENDS, "prompt": "A {{ level }} with {{ targets }}, please."})
    found = extract(structure, "Snow fell.", UNITS, seed=0)
    assert found is not None
    assert structure.instruction(found) == f"A sentence with {found.targets}, please."
    assert "word to be" in read_structure(ENDS).instruction(found)


def test_a_prompt_gets_several_targets_as_lists() -> None:
    raw = {**ENDS, "targets": {"sweep": [["Snow", "Rain"]]}, "prompt": "{{ targets }}"}
    raw["constraint"] = {**ENDS["constraint"], "relation": "in", "transformation": UNIT}
    found = extract(read_structure(raw), "Snow and rain fell.", UNITS, seed=0)
    assert found is not None
    assert read_structure(raw).instruction(found) == "['Snow', 'Rain']"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "a b"}, "name: string should match"),
        ({"nam": "x"}, "did you mean 'name'"),
        ({"level": "sentense"}, "level: must be 'word', 'sentence'"),
        ({"level": "character"}, "level: must be 'word'"),
        ({"targets": {"take": "least"}}, "does not fit"),
        ({"targets": [1]}, "must be a text"),
        ({"targets": 3}, "must be a text"),
        ({"prompt": "{{ target }}"}, "Did you mean 'targets'"),
        ({"prompt": "{{ 1"}, "prompt"),
        ({"prompt": 3}, "prompt must be text"),
        ({"constraint": {"target_level": "paragraph", "transformation": {"op": "count"},
                         "relation": "=="}, "targets": 1}, "not made of paragraphs"),
        ({"constraint": {"logic": "all", "constraints": [ENDS["constraint"]]}}, "list of 1 rules"),
        ({"constraint": {"target_level": "word", "relation": "==", "transformation": {
            "op": "position", "index": {"sweep": {"from": 0, "to": 5000}}}}}, "more than 1,000"),
        ({"constraint": {"target_level": "word", "relation": "==", "transformation": {
            "op": "measure", "name": "beauty"}}, "targets": 1}, "no measure named 'beauty'"),
    ],
)  # fmt: skip
def test_mistakes_are_told(change: dict[str, Any], said: str) -> None:
    with pytest.raises(DataInvalid) as raised:
        read_structure({**ENDS, **change}, "mine.yaml")
    assert "mine.yaml" in str(raised.value)
    assert said in str(raised.value)


@pytest.mark.parametrize("key", ["name", "level", "constraint", "targets"])
def test_a_missing_key_is_told(key: str) -> None:
    with pytest.raises(DataInvalid, match=f"{key} is missing"):
        read_structure({name: value for name, value in ENDS.items() if name != key})
