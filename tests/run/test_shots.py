from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.config.sections import ShotsSection
from harness.errors import ConfigError, ShotLeaks
from harness.records import Instance, Message, messages_hash
from harness.run.dry_run import count_work
from harness.run.plan import RunPlan
from harness.run.shots import ShotPool, Shots
from harness.store.index import AttemptIndex
from tests.conftest import Sums, run_file
from tests.run.shown import Fact, Facts, fact, selection

A, B, C = fact("a"), fact("b"), fact("c")


def shown(task: Facts, **section: Any) -> list[tuple[str, str]]:
    """What the first instance of a task is sent."""
    found = selection(task, **section).messages(task.all[0])
    return [(message.role, message.content) for message in found]


def test_each_shot_is_a_turn_of_the_user_and_one_of_the_assistant() -> None:
    assert shown(Facts(A, B, C), n=2) == [
        ("user", "b?"), ("assistant", "b!"), ("user", "c?"), ("assistant", "c!"), ("user", "a?"),
    ]  # fmt: skip


def test_one_message_holds_prompts_and_answers() -> None:
    assert shown(Facts(A, B, C), n=2, form="message") == [("user", "b?\nb!\n\nc?\nc!\n\na?")]


def test_a_task_may_write_its_shots_itself() -> None:
    assert shown(Facts(A, B, C), n=2, form="task") == [("user", "b?=b!;c?=c!;a?")]


@pytest.mark.parametrize("form", ["turns", "message"])
def test_a_system_message_is_there_once(form: str) -> None:
    found = shown(Facts(A, B, C, system="Be brief."), n=2, form=form)
    assert found[0] == ("system", "Be brief.")
    assert [role for role, _ in found].count("system") == 1


def test_another_system_message_than_the_instances_is_refused() -> None:
    task, source = Facts(A, B), Facts(B, C, system="Be long.")
    with pytest.raises(ConfigError, match="system message differs from the instance's"):
        selection(task, pool=source).check(list(task.instances()))


def test_prompts_of_several_turns_are_turns_and_no_message() -> None:
    task = Facts(A, B, turns=2)
    assert [role for role, _ in shown(task)] == ["user", "user", "assistant", "user", "user"]
    with pytest.raises(ConfigError, match=r"several turns.*Set task\.shots\.form to turns"):
        selection(task, form="message").check(list(task.instances()))


class Broken(Shots):
    """Chooses what it is told to."""

    shot: Instance[Fact]

    def of(self, instance: Instance[Any]) -> list[Instance[Any]]:
        return [self.shot]


@pytest.mark.parametrize("form", ["turns", "message", "task"])
@pytest.mark.parametrize(
    "shot",
    [
        fact("a", asked="?", gold="other"),
        fact("b", asked="a?"),
        fact("b", gold="a!"),
        fact("b", gold=None),
    ],
    ids=["the instance itself", "the same prompt", "right here too", "no answer"],
)
def test_a_leak_is_stopped_whatever_chose_the_shot(shot: Instance[Fact], form: Any) -> None:
    task = Facts(A, B)
    broken = Broken(task, ShotsSection(n=1, form=form), ShotPool(task))
    broken.shot = shot
    with pytest.raises(ShotLeaks, match=f"The shot '{shot.id}' gives the answer to 'a' away"):
        broken.messages(A)
    broken.shot = B
    assert broken.messages(A)


def test_too_few_are_refused_before_any_call() -> None:
    task = Facts(A, B)
    with pytest.raises(ConfigError, match="only 1 of 2 shots"):
        selection(task, n=2).check(list(task.instances()))
    allowed = selection(task, n=2, allow_fewer=True)
    allowed.check(list(task.instances()))
    assert allowed.lacking == 2


def plan(task: Any, **section: Any) -> RunPlan:
    run = run_file(task={"name": "sums", "shots": section or 0})
    shots = selection(task, **section) if section else None
    return RunPlan(task, run, list(task.instances()), AttemptIndex(Path("none")), shots=shots)


def test_zero_shot_and_few_shot_runs_pair_by_cluster() -> None:
    task = Sums(4)
    zero, two = plan(task), plan(task, n=2)
    for instance in task.instances():
        bare, few = zero.opening(instance), two.opening(instance)
        assert bare.messages == few.messages[-1:] == task.messages(instance, ())
        assert len(few.messages) == 5
        assert bare.cluster == few.cluster == messages_hash(bare.messages)


def test_a_coarser_cluster_stays() -> None:
    instance = Instance("sum/0", 0, {}, "all")
    assert plan(Sums(4), n=2).opening(instance).cluster == "all"


def test_the_dry_run_prices_the_shots() -> None:
    task = Sums(6)
    found = [
        count_work(one, lambda request: repr(request.messages), lambda _: False)
        for one in (plan(task), plan(task, n=1), plan(task, n=3))
    ]
    for fewer, more in pairwise(found):
        assert fewer.input_tokens.low * 2 < more.input_tokens.low
    assert found[1].first == (
        Message("user", "What is 1 + 1?"),
        Message("assistant", "2"),
        Message("user", "What is 0 + 0?"),
    )
