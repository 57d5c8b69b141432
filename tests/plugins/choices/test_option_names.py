"""What a reply says of an option: denied, what others choose, better than another, or the topic."""

import pytest

from harness.errors import Unparseable
from harness.plugins.choices.extraction import ChoiceExtraction

CITIES = ["Lyon", "Paris", "Rome", "Oslo"]
TOPICS = ["Shipping", "Billing", "Account", "Other"]


def read(choices: list[str], reply: str) -> str:
    try:
        return ChoiceExtraction(choices).read(reply)
    except Unparseable:
        return ""


@pytest.mark.parametrize(
    "reply",
    [
        "Answer: B (this is incorrect)",
        "The answer is B (this is not correct).",
        "Answer: B (not correct)",
        "Answer: B - this is wrong",
        "Answer: B, which is wrong",
        "B是错的。",
        "B选项错误。",
        "B不正确。",
        "B\uff08错误\uff09",
        "Bは誤りです。",
        "B는 정답이 아닙니다.",
        "B는 오답입니다.",
        "B - неправильный ответ.",
        "B är fel.",
        "B ist falsch.",
        "B est faux.",
        "B (faux)",
        "B è sbagliata.",
        "B está errada.",
        "B is fout.",
        "B jest błędna.",
        "الخيار B خاطئ.",
        "B गलत है।",
        "Before 1927 it was B.",
        "Most students would choose B.",
        "Many people would pick B.",
        "Some would say B.",
        "B is a common misconception.",
        "B is the most common mistake.",
        "B is a popular choice.",
    ],
)
def test_an_option_that_is_denied_or_chosen_by_others_is_not_chosen(reply: str) -> None:
    assert read(CITIES, reply) == ""


@pytest.mark.parametrize(
    "reply",
    [
        "B是对的。",
        "Bが正解です。",
        "B가 정답입니다.",
        "B är rätt.",
        "B è corretta.",
        "Answer: B (this is correct)",
        "Answer: B (not C)",
        "Answer: B (A is wrong)",
        "Answer: B (the others are wrong)",
        "答案是B\uff0c因为A是错误的。",
        "正解はBです。Aは誤りです。",
        "Правильный ответ: B. A - неправильный ответ.",
        "B is correct. Most students would choose A.",
        "Answer: B. A is a common misconception.",
    ],
)
def test_a_denial_of_another_option_leaves_the_choice(reply: str) -> None:
    assert read(CITIES, reply) == "B"


@pytest.mark.parametrize(
    ("later", "letters"),
    [
        ("This answer is wrong.", [""]),
        ("That choice is incorrect.", [""]),
        ("My choice above was wrong.", [""]),
        ("I revise this to C.", ["C"]),
        ("I am changing this to C.", ["C", ""]),
        ("C is the better answer.", ["C", ""]),
        ("C, not B, is the better answer.", ["C", ""]),
        ("C would be the better answer.", ["C", ""]),
        ("C is a better answer than B.", ["C", ""]),
        ("C is a better answer than A.", [""]),
        ("Rome is the better answer.", ["C", ""]),
        ("However, C seems more appropriate.", ["C", ""]),
        ("I would rather choose C.", ["C", ""]),
        ("B is a better answer than C.", ["B"]),
        ("C is more common, but B is right.", ["B"]),
        ("Some may think C is more accurate.", ["B"]),
        ("C would be better if the question were about Italy.", ["B"]),
        ("C is a common misconception.", ["B"]),
        ("This answer is supported by the text.", ["B"]),
        ("The other options are wrong.", ["B"]),
    ],
)
@pytest.mark.parametrize("choice", ["Answer: B", "The correct answer is B) Paris.", "B"])
def test_a_better_option_replaces_the_choice(choice: str, later: str, letters: list[str]) -> None:
    assert read(CITIES, f"{choice}\n\n{later}") in letters


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("The ticket is about billing.", "B"),
        ("I would classify this as billing.", "B"),
        ("billing\n\nThe customer was charged twice.", "B"),
        ("This should be classified as **Billing** because of the two charges.", "B"),
        ("Classification: A) Shipping\n\nRationale: It arrived late.", "A"),
        ("**Category:** Billing\n\nThe customer was charged twice.", "B"),
        ("Category: C", "C"),
        ("I'd go with C here.", "C"),
        ("The ticket is not about billing.", ""),
        ("The ticket may be about billing.", ""),
        ("The ticket is about billing or shipping.", ""),
        ("A similar ticket is about billing.", ""),
        ("The question is about billing.", ""),
        ("It should not be classified as Billing.", ""),
        ("It should be classified as Billing or Other.", ""),
        ("Most would classify this as billing.", ""),
        ("I would classify this as billing if there were a charge.", ""),
        ("Billing\n\nThis is wrong.", ""),
        ("Category: C or D", ""),
        ("Previous category: C", ""),
        ("Category: C (this is wrong)", ""),
    ],
)
def test_an_option_may_be_a_label(reply: str, letter: str) -> None:
    assert read(TOPICS, reply) == letter


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("Canberra is the capital of Australia.", "B"),
        ("Canberra is not the capital of Australia.", ""),
        ("Is Canberra the capital of Australia?", ""),
        ("Canberra is the second largest city.", ""),
        ("Canberra is the most popular answer.", ""),
        ("Canberra is the capital, not Sydney.", ""),
        ("Some say Canberra is the capital.", ""),
    ],
)
def test_a_sentence_may_say_what_the_only_option_is(reply: str, letter: str) -> None:
    assert read(["Sydney", "Canberra", "Melbourne"], reply) == letter


@pytest.mark.parametrize(
    ("choices", "reply", "letter"),
    [
        (["Yes", "No"], "No, this is incorrect.", "B"),
        (["Yes", "No"], "Answer: No\n\nThe calculation in the question is wrong.", "B"),
        (["True", "False"], "False. The statement is incorrect.", "B"),
        (["True", "False"], "Answer: False\n\nThis statement is incorrect.", "B"),
    ],
)
def test_an_option_may_be_a_denial_itself(choices: list[str], reply: str, letter: str) -> None:
    assert read(choices, reply) == letter
