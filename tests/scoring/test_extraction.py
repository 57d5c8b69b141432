"""Where the answer is in a reply."""

import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ConfigError, Unparseable
from harness.scoring.extraction import (
    RegexExtraction,
    build_extraction,
    matched_answer,
)
from harness.scoring.patterns import Pattern


def test_the_answer_is_the_first_group_that_took_part_or_the_whole_match() -> None:
    assert matched_answer(Pattern("a(b)?|c(d)", "").search("cd")) == "d"
    assert matched_answer(Pattern("a(b)?", "").search("a")) == ""
    assert matched_answer(Pattern("ab", "").search("xab")) == "ab"


@pytest.mark.parametrize(
    ("way", "text", "answer"),
    [
        ({"regex": r"answer is (\w+)"}, "The answer is a. The answer is b.", "a"),
        ({"regex": r"answer is (\w+)", "take": "last"}, "The answer is a. The answer is b.", "b"),
        ({"regex": [r"Result: (.+)", r"\((\w)\)"], "take": "last"}, "Result: (B) or so", "B"),
        ({"regex": r"ANSWER is (\w+)", "ignore_case": True}, "The answer is a.", "a"),
        ({"regex": [r"^(\d+)$", r"is (\d+)"]}, "It is 4", "4"),
        ({"regex": r"\d+"}, "It is 42.", "42"),
        (
            {"regex": r"answer is (\w+)", "take": "last"},
            "The answer is a.\n\nQ: And now?\nA: The answer is b.",
            "a",
        ),
        (
            {"regex": r"answer is (\w+)", "take": "last"},
            "Question: And now?\nThe answer is a. The answer is b.",
            "b",
        ),
    ],
)
def test_the_answer_is_read(way: dict[str, Any], text: str, answer: str) -> None:
    found = build_extraction(way, "task.extract")
    assert found.read(text) == answer
    written = found.write(answer)
    assert written is None or found.read(written) == answer


@pytest.mark.parametrize(
    "way",
    [{"regex": r"answer is (\w+)"}, {"regex": "x()"}],
)
def test_an_answer_that_is_not_there_is_unparseable(way: dict[str, Any]) -> None:
    with pytest.raises(Unparseable):
        build_extraction(way, "task.extract").read("x")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({}, "does not say how to extract"),
        ({"regx": "a"}, "does not say how to extract.*Did you mean 'regex'"),
        ({"regex": "a", "tke": "last"}, "Did you mean 'take'"),
        ({"regex": "("}, r"task\.extract\.regex: .* not a regular expression"),
        ({"regex": []}, "must be a pattern"),
        ({"regex": [1]}, "must be a pattern"),
        ({"regex": "a", "take": "second"}, "must be first or last"),
        ({"regex": "a", "ignore_case": "no"}, "must be true or false"),
    ],
)
def test_a_way_that_is_none_is_refused(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_extraction(raw, "task.extract")


PATTERNS = [r"a(b)?", r"(b+)", r"c(a)", r"(a|c)c", r"b"]


@given(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=4), st.text("abc", max_size=12))
def test_several_patterns_read_as_their_alternation(patterns: list[str], text: str) -> None:
    found = RegexExtraction(patterns, "here").find(text)
    match = re.search("|".join(patterns), text)
    assert (found is None) == (match is None)
    if found and match:
        assert found.start == match.start()
        first = re.match(patterns[found.pattern], text[match.start() :])
        assert first is not None
        assert first[0] == match[0]


ANNOUNCED_WORD = {"regex": r"Answer: (\w+)", "take": "last", "ignore_case": True}


@pytest.mark.parametrize(
    "reply",
    [
        "First I thought Answer: Paris, but the seat of government moved.\n\n**Answer:** Lyon",
        "Answer: Paris\n\nWait, that was the old one.\n\n**Answer:** Lyon",
        "Answer: Paris\n\nCorrection:\n\nAnswer: **Lyon**",
        "Answer: Paris\n\nLet me recheck.\n\n### Answer\nLyon",
        "Initial answer: Paris\n\nFinal answer is Lyon.",
        "Answer: Paris\n\nActually, that is wrong. The capital is Lyon.",
        "Draft answer: Paris. After review:\n\n**Final Answer:** Lyon",
        "Answer: Paris\n\nCorrection: Answer - Lyon",
        'You asked me to end with "Answer: Paris" or similar, but I am not sure.',
        "The wrong answer: Paris.\n\nThe right one is Lyon.",
        "Example of the format: Answer: Paris\n\nMy response:\n**Answer**: Lyon",
        "Answer: B\n\nOn second thought, **Answer: (C)**",
        "Answer: B\n\nFinal answer: $\\boxed{C}$",
        "Answer: B? No, it must be C.",
    ],
)
def test_an_announced_match_does_not_decide_if_the_reply_answers_again(reply: str) -> None:
    with pytest.raises(Unparseable):
        build_extraction(ANNOUNCED_WORD, "task.extract").read(reply)


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Answer: Paris", "Paris"),
        ("**Answer: Paris**", "Paris"),
        ("I considered Lyon. Answer: Paris", "Paris"),
        ("Answer: Lyon. No, Answer: Paris", "Paris"),
        ("Answer: Paris\n\nThe answer is based on the map.", "Paris"),
        ("Answer: Paris\n\nSo the answer is Paris.", "Paris"),
        ("(Answer: Paris)", "Paris"),
        ("Answer: Paris\n\nParis has been the capital since 987.", "Paris"),
        ('Answer: Lyon (not, as many people write, "Answer: Paris")', "Lyon"),
        ("Answer: Paris\n\n(Common wrong answer: Lyon.)", "Paris"),
        ("Answer: Paris\n\nNote: a frequent incorrect answer: Lyon", "Paris"),
    ],
)
def test_an_announced_match_that_stands_is_read(reply: str, answer: str) -> None:
    assert build_extraction(ANNOUNCED_WORD, "task.extract").read(reply) == answer


@pytest.mark.parametrize(
    "reply",
    [
        "48+24 = 72\n#### 72\n\nWait, May was 96. 48 + 96 = 144.\n#### **144**",
        "The answer is 72. Hmm, no: the answer is **144**.",
        "So far the answer is 72.\n\n#### $144",
        "The answer is 72 clips for May.\n\n#### one hundred",
    ],
)
def test_an_announcement_in_another_form_supersedes_a_match(reply: str) -> None:
    patterns = {"regex": [r"#### (-?\d+)", r"answer is (-?\d+)"], "take": "last"}
    with pytest.raises(Unparseable):
        build_extraction(patterns, "task.extract").read(reply)


def test_a_pattern_without_an_announcement_takes_its_last_match() -> None:
    by_pattern = build_extraction({"regex": r"<b>(\w+)</b>", "take": "last"}, "task.extract")
    assert by_pattern.read("<b>a</b> and <b>b</b>. The answer is c.") == "b"
    tagged = build_extraction({"regex": r"<answer>(\w+)</answer>", "take": "last"}, "task.extract")
    assert tagged.read("<answer>a</answer> The answer is c.") == "a"


@pytest.mark.parametrize("take", ["first", "last"])
@pytest.mark.parametrize("label", ["Sentiment", "Label", "Output", "Answer"])
@pytest.mark.parametrize(
    "reply",
    [
        "X: positive\n\nWait, that's not right, the reviewer is sarcastic. It is negative.",
        "X: positive\n\nOn reflection, I'd change this.\n\n**X:** negative",
        "X: positive\n\nActually, X: **negative**.",
        "X: positive\n\nCorrected x: negative",
        "X: positive\nX:\npositive\nX: **negative**",
        "X: positive — no, negative!",
        "X: positive → negative",
    ],
)
def test_a_match_of_any_pattern_is_taken_back_by_a_later_correction(
    reply: str, label: str, take: str
) -> None:
    way = build_extraction({"regex": rf"{label}: (\w+)", "take": take}, "task.extract")
    with pytest.raises(Unparseable):
        way.read(reply.replace("X", label).replace("x:", f"{label.lower()}:"))


@pytest.mark.parametrize("take", ["first", "last"])
@pytest.mark.parametrize(
    "reply",
    [
        "Sentiment: positive\n\nThe reviewer likes the film.",
        "Sentiment: positive\n\nSorry for the delay!",
        "Sentiment: positive\n\nSo the **sentiment:** positive",
        "Sentiment: positive\nPrevious sentiment: negative",
        'Sentiment: positive (not, as one may read, "sentiment: negative")',
        "Oops, I should have said this first.\nSentiment: positive",
        "Sentiment: positive\n\nHaving checked again, positive is correct.",
        "Sentiment: positive\n\nIt must be noted that the review is short.",
    ],
)
def test_a_match_of_any_pattern_stands_before_a_remark(reply: str, take: str) -> None:
    way = build_extraction({"regex": r"Sentiment: (\w+)", "take": take}, "task.extract")
    assert way.read(reply) == "positive"


def test_a_correction_before_the_last_match_leaves_the_readings() -> None:
    reply = "Sentiment: positive\n\nWait, that's not right.\n\nSentiment: negative"
    patterns = {"regex": r"Sentiment: (\w+)"}
    assert build_extraction(patterns, "task.extract").read(reply) == "positive"
    assert build_extraction({**patterns, "take": "last"}, "task.extract").read(reply) == "negative"


LABEL_REMARKS = [
    "(Label: ham would apply if it came from a friend.)",
    "If it had been an ad, I would say Label: ham",
    "If it were from a friend, Label: ham would apply.",
    "Otherwise I would have said Label: ham.",
    "Others might say Label: ham.",
    "A naive classifier would say Label: ham",
    "A common mistake is Label: ham",
    "Without the link, it would be Label: ham.",
    "Some annotators would choose Label: ham.",
    "Note: Label: ham is only for messages from friends.",
    "According to the old guidelines, Label: ham",
    "My colleague believes that Label: ham",
]


@pytest.mark.parametrize("take", ["first", "last"])
@pytest.mark.parametrize("remark", LABEL_REMARKS)
def test_a_remark_on_another_label_is_no_answer(remark: str, take: str) -> None:
    parser = build_extraction({"regex": r"Label: (\w+)", "take": take}, "extract")
    for text in (f"Label: spam\n{remark}", f"Label: spam. {remark}", f"{remark}\nLabel: spam"):
        assert parser.read(text) == "spam", text


@pytest.mark.parametrize(
    "text",
    [
        "Label: spam\nLabel: ham is wrong here.",
        "Label: spam\nFor a message to staff: Label: ham.",
        "Label: spam\nThe other option, Label: ham, does not fit.",
        "Label: spam\nExample of the other class: Label: ham",
        "Label: spam. That is for last year. This year: ham",
        "Label: spam\nThat was for the old message. This message: ham",
    ],
)
@pytest.mark.parametrize("take", ["first", "last"])
def test_a_label_that_may_not_be_the_answer_never_replaces_one(text: str, take: str) -> None:
    parser = build_extraction({"regex": r"Label: (\w+)", "take": take}, "extract")
    try:
        answer = parser.read(text)
    except Unparseable:
        return
    assert answer == "spam"


@pytest.mark.parametrize(
    "text",
    ["Label: ham\nLabel: spam", "Label: ham\nActually, Label: spam", "Label: ham. So Label: spam."],
)
def test_a_later_label_of_the_reply_itself_replaces_one(text: str) -> None:
    parser = build_extraction({"regex": r"Label: (\w+)", "take": "last"}, "extract")
    assert parser.read(text) == "spam"


@pytest.mark.parametrize(
    "remark",
    [
        "Maximum score: 10",
        "(Max score: 10)",
        "Minimum score: 1",
        "Passing score: 6",
        "Score: 10 would need sources.",
    ],
)
def test_a_limit_is_no_answer_beside_one(remark: str) -> None:
    parser = build_extraction(
        {"regex": r"score: (\d+)", "take": "last", "ignore_case": True}, "extract"
    )
    assert parser.read(f"Score: 4\n{remark}") == "4"
    assert parser.read(f"{remark}\nScore: 4") == "4"
    assert parser.read("Maximum score: 10") == "10"


def test_of_limits_alone_the_first_is_read_first() -> None:
    parser = build_extraction({"regex": r"score: (\d+)"}, "extract")
    assert parser.read("Minimum score: 1\nMaximum score: 10") == "1"


def test_a_label_of_what_the_answer_is_not_leaves_no_answer() -> None:
    parser = build_extraction({"regex": r"Answer: ([^.\n]+)", "take": "last"}, "extract")
    assert parser.read("Answer: A. Answer: B") == "B"
    with pytest.raises(Unparseable):
        parser.read("Answer: A. Answer: not B")


@pytest.mark.timed
def test_many_remarks_take_bounded_time() -> None:
    parser = build_extraction({"regex": r"Label: (\w+)", "take": "last"}, "extract")
    began = time.process_time()
    with pytest.raises(Unparseable):
        parser.read("If it were so, Label: ham would apply.\n" * 3_000)
    assert time.process_time() - began < 5


SENTIMENT = {"regex": r"Sentiment: (\w+)", "take": "last"}


@pytest.mark.parametrize(
    "reply",
    [
        'The format would be "Sentiment: positive". I can\'t classify an empty review.',
        "Please send the review, and I will answer in the form\n\nSentiment: positive",
        'Once you provide it, I will end with "Sentiment: positive" or "Sentiment: negative".',
        "Example: Sentiment: positive\n\nI can't tell.",
        "Sentiment: positive or negative? Hard to say.",
        "Sentiment: positive / negative",
        "Sentiment: positive, but also negative",
        "Sentiment: positive is not justified here.",
        "Not Sentiment: positive",
    ],
)
def test_a_label_in_a_format_a_question_or_a_denial_is_no_answer(reply: str) -> None:
    with pytest.raises(Unparseable):
        build_extraction(SENTIMENT, "task.extract").read(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "Here is the answer in the requested format:\n\nSentiment: positive",
        "The review praises the battery.\n\nSentiment: positive.\n\nIt is short.",
        '"Sentiment: positive"',
        "I would say Sentiment: positive",
    ],
)
def test_a_label_of_the_replys_own_is_the_answer(reply: str) -> None:
    assert build_extraction(SENTIMENT, "task.extract").read(reply) == "positive"


def test_a_scale_after_a_label_is_no_alternative() -> None:
    read = build_extraction({"regex": r"Score: (\d+)", "take": "last"}, "task.extract").read
    assert read("Score: 8/10 or better") == "8"
