"""The figures of the recorded answers, from the answers alone."""

from pathlib import Path

import pytest

from harness.datasets.folder import DataFolder, read_jsonl
from harness.errors import DataInvalid, Unparseable
from harness.plugins.benchmarks.last_letter.task import RECORDED, LastLetterTask
from scripts.last_letter_recorded import (
    Findings,
    Recorded,
    findings,
    read_recorded,
)


@pytest.fixture
def path(data_dir: Path) -> Path:
    found = data_dir / RECORDED
    if not found.is_file():
        pytest.skip(f"no {RECORDED}")
    return found


@pytest.fixture
def found(path: Path) -> Findings:
    return findings(read_recorded(path))


def test_the_parsers_find_as_many_right_as_was_recorded(found: Findings) -> None:
    assert len(found.rows) == 150
    assert found.right == {"strict": 53, "flexible": 91, "ai": 86}


def test_readings_and_verdicts_are_the_recorded_ones_row_by_row(found: Findings) -> None:
    assert found.unlike == []


def test_five_labels_are_wrong(found: Findings) -> None:
    assert [(row.idx, row.label, row.true) for row in found.wrong_labels] == [
        (25, "aewo", "aewno"),
        (56, "soay", "esoay"),
        (94, "llyl", "lllyl"),
        (102, "yaeA", "yaeea"),
        (119, "oedl", "ooedl"),
    ]
    assert found.right_of_true == {"strict": 53, "flexible": 91, "ai": 88}


def test_where_the_parsers_disagree(found: Findings) -> None:
    assert len(found.disagreements) == 86
    assert len(found.verdicts_differ) == 42
    generous = [r.idx for r in found.rows if r.right("flexible") and not r.right("ai")]
    assert generous == [6, 46, 84, 106, 116, 137]
    assert [r.idx for r in found.rows if r.right("ai") and not r.right("flexible")] == [1]
    assert not [r for r in found.rows if r.right("strict") and not r.right("flexible")]
    assert found.unread == {"strict": 75, "flexible": 31, "ai": 1}


def test_the_report_tells_all_of_it(found: Findings) -> None:
    said = str(found)
    assert " 53/150" in said
    assert " 91/150" in said
    assert " 86/150" in said
    assert "all equal to the recorded columns" in said
    assert "25  Claudia Cole Matthew Juan Pablo: aewo (truly aewno)" in said


@pytest.mark.parametrize(("parser", "right", "unread"), [("strict", 53, 75), ("flexible", 91, 31)])
def test_the_task_scores_the_recorded_answers_alike(
    parser: str, right: int, unread: int, path: Path, data_dir: Path
) -> None:
    task = LastLetterTask("recorded", parser=parser, data=DataFolder(data_dir))  # type: ignore[arg-type]
    answers = {str(row["idx"]): row["response"] for row in read_jsonl(path)}
    passed = unreadable = 0
    for instance in task.instances():
        try:
            passed += bool(task.score(instance, answers[instance.id])["correct"].passed)
        except Unparseable:
            unreadable += 1
    assert (passed, unreadable) == (right, unread)


def test_the_papers_prompt_is_the_recorded_one_byte_for_byte(path: Path, data_dir: Path) -> None:
    task = LastLetterTask("recorded", examples="paper", data=DataFolder(data_dir))
    prompts = {str(row["idx"]): row["input_prompt"] for row in read_jsonl(path)}
    for instance in task.instances():
        (message,) = task.messages(instance, ())
        assert message.content == prompts[instance.id]


def test_a_row_that_is_unlike_what_was_recorded_is_told() -> None:
    row = Recorded(
        idx=3,
        question='Take the last letters of each words in "Ann Bob Cy Di" and concatenate them.',
        response="The answer is nbyi.",
        answer="nbyi",
        predict="nbyi",
        correct=True,
        strict_regex="",
        flexible_regex="nbyi",
    )
    found = findings([row])
    assert found.unlike == [3]
    assert "unlike: [3]" in str(found)


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"idx": 1}')
    with pytest.raises(DataInvalid, match="holds no recorded answers"):
        read_recorded(path)


def test_the_recorded_readings_of_the_second_model_score_as_they_did(
    path: Path, data_dir: Path
) -> None:
    task = LastLetterTask("recorded", data=DataFolder(data_dir))
    recorded = {str(row.idx): row for row in read_recorded(path)}
    for instance in task.instances():
        row = recorded[instance.id]
        score = task.score_parsed(instance, row.predict)["correct"]
        assert (score.value, score.passed) == (row.correct, None)
