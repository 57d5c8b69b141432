"""What the page of a study says besides its tables."""

from harness.analysis.study import Exhibit, Finding, Study
from harness.report.study import study_page
from harness.run.reproduction import Replies, StudyRecord, cautions
from harness.scoring.punkt import own


def test_a_page_names_the_runs_whose_sentences_were_split_without_nltks_data() -> None:
    names = {"plain": own().name, "guess": own().name, "exact": "nltk 3.10 punkt_tab english"}
    finding = Finding(
        exhibit="T", row="r", column="c", run="guess", published=None,
        verdict="not comparable", why="simulated",
    )  # fmt: skip
    record = StudyRecord(
        made_at=0.0,
        packages={},
        code_sha256="",
        study={},
        runs={name: Replies(name, "", {"splitter": of}, {}) for name, of in names.items()}
        | {"other": Replies("other", "", {}, {})},
        findings=[finding],
    )
    [caution] = cautions(record)
    assert "a few verdicts of plain may differ" in caution
    study = Study(title="<T>", source="S", runs={}, exhibits=[])
    assert caution.replace("'", "&#39;") in study_page(study, [], {}, [caution], 0.0)


def test_a_table_says_which_axis_its_pictures_have() -> None:
    exhibit = Exhibit(name="T", shows="rates", digits=2, published={"r": [0.25], "s": [None]})
    findings = [
        Finding(exhibit="T", row="r", column="value", run="r", published=0.25, ours=0.5,
                ci95=(0.4, 0.75), n=9, verdict="outside", why=""),
        Finding(exhibit="T", row="s", column="value", run="r", published=None,
                verdict="not comparable", why="no value in the run"),
    ]  # fmt: skip
    study = Study(title="T", source="S", runs={}, exhibits=[exhibit])
    page = study_page(study, findings, {}, [], 0.0)
    assert "Axis of the pictures: 0.25 to 0.75." in page
    assert page.count('class="range"') == 1, "none for a cell without values"
    assert "Axis" not in study_page(study, findings[1:], {}, [], 0.0)
