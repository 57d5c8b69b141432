import gzip
import json
import tracemalloc
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.datasets.rows import iter_unique, read_rows
from harness.errors import DataInvalid, DataMissing

ROWS = [{"id": "1", "question": "a, b?", "target": "x"}, {"id": "2", "question": "ü", "target": ""}]
LINES = "".join(f"{json.dumps(row)}\n" for row in ROWS)

FORMS = {
    "a.jsonl": LINES.encode(),
    "a.jsonl.gz": gzip.compress(LINES.encode()),
    "a.txt": LINES.encode(),
    "a.json": json.dumps(ROWS).encode(),
    "b.json": json.dumps({"canary": "…", "examples": ROWS}).encode(),
    "a.yaml": "- {id: '1', question: 'a, b?', target: x}\n"
    "- {id: '2', question: ü, target: ''}".encode(),
    "a.csv": "\ufeffid,question,target\r\n1,\"a, b?\",x\r\n\r\n2,ü,\r\n".encode(),
    "a.TSV": "id\tquestion\ttarget\n1\ta, b?\tx\n2\tü\t\n".encode(),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_all_forms_hold_the_same_rows(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FORMS[name])
    assert [row for _, row in read_rows(path)] == ROWS
    assert [where for where, _ in read_rows(path)] == [f"{path}, item 1", f"{path}, item 2"]


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{name}: &{name} [{','.join(['*' + before] * 9)}]"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "", "is empty: .* Write one JSON object per line"),
        ("a.jsonl", "\n\n", "contains no items"),
        ("a.jsonl", "[1]", r"line 1: not a JSON object .* Write a list into a .json file"),
        ("a.jsonl", '{"a": 1}\n{"a"', "line 2: not a JSON object"),
        ("a.jsonl", '{"a":' * 9999, "line 1: not a JSON object"),
        ("a.jsonl", '{"a":' + "[" * 200 + "]" * 200 + "}", "nested more than"),
        ("a.json", "{}", "must be a list"),
        ("a.json", "[", "not JSON"),
        ("a.json", "[]", "contains no items"),
        ("a.json", "", "is empty: .* Write a list of mappings"),
        ("a.json", "[1]", "item 1: must be a mapping"),
        ("a.yaml", "a: 1", "must be a list"),
        ("a.yaml", "- a\n", "item 1: must be a mapping"),
        ("a.yaml", "- [", "not YAML.*Check indentation and quotes"),
        (
            "a.yaml",
            "- {prompt: a, target: ?}",
            "column 23.* Write a text that begins with",
        ),
        ("a.yaml", "- !!python/object:os.system {}", "not YAML"),
        ("a.yaml", "", "is empty: .* Write a list"),
        ("a.yaml", "- x: &x [*x]", "recursive"),
        ("a.yaml", "-\n  " + BOMB.replace("\n", "\n  "), "aliases .* repeat too many values"),
        ("a.yaml", f"- &row {{a: {'x' * 10_000}}}\n" + "- *row\n" * 20, "repeat too many"),
        ("a.csv", "", "is empty: .* Write the names of the columns in the first line"),
        ("a.csv", "a,b\n", "contains no items"),
        ("a.csv", "a;b\n1;2", "line 1: the columns are separated by ';', not ','"),
        ("a.csv", "a,a\n1,2", "line 1: every column needs a unique name"),
        ("a.csv", "a,,b\n1,2,3", "line 1: every column needs a unique name"),
        ("a.csv", "a,\n1,2", "line 2: 2 values for 1 column"),
        ("a.csv", "a,b\n1", "line 2: 1 value for 2 columns"),
        ("a.csv", 'a,b\n"1"x,2', "line 2: "),
    ],
)
def test_what_is_malformed_is_refused_with_its_place(
    name: str, content: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataInvalid, match=message) as refused:
        list(read_rows(path))
    assert str(path) in str(refused.value)


TEXTS = {
    "a.jsonl": '{"q": "x"}\n{"q": "Café"}\n',
    "a.json": '[{"q": "x"},\n{"q": "Café"}]',
    "a.yaml": "- {q: x}\n- {q: Café}\n",
    "a.csv": "q\nCafé\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_another_encoding_is_named_with_the_line_and_the_command_that_converts_it(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(TEXTS[name], encoding="utf-8-sig")
    assert [*read_rows(path)][-1][1] == {"q": "Café"}
    path.write_text(TEXTS[name], encoding="latin-1")
    with pytest.raises(DataInvalid, match=f"{name}, line 2: not UTF-8 text .byte 0xe9.") as refused:
        list(read_rows(path))
    assert f"iconv -f WINDOWS-1252 -t UTF-8 {path} > utf8" in refused.value.remedy
    path.write_text(TEXTS[name], encoding="utf-16")
    with pytest.raises(DataInvalid, match="UTF-16 text, not UTF-8") as refused:
        list(read_rows(path))
    assert "iconv -f UTF-16 -t UTF-8" in refused.value.remedy


@pytest.mark.parametrize("name", ["a.csv", "a.yaml", "a.jsonl", "a.json"])
def test_a_binary_or_missing_file_is_an_error(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with pytest.raises(DataMissing):
        list(read_rows(path))
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataInvalid):
        list(read_rows(path))


def test_in_yaml_yes_no_and_dates_are_answers(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("- {on: a, target: [yes, No, off, y, true, false, null, 1, 2024-02-29]}")
    ((_, row),) = read_rows(path)
    assert row == {
        "on": "a",
        "target": ["yes", "No", "off", "y", True, False, None, 1, "2024-02-29"],
    }


class Named(NamedTuple):
    id: str


def test_a_repeated_id_is_found_and_the_ids_take_little_memory() -> None:
    n = 100_000
    names = chain((f"item {number} {'x' * 200}" for number in range(n)), [f"item 7 {'x' * 200}"])
    items = iter_unique((f"place {place}", Named(name)) for place, name in enumerate(names))
    tracemalloc.start()
    try:
        for _ in range(n):
            next(items)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 * n, "the ids themselves would take more"
    with pytest.raises(DataInvalid, match=f"place {n}: the id 'item 7 x+'? occurs twice"):
        next(items)
