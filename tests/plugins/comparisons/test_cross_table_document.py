"""A results table as a terminal and as other programs see it."""

import csv
import io
import json
import re
from typing import Any

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from harness.plugins.comparisons.cross_table import (
    CrossTable,
    ShownFigure,
    TableCell,
    TableColumn,
    TableRow,
)
from harness.plugins.comparisons.cross_table_document import _cell, cross_table_document
from harness.report.table import FORMATS, escape_latex
from harness.report.terminal import align_errors
from tests.report.test_run_tables import HOSTILE, WIDTHS, rendered

FIGURES = ("Gen Acc", "IS%", "RTV%", "Val Acc", "Macro-F1")
HIDDEN = "the terminal is too narrow for standard errors"


def cell(value: float | None, **changes: Any) -> TableCell:
    made = TableCell(mean=value, stderr=0.0123, ci95=(0.1, 0.9), n=40, n_clusters=40, missing=2)
    return replace(made, **changes)


def figure(name: str, **changes: Any) -> ShownFigure:
    made = ShownFigure(name=name, task="toys", of="passed", score="", label="", fraction=True)
    return replace(made, **changes)


def table(
    name: str = "llama", group: str = "python", names: tuple[str, ...] = FIGURES, groups: int = 3
) -> CrossTable:
    """Two models with two rows each; values 0.00, 0.01, … in reading order."""
    formats = ["json", "xml", "yaml"][:groups]
    columns = [
        TableColumn(figure=number, group=one)
        for number in range(len(names))
        for one in (*formats, None)
    ]
    rows = []
    for at, (model, own) in enumerate(
        [(name, group), (name, "xml"), ("other", group), ("other", "xml")]
    ):
        values = [cell((at * len(columns) + place) / 100) for place in range(len(columns))]
        rows.append(
            TableRow(
                model=model,
                settings={"task.shots": "5" if at % 4 > 1 else "0"},
                group=own,
                runs=[f"run{at // 2}"],
                marks=["INCOMPLETE 1 of 2"] if at < 2 else [],
                cells=values,
            )
        )
    return CrossTable(
        tasks=["toys"],
        row_label="representation",
        column_label="output",
        round=None,
        figures=[figure(one) for one in names],
        columns=columns,
        rows=rows,
        sources=["A paper, table 1"],
        notes=["They differ in prompts."],
    )


def shown(found: CrossTable, width: int) -> list[str]:
    return rendered(cross_table_document(found), width)


def written(form: str, found: CrossTable) -> str:
    return FORMATS[form](cross_table_document(found))


def text_of(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def test_side_by_side_with_errors() -> None:
    lines = shown(table(names=FIGURES[:2]), 160)
    assert lines[0] == "toys"
    assert lines[2].split() == ["Gen", "Acc"] * 4 + ["IS%"] * 4
    assert lines[3].split() == ["representation", *["json", "xml", "yaml", "all"] * 2]
    model = lines.index(next(line for line in lines if line.startswith("llama")))
    assert lines[model + 1].strip() == "task.shots=0"
    assert lines[model + 2].strip() == "INCOMPLETE 1 of 2"
    assert lines[model + 3].split()[:4] == ["python", "0.0", "±", "1.2"]
    assert lines[model + 4].split()[:4] == ["xml", "8.0", "±", "1.2"]
    assert lines[model + 5].strip() == "other"
    text = text_of(lines)
    assert "One row per model and representation, one column per output. Per cent." in text
    assert "±: clustered standard error. Covers each sample's last round." in text
    assert "Samples: 40 in a cell, 40 over all." in text
    assert "excluded and not counted as 0: Gen Acc 24 of 504; IS% 24 of 504." in text
    assert "Figures as in A paper, table 1." in text
    assert "They differ in prompts." in text
    assert HIDDEN not in text


@pytest.mark.parametrize(
    ("models", "shots", "column"),
    [("aabb", "4", "task.shots"), ("aabb", "4" * 40, "variant"), ("aaaa", "4", "variant")],
)
def test_variants_of_several_models_show_short_settings(
    models: str, shots: str, column: str
) -> None:
    found = table(names=FIGURES[:1], groups=1)
    rows = [
        replace(row, model=model, settings={"task.shots": shots}, runs=[f"f.{model}.{number}"])
        for number, (model, row) in enumerate(zip(models, found.rows, strict=True))
    ]
    (heading,) = re.findall(
        r"^model & (\S+) & representation", written("latex", replace(found, rows=rows)), re.M
    )
    assert heading == column


def test_runs_with_long_settings_and_no_common_name_show_their_names() -> None:
    found = table(names=FIGURES[:1], groups=1)
    settings = {"task.prompt": "{{ question }} Answer with one word."}
    rows = [
        replace(row, settings=settings, runs=[f"{letter}.x"])
        for letter, row in zip("abcd", found.rows, strict=True)
    ]
    text = written("latex", replace(found, rows=rows))
    assert re.search(r"^model & run & ", text, re.M)
    assert all(f" & {letter}.x & " in text for letter in "abcd")
    assert "question" not in text


@pytest.mark.parametrize(("width", "tables"), [(300, 1), (200, 2), (80, 5), (60, 7), (40, 20)])
def test_what_a_narrow_terminal_gets(width: int, tables: int) -> None:
    found = table()
    lines = shown(found, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "…" not in "".join(lines)
    rules = [line for line in lines if line.startswith("───")]
    assert len(rules) == tables
    body = lines[: next(at for at, line in enumerate(lines) if line.startswith("One row per"))]
    values = re.findall(r"\d+\.\d(?= ±|\s|$)", "\n".join(body))
    assert len([one for one in values if one != "1.2"]) >= 80 - 1  # every figure is there, whole
    assert " ± " in "".join(body)


@pytest.mark.parametrize("width", [*WIDTHS, 30])
def test_hostile_names_do_nothing(width: int) -> None:
    found = table(HOSTILE, HOSTILE, (HOSTILE, "b"))
    found = replace(
        found,
        tasks=[HOSTILE],
        row_label=HOSTILE,
        column_label=HOSTILE,
        columns=[replace(one, group=one.group and HOSTILE) for one in found.columns],
        rows=[
            replace(one, settings={HOSTILE: HOSTILE}, runs=[HOSTILE], marks=[HOSTILE])
            for one in found.rows
        ],
        sources=[HOSTILE],
    )
    lines = shown(found, width)
    assert all(line.isprintable() for line in lines)
    assert all(cell_len(line) <= width for line in lines)
    assert any("[bold" in line for line in lines)
    for form in FORMATS:
        assert all(line.isprintable() for line in written(form, found).split("\n")), form
    assert r"a\|b\<script\>\`" in written("markdown", table("a|b<script>`"))


def test_figures() -> None:
    def cell_text(found: TableCell | None, of: ShownFigure) -> str | None:
        return _cell(found, of).text

    assert cell_text(cell(0.12345), figure("a")) == "12.3 ± 1.2"
    assert cell_text(cell(3.5, stderr=0.25), figure("a", fraction=False)) == "3.500 ± 0.250"
    assert cell_text(cell(1.0, stderr=0.0), figure("a")) == "100.0"
    assert cell_text(cell(1.0, stderr=None), figure("a")) == "100.0"
    assert cell_text(None, figure("a")) == cell_text(cell(None), figure("a")) == "—"
    assert cell_text(cell(2599 / 2600, stderr=1 / 2600), figure("a")) == "99.96 ± 0.04"


def test_a_value_of_part_of_the_samples_says_so() -> None:
    many = replace(table(), rows=[replace(table().rows[0], cells=[cell(0.727, n=55, missing=45)])])
    one = replace(many, figures=[figure("a")], columns=[TableColumn(figure=0, group=None)])
    lines = shown(one, width=120)
    assert any("55 of 100: 72.7 ± 1.2" in line for line in lines)
    assert "n of m: the value covers n of m samples; shown if at least 5% lack one." in lines
    answered = replace(one, figures=[figure("a", of="answered")])  # which is over the others
    assert not any("55 of 100:" in line for line in shown(answered, width=120))
    for n, told in ((95, True), (96, False)):
        part = [replace(many.rows[0], cells=[cell(0.5, n=n, missing=100 - n)])]
        lines = shown(replace(one, rows=part), width=120)
        assert any(f"{n} of 100: 50.0" in line for line in lines) is told


def test_figures_stand_under_figures() -> None:
    assert align_errors(["100.0", "5.0 ± 12.3", "65.0 ± 6.1", "—"]) == [
        "100.0       ",
        "  5.0 ± 12.3",
        " 65.0 ±  6.1",
        "    —       ",
    ]
    assert align_errors(["100.0", "5.0"]) == ["100.0", "5.0"]
    found = table(names=("Gen Acc",))
    first, *rest = found.rows
    sure = replace(first, cells=[cell(1.0, stderr=0.0)] * 4)
    lines = shown(replace(found, rows=[sure, *rest]), 100)
    (certain,) = (line for line in lines if "100.0" in line)
    (below,) = (line for line in lines if " 4.0 ± 1.2" in line)
    assert certain.index("100.0") + 2 == below.index("4.0")


def test_what_is_not_known_is_told() -> None:
    found = table(names=("Gen Acc",))
    first, *rest = found.rows
    cells = [None, cell(1.0, stderr=0.0), *first.cells[2:]]
    found = replace(found, rows=[replace(first, cells=cells), *rest])
    text = text_of(shown(found, 120))
    assert "—: no run has this figure" in text
    assert "Without ±: one cluster, or all values alike" in text
    assert "Without ±" not in text_of(shown(table(), 120))


@pytest.mark.parametrize(
    ("of", "told"),
    [
        ("macro_f1", "arXiv 1911.03347); an answer without"),
        ("answered", "that have the score 's' only"),
    ],
)
def test_what_a_figure_is(of: str, told: str) -> None:
    found = replace(table(), figures=[figure("F", of=of, score="s"), *table().figures[1:]])
    assert told in text_of(shown(found, 120))


@pytest.mark.parametrize(
    ("round_", "told"), [(1, "first answer."), (3, "last round up to 3."), (None, "last round.")]
)
def test_rounds(round_: int | None, told: str) -> None:
    found = replace(table(), round=round_)
    assert f"Covers each sample's {told}" in text_of(shown(found, 120))


def test_a_row_per_model_alone() -> None:
    found = table(names=("a",), groups=0)
    rows = [replace(row, group="", settings={}) for row in found.rows[::2]]
    found = replace(found, row_label="", column_label="", rows=rows)
    lines = shown(found, 60)
    assert lines[2].split() == ["model", "a"]
    assert lines[4].split() == ["llama", "0.0", "±", "1.2"]
    assert lines[6].split() == ["other", "2.0", "±", "1.2"]


def test_csv() -> None:
    found = table()
    first = found.rows[0]
    found = replace(found, rows=[replace(first, cells=[None, *first.cells[1:]]), *found.rows[1:]])
    rows = list(csv.DictReader(io.StringIO(written("csv", found))))
    assert len(rows) == 4 * 20 - 1
    assert rows[0] == {
        "model": "llama", "settings": "task.shots=0", "runs": "run0",
        "marks": "INCOMPLETE 1 of 2", "label": "representation", "group": "python",
        "figure": "Gen Acc", "task": "toys", "column_label": "output", "column": "xml",
        "value": "0.01", "stderr": "0.0123", "ci95_low": "0.1", "ci95_high": "0.9", "n": "40",
        "n_clusters": "40", "not_measured": "2",
    }  # fmt: skip
    assert rows[2]["column"] == ""


def test_json_holds_everything() -> None:
    found = json.loads(written("json", table()))
    assert found["rows"][0]["cells"][1]["value"] == 0.01
    assert found["columns"][3] == {"figure": 0, "group": None}
    assert found["figures"][4]["name"] == "Macro-F1"


def test_markdown_is_a_table() -> None:
    lines = written("markdown", table(names=("Gen Acc",))).split("\n")
    heads = "Gen Acc json | Gen Acc xml | Gen Acc yaml | Gen Acc all"
    assert lines[2] == f"| model | task.shots | representation | {heads} |"
    assert lines[3] == "|" + "---|" * 7
    assert lines[4].startswith("| llama (INCOMPLETE 1 of 2) | 0 | python | 0.0 ± 1.2 | 1.0 ± 1.2 |")


def test_latex_has_each_figure_over_its_columns() -> None:
    lines = written("latex", table("a_b", names=("Gen Acc", "IS%"))).split("\n")
    start = lines.index(r"\begin{tabular}{lllrrrrrrrr}")
    assert all(line.startswith("% ") for line in lines[:start])
    assert lines[start + 2] == (
        r" &  &  & \multicolumn{4}{c}{Gen Acc} & \multicolumn{4}{c}{IS\%} \\"
    )
    assert lines[start + 3] == r"\cmidrule(lr){4-7} \cmidrule(lr){8-11}"
    assert lines[start + 4].startswith("model & task.shots & representation & json & xml & yaml")
    assert lines[start + 6].startswith(r"a\_b (INCOMPLETE 1 of 2) & 0 & python & 0.0 $\pm$ 1.2 &")
    assert lines.count(r"\midrule") == 2
    flat = replace(table(names=("a",), groups=0), column_label="")
    assert r"representation & a \\" in written("latex", flat)
    assert r"\cmidrule" not in written("latex", flat)


def test_latex_is_escaped() -> None:
    assert escape_latex("\\x{}~^") == r"\textbackslash{}x\{\}\textasciitilde{}\textasciicircum{}"
    assert escape_latex("\n%") == r"\textbackslash{}n\%"
