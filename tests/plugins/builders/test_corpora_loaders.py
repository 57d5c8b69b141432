"""Loaders: stable names, only the chosen documents are read, unreadable data is reported."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import duckdb
import pytest

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid, DataMissing
from harness.plugin_loader import kind
from harness.plugins.builders.corpora import METADATA, body, json_object, running_text
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


def test_wrong_paths_are_reported(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="nowhere"):
        built("text", tmp_path, path="nowhere")
    with pytest.raises(DataMissing, match="has no file"):
        list(built("text", tmp_path, path=".").names())
    with pytest.raises(ConfigError, match="no encoding 'utf-9'"):
        built("text", tmp_path, path=".", encoding="utf-9")
    with pytest.raises(ConfigError, match="is not a valid file pattern"):
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
    assert found["3"].problem == "'body' is not text"
    other = documents(built("jsonl", tmp_path, path="rows.jsonl", column="bodi"))
    assert other["1"].problem == "has no column 'bodi'. Did you mean 'body'?"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'"\\ud83d"', "\ufffd"),
        (b'"\\ude00\\ud83d"', "\ufffd\ufffd"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        ('"ä \\ud83d"'.encode(), "ä \ufffd"),
    ],
)
def test_half_of_a_pair_is_replaced(line: bytes, found: str) -> None:
    assert json_object(b'{"a": ' + line + b"}") == {"a": found}


def test_a_row_that_cannot_be_read_ends_nothing(tmp_path: Path) -> None:
    lines = [
        b'\xef\xbb\xbf{"text": "marked"}',
        b'{"text": "cut \\ud83d", "t\\udc00": 1}',
        rb'{"text": "whole \ud83d\ude00"}',
        b'{"other": 1}',
        b'["a list"]',
        b'{"text": ',
        b'{"text": "latin \xe9"}',
        b'{"text": NaN}',
        b'{"a":' * 9_999,
        b'{"text": "last"}',
    ]
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(lines))
    found = documents(built("jsonl", tmp_path, path="rows.jsonl"))
    texts = {name: each.text for name, each in found.items() if not each.problem}
    assert texts == {"1": "marked", "2": "cut \ufffd", "3": "whole \U0001f600", "10": "last"}
    assert found["2"].about == {"t\ufffd": 1}
    assert all("not a JSON object" in found[name].problem for name in "56789")


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
    with pytest.raises(DataInvalid, match="not readable as Parquet"):
        list(built("parquet", tmp_path, path="c.parquet").names())
    [other] = built("parquet", tmp_path, path="a.parquet", column="body").read({"0"})
    assert "has no column 'body'" in other.problem


def test_a_parquet_files_name_is_no_pattern(tmp_path: Path) -> None:
    for name in ("part1", "part[1]", "part*", "part?"):
        duckdb.sql(f"COPY (SELECT '{name}' AS text) TO '{tmp_path / 'made.parquet'}'")
        (tmp_path / "made.parquet").rename(tmp_path / f"{name}.parquet")
    for name in ("part1", "part[1]", "part*", "part?"):
        one = documents(built("parquet", tmp_path, path=f"{name}.parquet"))
        assert [each.text for each in one.values()] == [name]
    whole = documents(built("parquet", tmp_path, path="."))
    assert sorted(each.text for each in whole.values()) == ["part*", "part1", "part?", "part[1]"]


def test_links_that_lead_out_of_a_folder_are_not_read(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "secret.parquet").write_text("secret")
    (inside / "a.txt").write_text("open")
    (inside / "b.txt").symlink_to("../secret.txt")
    (inside / "c.txt").symlink_to("a.txt")
    found = documents(built("text", tmp_path, path="in"))
    assert {name: each.text for name, each in found.items()} == {
        "a.txt": "open", "b.txt": "", "c.txt": "open"
    }  # fmt: skip
    assert found["b.txt"].problem == "outside the folder"
    (tmp_path / "link").symlink_to("in")
    assert documents(built("text", tmp_path, path="link"))["a.txt"].text == "open"
    assert documents(built("text", tmp_path, path="in/b.txt"))["b.txt"].text == "secret"
    (inside / "d.parquet").symlink_to("../secret.parquet")
    with pytest.raises(DataInvalid, match="is outside the folder"):
        built("parquet", tmp_path, path="in")


def test_names_of_files_that_are_not_utf_8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (tmp_path / name).write_text("open")
    [document] = built("text", tmp_path, path=".").read({name})
    assert document == Document("caf\\udce9.txt", "open")


def test_an_encoding_that_writes_halves_of_characters(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("cut \\ud83d")
    [document] = built("text", tmp_path, path=".", encoding="unicode_escape").read({"a.txt"})
    assert document.problem == "not in unicode_escape"


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
    books[2]["gd-path"] = "a\0b"
    (tmp_path / METADATA).write_text(json.dumps(books))
    found = documents(built("gutenberg", tmp_path, path="."))
    assert found["../../etc/passwd"].problem == "outside the folder"
    assert "cannot be read" in found["a\0b"].problem
