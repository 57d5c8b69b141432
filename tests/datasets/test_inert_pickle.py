"""A pickle is hostile input: each is refused by name, nothing is executed, in bounded space."""

import json
import os
import pickle
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.datasets.conversion import VOCABULARY
from harness.datasets.inert_pickle import Record, read_pickle
from harness.errors import DataInvalid, DataMissing
from tests.datasets import hostile
from tests.datasets.pickles import (
    BUILD,
    EMPTY_DICT,
    EMPTY_TUPLE,
    MARK,
    NEWOBJ,
    REDUCE,
    SETITEM,
    STACK_GLOBAL,
    TUPLE1,
    called,
    named,
    official,
    pickled,
    record,
    text,
    value,
)


def read(folder: Path, data: bytes) -> Any:
    file = folder / "x.dill"
    file.write_bytes(data)
    return read_pickle(file, VOCABULARY)


def refusal(folder: Path, data: bytes) -> str:
    with pytest.raises(DataInvalid) as caught:
        read(folder, data)
    assert "x.dill, byte " in caught.value.message
    assert len(caught.value.message) < 400
    return caught.value.message


def test_plain_values_and_records_come_through(tmp_path: Path) -> None:
    given = {"a": [1, -2, 70_000, None, "ä"], "b": {"c": (), "d": (1, "x")}, "e": ...}
    assert read(tmp_path, pickled(value(given))) == given
    assert read(tmp_path, pickled(record("Count", count_target=None))) == Record(
        "collie.constraints.Count", {"count_target": None}
    )


@pytest.mark.parametrize("given", [{"a": [1, 2, 300, 70_000, -5, None, "é" * 300, (1, 2, 3)]}, []])
def test_it_reads_what_python_writes(tmp_path: Path, given: Any) -> None:
    assert read(tmp_path, pickle.dumps(given, protocol=4)) == given


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


COUNT = named("collie.constraints", "Count")


@pytest.mark.parametrize(
    ("operations", "said"),
    [
        (
            called("dill._dill", "_eval_repr", "__import__('os').system('echo > canary')"),
            "a call of dill._dill._eval_repr with other than its known argument",
        ),
        (called("dill._dill", "_eval_repr", "Ellipsis", "Ellipsis"), "a call of dill"),
        (called("collie.constraints", "Count", "x"), "a call of collie.constraints.Count"),
        (text("os.system") + text("ls") + TUPLE1 + REDUCE, "a call of a str"),
        (COUNT + text("x") + TUPLE1 + NEWOBJ, "a new collie.constraints.Count with arguments"),
        (text("Count") + EMPTY_TUPLE + NEWOBJ, "a new object of a str"),
        (
            named("dill._dill", "_eval_repr") + EMPTY_TUPLE + NEWOBJ,
            "a new object of the name dill._dill._eval_repr",
        ),
        (record("Count", __class__="x"), "the field '__class__' of a collie.constraints.Count"),
        (record("Count", __reduce__=1), "the field '__reduce__'"),
        (COUNT + EMPTY_TUPLE + NEWOBJ + value(((), {"a": 1})) + BUILD, "one that is a tuple"),
        (record("Count", count_target=1) + value({"count_target": 2}) + BUILD, "a second state"),
        (COUNT + value({"count_target": 1}) + BUILD, "a state for the name collie"),
        (EMPTY_DICT + value({"a": 1}) + BUILD, "a state for a dict"),
        (COUNT, "the name collie.constraints.Count as a value"),
        (value([COUNT]), "the name collie.constraints.Count as a value"),
        (EMPTY_DICT + value(()) + value(1) + SETITEM, "a tuple as a key"),
        (EMPTY_DICT + record("Count") + value(1) + SETITEM, "a Record as a key"),
        (EMPTY_DICT + MARK + text("a") + b"u", "a key without a value"),
        (text("a") + value(1) + b"a", "it appends to a str"),
        (value([1]) + text("a") + value(1) + SETITEM, "it sets items of a list"),
        (text("\ud800"), "a text that is not Unicode"),
        (value(1) + text("x") + STACK_GLOBAL, "a name made of a int and a str"),
        (b"h\x05", "it recalls what it did not memorise"),
        (b"a", "empty stack"),
        (b"u", "a mark that is not there"),
        (b"\x94", "empty stack"),
        (value(1) + value(2), "values left over"),
        (MARK, "empty stack"),
        (value(1) + MARK + value(2), "values left over"),
        # Everything else that a pickle can do is refused as such.
        (b"cos\nsystem\n", "the operation GLOBAL ('os system')"),
        (b"(ios\nsystem\n", "the operation INST ('os system')"),
        (b"(" + COUNT + b"o", "the operation OBJ"),
        (COUNT + value(()) + value({}) + b"\x92", "the operation NEWOBJ_EX"),
        (b"Pa persistent id\n", "the operation PERSID ('a persistent id')"),
        (value(1) + b"Q", "the operation BINPERSID"),
        (b"\x82\x01", "the operation EXT1"),
        (b"\x83\x01\x00", "the operation EXT2"),
        (b"\x84\x01\x00\x00\x00", "the operation EXT4"),
        (b"\x97", "the operation NEXT_BUFFER"),
        (value(1) + b"\x98", "the operation READONLY_BUFFER"),
        (b"C\x01x", "the operation SHORT_BINBYTES"),
        (b"G" + b"\0" * 8, "the operation BINFLOAT"),
        (b"\x8f", "the operation EMPTY_SET"),
        (b"(\x91", "the operation FROZENSET"),
        (b"(d", "the operation DICT"),
        (b"(l", "the operation LIST"),
        (value(1) + b"2", "the operation DUP"),
        (b"I1\n", "the operation INT"),
        (b"\x88", "the operation NEWTRUE"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_makes_no_plain_value_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operations: bytes, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refusal(tmp_path, pickled(operations))
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"zebra", b"\xff", b"\x80\x04X\xff\xff\xff\xff", b"X"]
)
def test_what_is_no_pickle_is_said_so(tmp_path: Path, data: bytes) -> None:
    assert "no pickle" in refusal(tmp_path, data)


def test_nothing_may_follow(tmp_path: Path) -> None:
    assert "the file does not" in refusal(tmp_path, pickled(value(1)) + b"x")


def test_a_file_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="No such file"):
        read_pickle(tmp_path / "x.dill", VOCABULARY)


@settings(max_examples=150, deadline=None)
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


def test_no_pickle_takes_the_memory_the_time_or_the_interpreter(tmp_path: Path) -> None:
    """All in one process that may have 96 MiB beyond what it begins with."""
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path), hostile.__file__],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    results = json.loads(ended.stdout)
    assert results.keys() == hostile.PICKLES.keys()
    for name, (said, seconds) in results.items():
        assert hostile.REFUSED[name] in said, (name, said)
        assert seconds < 10, name


LIMITED = """
import importlib.util, json, resource, sys, time
from pathlib import Path
from harness.datasets.conversion import VOCABULARY
from harness.datasets.inert_pickle import read_pickle
from harness.errors import DataInvalid

sys.path.insert(0, str(Path(sys.argv[2]).parents[2]))
spec = importlib.util.spec_from_file_location("hostile", sys.argv[2])
hostile = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hostile)
files = {}
for name, make in hostile.PICKLES.items():
    files[name] = Path(sys.argv[1], name)
    files[name].write_bytes(make())
now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 96 * 2**20,) * 2)
results = {}
for name, file in files.items():
    began = time.monotonic()
    try:
        read_pickle(file, VOCABULARY)
        said = "read"
    except DataInvalid as error:
        said = error.message
    results[name] = said, time.monotonic() - began
print(json.dumps(results))
"""
