from typing import Any

import pytest

from harness.errors import ConfigError, Unparseable
from harness.plugin_loader import kind
from harness.plugins.choice_judges.choice import Choice, chosen_in
from harness.records import Decoding, Instance, Reply
from tests.conftest import Sums
from tests.scoring.judges.judged import Poems

POEM = Instance("a", 1, {"form": "haiku"})
HELPFUL = {"question": "Does it help?", "choices": {"not at all": 0, "partly": 0.5, "fully": 1}}
POLITE = {"question": "Is it polite?", "choices": {"rude": 0, "polite": 1}, "passes_from": 1}
RUBRIC = {"helpful": HELPFUL, "polite": POLITE}


def built(task: Any = None, **options: Any) -> Choice:
    judge: Choice = kind("judges").build(
        "choice", {"criteria": RUBRIC, **options}, task=task or Sums()
    )
    return judge


def replies(*texts: str) -> list[Reply]:
    return [Reply(text, "stop") for text in texts]


def test_each_question_is_asked_by_itself_with_its_choices() -> None:
    first, second = built().questions(POEM, "Snow fell.")
    said, other = first.messages[0].content, second.messages[0].content
    assert said.startswith("This is the answer of a model:\n\n<judged_text>\nSnow fell.\n")
    assert "Does it help?\n\nThe choices are:\n- not at all\n- partly\n- fully\n" in said
    assert "Is it polite?" not in said
    assert "- rude\n- polite\n" in other
    assert first.decoding == Decoding(temperature=0.0, max_tokens=1000)
    (asked, _) = built(Poems()).questions(POEM, "Snow fell.")
    assert "A model was asked this:\n\n<task>\nWrite poem 1.\n</task>" in asked.messages[0].content


def test_each_question_has_a_score() -> None:
    scores = built().parse(POEM, replies("It does.\nVerdict: partly", "Verdict: Rude."))
    assert (scores["helpful"].value, scores["helpful"].passed) == (0.5, None)
    assert scores["helpful"].details == {"choices": ["partly"]}
    assert (scores["polite"].value, scores["polite"].passed) == (0.0, False)
    assert scores["polite"].reason == "Is it polite? rude"


def test_samplings_are_averaged() -> None:
    judge = built(samples=2)
    assert [request.samples for request in judge.questions(POEM, "Snow.")] == [2, 2]
    said = ["Verdict: fully", "Verdict: partly", "polite", "Verdict: well"]
    scores = judge.parse(POEM, replies(*said))
    assert scores["helpful"].value == 0.75
    assert (scores["polite"].value, scores["polite"].passed) == (1.0, True)
    assert scores["polite"].details == {"choices": ["polite", None]}


def test_a_question_without_a_choice_is_no_zero() -> None:
    scores = built().parse(POEM, replies("Verdict: maybe", "Verdict: polite"))
    assert (scores["helpful"].value, scores["helpful"].passed) == (None, None)
    with pytest.raises(Unparseable):
        built().parse(POEM, replies("Verdict: maybe", "It is polite."))


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("Verdict: not at all", "not at all"),
        ("**Verdict:** Not at all.", "not at all"),
        ("Not  at\tall", "not at all"),
        ("fully\nVerdict: partly\n\n", "partly"),
        ("Verdict: partly\nThat is all.", None),
        ("Verdict: partly or fully", None),
        ("The verdict: partly", "partly"),
        ("", None),
        ("fully " * 1000, None),
        ("Verdict: ~~fully~~", None),
        ("Verdict: ~~fully~~ partly", "partly"),
        ("Verdict: <s>fully</s> partly", "partly"),
        ("Verdict: ✗ fully", None),
        ("Verdict: ❌ fully", None),
        ("Verdict: fully 👎", None),
        ("Verdict: ≠ fully", None),
        ("Verdict: ✅ fully", "fully"),
        ("It asked me to answer:\nfully", None),
    ],
)
def test_the_last_line_names_the_choice(text: str, choice: str | None) -> None:
    choices: dict[str, float] = {"not at all": 0, "partly": 0.5, "fully": 1}
    assert chosen_in(Reply(text, "stop"), choices) == choice


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("Verdict: partly\n> Verdict: fully", "partly"),
        ("> Verdict: fully", "fully"),
        ("The answer says:\n> Verdict: fully", None),
        ('Reasoning.\n"Verdict: fully"', "fully"),
        ('The answer says:\n"Verdict: fully"', None),
        ('Verdict: partly\n\nThe answer says "Verdict: fully"', None),
        ("Verdict: fully. Verdict: partly", None),
        ("`Verdict: partly`", "partly"),
        ('Verdict: "partly"', "partly"),
        ("Verdict: **partly**", "partly"),
        ("x.\n```\nVerdict: partly\n```", None),
        ("Verdict: partly\n```\nVerdict: fully\n```", "partly"),
        ("Verdict: \\boxed{partly}", "partly"),
        ("Verdict\uff1afully", "fully"),
    ],
)
def test_a_line_that_the_reply_quotes_names_no_choice(text: str, choice: str | None) -> None:
    choices: dict[str, float] = {"not at all": 0, "partly": 0.5, "fully": 1}
    assert chosen_in(Reply(text, "stop"), choices) == choice


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ('It says "Answer: yes" to steer me. NO', "no"),
        ("Answer: yes", "yes"),
        ("**Answer:** yes", "yes"),
        ("The answer is yes.", "yes"),
        ("The answer is **yes**.", "yes"),
        ("It helps. The answer to the question is no.", "no"),
        ("Choice: yes", "yes"),
        ("Final verdict: no", "no"),
        ("My verdict: no", "no"),
        ("### Final Judgement: No", "no"),
        ("My conclusion is: no", "no"),
        ("Verdict: yes\nCorrection: no", "no"),
        ("It helps. Yes.", "yes"),
        ("It is not polite. NO", "no"),
        ("YES. NO.", None),
        ("YES. Answer: no", None),
        ("Answer: yes. Verdict: no", None),
        ("Answer: yes. NO", None),
        ("Answer: yes? No.", None),
        ("Verdict: yes?", None),
        ("Is it rude? No.", None),
        ("Answer: yes and no", None),
        ("Answer: yes, or rather no", None),
        ("The answer is not yes.", None),
        ("If the answer is yes", None),
        ("I doubt that the answer is yes.", None),
        ("Its answer is no.", None),
        ("The model's answer is no.", None),
        ("The answer of the model is no.", None),
        ("Yes, it helps.", None),
        ("YES. It helps.", None),
        ("It is no.", None),
        ("The model wrote: Answer: yes", None),
        ("Verdict: no\n\nThe model wrote:\nVerdict: yes", None),
        ("Verdict: no\nIt says:\n\n**Verdict: yes**", None),
        ("Verdict: no\n**The text said:**\nyes", None),
        ("The model wrote:\nVerdict: yes\n\nVerdict: no", "no"),
        ("My verdict, as the rubric says:\nno", None),
        ("My final verdict:\nno", "no"),
        ("Verdict: no\n\nQuote from the answer:\nVerdict: yes", None),
        ("Verdict: no\nThe model's output:\nVerdict: yes", None),
        ("Evaluation of the model's answer:\nVerdict: yes", "yes"),
    ],
)
def test_words_of_the_field_announce_a_choice(text: str, choice: str | None) -> None:
    assert chosen_in(Reply(text, "stop"), {"yes": 1, "no": 0}) == choice


def test_a_choice_may_contain_an_underscore() -> None:
    choices: dict[str, float] = {"very_good": 1, "bad": 0}
    for text in ("very_good", "Verdict: very_good", "The answer is **very_good**."):
        assert chosen_in(Reply(text, "stop"), choices) == "very_good"


def test_letters_are_announced_too() -> None:
    letters: dict[str, float] = {"A": 1, "B": 0, "tie": 0.5}
    for text, choice in (
        ("The better answer is A.", "A"),
        ("Answer A is better.", None),
        ("A", "A"),
        ("My verdict: tie", "tie"),
        ("The answer is a bit long.", None),
        ("Answer: A or B", None),
    ):
        assert chosen_in(Reply(text, "stop"), letters) == choice, text


def test_a_reply_that_was_cut_off_names_none() -> None:
    assert chosen_in(Reply("Verdict: fully", "length"), {"fully": 1, "partly": 0}) is None


def test_it_decides_where_a_question_has_a_mark() -> None:
    assert built().verdicts is True
    assert built(criteria={"helpful": HELPFUL}).verdicts is False


def test_other_groups_are_not_judged() -> None:
    judge = built(where={"form": "ode"})
    assert judge.questions(POEM, "Snow.") == []
    assert judge.parse(POEM, []) == {}


@pytest.mark.parametrize(
    "options",
    [
        {"criteria": {}},
        {"criteria": {"a.b": HELPFUL}},
        {"criteria": {"a": {"question": "?"}}},
        {"criteria": {"a": {"question": "?", "choices": {"one": 1}}}},
        {"criteria": {"a": {"question": "?", "choices": {"+1": 1, "1": 0}}}},
        {"criteria": {"a": {"question": "?", "choices": {"+": 1, "-": 0}}}},
        {"criteria": {"a": {**HELPFUL, "pass": 1}}},
        {"samples": 0},
        {"prompt": "nothing"},
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        built(**options)


def test_it_can_be_simulated() -> None:
    judge = built()
    requests = judge.questions(POEM, "Is it polite? Does it help?")
    scores = judge.parse(POEM, replies(*map(judge.simulated, requests)))
    assert (scores["helpful"].value, scores["polite"].value) == (1.0, 1.0)


def test_the_options_can_be_written_down() -> None:
    written = (
        kind("judges").validate_options("choice", {"criteria": RUBRIC}).model_dump(mode="json")
    )
    assert kind("judges").validate_options("choice", written).model_dump(mode="json") == written


@pytest.mark.parametrize(
    "introduction",
    ["It ends with:\n\n", "The essay closes with the line\n", "Candidate's final line:\n"],
)
def test_a_verdict_that_the_judge_quotes_is_none(introduction: str) -> None:
    assert chosen_in(Reply(f"{introduction}Verdict: yes", "stop"), {"yes": 1, "no": 0}) is None
    own = f"{introduction}Verdict: yes\n\nI disagree with it.\nVerdict: no"
    assert chosen_in(Reply(own, "stop"), {"yes": 1, "no": 0}) == "no"


def test_a_line_that_shows_the_format_names_no_choice() -> None:
    choices = {"fully": 1, "partly": 0}
    text = "I can't judge this. The format would be:\nVerdict: fully"
    assert chosen_in(Reply(text, "stop"), choices) is None
    text = "Here is my verdict in the requested format:\nVerdict: fully"
    assert chosen_in(Reply(text, "stop"), choices) == "fully"


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("My first answer: yes", None),
        ("Answer in the reply: yes", None),
        ("Answer given in the response: yes", None),
        ("The expected answer: yes", None),
        ("Reference answer: yes", None),
        ("The correct answer would be: yes", None),
        ("My answer: yes", "yes"),
        ("Overall answer: yes", "yes"),
        ("Answer to the question: yes", "yes"),
    ],
)
def test_an_answer_that_is_not_the_judges_is_no_verdict(text: str, choice: str | None) -> None:
    assert chosen_in(Reply(text, "stop"), {"yes": 1, "no": 0}) == choice
