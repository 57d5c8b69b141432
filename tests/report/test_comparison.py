from dataclasses import replace
from pathlib import Path

from msgspec.structs import replace as replaced

from harness.analysis.run_comparison import ComparisonOptions
from harness.report.comparison import comparison_tables, unequal
from harness.report.table import Cell, Row
from tests.report.html.pages import compared, two_runs


def links(row: Row) -> list[tuple[object, str]]:
    return [(cell.value, cell.href) for cell in row.cells if isinstance(cell, Cell)]


def test_counts_lead_to_their_instances(tmp_path: Path) -> None:
    overall, groups = comparison_tables(compared(two_runs(tmp_path)))
    assert overall.title == "Runs against before"
    assert links(overall.rows[0]) == [
        (2, "#attempts?change=better:after"),
        (1, "#attempts?change=worse:after"),
    ]
    assert [row.cells[0] for row in groups.rows] == ["round", "square"]
    assert links(groups.rows[0])[1] == (1, "#attempts?change=worse:after&in.shape=round")
    assert links(groups.rows[1])[1] == (0, "")  # none: nothing to lead to


def test_unequal_rounds_and_samples_are_told(tmp_path: Path) -> None:
    runs = two_runs(tmp_path)  # their settings say neither: what there is counts
    found = compared(runs)
    assert unequal(found, runs) == [
        "The runs have 1 and 2 rounds; the comparison uses each sample's last round."
    ]
    assert unequal(found, [runs[0], runs[0]]) == []
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
