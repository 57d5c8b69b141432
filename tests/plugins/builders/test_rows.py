"""Parts of a corpus together have the rows of the whole, whatever the format."""

import gzip
import json
from pathlib import Path

import duckdb
import pytest

from harness.datasets.folder import DataFolder
from harness.errors import DataInvalid, DataMissing
from harness.plugin_loader import kind
from harness.plugins.builders.loaders import GutenbergLoader
from harness.plugins.builders.rows import PART_BYTES, PART_ROWS, format_of
from harness.ports import Divisible, Loader
from harness.records import Document
from tests.plugins.builders.warc import record, write_warc


def built(name: str, folder: Path, path: str) -> Loader:
    loader: Loader = kind("loaders").load(name)(path, data=DataFolder(folder))
    return loader


def whole_and_parts(loader: Loader) -> tuple[list[Document], list[list[Document]]]:
    """The documents of a loader, and those of its parts, each read by name."""
    assert isinstance(loader, Divisible)
    whole = list(loader.read(set(loader.names())))
    return whole, [list(part.read(set(part.names()))) for part in loader.parts()]


def test_a_large_file_of_jsonl_is_read_in_parts(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"{n} " + "x" * 5_000}) for n in range(2_000)]
    lines[700], lines[1500] = "", "not JSON"
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    assert (tmp_path / "rows.jsonl").stat().st_size > PART_BYTES
    whole, parts = whole_and_parts(built("jsonl", tmp_path, "rows.jsonl"))
    assert len(parts) == 2
    assert [one for part in parts for one in part] == whole
    assert len(whole) == 1_999
    assert [one.name for one in whole if one.problem] == ["1501"]
    assert whole[-1].name == "2000"
    assert whole[-1].text.startswith("1999 ")


def test_a_folder_of_jsonl_compressed_or_not(tmp_path: Path) -> None:
    (tmp_path / ".cache").mkdir()
    for name in ("a.jsonl", ".cache/hidden.jsonl"):
        (tmp_path / name).write_text('\n{"text": "a"}\n')
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(b'{"text": "b"}\n{"text": "c"}\n'))
    (tmp_path / "README.md").write_text("Rows.")
    assert format_of(tmp_path) == "jsonl"
    whole, parts = whole_and_parts(built("jsonl", tmp_path, "."))
    assert [(one.name, one.text) for one in whole] == [("0/2", "a"), ("1/1", "b"), ("1/2", "c")]
    assert parts == [whole[:1], whole[1:]]


def test_parquet_is_read_by_row_groups(tmp_path: Path) -> None:
    n = 2 * PART_ROWS + 5_000
    duckdb.sql(
        f"COPY (SELECT 'text ' || i AS text FROM range({n}) t(i)) "
        f"TO '{tmp_path / 'a.parquet'}' (ROW_GROUP_SIZE 2048)"
    )
    loader = built("parquet", tmp_path, "a.parquet")
    whole, parts = whole_and_parts(loader)
    assert [len(part) for part in parts] == [PART_ROWS, PART_ROWS, 5_000]
    assert [one for part in parts for one in part] == whole
    assert [one.text for one in whole] == [f"text {i}" for i in range(n)]
    some = {"3", "9000", "9001"}
    assert [one.name for one in loader.read(some)] == sorted(some)
    duckdb.sql(f"COPY (SELECT 'a' AS text LIMIT 0) TO '{tmp_path / 'none.parquet'}'")
    assert list(built("parquet", tmp_path, "none.parquet").names()) == []


@pytest.mark.parametrize("name", ["crawl.warc", "crawl.warc.wet.gz"])
def test_plain_text_of_warc(name: str, tmp_path: Path) -> None:
    write_warc(tmp_path / name, ["One.\nTwo.", b"caf\xe9", "Three."])
    assert format_of(tmp_path / name) == "warc"
    whole, parts = whole_and_parts(built("warc", tmp_path, name))
    about = {"url": "https://example.org/1", "language": "eng"}
    assert whole[0] == Document("2", "One.\nTwo.", about)  # the first record is a page of HTML
    assert [one.problem for one in whole] == ["", "not in utf-8", ""]
    assert parts == [whole]


def test_damaged_warc(tmp_path: Path) -> None:
    path = write_warc(tmp_path / "a.warc", ["One.", "Two."])
    path.write_bytes(path.read_bytes()[:-6])
    loader = built("warc", tmp_path, "a.warc")
    assert [one.problem for one in loader.read({"2", "3"})] == ["", "not complete"]
    path.write_bytes(record(1, "conversion", "text/plain", b"One.") + b"no WARC\r\n" * 9)
    with pytest.raises(DataInvalid, match=r"a\.warc, after record 1: not complete WARC"):
        list(loader.names())


def test_compressed_warc_that_ends_too_early(tmp_path: Path) -> None:
    path = write_warc(tmp_path / "a.warc.gz", ["One. " * 2_000, "Two."])
    content = path.read_bytes()
    for end in (len(content) - 5, len(content) // 2):
        path.write_bytes(content[:end])
        with pytest.raises(DataInvalid, match=r"a\.warc\.gz, after record \d: not complete WARC"):
            list(built("warc", tmp_path, "a.warc.gz").names())


def test_files_are_read_in_parts(tmp_path: Path) -> None:
    for n in range(70):
        (tmp_path / f"{n:02}.txt").write_text(f"text {n}")
    (tmp_path / "rows.jsonl").write_text("{}")
    assert format_of(tmp_path) == ""
    whole, parts = whole_and_parts(built("text", tmp_path, "."))
    assert [len(part) for part in parts] == [32, 32, 7]
    assert [one for part in parts for one in part] == whole
    (tmp_path / "words.txt").write_text("\n".join(map(str, range(2_500))))
    whole, parts = whole_and_parts(built("word_list", tmp_path, "words.txt"))
    assert parts == [whole]


def test_books_in_parts_have_their_facts(tmp_path: Path) -> None:
    books = [{"gd-path": f"{n}.txt", "Title": f"Book {n}", "Language": ["English"]}
             for n in range(40)]  # fmt: skip
    (tmp_path / "gutenberg-metadata.json").write_text(json.dumps(books))
    for n in range(40):
        (tmp_path / f"{n}.txt").write_text("It rained.")
    whole, parts = whole_and_parts(GutenbergLoader(".", data=DataFolder(tmp_path)))
    assert [one for part in parts for one in part] == whole
    assert whole[39].about == {"Title": "Book 39"}


def test_a_folder_without_such_files_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    assert format_of(tmp_path) == ""
    with pytest.raises(DataMissing, match=r"has no file \*\.parquet"):
        built("parquet", tmp_path, ".")
