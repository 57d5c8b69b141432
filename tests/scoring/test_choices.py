"""The option that a reply chooses, and the option that a row's target names."""

from __future__ import annotations

import pytest

from harness.errors import DataInvalid, Unparseable
from harness.scoring.choices import ChoiceExtraction, choice_texts, right_choice

CHOICES = ["Paris", "Rome", "a dog", "None of the above"]

CASES = {
    # the letter alone
    "B": "B",
    "b": "B",
    " B\n": "B",
    "(B)": "B",
    "[B]": "B",
    "'B'": "B",
    "`B`": "B",
    "**B**": "B",
    "B.": "B",
    "B)": "B",
    "Option B": "B",
    "a": "A",
    # the letter with the option, or the option alone
    "B) Rome": "B",
    "B. Rome": "B",
    "B: Rome": "B",
    "B - Rome": "B",
    "B Rome": "B",
    "**B. Rome**": "B",
    "A: Paris": "A",
    "Rome": "B",
    "rome.": "B",
    "A dog": "C",
    "None of the above": "D",
    # announced
    "Answer: B": "B",
    "ANSWER: B": "B",
    "Answer: b": "B",
    "Answer:\nB": "B",
    "Answer - B": "B",
    "**Answer:** B": "B",
    "The answer is B.": "B",
    "The answer is: **B**": "B",
    "the answer is b.": "B",
    "The correct answer is (B).": "B",
    "The correct option is **B) Rome**.": "B",
    "The correct answer is option B: Rome": "B",
    "The best answer would be B": "B",
    "Hence the answer is (c)": "C",
    "The answer is A because it is.": "A",
    "The answer is A: Paris": "A",
    "The answer is Rome.": "B",
    "The answer is Rome (B)": "B",
    "Answer: Rome": "B",
    "The answer is a dog.": "C",
    "My final answer: $\\boxed{B}$": "B",
    "\\boxed{\\text{(B)}}": "B",
    "Final Answer: The final answer is $\\boxed{B}$. I hope it is correct.": "B",
    "<answer>B</answer>": "B",
    '{"answer": "B"}': "B",
    "答案\uff1aB": "B",
    "Réponse : B": "B",
    # concluded otherwise
    "B is the correct answer.": "B",
    "option B is correct.": "B",
    "It must be B.": "B",
    "I'd pick B": "B",
    "I choose A": "A",
    "So it's B": "B",
    "I would go with (B) here.": "B",
    "B, because it is in Italy.": "B",
    "B\n\nBecause A is in France.": "B",
    # other letters in the reasoning
    "A is a city in France. C is an animal.\n\nAnswer: B": "B",
    "A) is in France.\nB) is right.\nC) is an animal.\nThe answer is B": "B",
    "A is tempting, but C is wrong too.\n\nB": "B",
    "A is tempting.\n\n**B) Rome**": "B",
    "First I thought the answer is A. No: the answer is B.": "B",
    "The answer is B, not A.": "B",
    "The answer is not A. It is B.": "B",
    "So the answer is B, A is wrong": "B",
    "Answer: A is incorrect, so B": "B",
    "Option A is wrong. Option B is right.": "B",
    "Option B is right. Option A is wrong.": "B",
    "B. A is the capital of France, and so on": "B",
    "**Answer: B**\n\n**Explanation:** A is in France; C is an animal, so it is not C.": "B",
    # several
    "A or B": "",
    "(A) or (B)": "",
    "The answer is A or B.": "",
    "Answer: A, B": "",
    "Answer: B or maybe C": "",
    "A, B and C": "",
    "Either A or B is correct.": "",
    "Neither A nor B is correct.": "",
    "The answer is either B or C.": "",
    "The options are (A), (B) and (C).": "",
    "A) Paris\nB) Rome\nC) a dog\nD) None of the above": "",
    "A) Paris\nB) Rome\nC) a dog\nD) None of the above\n\nB) Rome": "B",
    # none
    "": "",
    "I don't know.": "",
    "E": "",
    "The answer is E": "",
    "A is wrong.": "",
    "It is certainly not (A).": "",
    "It isn't option A, but (B).": "B",
    "Thus B is wrong": "",
    "Is it A? Is it B? Hard to tell.": "",
    "A) is wrong since it is in France.\nB) is an animal.": "",
    # words that are letters
    "A cat sat on the mat.": "",
    "The answer is a city in Italy.": "",
    "The answer is A city in Italy.": "",
    "I think that A's capital is nice": "",
    "Oranges have vitamin C, so no idea": "",
    "Answer: e.g. nothing": "",
}


@pytest.mark.parametrize(("reply", "letter"), CASES.items())
def test_a_reply_chooses_one_option_or_is_unparseable(reply: str, letter: str) -> None:
    extraction = ChoiceExtraction(CHOICES)
    if letter:
        assert extraction.read(reply) == letter
    else:
        with pytest.raises(Unparseable):
            extraction.read(reply)


def test_an_option_whose_text_is_a_letter_is_chosen_by_its_own_letter() -> None:
    assert ChoiceExtraction(["B", "A"]).read("B") == "B"


def test_the_ninth_option_is_not_the_pronoun() -> None:
    extraction = ChoiceExtraction([f"option {n}" for n in range(9)])
    assert extraction.read("I") == "I"
    assert extraction.read("The answer: I think it is (C).") == "C"


def test_an_unparseable_reply_says_which_options_it_names() -> None:
    with pytest.raises(Unparseable, match="several options: A, C"):
        ChoiceExtraction(CHOICES).read("The answer is A or C.")


def test_a_long_reply_without_an_answer_is_unparseable() -> None:
    for text in ("answer is the correct " * 20_000, "A or B or " * 25_000, "(" * 99_999):
        with pytest.raises(Unparseable):
            ChoiceExtraction(CHOICES).read(text)


@pytest.mark.parametrize(
    ("target", "choices", "right"),
    [
        (1, ["Paris", "Rome"], 1),
        ("1", ["Paris", "Rome"], 1),
        ("B", ["Paris", "Rome"], 1),
        ("b", ["Paris", "Rome"], 1),
        ("Rome", ["Paris", "Rome"], 1),
        (7, ["5", "7"], 1),
        (True, ["false", "true"], 1),
        ("A", ["A", "B"], 0),
    ],
)
def test_a_target_is_an_index_a_letter_or_a_text(
    target: object, choices: list[str], right: int
) -> None:
    assert right_choice(target, choices) == right


@pytest.mark.parametrize(
    ("target", "choices", "said"),
    [
        ("B", ["B", "A"], "several"),
        (1, ["1", "2"], "several"),
        ("C", ["Paris", "Rome"], "none"),
        (2, ["Paris", "Rome"], "none"),
        (None, ["Paris", "Rome"], "must be"),
        ([0], ["Paris", "Rome"], "must be"),
    ],
)
def test_a_target_that_fits_no_option_or_several_is_an_error(
    target: object, choices: list[str], said: str
) -> None:
    with pytest.raises(DataInvalid, match=said):
        right_choice(target, choices)


def test_the_meaning_of_targets_may_be_given() -> None:
    assert right_choice(1, ["1", "2"], "index") == 1
    assert right_choice("1", ["1", "2"], "text") == 0
    assert right_choice("B", ["B", "A"], "letter") == 1
    with pytest.raises(DataInvalid, match="none"):
        right_choice("Rome", ["Paris", "Rome"], "letter")
    with pytest.raises(DataInvalid) as raised:
        right_choice(1, ["1", "2"])
    assert "task.choices.target" in raised.value.remedy


@pytest.mark.parametrize("raw", ["ab", ["a"], ["a", "a"], ["a", " "], ["a", None], [1, "1"], {}])
def test_choices_are_a_list_of_different_texts(raw: object) -> None:
    with pytest.raises(DataInvalid, match="choices"):
        choice_texts(raw)
    assert choice_texts(["a", 2, True]) == ("a", "2", "true")
