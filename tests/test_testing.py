"""The checks for plug-in authors accept what is right and find what is planted."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.errors import Unparseable
from harness.records import Instance, Message, Reply, Score, Usage
from harness.testing import check_backend, check_checker, check_judge, check_task
from tests.conftest import Scripted, Sums

sys.path.insert(0, str(Path(__file__).parent / "example_plugin"))
from harness_example.parrot import ParrotBackend
from harness_example.politeness import PolitenessJudge
from harness_example.shouting import ShoutingChecker
from harness_example.spelling import SpellingTask

INSTANCE = Instance("a", "hello")
SAID = {"Yes.": True, "no": False}


def test_the_examples_are_right() -> None:
    assert check_task(SpellingTask()) == []
    assert check_task(Sums()) == []
    assert check_backend(ParrotBackend()) == []
    assert check_backend(Scripted(lambda _: "4")) == []
    assert check_checker(ShoutingChecker(), passes=["HEY"], fails=["hey"]) == []
    assert check_judge(PolitenessJudge(), INSTANCE, "Kind words.", replies=SAID) == []


def changed(base: type, **members: Any) -> Any:
    return type("Planted", (base,), members)()


def twice(self: Sums) -> Iterator[Instance[int]]:
    yield from [Instance("sum/0", 1), Instance("sum/0", 2)]


numbers = itertools.count()


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"score_of_no_answr": lambda *_: {}}, "did you mean 'score_of_no_answer'"),
        ({"measure": "exact"}, "no 'score_of_no_answer', which Measured needs"),
        ({"messages": lambda self, instance: ()}, "messages is called with the arguments"),
        ({"instances": twice}, "an id twice"),
        ({"instances": lambda self: iter(())}, "yields nothing"),
        ({"reference": lambda self, instance: "-1"}, "does not pass"),
        ({"reference": lambda self, instance: "zero"}, "is unparseable"),
        ({"score": lambda *_: {"exact": Score(True, True)}}, "The wrong answer"),
        ({"score": lambda self, i, text: {"exact": Score(float(text), True)}}, "raises ValueError"),
        ({"score": lambda *_: {"exact": Score(float("nan"), True)}}, "is not finite"),
        ({"score": lambda *_: {"exact": Score(None, False)}}, "a verdict and no value"),
        ({"score": lambda *_: {"n": Score(next(numbers), True)}}, "for the same text"),
        ({"fingerprint": lambda self: {}}, "fingerprint does not name"),
        ({"messages": lambda *_: (Message("system", "Hi."),)}, "end with a user's message"),
    ],
)
def test_a_task_s_mistake_is_found(members: dict[str, Any], problem: str) -> None:
    found = check_task(changed(Sums, **members))
    assert any(problem in one for one in found), found


async def raising(self: object, request: object) -> Reply:
    raise KeyError("choices")


async def unfinished(self: object, request: object) -> Reply:
    return Reply("4", "", Usage(1, 1))


async def uncounted(self: object, request: object) -> Reply:
    return Reply("4", "stop")


def blocking(self: object, request: object) -> Reply:
    return Reply("4", "stop", Usage(1, 1))


async def closing(self: Any) -> None:
    del self.in_flight


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"features": frozenset({"temprature"})}, "'temprature', which the harness does not know"),
        ({"generate": raising}, "raises KeyError"),
        ({"generate": unfinished}, "no finish_reason"),
        ({"generate": uncounted}, "no usage"),
        ({"generate": blocking}, "must be an async function"),
        ({"aclose": closing}, "when called twice"),
        ({"endpoint": None}, "endpoint is not text"),
        ({"ready": True}, "no 'start', which Startable needs"),
    ],
)
def test_a_backend_s_mistake_is_found(members: dict[str, Any], problem: str) -> None:
    found = check_backend(
        changed(Scripted, __init__=lambda self: Scripted.__init__(self, str), **members)
    )
    assert any(problem in one for one in found), found


def test_a_backend_that_a_cancelled_call_breaks_is_found() -> None:
    class OneAtATime(Scripted):
        broken = False

        async def generate(self, request: Any) -> Reply:
            if self.broken:
                raise RuntimeError("the connection is half read")
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                self.broken = True
                raise
            return Reply("4", "stop", Usage(1, 1))

    assert any("after a call was cancelled" in one for one in check_backend(OneAtATime()))


def check(do: Callable[[str], Any]) -> dict[str, Any]:
    return {"check": lambda self, text, instance: do(text)}


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"check": lambda self, text: Score(True, True)}, "check is called with the arguments"),
        (check(lambda text: text.isupper()), "does not return a harness.records.Score"),
        (check(lambda text: Score(text[0].isupper(), True)), "raises IndexError"),
        (check(lambda text: Score(True, True)), "'hey' does not fail"),
        (check(lambda text: Score(next(numbers), None)), "another score for the same text"),
        (check(lambda text: Score(float("inf"), False)), "is not finite"),
    ],
)
def test_a_checker_s_mistake_is_found(members: dict[str, Any], problem: str) -> None:
    found = check_checker(changed(ShoutingChecker, **members), passes=["HEY"], fails=["hey"])
    assert any(problem in one for one in found), found


def scored(value: Any) -> Callable[..., Any]:
    return lambda self, instance, replies: {"polite": Score(value, None)}


def careless(self: object, instance: object, replies: Any) -> dict[str, Score]:
    said = "yes" in replies[0].text.lower()
    return {"polite": Score(said, said)}


def brittle(self: object, instance: object, replies: Any) -> dict[str, Score]:
    if not replies[0].text:
        raise Unparseable("nothing")
    return {"polite": Score({"Yes.": True, "no": False}[replies[0].text], None)}


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"foretold": None, "warning": None}, "did you mean 'warnings'"),
        ({"parse": careless}, "scores an empty reply"),
        ({"parse": brittle}, "parse raises KeyError"),
        ({"parse": scored(None)}, "gives no score of True"),
        ({"parse": lambda *_: {}}, "does not return a mapping"),
    ],
)
def test_a_judge_s_mistake_is_found(members: dict[str, Any], problem: str) -> None:
    found = check_judge(changed(PolitenessJudge, **members), INSTANCE, "Kind.", replies=SAID)
    assert any(problem in one for one in found), found


def test_a_judge_that_does_not_show_the_answer_is_found() -> None:
    class Blind(PolitenessJudge):
        def questions(self, instance: Instance[Any], text: str) -> Any:
            return super().questions(instance, "the text")

    found = check_judge(Blind(), INSTANCE, "Kind.", replies=SAID)
    assert found == ["No question contains the answer that is judged."]
