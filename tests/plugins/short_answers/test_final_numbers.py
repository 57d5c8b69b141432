"""Replies that announce no number: the last one decides only if it is stated as the result."""

import pytest

from harness.errors import Unparseable
from harness.plugins.short_answers.final_numbers import read_number

# Each reply answers with 8.
ORDINARY = [
    "12 - 4 = 8",
    "8",
    "**8**",
    "8 apples",
    "So she has 8 apples left.",
    "Sarah had 12 apples and gave 4 away, so she has 8 apples left.",
    "Sarah had 12 apples. She gave 4 away. She has 8 apples left.",
    "Sarah starts with 12 apples.\nShe gives 4 to her friend.\n12 - 4 = 8\n\nSarah has 8 apples.",
    "The answer is 8 because 12 - 4 = 8.",
    "Total: 20 - 12 = 8 apples",
    "Sarah gave 4 of her 12 apples away. 12 − 4 = 8. Sarah has 8 apples left.",
    "To find the answer, subtract 4 from 12: 12 - 4 = 8.",
    (
        "To find out how many apples Sarah has left, we subtract 4 from "
        "12.\n\n12 - 4 = 8\n\nSarah has 8 apples left."
    ),
    "Let x be the number. 2x + 4 = 20, so 2x = 16 and x = 8.",
    "2x = 16\nx = 8",
    "2x = 16 => x = 8",
    "After giving away 4 of her 12 apples, Sarah has 8 apples left.",
    "After giving 4 apples to her friend, Sarah has **8** apples left.",
    (
        "1. Sarah starts with 12 apples.\n2. She gives away 4.\n3. 12 - 4 = "
        "**8**\n\n**Sarah has 8 apples left.**"
    ),
    "Step 1: Start with 12.\nStep 2: Subtract 4.\nStep 3: The result is 8.",
    "### Step 1\n12 apples\n\n### Step 2\n12 - 4 = 8\n\nSarah has **8** apples left.",
    "If we add 3 and 5, the sum is 8.",
    "The sum of 3 and 5 is 8.",
    "3 plus 5 equals 8.",
    "The total number of apples is 3 + 5 = 8.",
    "She bought 3 apples and 5 pears, for a total of 8 fruits.",
    "In total, that's 3 + 5 = 8 fruits.",
    "Sarah hat 12 Äpfel und gibt 4 ab. Also hat sie noch 8 Äpfel.",
    "Sarah hat 12 Äpfel und gibt 4 ab. 12 - 4 = 8. Sie hat noch 8 Äpfel.",
    "Sarah avait 12 pommes et en a donné 4. Il lui reste 8 pommes.",
    "Sarah tenía 12 manzanas y regaló 4, por lo tanto le quedan 8.",
    "12个苹果，给了4个，还剩8个。",
    "12 - 4 = 8，所以还剩8个苹果。",
    "12個から4個をあげたので、残りは8個です。",
    "12개에서 4개를 주면 12 - 4 = 8개가 남습니다.",
    "Было 12, отдали 4, осталось 8.",
    "$12 - 4 = 8$",
    "\\[ 12 - 4 = 8 \\]\nSarah has 8 apples remaining.",
    "Since 12 - 4 = 8, Sarah has 8 apples.",
    "Because she had 12 and gave away 4, Sarah has 8 apples left.",
    "She makes 4 * $2 = $8 every day.",
    "So the final price is $10 - $2 = $8.",
    "The number of apples left = 12 - 4 = 8",
    "There are 4 rows with 2 seats each. 4 × 2 = 8 seats.",
    "We need to know how many are left. Sarah gave 4 of her 12 apples away. She has 8 left.",
    "Each of the 4 rows has 2 seats, so there are 4 * 2 = 8 seats in total.",
    "April: 3\nMay: 5\nTotal: 8",
    "Sarah has 8.",
    "It takes approximately 8 minutes.",
    "She has 8 apples left because 12 - 4 = 8.",
    "Half of 16 is 8.",
    "There were 12, and 4 left, leaving 8.",
    "The average of 7 and 9 is 8.",
    "7 + 9 = 16, and 16 / 2 = 8.",
    "40% of 20 is 8.",
    "The price drops by $2, from $10 to $8, so it costs $8.",
    "10 - 2 = 8 dollars. Sarah pays $8.",
    "The area is 4 cm × 2 cm = 8 cm².",
    "Area = length × width = 4 × 2 = 8 square meters.",
    "8\n\n**Explanation:** Sarah started with 12 apples and gave away 4.",
    "**8**\n\nExplanation: 12 - 4 = 8.",
    "8\n\nReasoning: she had 12 and gave 4 away.",
    "The final answer is 8.",
    "Answer: 8 apples",
    "Thus, 8 of them remain.",
    "He has 12 - 4 = <<12-4=8>>8 apples left.",
    "So, she sold 4+4=8 clips.",
    "We have 12 = 4 + x, hence x = 8.",
    "12/1.5 = 8.0",
    "3 friends with 4 apples have 12 apples. 12 - 4 = 8 are left.",
    "Natalia sold 4 clips in April and 4/1 = 4 in May. Altogether she sold 8 clips.",
]
# Each reply answers with another number than 8, or with none.
NOT_CONCLUDED = [
    "Sarah has 4 apples left. Her friend got 8.",
    "Sarah has 4 apples left (she gave away 8).",
    "Sarah has 4 apples left; 8 went to her friend.",
    "Sarah has 4 apples left - 8 were given away.",
    "Sarah now has 4 apples, having given 8 away.",
    "Of the 12 apples, 4 are left and 8 are gone.",
    "4 apples are left, as 12 - 4 = 8 were given away.",
    "Sarah has 4 left. That is, 12 minus 8.",
    "4. Reason: she gave away 8.",
    "Sarah has 4 left, and her friend has 8.",
    "Sarah's friend gets 4 apples while Sarah keeps 8?",
    "Sarah has 4 apples left.\n\nShe gave 8 away.",
    "She ate 4 and sold the other 8.",
    "The train goes 4 km/h, that is 8 mph.",
    "The train goes 4 km/h. In mph, this is 8.",
    "The train goes 4 km/h. This is 8 mph.",
    "The train goes 4 km/h. That equals 8 mph.",
    "It weighs 4 kg, equivalent to 8 lb.",
    "It weighs 4 kg or 8 lb.",
    "4 kg = 8 lb",
    "4 kg ≈ 8 lb",
    "The weight is 4 kg (8 lb).",
    "Das Gewicht beträgt 4 kg bzw. 8 Pfund.",
    "Es wiegt 4 kg, das sind 8 Pfund.",
    "Cela fait 4 kg, soit 8 livres.",
    "Son 4 kg, es decir 8 libras.",
    "Es wiegt 4 kg, das entspricht 8 Pfund.",
    "The answer is 4 km/h = 8 mph.",
    "The answer is 4 km/h, which is 8 mph.",
    "The answer is 4 km/h, which is about 8 mph.",
    "**4 kg** = 8 lb",
    "Between 4 and 8.",
    "4-8",
    "4 to 8",
    "4 ... 8",
    "min 4 max 8",
    "Au moins 4, au plus 8.",
    "4 até 8 minutos",
    "4 ja 8 minuutin välillä",
    "4 και 8 λεπτά",
    "4 eða 8",
    "dalam 4 sampai 8 menit",
    "It took 4 hours yesterday and 8 today.",
    "Sarah has 4 apples. She used to have 8.",
    "Sarah has 4 apples. The original number was 8.",
    "Le quedan 4 manzanas después de regalar 8.",
    "Le quedan 4 manzanas. Regaló 8.",
    "Il reste 4 pommes. Elle en a donné 8.",
    "Rimangono 4 mele perché ne ha regalate 8.",
    "Restam 4 maçãs, pois ela deu 8.",
    "Er zijn 4 appels over omdat ze er 8 weggaf.",
    "Zostały 4 jabłka, bo oddała 8.",
    "4個残ります。8個あげました。",
    "4개가 남았어요. 8개를 줬거든요.",
    "बचे 4 सेब, क्योंकि 8 दे दिए।",
    "بقي 4 تفاحات لأنها أعطت 8.",
    "剩4个，送了8个。",
    "Kaldı 4 elma, çünkü 8 verdi.",
    "The answer: 4, as opposed to 8.",
    "She has 4 apples left, not counting the 8 she gave away.",
    "She has 4 apples left, which is half of 8.",
    "She has 4 apples left; she began with 12 and lost 8.",
    "She needs 4 more to have 8.",
    "She has 4 more than the 8 she had.",
    "To get 4 left, she gave away a total of 8.",
    "Sarah has 4 left and gave a total of 8 away.",
    "4 remain. The total given away is 8.",
    "Sarah has 4 apples left after giving away 8.",
    "There are 4 apples left because she gave 8 to her friend.",
    "Es bleiben 4 Äpfel übrig, weil sie 8 verschenkt hat.",
    "Il lui reste 4 pommes après en avoir donné 8.",
    "Le quedan 4 manzanas, ya que regaló 8.",
    "还剩4个苹果，因为她给了朋友8个。",
    "У неё осталось 4 яблока, так как она отдала 8.",
    "残りは4個です。8個あげたからです。",
    "Sarah has 4 apples left. She gave away 8.",
    "She has 4 left since 12 minus 4 is 8.",
    "4, since she gave away 8.",
    "It takes 20 minutes, compared with 8.",
    "The total is 20 apples, up from 8.",
    "He needs 5 more to reach 8.",
    "She has 3 apples fewer than the original 8.",
    "The price drops to $8 from $10.",
    "It is 4 or, in another unit, 8.",
]
RANGES = [
    "歩いて10分から15分です。",
    "10分〜15分かかります。",
    "10〜15分です。",
    "需要10至15分钟。",
    "10분에서 15분 정도 걸립니다.",
    "इसमें 10 से 15 मिनट लगते हैं।",
    "يستغرق من 10 إلى 15 دقيقة.",
    "Прогулка занимает от 10 до 15 минут.",
    "Yürüyüş 10 ila 15 dakika sürer.",
    "A caminhada leva de 10 a 15 minutos.",
    "Ci vogliono tra 10 e 15 minuti.",
    "Spacer trwa od 10 do 15 minut.",
    "De wandeling duurt 10 tot 15 minuten.",
    "Đi bộ mất từ 10 đến 15 phút.",
    "Promenaden tar 10 till 15 minuter.",
    "10分か15分です。",
    "需要10分钟或15分钟。",
    "Es dauert 10 oder 15 Minuten.",
    "Il faut 10 ou 15 minutes.",
    "Tarda 10 o 15 minutos.",
    "between 10 minutes and 15 minutes",
    "It takes 10 minutes to 15 minutes.",
    "یہ 10 سے 15 منٹ لیتا ہے۔",
    "เดินใช้เวลา 10 ถึง 15 นาที",
    "步行大约10分钟到15分钟。",
    "10分ないし15分。",
    "Jalan kaki memakan waktu 10 hingga 15 menit.",
    "Займає від 10 до 15 хвилин.",
    "10분 또는 15분입니다.",
    "Minimum 10, maximum 15 minutes.",
    "حوالي 10 أو 15 دقيقة.",
    "10 या 15 मिनट।",
    "10 или 15 минут.",
    "10 veya 15 dakika.",
]
CONVERSIONS = [
    "The train's speed is 37.5 km/h, which is about 23.3 mph.",
    "The speed is 37.5 km/h, or roughly 23.3 mph.",
    "The average speed is 37.5 km/h = 10.42 m/s.",
    "The average speed is 37.5 km/h ≈ 23.3 mph",
    "Die Geschwindigkeit beträgt 37.5 km/h, also etwa 23.3 mph.",
    "The train's speed is 37.5 km/h. That's 23.3 mph.",
    "速度は37.5km/h、つまり約23.3マイルです。",
    "The speed is 37.5 km/h, i.e. 23.3 mph.",
    "It takes 2.5 hours, i.e. 150 minutes.",
    "The trip takes 2.5 hours, that is 2 h 30 min.",
    "She paid 5 dollars, which is 500 cents.",
]


WORDS_AT_THE_END = [
    "He had 15 apples. So he has seven left.",
    "Out of 15, the total is zero.",
    "He had 15 apples and ate all of them, so none are left.",
    "15 apples.\n\nSeven.",
    "It was 15. **Seven**",
    "He bought 5 apples; in the end three are left.",
    "Er hatte 5 Äpfel. Am Ende bleiben drei übrig.",
    "Tenía 5 manzanas. Al final quedan tres.",
    "Было 15 яблок. Осталось семь.",
    "小明有12个苹果，吃了几个，还剩七个。",
    "15個あったので、残りは七個です。",
]
NO_ANSWER_AT_THE_END = [
    "I get 15, but I'm not sure. The answer cannot be determined.",
    "We have 15 apples. There is not enough information to answer.",
    "She sold 15 eggs. I don't know the answer.",
    "She sold 15 eggs, so it is impossible to say.",
    "x = 15 is a contradiction, so there is no solution.",
    "The answer is 15. Actually, the answer is unknown.",
    "15 apples were given. Therefore, the result is undefined.",
    "Il y a 15 pommes. On ne peut pas répondre.",
    "15 Äpfel. Das lässt sich nicht bestimmen.",
    "Hay 15. No se puede saber.",
    "Всего 15. Я не знаю.",
    "前面得到15，但答案无法确定。",
    "15個ですが、答えはわかりません。",
    "#### 15\nActually, it is seventy-two.",
    "$\\boxed{15}$\n\nWait, that is wrong.",
    "La réponse est 15. En fait, c'est soixante-douze.",
    "15개이지만 알 수 없습니다.",
]


@pytest.mark.parametrize("reply", [*WORDS_AT_THE_END, *NO_ANSWER_AT_THE_END])
def test_an_answer_in_words_or_none_at_the_end_replaces_the_last_number(reply: str) -> None:
    with pytest.raises(Unparseable):
        read_number(reply, "last")


@pytest.mark.parametrize(
    "reply",
    [
        "One of them left, so there are 8.",
        "The answer is 8. This works for both of the two friends.",
        "If we did not know the two prices, it would be impossible to tell. Total: 8",
        "$\\boxed{8}$, which splits into two halves.",
        "So there are 8 left. One is red.",
    ],
)
def test_words_that_are_not_the_conclusion_leave_the_number(reply: str) -> None:
    assert read_number(reply, "last") == 8


@pytest.mark.parametrize("reply", ORDINARY)
def test_the_last_number_of_an_ordinary_reply_is_its_answer(reply: str) -> None:
    assert read_number(reply, "last") == 8


@pytest.mark.parametrize("reply", NOT_CONCLUDED)
def test_a_last_number_that_is_not_stated_as_the_result_does_not_decide(reply: str) -> None:
    with pytest.raises(Unparseable):
        read_number(reply, "last")


@pytest.mark.parametrize("reply", [*RANGES, *CONVERSIONS])
def test_no_end_of_a_range_and_no_conversion_is_read(reply: str) -> None:
    with pytest.raises(Unparseable):
        read_number(reply, "last")


@pytest.mark.parametrize("reply", ["7.5 / 2 = 3.75 ≈ 3.75", "x = 3.75 = 3.75 kg", "= 3.751 ≈ 3.75"])
def test_a_rounded_or_repeated_result_is_no_conversion(reply: str) -> None:
    assert float(read_number(reply, "last")) == 3.75


@pytest.mark.parametrize(
    "reply",
    [
        "The answer is 35. Check: 2*35 + 10 = 80",
        "The answer is 35.\n\nPlugging it back in, we get 2*35 + 10 = 80.",
        "Answer: 35\n\nWe can verify: 2*35 + 10 = 80",
        "#### 35\nCheck: 2*35+10 = 80",
        "\\boxed{35}\n\nIndeed, 2*35+10 = 80.",
        "**35**\n\nSubstituting back: 2*35+10 = 80",
        "70 / 2 gives the result:\n\n**35 apples**\n\nTo check: 2*35+10 = 80",
        "The answer is 35 when x = 5.",
        "The answer is 35 at x = 5.",
        "The answer is 35. It occurs at x = 5.",
        "Answer: 35, where n = 5",
    ],
)
def test_an_announced_number_stands_before_a_check_or_an_argument(reply: str) -> None:
    assert read_number(reply, "last") == 35


@pytest.mark.parametrize(
    "reply",
    [
        "**35**\n\nTo check: 2*35 = 70 ≠ 80",
        "**35**\n\nChecking again, 2*35 = 70, so the total is 70.",
        "The answer is 35. Checking the question, it asks for half: 70 / 4 = 17.5",
        "The answer is 35. Plugging it in: 2*35 = 70, but it must be 80.",
        "The answer is 12. Ah, but the question asks for half, so 6.",
        "The answer is 12 (edit: 9)",
        "The answer is 12, er, 9.",
        "The answer is 12. Scratch that: 9",
        "x = 4. No, wait: 9, or rather 7 and 8.",
        "The answer is 72. Some people say 5, but that is not right.",
        "The answer is 72. Without the discount it would be 80, but the total is 70.",
    ],
)
def test_an_announced_number_does_not_stand_if_what_follows_may_replace_it(reply: str) -> None:
    with pytest.raises(Unparseable):
        read_number(reply, "last")


@pytest.mark.parametrize(
    "reply",
    [
        "Not enough information. If the pack had 6 cans, the answer would be 12.",
        "The price is missing. Assuming a price of $3, the total would be $12.",
        "I cannot solve problem 7.",
        "I don't know how many of the 12 eggs broke.",
        "The answer depends on how many of the 12 are children.",
        "The answer isn't given, but 12 seems plausible.",
        "Please provide the length of side 2.",
        "Could you tell me how many eggs each of the 4 hens lays?",
    ],
)
def test_a_reply_without_an_answer_has_no_number(reply: str) -> None:
    with pytest.raises(Unparseable):
        read_number(reply, "last")


@pytest.mark.parametrize(
    "reply",
    [
        "Zero. All 12 were eaten.",
        "None: all 12 were eaten.",
        "None.\n\nAll 12 were eaten.",
        "Seven of the 12 apples remain.",
        "She has none of her 12 apples left.",
        "There are seven apples left from the original 12.",
        "She gave all 12 apples away. Nothing is left.",
        "All of the 12 apples were eaten, so no apples are left.",
    ],
)
def test_a_number_in_words_is_the_answer_and_not_what_it_is_a_part_of(reply: str) -> None:
    with pytest.raises(Unparseable):
        read_number(reply, "last")


@pytest.mark.parametrize(
    "limit",
    ["at least 8", "at most 8", "over 8", "up to 8", "> 8", "greater than or equal to 8"],
)
def test_a_limit_is_no_number(limit: str) -> None:
    with pytest.raises(Unparseable):
        read_number(f"The answer is {limit}.", "last")


@pytest.mark.parametrize(
    "reply",
    [
        "54 / 6 = 8\n\nSo Lisa needs to buy 8 packs.",
        "The answer: 8 legs, since 1*4 = 4 and 2*2 = 4",
        "Answer: 8 legs, because 1*4 = 4 and 2*2 = 4.",
        "Seven. No: 7 + 1 = 8.",
        "Eight (8)",
        "Two of the 10 apples are bad, so 8 are good.",
        "How many apples remain? 8.",
        "The answer is 8. Would you like me to explain?",
        "If each pack has 6, she needs 48 / 6 = 8 packs.",
        "The answer is <8>.",
    ],
)
def test_a_stated_number_is_read_beside_a_reason_or_a_question(reply: str) -> None:
    assert read_number(reply, "last") == 8


@pytest.mark.parametrize(
    "reply", ["Answer: 8, since 4*2 = 8, so 9", "Answer: 8 since 4 = 4. Wait, 9"]
)
def test_a_reason_that_concludes_otherwise_leaves_no_number(reply: str) -> None:
    with pytest.raises(Unparseable):
        read_number(reply, "last")


def test_many_blank_lines_are_as_one() -> None:
    text = "The answer is 8." + "\n \n" * 30_000
    assert read_number(text, "last") == 8
    assert read_number(f"{text}Check: 4 + 4 = 8", "last") == 8


@pytest.mark.parametrize(
    ("later", "is_read"),
    [
        ("This answer is wrong.", False),
        ("This result is wrong.", False),
        ("That answer is incorrect.", False),
        ("The above answer is wrong.", False),
        ("The result given above is wrong.", False),
        ("This number is too high.", False),
        ("That total isn't right.", False),
        ("This is the correct answer.", True),
        ("This answer is correct.", True),
        ("This answer assumes that no egg is broken.", True),
        ("This method is not wrong.", True),
    ],
)
@pytest.mark.parametrize("answer", ["The answer is 24.", "**24**", "She has 24 eggs."])
def test_an_answer_that_is_called_wrong_is_not_read(answer: str, later: str, is_read: bool) -> None:
    reply = f"{answer}\n\n{later}"
    if is_read:
        assert read_number(reply, "last") == 24
        return
    with pytest.raises(Unparseable):
        read_number(reply, "last")


@pytest.mark.parametrize(
    "reply",
    [
        "I'm sorry, but I can't determine the total: the problem doesn't say how much the second "
        "ticket costs. The first one costs $18.",
        "I can't determine the total. The first ticket costs $18.",
        "I don't have enough information. The first ticket costs $18.",
        "The total cannot be determined. The first ticket costs $18.",
        "Ich kann das nicht bestimmen. Die erste Karte kostet 18 Euro.",
        "Je ne peux pas répondre. Le premier billet coûte 18 euros.",
        "No puedo calcularlo. La primera entrada cuesta 18.",
        "无法确定总价。第一张票18元。",
    ],
)
def test_a_number_after_a_refusal_is_no_answer(reply: str) -> None:
    with pytest.raises(Unparseable):
        read_number(reply, "last")


@pytest.mark.parametrize(
    "reply",
    [
        "I can't give the exact figure, but it is about 18.",
        "I can't find my notes, so I compute again: 3 x 6 = 18.",
        "I cannot answer that with certainty. The answer is 18.",
        "He can't tell them apart. He has 18 coins.",
        "I'm sorry for the confusion. The total is 18.",
    ],
)
def test_a_reply_that_answers_nevertheless_is_read(reply: str) -> None:
    assert read_number(reply, "last") == 18
