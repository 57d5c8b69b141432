"""A pickle is hostile input: names are refused, and nothing is imported or executed."""

import contextlib
import json
import os
import pickle
import resource
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.datasets.folder import read_jsonl
from harness.errors import DataInvalid, DataMissing
from harness.plugins.benchmarks.collie.conversion import (
    STRUCTURES,
    Record,
    read_pickle,
    write_instances,
)
from harness.plugins.benchmarks.collie.task import read_items
from tests.plugins.benchmarks.collie.pickles import (
    BUILD,
    EMPTY_TUPLE,
    NEWOBJ,
    REDUCE,
    TUPLE1,
    called,
    constraint,
    named,
    official,
    pickled,
    record,
    text,
    value,
)
from tests.plugins.benchmarks.collie.structures import STRUCTURES as PAPERS


def read(folder: Path, data: bytes) -> Any:
    file = folder / "x.dill"
    file.write_bytes(data)
    return read_pickle(file)


def refusal(folder: Path, data: bytes) -> str:
    with pytest.raises(DataInvalid) as caught:
        read(folder, data)
    assert "x.dill: refused" in caught.value.message
    assert len(caught.value.message) < 400
    return caught.value.message


def test_plain_values_and_records_come_through(tmp_path: Path) -> None:
    given = {"a": [1, -2, 70_000, None, "ä"], "b": {"c": (), "d": (1, "x")}, "e": ...}
    assert read(tmp_path, pickled(value(given))) == given
    assert read(tmp_path, pickled(record("Count", count_target=None))) == Record(
        "Count", {"count_target": None}
    )


@pytest.mark.parametrize("given", [{"a": [1, 2, 300, 70_000, -5, None, "é" * 300, (1, 2, 3)]}, []])
def test_it_reads_what_python_writes(tmp_path: Path, given: Any) -> None:
    assert read(tmp_path, pickle.dumps(given, protocol=4)) == given


@pytest.mark.parametrize(
    "bomb",
    [
        pickle.NONE + pickle.LONG_BINPUT + struct.pack("<I", 2**30),
        pickle.BYTEARRAY8 + struct.pack("<Q", 2**34) + b"a",
        pickle.BINUNICODE8 + struct.pack("<Q", 2**34) + b"a",
    ],
    ids=["memo", "bytearray", "text"],
)
def test_no_number_in_the_file_reserves_memory(tmp_path: Path, bomb: bytes) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with contextlib.suppress(DataInvalid):
        read(tmp_path, pickle.PROTO + b"\x05" + bomb + pickle.STOP)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


class Runs:
    """Pickled, it calls a function when it is loaded."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (os.system, ["echo > canary"]),
        (subprocess.check_call, [["touch", "canary"]]),
        (exec, ["open('canary', 'w').close()"]),
        (eval, ["open('canary', 'w').close()"]),
        (os.mkdir, ["canary"]),
    ],
)
def test_no_command_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: Any,
    arguments: list[Any],
    protocol: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps(Runs(function, *arguments), protocol=protocol)
    said = refusal(tmp_path, data)
    assert not (tmp_path / "canary").exists()
    assert "refused" in said
    assert function.__name__ in said
    pickle.loads(data)  # and when Python loads it, it does what it is for
    assert (tmp_path / "canary").exists()


def test_no_module_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_canary.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w').close()")
    monkeypatch.syspath_prepend(str(tmp_path))
    data = pickled(named("a_canary", "anything"))
    assert "the name 'a_canary.anything'" in refusal(tmp_path, data)
    assert not (tmp_path / "canary").exists()
    assert "a_canary" not in sys.modules
    with pytest.raises(AttributeError):
        pickle.loads(data)
    assert (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("collie.constraints", "__builtins__"),
        ("collie.constraints", "word_tokenize"),  # what the official module imports
        ("collie.constraints", "print"),
        ("collie.constraints", "sus_target"),
        ("collie.constraints", "Level.__call__.__globals__"),
        ("collie.constraints", "Constraint.__init__"),
        ("collie.constraints", "Count.__reduce__"),
        ("collie.constraints", ""),
        ("collie", "constraints.Aggregate"),
        ("collie.constraints.Count", "__class__"),
        ("dill._dill", "_create_function"),
        ("dill._dill", "_eval_repr.__globals__"),
        ("builtins", "getattr"),
        ("os", "system"),
    ],
)
def test_a_name_outside_the_vocabulary_is_refused(tmp_path: Path, module: str, name: str) -> None:
    data = pickled(called(module, name, "echo > canary"))
    assert f"refused: the name '{module}.{name}'" in refusal(tmp_path, data)


@pytest.mark.parametrize(
    "operations",
    [
        called("dill._dill", "_eval_repr", "__import__('os').system('echo > canary')"),
        called("dill._dill", "_eval_repr", "Ellipsis", "Ellipsis"),
        called("collie.constraints", "Count", "x"),
        text("os.system") + text("ls") + TUPLE1 + REDUCE,
        named("collie.constraints", "Count") + text("x") + TUPLE1 + NEWOBJ,
        named("dill._dill", "_eval_repr") + EMPTY_TUPLE + NEWOBJ,
        named("collie.constraints", "Count") + value({"__new__": 1}) + BUILD,
        record("Count") + value(3) + BUILD,
        b"cos\nsystem\n",
        b"(ios\nsystem\n",
        b"Pa persistent id\n",
        b"\x82\x01",
        b"\x97",
    ],
)
def test_what_is_no_plain_value_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operations: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "refused" in refusal(tmp_path, pickled(operations))
    assert not (tmp_path / "canary").exists()


def test_a_large_file_is_refused_unread(tmp_path: Path) -> None:
    assert "more than 8,388,608 bytes" in refusal(tmp_path, b"\0" * (8 * 2**20 + 1))


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"zebra", b"\xff", b"\x80\x04X\xff\xff\xff\xff", b"X"]
)
def test_what_is_no_pickle_is_said_so(tmp_path: Path, data: bytes) -> None:
    assert "refused" in refusal(tmp_path, data)


def test_a_file_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="No such file"):
        read_pickle(tmp_path / "x.dill")


@settings(deadline=None)
@given(
    start=st.sampled_from([official(), b"\x80\x04", b""]),
    places=st.lists(st.tuples(st.integers(0, 700), st.binary(max_size=6)), max_size=4),
)
def test_damage_is_a_message(
    tmp_path_factory: pytest.TempPathFactory, start: bytes, places: list[tuple[int, bytes]]
) -> None:
    data = bytearray(start)
    for at, piece in places:
        data[at : at + len(piece)] = piece
    with suppress(DataInvalid):  # anything else fails
        read(tmp_path_factory.getbasetemp(), bytes(data))


def instances_of(folder: Path, data: bytes) -> list[dict[str, Any]]:
    file = folder / "all_data.dill"
    file.write_bytes(data)
    return [json.loads(line) for line in write_instances(file)]


def test_the_official_file_gives_the_published_instances(data_dir: Path) -> None:
    published = list(read_jsonl(data_dir / "collie" / "instances.jsonl"))
    found = list(map(json.loads, write_instances(data_dir / "collie" / "all_data.dill")))
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
        "from harness.plugins.benchmarks.collie.conversion import write_instances;"
        f"print(len(list(write_instances(Path({str(file)!r})))), 'dill' in sys.modules,"
        "'collie' in sys.modules, 'nltk' in sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["2080", "False", "False", "False"]


def test_structures_are_named_as_by_the_task() -> None:
    assert set(STRUCTURES.values()) == PAPERS.keys()


def test_a_file_of_one_instance(tmp_path: Path) -> None:
    assert instances_of(tmp_path, official()) == [
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
    assert instances_of(tmp_path, data)[0]["constraint"]["transformation"] == plain


def test_combinations_and_a_missing_input_level(tmp_path: Path) -> None:
    one = constraint(input_level=None)
    two = constraint(input_level=record("InputLevel", level="sentence"))
    both = record("And", callable_1=one, callable_2=two)
    either = record("Or", callable_1=one, callable_2=both)
    data = official(constraint=record("All", callables=(either, two)))
    tree = instances_of(tmp_path, data)[0]["constraint"]
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
        instances_of(tmp_path, data)


def test_lines_are_json(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(official(prompt='"ä"\n\u2028'))
    (line,) = write_instances(tmp_path / "x")
    assert json.loads(line)["prompt"] == '"ä"\n\u2028'
    assert line.count(b"\n") == 1
