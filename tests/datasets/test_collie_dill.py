"""The official file gives the published instances, and nothing that is not one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.conversion import STRUCTURES, collie_instances, write_instances
from harness.datasets.folder import read_jsonl
from harness.errors import DataInvalid
from harness.tasks.collie import read_items
from tests.datasets.pickles import constraint, official, pickled, record, value
from tests.tasks.collie.structures import STRUCTURES as PAPERS


def read(folder: Path, data: bytes) -> list[dict[str, Any]]:
    file = folder / "all_data.dill"
    file.write_bytes(data)
    return list(collie_instances(file))


def test_the_official_file_gives_the_published_instances(data_dir: Path) -> None:
    published = list(read_jsonl(data_dir / "collie" / "instances.jsonl"))
    found = list(collie_instances(data_dir / "collie" / "all_data.dill"))
    assert len(found) == len(published) == 2080
    for ours, theirs in zip(found, published, strict=True):
        assert list(ours) == list(theirs)
        for field in theirs:
            assert ours[field] == theirs[field], (theirs["id"], field)
            assert type(ours[field]) is type(theirs[field])


def test_the_bytes_are_those_of_the_published_form(data_dir: Path) -> None:
    ours = b"".join(write_instances(data_dir / "collie" / "all_data.dill"))
    assert ours == (data_dir / "collie" / "instances.jsonl").read_bytes()


def test_only_the_plain_parts_of_the_official_file_are_needed(data_dir: Path) -> None:
    file = data_dir / "collie" / "all_data.dill"
    script = (
        "import sys; from pathlib import Path;"
        "from harness.datasets.conversion import collie_instances;"
        f"print(len(list(collie_instances(Path({str(file)!r})))), 'dill' in sys.modules,"
        "'collie' in sys.modules, 'nltk' in sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["2080", "False", "False", "False"]


def test_structures_are_named_as_by_the_task() -> None:
    assert set(STRUCTURES.values()) == PAPERS.keys()


def test_a_file_of_one_instance(tmp_path: Path) -> None:
    assert read(tmp_path, official()) == [
        {
            "id": "wiki_c04/0",
            "source": "wiki",
            "structure": "sent01",
            "group": "wiki_c04",
            "prompt": "Two words, please.",
            "targets": 2,
            "constraint": {
                "input_level": None,
                "target_level": "word",
                "transformation": {"op": "count", "of": None},
                "relation": "==",
                "reduction": None,
                "reduction_value": None,
            },
            "example": "One two.",
            "oneshot_prompt": None,
            "metadata": {},
        }
    ]


def test_what_it_gives_the_task_reads(tmp_path: Path) -> None:
    (tmp_path / "all_data.dill").write_bytes(official())
    rows = tmp_path / "instances.jsonl"
    rows.write_bytes(b"".join(write_instances(tmp_path / "all_data.dill")))
    (item,) = read_items(rows)
    assert item.id == "wiki_c04/0"
    assert item.specification.level == "sentence"


EACH = record("ForEach", func=record("Count", count_target="a"))


@pytest.mark.parametrize(
    ("part", "plain"),
    [
        (record("Position", position=[3, -1]), {"op": "position", "index": [3, -1]}),
        (record("Count", count_target="a"), {"op": "count", "of": "a"}),
        (record("ForEach", func=...), {"op": "for_each", "do": {"op": "identity"}}),
        (EACH, {"op": "for_each", "do": {"op": "count", "of": "a"}}),
        (
            record("Max", func=EACH),
            {"op": "max", "do": {"op": "for_each", "do": {"op": "count", "of": "a"}}},
        ),
    ],
)
def test_transformations(tmp_path: Path, part: bytes, plain: Any) -> None:
    data = official(constraint=constraint(transformation=part))
    assert read(tmp_path, data)[0]["constraint"]["transformation"] == plain


def test_combinations_and_a_missing_input_level(tmp_path: Path) -> None:
    one = constraint(input_level=None)
    two = constraint(input_level=record("InputLevel", level="sentence"))
    both = record("And", callable_1=one, callable_2=two)
    either = record("Or", callable_1=one, callable_2=both)
    data = official(constraint=record("All", callables=(either, two)))
    tree = read(tmp_path, data)[0]["constraint"]
    assert tree["logic"] == "all"
    assert [part.get("logic") for part in tree["constraints"]] == ["or", None]
    inner = tree["constraints"][0]["constraints"]
    assert inner[0]["input_level"] is None
    assert [part["input_level"] for part in inner[1]["constraints"]] == [None, "sentence"]


@pytest.mark.parametrize(
    "data",
    [
        pickled(value([1])),
        pickled(value({"wiki_c99": [{"prompt": "p", "targets": 1}]})),
        pickled(value({"wiki_c04": 3})),
        pickled(value({"wiki_c04": [3]})),
        official(constraint=None),
        official(constraint=record("Count", count_target=None)),
        official(constraint=record("All", callables=3)),
        official(constraint=record("And", callable_1=constraint())),
        official(constraint=constraint(relation=None)),
        official(constraint=constraint(reduction=record("Reduction"))),
        official(constraint=constraint(transformation=3)),
        official(constraint=constraint(transformation=record("Max"))),
        official(targets=[record("Count")]),
        official(metadata=...),
    ],
)
def test_another_form_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(DataInvalid, match=r"all_data\.dill, .*: not in COLLIE's form"):
        read(tmp_path, data)


def test_lines_are_json(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(official(prompt='"ä"\n\u2028'))
    (line,) = write_instances(tmp_path / "x")
    assert json.loads(line)["prompt"] == '"ä"\n\u2028'
    assert line.count(b"\n") == 1
