"""Files of rows: formats of files and folders, and rows that are read by name."""

import gzip
from pathlib import Path

import duckdb
import pytest

from harness.datasets.folder import DataFolder
from harness.errors import DataMissing
from harness.plugin_loader import kind
from harness.plugins.builders.corpora import FEW, format_of
from harness.ports import Loader


def built(name: str, folder: Path, path: str) -> Loader:
    loader: Loader = kind("loaders").load(name)(path, data=DataFolder(folder))
    return loader


def test_a_folder_of_jsonl_compressed_or_not(tmp_path: Path) -> None:
    (tmp_path / ".cache").mkdir()
    for name in ("a.jsonl", ".cache/hidden.jsonl"):
        (tmp_path / name).write_text('\n{"text": "a"}\n')
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(b'{"text": "b"}\n{"text": "c"}\n'))
    (tmp_path / "README.md").write_text("Rows.")
    assert format_of(tmp_path) == "jsonl"
    loader = built("jsonl", tmp_path, ".")
    documents = loader.read(set(loader.names()))
    assert [(one.name, one.text) for one in documents] == [
        *(("0/2", "a"), ("1/1", "b"), ("1/2", "c")),
    ]


def test_some_and_many_rows_of_parquet(tmp_path: Path) -> None:
    n = 3 * FEW
    duckdb.sql(
        f"COPY (SELECT 'text ' || i AS text FROM range({n}) t(i)) "
        f"TO '{tmp_path / 'a.parquet'}' (ROW_GROUP_SIZE 2048)"
    )
    loader = built("parquet", tmp_path, "a.parquet")
    assert list(loader.names()) == [str(i) for i in range(n)]
    for chosen in ({3, 2500, 2501}, set(range(0, n, 2)), set(range(n))):
        documents = loader.read({str(i) for i in chosen})
        assert [one.text for one in documents] == [f"text {i}" for i in sorted(chosen)]
    duckdb.sql(f"COPY (SELECT 'a' AS text LIMIT 0) TO '{tmp_path / 'none.parquet'}'")
    assert list(built("parquet", tmp_path, "none.parquet").names()) == []


def test_a_folder_without_such_files_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    assert format_of(tmp_path) == ""
    with pytest.raises(DataMissing, match=r"has no file \*\.parquet"):
        built("parquet", tmp_path, ".")
