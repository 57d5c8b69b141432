"""What the page and the summary of a study say, and its record."""

import csv
import io
import json
from pathlib import Path

import pytest

from harness.errors import DataInvalid
from harness.plugins.benchmarks.punkt import own
from harness.plugins.reproduce.page import study_document, study_page
from harness.plugins.reproduce.reproduction import Replies, StudyRecord, cautions, read_record
from harness.plugins.reproduce.study import Exhibit, Finding, ReferenceValue, Study
from harness.report.table import as_csv, as_json, as_markdown


def test_a_page_names_the_runs_whose_sentences_were_split_without_nltks_data() -> None:
    names = {"plain": own().name, "guess": own().name, "exact": "nltk 3.10 punkt_tab english"}
    finding = Finding(exhibit="T", row="r", column="c", run="guess", why="simulated")
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
    exhibit = Exhibit(name="T", shows="rates", digits=2, paper={"r": [0.25], "s": [None]})
    findings = [
        Finding(exhibit="T", row="r", column="value", run="r", ours=0.5, ci95=(0.4, 0.75), n=9,
                paper=ReferenceValue(0.25, "outside")),
        Finding(exhibit="T", row="s", column="value", run="r", why="no value in the run"),
    ]  # fmt: skip
    study = Study(title="T", source="S", runs={}, exhibits=[exhibit])
    page = study_page(study, findings, {}, [], 0.0)
    assert "Axis of the pictures: 0.25 to 0.75." in page
    assert page.count('class="range"') == 1, "none for a cell without values"
    assert "Axis" not in study_page(study, findings[1:], {}, [], 0.0)


def test_page_and_summary_say_what_a_value_is_compared_with_and_why_it_may_differ() -> None:
    exhibit = Exhibit(
        name="T",
        shows="rates",
        source="their verdicts",
        why="They drew again.",
        digits=4,
        paper_digits=2,
        official={"r": [0.6587], "s": [0.5]},
        paper={"r": [0.66]},
    )
    findings = [
        Finding(exhibit="T", row="r", column="value", run="r", ours=0.6587, ci95=(0.6, 0.7), n=9,
                paper=ReferenceValue(0.66, "equal"), official=ReferenceValue(0.6587, "equal")),
        Finding(exhibit="T", row="s", column="value", run="r", ours=0.6, ci95=(0.4, 0.7), n=9,
                official=ReferenceValue(0.5, "differs")),
    ]  # fmt: skip
    study = Study(title="T", source="S", runs={}, exhibits=[exhibit])
    page = study_page(study, findings, {}, [], 0.0)
    for text in (
        "in the paper 0.66</span>",
        "official code 0.6587</span>",
        "official code 0.5000</span>",
        "Official code: their verdicts",
        "They drew again.",
    ):
        assert text in page
    document = study_document(study, findings)
    counts, unequal, reason = as_markdown(document).split("\n\n")[1:4]
    assert "| T | rates | in the paper | 1 |" in counts
    assert "| T | rates | official code | 1 |  |  | 1 |" in counts
    assert "| T | s | value |  | 0.5000 (differs) | 0.6000 | 0.4000-0.7000 |" in unequal
    assert "They drew again." in reason
    rows = list(csv.DictReader(io.StringIO(as_csv(document))))
    assert [row["paper"] for row in rows] == ["0.66", ""]
    assert [row["official_verdict"] for row in rows] == ["equal", "differs"]
    cells = json.loads(as_json(document))
    assert cells[0]["paper"] == {"value": 0.66, "verdict": "equal", "why": ""}
    equal = as_markdown(study_document(study, findings[:1]))
    assert "They drew again." not in equal


def test_a_record_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    path.write_text('{"schema_version": 1, "findings": [{"published": 1, "verdict": "equal"}]}')
    with pytest.raises(DataInvalid, match="record of version 1"):
        read_record(path)
    path.write_text("{}")
    with pytest.raises(DataInvalid, match="not the record of a study"):
        read_record(path)
