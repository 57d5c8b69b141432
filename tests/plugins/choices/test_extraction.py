"""The option that a reply chooses, and the option that a row's target names."""

from __future__ import annotations

import contextlib
import time

import pytest

from harness.errors import Unparseable
from harness.plugins.choices.extraction import ChoiceExtraction

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
    "option (b)": "B",
    "It isn't option (b).": "",
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
    "The answer is A.\nRome": "",
    "The answer is A.\nWait, the map shows the Tiber.\nRome": "B",
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


LANDMARKS = ["Etna", "Rhine", "Sahara", "Everest"]


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("答えはAではなくBです。", "B"),
        ("正解はAではなくBです。", "B"),
        ("答えはA、ではなくBです。", "B"),
        ("答えはAじゃなくてBです。", "B"),
        ("答えはAではなく、火山です。", ""),
        ("정답은 A가 아닌 B입니다.", "B"),
        ("정답은 A가 아니라 B입니다.", "B"),
        ("**Correct answer:** ✅ **B**", "B"),
        ("Eliminating A, C, and D leaves B.", "B"),
        ("That leaves A and B.", ""),
        ("The answer is B. Rhine.\n\n---\n\nNext question: The answer is D.", "B"),
        ("Answer: B\nUser: are you sure?\nAssistant: No, D.", "B"),
        ("B<|endoftext|>Human: D", "B"),
        ("The answer is B.\n\nQuestion 2: Which is a desert?\nAnswer: C", "B"),
        ("Question: Which is a river?\nAnswer: B", "B"),
        ("At first, the answer is B. Final answer: E", ""),
        ("The answer is B? Final answer: None of the above.", ""),
        ("The answer is A. Correction: it's B", "B"),
        ("The answer is A. On reflection, I choose B.", "B"),
        ("The answer is B. Final answer: unknown", ""),
        ("The answer is B.\n\nFinal answer: I don't know", ""),
        ("The answer is B. Actually, I don't know.", ""),
        ("The answer is B.\n\nE", ""),
        ("The answer is B. Final answer: Danube", ""),
        ("The answer is B. The final answer is Danube.", ""),
        ("The answer is B. Final answer: neither", ""),
        ("Answer\uff1aB", "B"),
        ("\u7b54\u6848\uff1aB", "B"),
        ("答案是B", "B"),
        ("\u7b54\u6848\u662fB\u3002", "B"),
        ("\u6b63\u786e\u7b54\u6848\u662f B\u3002", "B"),
        ("\u6240\u4ee5\u9009B\u3002", "B"),
        ("我选择B", "B"),
        ("答案是Ａ", "A"),
        ("Réponse : B", "B"),
        ("La réponse est B.", "B"),
        ("La bonne réponse est la B.", "B"),
        ("Antwort: B", "B"),
        ("Die richtige Antwort ist B.", "B"),
        ("La respuesta es B", "B"),
        ("La respuesta correcta es la B.", "B"),
        ("A resposta correta é a letra B.", "B"),
        ("\u041e\u0442\u0432\u0435\u0442: \u0412", "B"),
        (
            "\u041e\u0442\u0432\u0435\u0442 \u2014 \u0412.",
            "B",
        ),
        ("Ответ: Б", ""),
        ("\u6b63\u89e3\u306fB\u3067\u3059\u3002", "B"),
        ("정답은 B입니다.", "B"),
        ("الجواب: B", "B"),
        ("Ａ", "A"),
        ("\uff22\uff0e", "B"),
        ("\u24b7", "B"),
        ("𝐁", "B"),
        ("The second option is correct.", "B"),
        ("I choose the second option.", "B"),
        ("The answer is the third one.", "C"),
        ("The last option", "D"),
        ("Option B is wrong, so A", "A"),
        ("I would say B, not C", "B"),
        ("A or B", ""),
        ("not A but B", "B"),
        ("between A and B, B", "B"),
        ("Between A and B, I choose B.", "B"),
        ("It's not A but B.", "B"),
        (
            "A. Etna\n\nWhy? B. Rhine is a river, C. Sahara is a desert and D a mountain.",
            "A",
        ),
        ("A. Etna\n\nExplanation:\n- Rhine (B) is a river.\n- Sahara (C) is a desert.", "A"),
        ("A. Etna is a volcano. B is a river, C a desert.", "A"),
        ("I think the answer is B. Wait, actually C", "C"),
        ("The answer is A... wait, actually C.", "C"),
        ("B. Hmm, wait, no. C.", "C"),
        ("~~A~~ B", "B"),
        ("The answer is ~~A~~ B.", "B"),
        ("The answer is <del>A</del> B.", "B"),
        ("The answer is A\u0336 B.", "B"),
        ("The answer is A. ~~The answer is B.~~", "A"),
        ("The answer is A. Ah, but the question asks for a river, so B.", "B"),
        ("The answer is A. But the question asks for a river: B.", "B"),
        ("The answer is A. Whoops, B.", "B"),
        ("The answer is A. Argh, no: B.", "B"),
        ("The answer is A. Not quite: B.", "B"),
        ("The answer is A. Scratch that: B", "B"),
        ("The answer is A. The question asks for a volcano, not a river.", "A"),
        ("The answer is A. No, it's B.", "B"),
        ("Answer: A\n\nSorry, I meant B.", "B"),
        ("The answer is B.\n\nA. Etna\nB. Rhine\nC. Sahara\nD. Everest", "B"),
        ("Answer: B\nOptions: A. Etna B. Rhine C. Sahara D. Everest", "B"),
        ("A. Etna\nB. Rhine\nC. Sahara\nD. Everest\n\nAnswer: B", "B"),
        ("B, though C is also plausible", "B"),
        ("The answer is B, though C is also plausible.", "B"),
        ("The answer is B. C is also plausible, but less so.", "B"),
        ("The answer is B. Does that help?", "B"),
        ("B\n\nDoes that help?", "B"),
        ("It flows through Germany.\n\nB\n\nDoes that help?", "B"),
        ("Answer: B\n\nWould you like to know why it is not A?", "B"),
        ("The answer is B. Is it A? No.", "B"),
        ("The answer is B. If you think it's A, read again.", "B"),
        ("The answer is B. Some think it's C.", "B"),
        ("The answer is B. Some say the answer is C.", "B"),
        ("Many people would choose A, but the answer is B.", "B"),
        ("I don't think the answer is A. So B.", "B"),
        ("If the answer were A, it would erupt. It is B.", "B"),
        ('"B"', "B"),
        ('The answer is "B".', "B"),
        ("The answer is \u201cB\u201d.", "B"),
        ("The answer is «B».", "B"),
        ("```\nB\n```", "B"),
        ("Reasoning here.\n\n```\nAnswer: B\n```", "B"),
        ("Final answer:\n> B", "B"),
        ('The question says "the answer is A". My answer: B', "B"),
        ('My answer: B. The prompt said "Answer: A" as an example.', "B"),
        ("The answer is B.\n> Answer: A", "B"),
        ("\\boxed{B}", "B"),
        ("$\\boxed{\\text{B}}$", "B"),
        ("The answer is A. \\boxed{B}", "B"),
        ("\\boxed{E}", ""),
        ("The answer is B. So \\boxed{E}", ""),
        ("The answer is Rhine (B).", "B"),
        ("The answer is Rhine (A).", ""),
        ("A. Rhine", ""),
        ("Answer: A. Rhine", ""),
        ("(B) Rhine", "B"),
        ("Rhine", "B"),
        ("rhine!", "B"),
        ("The answer is Rhine or Etna.", ""),
        ("Rhine and Etna", ""),
        ("Final choice: E", ""),
        ("I choose E.", ""),
        ("My final answer is (E).", ""),
        ("The correct answer is: B) Rhine.\n\nA) Etna is a volcano\nC) Sahara is a desert", "B"),
        ("The answer is not A. The answer is B.", "B"),
        ("The answer is not listed.", ""),
        ("The answer is B. Hmm, the answer is not listed.", ""),
        ("B is wrong. A is wrong. D is wrong. So C.", "C"),
        ("Answer: A or B", ""),
        ("Answer: A/B", ""),
        ("Answer: A and B", ""),
        ("The answer is both A and B.", ""),
        ("A, B", ""),
        ("Final answer: A (or B)", ""),
        ("The answer to the question is B.", "B"),
        ("The answer to this question is therefore B.", "B"),
        ("The answer is as follows: B", "B"),
        ("The answer is clear: B", "B"),
        ("**Final Answer:** **B**", "B"),
        ("### Answer\nB", "B"),
        ("### Answer\n\n**B. Rhine**\n\nIt is a river.", "B"),
        ("Let me think. A is a volcano. B is a river! So the answer must be B.", "B"),
        ("My first choice is C, but the answer is B", "B"),
        ("I'd go with B, but C is a close second.", "B"),
        ("I'm going with B.", "B"),
        ("Going with B.", "B"),
        ("Let's go with B", "B"),
        ("I'll pick B", "B"),
        ("The best option here is B", "B"),
        ("B is the best answer because it is a river.", "B"),
        ("B seems correct.", "B"),
        ("B.\nThe answer is based on the map.", "B"),
        ("The answer is B. This answer is supported by the map.", "B"),
        ("The answer is B. The answer is obvious.", "B"),
        ("The answer is B. A and C are dry, so both are wrong.", "B"),
        ("The answer is B.\n\nNote: Option A is wrong.", "B"),
        ("Is it B? I don't know.", ""),
        ("Could it be option B?", ""),
        ("Answer: b", "B"),
        ("answer: (b)", "B"),
        ("the answer is b", "B"),
        ("Answer: B.\nConfidence: 90%", "B"),
        ("Answer: B\nExplanation: A is a volcano.", "B"),
        ("Answer: B\nScore: 5/5", "B"),
        ("A? No. B? Yes. So B.", "B"),
        ("Answer: [B]", "B"),
        ("Answer: <B>", "B"),
        ('{"answer": "B"}', "B"),
        ('{"answer": "E"}', ""),
        ('{"answer": "Rhine"}', "B"),
        ("The answer is B as in Bravo", "B"),
        ("Etna is a volcano, so it is not the answer; Rhine is. The answer: Rhine", "B"),
        ("I cannot answer this question.", ""),
        ("I'm sorry, but I can't help.", ""),
        ("The answer is A.\n\nWait, that's not right. The Rhine is a river. The answer is B.", "B"),
        ("A\n\nActually, B.", "B"),
        ("A. Actually no: B", "B"),
        ("The answer is B. Thank you for the question.", "B"),
        ("Final answer: B\n\nI hope this helps!", "B"),
        ("Final answer:", ""),
        ("C is not the answer; the answer is B", "B"),
        ("Neither A nor C: B", "B"),
        ("B > A", "B"),
        ("All of the above", ""),
        ("My answer is B; E is not an option.", "B"),
        ("The answer is B (not A).", "B"),
        ("B (not A)", "B"),
        ("Not A.", ""),
        ("Not B", ""),
        ("Anyone who thinks the answer is A is wrong: the answer is B", "B"),
        ("The answer is A, wait no, B", "B"),
        ("A... no, B", "B"),
        (
            "Therefore, B is correct. However, one might argue that C is correct if deserts count.",
            "B",
        ),
        ("The answer isn't A, it's B.", "B"),
        ("It isn't A. It isn't C. It must be B.", "B"),
        ("B is right and A is wrong", "B"),
        ("Answer - B", "B"),
        ("Answer \u2014 B", "B"),
        ("Answer => B", "B"),
        ("The answer is B.\nQuestion: What is a volcano?\nAnswer: A", "B"),
        ("I first thought the answer is A, but it's B.", "B"),
        (
            "The correct answer is **B. Rhine**, not A. Etna, C. Sahara or D. Everest.",
            "B",
        ),
        ("Choose B.", "B"),
        ("选项B正确", "B"),
        ("Either B or C, but I choose C", "C"),
        ("Answer: B\n\nAnswer: E", ""),
        ("Answer: none", ""),
        ("Answer: The Danube", ""),
        ("The answer is B.\nAnswer: The Danube", ""),
        ("Answer: The river is the Rhine, option B.", "B"),
        ("Answer:\n\nThe Rhine flows north. So B.", "B"),
        ("B\n\nReason for the answer: rivers carry water.", "B"),
        ("(B) Rhine flows.\n\nThe only option for the last place is Eve.", "B"),
        ("B is the best option.\nA. Etna is dry.\nD. None of the above.", "B"),
        ("Etna was the last one left.", ""),
    ],
)
def test_the_last_statement_decides_or_nothing_does(reply: str, letter: str) -> None:
    extraction = ChoiceExtraction(LANDMARKS)
    if letter:
        assert extraction.read(reply) == letter
    else:
        with pytest.raises(Unparseable):
            extraction.read(reply)


PLANETS = ["Mercury", "Venus", "Mars", "Jupiter"]

CORRECTED = {
    "The answer is B. Hmm, actually no. It should be C.": "C",
    "Answer: B. On second thought, C is better.": "C",
    "The answer is B. Scratch that: C.": "C",
    "It's B. Or rather C.": "C",
    "The answer is B, right? Wrong.": "",
    "La réponse est B. Non, plutôt C.": "C",
    "答案是B。不对，应该是C。": "C",
    "答案是B，不，是C": "C",
    "答案是B。更正：C。": "C",
    "答えはBです。いや、Cです。": "C",
    "Respuesta: B. Perdón, C.": "C",
    "La respuesta es B. No, es la C.": "C",
    "Die Antwort ist B. Korrektur: C.": "C",
    "A resposta é B. Na verdade, é C.": "C",
    "The answer is B. Wait, is it C? No, B.": "B",
    "The answer is B. Wait, B is wrong.": "",
    "The answer is B. Actually, A or C.": "",
    "The answer is B. Actually, it is easy.": "B",
    "The answer is B. Sorry, C is wrong.": "B",
    "Answer: B. Actually Mercury is closer to the Sun, but has no air.": "",
    "Answer: B\n\nVenus, rather than Mercury, is the hottest.": "B",
    "The answer is B. Is A hotter? No. A is closer to the Sun, but has no air.": "B",
    "Venus is actually hotter than Mercury, so B": "B",
}
DENIED = {
    "The wrong answer is B.": "",
    "The incorrect answer is B.": "",
    "Least likely: B": "",
    "I would never choose B.": "",
    "It is false that the answer is B.": "",
    "I doubt that the answer is B.": "",
    "不选B": "",
    "The answer is B if you count Venus, or A if not.": "",
    "Let me analyze each option:\n\nA) Mercury - incorrect\nB) Venus - correct ✅\n"
    "C) Mars - incorrect\nD) Jupiter - incorrect": "B",
    "**Option A:** no.\n**Option B:** yes.\n**Option C:** no.\n**Option D:** no.": "B",
    "A) Mercury – incorrect; B) Venus – correct.": "B",
    "A: yes\nB: no\nC: no\nD: no": "A",
    "Mercury is not the hottest. Mars is cold.": "",
    "❌ A": "",
    "I can't see why it's B.": "",
    "Anything but B.": "",
    "B\n\nStatus: A": "",
    "I disagree with B.": "",
    "The opposite of B.": "",
    "I got a B in physics.": "",
    "Grade: B": "",
    "Is B right?": "",
    "The previous answer is B.": "",
    "The correct answer would be B, if not for D.": "",
    "Ce n'est pas B.": "",
    "Bではない": "",
    "A ✗ B ✓ C ✗ D ✗": "B",
    "A\nB\nC\nD": "",
    "Step 1: look at A. Step 2: look at B.": "",
}
REMARKS = [
    "The answer is B. The wrong answer is A.",
    "Answer: B\n\nWrong answers: A",
    "Answer: B\n\nWrong answers:\n- A",
    "Answer: B\n\nOther options:\nA. Mercury\nC. Mars",
    "The answer is B. A common wrong answer is A.",
    "The answer is B. The closest wrong answer is C.",
    "The answer is B. A tempting but incorrect answer is A.",
    "The best answer is B; the worst answer is D.",
    "The answer is B. The least likely answer is D.",
    "Answer: B\n\nThe second best answer is A.",
    "Answer: B\n\nRunner-up: C",
    "Answer: B\n\nAlternative: C",
    "Answer: B\n\nSecond choice: C",
    "The answer is B. Your answer was A, which is incorrect.",
    "The answer is B. The student's answer is A.",
    "The answer is B, but the most common answer is A.",
    "The answer is B. It would be wrong to say the answer is A.",
    "The answer is B. If the question had asked about size, the answer would be D.",
    "The answer is B. For the closest planet, the answer would be A.",
    "Answer: B\nGrade: A",
    "Answer: B\nDifficulty: C",
    "Answer: B\nConfidence: A",
    "Answer: B\nCategory: C",
    "Answer: B\n\nIncorrect answers: A, C, D",
]
CONTRADICTIONS = [
    "Initially I would say A. However, thinking about it again, B is the better choice.",
    "At first glance I would answer A. However, ice floats, so B is the better answer.",
    "I initially chose A. However, B is the better choice.",
    "Final Answer: B\n\nNote: If the question is about heat, the correct answer is A.",
    "**B**\n\nThe answer is A when the question is about heat.",
    "The correct answer is B. For rocky planets, it's C.",
    "Final answer: A → B",
    "Answer: A (changed to B)",
    "C (Venus)",
    "Answer: C, Venus",
    "**C** (Venus)",
    "Answer: C (Venus)",
    "The answer is C, which is Venus.",
    "Venus (C)",
    "B\nC",
    "Answer: C++",
    "Answer: A/N",
    "The answer is C. elegans",
    "The answer is B.C.",
    "I have no idea. Vitamin C helps.",
    "John B. Smith discovered it.",
    "Consider the angle at point B.",
    "It might be B.",
    "Is it Venus?",
    "Mercury is closer to the Sun.",
]
EVERYDAY = """
The hottest planet is Venus. | The hottest planet is B. Venus. | Great question! B. | That's B.
Probably B. | Must be B. | Looks like B. | That would be B. | By elimination, B.
We can eliminate A, C, and D. That leaves B. | B it is. | Definitely Venus. | The right one is B.
Out of the options, B is the best. | The correct letter is B. | Ans. B
The correct answer among the choices is B. | The correct answer from the given options is B. Venus.
- B | - B. Venus | # B | → B | ✅ **B. Venus** | 👉 B | B / Venus | Opción B
La opción correcta es la B) Venus. | C'est B. | Je choisis B. | A resposta é a B
A alternativa correta é a B. | Alternativa B | Letra B | L'opzione corretta è B. | 【答案】B | 选项B
B选项正确 | Bが正しいです。 | الإجابة الصحيحة هي B | सही उत्तर B है। | คำตอบคือ B | Đáp án đúng là B.
Jawaban yang benar adalah B. | Doğru cevap B'dir. | Prawidłowa odpowiedź to B.
Η σωστή απάντηση είναι B. | Správná odpověď je B. | Răspunsul corect este B. | התשובה הנכונה היא B
پاسخ صحیح B است | Oikea vastaus on B. | Вариант B | The answer would be B. | Your answer: B
B<|eot_id|> | Venus (B) | B, Venus | For these reasons, the answer would be B.
"""
EXPECTED = [
    *CORRECTED.items(),
    *DENIED.items(),
    *((reply, "B") for reply in REMARKS),
    *((reply, "") for reply in CONTRADICTIONS),
    *(
        (reply.strip(), "B")
        for line in EVERYDAY.strip().splitlines()
        for reply in line.split(" | ")
    ),
    ("C is my answer", "C"),
    ("First I think A. In conclusion, the answer is B.", "B"),
    ("If we look at the table, the answer is B.", "B"),
    ("The answer is B. If it were hotter, the answer would be A.", "B"),
    ("Venus is correct.", "B"),
    ("Of these, Venus.", "B"),
    ("Without a doubt, B.", "B"),
    ("If I had to choose, the answer would be B.", "B"),
]


@pytest.mark.parametrize(("reply", "letter"), EXPECTED)
def test_a_clear_choice_is_read_and_a_doubtful_one_is_not(reply: str, letter: str) -> None:
    extraction = ChoiceExtraction(PLANETS)
    if letter:
        assert extraction.read(reply) == letter
    else:
        with pytest.raises(Unparseable):
            extraction.read(reply)


@pytest.mark.parametrize(
    ("choices", "reply"),
    [
        (["3", "4", "5", "6"], "The answer is 4,000"),
        (["3", "4", "5", "6"], "-4"),
        (["Hepatitis A", "Hepatitis B", "Malaria", "Flu"], "It comes from bacterium B."),
    ],
)
def test_a_part_of_a_longer_name_or_number_is_no_option(choices: list[str], reply: str) -> None:
    with pytest.raises(Unparseable):
        ChoiceExtraction(choices).read(reply)


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
    "reply",
    [
        "A is the correct answer. B would be the answer for the UK.",
        "The answer is A. For the UK, the correct answer is B.",
        "Answer: A. Had the question been about the UK, B would be the right choice.",
        "The correct answer is A. B is the answer many students give.",
        "The answer is A. Note: in an earlier edition of the test, the answer was B.",
        "Answer: A. Similarly, for Spain the answer is D.",
        "Answer: A\n\nQuestion: What is the capital of Spain?\nAnswer: D",
        "A\n\nQ: What is the capital of Spain?\nA. Rome\nB. Oslo\nAnswer: D",
        "Question: What is the capital of France?\nAnswer: A",
        "I first thought the answer would be B. The answer is A.",
        "The answer is B. Wait, no, the answer would be A.",
    ],
)
def test_remarks_on_other_questions_and_made_up_ones_change_nothing(reply: str) -> None:
    assert ChoiceExtraction(["Paris", "London", "Berlin", "Madrid"]).read(reply) == "A"


@pytest.mark.parametrize(
    "reply",
    [
        "I refuse to pick B. The answer is A.",
        "Let me go with A.",
        "I am choosing A.",
        "The right one is A.",
        "The answer is A. Could it be B? No.",
        "The answer is A. Is anything else possible?\n\nNo.",
        "The answer is A. None of the other options are right.",
        "Eliminated: B, C, D\nAnswer: A",
        "B is out. So the answer is A.",
        "Answer: A 👍",
        '{"answer": "A", "rejected": "B"}',
        '{"previous_answer": "B", "final_answer": "A"}',
        "A is what I would answer.",
        "The answer is A.\n\nB: This is incorrect because it is in England.",
    ],
)
def test_a_denial_of_others_leaves_the_choice(reply: str) -> None:
    assert ChoiceExtraction(["Paris", "London", "Berlin", "Madrid"]).read(reply) == "A"


@pytest.mark.parametrize(
    "reply",
    [
        "B. No",
        "**B. No**",
        "B: No",
        "The answer is B. No.",
        "The answer is B: No.",
        "Answer: B\n\nNo.",
    ],
)
def test_an_option_may_be_a_word_that_takes_back(reply: str) -> None:
    assert ChoiceExtraction(["Yes", "No"]).read(reply) == "B"
    with pytest.raises(Unparseable):
        ChoiceExtraction(["Rome", "Paris"]).read(f"{reply}. Nope.")


# Corrections in words that no list has: never the option that was withdrawn.
WITHDRAWN = """
Die Antwort ist B. Moment, nein: A ist richtig. | Het antwoord is B. Nee wacht, A is juist.
Odpowiedź: B. Zaraz, pomyliłem się: A. | Cevap: B. Pardon, A olmalı.
उत्तर: B। माफ़ कीजिए, A सही है। | الجواب هو B. لحظة، لا، الصحيح هو A.
La réponse est B. Attendez, je me trompe : A est la bonne. | La risposta è B. Anzi, A.
Svaret är B. Vänta, A är rätt. | Ответ: B. Хотя подождите, правильно A.
答えはBです。あ、待って、Aが正しいです。 | 정답은 B입니다. 잠깐만요, A가 맞습니다.
A resposta é B. Espera, A é a correta. | Câu trả lời là B. Khoan đã, A mới đúng.
B. Hmm, Rome is in Italy though. So I change my answer to A. | The answer is B. Hold on. A.
Ответ: B. Немного подумав: A. | 答案是B。等等，我错了，是A。 | Antwort: B. Das stimmt nicht ganz: A.
The answer is B. Rechecking... A it is. | The answer is B. My mistake, it should be A.
The answer is B. Scratch that. | The answer is B. No, that's wrong.
The answer is B. Hold on. The problem says per week. | The answer is B. Actually, that's too high.
Die Antwort ist B. Moment, das ist falsch. | La respuesta es B. Espera, eso es incorrecto.
A resposta é B. Espere, isso está errado. | 정답은 B입니다. 잠깐, 틀렸습니다.
Câu trả lời là B. Khoan, sai rồi. | Cevap: B. Bekle, bu yanlış. | الجواب هو B. انتظر، هذا خطأ.
Antwort: B. Das stimmt nicht.
The answer is B. Let me double-check... I was wrong. | 答案是B。错了。
答案是B。等等，我算错了，是第一个。
The answer is B. However, upon checking, the right letter turns out to be A
The answer is B. Let me double-check: 465 > 430. So the first one wins.
Answer: B or rather A | Answer: B. Strike B, use A. | Svaret är inte B | 答えはBではない
The user said "The answer is B". I disagree. | The prompt claims: "Answer: B". That is false.
The answer is B, I guess not. | The answer is B is what most people say, but they are wrong.
Answer: B. Rome... Actually I am not sure; could be anything.
Final answer: B? Probably not. | Answer: B. Just kidding, none.
If the question were about the closest, the answer is B. | 답은 B가 아니다 | उत्तर B नहीं है
The answer is B. Let me go with A instead. | The answer is B. None of these are right.
Thus, the answer is B. However, the key says A, which I believe is right.
The answer is B. I would change it to A. | Answer: B — changed my mind, A | Answer: B, er, A
The answer is B. Just to be clear, I am choosing A. | The answer is B. Ignore the above.
The answer is B. No. | Answer: B (Self-check: this is wrong. The right one is A.)
The answer is B. A is what I'd go with. | The answer is B. I retract that.
I disagree that the answer is B. | No way it's B. | B is out. | Hardly B. | I refuse to pick B.
I decline to choose B. | B, of course, is wrong. | B is a distractor. | B is clearly wrong.
Answer: B 👎 | Answer: B 🚫 | Eliminated: B | Not chosen: B | To rule out: B. | Worst option: B
Rejected: B | Distractor: B | 답은 B가 아닙니다. | I deny that it's B. | I would never go with B.
{"answer": "B", "corrected_answer": "A"} | {"rejected":"B"} | {"rejected_option": "B"}
<answer>A</answer> not <answer>B</answer> | {"answer": "B", "final": "A"} | {"not": "B"}
B is off the table. | Forget B. | Skip B. | B is a bad choice. | B is the worst. | (B) is a trap.
The answer is B. Nah. | The answer is B. Not really. | The answer is B. Never mind. | Bad: B
The answer is B. That was a guess; the actual one is A. | The answer is B. I withdraw that.
Option B is eliminated. | {"eliminated": ["B"]} | I object to B. | I dispute that it's B.
Answer: B ⛔
<think>The answer is B. | <think>The answer is B.</think> | Antwort: B. Ups, falsch.
B (60%) or C (40%) | B (likely) or C | The answer is B (possibly C). | B — or maybe C?
**B** (60 %), **C** (40 %) | B (60%), C (40%) | 答案：B（或C）
Creo que es la B. Espera, no. No lo sé.
Die Antwort ist B. Doch nicht, ich weiß es nicht. | La respuesta es B. Ninguna de las anteriores.
Resposta: B. Na verdade, nenhuma das opções. | 答案是B。其实我不确定。
正解はB。いや、わかりません。
Die Antwort ist B. Eigentlich ist keine der Optionen richtig. | 답은 B. 사실 모르겠습니다.
Réponse : B. En fait, je ne sais pas. | Ответ: B. Нет, я не знаю. | Risposta: B. Anzi, non lo so.
"""


@pytest.mark.parametrize(
    "reply",
    [reply.strip() for line in WITHDRAWN.strip().splitlines() for reply in line.split(" | ")],
)
def test_a_withdrawn_choice_is_never_read(reply: str) -> None:
    try:
        letter = ChoiceExtraction(CHOICES).read(reply)
    except Unparseable:
        return
    assert letter == "A"


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("Nicht A, sondern B.", "B"),
        ("The answer is A (I'm fairly sure).", "A"),
        ("Antwort A ist richtig.", "A"),
        ("Ich würde A sagen.", "A"),
        ("答案是 A（巴黎）。", "A"),
        ("Câu trả lời là A.", "A"),
        ("B! Final answer. Do you want to know why A, C and D are wrong?", "B"),
        ("Die Antwort ist A. B ist falsch, weil Rom in Italien liegt.", "A"),
        ("Die Antwort ist A. B ist falsch, weil Rome in Italien liegt.", "A"),
        ("答案是A。B是错误的。", "A"),
    ],
)
def test_a_clear_choice_is_read_in_many_languages(reply: str, letter: str) -> None:
    assert ChoiceExtraction(CHOICES).read(reply) == letter


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("No, that is not true.", "B"),
        ("No, that is wrong.", "B"),
        ("Yes, it is.", "A"),
        ("Yes. No doubt about it.", "A"),
        ("Yes, 91 is divisible by 7, so yes, it is composite.", "A"),
        ("No. On reflection, the answer is Yes.", "A"),
    ],
)
def test_the_text_of_an_option_may_open_a_reply(reply: str, letter: str) -> None:
    assert ChoiceExtraction(["Yes", "No"]).read(reply) == letter


def test_a_sentence_that_opens_with_an_option_and_concludes_with_another_chooses_nothing() -> None:
    with pytest.raises(Unparseable):
        ChoiceExtraction(["Yes", "No"]).read("No, 91 is divisible by 7 and 13, so yes, it is one.")


@pytest.mark.parametrize(
    ("choices", "reply", "letter"),
    [
        (["True", "False"], "The statement is false.", "B"),
        (["True", "False"], "This is true.", "A"),
        (["A", "B", "AB", "O"], "The blood type is AB.", "C"),
        (["A", "B", "AB", "O"], "AB", "C"),
    ],
)
def test_the_text_of_an_option_may_be_a_doubt_or_letters(
    choices: list[str], reply: str, letter: str
) -> None:
    assert ChoiceExtraction(choices).read(reply) == letter


def test_a_correction_may_name_its_noun_twice() -> None:
    reply = "The answer is B.\n\nCorrection: the answer should be D."
    assert ChoiceExtraction(CHOICES).read(reply) == "D"


def test_the_last_option_of_a_list_is_no_choice() -> None:
    with pytest.raises(Unparseable):
        ChoiceExtraction(CHOICES[:3]).read("A. Paris\nB. Rome (correct)\nC. a dog")


def test_a_reply_that_names_both_options_of_two_in_its_reasons_is_unparseable() -> None:
    with pytest.raises(Unparseable):
        ChoiceExtraction(["Yes", "No"]).read("It depends. In some cases yes, in others no.")


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        *((reply, "B") for reply in ("2", "**2**", "(2)", "2.", "Option 2", "The answer is 2.")),
        ("\\boxed{2}", "B"),
        ("2. Rhine", "B"),
        ("There are 4 options. The answer is 2.", "B"),
        ("Answer: 2) Rhine\n\nThere are 8 rivers and 3 of them are longer.", "B"),
        ("1. Etna is a volcano.\n2. Rhine is a river.\n\nAnswer: 2", "B"),
        ("The answer is 2. Correction: it is option 3", "C"),
        ("The answer is 1 or 2.", ""),
        ("5", ""),
        ("The answer is 2.5", ""),
        ("The answer is 2 × 1", ""),
        ("12", ""),
        ("1. Etna\n2. Rhine\n3. Sahara\n4. Everest", ""),
        ("2 × 2 = 4", ""),
    ],
)
def test_options_with_numbers_are_read_by_number(reply: str, letter: str) -> None:
    extraction = ChoiceExtraction(LANDMARKS, ["1", "2", "3", "4"])
    if letter:
        assert extraction.read(reply) == letter
    else:
        with pytest.raises(Unparseable):
            extraction.read(reply)


RIVERS = ChoiceExtraction(["Etna", "Rhine", "Sahara", "Everest"])


@pytest.mark.parametrize(
    "reply",
    [
        "The correct answer is C, although many people would pick B.",
        "The correct answer is C, although many people would choose B.",
        "The correct answer is C. Many students pick B.",
        "The answer is C, even though one might go with B.",
        "**Answer: C**\n\nMost people choose B because it sounds familiar.",
        "The correct answer is C, though I can see why someone would say B.",
        "Die richtige Antwort ist C, auch wenn viele B wählen würden.",
        "La bonne réponse est C, même si beaucoup choisiraient B.",
        "La respuesta correcta es C, aunque muchos elegirían B.",
        "正确答案是C，虽然很多人会选B。",
        "正解はCです。多くの人はBを選びます。",
        "I would pick C. A less careful reader would pick B.",
        "The correct answer is C (a naive solver would answer B).",
        "The answer is C, while option B would be correct if the question asked about Europe.",
        "The correct option is C; a careless reader might select B.",
        "The correct answer is C, but most people would guess B.",
        "The answer is C, whereas a beginner would select B.",
        "**The correct answer is C.** At first glance you might choose B.",
        "The correct answer is C, not B as some would answer.",
        "Answer: C. (Without the map, I would have chosen B.)",
        "Answer: C\n\nIf the question were about Asia, I would choose B.",
        "The correct answer is C; students often choose B.",
        "答案：C。很多同学会误选B。",
        "正确答案是C，而不少人选择了B。",
        "The correct answer is C, and if it were not for the word 'desert', I'd pick B.",
        "The answer is C. Some experts would go with B.",
        "I'd choose C over B.",
        "I choose C rather than B.",
    ],
)
def test_what_others_would_choose_is_no_choice(reply: str) -> None:
    try:
        letter = RIVERS.read(reply)
    except Unparseable:
        return
    assert letter == "C"


@pytest.mark.parametrize(
    "reply",
    [
        "I would pick B.",
        "I'd choose B.",
        "If I had to choose, I would pick B.",
        "The correct answer is B, although many people would pick C.",
        "我会选B。",
        "选B。",
    ],
)
def test_what_the_reply_would_choose_is_its_choice(reply: str) -> None:
    assert RIVERS.read(reply) == "B"


@pytest.mark.parametrize(
    "reply",
    [
        (
            "A. Etna – a volcano. ❌\nB. Rhine – a river. ✅\nC. Sahara – a desert. "
            "❌\nD. Everest – a mountain. ❌"
        ),
        "A选项错误，B选项正确，C选项错误，D选项错误。",
        "- A: incorrect\n- B: correct\n- C: incorrect\n- D: incorrect",
        "A) Falsch – Vulkan\nB) Richtig – Fluss\nC) Falsch – Wüste\nD) Falsch – Berg",
        (
            "**A.** Etna: incorrect, it is a volcano.\n**B.** Rhine: correct, it "
            "is a river.\n**C.** Sahara: incorrect.\n**D.** Everest: incorrect."
        ),
        "1. Etna is a volcano, so no.\n2. Rhine is a river, so yes.\n\nTherefore B.",
    ],
)
def test_the_only_option_that_is_called_right_is_chosen(reply: str) -> None:
    assert RIVERS.read(reply) == "B"


@pytest.mark.parametrize(
    "reply",
    [
        "A. Etna ❌\nB. Rhine ✅\nC. Sahara ✅\nD. Everest ❌",
        "A选项错误，B选项不正确，C选项错误，D选项错误。",
    ],
)
def test_options_that_are_not_all_judged_choose_nothing(reply: str) -> None:
    with pytest.raises(Unparseable):
        RIVERS.read(reply)


CITIES = ChoiceExtraction(["Lisbon", "Madrid", "Porto", "Seville"])


@pytest.mark.parametrize("answer", ["Answer: C. ", "The answer is Porto. ", "**Answer: C**\n\n"])
@pytest.mark.parametrize(
    "correction",
    [
        "I should have said A.",
        "It ought to be A.",
        "The correct value: A",
        "Please disregard this and take A.",
        "Ignore the above and take A.",
        "I'd change this to A.",
        "I'd change this.",
        "Please replace C with A.",
        "Nope, A.",
        "That's not right.",
    ],
)
def test_a_correction_takes_a_choice_back(answer: str, correction: str) -> None:
    with contextlib.suppress(Unparseable):
        assert CITIES.read(answer + correction) == "A"


@pytest.mark.parametrize(
    ("reply", "is_read"),
    [
        ("Answer: A\n\nB could also be argued, but Lisbon is the official capital.", True),
        ("The answer is A. That said, C is the answer many textbooks give.", True),
        ("The answer is A. The trick answer is C.", True),
        ("The answer is A. The answer to the other question is C.", True),
        ("The answer is A. Were the question about Spain, the answer would be B.", True),
        ("The answer is A. For Spain it would be B.", True),
        ("The answer is A, unless you mean Spain, in which case it is B.", False),
        ("Answer: A\n\nIf you meant Spain, it's B.", False),
        ("Answer: A\n\nAssuming you mean Spain, the answer is B.", False),
        ("The answer is A. Had the question been about Spain, it should be B.", False),
    ],
)
def test_a_remark_or_a_condition_after_a_choice_is_no_other_choice(
    reply: str, is_read: bool
) -> None:
    if is_read:
        assert CITIES.read(reply) == "A"
    else:
        with pytest.raises(Unparseable):
            CITIES.read(reply)


@pytest.mark.parametrize(
    "doubt",
    [
        "On second thought I am not sure; it could also be B. I can't decide between the two.",
        "It could also be B.",
        "It may be C.",
        "Actually, it could also be B.",
        "Hmm, it might be C.",
        "I can't decide between A and B.",
    ],
)
def test_a_doubt_as_the_last_statement_is_no_choice(doubt: str) -> None:
    with pytest.raises(Unparseable):
        CITIES.read(f"Answer: A\n\n{doubt}")
    assert CITIES.read(f"{doubt} But the answer is A.") == "A"


@pytest.mark.parametrize(
    "reply",
    [
        "B) Paris",
        "**B) Paris**",
        "(B) Paris",
        "Answer: B. Paris",
        "The answer is B (Paris).",
        "The answer is Paris (B).",
        "Option B: Paris",
        "**B**: Paris is the capital",
        'B) "Paris"',
        "B is correct: Paris.",
        "B) Paris is the right answer.",
        "Answer: B\nParis",
        "The answer is B (Paris, the capital of France).",
        "The correct option is B, Paris, the capital.",
        "答案是B，Paris。",
        "\\boxed{B. Paris}",
        "<answer>B. Paris</answer>",
    ],
)
def test_a_letter_beside_the_text_of_another_option_chooses_nothing(reply: str) -> None:
    with pytest.raises(Unparseable):
        ChoiceExtraction(CHOICES).read(reply)


@pytest.mark.parametrize(
    "remark",
    [
        "A common mistake is to choose A.",
        "A naive reader would say the answer is A.",
        "It's easy to think the answer is A.",
        "Intuition suggests that the answer is A.",
        "According to some sources, the answer is A.",
        "My colleague believes the answer is A.",
        "ChatGPT told me the answer is A.",
        "I was tempted to say that the answer is A.",
        "The answer is A, according to some.",
        "A is often chosen by people who think of France.",
        "Don't fall for A!",
        "Nobody would say that the answer is A.",
        "I was going to say A.",
    ],
)
def test_what_others_choose_is_no_choice_before_or_after(remark: str) -> None:
    parser = ChoiceExtraction(CHOICES)
    for text in (
        f"The answer is B. {remark}",
        f"Final answer: B\n\n{remark}",
        f"{remark}\n\nFinal answer: B",
    ):
        assert parser.read(text) == "B", text


@pytest.mark.parametrize(
    "remark",
    [
        "The obvious answer is A.",
        "In the old edition, the answer is A.",
        "Rumor has it that the answer is A.",
    ],
)
def test_an_announcement_that_may_be_anothers_never_wins(remark: str) -> None:
    try:
        letter = ChoiceExtraction(CHOICES).read(f"The answer is B. {remark}")
    except Unparseable:
        return
    assert letter == "B"


@pytest.mark.parametrize(
    "reply",
    [
        "The answer is A. That is for last year. This year: B",
        "Answer: A\nThat was for last year. For this year: B",
    ],
)
def test_an_answer_for_another_time_is_replaced(reply: str) -> None:
    assert ChoiceExtraction(CHOICES).read(reply) == "B"


PLACES = ["Etna", "Rhine", "Sahara", "Alps"]


@pytest.mark.parametrize(
    "reply",
    [
        "A. False\nB. True\nC. False\nD. False",
        "A. Falsch\nB. Richtig\nC. Falsch\nD. Falsch",
        "A. Faux\nB. Vrai\nC. Faux\nD. Faux",
        "A. False; B. True; C. False; D. False",
    ],
)
def test_the_only_option_called_right_is_chosen(reply: str) -> None:
    assert ChoiceExtraction(PLACES).read(reply) == "B"


@pytest.mark.parametrize(
    "reply",
    [
        "A. Volcano\nB. River\nC. Desert\nD. Mountains",
        "A. Volcano, B. River, C. Desert, D. Mountains",
        "A. Unlikely\nB. Certain\nC. Unlikely\nD. Unlikely",
        "A. False\nB. True",
        "A. False",
        "I can't help with that, but the format would be: Answer: B",
        "There's no question here. Please send it, and I'll reply with e.g. \"Answer: B\".",
        "Please share the question, and I'll answer in the form: Answer: B",
    ],
)
def test_a_description_of_options_or_a_format_is_no_choice(reply: str) -> None:
    with pytest.raises(Unparseable):
        ChoiceExtraction(PLACES).read(reply)


def test_an_option_may_be_named_false() -> None:
    assert ChoiceExtraction(["False", "True"]).read("A. False") == "A"
    assert ChoiceExtraction(PLACES).read("Here is my answer in the requested form: B") == "B"
    assert ChoiceExtraction(["go", "went"]).read("The correct form is B.") == "B"


def test_many_lines_of_bullets_take_bounded_time() -> None:
    start = time.process_time()
    with pytest.raises(Unparseable):
        ChoiceExtraction(PLACES).read("\n✅ " * 20_000)
    assert time.process_time() - start < 5
