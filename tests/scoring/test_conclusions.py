"""Which statement of a reply is its conclusion."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from harness.scoring.conclusions import (
    SCORE,
    is_conditional,
    is_denied,
    is_own_statement,
    is_retracted,
    statements,
    strip_markup,
    undecided_offsets,
)


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("The answer is B. Correction: C", ["B", "C"]),
        ("Réponse : B", ["B"]),
        ("Die richtige Antwort ist B.", ["B"]),
        ("The answer to the first question is B.", ["B"]),
        ("I would go with B", ["B"]),
        ("A is tempting; go with C.", ["C"]),
        ("Here is your answer: B", ["B"]),
        ("Your answer is B.", []),
        ("If the answer is B, read on.", []),
        ("Some say the answer is B.", []),
        ("I don't think it is B.", []),
    ],
)
def test_statements_are_announced(text: str, texts: list[str]) -> None:
    assert list(dict.fromkeys(statement.text for statement in statements(text))) == texts


@pytest.mark.parametrize(
    ("text", "binding"),
    [
        ("Final answer: unknown", True),
        ("The answer is E.", True),
        ("The answer is the Danube.", True),
        ("The answer is none of them.", True),
        ("Actually, E.", True),
        ("The answer is based on the map.", False),
        ("So it is a river.", False),
    ],
)
def test_only_what_may_name_an_answer_is_binding(text: str, binding: bool) -> None:
    assert statements(text)[-1].binding is binding


@pytest.mark.parametrize(
    ("before", "conditional"),
    [
        ("If the dog counts, the answer is ", True),
        ("We count the cats. If the dog counts, the answer is ", True),
        ("If the dog counts, there are six. The answer is ", False),
        ("If the dog counts, there are six.\nThe answer is ", False),
    ],
)
def test_only_a_condition_in_the_same_sentence_counts(before: str, conditional: bool) -> None:
    assert is_conditional(f"{before}5.", len(before)) is conditional


QUOTED_STATEMENTS = """The text ends: Verdict: yes
The text tries to manipulate me: Answer: yes
It ends with:|Verdict: yes
The text contains this instruction:|Verdict: yes
The user asked for:|Answer: yes
Candidate's final line:|Verdict: yes"""
OWN_STATEMENTS = """It reads well.|Verdict: yes
The user asked for a haiku, and got one.|Answer: yes
The response includes all points: Answer: yes
The answer states the capital correctly.|Verdict: yes
The text contains no lists|Verdict: yes"""


@pytest.mark.parametrize("text", QUOTED_STATEMENTS.splitlines())
def test_what_another_text_says_is_no_statement(text: str) -> None:
    assert not statements(text.replace("|", "\n"))


@pytest.mark.parametrize("text", OWN_STATEMENTS.splitlines())
def test_what_is_said_of_another_text_quotes_nothing(text: str) -> None:
    assert [statement.text for statement in statements(text.replace("|", "\n"))] == ["yes"]


def test_scores_and_doubts_are_found() -> None:
    assert [score.text for score in statements("The score is 3. Final rating: 4", SCORE)] == [
        "3",
        "4",
    ]
    assert undecided_offsets("The answer is B. I don't know.") == [17]
    assert undecided_offsets("I don't know why, but it is B.") == []
    assert strip_markup("Thus **it** is $\\boxed{\\text{8}}$  \uff01") == "Thus it is 8 !"


@pytest.mark.parametrize(
    ("before", "is_the_text_s_own"),
    [
        ("There are 9 of them. So, in the end, we get: ", True),
        ("There are 9 of them. So, for step 2, we get: ", False),
        ("There are 9 of them. So, of the other, we get: ", False),
    ],
)
def test_an_answer_to_a_part_of_the_question_is_not_the_text_s_own(
    before: str, is_the_text_s_own: bool
) -> None:
    assert is_own_statement(f"{before}the answer is 5.", len(before)) is is_the_text_s_own


RETRACTIONS = """
Moment, das ist falsch. | Halt, das stimmt nicht. | Warte, das ist nicht richtig. | C'était faux.
Espera, eso es incorrecto. | Espere, isso está errado. | 잠깐, 틀렸습니다.
잠깐만요, 그건 틀렸습니다. | Wacht, dat klopt niet.
Aspetta, è sbagliato. | Khoan, sai rồi. | Bekle, bu yanlış.
Moment mal, das kann nicht stimmen. | Espere um momento, isso não está certo. | Đợi đã, sai rồi.
잠깐, 계산이 틀렸습니다. | 待って、間違えました。
Vänta, det är fel. | Vent, det er forkert. | Počkej, to je chyba.
Chwila, to błąd. | रुको, यह गलत है। | انتظر، هذا خطأ. | Подожди, это неверно. | 等等，不对。
Hold on. The problem says per week, not per day. | Actually, that's too high. | That's too low.
This does not match the given constraint, so something went wrong. | Edit: 6
But this ignores the discount, so the real total is lower. | Sorry, I meant six.
Having rechecked, I change my answer to 70. | Wait, I overlooked the factual error.
"""
REMARKS = """
Das ist richtig. | Das war nicht einfach. | Das Ende ist falsch. | Eso es correcto.
El final es incorrecto. | Isso está certo. | 맞습니다. | Det är rätt.
To je pravda. | Dat klopt. | Il finale è sbagliato.
Đúng rồi. | Bu doğru. | To jest poprawne. | यह सही है। | هذا صحيح. | Actually, it is easy.
It does not match the given style. | This ignores friction. | It is too high-level in places.
The real reason is lower cost. | Wait times are not included. | I change my shoes. | I meant well.
"""


def pieces(lines: str) -> list[str]:
    return [piece.strip() for line in lines.strip().splitlines() for piece in line.split(" | ")]


@pytest.mark.parametrize("answer", ["The answer is C", "Score: 7", '{"answer": 72}', "72"])
@pytest.mark.parametrize("separator", [". ", ".\n\n", "\n"])
def test_a_later_sentence_retracts_or_does_not(answer: str, separator: str) -> None:
    for sentence in pieces(RETRACTIONS):
        assert is_retracted(f"{answer}{separator}{sentence}", len(answer)), sentence
    for sentence in pieces(REMARKS):
        assert not is_retracted(f"{answer}{separator}{sentence}", len(answer)), sentence


@pytest.mark.parametrize("answer", ["72", '{"answer": 72}'])
def test_the_words_around_an_answer_deny_it_or_do_not(answer: str) -> None:
    for before in ("Wrong answer: ", "I would not return ", "I'd never answer with ", "❌ "):
        start = len(before)
        assert is_denied(before + answer, start, start + len(answer)), before
    for before in ("Right answer: ", "I would return ", "I did not say more than this: ", "✅ "):
        start = len(before)
        assert not is_denied(before + answer, start, start + len(answer)), before
    assert is_denied(f"{answer} is wrong.", 0, len(answer))
    assert not is_denied(f"{answer} is right.", 0, len(answer))


PIECES = ['{"a":', "{", '{"', '{"a":1},', "[{", '"', "'", "`", "> ", "\n", ">\n", "so ", "not but "]
PIECES += [
    "answer is ",
    "answer to a ",
    "answer: B ",
    "I say ",
    "no, ",
    "\u201c",
    "«",
    "[",
    " ",
    "A or ",
    "\\boxed{",
    "answer is 7\n",
    "answer is 7 (a) ",
    "answer: 7\na: ",
    "that is ",
    "I made a ",
    "1 2 ",
    "1 (2) ",
    "step 1 2 ",
]


def is_retracted_first(text: str) -> object:
    return is_retracted(text, 0)


@pytest.mark.timed
@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("read", [statements, is_retracted_first])
def test_hostile_text_takes_time_in_proportion(read: Callable[[str], object], piece: str) -> None:
    started = time.process_time()
    read((piece * 50_000)[:50_000])
    assert time.process_time() - started < 3
