"""GPT-3's answers are taken from their archive."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import msgspec
import pytest

from harness.datasets.catalogue import catalogue
from harness.datasets.folder import read_jsonl, sha256
from harness.errors import DataInvalid
from harness.plugins.benchmarks.natural_instructions.loading import write_predictions

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
    product = catalogue()["natural_instructions"].products[-1]
    written = b"".join(product.make(path))
    assert hashlib.sha256(written).hexdigest() == product.sha256
    found = sorted(msgspec.json.decode(line)["output"] for line in written.splitlines())
    assert found == sorted(row["output"] for row in read_jsonl(recorded))


def test_the_tasks_hashes_are_those_of_the_reference_data(data_dir: Path) -> None:
    *tasks, answers = catalogue()["natural_instructions"].products
    assert len(tasks) == 7
    for product in tasks:
        assert sha256(data_dir / product.path) == product.sha256
    assert answers.path.endswith("gpt3_predictions.jsonl")  # its hash: see the test above


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
