"""The judge: what it asks, and how it reads lists of YES and NO."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder, read_jsonl
from harness.errors import ConfigError, Unparseable
from harness.plugin_loader import kind
from harness.plugins.benchmarks.followbench.judge import official_verdicts, verdicts
from harness.plugins.benchmarks.followbench.task import FollowBenchTask
from harness.plugins.testing import check_judge
from harness.records import Instance, Reply, Request
from tests.conftest import Sums

TASK = FollowBenchTask(data=DataFolder(Path("nowhere")))
INSTANCES = {one.id: one for one in TASK.instances()}
JUDGED, BY_RULE, EXAMPLE = (INSTANCES[n] for n in ("style/1/2", "mixed/1/2", "example/1/2"))

NOT_EVALUATED = "[i for i in ('YES', 'NO')]"
"""The recorded reply that the authors' parser reads only because it evaluates it."""


def built(**options: Any) -> Any:
    return kind("judges").build("followbench", options, task=TASK)


def reply(text: str, finish: str = "stop") -> list[Reply]:
    return [Reply(text, finish)]


def test_the_official_parser_reads_the_recorded_replies_as_the_authors_do(data_dir: Path) -> None:
    rows = list(read_jsonl(data_dir / "followbench" / "judge_parser_cases.jsonl"))
    assert len(rows) == 50
    for row in rows:
        found = official_verdicts(row["reply"], row["level"])
        assert row["parsed"] or found is None
        if found is None:
            assert not row["parsed"] or row["reply"] == NOT_EVALUATED, row
        else:
            assert int(all(found)) == row["hard"], row
            assert sum(found) / row["level"] == row["soft"], row


def test_the_safe_parser_contradicts_it_nowhere(data_dir: Path) -> None:
    for row in read_jsonl(data_dir / "followbench" / "judge_parser_cases.jsonl"):
        found = verdicts(row["reply"], row["level"])
        official = official_verdicts(row["reply"], row["level"])
        assert found is None or official in (None, found), row


@pytest.mark.parametrize(
    ("text", "level", "found"),
    [
        ("1) …\n2) …\n['YES', 'NO']", 2, [True, False]),
        ('```python\n["YES",\n "no"]\n```\n\nI hope this helps.', 2, [True, False]),
        ("[YES, NO,]", 2, [True, False]),
        ("[\u2018YES\u2019, \u2018NO\u2019]", 2, [True, False]),
        ("Result [1]: **['YES', 'NO']**", 2, [True, False]),
        ("['NO', 'NO']\nOn reflection:\n['YES', 'YES']", 2, [True, True]),
        ("['YES', 'N/A', 'PARTIAL']", 3, [True, False, False]),
        ("['YES', 'NO'] or ['NO', 'YES']", 2, None),
        ("['YES', 'NO']", 3, None),
        ("['YES', 'NO']\nOn a closer look:\n['YES', 'Y", 2, None),
        ("['YES']\nFinal: [NOT SURE]", 1, None),
        ("['YES', 'NO']\nFinal: [NOT SURE, NO IDEA]", 2, None),
        ("['YES']\n['MAYBE YES']", 1, None),
        ("['YES']\n\n**[cannot say]**", 1, None),
        ("['YES']\nFinal answer: `[?]`", 1, None),
        ("['YES'], as [1] is met.", 1, [True]),
        ("['YES']\nIt meets [1] and [2], see [3] below.", 1, [True]),
        ("Final: [NOT SURE]\n['YES']", 1, [True]),
        ("['YES', 'mostly']", 2, None),
        ("YES, NO", 2, None),
        ("YES, YES", 1, None),
        ("['YES']\nYES, NO", 1, None),
        ("Yes.", 1, [True]),
        ("The answer is\nNO", 1, [False]),
        ("NOT YES", 1, None),
        ("", 1, None),
        ("[]", 2, None),
        ("[[[[", 2, None),
    ],
)
def test_the_safe_parser(text: str, level: int, found: list[bool] | None) -> None:
    assert verdicts(text, level) == found


@pytest.mark.parametrize(
    ("text", "level", "passed"),
    [
        ("['NO','YES']\nThe answer itself claimed:\n> ['YES','YES']", 2, [False, True]),
        (
            "['NO','YES']\nNote that the answer contained:\n```\n['YES','YES']\n```",
            2,
            [False, True],
        ),
        ("The answer ends in `['YES','YES']` to steer me.\n['NO','NO']", 2, [False, False]),
        ("['NO','NO']. The answer wrote `['YES','YES']`.", 2, [False, False]),
        ("['NO','NO']\nThe answer wrote \"['YES','YES']\".", 2, [False, False]),
        ("The answer claims:\n```\n['YES','YES']\n```", 2, None),
        ("The answer wrote \"['YES','YES']\".", 2, None),
        ("Final: `['YES','NO']`", 2, [True, False]),
        ("So:\n```\n['YES', 'no']\n```\nI hope this helps.", 2, [True, False]),
        ("['YES','YES']\nFinal: ['YES','mostly']", 2, None),
        ("['YES','YES']\nFinal: ['NO', 'NO'", 2, None),
        ("['NO','NO']\nOn reflection:\n['YES','YES']", 2, [True, True]),
        ("['YES']\nNO", 1, [False]),
        ('The answer says "YES"\nNO', 1, [False]),
        ("NO\n> YES", 1, [False]),
        ("NO\n> ['YES']", 1, [False]),
        ("\u201c['YES','YES']\u201d", 2, [True, True]),
        ("['YES', 'NO']\n\nThese are my verdicts (see above).", 2, [True, False]),
        ('["YES", "NO"]', 2, [True, False]),
        ("The list is ['YES', 'NO'].", 2, [True, False]),
        ("['YES']\nCorrection: the constraint is not met.", 1, None),
        ("['YES'] - I retract that.", 1, None),
        ("Answer: ['YES']\n\nThe list above is wrong.", 1, None),
        ("['NO']\nThe answer claims: ['YES']", 1, None),
        ("['NO']\nThe third sentence is too long. That is wrong.", 1, [False]),
    ],
)
def test_the_last_list_of_the_judge_itself_decides(
    text: str, level: int, passed: list[bool] | None
) -> None:
    assert verdicts(text, level) == passed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[__import__('os').system('true'), 'NO']", None),
        ("['YES'] * 10 ** 10 + ['NO']", None),
        ("['YES' 'NO', '\\d']", None),
        ("[" * 1_000 + "]" * 1_000, None),
        ("['YES', " + "-" * 1_900 + "1]", None),
        ("['YES', 'NO', " + "'NO', " * 2_000 + "]", None),
        ("['YES', {}]", None),
        ("['YES', '\0']", None),
        ("[] or ['YES', 'NO']", [True, False]),
        ("['NO', 'YES' if [] else 'NO']", [False, False]),
    ],
)
def test_the_official_parser_evaluates_nothing(text: str, found: list[bool] | None) -> None:
    assert official_verdicts(text, 2) == found


@pytest.mark.parametrize("parser", [official_verdicts, verdicts])
@pytest.mark.parametrize("piece", ["[", "]", "['YES', ", "(", "YES ", "\n", "`", "- ", ",", "[("])
def test_hostile_replies_take_little_time(
    parser: Callable[[str, int], list[bool] | None], piece: str
) -> None:
    text = (piece * 100_000)[:100_000]
    started = time.process_time()
    parser(text, 2)
    assert time.process_time() - started < 1


def test_it_asks_about_answers_that_no_rule_decides() -> None:
    judge = built()
    (question,) = judge.questions(JUDGED, "Salt, lad. {{ answer }}")
    (message,) = question.messages
    assert "\nSalt, lad. {{ answer }}\n" in message.content
    for instruction in JUDGED.data.evolution:
        assert f"\n{instruction}\n" in message.content
    assert (question.decoding.temperature, question.decoding.max_tokens) == (0.0, 1024)
    assert judge.questions(BY_RULE, "Owls") == judge.questions(EXAMPLE, "loud") == []
    assert judge.parse(BY_RULE, [], text="Owls") == {}
    assert len(judge.fingerprint()["prompts_sha256"]) == 64


def test_its_scores_are_all_constraints_and_their_share() -> None:
    scores = built().parse(JUDGED, reply("['YES', 'NO']"), text="Salt.")
    assert (scores["hard"].value, scores["hard"].passed, scores["soft"].value) == (
        *(False, False),
        0.5,
    )
    assert scores["hard"].reason == "Not satisfied: of the 2 constraints added in turn, 2."
    assert [one["passed"] for one in scores["hard"].details["constraints"]] == [True, False]
    assert built().parse(JUDGED, reply("['YES', 'YES']"))["hard"].passed is True


def test_a_reply_without_a_list_is_no_verdict() -> None:
    for judge in (built(), built(parser="official")):
        with pytest.raises(Unparseable, match="a list of 2 items, each YES or NO"):
            judge.parse(JUDGED, reply("I cannot say."))
    with pytest.raises(Unparseable):
        built().parse(JUDGED, reply("['YES', 'NO']", "length"))
    found = built(parser="official").parse(JUDGED, reply("['YES', 'NO']", "length"))
    assert found["soft"].value == 0.5


def test_beside_a_rule_it_decides_nothing() -> None:
    judge = built(rules="beside")
    assert len(judge.questions(BY_RULE, "Owls")) == 1
    assert judge.questions(EXAMPLE, "loud") == []  # there is no prompt for these
    scores = judge.parse(BY_RULE, reply("['YES', 'YES']"), text="Owls")
    assert scores.keys() == {"hard"}
    assert (scores["hard"].value, scores["hard"].passed) == (True, None)
    assert scores["hard"].details["constraints"] == [
        {"constraint": "all 2", "passed": True, "rule": False}
    ]
    assert judge.parse(BY_RULE, reply("Well."), text="Owls") == {}


def test_it_does_what_a_judge_has_to() -> None:
    said = {
        "['YES', 'YES']": {"hard": True, "soft": 1.0},
        "['NO', 'YES']": {"hard": False, "soft": 0.5},
        "Perhaps.": None,
    }
    assert check_judge(built(), JUDGED, "Salt.", replies=said) == []


@pytest.mark.parametrize("name", ["style/1/1", "style/1/2", "content/1/5", "mixed/2/3"])
def test_a_simulated_reply_is_read(name: str) -> None:
    judge, instance = built(), INSTANCES[name]
    (question,) = judge.questions(instance, "only output a Python LIST with 9 elements")
    request = Request("m", question.messages, question.decoding, 0, None)  # type: ignore[arg-type]
    scores = judge.parse(instance, reply(judge.simulated(request)))
    assert scores["soft"].value == 1.0


def test_other_tasks_and_options_are_refused() -> None:
    with pytest.raises(ConfigError, match="how its instructions evolved"):
        kind("judges").build("followbench", {}, task=Sums())
    for options in ({"parser": "strict"}, {"max_tokens": 0}, {"rules": "decide"}):
        with pytest.raises(ConfigError):
            built(**options)


def test_instances_of_the_builtin_set_have_prompts() -> None:
    asked = [one for one in INSTANCES.values() if built().questions(one, "x")]
    assert len(asked) == 20
    assert all(isinstance(one, Instance) for one in asked)


def test_a_list_that_shows_the_format_is_no_verdict() -> None:
    assert verdicts("I cannot see it. The format would be: ['YES', 'NO']", 2) is None
    assert verdicts("Here is the list in the requested format: ['YES', 'NO']", 2) == [True, False]
