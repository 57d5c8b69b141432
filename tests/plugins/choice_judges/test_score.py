from typing import Any

import pytest

from harness.errors import ConfigError, Unparseable
from harness.plugin_loader import kind
from harness.plugins.choice_judges.score import NumberJudge
from harness.records import Decoding, Instance, Reply
from harness.scoring.judges import mean_of_decided
from tests.conftest import Sums

PASSAGE = Instance("a", 1, {"structure": "pass01"})


def built(**options: Any) -> NumberJudge:
    judge: NumberJudge = kind("judges").build("score", options, task=Sums())
    return judge


def replies(*texts: str) -> list[Reply]:
    return [Reply(text, "stop") for text in texts]


def conclusions(*scores: object) -> list[Reply]:
    return replies(*(f"Hm. Thus, the coherency score is {score}." for score in scores))


def test_it_asks_as_collie_does_three_times() -> None:
    requests = built().questions(PASSAGE, "Snow fell.")
    assert [request.samples for request in requests] == [3]
    said = requests[0].messages[0].content
    assert said.startswith(
        "Analyze the following passage, then at the last line conclude "
        '"Thus, the coherency score is s", where s is an integer from 1 to 10.'
    )
    assert "<judged_text>\nSnow fell.\n</judged_text>" in said
    assert requests[0].decoding == Decoding(temperature=0.7, max_tokens=1000)


def test_the_score_is_the_mean_of_what_can_be_read() -> None:
    found = built().parse(PASSAGE, conclusions(7, 8, 9))["score"]
    assert (found.value, found.passed) == (8.0, None)
    assert found.details == {"readings": [7.0, 8.0, 9.0]}
    found = built().parse(PASSAGE, conclusions(7, "high", 11))["score"]
    assert (found.value, found.details) == (7.0, {"readings": [7.0, None, None]})


def test_nothing_to_read_is_no_zero() -> None:
    with pytest.raises(Unparseable, match="number"):
        built().parse(PASSAGE, conclusions("high", 11, ""))


def test_a_mark_makes_it_a_verdict() -> None:
    assert built().verdicts is False
    judge = built(passes_from=8)
    assert judge.verdicts is True
    assert judge.parse(PASSAGE, conclusions(7, 8, 9))["score"].passed is True
    found = judge.parse(PASSAGE, conclusions(7, 7, 9))["score"]
    assert (found.passed, found.reason) == (False, "The score is 7.66667, below 8.")


def test_other_groups_are_not_judged() -> None:
    judge = built(where={"structure": ["pass01"]})
    other = Instance("b", 1, {"structure": "sent01"})
    assert len(judge.questions(PASSAGE, "Snow.")) == 1
    assert judge.questions(other, "Snow.") == []
    assert judge.parse(other, []) == {}


def test_other_bounds_and_another_pattern() -> None:
    judge = built(low=0, high=1, pattern=r"mark (\S+)", samples=1)
    assert "from 0 to 1." in judge.questions(PASSAGE, "Snow.")[0].messages[0].content
    assert judge.parse(PASSAGE, replies("mark 0.5"))["score"].value == 0.5


@pytest.mark.parametrize(
    "options",
    [
        {"samples": 0},
        {"max_tokens": 0},
        {"low": 10},
        {"passes_from": 11},
        {"pattern": "score"},
        {"prompt": "nothing"},
        {"temperature": -0.1},
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        built(**options)


def test_it_can_be_simulated() -> None:
    judge = built()
    requests = judge.questions(PASSAGE, "Thus, the coherency score is 1.")
    assert judge.parse(PASSAGE, replies(*map(judge.simulated, requests)))["score"].value == 8.0


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("It flows. Thus, the coherency score is 8.", 8),
        ("Thus the coherency score is 10", 10),
        ("Thus, the coherency score is **7**.", 7),
        ('Thus, the coherency score is "1".', 1),
        ("thus, the Coherency Score is: 9/10", 9),
        ("The coherency score is 2? No. Thus, the coherency score is 3", 3),
        ("The coherency score is 6. A coherency score is 10 only for perfect texts.", None),
        ("The coherency score is 6. Any coherency score is 10 at most.", None),
        ("The coherency score is 10 if a text is perfect.", None),
        ("The coherency score is 10 only for perfect texts.", None),
        ("A high coherency score is 10.", None),
        ("A remark: the coherency score is 6 only because it is short.", 6),
        ("A coherency score of 10 is for perfect texts. The coherency score is 6.", 6),
        ("The coherency score is 6. Ah, but the question asks for its style.", None),
        ("The coherency score is 6. Whoops, five.", None),
        ("The coherency score is ~~6~~ 5.", 5),
        ("Thus, the coherency score is 0", None),
        ("Thus, the coherency score is 11", None),
        ("Thus, the coherency score is 7.5", None),
        ("Thus, the coherency score is 7-8", None),
        ("Thus, the coherency score is 7 and a half.", None),
        ("Thus, the coherency score is 7 \u2013 8", None),
        ("Thus, the coherency score is high", None),
        ("Thus, the coherency score is s", None),
        ("8", None),
        ("Thus, the coherency score is " + "9" * 400, None),
    ],
)
def test_the_concluding_number(text: str, number: float | None) -> None:
    assert built().read(Reply(text, "stop")) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("score is 3", None),
        ("The coherency score is 3. Thus, the coherency score is \\boxed{8}", 8),
        ("The coherency score is 3. Thus, the score is \\boxed{8}", None),
        ("First the coherency score is 3.\nThus, the coherency score is 8.5.", None),
        ("First the coherency score is 3.\nThus, the coherency score is 7-8.", None),
        ("First the coherency score is 3.\nThus, the coherency score is 7 \u2013 8.", None),
        ("First the coherency score is 3.\nThus, the coherency score is $8$.", 8),
        ("First the coherency score is 3.\nThus, the coherency score is 8/10.", 8),
        ("First the coherency score is 3.\nThus, the coherency score is 8 out of 10.", 8),
        ("First the coherency score is 3.\nThus, the coherency score is **8**.", 8),
        ("First the coherency score is 3.\nThus, the coherency score is 8 of 10.", 8),
        ("First the coherency score is 3.\nThus, the coherency score is 80/100.", None),
        ("First the coherency score is 3.\nThus, the coherency score is 11.", None),
        ("First the coherency score is 3.\nThus, the coherency score is 0.", None),
        ("First the coherency score is 3.\nThus, the coherency score is -3.", None),
        ("First the coherency score is 3.\nThus, the coherency score is 8 or 9.", None),
        ("First the coherency score is 3.\nThus, the coherency score is 7 to 8.", None),
        ("First the coherency score is 3.\nThus, the coherency score is about 8.", None),
        ("First the coherency score is 3.\nThus, the coherency score is `8`.", 8),
        ('First the coherency score is 3.\nThus, the coherency score is "8".', 8),
        ("First the coherency score is 3.\nThus, the coherency score is \uff18.", 8),
        ("First the coherency score is 3.\nThus, the coherency score is 8.0.", None),
        ("First the coherency score is 3.\nThus, the coherency score is 8,5.", None),
        ("First the coherency score is 3.\nThus, the coherency score is 8\xbd.", None),
        ("First the coherency score is 3.\nThus, the coherency score is 8%.", None),
        ("First the coherency score is 3.\nThus, the coherency score is 8+.", None),
        ("First the coherency score is 3.\nThus, the coherency score is eight.", None),
        ("First the coherency score is 3.\nThus, the coherency score is high.", None),
        ("First the coherency score is 3.\nThus, the coherency score is \\(8\\).", 8),
        ("First the coherency score is 3.\nThus, the coherency score is $\\boxed{\\text{8}}$.", 8),
        ("First the coherency score is 3.\nThus, the coherency score is 8th.", None),
        ("First the coherency score is 3.\nThus, the coherency score is 8?.", None),
        ("First the coherency score is 3.\nThus, the coherency score is <b>8</b>.", 8),
        ("First the coherency score is 3.\nThus, the coherency score is 4/5.", None),
        ("First the coherency score is 3.\nThus, the coherency score is 8 (maybe 9).", None),
        ("First the coherency score is 3.\nThus, the coherency score is 8, since it flows.", 8),
        ("First the coherency score is 3.\nThus, the coherency score is between 7 and 8.", None),
        ("First the coherency score is 3.\nThus, the coherency score is N/A.", None),
        ("First the coherency score is 3.\nThus, the coherency score is 8 - good.", 8),
        ("First the coherency score is 3.\nThus, the coherency score is 8-good.", 8),
        ("Thus, the coherency score is 8. A score of 10 would need better links.", 8),
        ("Thus, the coherency score is 8. The score is based on the flow.", 8),
        ('Thus, the coherency score is 8.\nThe passage contains "the coherency score is 10".', 8),
        ('The passage says "Thus, the coherency score is 10".', None),
        (
            "The passage says:\n> The coherency score is 10.\nThe coherency score is 2.",
            2,
        ),
        ("Thus, the coherency score is 2.\n> Thus, the coherency score is 10.", 2),
        ('"Thus, the coherency score is 8."', 8),
        ('It flows.\n"Thus, the coherency score is 8."', 8),
        ("Thus, the coherency score is 3. No, my final score: 8", None),
        ("**Thus, the coherency score is 8.**", 8),
        ("Thus, the **coherency score** is: **8**", 8),
    ],
)
def test_the_last_statement_of_the_judge_itself_decides(text: str, number: float | None) -> None:
    assert built().read(Reply(text, "stop")) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Mark: 0.25 / 1", 0.25),
        ("Mark: 0.25. Final mark: **0.5**", 0.5),
        ("Mark: 0.25. Final mark: high", None),
        ("Mark: 0.25 or 0.5", None),
        ("Mark: 0.25-0.5", None),
    ],
)
def test_a_pattern_matches_part_of_the_last_statement(text: str, number: float | None) -> None:
    assert built(pattern=r"mark: (\S+)", low=0, high=1).read(Reply(text, "stop")) == number
    whole = built(pattern=r"mark: (\d+)", low=0, high=10)
    assert whole.read(Reply("Mark: 8.5", "stop")) is None
    assert built(pattern=r"\*\*mark\*\* (\d+)").read(Reply("**Mark** 8", "stop")) == 8


@pytest.mark.parametrize(
    ("rest", "number"),
    [
        ("8", 8),
        ("8\n\nActually, I would lower it to 6.", None),
        ("8. I would rate it 8.", 8),
        ("8. Let me change that to 7", None),
        ("8. Downgraded to 7.", None),
        ("8.\nAfter deducting 2 points: 6", None),
        ("8\nFinal: 7", None),
        ("8 but really 6", None),
        ("8\nUpdated score 6", None),
        ("8. The final paragraph has 2 errors.", 8),
        ("8. Lowering one of the stakes would help.", 8),
        ("8. It is actually good.", 8),
        ("8. Wait, that is too high: 6.", None),
        ("8. On reflection, 7.", None),
        ("8\nCorrection: 7", None),
        ("8 (revised to 7)", None),
        ("8, revised: 7", None),
        ("8. Hmm, I'd give it a 7.", None),
        ("8. I\u2019ll change it to six.", None),
        ("8. Make that 7.", None),
        ("8\nSorry, 7.", None),
        ("8, but I would deduct 2", None),
        ("8, minus 2 for style", None),
        ("8 (minus 2 for style)", None),
        ("8. Deduct 2 for style.", None),
        ("8 ± 1", None),
        ("8. Scratch that.", None),
        ("8\n\nWait, I overlooked the factual error. That brings it down to 4.", None),
        ("8\n\nEdit: 6", None),
        ("8\n\nMoment, das ist falsch.", None),
        ("8. 잠깐, 틀렸습니다.", None),
        ("8\n\nIt does not match the prompt in one place.", 8),
        ("8. Das Ende ist falsch.", 8),
        ("8\nI revise this down to 5.", None),
        ("8\n\nOn second thought, it is weaker than that.", None),
        ("8\nThat is too generous.", None),
        ("8。不对，应该是六。", None),
        ("8. I deducted 2 points for style.", 8),
        ("8, since all 3 sentences flow.", 8),
        ("8\n\nIts 3 sentences flow.", 8),
        ("8. I would say it flows.", 8),
        ("8 \u2192 7", None),
        ("8 -> 7", None),
        ("8 => 7", None),
        ("**8** \u2192 **7**", None),
        ("8 \u2192 good", 8),
        ("[8]", 8),
        ("[[8]]", 8),
        ("**[[8]]**", 8),
        ("[8/10]", 8),
        ("[[8]]/10", 8),
        ("[7-8]", None),
        ("[7, 8]", None),
        ("[[11]]", None),
        ("3\nThus, the coherency score is: [[8]]", 8),
        ("3\nThus, the coherency score is: [7, 8]", None),
        ("8 [1]", 8),
        ("8\n\nThe passage says:\nThe coherency score is: 10", 8),
        ("8.\n\nWait, I missed the end. Thus, the coherency score is s.", None),
        ("8.\n\nThus, the coherency score is [score].", None),
        ("8.\n\nThus, the coherency score is X/10.", None),
        ("8. The score is lower than it could be.", 8),
        ("8 on a scale of 1 to 100", None),
        ("8 (on a scale from 1 to 20)", None),
        ("8 on a scale of 1 to 10", 8),
        ("8 on the scale of 1-10.", 8),
        ("8 out of a possible 100", None),
        ("8 out of a maximum of 100", None),
        ("8 out of a possible 10", 8),
        ("7 1/2", None),
        ("10^0", None),
        ("1 0", None),
        ("8\n\n1. It flows.", 8),
        ("8/10 \u2192 after penalties 3/10", None),
        ("~~8~~ 7", 7),
    ],
)
def test_a_number_that_the_judge_corrects_is_no_verdict(rest: str, number: float | None) -> None:
    reply = Reply(f"It flows. Thus, the coherency score is: {rest}", "stop")
    assert built().read(reply) == number
    general = built(pattern=r"(?i)score\s*(?:is)?:\s*([0-9.]+)")
    assert general.read(reply) == number
    assert general.read(Reply(f"Score: {rest}", "stop")) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Someone may think the coherency score is 8, but no.", None),
        ("Many would say the coherency score is 8.", None),
        ("I do not think the coherency score is 8.", None),
        ("It could be tighter, so the coherency score is 8.", 8),
        ("It could be tighter and therefore the coherency score is 8.", 8),
    ],
)
def test_a_score_that_the_judge_does_not_give_is_no_verdict(
    text: str, number: float | None
) -> None:
    assert built().read(Reply(text, "stop")) == number


def test_a_pattern_may_contain_brackets() -> None:
    judge = built(pattern=r"\[\[(\d+)\]\]")
    assert judge.read(Reply("Rating: [[5]]\nRating: [[8]]", "stop")) == 8
    assert judge.read(Reply("Rating: [[5]]\nRating: [[8.5]]", "stop")) is None


def test_a_reply_that_was_cut_off_concludes_with_nothing() -> None:
    assert built().read(Reply("Thus, the coherency score is 1", "length")) is None


def test_fractions_where_the_pattern_has_them() -> None:
    number = built(pattern=r"mark: (\S+)", low=0, high=1)
    assert number.read(Reply("Mark: 0.25", "stop")) == 0.25
    for odd in ("nan", "inf", "high", "0.2/0.3", "1e400"):
        assert number.read(Reply(f"Mark: {odd}", "stop")) is None


def test_a_pattern_that_takes_for_ever_reads_nothing() -> None:
    slow = built(pattern=r"((?:a|a)*)$", low=0, high=1)
    assert slow.read(Reply("a" * 40 + "b", "stop")) is None


@pytest.mark.parametrize("pattern", [r"\d", r"(\d)(\d)", "("])
def test_a_pattern_has_one_group(pattern: str) -> None:
    with pytest.raises(ConfigError, match="pattern"):
        built(pattern=pattern)


def test_bounds_are_in_order() -> None:
    with pytest.raises(ConfigError, match=r"low \(1\)"):
        built(low=1, high=1)


def test_the_mean_is_of_what_is_there() -> None:
    assert mean_of_decided([1.0, None, 2.0]) == 1.5
    assert mean_of_decided([True, False, None, True]) == pytest.approx(2 / 3)
    assert mean_of_decided([None]) is None


@pytest.mark.parametrize(
    "text",
    [
        "The coherency score is 8. Nein, doch eher 6.",
        "The coherency score is 8. Non, plutôt 6.",
        "The coherency score is 8. Mejor dicho, 6.",
        "The coherency score is 8。不，应该是6。",
        "The coherency score is 8. いや、6点です。",
        "The coherency score is 8. On second thought, 6.",
        "The coherency score is 8. Hmm, make that 6.",
        "A coherency score is 9 would be too generous. I give it 2.",
        "The coherency score is 8 minus 2 for the ending, so 6.",
        "The coherency score is 9 for style. Overall: 4/10",
        "The coherency score is 8.\n\nFinal score: 6",
        "The coherency score is 8.\n\n**Final rating: 6/10**",
        "The coherency score is 8. Rather 6, on balance.",
    ],
)
def test_a_score_that_another_number_follows_is_no_verdict(text: str) -> None:
    # A final announcement of the other number may be read.
    assert built().read(Reply(text, "stop")) in (None, 6)


@pytest.mark.parametrize(
    "text",
    [
        "The coherency score is 8.\n\nThe two paragraphs fit together well.",
        "The coherency score is 8. It has 3 characters and 2 scenes.",
        "The coherency score is 8/10. Yes, 8.",
        "The coherency score is 8.\n\n1. It flows.\n2. It ends well.",
    ],
)
def test_a_score_before_counts_and_lists_is_read(text: str) -> None:
    assert built().read(Reply(text, "stop")) == 8


@pytest.mark.parametrize(
    ("rest", "number"),
    [
        ("The scale is 1 (lowest) to 10 (highest).", 4),
        ("(1 = lowest, 10 = highest)", 4),
        ("Scores range from 1 to 10.", 4),
        ("Note: 1 is the worst and 10 the best.", 4),
        ("Maximum score: 10", 4),
        ("The maximum is 10.", 4),
        ("Score: 7", 7),
        ("The second paragraph: Score: 7", None),
        ("That is for last year. This year: 7", None),
        ("That is for last year. This year: seven", None),
        ("It rose from 1 to 10 after the revision to 7.", None),
    ],
)
def test_a_repeated_scale_is_no_score_and_a_score_of_a_part_decides_nothing(
    rest: str, number: float | None
) -> None:
    judge = built(pattern=r"score: (\d+)")
    assert judge.read(Reply(f"Score: 4\n\n{rest}", "stop")) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (
            "I cannot rate this text. In the requested format, that would be: "
            "the coherency score is 8.",
            None,
        ),
        (
            "As it stands, the coherency score is 4. "
            "If the last sentence were removed, the coherency score is 9.",
            None,
        ),
        ("If I consider the grammar, the coherency score is 8.", 8),
        ("In the format that you asked for, the coherency score is 8.", 8),
    ],
)
def test_a_score_in_a_format_or_under_a_condition_is_no_verdict(
    text: str, number: float | None
) -> None:
    assert built().read(replies(text)[0]) == number


@pytest.mark.parametrize(
    "later",
    [
        "However, 5 seems fairer.",
        "But 5 looks more appropriate.",
        "6 fits the text better.",
        "Still, 3 remains my rating.",
        "A score of 5 matches the rubric better.",
        "5 reflects its quality better.",
        "I deduct 3 points.",
        "I have to deduct two points for style.",
        "Minus 2 points for style.",
        "5 points seems fairer.",
        "However, five points seem fairer.",
        "A five would be fairer.",
        "Let me lower this to five.",
        "I will lower it by 2 points.",
        "It deserves a 5.",
        "The text merits five points.",
        "This score is too high.",
    ],
)
@pytest.mark.parametrize("pattern", [r"score is (\d+)", r"score: (\d+)"])
def test_another_score_that_seems_fairer_is_no_verdict(pattern: str, later: str) -> None:
    score = "Score: 2." if ":" in pattern else "The coherency score is 2."
    judge = built(pattern=pattern, low=1, high=5)
    assert judge.read(Reply(f"{score} {later}", "stop")) is None
    assert judge.read(Reply(f"{score}\n\n{later}", "stop")) is None


@pytest.mark.parametrize(
    "later",
    [
        "The 3 paragraphs fit together.",
        "2 sentences seem out of place.",
        "The two parts fit together well.",
        "One sentence feels abrupt.",
        "One of the sentences seems odd.",
        "No one deserves this fate.",
        "Sentence 3 seems out of place.",
        "Section 2 remains unclear.",
        "It has 2 points that seem unclear.",
        "It deserves an 8.",
        "It deserves eight points.",
        "This answer is wrong about the date.",
        "The response is incorrect in places.",
        "I would not change this.",
    ],
)
def test_counts_and_remarks_on_the_text_after_a_score_change_nothing(later: str) -> None:
    assert built().read(Reply(f"The coherency score is 8. {later}", "stop")) == 8


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("If it had an ending, the coherency score is 9.", None),
        ("Without the last line, the coherency score is 9.", None),
        ("The coherency score is 9 for the first half only.", None),
        ("For the first half, the coherency score is 9.", None),
        ("A perfect text, whose coherency score is 9, has one plot. This one has two.", None),
        ("If I consider all sentences, the coherency score is 9.", 9),
        ("Although the end is abrupt, the coherency score is 9.", 9),
        ("For these reasons, the coherency score is 9.", 9),
        ("In this text, the coherency score is 9.", 9),
        ("The coherency score is 9 for its flow.", 9),
    ],
)
def test_a_score_of_a_part_or_another_text_is_no_verdict(text: str, number: float | None) -> None:
    assert built().read(Reply(text, "stop")) == number
