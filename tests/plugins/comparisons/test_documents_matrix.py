"""Tables of every pair of runs, and of rankings."""

import csv
import io
import json
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from harness.plugins.comparisons.comparable import Run
from harness.plugins.comparisons.documents import matrix_document, p_cells
from harness.plugins.comparisons.pair_matrix import (
    InducedRankings,
    JudgedTables,
    PairMatrix,
    induced_rankings,
    pair_matrix,
)
from harness.report.table import (
    FORMATS,
    Column,
    TableDocument,
    as_latex,
    table,
)
from harness.report.terminal import render_for_terminal
from tests.analysis.conftest import Make, TableOf
from tests.plugins.comparisons.variants import variant

MODELS = 14


NASTY = "[red]a|b\x1b[2J_%"


@pytest.fixture(scope="module")
def runs(make: Make, table_of: TableOf) -> list[Run]:
    return [
        (
            variant(
                NASTY if number == 0 else f"run-{number}", {"t": 0.5}, model="m", simulated=True
            ),
            table_of(
                make(f"i{n}", n % MODELS < number, groups={"n": str(n % 3 + 1)}) for n in range(70)
            ),
        )
        for number in range(MODELS)
    ]


@pytest.fixture(scope="module")
def matrix(runs: list[Run]) -> PairMatrix:
    return pair_matrix(runs)


@pytest.fixture(scope="module")
def rankings(runs: list[Run]) -> InducedRankings:
    return induced_rankings(runs, label="n", external={"ifeval": {"run-1": 1.0, "run-2": 2.0}})


def test_below_the_diagonal_p_with_stars_and_above_it_holms(matrix: PairMatrix) -> None:
    cells = p_cells(matrix)
    assert [cells[n][n] for n in range(MODELS)] == ["·"] * MODELS
    by_places = {(one.first, one.second): one for one in matrix.pairs}
    for (first, second), one in by_places.items():
        assert cells[second][first].endswith("*") is one.starred
        assert "*" not in cells[first][second]
    assert cells[1][0] == "0.062"  # 5 of 70 better and none worse: 2 / 2^5
    assert cells[0][1] == "0.812"  # the thirteen smallest steps have this p: 13 of 91 are left


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_figure_is_cut_in_a_terminal_of_any_width(
    width: int, matrix: PairMatrix, rankings: InducedRankings
) -> None:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(render_for_terminal(matrix_document(matrix, rankings)))
    file = console.file
    assert isinstance(file, io.StringIO)
    said = file.getvalue()
    assert all(cell_len(line) <= width for line in said.splitlines())
    assert "\x1b" not in said
    assert "…" not in "".join(line for line in said.splitlines() if "model" not in line)
    shown = re.findall(r"<0\.001\*", said)
    starred = [one for one in matrix.pairs if one.comparison.p_value is not None]
    assert len(shown) == sum((one.comparison.p_value or 0) < 0.001 for one in starred)
    assert "McNemar" in " ".join(said.split())
    assert "SIMULATED" in said


def test_files(matrix: PairMatrix, rankings: InducedRankings) -> None:
    told = json.loads(FORMATS["json"](matrix_document(matrix, rankings)))
    assert len(told["matrix"]["pairs"]) == MODELS * (MODELS - 1) / 2
    assert len(told["rankings"]["scorings"]) == 5
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](matrix_document(matrix, rankings)))))
    kinds = [row["row"] for row in rows]
    assert kinds.count("pair") == 91
    assert kinds.count("value") == 4 * MODELS + 2
    assert kinds.count("tau") == 10
    pair = next(row for row in rows if row["name"] == "run-2" and row["against"] == "run-1")
    one = next(one for one in matrix.pairs if (one.first, one.second) == (1, 2))
    assert float(pair["p_value"]) == one.comparison.p_value
    assert float(pair["difference"]) == one.comparison.difference
    assert pair["marks"] == "SIMULATED; SIMULATED"
    alone = list(csv.DictReader(io.StringIO(FORMATS["csv"](matrix_document(matrix)))))
    assert {row["row"] for row in alone} == {"pair", "value"}
    markdown = FORMATS["markdown"](matrix_document(matrix, rankings))
    assert r"\[red\]a\|b" in markdown
    assert "| 3 run-2 (m) (SIMULATED) |" in markdown
    latex = FORMATS["latex"](matrix_document(matrix, rankings))
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 4
    for text in (
        markdown,
        latex,
        FORMATS["csv"](matrix_document(matrix, rankings)),
        FORMATS["json"](matrix_document(matrix, rankings)),
    ):
        assert "\x1b" not in text


def test_shares_of_constraints_are_not_headed_by_the_score_of_answers(
    runs: list[Run], matrix: PairMatrix, rankings: InducedRankings
) -> None:
    judged = JudgedTables("yes_no", [(table, 0) for _, table in runs])
    of_constraints = matrix_document(matrix, induced_rankings(runs, label="n", judged=judged))
    assert "| share of constraints satisfied, by n | 1 |" in FORMATS["markdown"](of_constraints)
    assert "share of constraints" not in FORMATS["markdown"](matrix_document(matrix, rankings))
    scores = {}
    for row in csv.DictReader(io.StringIO(FORMATS["csv"](of_constraints))):
        scores[row["row"], row["against"]] = row["score"]
    assert scores["value", "all: pass_rate"] == "pass_rate"
    assert scores["value", "n 1"] == "share of constraints satisfied"


def test_latex_has_minus_signs_and_dashes_in_figures_but_not_in_names() -> None:
    rows = [["gpt-4-0613", "-0.1061 to +0.3413", "0.9-23.6", "30.0 (-1.2 to 5)", "2024-05"]]
    shown = table([Column("run", text=True), "a", "b", "c", Column("d", text=True)], rows)
    latex = as_latex(TableDocument(parts=[shown]))
    row = "gpt-4-0613 & $-$0.1061 to +0.3413 & 0.9--23.6 & 30.0 ($-$1.2 to 5) & 2024-05"
    assert row in latex
