"""Rows with several turns of the user, each with what checks its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.errors import DataInvalid
from harness.plugins.testing import check_task
from harness.records import Message
from harness.tasks import JsonlTask
from tests.tasks.test_task import made as made  # a fixture

Made = Callable[..., JsonlTask]
TALK: dict[str, Any] = {
    "turns": [
        {"content": "Capital of France?", "checks": ["exact_match"], "target": "Paris"},
        "And of Japan?",
        {"content": "Both?", "checks": [{"contains": {"target": ["Paris", "Tokyo"]}}]},
    ],
    "gold": "Paris, Tokyo",
}


def test_each_turn_has_the_conversation_so_far_and_its_own_checks(made: Made) -> None:
    task = made(TALK, system="Be brief.")
    (row,) = task.instances()
    assert task.turns(row) == 3
    assert task.at_turn(row, ()) == row
    last = task.at_turn(row, ("Paris", "Tokyo"))
    assert (last.id, last.groups) == (row.id, row.groups)
    assert task.messages(row, ()) == (
        Message("system", "Be brief."),
        Message("user", "Capital of France?"),
    )
    assert task.messages(last, ()) == (
        *task.messages(row, ()),
        Message("assistant", "Paris"),
        Message("user", "And of Japan?"),
        Message("assistant", "Tokyo"),
        Message("user", "Both?"),
    )
    assert [*task.score(row, "Paris")] == ["exact_match"]
    assert not task.score(task.at_turn(row, ("Paris",)), "Kyoto")
    assert task.score(last, "Paris")["contains"].passed is False
    assert task.instruction(last).startswith("system: Be brief.\n\nuser: Capital of France?")


def test_references_are_the_turns_own(made: Made) -> None:
    task = made(TALK, gold="{{ gold }}!")
    (row,) = task.instances()
    turns = [task.at_turn(row, ["x"] * number) for number in range(3)]
    assert [task.reference(turn) for turn in turns] == ["Paris", None, "Paris, Tokyo!"]


def test_the_rows_own_checks_and_the_run_files_are_for_the_last_answer(made: Made) -> None:
    own = {"turns": ["a", "b"], "checks": ["exact_match"], "target": "x"}
    changed = {"turns": [{"content": "a", "checks": {"short": {"at_most": 1}}}, "b"]}
    task = made(
        own, changed, {"turns": ["a"]}, checks=[{"word_count": {"at_most": 5}, "as": "short"}]
    )
    first, second, third = task.instances()
    assert not first.data.rules
    assert [rule.name for rule in task.at_turn(first, ["x"]).data.rules] == ["exact_match"]
    assert [rule.options for rule in second.data.rules] == [{"at_most": 1}]
    assert [rule.options for rule in task.at_turn(second, ["x"]).data.rules] == [{"at_most": 5}]
    assert (task.turns(third), [rule.name for rule in third.data.rules]) == (1, ["short"])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"turns": []}, "must be a list of the user's turns"),
        ({"turns": "a"}, "must be a list of the user's turns"),
        ({"turns": ["a", " "]}, "'turns', 2: the user's turn has no text"),
        ({"turns": [{"text": "a"}]}, "'turns', 1: the user's turn has no text"),
        ({"turns": [{"content": "a", "tool_calls": [{}]}]}, "'turns', 1: 'tool_calls' is of a"),
        ({"turns": ["a", {"role": "tool", "content": "b"}]}, "'turns', 2: 'role: tool' is of a"),
        ({"messages": [{"role": "tool", "content": "b"}]}, "'messages', 1: 'role: tool' is of a"),
        ({"messages": [{"role": "user", "content": "b", "tool_call_id": "1"}]}, "'tool_call_id'"),
        ({"messages": [{"role": "assistant", "function_call": {"name": "f"}}]}, "'function_call'"),
        ({"turns": ["a", 1]}, "'turns', 2: the user's turn has no text"),
        ({"turns": ["a", {"role": "assistant", "content": "b"}]}, "all turns are the user's"),
        ({"turns": ["a"], "prompt": "b"}, "'turns' and 'prompt'"),
        ({"turns": ["a"], "messages": []}, "'turns' and 'messages'"),
        (
            {"turns": ["a", {"content": "b", "checks": ["exact_match"]}], "checks": []},
            "the last turn and the row both have 'checks'",
        ),
        ({"turns": ["a", "b"]}, "there are no checks"),
        ({"turns": [{"content": "a", "checks": ["exact_match"]}, "b"]}, "the field 'target'"),
    ],
)
def test_a_malformed_row_is_refused_with_its_place(
    made: Made, row: dict[str, Any], said: str
) -> None:
    with pytest.raises(DataInvalid, match="item 1: ") as refused:
        list(made(row).instances())
    assert said in refused.value.message


def test_a_prompt_template_and_turns_are_refused(made: Made) -> None:
    with pytest.raises(DataInvalid, match=r"the row has 'turns', and task\.prompt is set"):
        list(made(TALK, prompt="{{ content }}").instances())


def test_a_conversation_passes_the_checks_for_tasks(made: Made) -> None:
    assert check_task(made(TALK)) == []


def test_conversations_are_one_cluster_if_all_user_turns_are_the_same(made: Made) -> None:
    played = {"prompt": "Hi.", "user": {"goal": "Pay.", "max_turns": 3}}
    rows = [
        {"turns": ["Hi.", "Number 1."]},
        {"turns": ["Hi.", "Number 1."], "checks": ["exact_match"], "target": "x"},
        {"turns": ["Hi.", "Number 2."]},
        {"turns": ["Hi.", "Number 2."], "cluster": "mine"},
        {"turns": ["Hi."]},
        played,
        played | {"user": {"goal": "Complain.", "max_turns": 3}},
    ]
    made_of = [
        one.cluster for one in made(*rows, checks=[{"contains": {"target": "x"}}]).instances()
    ]
    first, same, second, own, single, pays, complains = made_of
    assert first == same
    assert (own, single) == ("mine", None)
    assert len({first, second, pays, complains, None}) == 5
