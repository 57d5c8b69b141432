from pathlib import Path

from harness.report.html.comparison_facts import changes, comparison_tables
from tests.report.html.pages import compared, two_runs


def test_counts_lead_to_their_instances(tmp_path: Path) -> None:
    overall, groups = comparison_tables(compared(two_runs(tmp_path)))
    assert overall.label == "Runs against before"
    assert [(cell.text, cell.href) for cell in overall.rows[0][-2:]] == [
        ("2", "#attempts?change=more:after"),
        ("1", "#attempts?change=less:after"),
    ]
    assert [[cell.text for cell in row[:1] + row[-2:]] for row in groups.rows] == [
        ["round", "1", "1"],
        ["square", "1", "0"],
    ]
    assert groups.rows[0][-1].href == "#attempts?change=less:after&in.shape=round"
    assert groups.rows[1][-1].href == ""  # none: nothing to lead to


def test_of_one_sample_an_instance_is_fixed_or_broken(tmp_path: Path) -> None:
    found = compared(two_runs(tmp_path))
    for samples, words in [([1, 1], ["2 fixed", "1 broken"]), ([1, 2], ["2 more", "1 less"])]:
        ((run, counts),) = changes(found, samples)
        assert run == "after"
        assert [cell.text for cell in counts] == words
    assert counts[0].href == "#attempts?change=more:after"
