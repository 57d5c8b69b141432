import json
import re
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import DataInvalid, Unparseable
from harness.plugins.benchmarks.last_letter.structure import (
    FIRST_NAMES,
    FLEXIBLE,
    FORMS,
    FREE,
    JSON,
    JSON_PARSER,
    LETTERS,
    LONGEST_REASONING,
    SCHEMA,
    SHOTS,
    STRICT,
    FormName,
    ParserName,
    PromptExample,
    asked,
    errors,
    fresh,
    last_letters,
    of_words,
    parser,
    read_questions,
    reasoning,
)

PARSERS: tuple[ParserName, ...] = ("strict", "flexible", "json")
WORDS = st.lists(st.sampled_from(FIRST_NAMES), min_size=LETTERS, max_size=LETTERS)


def test_the_patterns_are_those_of_the_document() -> None:
    assert STRICT == "answer is ([A-Za-z]{4})"
    assert FREE.constraint.regex == r'Answer: T[\w \\",\\.]{30,250}. The answer is ([A-Za-z]{4})'
    assert FLEXIBLE[0] == STRICT
    assert len(FLEXIBLE) == 5


def test_the_schema_is_that_of_the_document() -> None:
    schema = JSON.constraint.json_schema
    assert schema["properties"]["reasoning"]["maxLength"] == LONGEST_REASONING == 250
    assert schema["properties"]["answer"]["pattern"] == "^[A-Z]{4}$"
    assert schema["required"] == list(schema["properties"]) == ["reasoning", "answer"]
    assert schema == SCHEMA
    for field in schema["properties"]:
        assert f'"{field}": <' in JSON.described


def test_the_description_holds_what_the_parsers_look_for() -> None:
    filled = re.sub("<.*>", "nrdn", FREE.described.replace("<think step by step>", ""))
    assert parser("strict").read(filled).letters == "nrdn"


@pytest.mark.parametrize(
    ("text", "strict", "flexible", "pattern"),
    [
        ("The answer is NAOY.", "naoy", "naoy", 0),
        ("The answer is N-A-O-Y.", None, "naoy", 1),
        ("The answer is: NAOY", None, "naoy", 2),
        ('The answer is "NAOY".', None, "naoy", 2),
        ("The answer is N A O Y.", None, "naoy", 2),
        ('Concatenating them is "NAOY".', None, "naoy", 3),
        ("The answer is N'A'O'Y.", None, "naoy", 4),
        ('Concatenating them is "naoy". The answer is abcd.', "abcd", "naoy", 3),
        ("The answer is NAOYX.", "naoy", "naoy", 0),  # it takes four of any number of letters
        ("The answer is nk.", None, None, 0),
        ("the Answer Is naoy", None, None, 0),
        ("", None, None, 0),
    ],
)
def test_what_the_patterns_read(
    text: str, strict: str | None, flexible: str | None, pattern: int
) -> None:
    for name, letters in (("strict", strict), ("flexible", flexible)):
        read = parser("strict" if name == "strict" else "flexible")
        if letters is None:
            with pytest.raises(Unparseable, match="End it with: answer is <the 4 letters>"):
                read.read(text)
        else:
            assert read.read(text).letters == letters
    if flexible:
        assert parser("flexible").read(text).pattern == pattern


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ('{"reasoning": "so", "answer": "NAOY"}', "naoy"),
        ('Sure!\n```json\n{"reasoning": "so", "answer": "NAOY"}\n```', "naoy"),
        ('{"reasoning": "so", "answer": "naoy"}', None),
        ('{"reasoning": "so", "answer": "NAOYX"}', None),
        ('{"answer": "NAOY"}', None),
        ('{"reasoning": "so", "answer": "NAOY", "sure": true}', None),
        ('{"reasoning": "' + "x" * 251 + '", "answer": "NAOY"}', None),
        ('{"reasoning": 1, "answer": "NAOY"}', None),
        ("The answer is NAOY.", None),
        ("{}", None),
        ('{"reasoning": "\\ud800", "answer": "NAOY"}', None),
        ('{"reasoning": "so", "answer": "\\ud800"}', None),
        ('{"reasoning": "so", "answer": "NAOY", "more": ' + "[" * 400 + "]" * 400 + "}", None),
    ],
)
def test_a_json_answer_is_what_the_model_takes(text: str, letters: str | None) -> None:
    if letters is None:
        with pytest.raises(Unparseable):
            parser("json").read(text)
    else:
        assert parser("json").read(text).letters == letters


@pytest.mark.parametrize(
    ("text", "letters", "pattern"),
    [
        ('{"reasoning": "so", "answer": "naoy"}', "naoy", 0),
        ('assistant\n\n{"reason": "The answer is \'abcd\'.", "answer":"NAOY"', "naoy", 0),
        ('{"reason": "so", "final_answer": "naoy"}', "naoy", 1),
        ('"answer" : "n-a-o-y"', "naoy", 1),
        ('{"answer": "NAO"}', None, 0),
        ('{"answer": "NAOYX"}', None, 0),
        ("The answer is NAOY.", None, 0),
    ],
)
def test_what_the_flexible_reader_reads_in_json(
    text: str, letters: str | None, pattern: int
) -> None:
    if letters is None:
        with pytest.raises(Unparseable) as raised:
            parser("flexible", "json").read(text)
        assert JSON.described in str(raised.value.remedy)
    else:
        assert parser("flexible", "json").read(text) == (letters, pattern)


@given(WORDS)
def test_every_form_can_be_decoded_under_its_constraint_and_is_read_by_its_parsers(
    words: list[str],
) -> None:
    question = of_words("q", *words)
    for name, form in FORMS.items():
        text = form.write(reasoning(question.words), question.label)
        assert form.holds(text)
        for reader in form.parsers:
            assert parser(reader, name).read(text).letters == question.label


def test_all_names_fit_the_form() -> None:
    longest = sorted(FIRST_NAMES, key=len)[-LETTERS:]
    for form in FORMS.values():
        question = of_words("q", *longest)
        assert form.holds(form.write(reasoning(question.words), question.label))


@pytest.mark.parametrize("name", ["free", "json"])
def test_what_the_constraint_cannot_write_does_not_hold(name: FormName) -> None:
    form = FORMS[name]
    for text in ("", "The answer is naoy", json.dumps({"answer": "NAOY"}), "No."):
        assert not form.holds(text)


@given(
    st.text() | st.from_regex(FREE.constraint.regex or "") | st.text('{}":,answerNAOY reasoning')
)
def test_no_answer_is_too_odd(text: str) -> None:
    for name in PARSERS:
        try:
            letters = parser(name).read(text).letters
        except Unparseable:
            continue
        assert re.fullmatch("[a-z]{4}", letters)


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
    names = FIRST_NAMES
    assert len(set(names)) == len(names) >= 200
    assert all(name.isascii() and name.isalpha() and len(name) > 1 for name in names)


def test_fresh_questions_are_those_of_their_seed() -> None:
    first = list(fresh(100, seed=1))
    assert first == list(islice(fresh(200, seed=1), 100))
    assert not {q.words for q in first} & {q.words for q in fresh(100, seed=2)}
    assert not {q.id for q in first} & {q.id for q in fresh(100, seed=2)}
    assert len({q.words for q in first}) == 100
    assert all(len(set(q.words)) == 4 for q in first)


def test_without_questions_examples_need_four_words() -> None:
    example = PromptExample(of_words("x", "Ian", "Peter"), "nr")
    [first, *_] = errors("", [example], [], JSON, JSON_PARSER)
    assert first == "The prompt's example (Ian Peter) has 2 words; the questions have 4."


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
        ({"names": ["A"], "id": []}, "'id' must be"),
    ],
)
def test_a_malformed_question_is_named(row: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataInvalid, match=f"item 2: .*{message}"):
        list(read_questions(written(tmp_path, {"names": ["Ann"]}, row)))


def test_ids_that_come_twice_and_empty_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataInvalid, match="'1' occurs twice"):
        list(read_questions(written(tmp_path, {"names": ["A"]}, {"id": 1, "names": ["B"]})))
    with pytest.raises(DataInvalid, match="contains no items"):
        list(read_questions(written(tmp_path)))
