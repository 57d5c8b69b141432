"""A pickle is hostile input: names are refused, and nothing is imported or executed."""

import contextlib
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

from harness.datasets.conversion import Record, read_pickle
from harness.errors import DataInvalid, DataMissing
from tests.datasets.pickles import (
    BUILD,
    EMPTY_TUPLE,
    NEWOBJ,
    REDUCE,
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
