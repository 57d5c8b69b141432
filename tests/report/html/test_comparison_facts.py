from dataclasses import replace
from pathlib import Path

from msgspec.structs import replace as replaced

from harness.analysis.run_comparison import ComparisonOptions
from harness.report.html.comparison_facts import changes, comparison_tables, unequal
from tests.report.html.pages import compared, two_runs


def test_counts_lead_to_their_instances(tmp_path: Path) -> None:
    overall, groups = comparison_tables(compared(two_runs(tmp_path)))
    assert overall.label == "Runs against before"
    assert [(cell.text, cell.href) for cell in overall.rows[0][-2:]] == [
        ("2", "#attempts?change=better:after"),
        ("1", "#attempts?change=worse:after"),
    ]
    assert [[cell.text for cell in row[:1] + row[-2:]] for row in groups.rows] == [
        ["round", "1", "1"],
        ["square", "1", "0"],
    ]
    assert groups.rows[0][-1].href == "#attempts?change=worse:after&in.shape=round"
    assert groups.rows[1][-1].href == ""  # none: nothing to lead to


def test_a_sentence_on_each_run(tmp_path: Path) -> None:
    ((run, counts),) = changes(compared(two_runs(tmp_path)))
    assert run == "after"
    told = "".join(cell.text for cell in counts)
    assert told == "better on 2 of 6 instances, worse on 1, equal on 3"
    assert [cell.href for cell in counts] == [
        "#attempts?change=better:after",
        "",
        "#attempts?change=worse:after",
        "",
    ]


def test_unequal_rounds_and_samples_are_told(tmp_path: Path) -> None:
    runs = two_runs(tmp_path)  # their settings say neither: what there is counts
    found = compared(runs)
    assert unequal(found, runs) == [
        "The runs have 1 and 2 rounds: the comparison is of each sample's last round."
    ]
    assert unequal(found, [runs[0], runs[0]]) == []
    several = [
        replace(runs[0], settings={"rounds.max": rounds, "samples": samples})
        for rounds, samples in ((1, 1), (4, 5), (2, 5))
    ]
    rounds, samples = unequal(replaced(found, asked=ComparisonOptions(round=3)), several)
    assert rounds.startswith("The runs have 1, 2 and 4 rounds: ")
    assert rounds.endswith("each sample's last round up to 3.")
    assert samples.startswith("The runs have 1 and 5 samples of an instance: ")
    (first, _) = unequal(replaced(found, asked=ComparisonOptions(round=1)), several)
    assert first.endswith("the comparison is of first rounds.")
