"""Structures: the paper's, sweeps, rules for targets, and what is refused where it is written."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import DataInvalid, DataMissing, UserError
from harness.plugins.benchmarks import punkt
from harness.plugins.benchmarks.collie.constraints.check import Observed, Splitter, check
from harness.plugins.benchmarks.collie.constraints.grammar import Base, Target, read_constraint
from harness.plugins.benchmarks.collie.task import LEVEL_OF
from harness.plugins.builders.collie.extraction import extract
from harness.plugins.builders.collie.structure import (
    FOLDER,
    PAPER,
    find_structures,
    options,
    read_rule,
    read_structure,
    specimen,
    suspicious,
)
from harness.plugins.builders.draws import Draws
from tests.plugins.benchmarks.collie.structures import STRUCTURES

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
    assert {structure.name: structure.plain["about"] for structure in found} == STRUCTURES
    assert all(structure.level == LEVEL_OF[structure.name[:4]] for structure in found)
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
    with pytest.raises(UserError) as raised:
        read_structure({**ENDS, **change}, "mine.yaml")
    assert "mine.yaml" in str(raised.value)
    assert said in str(raised.value)


@pytest.mark.parametrize("key", ["name", "level", "constraint", "targets"])
def test_a_missing_key_is_told(key: str) -> None:
    with pytest.raises(UserError, match=f"{key} is missing"):
        read_structure({name: value for name, value in ENDS.items() if name != key})


def base(relation: str, transformation: dict[str, Any], **more: Any) -> Base:
    raw = {"target_level": "word", "transformation": transformation, "relation": relation}
    found = read_constraint({**raw, **more}, "here")
    assert isinstance(found, Base)
    return found


COUNT = {"op": "count"}
EACH = {"op": "for_each", "do": COUNT}
EACH_UNIT = {"op": "for_each", "do": {"op": "identity"}}
EXACTLY = base("==", COUNT)
AT_MOST = base("<=", EACH, input_level="sentence", reduction="all")
AT_LEAST = base(">=", EACH, input_level="sentence", reduction="all")
SAME = base("==", EACH, input_level="sentence", reduction="all")
INSIDE = base("in", EACH_UNIT)


@pytest.mark.parametrize(
    ("rule", "base", "observed", "found"),
    [
        ({"sweep": {"from": 3, "to": 5}}, EXACTLY, 4, [4]),
        ({"sweep": {"from": 3, "to": 9, "step": 3}}, EXACTLY, 4, []),
        ({"sweep": [4, 9]}, base("<=", COUNT), 4, [4, 9]),
        (7, EXACTLY, 7, [7]),
        ({"take": "value", "from": 5}, EXACTLY, 7, [7]),
        ({"take": "value", "from": 8}, EXACTLY, 7, []),
        ({"take": "value", "to": 6}, EXACTLY, 7, []),
        ({"take": "value"}, EXACTLY, None, []),
        ({"take": "least", "from": 3}, AT_LEAST, (5, 3, 4), [3]),
        ({"take": "least", "from": 4}, AT_LEAST, (5, 3, 4), []),
        ({"take": "greatest"}, AT_MOST, (5, 3), [5]),
        ({"take": "greatest"}, AT_LEAST, (5, 3), []),  # the least sentence has not so many
        ({"take": "common"}, SAME, (3, 3), [3]),
        ({"take": "common"}, SAME, (3, 4), []),
        ({"take": "common", "values": {"from": 3}}, SAME, (3, 3), []),
        ({"take": "value"}, SAME, (3, 4), [(3, 4)]),
        ({"take": "value", "values": {"to": 1}}, SAME, (3, 4), []),
        ({"take": "value"}, SAME, (), []),
        ({"take": "value"}, base("==", {"op": "position", "index": [0, 9]}), ("a", None), []),
        ({"take": "sample", "size": 3}, INSIDE, ("a", "b"), []),
        ({"take": "sample", "size": 2}, INSIDE, ("A", "a.", "b'", "``"), []),
    ],
)  # fmt: skip
def test_what_a_text_gives(rule: Any, base: Base, observed: Observed, found: list[Target]) -> None:
    assert options(read_rule(rule, "here"), base, observed, lambda: Draws(0)) == found


def test_a_sample_is_of_different_clean_words() -> None:
    rule = read_rule({"take": "sample", "size": 2}, "here")
    words = ("One", "one", "two", "''", "three")
    seen = set()
    for seed in range(30):
        [found] = options(rule, INSIDE, words, lambda seed=seed: Draws(seed))  # type: ignore[misc]
        assert isinstance(found, tuple)
        assert len(found) == 2
        seen.add(frozenset(found))
    assert seen == {
        frozenset(pair) for pair in (("One", "two"), ("One", "three"), ("two", "three"))
    }


@pytest.mark.parametrize(
    ("target", "is_suspicious"),
    [
        ("word", False), ("3rd", False), ("Über", False), ("x", False), (7, False),
        ("``", True), ("(a", True), ("end.", True), ("'s", True), ("", True), (" a", True),
        (("a", "b"), False), (("a", "b!"), True), ((3, ("a", "-")), True),
    ],
)  # fmt: skip
def test_what_is_suspicious(target: Target, is_suspicious: bool) -> None:
    assert suspicious(target) is is_suspicious


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"sweep": []}, "1 to 10,000 values"),
        ({"sweep": {"from": 1, "to": 10**12}}, "1 to 10,000 values"),
        ({"sweep": {"from": 1}}, "to is missing"),
        ({"sweep": {"from": 1, "to": 5, "step": 0}}, "step: must be greater than or equal to 1"),
        ({"sweep": [1], "from": 3}, "unknown key 'from'"),
        ({"sweep": [1.5]}, "a whole number, a string or a list"),
        ({"take": "valeu"}, "must be 'value', 'common'"),
        ({}, "take is missing"),
        ({"take": "value", "form": 3}, "did you mean 'from'"),
        ({"take": "value", "from": 9, "to": 3}, "is empty"),
        ({"take": "value", "from": True}, "from must be a whole number"),
        ({"take": "value", "values": 3}, "values must be a section"),
        ({"take": "sample"}, "'size'"),
        ({"take": "value", "size": 3}, "'size'"),
        (None, "a whole number, a string or a list"),
    ],
)
def test_mistakes_in_a_rule_are_told(rule: Any, said: str) -> None:
    with pytest.raises(UserError) as raised:
        read_rule(rule, "here")
    assert said in str(raised.value)


def test_what_does_not_fit_has_no_specimen() -> None:
    least = read_rule({"take": "least"}, "here")
    sample = read_rule({"take": "sample", "size": 2}, "here")
    for rule in (least, sample, read_rule({"take": "common"}, "here")):
        with pytest.raises(DataInvalid, match="does not fit"):
            specimen(rule, EXACTLY, "here")
    assert specimen(least, AT_LEAST, "here") == 2
    assert specimen(sample, INSIDE, "here") == ("a", "a")
    assert specimen(read_rule({"sweep": [4, 5]}, "here"), EXACTLY, "here") == 4
