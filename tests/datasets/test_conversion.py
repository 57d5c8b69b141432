import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import msgspec
import pytest

from harness.datasets.catalogue import CATALOGUE
from harness.datasets.conversion import (
    CATEGORIES,
    member,
    write_generations,
    write_instructions,
    write_predictions,
    write_schemas,
)
from harness.datasets.folder import read_jsonl
from harness.errors import DataInvalid, DataMissing
from tests.datasets import originals


def archive(folder: Path, members: dict[str, bytes]) -> Path:
    file = folder / "x.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return file


def test_a_member_is_read_by_its_name(tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000
    file = archive(tmp_path, {"a/b.txt": content, "../../evil": b"x", "/etc/evil": b"x"})
    assert b"".join(member(file, "a/b.txt")) == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.zip"]


def test_a_bomb_stops_at_the_limit(tmp_path: Path) -> None:
    file = archive(tmp_path, {"a": b"\0" * 50_000_000})
    assert file.stat().st_size < 100_000
    with pytest.raises(DataInvalid, match="more than 1,000,000 bytes"):
        list(member(file, "a", 1_000_000))


def test_a_false_size_is_not_believed(tmp_path: Path) -> None:
    file = archive(tmp_path, {"a": b"\0" * 5_000_000})
    content = bytearray(file.read_bytes())
    entry = content.rindex(b"PK\x01\x02")  # the directory's claim
    content[entry + 24 : entry + 28] = (10).to_bytes(4, "little")
    file.write_bytes(content)
    with pytest.raises(DataInvalid):
        list(member(file, "a", 1_000_000))


def test_a_missing_member_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataInvalid, match="has no b"):
        list(member(archive(tmp_path, {"a": b""}), "b"))


@pytest.mark.parametrize(
    ("damage", "what"),
    [("torn", "it"), ("no zip", "it"), ("checksum", "a"), ("password", "a"), ("compression", "a")],
)
def test_a_damaged_archive_is_a_message(tmp_path: Path, damage: str, what: str) -> None:
    file = archive(tmp_path, {"a": bytes(range(256)) * 100})
    content = bytearray(file.read_bytes())
    entry = content.rindex(b"PK\x01\x02")
    if damage == "torn":
        content = content[: len(content) // 2]
    elif damage == "no zip":
        content = bytearray(b"<html>not found</html>")
    elif damage == "checksum":
        content[60] ^= 0xFF
    elif damage == "password":
        content[6] |= 1
        content[entry + 8] |= 1
    else:
        content[8] = content[entry + 10] = 77
    file.write_bytes(content)
    with pytest.raises(DataInvalid, match=f": {what} cannot be unpacked"):
        list(member(file, "a"))


ONE = {"prompts": ["p", "q"], "texts": ["a", "b"]}
THREE = {
    "prompts": ["p", "q"],
    "1st_round_text": ["a1", "b1"],
    "1st_round_feedback": ["fa1", "fb1"],
    "2nd_round_text": ["a2", "b2"],
    "2nd_round_feedback": ["fa2", "fb2"],
    "3rd_round_text": ["a3", "b3"],
}


def read(folder: Path, content: Any) -> list[dict[str, Any]]:
    file = folder / "log.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
    return [json.loads(line) for line in write_generations(file)]


def test_one_answer_per_prompt(tmp_path: Path) -> None:
    assert read(tmp_path, ONE) == [
        {"prompt": "p", "rounds": [{"text": "a", "feedback": None}]},
        {"prompt": "q", "rounds": [{"text": "b", "feedback": None}]},
    ]


def test_rounds_with_feedback(tmp_path: Path) -> None:
    found = read(tmp_path, THREE)
    assert [row["prompt"] for row in found] == ["p", "q"]
    assert found[1]["rounds"] == [
        {"text": "b1", "feedback": "fb1"},
        {"text": "b2", "feedback": "fb2"},
        {"text": "b3", "feedback": None},
    ]


def test_lines_are_json(tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text(json.dumps(ONE | {"texts": ["ä\n", "\u2028"]}))
    lines = list(write_generations(tmp_path / "log.json"))
    assert [json.loads(line)["rounds"][0]["text"] for line in lines] == ["ä\n", "\u2028"]
    assert "ä".encode() in lines[0]


@pytest.mark.parametrize(
    "content",
    [
        "nonsense",
        "[" * 100_000,
        [1],
        {"prompts": ["p"], "texts": [None]},
        {"texts": ["a"]},
        ONE | {"texts": ["a"]},
        THREE | {"2nd_round_feedback": []},
    ],
)
def test_another_form_is_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises(DataInvalid, match=r"log\.json: not a log of generations"):
        read(tmp_path, content)


def test_a_file_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataMissing):
        list(write_generations(tmp_path / "log.json"))


def test_the_official_logs_give_the_recordings(data_dir: Path, tmp_path: Path) -> None:
    """Logs in the official form, which have the official sizes: see the catalogue."""
    for name, content in originals.collie(data_dir).items():
        if name.endswith(".json"):
            (tmp_path / name).write_bytes(content)
            model = "gpt-4" if name.startswith("gpt-4") else "vicuna-7b"
            recorded = data_dir / "collie" / "generations" / f"{model}.jsonl"
            assert b"".join(write_generations(tmp_path / name)) == recorded.read_bytes()


ROOT = "natural-instructions-v1-0749/predictions"


def predictions_archive(path: Path, files: Mapping[str, object]) -> Path:
    with ZipFile(path, "w", ZIP_DEFLATED) as made:
        for name, content in files.items():
            text = content if isinstance(content, bytes) else json.dumps(content).encode()
            made.writestr(f"{ROOT}/{name}", text)
    return path


def test_the_reference_datas_answers_come_out_of_the_authors_files(
    data_dir: Path, tmp_path: Path
) -> None:
    recorded = data_dir / "natural_instructions" / "gpt3_predictions.jsonl.gz"
    files: dict[str, dict[str, list[dict[str, object]]]] = {}
    for row in read_jsonl(recorded):
        name = f"{row['task']}@{row['encoding']}@{row['n_examples']}_100.json"
        answer = {"index": row["index"], "output": row["output"], "input": "a prompt"}
        files.setdefault(f"gpt3_outputs/{name}", {"predictions": []})["predictions"].append(answer)
    others = {"gpt3_outputs/subtask002_x@_Prompt@0_100.json": {"predictions": []}, "notes.md": b"x"}
    path = predictions_archive(tmp_path / "a.zip", {**files, **others})
    product = CATALOGUE["natural_instructions"].products[-1]
    written = b"".join(product.make(path))
    assert hashlib.sha256(written).hexdigest() == product.sha256
    found = sorted(msgspec.json.decode(line)["output"] for line in written.splitlines())
    assert found == sorted(row["output"] for row in read_jsonl(recorded))


@pytest.mark.parametrize("content", [b"{", b"[]", {"predictions": [{"index": "x"}]}, b"\xff"])
def test_a_file_that_holds_no_answers_is_named(content: object, tmp_path: Path) -> None:
    path = predictions_archive(tmp_path / "a.zip", {"gpt3_outputs/t@_Prompt@0_1.json": content})
    with pytest.raises(DataInvalid, match=r"t@_Prompt@0_1\.json is not a file of answers"):
        list(write_predictions(path, {"t"}))


def test_what_is_no_such_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(b"nothing")
    with pytest.raises(DataInvalid, match="cannot be unpacked"):
        list(write_predictions(path, {"t"}))
    with pytest.raises(DataInvalid, match="it has no answers"):
        list(write_predictions(predictions_archive(path, {"x.json": {}}), {"t"}))


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    path = predictions_archive(
        tmp_path / "a.zip", {"gpt3_outputs/t@_Prompt@0_1.json": b" " * (2**24 + 1)}
    )
    with pytest.raises(DataInvalid, match="more than 16,777,216 bytes"):
        list(write_predictions(path, {"t"}))


def followbench_archive(path: Path, rows: list[dict[str, Any]]) -> Path:
    with ZipFile(path, "w") as file:
        for category in CATEGORIES:
            own = [row for row in rows if row["constraint_type"] == category]
            plain = [{k: v for k, v in row.items() if k != "constraint_type"} for row in own]
            file.writestr(f"f/data/{category}_constraints.json", json.dumps(plain, indent=4))
    return path


def test_followbenchs_rows_get_their_category(data_dir: Path, tmp_path: Path) -> None:
    rows = list(read_jsonl(data_dir / "followbench" / "data.jsonl.gz"))
    made = b"".join(write_instructions(followbench_archive(tmp_path / "a.zip", rows), "f/data"))
    (product,) = CATALOGUE["followbench"].products
    assert hashlib.sha256(made).hexdigest() == product.sha256


def test_what_is_no_archive_of_followbench_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path, {"f/content_constraints.json": b"{}"})
    with pytest.raises(DataInvalid, match="is not a list of rows"):
        list(write_instructions(path, "f"))
    with pytest.raises(DataInvalid, match="it has no g/content_constraints"):
        list(write_instructions(path, "g"))


def test_jsonschemabenchs_files_become_rows(tmp_path: Path) -> None:
    tests = [{"data": 5, "valid": True, "description": "d", "python_error": "e"}]
    files: dict[str, Any] = {
        "a/data/Github_easy---o1.json": {"schema": {"type": "integer"}, "tests": tests, "meta": {}},
        "a/data/BFCL_multiple_1.json": {"schema": True},
        "a/data/README.md": None,
        "a/other/x---y.json": {"schema": True},
    }
    path = archive(tmp_path, {name: json.dumps(found).encode() for name, found in files.items()})
    rows = [json.loads(line) for line in write_schemas(path, "a/data")]
    assert rows == [
        {"name": "BFCL_multiple_1", "dataset": "BFCL", "schema": True, "instances": []},
        {
            "name": "Github_easy---o1",
            "dataset": "Github_easy",
            "schema": {"type": "integer"},
            "instances": [{"data": 5, "valid": True, "description": "d"}],
        },
    ]


@pytest.mark.parametrize("content", [b"{}", b"{", b"\xff"])
def test_what_is_no_schema_of_jsonschemabench_is_refused(content: bytes, tmp_path: Path) -> None:
    path = archive(tmp_path, {"a/b.json": content})
    with pytest.raises(DataInvalid, match=r"a/b\.json is not a file with a schema"):
        list(write_schemas(path, "a"))
    path.write_bytes(b"no archive")
    with pytest.raises(DataInvalid, match="cannot be unpacked"):
        list(write_schemas(path, "a"))
