"""Loaders: the same names each time, only what was chosen is read, foreign data is told of."""

import gzip
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from harness.build.loaders.gutenberg import METADATA, body
from harness.build.loaders.markdown import running_text
from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid, DataMissing
from harness.plugins import kind
from harness.ports import Loader
from harness.records import Document


def built(name: str, folder: Path, **options: Any) -> Loader:
    found: Loader = kind("loaders").build(name, options, data=DataFolder(folder))
    return found


def documents(loader: Loader) -> dict[str, Document]:
    names = list(loader.names())
    assert names == list(loader.names())
    found = {document.name: document for document in loader.read(set(names))}
    assert list(found) == names
    only = names[-1:]
    assert [document.name for document in loader.read(only)] == only
    return found


def test_a_folder_of_text(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\n  \t\n  four\n")
    (tmp_path / "sub" / "a.txt").write_text("four")
    (tmp_path / ".hidden").write_text("no")
    (tmp_path / "latin.txt").write_bytes("Über".encode("latin-1"))
    (tmp_path / "binary").write_bytes(b"a\0b")
    with gzip.open(tmp_path / "packed.gz", "wt") as file:
        file.write("five")
    (tmp_path / "torn.gz").write_bytes(b"\x1f\x8b\x08")
    found = documents(built("text", tmp_path, path="."))
    assert found["b.txt"].text == "one\ntwo\nthree\n\n  four\n"
    assert found["sub/a.txt"].text == "four"
    assert found["packed.gz"].text == "five"
    assert {name for name, each in found.items() if each.problem} == {
        "latin.txt", "binary", "torn.gz"
    }  # fmt: skip
    assert ".hidden" not in found
    latin = built("text", tmp_path, path=".", files="latin*", encoding="latin-1")
    assert [each.text for each in documents(latin).values()] == ["Über"]
    one = built("text", tmp_path, path="b.txt")
    assert list(documents(one)) == ["b.txt"]


def test_mistakes_of_paths_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="nowhere"):
        built("text", tmp_path, path="nowhere")
    with pytest.raises(DataMissing, match="has no file"):
        list(built("text", tmp_path, path=".").names())
    with pytest.raises(ConfigError, match="no encoding 'utf-9'"):
        built("text", tmp_path, path=".", encoding="utf-9")
    with pytest.raises(ConfigError, match="no pattern of files"):
        list(built("text", tmp_path, path=".", files="/etc/*").names())


def test_markdown_is_its_running_text(tmp_path: Path) -> None:
    text = (
        "---\ntitle: x\n---\n# Heading\n\nIt *fell*\non `the` [old](u) **pond**.\n\n- an item\n\n"
        "> quoted\n\n```\ncode.\n```\n\n| a | b |\n|---|---|\n| c | d |\n\n"
        "![picture](p.png)\n\n<b>html</b>\n\nThe end."
    )
    assert running_text(text) == "It fell on the old pond.\n\nhtml\n\nThe end."
    (tmp_path / "a.md").write_text(text)
    (tmp_path / "b.txt").write_text(text)
    assert list(documents(built("markdown", tmp_path, path="."))) == ["a.md"]
    assert running_text("*" * 20_000 + "[" * 20_000 + ">" * 5_000)  # in time, and nested deep


def test_rows_of_jsonl(tmp_path: Path) -> None:
    rows = [{"body": "one\r\n", "title": "T", "n": 1, "long": "x" * 999}, {"body": None}]
    (tmp_path / "rows.jsonl").write_text("\n\n".join(map(json.dumps, rows)))
    found = documents(built("jsonl", tmp_path, path="rows.jsonl", column="body"))
    assert found["1"] == Document("1", "one\n", {"title": "T", "n": 1})
    assert found["2"].problem == "'body' is no text"
    other = built("jsonl", tmp_path, path="rows.jsonl", column="bodi")
    with pytest.raises(DataInvalid, match="Did you mean 'body'"):
        list(other.read({"1"}))


def test_rows_of_parquet(tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", 700)):
        duckdb.sql(
            f"COPY (SELECT 'text ' || i AS text, i AS n FROM range({first}, {first + 700}) t(i)) "
            f"TO '{tmp_path / name}.parquet'"
        )
    found = documents(built("parquet", tmp_path, path="."))
    assert len(found) == 1_400
    assert found["0/3"] == Document("0/3", "text 3", {"n": 3})
    assert found["1/699"].text == "text 1399"
    one = built("parquet", tmp_path, path="a.parquet")
    assert [each.name for each in one.read({"5", "400"})] == ["5", "400"]
    (tmp_path / "c.parquet").write_text("no")
    with pytest.raises(DataInvalid, match="not Parquet"):
        list(built("parquet", tmp_path, path="c.parquet").names())
    with pytest.raises(DataInvalid, match="has no column 'body'"):
        list(built("parquet", tmp_path, path="a.parquet", column="body").read({"0"}))


def test_a_word_list(tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(2_500)]
    (tmp_path / "words").write_text("\n".join(["", *words, " "]))
    found = documents(built("word_list", tmp_path, path="words"))
    assert list(found) == ["1", "1001", "2001"]
    assert "\n".join(each.text for each in found.values()).split("\n") == words


def test_a_folder_of_gutenberg(tmp_path: Path) -> None:
    (tmp_path / "000").mkdir()
    text = "Licence\n*** START OF THE PROJECT GUTENBERG EBOOK X ***\nIt.\n*** END OF THE PROJECT"
    (tmp_path / "000" / "1.txt").write_text(text)
    (tmp_path / "000" / "2.txt").write_text("Es.")
    assert body(text) == "It.\n"
    assert body("no marks") == "no marks"
    plain = documents(built("gutenberg", tmp_path, path="."))
    assert {name: each.text for name, each in plain.items()} == {
        "000/1.txt": "It.\n", "000/2.txt": "Es."
    }  # fmt: skip
    books: list[dict[str, Any]] = [
        {"gd-path": "000/2.txt", "Language": ["German"]},
        {"gd-path": "000/1.txt", "Language": ["English"], "Title": ["X"], "more": 1},
        {"gd-path": "000/9.txt", "Language": ["English"]},
    ]
    (tmp_path / METADATA).write_text(json.dumps(books))
    found = documents(built("gutenberg", tmp_path, path="."))
    assert found["000/1.txt"] == Document("000/1.txt", "It.\n", {"Title": ["X"]})
    assert "cannot be read" in found["000/9.txt"].problem
    books[1]["gd-path"] = "../../etc/passwd"
    (tmp_path / METADATA).write_text(json.dumps(books))
    with pytest.raises(DataInvalid, match="leads out of the folder"):
        built("gutenberg", tmp_path, path=".")


def test_hugging_face_needs_its_package(tmp_path: Path) -> None:
    try:
        import datasets
    except ImportError:
        with pytest.raises(ConfigError, match="pip install datasets"):
            built("huggingface", tmp_path, dataset="none/such")
        return
    rows = {"text": ["one", "two"], "title": ["a", "b"]}
    datasets.Dataset.from_dict(rows).save_to_disk(str(tmp_path / "saved"))
    found = documents(built("huggingface", tmp_path, dataset=str(tmp_path / "saved")))
    assert found["1"] == Document("1", "two", {"title": "b"})
