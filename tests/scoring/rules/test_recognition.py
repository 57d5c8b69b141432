"""Which constraints a rule decides, as a table; and that all others are left to judges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.scoring.rules import Every, recognise
from harness.scoring.rules.contents import Edge, Form, Keywords
from harness.scoring.rules.lengths import CountBounds, Length


def length(unit: str, low: int | None, high: int | None) -> Length:
    return Length(unit, CountBounds(low, high))


def has(*wanted: str, exact: bool = False) -> Keywords:
    return Keywords("keyword", wanted, CountBounds(1, None), exact)


def lacks(*wanted: str) -> Keywords:
    return Keywords("forbidden_word", wanted, CountBounds(None, 0))


def counted(wanted: str, low: int | None, high: int | None) -> Keywords:
    return Keywords("keyword_count", (wanted,), CountBounds(low, high))


TABLE: list[tuple[str, Any]] = [
    # words
    ("Ensure the literature review does not exceed 150 words.", length("word", None, 150)),
    ("Keep the text below 80 words.", length("word", None, 79)),
    ("Keep it to no more than 150 words.", length("word", None, 150)),
    ("Keep it to at most 60 words.", length("word", None, 60)),
    ("Under 100 words.", length("word", None, 99)),
    ("Answer in 50 words or less.", length("word", None, 50)),
    ("Write in 50 words or fewer", length("word", None, 50)),
    ("The essay should be at least 1,000 words long.", length("word", 1000, None)),
    ("The response must contain a minimum of 200 words.", length("word", 200, None)),
    ("Use between 100 and 200 words.", length("word", 100, 200)),
    ("Write 100-200 words.", length("word", 100, 200)),
    ("Write from 100 to 200 words in total.", length("word", 100, 200)),
    ("Your response should be more than 300 words.", length("word", 301, None)),
    ("The article must be exactly 500 words.", length("word", 500, 500)),
    ("100+ words", length("word", 100, None)),
    ("Limit your answer to 250 words.", length("word", None, 250)),
    ("The answer should be limited to 250 words.", length("word", None, 250)),
    ("The length of the essay should be at most 300 words.", length("word", None, 300)),
    ("Maximum 20 words", length("word", None, 20)),
    ("20 words maximum", length("word", None, 20)),
    ("Answer in one word.", length("word", 1, 1)),
    ("Answer in 5 words.", length("word", 5, 5)),
    ("Answer in 6 words.", None),
    ("Please respond with a single word.", length("word", 1, 1)),
    ("The tweet must not be longer than 40 words.", length("word", None, 40)),
    ("Do not exceed 100 words.", length("word", None, 100)),
    ("Don't use more than 100 words.", length("word", None, 100)),
    ("Do not use fewer than 100 words.", length("word", 100, None)),
    ("Keep the final answer under 10 words.", None),
    ("The maximum length is 100 words.", None),
    ("The response should not be under 100 words.", None),
    ("Write 500 words.", None),
    ("Write a 500-word essay.", None),
    ("Write around 300 words.", None),
    ("Write about 300 words.", None),
    ("Write approximately 100 words.", None),
    ("Write roughly 100 to 200 words.", None),
    ("Use no more than about 100 words.", None),
    ("Keep the answer short and concise, explaining step-by-step.", None),
    ("Each paragraph should have at most 50 words.", None),
    ("At least 50 words per paragraph.", None),
    ("The summary should be under 100 words.", None),
    ("Use at most 50 words for the introduction.", None),
    ("Use between 200 and 100 words.", None),
    ("Use simple words.", None),
    ("If possible, use at most 100 words.", None),
    # characters
    ("The tweet must be at most 280 characters.", length("character", None, 280)),
    ("Keep it under 160 characters.", length("character", None, 159)),
    ("Use fewer than 20 characters.", length("character", None, 19)),
    ("Use at most 18 characters.", None),  # of a story?
    ("The story should have at most 3 characters.", None),
    ("Write 280 characters.", None),
    # sentences
    ("Answer in 2-3 sentences.", length("sentence", 2, 3)),
    ("Respond in two or three sentences.", length("sentence", 2, 3)),
    ("Use 2 or 10 sentences.", None),
    ("Use exactly five sentences.", length("sentence", 5, 5)),
    ("The response should be a single sentence.", length("sentence", 1, 1)),
    ("Give a one-sentence answer.", length("sentence", 1, 1)),
    ("Use no more than four sentences.", length("sentence", None, 4)),
    ("Write each step as one sentence.", None),
    ("Provide the summary in one sentence.", None),
    ("Write a few sentences.", None),
    ("Keep sentences under 20 words.", None),
    # paragraphs
    ("Use three paragraphs.", length("paragraph", 3, 3)),
    ("Write no more than two paragraphs.", length("paragraph", None, 2)),
    ("The letter should consist of 3 to 5 paragraphs.", length("paragraph", 3, 5)),
    ("Write it in one paragraph.", length("paragraph", 1, 1)),
    ("Keep it to three paragraphs.", None),
    ("Write a paragraph of at most 100 words.", None),
    # lines
    ("The poem should be 16 lines long.", length("line", 16, 16)),
    ("The poem should be exactly four lines long.", length("line", 4, 4)),
    ("Include a poem of at least 8 lines.", None),
    ("Write a poem of at least 8 lines.", length("line", 8, None)),
    ("Write a 4-line poem.", length("line", 4, 4)),
    ("The poem must have at least 8 lines.", length("line", 8, None)),
    ("Include at least two lines of dialogue from his new family.", None),
    ("Write a poem with 4 lines and 3 stanzas.", None),
    # bullet points
    ("Use exactly 3 bullet points.", length("bullet point", 3, 3)),
    ("Include at least five bullet points.", length("bullet point", 5, None)),
    ("Answer with 3-5 bullet points.", length("bullet point", 3, 5)),
    ("Include 3 bullet points.", None),
    # keywords
    ('Include the word "umbrella".', has("umbrella")),
    ('Use the word "umbrella" in the poem.', has("umbrella")),
    ("Mention the words 'snow', 'ice' and 'wind'.", has("snow", "ice", "wind")),
    ("The response must include the phrase “time will tell”.", has("time will tell")),
    ('Include the exact phrase "Time Will Tell".', has("Time Will Tell", exact=True)),
    ('The word "love" must appear in the poem.', has("love")),
    ('Include the word "snow."', has("snow")),
    ("Mention an umbrella.", None),
    ("Include the word umbrella.", None),
    ('Include the words "a" or "b".', None),
    ('Include the phrase "time will tell."', None),
    ('Mention "Hamlet".', None),
    ('Include the word "snow" in the title.', None),
    ('Include the word "snow', None),
    ('Do not use the word "hate".', lacks("hate")),
    ("Don’t use the words 'hate' or 'fear'.", lacks("hate", "fear")),
    ('Avoid using the word "very".', lacks("very")),
    ('The word "very" should not appear in the response.', lacks("very")),
    ("Avoid jargon.", None),
    ("Avoid using phrases like [insert x]; instead, create the information.", None),
    ('Do not use words like "very".', None),
    ('Use the word "love" at least 3 times.', counted("love", 3, None)),
    ('The word "love" should appear exactly twice.', counted("love", 2, 2)),
    ('Use the word "love" no more than two times.', counted("love", None, 2)),
    ('Use the word "love" only once.', counted("love", 1, 1)),
    ('Use the word "love" 3 times.', None),
    ('Use the word "love" at least once per line.', None),
    # forms
    ("Respond in valid JSON.", Form("json")),
    ("The output must be in JSON format.", Form("json")),
    ("Return a JSON object.", Form("json_object")),
    ("Respond in JSON with the keys a and b.", None),
    ("Use a numbered list.", Form("numbered_list")),
    ("Present the answer as a numbered list.", Form("numbered_list")),
    ("Use bullet points.", Form("bulleted_list")),
    ("Format the response as a bulleted list.", Form("bulleted_list")),
    ("Present the checks as numbered steps.", None),
    ("Use a Markdown table.", Form("markdown_table")),
    ("Present the budget as a table.", None),
    ("Organize the response in detailed steps in a markdown table format.", None),
    ("Write in all caps.", Form("upper_case")),
    ("The entire response should be in all lowercase letters.", Form("lower_case")),
    ("Use only lowercase letters.", Form("lower_case")),
    ("Use capital letters.", None),
    ("Write the headings in uppercase.", None),
    ('Start the response with "Dear Sir".', Edge("starts_with", "Dear Sir")),
    ('The poem must begin with the word "Once".', Edge("starts_with", "Once", word=True)),
    ('End with the phrase "Any questions?"', Edge("ends_with", "Any questions?")),
    ('End with "Amen."', None),
    ("End with a question that makes the reader think.", None),
    ('Start each line with "O".', None),
    ("Do not use any commas.", Form("no_commas")),
    ("Avoid commas.", Form("no_commas")),
    ("Avoid commas in the title.", None),
    ("Wrap the entire response in double quotation marks.", Form("quotation_marks")),
    ("Put it in quotation marks.", None),
    # several
    (
        "Use at least 100 words and at most 200 words.",
        Every((length("word", 100, None), length("word", None, 200))),
    ),
    (
        "Respond in JSON, and do not use the word 'null'.",
        Every((Form("json"), lacks("null"))),
    ),
    (
        "No fewer than 2 and no more than 4 sentences.",
        None,
    ),
    (
        "No more than 4 sentences, and avoid commas.",
        Every((length("sentence", None, 4), Form("no_commas"))),
    ),
    ("Use at most 50 words and a friendly tone.", None),
    ("Use 3 paragraphs and 2 sentences.", None),
    ('Do not use commas and end with "Yes".', None),
    ("Describe the photo 50 times and make it a list.", None),
    ("", None),
    ("Use at most 50 words." + " Be kind." * 60, None),
]


def test_the_table_is_of_a_size() -> None:
    assert len(TABLE) >= 80
    assert len({text for text, _ in TABLE}) == len(TABLE)


@pytest.mark.parametrize(("constraint", "rule"), TABLE)
def test_a_constraint_has_its_rule_or_none(constraint: str, rule: Any) -> None:
    assert recognise(constraint) == rule


def test_the_papers_examples(data_dir: Path) -> None:
    """Of 82 constraints two are fully decided by a rule; the closest others are not."""
    rows = (data_dir / "wildifeval" / "paper_examples.jsonl").read_text().splitlines()
    constraints = [one for row in rows for one in json.loads(row)["constraints"]]
    assert len(constraints) == 82
    assert {one for one in constraints if recognise(one) is not None} == {
        "The poem should be 16 lines long.",
        "Ensure the literature review does not exceed 150 words.",
    }


VOCABULARY = """
the poem use at least most "a" 'b' and not no words lines 3 100 , . between include word do in to
json list start with end “ ” ` « » «0» or more only sentences times
"""
WORDS = st.sampled_from(VOCABULARY.split())


@given(st.one_of(st.text(max_size=80), st.lists(WORDS, max_size=14).map(" ".join)), st.text())
def test_nothing_makes_it_raise(constraint: str, text: str) -> None:
    rule = recognise(constraint)
    if rule is not None:
        assert isinstance(rule.check(text), str)
