from pathlib import Path

import pytest

from harness.errors import DataInvalid
from harness.tasks.natural_instructions.categories import Categories


def test_ours_knows_the_papers_tasks() -> None:
    known = Categories.read()
    assert known.of("subtask005_mctaco_wrong_answer_generation_event_duration") == (
        "incorrect answer generation"
    )
    assert known.of("subtask002_quoref_answer_generation") == "answer generation"
    assert (
        known.of("subtask034_winogrande_question_modification_object")
        == "minimal text modification"
    )
    assert known.of("subtask039_qasc_find_overlapping_words") == "verification"
    assert known.of("another") is None


def test_the_first_pattern_that_fits_counts(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text('one_two: exact\n"one_*": first\n"*_two": second\n')
    own = Categories.read(path)
    assert [own.of(name) for name in ("one_two", "one_three", "a_two", "x")] == [
        *("exact", "first", "second"),
        None,
    ]


@pytest.mark.parametrize("text", ["- a", "a: 1", "a: ' '", "a: [", "a: {b: c}", ""])
def test_what_maps_no_names_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(DataInvalid, match=r"own\.yaml"):
        Categories.read(path)
