"""Which last number is the result, and which one only says something about it."""

import pytest

from harness.errors import Unparseable
from harness.plugins.short_answers.final_numbers import read_number

# Each reply answers with 35, or with several numbers, and says something about another one.
CHECKED_AFTERWARDS = [
    "x = 35. Plugging it in: 2·35+10 = 80.",
    "x = 35, which checks out: 70 + 10 = 80",
    "2x + 10 = 80, that is x = 35\n2·35+10 = 80",
    "Tom had 50 and gave 15 away. He has 35 left. 35 + 15 = 50.",
    "There are 35 apples. 35 + 15 = 50, which matches the original amount.",
    "There are 35 apples. 35 + 15 = 50 ✓",
    "Tom has 35 apples. Substituting: 35 + 15 = 50",
]
ARGUMENTS = [
    "y = 35 where x = 5",
    "y = 35 at x = 5",
    "y = 35 for the value x = 5",
    "the maximum is 35. It occurs at x = 5",
    "The maximum is 35, attained at x = 5.",
    "The minimum value is 35 for x = 5",
    "f has its maximum 35 at **x = 5**",
    "P = 35 given n = 5",
    "Das Maximum ist 35 für x = 5",
    "Le maximum est 35 pour x = 5",
    "The maximum is f(5) = 35. It is reached when x = 5.",
]
REJECTED = [
    "x = 35, but x = -7 is extraneous",
    "x = 35. However, x = -7 is extraneous.",
    "x = 35. We reject x = -7.",
    "x = 35, and we discard the negative root x = -7",
    "x = 35. The other root, x = -7, is not valid.",
    "x = 35. The value x = -7 is rejected.",
    "x = 35. The negative solution x = -7 makes no sense here.",
    "x = 35. Disregard x = -7.",
    "x = 35. The solution x = -7 does not apply.",
    "x = 35. The result x = -7 is ruled out.",
]
SIDE_REMARKS = [
    "He pays $35, so he saves $15",
    "He pays $35, and therefore saves $15",
    "He pays $35, so then they earn 15 coins.",
    "She is 35 years old. In 5 years she will be 40",
    "Anna is 35. Next year she will be 36.",
    "Anna is 35. Tomorrow her age will be 36.",
    "It costs $35. With tax it would be $38.",
    "It costs $35. The old price might be $38.",
    "It is 35 km. In 2 hours it will be 40.",
    "It costs $35. Later, the price will be $38.",
]
ALTERNATIVES = [
    "The solutions are x = 12 and x = -3",
    "There are two solutions: x = 12, x = -3.",
    "The positive root is x = 12; the negative root is x = -3.",
    "x = 4, x = 7",
    "x = 4 and y = 7",
    "So x = 4 and y = 7.",
    "x = 4 cm and y = 7 cm",
    "x = 4\ny = 7",
    "- x = 4\n- y = 7",
    "**x = 4**, **y = 7**",
    "$x = 4$ and $y = 7$",
    "x_1 = 4, x_2 = 7",
    "x=4 & y=7",
    "Width = 4 m, height = 7 m",
    "Tickets: 4\nPrice = 7",
    "x = 4 y y = 7",
]


@pytest.mark.parametrize(
    "reply", [*CHECKED_AFTERWARDS, *ARGUMENTS, *REJECTED, *SIDE_REMARKS, *ALTERNATIVES]
)
def test_what_is_said_about_a_result_does_not_replace_it(reply: str) -> None:
    with pytest.raises(Unparseable):
        read_number(reply, "last")


@pytest.mark.parametrize(
    "reply",
    [
        "x = 4 + 4 = 8",
        "x = 16/2\nx = 8",
        "2x = 16 and x = 8",
        "10 - x = 2, x = 8",
        "x = 8, x = 8",
        "a = 3, b = 5, so a + b = 8.",
        "x = 3, y = 5. The sum x + y = 8",
        "a = 4 and b = 2, therefore ab = 8",
        "x = 4, but then x = 8",
        "x = 4. Correction: x = 8",
        "Alice = 3, Bob = 5, total = 8",
        "At x = 2, f(x) = 4·2 = 8.",
        "For n = 3, the value is 2^3 = 8.",
        "Substituting x = 2 into the first equation: y = 4·2 = 8",
        "Plugging in x = 2 gives 4, so y = 8",
        "3 + 5 = 8 ✓",
        "2 * 2 = 4, 2 + 2 = 4, 4 + 4 = 8\nAgain:\n2 * 2 = 4, 2 + 2 = 4, 4 + 4 = 8",
        "2 x 1 = 2, 3 x 2 = 6, 2 + 6 = 8\nAgain:\n2 x 1 = 2, 3 x 2 = 6, 2 + 6 = 8",
        "She buys 4 pens at $2 each, so she pays $8.",
        "Each box holds 4 pens, so it takes 8 boxes.",
        "He pays $12, so he keeps $8 of it in total.",
        "3 in May and 5 in June: the total will be 8.",
        "Last year there were 5. Now there will be 8 left.",
        "12. Scratch that: 8",
        "12. Whoops, 8!",
        "12. My mistake, it should be 8.",
        "The total is 12. Ah, but the question asks for the rest, so 8",
        "~~12~~ 8",
        "The answer is 8. ~~No, wait, it is 12.~~",
        "x = 2\n\nSubstituting x = 2 into the first equation: y = 4·2 = 8",
        "She has <del>12</del> 8 apples",
        "1\u03362\u0336 8",
    ],
)
def test_a_derivation_or_correction_still_leads_to_its_result(reply: str) -> None:
    assert read_number(reply, "last") == 8


@pytest.mark.parametrize(
    "remark",
    [
        "A common misconception is that the answer is 15.",
        "A common mistake is to think the answer is 15.",
        "It is a myth that the answer is 15.",
        "Do not be misled into thinking the answer is 15.",
        "Nobody believes the answer is 15.",
        "Most textbooks from the 1950s say that the answer is 15.",
        "Critics claim the answer is 15.",
        "The teacher said the answer is 15.",
        "The hint states that the answer is 15.",
        "Your friend's answer was 15.",
        "Without the discount, the answer would be 15.",
        "Without this step, we'd conclude that the answer is 15.",
        "The answer to the follow-up question is 15.",
        "很多人误以为答案是15。",
        "Viele denken, die Antwort ist 15.",
    ],
)
def test_what_others_are_said_to_answer_is_no_answer(remark: str) -> None:
    try:
        number = read_number(f"Answer: 12\n\n{remark}", "last")
    except Unparseable:
        return
    assert number == 12


@pytest.mark.parametrize("reply", ["As I said, the answer is 15.", "I claim the answer is 15."])
def test_what_the_reply_itself_says_is_its_answer(reply: str) -> None:
    assert read_number(reply, "last") == 15


@pytest.mark.parametrize(
    "reply",
    [
        "So the total is 35 apples.\n\nTo check: 35 - 15 = 20.",
        "x = 35\n\nWe can verify: 2*35 + 10 = 80",
        "x = 35. We can confirm this: 2·35 + 10 = 80.",
        "x = 35. This satisfies the equation, as 2·35 + 10 = 80.",
        "x = 35; to verify, 2(35)+10 = 80",
        "He has 35 left. Proof: 35 + 15 = 50.",
        "The total is 35. Testing: 35 - 15 = 20.",
        "x = 35\n\nCheck: 2*35 + 10 = 80. ✓",
        "x = 35\n\n**Check:** 2(35) + 10 = 70 + 10 = 80 ✓",
        "x = 35\n\n*Verification:* 2 × 35 + 10 = 80, which matches the equation.",
        "**x = 35**\n\nYou can verify this by substituting back: 2(35) + 10 = 80.",
    ],
)
def test_a_proof_of_the_number_before_it_changes_nothing(reply: str) -> None:
    assert read_number(reply, "last") == 35
    with pytest.raises(Unparseable):
        read_number(f"{reply}\n\nThe other 26 are gone.", "last")


@pytest.mark.parametrize(
    "reply",
    [
        "The remainder when 87 is divided by 45 is 42.",
        "So the sum of all numbers after 3 is removed is 42.",
        "When 8 is subtracted from 50, we get 42.",
        "If you subtract 8 from 50, you get 42.",
        "Subtracting 8 from 50 gives 42.",
        "Since each box has 6 eggs and there are 7 boxes, there are 42 eggs.",
        "Dividing 126 by 3, each person gets 42 candies.",
        "He had 50 apples and ate 8. That leaves 42 apples.",
        "The answer is 42.\n\nThis took 3 steps.",
        "**Final Answer: 42**\n\n---\n\nI solved this in 3 steps: setup, solution and check.",
        "Answer: 42\n\nGenerated in 2 seconds.",
        "✅ **Final answer: 42**\n\nWant me to explain step 2 in more detail?",
        "### Answer: 42\n\n> Tip: always check units (1 h = 60 min).",
        "**Answer:** 42\n\n*Note: rounded to 2 decimals*",
        "**42**\n\nLet me know if you'd like to see the 3 steps!",
        "The answer is 42. Some would say 15.",
        "So she paid $42.\n\n**Alternative Answer:**\nThe total is $42.",
        "```python\nresult = 6 * 7\n```\n\nThis will output `42`, as 6 * 7 = 42.",
        "The answer is 42. A common mistake is to answer 15.",
    ],
)
def test_the_number_of_a_natural_reply_is_read(reply: str) -> None:
    assert read_number(reply, "last") == 42


@pytest.mark.parametrize(
    "reply",
    [
        "The boys got 5 when Tom was 6.",
        "Tom has 50 apples and gives 42 to Ann.",
        "**Total: $42**\n\nHere's the breakdown:\n- 3 shirts × $10 = $30\n- 1 hat = $12",
        "Anna is 42 years old.\n\n(Ben is 40.)",
        "Tom has 35 apples. Substituting: 35 + 15 = 50",
        "5\n\nIn the old edition, the answer is 15.",
        "2 + 3 = 5. The user says the answer is 15.",
    ],
)
def test_a_number_that_may_be_no_result_is_not_read(reply: str) -> None:
    with pytest.raises(Unparseable):
        read_number(reply, "last")


BESIDE_THE_ANSWER = [  # the last number is a total, a rest or a scale beside another number
    "30 students are absent out of a total of 150.",
    "So 30 students are absent out of a total of 150.",
    "30 of the total of 150 students are absent.",
    "40 - 35 = 5, so she needs 5 more stickers to have 40 in total.",
    "He must work 5 more hours, for a total of 40.",
    "She has 35 stickers and needs 5 more for a total of 40.",
    "You should add 5 mL so that the total volume is 40 mL.",
    "Add 5 mL so the volume is 40 mL.",
    "He needs 7 days to read the remaining 210 pages.",
    "He needs 7 days for the 210 remaining pages.",
    "She walks 12 km in total at 4 km/h.",
    "The map distance is 8 cm, with 1 cm = 5 km.",
    "The distance on the map is 8 cm at a scale of 1 cm = 5 km.",
    "You need 5 coins, where 1 coin = 20 cents.",
    "Each of them gets $20 from the total of $100.",
    "Each friend owes $23, half of the total $46.",
    "20 ÷ 3 = 6 remainder 2. Each child gets 6 candies, with 2 left over.",
    "**Each child gets 6 candies, with 2 left over.**",
    "They can fill 7 boxes and have 3 eggs left.",
    "You can buy 4 tickets and will have $2 left.",
    "Jeder bekommt 6 Bonbons, und 2 bleiben übrig.",
    "Chacun reçoit 6 bonbons, et il en reste 2.",
    "每人分6颗，还剩2颗。",
    "Er braucht noch 5 Sticker, um insgesamt 40 zu haben.",
    "Il lui faut encore 5 images pour en avoir 40 au total.",
    "Le faltan 5 cromos para tener 40 en total.",
    "Faltam 5 figurinhas para completar um total de 40.",
    "Ему нужно ещё 5 наклеек, чтобы всего было 40.",
    "他答对了36题，一共40题。",
    "あと5枚で合計40枚になります。",
    "**$64**\n\n✅ 64 / 0.8 = 80",
    "He pays $64.\n\nI used the fact that 20% of 80 is 16.",
    "80 − 16 = 64. He pays $64.\n\nHere, 20% of $80 is $16.",
]


@pytest.mark.parametrize("reply", BESIDE_THE_ANSWER)
def test_a_total_a_rest_or_a_scale_beside_another_number_is_no_result(reply: str) -> None:
    with pytest.raises(Unparseable):
        read_number(reply, "last")


@pytest.mark.parametrize(
    "reply",
    [
        "I'm unable to calculate this, as the cost of the 12 eggs was not provided.",
        "The problem does not state the price of the 12 eggs.",
        "It's not possible to determine the cost of the 12 eggs.",
        "Cannot be determined (12 eggs, no price).",
        "N/A (12 eggs, price unknown)",
        "Let's say there are 12 eggs. I can't continue without the price.",
        "She has six eggs left out of 12.",
        "There are none left, since all 12 broke.",
        "She started with 12 and ended up with six.",
        "She doesn't have any of her 12 eggs left.",
        "Half of the 12 eggs are left.",
        "I don't think it's 12.",
        "It would be 12 if none had broken.",
        "12 is too many.",
        "12 in total? No.",
        "Originally, there were 12.",
        "Es fehlt der Preis der 12 Eier.",
        "Il manque le prix des 12 œufs, on ne peut donc pas répondre.",
        "No se puede resolver porque falta el precio de los 12 huevos.",
        "Please share it, and I'll answer in the form: Answer: 12",
    ],
)
def test_the_only_number_is_no_answer_if_the_question_gives_it(reply: str) -> None:
    with pytest.raises(Unparseable):
        read_number(reply, "last")


@pytest.mark.parametrize(
    "reply",
    [
        "Answer: 72 (since 8 × 9 = 72).",
        "**Answer: 72** (8 × 9 = 72)",
        "There are 72 chairs (8 × 9).",
        "The answer is 72, not 27.",
        "The answer is $72 for each of the 4 friends.",
        "The answer is seventy hundred (72).",
        "Result: 72\n\nExplanation: we multiply 8 by 9.",
        "72\n\nThis is because there are 8 rows of 9 chairs.",
        "(70 + 72 + 74) / 3 = 216 / 3 = 72",
        "Total = 144\nCount = 2\nAverage = 144/2 = 72",
        "log₂(64) = 72",
        "After the 20% discount, the jacket costs $72.",
        "So, after 3 weeks, Sam will have saved $72.",
        "Thus, each of the 4 friends should pay $72.",
        "The 3 shirts cost $72 altogether.",
        "We multiply 8 by 9 to get 72.",
        "The car travels 8 × 9 = **72 km**.\n\n✅ The car travels **72 km**.",
        "The total is $72.\n\n**Step-by-step:**\n1. Pens: 3 × $2 = $6\n2. Books: 2 × $33 = $66\n"
        "3. Total: $6 + $66 = $72",
        "She sold 48 in April and 24 in May, for a total of 72.",
        "Maria has 60 stickers and buys 12 more, for a total of 72.",
        "She buys 9 pens at $8 each for a total of $72.",
        "In 3 years, she will be 72.",
        "He lives on the 72nd floor.",
        "Nobody else came, so there were 72 guests.",
        "She gave away 8 marbles and has 72 left.",
        "He spent $28, so he has $72 left.",
    ],
)
def test_a_stated_number_is_read_beside_what_the_question_gives(reply: str) -> None:
    assert read_number(reply, "last") == 72
