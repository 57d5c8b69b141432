"""Conversations whose turns are scripted: each is asked once, whatever the verdicts are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from harness.errors import ConfigError, RequestRejected
from harness.records import Instance, Message, Origin, Reply, Request, Score
from harness.store.index import AttemptIndex
from tests.conftest import Scripted, Sums, run_file
from tests.engine.test_samples import Setting
from tests.engine.toys import plan

TURNS = 3


class Adding(Sums):
    """Asks for n + n, then to add n to the last answer, and again. Instance 0 has one turn."""

    def __init__(self, n: int = 3) -> None:
        super().__init__(n)

    def turns(self, instance: Instance[Any]) -> int:
        return 1 if instance.id == "sum/0" else TURNS

    def at_turn(self, instance: Instance[Any], answers: Sequence[str]) -> Instance[Any]:
        return replace(instance, data=(instance.data, *answers)) if answers else instance

    def messages(
        self, instance: Instance[Any], shots: Sequence[Instance[Any]]
    ) -> tuple[Message, ...]:
        if isinstance(instance.data, int):
            return super().messages(instance, shots)
        number, *answers = instance.data
        first = Message("user", f"What is {number} + {number}?")
        more = Message("user", f"Add {number}.")
        said = [turn for text in answers for turn in (Message("assistant", text), more)]
        return (first, *said)

    def score(self, instance: Instance[Any], text: str) -> Mapping[str, Score]:
        if isinstance(instance.data, int):
            return super().score(instance, text)
        number, *answers = instance.data
        return super().score(replace(instance, data=(int(answers[-1]) + number) / 2), text)


def adds(wrong_at: int = 0, **said: str | Reply) -> Scripted:
    """Adds up, except in one turn; ``said`` are other replies, as in ``turn_2=""``."""

    def answer(request: Request) -> str | Reply:
        texts = [one.content for one in request.messages]
        number = int(texts[0].split()[2])
        right = 2 * number if len(texts) == 1 else int(texts[-2]) + number
        turn = len(texts) // 2 + 1
        return said.get(f"turn_{turn}", str(right + (turn == wrong_at)))

    backend = Scripted(answer)
    backend.features = frozenset({"seed", "conversation"})
    return backend


def verdicts(setting: Setting) -> dict[tuple[str, int], list[bool | None]]:
    found: dict[tuple[str, int], list[bool | None]] = {}
    for (instance, sample, _), one in sorted(setting.attempts().items()):
        found.setdefault((instance, sample), []).append(one.passed)
    return found


async def test_every_turn_is_asked_once_whatever_the_verdict(tmp_path: Path) -> None:
    setting, backend = Setting(tmp_path, Adding(), samples=2), adds(wrong_at=2)
    await setting.run(backend)
    assert len(backend.requests) == 2 * (1 + 2 * TURNS)
    found = verdicts(setting)
    assert found["sum/0", 0] == [True]
    assert found["sum/1", 0] == found["sum/2", 1] == [True, False, True]
    last = setting.attempts()["sum/2", 0, 3]
    assert (last.turns, last.text, last.feedback) == (TURNS, "9", None)
    assert setting.attempts()["sum/2", 0, 2].feedback == "Add 2."
    assert setting.attempts()["sum/0", 0, 1].turns is UNSET
    sent = next(one for one in backend.requests if one.origin == Origin("sum/2", 0, TURNS, TURNS))
    assert [one.content for one in sent.messages] == [
        "What is 2 + 2?",
        "4",
        "Add 2.",
        "7",
        "Add 2.",
    ]


@pytest.mark.parametrize("reason", ["tool_calls", "tool_use", "function_call"])
async def test_an_answer_that_calls_a_tool_before_the_last_turn_is_not_sent_back(
    tmp_path: Path, reason: str
) -> None:
    setting, backend = Setting(tmp_path, Adding()), adds(turn_2=Reply("{}", reason))
    await setting.run(backend)
    attempts = setting.attempts()
    assert [number for name, _, number in sorted(attempts) if name == "sum/1"] == [1, 2]
    called = attempts["sum/1", 0, 2]
    assert (called.outcome, called.passed, called.text) == ("error", None, "{}")
    assert "called a tool" in (called.error or "")
    setting, backend = Setting(tmp_path / "last", Adding()), adds(turn_3=Reply("9", reason))
    setting.path.parent.mkdir()
    await setting.run(backend)
    assert setting.attempts()["sum/2", 0, 3].outcome == "ok"


async def test_the_display_counts_conversations_by_all_their_turns(tmp_path: Path) -> None:
    setting = Setting(tmp_path, Adding())
    await setting.run(adds(wrong_at=1))
    assert (setting.tally.passed, setting.tally.judged) == (0, 3)
    setting = Setting(tmp_path / "right", Adding())
    setting.path.parent.mkdir()
    await setting.run(adds())
    assert (setting.tally.passed, setting.tally.judged, setting.tally.turns) == (3, 3, TURNS)
    assert setting.tally.done == 3


@pytest.mark.parametrize(
    ("reply", "outcome"), [("", "empty"), (Reply("I can't.", "refusal"), "refused")]
)
async def test_an_empty_or_refused_answer_ends_the_conversation(
    tmp_path: Path, reply: str | Reply, outcome: str
) -> None:
    setting, backend = Setting(tmp_path, Adding()), adds(turn_2=reply)
    await setting.run(backend)
    assert verdicts(setting)["sum/1", 0] == [True, False]
    assert setting.attempts()["sum/1", 0, 2].outcome == outcome
    assert AttemptIndex(setting.path).last_rounds().size == 3
    asked = len(backend.requests)
    await setting.run(backend)
    assert len(backend.requests) == asked
    assert not list(plan(setting.path, setting.task, instances=setting.instances).unfinished())


async def test_a_truncated_answer_fails_and_the_conversation_goes_on(tmp_path: Path) -> None:
    setting = Setting(tmp_path, Adding())
    await setting.run(adds(turn_2=Reply("12", "length")))
    assert verdicts(setting)["sum/1", 0] == [True, False, True]


async def test_a_conversation_continues_after_a_failed_call_and_asks_nothing_twice(
    tmp_path: Path,
) -> None:
    setting, backend = Setting(tmp_path, Adding()), adds()
    answer, failing = backend.answer, True

    def fails(request: Request) -> str | Reply | Exception:
        second = request.origin.round == 2 and failing
        return RequestRejected("no") if second else answer(request)

    backend.answer = fails
    await setting.run(backend)
    assert verdicts(setting)["sum/1", 0] == [True, None]
    assert len(backend.requests) == 5
    failing = False
    await setting.run(backend)
    assert verdicts(setting)["sum/1", 0] == [True, True, True]
    assert len(backend.requests) == 5 + 2 * 2
    assert (setting.tally.passed, setting.tally.judged) == (2, 2)  # of this session


async def test_a_retried_answer_is_followed_by_the_turns_after_it(tmp_path: Path) -> None:
    setting = Setting(tmp_path, Adding())
    await setting.run(adds(turn_2=""))
    unfinished = plan(setting.path, setting.task, instances=setting.instances)
    again = dataclasses.replace(unfinished, retried={"empty"}).unfinished()
    assert [(one.instance.id, one.round, one.turns) for one in again] == [
        ("sum/1", 2, TURNS),
        ("sum/2", 2, TURNS),
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rounds": {"max": 2}}, "rounds.max"),
        ({"task": {"name": "sums", "shots": {"n": 1}}}, "shots"),
        ({"polish": {"backend": "scripted", "name": "p"}}, "paraphrased"),
        ({"decoding": {"extra": {"tools": []}}}, r"decoding\.extra\.tools offers tools .*'sum/1'"),
        ({"decoding": {"extra": {"toolConfig": {}}}}, "offers tools"),
    ],
)
def test_what_does_not_fit_a_conversation_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    for task, refused in (
        (Adding(), pytest.raises(ConfigError, match=said)),
        (Sums(), nullcontext()),
    ):
        made = plan(tmp_path / "attempts.jsonl", task)
        with refused:
            dataclasses.replace(made, run=run_file(**changes)).count_samples()


def test_a_backend_without_conversations_is_refused(tmp_path: Path) -> None:
    made = plan(tmp_path / "attempts.jsonl", Adding())
    with pytest.raises(ConfigError, match="single prompt"):
        dataclasses.replace(made, features={"seed"}).count_samples()
