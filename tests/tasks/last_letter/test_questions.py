import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from harness.errors import DataInvalid
from harness.tasks.last_letter.structure import (
    SHOTS,
    asked,
    first_names,
    fresh,
    last_letters,
    of_words,
    read_questions,
    reasoning,
)


def written(folder: Path, *rows: Any) -> Path:
    path = folder / "q.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_a_question_its_answer_and_how_it_is_come_by() -> None:
    question = of_words("1", "Ian", "Peter")
    assert question.text == (
        'Take the last letters of each words in "Ian Peter" and concatenate them.'
    )
    assert question.label == last_letters(question.words) == "nr"
    assert reasoning(question.words) == (
        'The last letter of "Ian" is "n". The last letter of "Peter" is "r". '
        'Concatenating them is "nr".'
    )
    assert last_letters(("ÁngelA", "B")) == "ab"


def test_our_names_are_single_words_of_letters_and_none_is_there_twice() -> None:
    names = first_names()
    assert len(set(names)) == len(names) >= 200
    assert all(name.isascii() and name.isalpha() and len(name) > 1 for name in names)


def test_fresh_questions_are_those_of_their_seed() -> None:
    first = list(fresh(100, seed=1))
    assert first == list(islice(fresh(200, seed=1), 100))
    assert not {q.words for q in first} & {q.words for q in fresh(100, seed=2)}
    assert not {q.id for q in first} & {q.id for q in fresh(100, seed=2)}
    assert len({q.words for q in first}) == 100
    assert all(len(set(q.words)) == 4 for q in first)


def test_shots_are_not_drawn() -> None:
    assert not {q.words for q in fresh(1000, seed=0)} & {shot.words for shot in SHOTS}


def test_the_shots_have_four_names_each_and_different_answers() -> None:
    assert all(len(shot.words) == 4 for shot in SHOTS)
    assert len({shot.label for shot in SHOTS}) == len(SHOTS)


def test_ones_own_questions_are_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"id": "a", "names": ["Ian", "Peter", "Bernard", "Stephen"]},
        {"question": 'Last letters of "Ann Bob", please?'},
        {"idx": 7, "question": asked(("Ann", "Bob")), "answer": "NB", "response": "…"},
    )
    first, second, third = read_questions(path)
    assert (first.id, first.label) == ("a", "nrdn")
    assert (second.id, second.words, second.label) == ("2", ("Ann", "Bob"), "nb")
    assert (third.id, third.label) == ("7", "nb")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"nmaes": ["A"]}, "unknown key 'nmaes'. Did you mean 'names'"),
        ({}, "needs 'names', or a 'question'"),
        ({"question": "no quotes"}, "needs 'names', or"),
        ({"question": 1}, r"Expected `str \| null`, got `int` - at `\$.question`"),
        ({"question": '" "'}, "needs 'names', or"),
        ({"names": "Ann Bob"}, r"Expected `array \| null`, got `str` - at `\$.names`"),
        ({"names": []}, "length >= 1"),
        ({"names": ["Ann Bob"]}, r"matching regex .* at `\$.names\[0\]`"),
        ({"names": [1]}, r"Expected `str`, got `int` - at `\$.names\[0\]`"),
        ({"names": ["A"], "answer": 1}, r"Expected `str \| null`, got `int` - at `\$.answer`"),
        ({"names": ["A"], "id": True}, "'id' must be"),
        ({"names": ["A"], "id": ""}, "'id' must be"),
    ],
)
def test_a_malformed_question_is_named(row: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataInvalid, match=f"item 2: .*{message}"):
        list(read_questions(written(tmp_path, {"names": ["Ann"]}, row)))


def test_ids_that_come_twice_and_empty_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataInvalid, match="'1' occurs twice"):
        list(read_questions(written(tmp_path, {"names": ["A"]}, {"id": 1, "names": ["B"]})))
    with pytest.raises(DataInvalid, match="holds no items"):
        list(read_questions(written(tmp_path)))
