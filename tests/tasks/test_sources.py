"""The same rows give the same instances and verdicts, whatever they are read from."""

import csv
import datetime
import gzip
import hashlib
import io
import json
import re
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape
from zipfile import ZipFile

import numpy as np
import pytest
import yaml

from harness.config.settings import Settings
from harness.datasets.folder import DataFolder
from harness.datasets.row_formats import to_json_types
from harness.datasets.rows import legacy_differences, read_rows, rows_sha256
from harness.engine.resolving import build_task
from harness.engine.run_files import read_runs
from harness.errors import ConfigError, DataInvalid, ExtraMissing
from harness.tasks import JsonlTask

Row = dict[str, Any]

ROWS: list[Row] = [
    {"q": "Yes or no?", "target": "yes"},
    {"q": "12:30", "target": "12:30"},
    {"q": "Which code? 007", "target": "01234"},
    {"q": "1_000", "target": "1e3"},
    {"q": "On which day, 2024-05-01?", "target": "2024-05-01"},
    {"q": 'He said: "a, b;\tc"', "target": 'the "quoted", one'},
    {"q": "First line\nsecond line\n", "target": "ü 東京 😀"},
    {"q": " # no comment: {{ q }} & <b>", "target": "~"},
    {"q": "null", "target": "True"},
    {"q": "x" * 140_000, "target": "0x1F"},
    {"q": "=1+1", "target": "1.50"},
    {"q": "CR\rLF\r\nend", "target": "[1, 2]"},
]
LISTS: list[Row] = [
    {"q": "Which city?", "targets": ["Paris", "Paname"], "checks": [{"contains": {"mode": "any"}}]},
    {"q": "Which?", "targets": ["no", "01"], "checks": {"exact_match": {"ignore_case": True}}},
]


def cells(all_rows: list[Row]) -> list[list[str]]:
    lists = [[v if isinstance(v, str) else json.dumps(v) for v in row.values()] for row in all_rows]
    return [[*all_rows[0]], *lists]


def table(all_rows: list[Row], **form: Any) -> bytes:
    file = io.StringIO()
    csv.writer(file, **form).writerows(cells(all_rows))
    return file.getvalue().encode()


def sheet(*tables: list[list[str]]) -> bytes:
    """An Excel file. A cell is a text, or the XML of a cell if it begins with "<c"."""
    content = io.BytesIO()
    space = "http://schemas.openxmlformats.org"
    with ZipFile(content, "w") as archive:
        kinds = f'<Types xmlns="{space}/package/2006/content-types"/>'
        archive.writestr("[Content_Types].xml", kinds)
        sheets = relations = ""
        for number, lines in enumerate(tables, start=1):
            sheets += f'<sheet name="S{number}" sheetId="{number}" r:id="r{number}"/>'
            relations += (
                f'<Relationship Id="r{number}" Type="{space}/officeDocument/2006/relationships/'
                f'worksheet" Target="worksheets/s{number}.xml"/>'
            )
            body = ""
            for place, line in enumerate(lines, start=1):
                body += f'<row r="{place}">'
                for column, cell in zip("ABCDEFG", line, strict=False):
                    at = f'r="{column}{place}"'
                    text = escape(cell, {"\r": "&#13;", "\n": "&#10;"})
                    own = f'<c {at} t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'
                    body += cell.replace("<c", f"<c {at}") if cell.startswith("<c") else own
                body += "</row>"
            page = f'<worksheet xmlns="{space}/spreadsheetml/2006/main">'
            page += f"<sheetData>{body}</sheetData></worksheet>"
            archive.writestr(f"xl/worksheets/s{number}.xml", page)
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{space}/spreadsheetml/2006/main" xmlns:r="{space}/officeDocument/'
            f'2006/relationships"><sheets>{sheets}</sheets></workbook>',
        )
        archive.writestr(
            "xl/styles.xml",
            f'<styleSheet xmlns="{space}/spreadsheetml/2006/main"><cellXfs count="2"><xf '
            'numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>',
        )
        begin = f'<Relationships xmlns="{space}/package/2006/relationships">'
        archive.writestr("xl/_rels/workbook.xml.rels", f"{begin}{relations}</Relationships>")
        book = f'Type="{space}/officeDocument/2006/relationships/officeDocument"'
        book = f'<Relationship Id="r1" {book} Target="xl/workbook.xml"/>'
        archive.writestr("_rels/.rels", f"{begin}{book}</Relationships>")
    return content.getvalue()


def parquet(all_rows: list[Row], path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    lines = path.with_suffix(".jsonl")
    lines.write_text("".join(f"{json.dumps(row)}\n" for row in all_rows))
    columns = dict.fromkeys(all_rows[0], "VARCHAR")
    columns |= {name: "VARCHAR[]" for name in ("targets", "choices") if name in columns}
    kinds = ", ".join(f"{name}: '{kind}'" for name, kind in columns.items())
    read = f"read_json('{lines}', format='newline_delimited', columns={{{kinds}}})"
    duckdb.sql(f"COPY (SELECT * FROM {read}) TO '{path}' (FORMAT parquet)")


def unquoted(all_rows: list[Row]) -> str:
    """YAML in which only values with other characters than letters, digits and _:-. have quotes."""
    lines = []
    for row in all_rows:
        parts = [f"{key}: {_flow(value)}" for key, value in row.items()]
        lines.append("- {" + ", ".join(parts) + "}\n")
    return "".join(lines)


def _flow(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(part)}" for key, part in value.items()) + "}"
    plain = isinstance(value, str) and re.fullmatch(r"[\w:.-]{1,99}", value) and value != "null"
    return value if plain else json.dumps(value)


def task(source: str, all_rows: list[Row], folder: Path, **options: Any) -> JsonlTask:
    """A task made from the same rows in a file, a run file or Python's objects."""
    if source in ("run file", "override", "python", "frame"):
        file, overrides = run_file(source, all_rows, folder, options)
        _, runs = read_runs(file, overrides=overrides)
        built: Any = build_task(runs[""], Settings())
        return built
    path = folder / source
    if source.endswith("parquet"):
        parquet(all_rows, path)
    else:
        path.write_bytes(FILES[source](all_rows))
    return JsonlTask(str(path), data=DataFolder(folder), **options)


def run_file(
    source: str, all_rows: list[Row], folder: Path, options: Mapping[str, Any]
) -> tuple[Any, list[str]]:
    """The run file with these rows, and the overrides."""
    tree: dict[str, Any] = {"task": {**options, "rows": all_rows}, "model": "simulated/1"}
    if source == "python":
        return tree, []
    if source == "frame":
        pandas = pytest.importorskip("pandas")
        tree["task"]["rows"] = pandas.DataFrame(all_rows).to_dict("records")
        return tree, []
    file = folder / "run.yaml"
    listed = ", ".join(line[2:] for line in unquoted(all_rows).splitlines())
    rows = "[{prompt: other}]" if source == "override" else f"[{listed}]"
    others = "".join(f", {key}: {json.dumps(value)}" for key, value in options.items())
    file.write_text(f"task: {{rows: {rows}{others}}}\nmodel: simulated/1\n")
    return file, [f"task.rows=[{listed}]"] if source == "override" else []


def lines(all_rows: list[Row]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in all_rows).encode()


FILES: Mapping[str, Any] = {
    "a.jsonl": lines,
    "a.ndjson": lines,
    "a.jsonl.gz": lambda rows: gzip.compress(lines(rows)),
    "a.json": lambda rows: json.dumps(rows).encode(),
    "a.yaml": lambda rows: unquoted(rows).encode(),
    "b.yaml": lambda rows: yaml.safe_dump(rows, allow_unicode=False).encode(),
    "a.csv": table,
    "b.csv": lambda rows: b"\xef\xbb\xbf" + table(rows, lineterminator="\r", quoting=csv.QUOTE_ALL),
    "a.csv.gz": lambda rows: gzip.compress(table(rows, lineterminator="\n")),
    "a.tsv": lambda rows: table(rows, delimiter="\t"),
    "a.xlsx": lambda rows: sheet(cells(rows), []),
}
SOURCES = [*FILES, "a.parquet", "run file", "override", "python", "frame"]


@pytest.mark.parametrize("source", SOURCES)
def test_rows_are_the_same_from_all_sources(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    if source == "a.xlsx":
        pytest.importorskip("python_calamine")
    built = task(source, ROWS, tmp_path, prompt="{{ q }}", checks="exact_match")
    instances = list(built.instances())
    assert [one.data.messages[0].content for one in instances] == [row["q"] for row in ROWS]
    assert [one.data.rules[0].options["target"] for one in instances] == [
        row["target"] for row in ROWS
    ]
    for instance, row in zip(instances, ROWS, strict=True):
        assert built.reference(instance) == row["target"]
        assert built.score(instance, row["target"])["exact_match"].passed
        assert not built.score(instance, row["target"] + "?")["exact_match"].passed

    if source in ("a.parquet", "frame"):  # they have one type per column
        rows_of_lists = [{**row, "checks": None} for row in LISTS]
    else:
        rows_of_lists = LISTS
    built = task(source, rows_of_lists, tmp_path, prompt="{{ q }}", checks="exact_match")
    first, second = built.instances()
    assert first.data.rules[0].options["target"] == ["Paris", "Paname"]
    assert second.data.rules[0].options["target"] == ["no", "01"]
    if rows_of_lists is LISTS:
        assert built.score(first, "It is Paname.")["contains"].passed
        assert built.score(second, "NO")["exact_match"].passed


VALUES = {  # in YAML without quotes: their values in a row, in a target, and in a check's options
    "yes": ("yes", "yes", "yes"),
    "Off": ("Off", "Off", "Off"),
    "true": (True, True, True),
    "False": (False, "False", False),
    "12:30": ("12:30", "12:30", "12:30"),
    "1:30.5": ("1:30.5", "1:30.5", "1:30.5"),
    "01234": ("01234", "01234", "01234"),
    "0o17": ("0o17", "0o17", "0o17"),
    "0x1F": ("0x1F", "0x1F", "0x1F"),
    "0b1": ("0b1", "0b1", "0b1"),
    "1_000": ("1_000", "1_000", "1_000"),
    "2024-05-01": ("2024-05-01", "2024-05-01", "2024-05-01"),
    "~": (None, None, None),
    "null": (None, None, None),
    ".nan": (None, None, None),
    "1e3": ("1e3", "1e3", 1000.0),
    ".5": (".5", ".5", 0.5),
    "1.50": ("1.50", "1.50", 1.5),
    "1.0e-5": ("1.0e-5", "1.0e-5", 1e-5),
    "+5": ("+5", "+5", 5),
    "-0": ("-0", "-0", 0),
    ".inf": (".inf", ".inf", ".inf"),
    "=": ("=", "=", "="),
    "12345678901234567890": ("12345678901234567890", "12345678901234567890", 12345678901234567890),
    "5": (5, 5, 5),
    "-3": (-3, -3, -3),
    "1.0": (1.0, 1.0, 1.0),
    "0.25": (0.25, 0.25, 0.25),
    "!!str 5": ("5", "5", "5"),
}


@pytest.mark.parametrize("written", VALUES)
@pytest.mark.parametrize("where", ["a.yaml", "a.yml", "task", "variant"])
def test_values_in_yaml_are_read_as_they_are_written(
    where: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))
    path = tmp_path / where
    row = f"{{a: {written}, target: [{written}], checks: {{c: {{x: {written}}}}}}}"
    if where.startswith("a."):
        path.write_text(f"- {row}")
    else:
        text = {"task": f"{{rows: [{row}]}}", "variant": "{name: jsonl}"}[where]
        more = f"variants: {{v: {{task.rows: [{row}]}}}}" if where == "variant" else ""
        path = tmp_path / "run.yaml"
        path.write_text(f"task: {text}\nmodel: simulated/1\n{more}")
        _, runs = read_runs(path)
        [run] = runs.values()
        path = Path(run.task.options["path"])
    [(_, read)] = read_rows(path)
    value, target, option = VALUES[written]
    assert repr(read) == repr({"a": value, "target": [target], "checks": {"c": {"x": option}}})


def test_only_expected_answers_in_a_run_files_checks_are_read_as_written(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "task: {name: jsonl, checks: [{exact_match: {target: [yes, 012, True], ignore_case: yes}}]}"
        "\nmodel: {backend: openai, name: m, extra_body: {target: yes, at: 1_000}}\n"
    )
    [run] = read_runs(file)[1].values()
    options = {"target": ["yes", "012", "True"], "ignore_case": True}
    assert run.task.options["checks"] == [{"exact_match": options}]
    assert run.model.options["extra_body"] == {"target": True, "at": 1000}


REPEATED = {
    "a.jsonl": '{"q": "x", "target": "a", "target": "b"}',
    "b.jsonl": '{"q": "x", "checks": [{"contains": {"target": "a", "target": "b"}}]}',
    "c.jsonl.gz": '{"q": "a:b", "target": "a", "\\u0074arget": "b"}',
    "a.json": '[{"q": "x", "target": "a", "target": "b"}]',
    "b.json": '{"examples": [{"q": "x", "meta": {"a": 1, "a": 2}}]}',
    "c.json": '{"examples": [], "examples": [{"q": "x"}]}',
    "a.yaml": "- {q: x, target: a, target: b}",
    "b.yaml": "- {q: x, checks: {c: {target: a, 'target': b}}}",
    "a.csv": 'q,checks\nx,"[{""contains"": {""target"": ""a"", ""target"": ""b""}}]"\n',
}


@pytest.mark.parametrize("name", REPEATED)
def test_a_key_that_occurs_twice_is_refused(name: str, tmp_path: Path) -> None:
    path, content = tmp_path / name, REPEATED[name].encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(
        DataInvalid, match=r"(line|item) \d.*key '.*' (occurs twice|is already)|twice"
    ):
        list(read_rows(path))


def test_a_float_of_32_bits_is_the_shortest_decimal_of_its_value(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "rows.parquet"
    fields = (
        "0.1::FLOAT AS target, [0.1::FLOAT, 2.5, NULL] AS targets, 0.1::DOUBLE AS double, "
        "{'x \"y': 1e-7::FLOAT, 'FLOAT': 3} AS nested, 'NaN'::FLOAT AS missing"
    )
    duckdb.sql(f"COPY (SELECT {fields}) TO '{path}' (FORMAT parquet)")
    [(_, row)] = read_rows(path)
    assert row == {
        "target": 0.1,
        "targets": [0.1, 2.5, None],
        "double": 0.1,
        "nested": {'x "y': 1e-7, "FLOAT": 3},
        "missing": None,
    }
    assert to_json_types({"a": np.float32(0.1), "b": [np.float16(0.1)]}) == {"a": 0.1, "b": [0.1]}


def test_a_matrix_over_rows_names_the_form_that_works(tmp_path: Path) -> None:
    cells = {"one": [{"prompt": "a"}], "two": [{"prompt": "b"}]}
    tree = {"task": {"name": "jsonl"}, "model": "simulated/1"}
    with pytest.raises(ConfigError, match="matrix cannot vary") as refused:
        read_runs({**tree, "matrix": {"task.rows": cells}})
    assert "variants: {one: {task.rows:" in refused.value.remedy
    variants = {name: {"task.rows": own} for name, own in cells.items()}
    _, runs = read_runs({**tree, "variants": variants})
    assert list(runs) == ["one", "two"]


def test_a_key_may_occur_in_several_objects_and_in_texts(tmp_path: Path) -> None:
    row = {"a": {"a": [{"a": 1}, {"a": 2}]}, "b": '{"a": 1, "a": 2}', "c": 10**4400}
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": {"a": [{"a": 1}, {"a": 2}]}, "b": "{\\"a\\": 1, \\"a\\": 2}"}')
    assert [found for _, found in read_rows(path)] == [{key: row[key] for key in "ab"}]


BLANKS = [
    "",
    "  ",
    "\u00a0",
    "\u200b",
    "\ufeff\n",
    "\u3164",
    [],
    [""],
    ["Paris", " "],
    ["Paris", None],
    None,
]


@pytest.mark.parametrize("checker", ["exact_match", "contains"])
@pytest.mark.parametrize("field", ["target", "targets", "answer"])
@pytest.mark.parametrize("blank", BLANKS, ids=repr)
def test_a_blank_target_is_refused_with_its_row(
    blank: Any, field: str, checker: str, tmp_path: Path
) -> None:
    check_blank_target(blank, field, checker, tmp_path)


def check_blank_target(blank: Any, field: str, checker: str, tmp_path: Path) -> None:
    checks = [{checker: {"target": {"field": "answer"}}}] if field == "answer" else checker
    given = [{"prompt": "a", field: "5"}, {"prompt": "b", field: blank}]
    refusal = r"item 2: .*(blank|empty list|null|needs a|valid number)"
    with pytest.raises(DataInvalid, match=refusal):
        list(task("a.jsonl", given, tmp_path, checks=checks).instances())


@pytest.mark.parametrize(
    ("check", "refused"),
    [
        ({"exact_match": {"target": " "}}, True),
        ({"exact_match": {"target": ["a", ""]}}, True),
        ({"regex_match": {"pattern": ""}}, True),
        ({"contains": {"target": ["a", " "]}}, True),
        ({"contains": {"target": ["\n", " "], "mode": "none"}}, False),
        ({"contains": {"target": "\n"}}, False),
        ({"regex_match": {"pattern": " "}}, False),
        ({"regex_match": {"pattern": {"field": "blank"}}}, True),
    ],
)
@pytest.mark.parametrize("in_row", [False, True])
def test_a_blank_text_in_a_check_is_refused_unless_it_is_meant(
    in_row: bool, check: Row, refused: bool, tmp_path: Path
) -> None:
    row = {"prompt": "a", "blank": " ", **({"checks": [check]} if in_row else {})}
    options = {} if in_row else {"checks": [check]}
    expected = pytest.raises((ConfigError, DataInvalid)) if refused else nullcontext()
    with expected:
        list(task("a.jsonl", [row], tmp_path, **options).instances())


def test_one_of_target_and_targets_is_used_and_both_are_refused(tmp_path: Path) -> None:
    def expected(row: Row, check: Any = "exact_match") -> Any:
        [instance] = task("a.jsonl", [{"prompt": "a", **row}], tmp_path, checks=[check]).instances()
        return instance.data.rules[0].options["target"]

    both = {"target": "a", "targets": ["b"]}
    with pytest.raises(DataInvalid, match="item 1: the row has both 'target' and 'targets'"):
        expected(both)
    assert expected(both, {"exact_match": {"target": {"field": "targets"}}}) == ["b"]
    assert expected({**both, "target": ""}) == expected({**both, "target": None}) == ["b"]
    assert expected({**both, "targets": ""}) == "a"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a,b\n1,\n", [{"a": "1", "b": ""}]),
        ("a,b,,\n1,2,,\n,,,\n3,4\n", [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]),
        ("a\r1\r\r2", [{"a": "1"}, {"a": "2"}]),
        ('a\n""\n', [{"a": ""}]),
        ('a,b\n5" pipe,"x ""y"" z"', [{"a": '5" pipe', "b": 'x "y" z'}]),
        ("a,targets\n1,[x]y\n", [{"a": "1", "targets": "[x]y"}]),
        ('a,target\n1,"[1, 2]"\n', [{"a": "1", "target": "[1, 2]"}]),
        ('a,targets\n1," [1, ""b""] "\n', [{"a": "1", "targets": [1, "b"]}]),
        ("a,targets\n1,[x]\n", "item 1: 'targets': not JSON"),
        ("a,targets\n1,\"['x']\"\n", "item 1: 'targets': not JSON"),
        ("a,criteria\n1,\"['x']\"\n", "item 1: 'criteria': not JSON"),
        ("a,criteria\n1,[Style] Good? [0-1]\n", [{"a": "1", "criteria": "[Style] Good? [0-1]"}]),
        ("a,checks,groups,turns,messages,id,cluster\n1,, ,,,,\n", [{"a": "1"}]),
        ('a,b\n1,"2\n3,4\n', "line 2: a cell begins with a quote"),
        ("a,b\n1,\0\n", "NUL characters; perhaps it is UTF-16"),
    ],
)
def test_cells_of_tables(content: str, expected: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode())
    if isinstance(expected, list):
        assert [row for _, row in read_rows(path)] == expected
        return
    with pytest.raises(DataInvalid, match=expected):
        list(read_rows(path))


def test_an_alias_of_a_merged_mapping_repeats_no_key(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("- &a {q: x}\n- {p: &b {<<: *a, q: y}}\n- *b\n")
    assert [row for _, row in read_rows(path)] == [{"q": "x"}, {"p": {"q": "y"}}, {"q": "y"}]


def test_cells_of_excel(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    path = tmp_path / "a.xlsx"
    cells = [
        "<c><v>5</v></c>",
        "<c><v>0.5</v></c>",
        '<c t="b"><v>1</v></c>',
        '<c s="1"><v>45413</v></c>',
    ]
    path.write_bytes(sheet([["id", "a", "b", "c"], cells]))
    assert [row for _, row in read_rows(path)] == [
        {"id": "5", "a": "0.5", "b": True, "c": "2024-05-01"}
    ]
    path.write_bytes(sheet([["id", "a", "b", "target"], cells]))
    with pytest.raises(DataInvalid, match="item 1: 'target' is a date"):
        list(read_rows(path))
    path.write_bytes(sheet([["a"], ["b"]], [["a"], ["c"]]))
    with pytest.raises(DataInvalid, match="has 2 sheets: S1, S2"):
        list(read_rows(path))
    damaged = bytearray(sheet([["a"], ["b"]]))
    damaged[damaged.index(b"worksheets/") + 60] ^= 0xFF  # in the compressed cells
    path.write_bytes(damaged)
    with pytest.raises(DataInvalid, match=r"is damaged|not readable as Excel"):
        list(read_rows(path))
    path.write_bytes(b"PK")
    with pytest.raises(DataInvalid, match=r"not readable as Excel.* or as \.csv"):
        list(read_rows(path))
    with pytest.raises(DataInvalid, match=r"not read from \.xls files.*\.xlsx"):
        list(read_rows(path.with_suffix(".xls")))


def test_values_of_numpy_and_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))
    np, pandas = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    row = {
        "prompt": np.str_("a"),
        "target": [np.int64(3), np.float64(0.5), np.bool_(True)],
        "list": np.array([[1, 2]]),
        "none": [float("nan"), np.float32("nan"), pandas.NaT, pandas.NA, np.datetime64("NaT")],
        "days": [
            pandas.Timestamp("2024-05-01"),
            np.datetime64("2024-05-01"),
            datetime.date(2024, 5, 1),
        ],
    }
    tree = {"task": {"rows": [row]}, "model": "simulated/1"}
    path = Path(read_runs(tree)[1][""].task.options["path"])
    assert [found for _, found in read_rows(path)] == [
        {
            "prompt": "a",
            "target": [3, 0.5, True],
            "list": [[1, 2]],
            "none": [None] * 5,
            "days": ["2024-05-01", "2024-05-01", "2024-05-01"],
        }
    ]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("1000000000000000", "1000000000000000"),
        ("-9007199254740992", "-9007199254740992"),
        ("1E15", "1000000000000000"),
        ("0.1", "0.1"),
        ("12345678901234567890", None),
        ("-123456789012345678", None),
        ("1E+300", None),
    ],
)
def test_numbers_in_excel_are_exact_or_refused(
    number: str, text: str | None, tmp_path: Path
) -> None:
    pytest.importorskip("python_calamine")
    path = tmp_path / "a.xlsx"
    path.write_bytes(sheet([["q"], [f"<c><v>{number}</v></c>"]]))
    if text is not None:
        assert [row for _, row in read_rows(path)] == [{"q": text}]
        return
    with pytest.raises(DataInvalid, match=r"line 2: the number .* more digits"):
        list(read_rows(path))


def python_rows(row: Row) -> list[Row]:
    path = Path(
        read_runs({"task": {"rows": [row]}, "model": "simulated/1"})[1][""].task.options["path"]
    )
    return [read for _, read in read_rows(path)]


DAY = datetime.datetime(2024, 5, 1)
NOON = datetime.time(12, 30)
UTC = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("value", "text", "refused"),  # text: in a field that is no answer
    [
        (DAY, "2024-05-01", True),
        (DAY.replace(hour=9), "2024-05-01T09:00:00", True),
        (UTC, "2024-05-01T00:00:00Z", True),
        (NOON, "12:30:00", True),
        (datetime.time(), "00:00:00", True),
        (datetime.timedelta(hours=1), "PT3600S", True),
        ({DAY}, ["2024-05-01"], True),
        (datetime.date(2024, 5, 1), "2024-05-01", False),
        (b"h\xc3\xa9", "hé", False),
        (bytearray(b"ab"), "ab", False),
        ((b"a", "b"), ["a", "b"], False),
        (True, True, False),
    ],
    ids=repr,
)
@pytest.mark.parametrize("field", ["target", "targets", "choices", "gold", "q"])
def test_times_are_no_answers_and_binary_values_are_text(
    field: str,
    value: Any,
    text: Any,
    refused: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))
    nested = ({field: value}, {field: [value]}, {"turns": [{"content": "a", field: value}]})
    for row in nested:
        if refused and field != "q":
            with pytest.raises(
                ConfigError, match=rf"task\.rows, item 1: '{field}' is a date or time"
            ):
                python_rows(row)
        else:
            [read] = python_rows(row)
            assert json.dumps(text) in json.dumps(read)


def test_binary_values_that_are_not_text_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"task\.rows, item 1: 'image' is binary data"):
        python_rows({"image": b"\xff\xd8"})


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("TIMESTAMP '2024-05-01' AS q", {"q": "2024-05-01"}),
        ("TIMESTAMP '2024-05-01 09:00' AS target", "item 1: 'target' is a date or time"),
        ("[TIME '12:30'] AS choices", "item 1: 'choices' is a date or time"),
        ("DATE '2024-05-01' AS target", {"target": "2024-05-01"}),
        ("'ab'::BLOB AS target", {"target": "ab"}),
        ("'\\xFF'::BLOB AS target", "item 1: 'target' is binary data"),
        ("TRUE AS target", {"target": True}),
        ("'[\"b\"]' AS targets, NULL AS checks, '' AS id", {"targets": ["b"]}),
    ],
)
def test_values_in_parquet(sql: str, expected: Any, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "a.parquet"
    duckdb.sql(f"COPY (SELECT {sql}) TO '{path}' (FORMAT parquet)")
    if isinstance(expected, dict):
        assert [row for _, row in read_rows(path)] == [expected]
        return
    with pytest.raises(DataInvalid, match=expected):
        list(read_rows(path))


@pytest.mark.parametrize(
    "value", ["pandas.Timestamp('2024-05-01')", "numpy.datetime64('2024-05-01T00:00')"]
)
def test_times_of_numpy_and_pandas_are_no_answers(value: str) -> None:
    libraries = {name: pytest.importorskip(name) for name in ("numpy", "pandas")}
    moment = eval(value, libraries)
    array = libraries["numpy"].array([moment], dtype="datetime64[ns]")
    assert python_rows({"q": moment, "list": array}) == [
        {"q": "2024-05-01", "list": ["2024-05-01"]}
    ]
    for answer in (moment, array):
        with pytest.raises(ConfigError, match="item 1: 'gold' is a date or time"):
            python_rows({"gold": answer})


TEXTS_OF_JSON: list[Row] = [
    {"q": "a", "targets": '["b", "c"]', "checks": '{"exact_match": {"ignore_case": true}}'},
    {"q": "d", "targets": '[ "[e]" ]', "checks": ""},
]


@pytest.mark.parametrize("source", SOURCES)
def test_json_in_texts_is_read_alike_from_all_sources(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    if source == "a.xlsx":
        pytest.importorskip("python_calamine")
    given = TEXTS_OF_JSON
    if source == "a.parquet":  # this test's columns of lists are lists there
        given = [{**row, "targets": json.loads(row["targets"])} for row in given]
    first, second = task(
        source, given, tmp_path, prompt="{{ q }}", checks="exact_match"
    ).instances()
    assert first.data.rules[0].options == {"target": ["b", "c"], "ignore_case": True}
    assert second.data.rules[0].options["target"] == ["[e]"]


@pytest.mark.parametrize("given", [None, {"a": 1}, [{"a": object()}], [{1: "a", "1": "b"}], [3]])
def test_rows_that_are_none_are_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"task\.rows"):
        read_runs({"task": {"rows": given}, "model": "simulated/1"})


def test_rows_that_are_read_otherwise_than_before_change_the_fingerprint(tmp_path: Path) -> None:
    files = {
        "a.yaml": ("- {q: a, target: 1}\n- {q: 1.50}\n- {q: yes}", [2]),
        "b.yaml": ("- {q: a, target: 5, n: 0.5, b: true}", []),
        "a.csv": ('q,targets\na,b\nc,"[""d""]"\n', [2]),
        "b.csv": ('q,choices\na,"[""b"", ""c""]"\n', []),
        "a.jsonl": ('{"q": "1.50", "checks": null, "id": "", "choices": "[1, 2]"}', []),
        "b.jsonl": ('{"q": "a"}\n{"targets": "[1]"}\n{"user": "[INST] a [/INST]"}', [2]),
        "c.json": ('[{"q": "a"}, {"checks" :\n"{}"}]', [2]),
    }
    for name, (content, changed) in files.items():
        path = tmp_path / name
        path.write_text(content)
        digest = hashlib.sha256(content.encode()).hexdigest()
        assert [*legacy_differences(path)] == changed
        assert (rows_sha256(path) == digest) is not bool(changed)


@pytest.mark.parametrize(("name", "library", "extra"), [("a.xlsx", "python_calamine", "excel")])
def test_a_missing_extra_is_named(
    name: str, library: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ExtraMissing, match=rf"install 'harness-instruct\[{extra}\]'"):
        list(read_rows(tmp_path / name))


def test_a_table_may_have_prompts_in_some_rows_and_turns_in_others(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('prompt,turns,target\na,,x\n,"[""b"", ""c""]",y\n')
    built = JsonlTask(str(path), data=DataFolder(tmp_path), checks="exact_match")
    assert [built.turns(instance) for instance in built.instances()] == [1, 2]
