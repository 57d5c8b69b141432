"""The public form: ids and decompositions, joined to a copy of the chats."""

import gzip
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from harness.datasets.folder import DataFolder
from harness.errors import DataInvalid, DataMissing
from harness.plugins.benchmarks.wildifeval.task import (
    CATEGORIES_FILE,
    CHATS,
    DOMAINS_FILE,
    PUBLIC,
    Constraint,
    WildIFEvalTask,
    is_public,
    join,
)

WANTED = {"c1": ["Use a list.", "Be brief."], "c2": ["Act as a pirate."], "c3": ["Rhyme."]}
SAID = {"c0": "Not wanted.", "c1": 'List "birds",\nbriefly.', "c2": "Be a pirate.", "c3": "Rhyme!"}


def decompositions() -> list[dict[str, Any]]:
    return [{"conversation_id": name, "decomposition": found} for name, found in WANTED.items()]


def chats(*left_out: str) -> list[dict[str, Any]]:
    return [
        {
            "conversation_id": name,
            "model": "vicuna-13b",
            "conversation": [
                {"content": text, "role": "user"},
                {"content": "An answer.", "role": "assistant"},
            ],
            "language": "English",
        }
        for name, text in SAID.items()
        if name not in left_out
    ]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """In the form that the file's name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif path.suffix == ".parquet":
        lines = path.with_suffix(".jsonl")
        lines.write_text(text)
        duckdb.sql(f"COPY (FROM read_json('{lines}')) TO '{path}' (FORMAT parquet)")
        lines.unlink()
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "jsonl.gz"])
def test_the_task_is_the_first_message_in_the_order_of_the_decompositions(
    ending: str, tmp_path: Path
) -> None:
    wanted = write(tmp_path / f"test.{ending}", decompositions())
    items, missing = join(wanted, write(tmp_path / f"chats.{ending}", list(reversed(chats()))))
    assert missing == ()
    assert [(item.id, item.task) for item in items] == [(name, SAID[name]) for name in WANTED]
    assert [[one.text for one in item.constraints] for item in items] == list(WANTED.values())


def test_folders_as_they_are_downloaded_with_categories_and_domains(tmp_path: Path) -> None:
    write(tmp_path / PUBLIC / "data" / "test-00000-of-00001.parquet", decompositions())
    for number in range(2):
        name = f"train-0000{number}-of-00002-4feeb3f8.parquet"
        write(tmp_path / CHATS / "data" / name, chats()[number::2])
    (tmp_path / CATEGORIES_FILE).write_text(
        "constraint,categories,Other\nUse a list.,Format and Structure,0\n"
        "Rhyme.,Other: Poetic Form,1\n"
    )
    quoted = SAID["c1"].replace('"', '""')
    (tmp_path / DOMAINS_FILE).write_text(f'task,domain\n"{quoted}",Education\n')
    task = WildIFEvalTask("public", data=DataFolder(tmp_path))
    first, second, third = task.instances()
    assert first.groups == {"n_constraints": "2", "domain": "Education"}
    assert second.groups == {"n_constraints": "1"}
    assert first.data.constraints == (
        Constraint("Use a list.", "Format and Structure"),
        Constraint("Be brief."),
    )
    assert third.data.constraints == (Constraint("Rhyme.", "Other"),)
    # The tasks as joined are what is scored, whatever files they came from.
    lines = write(tmp_path / "other.jsonl", chats())
    other = WildIFEvalTask("public", str(lines), data=DataFolder(tmp_path))
    assert other.fingerprint() == task.fingerprint()


def test_a_missing_chat_is_refused_and_named_or_counted(tmp_path: Path) -> None:
    wanted = str(write(tmp_path / "test.jsonl", decompositions()))
    there = str(write(tmp_path / "chats.jsonl", chats("c1", "c3")))
    data = DataFolder(tmp_path)
    with pytest.raises(DataInvalid, match=r"lacks 2 \(c1, c3\) of 3 conversations"):
        list(WildIFEvalTask(wanted, there, data=data).instances())
    with pytest.raises(DataInvalid):
        WildIFEvalTask(wanted, there, data=data).fingerprint()
    task = WildIFEvalTask(wanted, there, missing_chats="leave_out", data=data)
    assert [one.id for one in task.instances()] == ["c2"]
    told = task.fingerprint()
    assert told["missing_chats"] == "2 (c1, c3)"
    assert len(told["missing_chats_sha256"]) == 64
    none = str(write(tmp_path / "none.jsonl", chats("c1", "c2", "c3")))
    empty = WildIFEvalTask(wanted, none, missing_chats="leave_out", data=data)
    with pytest.raises(DataInvalid, match="none of the conversations"):
        list(empty.instances())


def test_the_chats_are_asked_for_where_they_are_not_there(tmp_path: Path) -> None:
    wanted = str(write(tmp_path / "test.jsonl", decompositions()))
    with pytest.raises(DataMissing, match=r"lmsys-chat-1m.* 'harness docs wildifeval' says where"):
        WildIFEvalTask(wanted, data=DataFolder(tmp_path))
    (tmp_path / "empty").mkdir()
    task = WildIFEvalTask(wanted, str(tmp_path / "empty"), data=DataFolder(tmp_path))
    with pytest.raises(DataMissing, match="contains no file"):
        list(task.instances())


@pytest.mark.parametrize(
    ("rows", "said", "message"),
    [
        ([*decompositions(), decompositions()[0]], chats(), "'c1' occurs twice"),
        (
            [{"conversation_id": "c1", "decomposition": []}],
            chats(),
            "length >= 1 - at `\\$.decomposition`",
        ),
        ([{"decomposition": ["a"]}], chats(), "field `conversation_id`"),
        (
            decompositions(),
            [{"conversation_id": "c1", "conversation": []}],
            "length >= 1 - at `\\$.conv",
        ),
        (decompositions(), [{"conversation_id": "c1", "conversation": [{}]}], "field `content`"),
    ],
)
def test_malformed_files_are_named(
    rows: list[dict[str, Any]], said: list[dict[str, Any]], message: str, tmp_path: Path
) -> None:
    wanted, there = tmp_path / "test.jsonl", tmp_path / "chats.jsonl"
    with pytest.raises(DataInvalid, match=message) as raised:
        join(write(wanted, rows), write(there, said))
    assert ", item " in raised.value.message


def test_a_file_that_is_no_parquet_and_a_table_that_is_none(tmp_path: Path) -> None:
    wanted = write(tmp_path / "test.jsonl", decompositions())
    broken = tmp_path / "chats.parquet"
    broken.write_text("PAR1")
    with pytest.raises(DataInvalid, match="not readable as Parquet"):
        join(wanted, broken)
    table = tmp_path / "categories.csv"
    table.write_text("text,kind\na,b\n")
    there = write(tmp_path / "chats.jsonl", chats())
    with pytest.raises(DataInvalid, match="must have the columns constraint and categories"):
        join(wanted, there, table)


def test_which_form_a_file_is_of(tmp_path: Path) -> None:
    assert is_public(write(tmp_path / "test.jsonl", decompositions()))
    assert is_public(tmp_path)
    assert not is_public(write(tmp_path / "own.jsonl", [{"task": "t", "constraints": ["a"]}]))
    with pytest.raises(DataInvalid, match="contains no items"):
        is_public(write(tmp_path / "none.jsonl", []))
