from pathlib import Path

from msgspec.structs import replace as replaced

from harness.plugins.comparisons.comparison_document import comparison_document
from harness.plugins.comparisons.run_comparison import Against, RunComparison
from harness.report.table import (
    Cell,
    Row,
    Table,
)
from tests.analysis.conftest import Make, TableOf, make, table_of  # noqa: F401 (fixtures)
from tests.plugins.comparisons.written import compared, two_runs


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


def test_the_effect_of_a_true_or_false_score_is_cohens_h(tmp_path: Path) -> None:
    found = compared(two_runs(tmp_path))
    (one,) = found.others
    exact = replaced(found, asked=replaced(found.asked, score="exact"))  # verdicts, too
    numbers = replaced(one, overall=replaced(one.overall, verdicts=False))
    for shown, name in ((exact, "Cohen's h"), (replaced(exact, others=[numbers]), "d_z")):
        assert f"Effect size {name}" in "".join(map(str, comparison_document(shown).parts))
