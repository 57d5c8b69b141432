"""What a reply says of its answer after it: another answer, a denial, or an explanation."""

import contextlib
import time

import pytest

from harness.errors import Unparseable
from harness.scoring.extraction import build_extraction
from harness.scoring.later_answers import repeats

ANOTHER = [
    "**Final label:** ham",
    "### Final label\nham",
    "Final classification: ham",
    "Final answer: ham",
    "My final label is ham.",
    "The label should be ham.",
    "The label has to be ham.",
    "The correct label is ham.",
    "A more appropriate label would be ham.",
    "Final label \u2192 ham",
    "I changed my mind: ham.",
    "I revise this to ham.",
    "I am changing this to ham.",
    "I'd change the label to ham.",
    "Change the label to ham.",
    "I should have labeled it ham.",
    "I'd label it ham instead.",
    "However, ham seems more appropriate.",
    "Still, ham would be more appropriate.",
    "However, ham is more appropriate than spam.",
    "ham is the better answer.",
    "Perhaps ham fits better.",
    "In hindsight, ham is more accurate.",
    "The label is not spam.",
    "It is not spam.",
    "Ignore the label above.",
    "Disregard the above.",
    "Scrap that: ham.",
    "This label is wrong.",
    "That answer is incorrect.",
    "The above classification is wrong.",
    "The result given above is wrong.",
    "Unfortunately, this answer is wrong.",
    "This is the wrong label.",
    "Diese Einstufung ist falsch.",
    "Étiquette finale : ham",
    "最终标签\uff1aham",
    "Поправка: ham",
    "Итоговая метка: ham",
]
EXPLANATIONS = [
    "**Explanation:** It offers a prize.",
    "**Reasoning:** It has a link, which ham rarely has.",
    "The label is spam because it offers a prize.",
    "**Final label:** spam (high confidence)",
    "**Final classification:** The message is spam.",
    "This label is correct.",
    "The label is based on the text.",
    "The label is accurate.",
    "The classification is simple: it offers a prize.",
    "The category is clear: it asks for money.",
    "The label reflects the request for money.",
    "The result above is in the requested format.",
    "The answer is in JSON format as requested.",
    "However, the message seems polite.",
    "Ham was considered, but the link rules it out.",
    "If the link were absent, the label would be ham.",
    "Spam is more appropriate than ham.",
    "Spam fits better than ham.",
    "Still, tea seems more appropriate than coffee here.",
    "This format is more appropriate for parsing.",
    "The spelling in this message is incorrect.",
    "This claim is false.",
    "The sender is not a known contact.",
    "You should delete it.",
    "Confidence: high",
    "Let me know if you need anything else.",
]
READERS = [
    ({"json": "label"}, '{"label": "spam"}'),
    ({"json": "label"}, '```json\n{"label": "spam"}\n```'),
    ({"regex": r"Label: (\w+)"}, "Label: spam"),
    ({"regex": r"Label: (\w+)", "take": "last"}, "Label: spam"),
]


@pytest.mark.parametrize("later", ANOTHER)
@pytest.mark.parametrize(("way", "answer"), READERS)
def test_an_answer_that_is_replaced_in_words_is_unparseable(
    way: dict[str, str], answer: str, later: str
) -> None:
    with pytest.raises(Unparseable):
        build_extraction(way, "extract").read(f"{answer}\n\n{later}")


@pytest.mark.parametrize("later", EXPLANATIONS)
@pytest.mark.parametrize(("way", "answer"), READERS)
def test_an_explanation_after_an_answer_changes_nothing(
    way: dict[str, str], answer: str, later: str
) -> None:
    assert build_extraction(way, "extract").read(f"{answer}\n\n{later}") == "spam"


@pytest.mark.parametrize(
    "later",
    [
        "**Category:** ham",
        "Label - ham",
        "**Label**: `ham`",
        "## Classification: ham",
        "Result: ham",
    ],
)
def test_words_for_an_answer_are_labels_after_a_json_object(later: str) -> None:
    with pytest.raises(Unparseable):
        build_extraction({"json": "label"}, "extract").read(f'{{"label": "spam"}}\n\n{later}')


@pytest.mark.parametrize(
    "reply",
    [
        '{"label": "spam", "category": "ad"}\n\nCategory: ad',
        '{"label": "spam", "result": 1}\n\nThe result is one.',
    ],
)
def test_another_key_of_the_object_is_no_label_of_the_answer(reply: str) -> None:
    assert build_extraction({"json": "label"}, "extract").read(reply) == "spam"


@pytest.mark.parametrize(
    ("later", "is_read"),
    [
        ("**Final total:** 70", False),
        ("The correct total is 70.", False),
        ("Total: 720", False),
        ("This total is wrong.", False),
        ("It is not 72.", False),
        ("Total: $72.00", True),
        ("Total: 60 + 12 = 72", True),
        ("Final total: seventy-two (72)", True),
        ("The total is 72, since 60 + 12 = 72.", True),
        ("The total includes 12 apples.", True),
        ("The total is the sum of both.", True),
    ],
)
def test_a_number_may_be_repeated_in_words(later: str, is_read: bool) -> None:
    total = build_extraction({"json": "total"}, "extract")
    reply = f'{{"total": 72}}\n\n{later}'
    if is_read:
        assert total.read(reply) == "72"
        return
    with pytest.raises(Unparseable):
        total.read(reply)


@pytest.mark.parametrize(
    ("reply", "is_read"),
    [
        ("Sentiment: positive\nCategory: food\nConfidence: high", True),
        ("Sentiment: positive\n\nThe sentiment is clearly positive.", True),
        ("Sentiment: positive\n\nThe sentiment is negative.", False),
        ("Sentiment: positive\n\n**Final sentiment:** negative", False),
        ("Sentiment: positive\n\nNegative would be more appropriate.", False),
    ],
)
def test_other_fields_after_a_labelled_answer_change_nothing(reply: str, is_read: bool) -> None:
    pattern = build_extraction({"regex": r"Sentiment: (\w+)", "take": "last"}, "extract")
    if is_read:
        assert pattern.read(reply) == "positive"
        return
    with pytest.raises(Unparseable):
        pattern.read(reply)


@pytest.mark.parametrize(
    ("value", "is_repetition"),
    [
        ("1,200.0", True),
        ("1200", True),
        ("12000", False),
        ("1200.5", False),
        ("200 + 1000 = 1200", True),
        ("not 1200", False),
    ],
)
def test_a_value_repeats_an_answer_as_a_whole(value: str, is_repetition: bool) -> None:
    assert repeats(value, "1200") is is_repetition


def test_a_pattern_without_a_label_has_no_other_answers_in_words() -> None:
    tagged = build_extraction({"regex": r"<b>(\w+)</b>", "take": "last"}, "extract")
    assert tagged.read("<b>a</b> My final label is c.") == "a"


@pytest.mark.timed
@pytest.mark.parametrize(
    "unit", ["the final label ", "label\n", "However, ", "ham is more ", " \n"]
)
def test_a_long_reply_is_searched_in_linear_time(unit: str) -> None:
    reply = "Label: spam\n\n" + unit * (60_000 // len(unit))
    started = time.process_time()
    with contextlib.suppress(Unparseable):
        build_extraction({"regex": r"Label: (\w+)"}, "extract").read(reply)
    assert time.process_time() - started < 5


def test_a_limit_with_the_label_of_an_answer_is_no_other_answer() -> None:
    reader = build_extraction({"regex": r"Score: (\d+)"}, "extract")
    assert reader.read("Score: 4\n\nMax. score: 10") == "4"
