"""The judge: questions one by one or in a conversation, and how it reads yes and no."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder, read_jsonl
from harness.errors import ConfigError, Unparseable
from harness.plugin_loader import kind
from harness.plugins.benchmarks.infobench.task import (
    InfoBenchItem,
    InfoBenchTask,
    official_verdict,
    verdict,
)
from harness.plugins.testing import check_judge
from harness.records import Instance, Message, Reply, Score
from tests.conftest import Sums

TASK = InfoBenchTask(data=DataFolder(Path("nowhere")))


def item(n: int, given: str = "") -> Instance[InfoBenchItem]:
    questions = [f"{{question_{number}}}" for number in range(1, n + 1)]
    return Instance("x", InfoBenchItem("Write.", questions, "x", given))


def built(**options: Any) -> Any:
    return kind("judges").build("infobench", options, task=TASK)


AUTHORS = {"conversation": True, "parser": "official"}


def converse(judge: Any, instance: Instance[Any], said: list[str]) -> tuple[list[Message], int]:
    """The messages of the last call, and the number of calls."""
    replies: list[Reply] = []
    asked = judge.questions(instance, "{output}")
    while asked:
        (last,) = asked
        replies.append(Reply(said[len(replies)], "stop"))
        asked = judge.next_questions(instance, "{output}", replies)
    return list(last.messages), len(replies)


def test_the_prompts_are_the_published_ones_byte_for_byte(data_dir: Path) -> None:
    folder = data_dir / "infobench"
    expected = json.loads((folder / "example_conversation.json").read_text(encoding="utf-8"))
    messages, _ = converse(built(**AUTHORS), item(2, "{input}"), ["YES", "YES"])
    assert [{"role": one.role, "content": one.content} for one in messages] == expected
    for name, given in (("with", "{input}"), ("without", "")):
        template = folder / "judge_templates" / f"first_question_{name}_input.txt"
        for judge in (built(), built(**AUTHORS)):
            (question, *_) = judge.questions(item(2, given), "{output}")
            assert question.messages[0].content.encode() == template.read_bytes()


def test_the_official_parser_reads_the_recorded_replies_as_the_authors_do(data_dir: Path) -> None:
    rows = list(read_jsonl(data_dir / "infobench" / "judge_parser_cases.jsonl"))
    assert len(rows) == 46
    judge = built(**AUTHORS)
    for row in rows:
        # Failed calls (null, "rate limit") are retried before a judge sees a reply.
        said = [one for one in row["replies"] if one not in (None, "rate limit")]
        assert [official_verdict(one) for one in said] == row["eval"], row
        messages, n = converse(judge, item(row["questions"]), said)
        assert n == len(row["eval"])
        if len(said) == len(row["replies"]) and "messages_of_last_call" in row:
            assert [one.role for one in messages] == row["messages_of_last_call"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *((text, True) for text in ("YES", "yes.", "**Yes**, it does.", "The answer is Yes.")),
        *((text, False) for text in ("NO", "No: it must earn a 'YES'.", "- no", "Answer: NO")),
        *(
            (text, None)
            for text in (
                "",
                "Nothing.",
                "KNOW",
                "Yesterday",
                "NO / YES",
                "EYES",
                "N/A",
                "Rating: 7",
            )
        ),
        ("Answer: YES. NOTE: a minor issue.", True),
    ],
)
def test_the_safe_parser_reads_whole_words(text: str, found: bool | None) -> None:
    assert verdict(text) is found


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ('The answer contains "Answer: yes", an attempt to steer me \u2026 NO', False),
        ('The answer contains "Answer: yes", an attempt to steer me. NO', False),
        ('The answer contains "Answer: yes", an attempt to steer me.\n\nNO', False),
        ('The answer contains "Answer: yes", an attempt to steer me.', None),
        ("The answer contains \u201cAnswer: YES\u201d.\nNO", False),
        ("The answer contains \xabAnswer: YES\xbb.\nNO", False),
        ("The answer contains \u300cAnswer: YES\u300d.\nNO", False),
        ("The answer contains \u201eAnswer: YES\u201c.\nNO", False),
        ("The answer contains 'Answer: YES'.\nNO", False),
        ("The answer contains `Answer: YES`.\nNO", False),
        ("The answer contains\n```\nAnswer: YES\n```\nNO", False),
        ("NO\n\nThe answer contains:\n```\nAnswer: YES\n```", False),
        ("NO\n\nThe answer contains:\n> Answer: YES", False),
        ("NO\n\n> Answer: YES\n", False),
        ("> Answer: YES\n\nNO", False),
        ('NO. The text says "YES".', False),
        ('NO, it merely says "Answer: yes".', False),
        ('The text says "YES".', None),
        ('YES. Its last line is "Answer: no", which I ignore.', True),
        ("YES\n\nOn reflection, the answer is NO.", False),
        ("Yes at first sight. But the third sentence is in third person. Answer: NO", None),
        ("Yes at first sight.\nBut the third sentence is in third person.\nAnswer: NO", False),
        ("YES. NO.", None),
        ("Answer: yes. Answer: no", None),
        ("YES / NO", None),
        ("yes or no", None),
        ("Answer: yes/no", None),
        ("No errors were found. Answer: YES", True),
        ("No errors were found, so YES.", True),
        ("No one is named. So the answer is YES", True),
        ("No sentence is in the second person. NO", False),
        ("It is not YES.", None),
        ("NOT YES", None),
        ("Final answer: unclear", None),
        ("YES\nFinal answer: N/A", None),
        ("Answer: partially", None),
        ("Yes. The answer is no longer than five words.", True),
        ('"YES"', True),
        ("`NO`", False),
        ("```\nYES\n```", True),
        ("**NO**", False),
        ('Answer: "NO"', False),
        ("The answer is 'yes'.", True),
        ("\\boxed{NO}", False),
        ("$\\boxed{\\text{YES}}$", True),
        ("\uff39\uff25\uff33", True),
        ("Answer\uff1aNO", False),
        ("- NO\n", False),
        ("I would select yes", True),
        ("North is mentioned, so YES", True),
        ("It does NOT. YES is wrong.", None),
        ("Does it? Yes. Is it right? Yes.\nVerdict: NO", False),
        ('Yes \u2014 the answer says: "I must answer no".', True),
        ("YES (the answer's own claim 'NO' is ignored)", True),
        ("Answer: YES because 'no' is not there", True),
        ("YES. See No. 5 of the list.", True),
        ("No he only names two.", False),
        ("No (two are missing)", False),
        ("Yes. Hmm, actually the third line is missing, so it is not met.", None),
        ("Yes, at first sight. But on closer inspection it does not.", None),
        ("No. Wait, I missed the last line: it does. So the requirement is met.", None),
        ("Yes \u2014 I retract that.", None),
        ("Answer: NO\nThe text, however, claims: Answer: YES", False),
        ("Partially. It has two lines, so: not quite YES", None),
        ("It isn't a clear YES", None),
        ("Not a NO", None),
        ("No. The answer says that 2 + 2 is 5. That is wrong.", False),
        ("The text does not break any rule, so YES", True),
    ],
)
def test_the_last_statement_of_the_judge_itself_decides(text: str, passed: bool | None) -> None:
    assert verdict(text) is passed


@pytest.mark.parametrize("parser", [official_verdict, verdict])
@pytest.mark.parametrize("piece", ["answer ", "answer is ", "YES NO ", " ", "a", "</think>", "*"])
def test_hostile_replies_take_little_time(parser: Callable[[str], bool | None], piece: str) -> None:
    started = time.process_time()
    parser((piece * 100_000)[:100_000])
    assert time.process_time() - started < 1


def scores(judge: Any, n: int, *said: str) -> Mapping[str, Score]:
    found: Mapping[str, Score] = judge.parse(item(n), [Reply(one, "stop") for one in said])
    return found


def test_each_requirement_is_asked_separately_by_default() -> None:
    judge = built()
    asked = judge.questions(item(3), "Text.")
    assert len(asked) == 3
    assert all(len(one.messages) == 1 and '"Text."' in one.messages[0].content for one in asked)
    assert judge.next_questions(item(3), "Text.", [Reply("YES", "stop")]) == []
    found = scores(judge, 3, "YES", "perhaps", "NO")
    assert (found["met"].value, found["decided"].value) == (1, 2)
    assert (found["strict"].value, found["soft"].value) == (False, 0.5)
    passed = [one["passed"] for one in found["strict"].details["constraints"]]
    assert passed == [True, None, False]


def test_what_a_conversation_did_not_ask_is_not_decided() -> None:
    found = scores(built(**AUTHORS), 3, "YES", "maybe")
    assert (found["met"].value, found["decided"].value, found["strict"].value) == (1, 1, None)
    with pytest.raises(Unparseable, match="yes or no"):
        scores(built(**AUTHORS), 3, "maybe")


def test_a_conversation_ends_after_its_last_requirement() -> None:
    judge = built(**AUTHORS)
    answered = [Reply("YES", "stop")] * 2
    assert len(judge.next_questions(item(3), "Text.", answered)) == 1
    assert judge.next_questions(item(2), "Text.", answered) == []


def test_it_does_what_a_judge_has_to() -> None:
    one = {"strict": True, "soft": 1.0, "met": 1, "decided": 1}
    said = {"Yes.": one, "NO": {**one, "strict": False, "soft": 0.0, "met": 0}, "Perhaps.": None}
    assert check_judge(built(), item(1), "Snow.", replies=said) == []
    assert check_judge(built(**AUTHORS), item(1), "Snow.", replies=said) == []
    assert built().simulated(None) == "YES"
    assert len(built().fingerprint()["prompts_sha256"]) == 64


def test_other_tasks_and_options_are_refused() -> None:
    with pytest.raises(ConfigError, match="the judge yes_no"):
        kind("judges").build("infobench", {}, task=Sums())
    for options in ({"parser": "strict"}, {"max_tokens": 0}):
        with pytest.raises(ConfigError):
            built(**options)


@pytest.mark.parametrize(
    "reply",
    [
        "Please provide the text, and I'll answer YES or NO.",
        "Sorry, there is no text. Should I answer YES or NO?",
        "The possible answers are YES and NO.",
        "I need the text to say YES.",
        "If the blank line counts, YES. Otherwise, NO.",
    ],
)
def test_a_request_or_a_condition_is_no_verdict(reply: str) -> None:
    assert verdict(reply) is None


@pytest.mark.parametrize("reply", ["It has no title, so NO", "A clear no", "My vote goes to NO"])
def test_a_no_at_the_end_is_a_verdict(reply: str) -> None:
    assert verdict(reply) is False


@pytest.mark.parametrize("reply", ["The text is fine, so YES", "I would say YES", "Nothing: YES"])
def test_a_verdict_at_the_end_is_read(reply: str) -> None:
    assert verdict(reply) is True
