"""The archive of JSONSchemaBench is converted."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import DataInvalid
from harness.plugins.benchmarks.jsonschemabench.task import write_schemas
from tests.datasets.archives import archive


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
