import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as replaced
from rich.cells import cell_len
from rich.console import Console

from harness.analysis.comparable import Run
from harness.analysis.rankings import InducedRankings, JudgedTables, induced_rankings
from harness.analysis.run_comparison import (
    Against,
    ComparisonOptions,
    PairMatrix,
    RunComparison,
    pair_matrix,
)
from harness.report.comparison import comparison_document, unequal
from harness.report.pair_matrix import matrix_document, p_cells
from harness.report.table import (
    FORMATS,
    Cell,
    Column,
    Row,
    Table,
    TableDocument,
    as_latex,
    table,
)
from harness.report.terminal import terminal
from tests.analysis.conftest import Make, TableOf, make, table_of  # noqa: F401 (fixtures)
from tests.analysis.variants import variant
from tests.report.html.pages import compared, two_runs


def tables(found: RunComparison) -> list[Table]:
    return [part for part in comparison_document(found).parts if isinstance(part, Table)]


def links(row: Row) -> list[tuple[object, str]]:
    return [(cell.value, cell.href) for cell in row.cells if isinstance(cell, Cell)]


def test_counts_lead_to_their_instances(tmp_path: Path) -> None:
    overall, groups = tables(compared(two_runs(tmp_path)))
    assert links(overall.rows[0]) == [
        (2, "#attempts?change=better:after"),
        (1, "#attempts?change=worse:after"),
    ]
    assert [row.cells[0] for row in groups.rows] == ["round", "square"]
    assert links(groups.rows[0])[1] == (1, "#attempts?change=worse:after&in.shape=round")
    assert links(groups.rows[1])[1] == (0, "")  # none: nothing to lead to


def test_an_adjusted_p_stands_beside_the_p_that_goes_with_the_interval(tmp_path: Path) -> None:
    found = compared(two_runs(tmp_path))
    (one,) = found.others
    one = replaced(one, overall=replaced(one.overall, p_value=0.04, p_adjusted=0.375))

    def shown(*others: Against) -> dict[str, str]:
        first, *_ = tables(replaced(found, others=list(others)))
        headings = [column.heading for column in first.columns]
        return dict(zip(headings, first.texts(first.rows[0]), strict=True))

    assert [shown(one, one)[name] for name in ("p", "p (Holm)")] == ["0.040", "0.375"]
    assert "p (Holm)" not in shown(one)
    _, groups = tables(found)
    assert [column.heading for column in groups.columns][5:8] == ["95%", "p", "p (Holm)"]


def test_unequal_rounds_and_samples_are_told(tmp_path: Path) -> None:
    runs = two_runs(tmp_path)  # their settings say neither: what there is counts
    found = compared(runs)
    assert list(unequal(found, runs)) == [
        "The runs have 1 and 2 rounds; the comparison uses each sample's last round."
    ]
    assert list(unequal(found, [runs[0], runs[0]])) == []
    several = [
        replace(runs[0], settings={"rounds.max": rounds, "samples": samples})
        for rounds, samples in ((1, 1), (4, 5), (2, 5))
    ]
    rounds, samples = unequal(replaced(found, asked=ComparisonOptions(round=3)), several)
    assert rounds.startswith("The runs have 1, 2 and 4 rounds; ")
    assert rounds.endswith("each sample's last round up to 3.")
    assert samples.startswith("The runs have 1 and 5 samples per instance; ")
    (first, _) = unequal(replaced(found, asked=ComparisonOptions(round=1)), several)
    assert first.endswith("the comparison uses first rounds.")


MODELS = 14
NASTY = "[red]a|b\x1b[2J_%"


def test_the_effect_of_a_true_or_false_score_is_cohens_h(tmp_path: Path) -> None:
    found = compared(two_runs(tmp_path))
    (one,) = found.others
    exact = replaced(found, asked=replaced(found.asked, score="exact"))  # verdicts, too
    numbers = replaced(one, overall=replaced(one.overall, verdicts=False))
    for shown, name in ((exact, "Cohen's h"), (replaced(exact, others=[numbers]), "d_z")):
        assert f"Effect size {name}" in "".join(map(str, comparison_document(shown).parts))


@pytest.fixture(scope="module")
def runs(make: Make, table_of: TableOf) -> list[Run]:  # noqa: F811
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
    console.print(terminal(matrix_document(matrix, rankings)))
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
