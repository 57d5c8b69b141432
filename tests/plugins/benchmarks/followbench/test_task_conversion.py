"""The archive of FollowBench is converted."""

import hashlib
import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from harness.datasets.catalogue import catalogue
from harness.datasets.folder import read_jsonl
from harness.errors import DataInvalid
from harness.plugins.benchmarks.followbench.task import CATEGORIES, write_instructions
from tests.datasets.archives import archive


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
    (product,) = catalogue()["followbench"].products
    assert hashlib.sha256(made).hexdigest() == product.sha256


def test_what_is_no_archive_of_followbench_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path, {"f/content_constraints.json": b"{}"})
    with pytest.raises(DataInvalid, match="is not a list of rows"):
        list(write_instructions(path, "f"))
    with pytest.raises(DataInvalid, match="it has no g/content_constraints"):
        list(write_instructions(path, "g"))
