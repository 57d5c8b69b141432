"""The checks for plug-in authors accept what is right and find what is planted."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from harness.backends import HttpBackend, HttpClient
from harness.datasets.folder import DataFolder
from harness.errors import CallError, FatalCallError, RequestRejected, TransientError, Unparseable
from harness.plugin_loader import kind
from harness.plugins.testing import check_backend, check_checker, check_judge, check_task
from harness.records import (
    Criterion,
    Decoding,
    DecodingConstraint,
    Instance,
    Message,
    Question,
    Reply,
    Score,
    Usage,
)
from tests.conftest import Scripted, Sums
from tests.installed import has_backend

sys.path.insert(0, str(Path(__file__).parents[2] / "example_plugin"))
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


ROWS = {"path": "harness/tasks/example.jsonl", "prompt": "{{ question }}"}
OPTIONS = {"jsonl": {**ROWS, "checks": [{"contains": {"target": {"field": "target"}}}]}}


ELSEWHERE = {"hub", "inspect", "lm_eval"}  # need data or a package: see their tests


@pytest.mark.parametrize(
    "name",
    [  # COLLIE's check takes 10 s; tests/plugins/benchmarks/collie holds its references, too
        pytest.param(name, marks=[pytest.mark.exhaustive] if name == "collie" else [])
        for name in sorted({*kind("tasks").names()} - ELSEWHERE)
    ],
)
def test_the_built_in_tasks_are_right(name: str, tmp_path: Path) -> None:
    given = {"data": DataFolder(tmp_path), "judges": {}, "panels": {}}
    task = kind("tasks").build(name, OPTIONS.get(name, {}), **given)
    assert check_task(task) == []


def changed(base: type, **members: Any) -> Any:
    return type("Planted", (base,), members)()


def twice(self: Sums) -> Iterator[Instance[int]]:
    yield from [Instance("sum/0", 1), Instance("sum/0", 2)]


numbers = itertools.count()


def exact(value: Any, passed: Any, name: str = "exact", **fields: Any) -> Callable[..., Any]:
    return lambda *_: {name: Score(value, passed, **fields)}


def only_right(self: Sums, instance: Instance[int], text: str) -> dict[str, Score]:
    right = text == self.reference(instance)
    return {"f1": Score(1.0, True)} if right else {"exact": Score(0.0, False)}


def loading(self: Sums, instance: Instance[int], text: str) -> dict[str, Score]:
    with contextlib.suppress(ValueError):
        json.loads(text)
    return dict(Sums.score(self, instance, text))


def once(self: Any, instance: Instance[int], text: str) -> dict[str, Score]:
    seen = vars(self).setdefault("seen", set())
    if (instance.id, text) in seen:
        raise KeyError(text)
    seen.add((instance.id, text))
    return dict(Sums.score(self, instance, text))


def lists(self: Sums) -> Iterator[Instance[Any]]:
    yield Instance("sum/0", [0])


def appending(self: Sums, instance: Instance[Any], text: str) -> dict[str, Score]:
    instance.data.append(1)
    return {"exact": Score(text == "[0, 0]", text == "[0, 0]")}


def as_float(self: Any, instance: Instance[int], text: str) -> dict[str, Score]:
    try:
        value = float(text)
    except ValueError as error:
        raise Unparseable(str(error)) from None
    return {"exact": Score(text == self.reference(instance), text == self.reference(instance)),
            "off": Score(abs(value - instance.data))}  # fmt: skip


def keeping(self: Any, instance: Instance[int], shots: Any) -> tuple[Message, ...]:
    self._last = instance
    return Sums.messages(self, instance, shots)


def pairs(self: Any, instance: Instance[int], shots: Any) -> tuple[Message, ...]:
    return (Message("user", f"{[shot.answer for shot in shots]} {instance.data}?"),)


def untyped(self: Any, size=3) -> None:
    pass


def of_the_last(self: Any, instance: Instance[int], text: str) -> Any:
    return Sums.score(self, self._last, text)


def constrained(constraint: Any) -> dict[str, Any]:
    return {"constraint_kind": "regex", "constraint": lambda *_: constraint}


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"score_of_no_answr": lambda *_: {}}, "did you mean 'score_of_no_answer'"),
        ({"measure": "exact"}, "a 'measure' and no 'score_of_no_answer'"),
        ({"messages": lambda self, instance: ()}, "messages must accept the arguments"),
        ({"instances": twice}, "the same id twice"),
        ({"instances": lambda self: iter(())}, "yields nothing"),
        (
            {"instances": lambda self: vars(self).setdefault("kept", Sums.instances(self))},
            "nothing when",
        ),
        ({"reference": lambda self, instance: "-1"}, "does not pass"),
        ({"reference": lambda self, instance: "zero"}, "is unparseable"),
        ({"score": lambda *_: {"exact": Score(True, True)}}, "lets the wrong answer"),
        ({"score": lambda self, i, text: {"exact": Score(float(text), True)}}, "raises ValueError"),
        ({"score": lambda *_: {"exact": Score(float("nan"), True)}}, "has the value nan. A value"),
        ({"score": lambda *_: {"exact": Score(None, False)}}, "a verdict and no value"),
        (
            {"score": lambda *_: {"n": Score(next(numbers), True)}},
            "something else when called",
        ),
        ({"fingerprint": lambda self: {}}, "fingerprint is empty"),
        ({"score": as_float}, "cannot be recorded"),
        ({"score": only_right}, "but ['f1'] for another text"),
        ({"score": loading}, "score raises RecursionError"),
        ({"messages": lambda *_: (Message("system", "Hi."),)}, "end with a non-empty user message"),
        (
            {"messages": lambda *_: (Message("user", "Add."),)},
            "returns the same prompt for every instance",
        ),
        (
            {"messages": lambda *_: [Message("user", "Hi.")]},
            "'Hi.')], not (Message",
        ),
        (
            {"messages": lambda *_: (Message("User", "Hi."),)},
            "enum value 'User' - at `$[0].role`",
        ),  # type: ignore[arg-type]
        (
            {"instances": lambda self: iter([Instance(1, 1)])},
            "got `int` - at `$.id`",
        ),  # type: ignore[arg-type]
        ({"instances": lambda self: 1 / 0}, "instances raises ZeroDivisionError"),
        ({"score": exact(np.float64(1.0), True)}, "type numpy.float64 is unsupported"),
        ({"score": exact(1.0, 1)}, "Expected `bool | null`, got `int` - at `$[...].passed`"),
        ({"score": exact(1.0, True, details={"of": object()})}, "type object is unsupported"),
        ({"score": exact(1.0, None)}, "score gives no verdict"),
        ({"score": lambda *_: 1.0}, "score returns 1.0, not collections.abc.Mapping[str, harness"),
        ({"score": once}, "score raises KeyError for the text '0'"),
        ({"instances": lists, "score": appending}, "score modifies its arguments"),
        ({"messages": keeping, "score": of_the_last}, "reference '0' of 'sum/0' does not pass"),
        ({"measure": "f1", "score_of_no_answer": exact(0.0, False)}, "primary metric 'f1'"),
        (
            {"measure": "f1", "score_of_no_answer": exact(0.0, False, "f1"), "score": only_right},
            "without the primary metric 'f1'",
        ),
        (
            {"measure": "exact", "score_of_no_answer": exact(1.0, True)},
            "lets an answer with nothing to grade pass",
        ),
        ({"messages": pairs}, "messages raises AttributeError when it is given shots"),
        ({"__init__": untyped}, "__init__ has an option 'size' without a type"),
        ({"measure": "exact", "score_of_no_answer": None}, "score_of_no_answer is None, not a met"),
        ({"measure": 3, "score_of_no_answer": exact(0.0, False)}, "measure is 3, not str"),
        ({"reference": lambda self, instance: 7}, "reference returns 7, not str | None"),
        ({"reference": lambda *_: str(next(numbers))}, "reference returns something else"),
        ({"wrong_answer": lambda *_: 7}, "wrong_answer returns 7, not str"),
        ({"wrong_answer": Sums.reference}, "wrong_answer returns '0' of 'sum/0', which passes"),
        ({"feedback": lambda *_: 1 / 0}, "feedback raises ZeroDivisionError"),
        ({"leaks": lambda *_: "no"}, "leaks returns 'no', not bool"),
        ({"must_keep": lambda *_: "4"}, "must_keep returns '4', not collections.abc.Sequence[str]"),
        ({"prompt_errors": lambda self: None}, "prompt_errors returns None, not list[str]"),
        (
            {"instruction": lambda *_: 1, "criteria": lambda *_: [1]},
            "instruction returns 1, not",
        ),
        (
            {"instruction": lambda *_: "", "criteria": lambda *_: ["a"]},
            "criteria returns ['a']",
        ),
        ({"score_parsed": lambda *_: None}, "score_parsed returns None, not"),
        (constrained("[0-9]+"), "constraint returns '[0-9]+', not harness.records.Decod"),
        (constrained(DecodingConstraint(regex="[a-z]+")), "constraint does not allow"),
        (constrained(DecodingConstraint(regex="[")), "constraint raises error"),
        (constrained(DecodingConstraint(choices=("0",))), "constraint is of kind 'choices'"),
    ],
)
def test_a_task_s_mistake_is_found(members: dict[str, Any], problem: str) -> None:
    found = check_task(changed(Sums, **members))
    assert any(problem in one for one in found), found


def stalling(self: Any, instance: Instance[int], text: str) -> dict[str, Score]:
    with contextlib.suppress(Exception):
        re.match(r"(a|aa)+$", text)
    return dict(Sums.score(self, instance, text))


def test_a_regular_expression_that_backtracks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.plugins.testing.plugin_check.SLOW_S", 1.0)
    [found] = check_task(changed(Sums, score=stalling))
    assert "score takes more than 1 s for two calls for the text 'aaaaaaaaaa" in found


@pytest.mark.parametrize(
    ("member", "code"),
    [
        (
            "instances",
            "(self): return (Instance(id, int(id)) for id in {str(n) for n in range(40)})",
        ),
        ("messages", "(self, *_): return (Message('user', ' '.join({*map(str, range(40))})),)"),
        ("fingerprint", "(self): return {'data': str(hash('words'))}"),
        (
            "questions",
            "(self, _, text): return [Question((Message('user', f'{text} {hash(text)}'),),"
            " Decoding(max_tokens=1))]",
        ),
    ],
)
def test_a_task_or_judge_that_differs_between_processes_is_found(
    member: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unordered.py").write_text(
        "from harness.records import Decoding, Instance, Message, Question\n"
        "from harness_example.politeness import PolitenessJudge\n"
        "from tests.conftest import Sums\n"
        f"class Unordered({'PolitenessJudge' if member == 'questions' else 'Sums'}):\n"
        f"    def {member}{code}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("unordered")
    del sys.modules["unordered"]
    monkeypatch.setitem(sys.modules, "unordered", module)
    planted = module.Unordered()
    judged = member == "questions"
    found = check_judge(planted, INSTANCE, "Kind.") if judged else check_task(planted)
    problem = "returns something else in another process: is a set iterated, or hash() called?"
    assert f"{member} {problem}" in found


class Capitals(Sums):
    """Answers end with "Answer: WORD"."""

    feedback_text = "No."
    unparseable = "no answer"
    question = "The capital of France? Parisian is no answer."

    def instances(self) -> Iterator[Instance[int]]:
        yield Instance("France", 0)

    def messages(self, instance: Instance[int], shots: Any) -> tuple[Message, ...]:
        return (Message("user", self.question),)

    def score(self, instance: Instance[int], text: str) -> dict[str, Score]:
        _, found, said = text.rpartition("Answer:")
        if not found:
            raise Unparseable(self.unparseable)
        return {"exact": Score(said.strip() == "Paris", said.strip() == "Paris")}

    def feedback(self, instance: Instance[int], text: str, scores: Any) -> str:
        return f"{self.feedback_text} You wrote: {text}"

    def reference(self, instance: Instance[int]) -> str:
        return "Answer: Paris"


def first_word(self: Any, instance: Instance[int], text: str) -> dict[str, Score]:
    Capitals.score(self, instance, text)
    right = text.rpartition("Answer:")[2].split()[0] == "Paris"
    return {"exact": Score(right, right)}


def test_a_reference_is_also_scored_when_it_was_cut_off() -> None:
    assert check_task(Capitals()) == []
    [found] = check_task(changed(Capitals, score=first_word))
    assert found.startswith("score raises IndexError for the text 'Answer: '")


def test_a_prompt_and_feedback_must_not_show_what_is_hidden() -> None:
    hidden = {"hidden": lambda _: "Paris"}
    assert check_task(Capitals(), **hidden) == []
    [found] = check_task(changed(Capitals, question="Is Paris the capital?"), **hidden)
    assert found == "messages shows the text 'Paris', which is hidden: 'Is Paris the capital?'"
    [found] = check_task(changed(Capitals, feedback_text="It is paris."), **hidden)
    assert found.startswith("feedback shows the text 'Paris', which is hidden: 'It is paris.")
    [found] = check_task(changed(Capitals, unparseable="Write Answer: Paris"), **hidden)
    assert found == "score shows the text 'Paris', which is hidden: 'Write Answer: Paris'"


def test_answers_with_known_verdicts_and_a_fingerprint_that_must_differ() -> None:
    task = changed(Sums)  # which no other process can import: it is not checked in one each time
    known = {"sum/1": {"2": True, "3": False, "two": None}}
    assert check_task(task, answers=known) == []
    [found] = check_task(task, answers={"sum/1": {"2": False}})
    assert found == "score gives the verdict True, not False, for the answer '2' to 'sum/1'."
    [found] = check_task(task, answers={"sum/1": {"3": None}})
    assert "the verdict False, not Unparseable" in found
    assert check_task(task, answers={"x": {}}) == [
        "instances does not yield 'x' among the first 6: raise limit=?"
    ]
    assert check_task(task, other=Sums) == ["fingerprint is the same after the data changed."]
    unknown = changed(Sums, reference=lambda *_: None)
    assert check_task(unknown, answers=known) == []


def test_a_task_that_only_judges_score_needs_no_scores_and_no_references() -> None:
    judged: dict[str, Any] = {
        "instruction": lambda self, instance: "Add.",
        "criteria": lambda self, instance: [Criterion("It is the sum.")],
        "score": lambda *_: {},
        "reference": lambda *_: None,
    }
    assert check_task(changed(Sums, **judged)) == []


def test_one_mistake_gives_one_sentence_and_the_other_members_are_still_checked() -> None:
    task = changed(Sums, score=lambda *_: [][0], fingerprint=lambda self: {"n": 6})
    assert [one[:40] for one in check_task(task)] == [
        "fingerprint returns {'n': 6}, not collec",
        "score raises IndexError for the text '0'",
    ]


async def raising(self: object, request: object) -> Reply:
    raise KeyError("choices")


async def unfinished(self: object, request: object) -> Reply:
    return Reply("4", "", Usage(1, 1))


async def uncounted(self: object, request: object) -> Reply:
    return Reply("4", "stop")


def blocking(self: object, request: object) -> Reply:
    return Reply("4", "stop", Usage(1, 1))


async def waiting(self: object, request: object) -> Reply:
    return Reply("4", "stop", Usage(3, 1))


async def closing(self: Any) -> None:
    del self.in_flight


def returning(reply: Any) -> Callable[..., Any]:
    async def generate(self: object, request: object) -> Any:
        await asyncio.sleep(0)
        return reply

    return generate


def failing(error: Exception) -> Callable[..., Any]:
    async def generate(self: object, request: object) -> Reply:
        raise error

    return generate


async def mixing_up(self: Any, request: Any) -> Reply:
    self.last = request.messages[0].content
    await asyncio.sleep(0)
    return Reply(self.last, "stop", Usage(1, 1))


MOST = frozenset({"max_tokens", "temperature", "seed"})


def cutting(reason: str) -> Callable[..., Any]:
    async def generate(self: Any, request: Any) -> Reply:
        await asyncio.sleep(0)
        words = ["all", "of", "it"][: request.decoding.max_tokens]
        return Reply(" ".join(words), reason if len(words) < 3 else "stop", Usage(3, len(words)))

    return generate


def counting(*, sent: int = 9, swapped: bool = False) -> Callable[..., Any]:
    async def generate(self: Any, request: Any) -> Reply:
        await asyncio.sleep(0)
        told = sum(len(one.content.split()) for one in request.messages[-sent:])
        words = ["all", "of", "it"][: request.decoding.max_tokens]
        counts = (len(words), told) if swapped else (told, len(words))
        return Reply(" ".join(words), "length" if len(words) < 3 else "stop", Usage(*counts))

    return generate


async def renaming(self: Any, request: Any) -> Reply:
    await asyncio.sleep(0)
    for name in request.decoding.specified_fields():
        {"max_tokens": "cap"}[name]
    return Reply("4", "stop", Usage(3, 1))


async def changing(self: object, request: Any) -> Reply:
    request.decoding.extra["n"] = 1
    return Reply("4", "stop", Usage(1, 1))


async def swallowing(self: object, request: Any) -> Reply:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    return Reply("4", "stop", Usage(1, 1))


async def locking(self: Any, request: Any) -> Reply:
    await self._lock.acquire()
    await asyncio.sleep(0)
    self._lock.release()
    return Reply("4", "stop", Usage(1, 1))


async def hanging(self: object, argument: object = None) -> None:
    await asyncio.sleep(9)


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"features": frozenset({"temprature"})}, "'temprature', which the harness does not know"),
        ({"generate": raising}, "raises KeyError"),
        ({"generate": unfinished}, "no finish_reason"),
        ({"generate": uncounted}, "no usage"),
        ({"generate": blocking}, "must be an async function"),
        ({"aclose": closing}, "aclose raises AttributeError on the second call"),
        ({"endpoint": None}, "endpoint is None, not str"),
        (
            {"cacheable": property(lambda self: False, lambda self, value: None)},
            "cacheable is False, so replies are neither saved nor priced",
        ),
        ({"endpoint": property(lambda self: 1 / 0)}, "endpoint raises ZeroDivisionError"),
        (
            {"cacheable": property(lambda self: 1, lambda self, value: None)},
            "cacheable is 1, not bool",
        ),
        ({"features": ["seed"]}, "features is ['seed'], not frozenset"),
        ({"preferred_concurrency": "8"}, "preferred_concurrency is '8', not int"),
        ({"generate": returning("yes")}, "generate returns 'yes', not harness.records.Reply"),
        ({"generate": returning(Reply(None, "stop"))}, "Expected `str`, got `null` - at `$.text`"),  # type: ignore[arg-type]
        ({"generate": returning(Reply("4", "stop", (3, 1)))}, "got `array` - at `$.usage`"),  # type: ignore[arg-type]
        ({"generate": returning(Reply("4", "stop", Usage(3, -1)))}, "a negative number of tokens"),
        (
            {"generate": returning(Reply("4", "stop", Usage(3.0, 1)))},
            "got `float` - at `$.usage.in",
        ),  # type: ignore[arg-type]
        ({"generate": failing(FatalCallError("bad key"))}, "first error is FatalCallError: bad k"),
        ({"generate": failing(TransientError("", kind="busy"))}, "TransientError(kind='busy')"),  # type: ignore[arg-type]
        ({"generate": mixing_up}, "with the text of another"),
        ({"generate": returning(Reply("", "stop", Usage(3, 0)))}, "returns only empty texts"),
        (
            {"generate": returning(Reply("a b c", "stop", Usage(3, 3))), "features": MOST},
            "counts 3 output tokens for max_tokens=1",
        ),
        ({"generate": cutting("cap"), "features": MOST}, "finish_reason='cap', not 'length', for"),
        ({"generate": renaming, "features": MOST}, "KeyError, which is not a harness.errors.Call"),
        ({"generate": changing}, "modifies its request"),
        ({"generate": returning(Reply("4", "stop", Usage(3, 0)))}, "counts no tokens"),
        ({"generate": returning(Reply("4", "stop", Usage(3, 1, 4)))}, "a part above the whole"),
        ({"generate": counting(swapped=True), "features": MOST}, "input and output swapped"),
        ({"generate": counting(sent=1)}, "are all messages sent, and counted as input?"),
        (
            {"generate": counting(sent=3), "features": MOST | {"conversation"}},
            "only 126 more input tokens for 160 more words",
        ),
        ({"generate": waiting}, "never awaits"),
        ({"fingerprint": lambda self: {"n": str(next(numbers))}}, "fingerprint returns something"),
        ({"generate": swallowing}, "does not let asyncio.CancelledError through"),
        (
            {"generate": locking, "_lock": asyncio.Lock()},
            "0.2 s for all calls were over, after another call was cancelled",
        ),
        (
            {"generate": hanging},
            "not returned when the 0.2 s for all calls were over, for four calls",
        ),
        ({"aclose": hanging}, "aclose raises TimeoutError"),
        ({"prompt_cachng": True}, "did you mean 'prompt_caching'"),
        ({"ready": False, "start": hanging}, "start had not returned when the 0.2 s"),
    ],
)
def test_a_backend_s_mistake_is_found(members: dict[str, Any], problem: str) -> None:
    found = check_backend(
        changed(Scripted, __init__=lambda self: Scripted.__init__(self, str), **members),
        timeout_s=0.2,
    )
    assert any(problem in one for one in found), found


def test_replies_that_do_not_belong_to_their_prompts_are_found() -> None:
    backend = Scripted(lambda request: request.messages[0].content[-2])
    assert check_backend(backend, "Yes?", expected=lambda asked: asked[-2]) == []
    found = check_backend(backend, "Yes?", expected=lambda asked: "1")
    cut = Scripted(lambda _: Reply("a b", "length", Usage(3, 2)))
    assert check_backend(cut, expected=lambda asked: "a b c") == []
    assert found == ["generate answers 'Yes? (2)' with '2', not '1'."]


def test_a_backend_may_refuse_what_it_is_not_asked_by_default_and_gets_the_model_s_name() -> None:
    class Strict(Scripted):
        features = MOST

        async def generate(self, request: Any) -> Reply:
            if request.model != "small" or request.decoding.max_tokens == 1 or request.seed:
                raise RequestRejected("no")
            return await cutting("length")(self, request)

    assert check_backend(Strict(str), model="small") == []
    assert "answers no call" in check_backend(Strict(str))[0]

    for right in (cutting("length"), counting()):
        whole: dict[str, Any] = {"features": MOST | {"conversation"}, "generate": right}
        assert check_backend(changed(Scripted, **whole)) == []


def test_a_backend_over_http_without_reply_is_refused_when_it_is_built() -> None:
    class Half(HttpBackend):
        def body(self, request: Any) -> dict[str, Any]:
            return {}

    with pytest.raises(TypeError, match="reply"):
        Half(HttpClient("http://localhost"), frozenset())  # type: ignore[abstract]


class Sending(HttpBackend):
    """Drops what `dropped` names from its body."""

    def __init__(self, dropped: str = "") -> None:
        features = frozenset({"temperature", "max_tokens", "stop", "seed", "conversation"})
        super().__init__(HttpClient("http://localhost:9"), features)
        self.dropped = dropped

    def body(self, request: Any) -> dict[str, Any]:
        messages: Any = request.messages
        if self.dropped == "message roles":
            messages = [{"role": "user", "content": one.content} for one in messages]
        given = request.decoding.specified_fields()
        body = {"model": request.model, "messages": messages, "seed": request.seed, **given}
        return {name: value for name, value in body.items() if name != self.dropped}

    def reply(self, content: bytes, request: Any) -> Reply:
        found = json.loads(content)
        text = found.get("text", "") if self.dropped == "nothing" else found["text"]
        return Reply(text, "stop", Usage(3, 1))


def test_a_reply_without_an_answer_must_raise() -> None:
    found, _ = check_backend(Sending("nothing"))
    assert found.startswith("reply finds the text ''")
    assert "in {}: raise an error instead" in found


def without_zeros(self: Any, request: Any) -> dict[str, Any]:
    body = Sending.body(self, request)
    return {name: value for name, value in body.items() if value != 0}


def test_a_temperature_of_0_must_be_sent() -> None:
    found = check_backend(changed(Sending, body=without_zeros))
    assert "body does not change with the request's temperature of 0: send it." in found


class OverHttp(HttpBackend):
    """Calls a server with a key."""

    def __init__(self, url: str) -> None:
        features = frozenset({"temperature", "max_tokens", "seed"})
        super().__init__(HttpClient(url, key="the-test-key", key_header="x-api-key"), features)
        self.endpoint = self.named(url)

    def named(self, url: str) -> str:
        return url

    def body(self, request: Any) -> dict[str, Any]:
        return Sending.body(Sending(), request)

    def reply(self, content: bytes, request: Any) -> Reply:
        return Reply(json.loads(content)["text"], "stop", Usage(3, 1))


def seedless(self: Any, request: Any) -> Any:
    return HttpBackend.generate(self, replace(request, seed=None))


async def asking_again(self: Any, request: Any) -> Reply:
    with contextlib.suppress(CallError):
        return await HttpBackend.generate(self, request)
    return await HttpBackend.generate(self, request)


async def one_at_a_time(self: Any, request: Any) -> Reply:
    async with self.lock:
        return await HttpBackend.generate(self, request)


def converting_errors(convert: Callable[[CallError], Any]) -> dict[str, Any]:
    """A plug-in that raises or returns something else for each error."""

    async def generate(self: Any, request: Any) -> Any:
        try:
            return await HttpBackend.generate(self, request)
        except CallError as error:
            other = convert(error)
            if isinstance(other, Exception):
                raise other from None
            return other

    return {"generate": generate}


def transient(error: CallError) -> TransientError:
    return TransientError(str(error), kind="rate_limited", retry_after=1)


def instead_of(
    wrong: Callable[[str], Exception], kind: type[CallError], words: str = ""
) -> dict[str, Any]:
    """A plug-in that raises another error than one of this class with these words."""
    return converting_errors(
        lambda error: (
            wrong(str(error)) if isinstance(error, kind) and words in str(error) else error
        )
    )


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"generate": seedless}, "generate does not send the request's seed."),
        ({"generate": asking_again}, "generate sends 2 requests for one call with status 429"),
        (
            converting_errors(lambda error: Reply(str(error), "stop", Usage(3, 1))),
            "instead of raising an error, when the server answers with status 429.",
        ),
        (
            {"generate": one_at_a_time, "lock": asyncio.Lock()},
            "generate sends a second call only when the first has ended",
        ),
        (converting_errors(lambda _: None), "generate returns None instead of raising an error"),
        (
            converting_errors(lambda error: RuntimeError(str(error))),
            "raises RuntimeError, which is not a harness.errors.CallError: http://127",
        ),
        (
            converting_errors(lambda error: FatalCallError(str(error))),
            "raises FatalCallError instead of a TransientError, when",
        ),
        (
            converting_errors(transient),
            "raises TransientError instead of a FatalCallError, when the server answers",
        ),
        (
            converting_errors(lambda _: TransientError("no", kind="slow")),  # type: ignore[arg-type]
            "TransientError(kind='slow'); kinds are rate_limited,",
        ),
        (
            converting_errors(lambda _: TransientError("no")),
            "(kind='server_failed') instead of kind='rate_limited'",
        ),
        (
            converting_errors(lambda _: TransientError("no", kind="rate_limited")),
            "without the retry_after of the header Retry-After",
        ),
        (
            instead_of(RequestRejected, FatalCallError),
            "RequestRejected instead of a FatalCallError, when the server answers with status 401",
        ),
        (
            instead_of(RequestRejected, FatalCallError, "answered 404"),
            "RequestRejected instead of a FatalCallError, when the server answers with status 404",
        ),
        (
            instead_of(FatalCallError, RequestRejected),
            "FatalCallError instead of a RequestRejected, when the server answers with status 400",
        ),
        (
            instead_of(ValueError, TransientError, "<html>"),
            "raises ValueError, which is not a harness.errors.CallError",
        ),
        (instead_of(OSError, TransientError, "Connect"), "when no server listens."),
        (
            instead_of(lambda text: FatalCallError(f"{text} the-test-key"), FatalCallError),
            "generate shows the key in an error",
        ),
        ({"fingerprint": lambda self: {"key": "the-test-key"}}, "fingerprint shows the key"),
        ({"named": lambda self, url: f"{url}?key=the-test-key"}, "endpoint shows the key"),
        ({"named": lambda self, url: "small"}, "endpoint is the same for two servers"),
        ({"named": lambda self, url: str(next(numbers))}, "endpoint changes between sessions"),
    ],
)
def test_a_server_that_refuses_every_call_shows_what_is_sent_and_which_errors_are_raised(
    members: dict[str, Any], problem: str
) -> None:
    found = check_backend(Scripted(lambda _: "4"), at=type("Planted", (OverHttp,), members))
    assert any(problem in one for one in found), found


def test_errors_that_the_backend_over_http_raises_are_right() -> None:
    assert check_backend(Scripted(lambda _: "4"), at=OverHttp) == []


OVER_HTTP = ["anthropic", "gemini", "openai", "openai_completions", "openai_responses"]


@pytest.mark.parametrize("name", [one for one in OVER_HTTP if has_backend(f"backend: {one}")])
def test_the_built_in_backends_over_http_treat_errors_and_keys_right(name: str) -> None:
    given: dict[str, Any] = {"secret": lambda _: "the-test-key", "model": "small"}
    given |= {"concurrency": 4, "timeout_s": 10, "reply_mb": 1}
    given |= {"on_allowances": lambda *_: None, "prompt_cut": lambda _: None, "read": lambda _: ""}

    def at(url: str) -> Any:
        return kind("backends").build(name, {"base_url": url}, **given)

    assert check_backend(Scripted(lambda _: "4"), at=at) == []


def test_a_key_in_an_additional_header_is_masked_too() -> None:
    class Headed(OverHttp):
        def __init__(self, url: str) -> None:
            client = HttpClient(url, headers={"x-api-key": "the-test-key"})
            HttpBackend.__init__(self, client, frozenset())

    assert check_backend(Scripted(lambda _: "4"), at=Headed) == []


@pytest.mark.parametrize("dropped", ["temperature", "stop", "seed", "model", "message roles"])
def test_a_part_of_a_request_that_is_not_sent_is_found(dropped: str) -> None:
    [unanswered] = check_backend(Sending())
    assert "answers no call" in unanswered
    found = check_backend(Sending(dropped))
    assert [one for one in found if one != unanswered] == [
        f"body does not change with the request's {dropped}: send it."
    ]


def test_a_backend_is_started_before_it_is_called() -> None:
    class Starts(Scripted):
        ready = False

        async def start(self, on_status: Callable[[str], None]) -> None:
            on_status("starting")
            self.ready = True

    backend = Starts(lambda _: "4")
    assert check_backend(backend) == []
    assert backend.ready


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

    assert any(
        "fails after another call was cancelled" in one for one in check_backend(OneAtATime())
    )


def check(do: Any) -> dict[str, Any]:
    return {"check": lambda self, text, instance: do(text)}


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"check": lambda self, text: Score(True, True)}, "check must accept the arguments"),
        (
            check(lambda text: text.isupper()),
            "not harness.records.Score",
        ),
        (check(lambda text: Score(text[0].isupper(), text[0] == "H")), "raises IndexError"),
        (check(lambda text: Score(True, True)), "check has passed=True for 'hey'"),
        (check(lambda text: Score(False, False)), "check has passed=False for 'HEY'"),
        (check(lambda text: Score(True)), "check has passed=None for 'HEY'"),
        (check(lambda text: Score("yes", True)), "got `str` - at `$.value`"),
        (check(lambda text: Score(True, 1)), "Expected `bool | null`, got `int` - at `$.passed`"),
        (check(lambda text: Score(True, True, None)), "Expected `str`, got `null` - at `$.reason`"),
        (check(lambda text: Score(next(numbers), None)), "check returns something else"),
        (check(lambda text: Score(float("inf"), False)), "cannot be recorded"),
    ],
)
def test_a_checker_s_mistake_is_found(members: dict[str, Any], problem: str) -> None:
    found = check_checker(changed(ShoutingChecker, **members), passes=["HEY"], fails=["hey"])
    assert any(problem in one for one in found), found


def once_passed(self: Any, text: str, instance: object) -> Score:
    self._passed = getattr(self, "_passed", False) or text.isupper()
    return Score(self._passed, self._passed)


def test_a_checker_that_remembers_other_texts_is_found() -> None:
    remembering = changed(ShoutingChecker, check=once_passed)
    [found] = check_checker(remembering, passes=["HEY"], fails=["hey"])
    assert "it must keep no state" in found


def in_capitals(self: Any, text: str, instance: object) -> Score:
    if not text.isupper():
        raise Unparseable("no capitals")
    return Score(True, True)


def test_a_text_that_a_checker_cannot_read_fails() -> None:
    checker = changed(ShoutingChecker, check=in_capitals)
    assert check_checker(checker, passes=["HEY"], fails=["hey"]) == []
    assert check_checker(checker, passes=["HEY", "hey"]) == [
        "check raises Unparseable for 'hey', which must pass."
    ]


def test_texts_of_both_kinds_are_needed() -> None:
    [found] = check_checker(changed(ShoutingChecker, **check(lambda text: Score(True, True))))
    assert found == "check fails none of the texts tried: add one with fails=[…]."
    [found] = check_checker(changed(ShoutingChecker, **check(lambda text: Score(False, False))))
    assert "add one with passes=" in found


def scored(value: Any) -> Callable[..., Any]:
    return lambda self, instance, replies: {"polite": Score(value, None)}


def careless(self: object, instance: object, replies: Any) -> dict[str, Score]:
    said = "yes" in replies[0].text.lower()
    return {"polite": Score(said, said)}


def as_numpy(self: object, instance: object, replies: Any) -> dict[str, Score]:
    if replies[0].text != "yes":
        raise Unparseable("no")
    return {"polite": Score(np.float64(1.0))}


def only(text: str) -> Callable[..., Any]:
    def parse(self: object, instance: object, replies: Any) -> dict[str, Score]:
        if replies[0].text != text:
            raise Unparseable("another")
        return {"polite": Score(True, True)}

    return parse


def asking(messages: Any, decoding: Any = None) -> Callable[..., Any]:
    return lambda *_: [Question(messages, Decoding() if decoding is None else decoding)]


def in_part(self: Any, instance: object, text: str) -> Any:
    return PolitenessJudge.questions(self, INSTANCE, text[:9000])


def unescaped(self: object, instance: object, text: str) -> list[Question]:
    messages = (Message("user", f"<judged>\n{text}\n</judged>"),)
    return [Question(messages, Decoding())]


def keeping_the_text(self: Any, instance: Any, text: str) -> Any:
    self._kind = text == "Kind."
    return PolitenessJudge.questions(self, instance, text)


def of_a_kind_text(self: Any, instance: Any, replies: Any) -> Any:
    scores = PolitenessJudge.parse(self, instance, replies)
    return {"polite": Score(scores["polite"].value, None, "kind" * self._kind)}


def inverted(self: Any, instance: Any, replies: Any) -> Any:
    scores = PolitenessJudge.parse(self, instance, replies)
    return {"polite": Score(scores["polite"].value, not scores["polite"].value)}


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
        ({"parse": lambda *_: {}}, "parse returns {}, which has no score"),
        (
            {"questions": lambda *_: iter(())},
            "not collections.abc.Sequence",
        ),
        ({"questions": lambda *_: ["Kind."]}, "Expected `object`, got `str` - at `$[0]`"),
        ({"questions": asking([Message("user", "Kind.")])}, "not [Question(messages=(Message("),
        ({"questions": asking(("Kind.",))}, "Expected `object`, got `str` - at `$[0].messages[0]`"),
        ({"questions": asking((), {})}, "not [Question(messages=(), decoding=Decoding("),
        ({"questions": lambda *_: []}, "questions returns no question"),
        ({"questions": lambda *_: 1 / 0}, "questions raises ZeroDivisionError"),
        ({"simulated": lambda self, request: True}, "simulated returns True, not str"),
        ({"verdicts": "no"}, "verdicts is 'no', not bool"),
        ({"simulated": lambda self, request: "Kind."}, "'Kind.', which gives no score"),
        ({"fingerprint": lambda self: "v1"}, "fingerprint returns 'v1', not"),
        ({"questions": in_part}, "questions cuts off the end of a long answer in question 1"),
        ({"questions": unescaped}, "questions lets an answer close its tag </judged>: escape it"),
        (
            {"questions": keeping_the_text, "parse": of_a_kind_text},
            "parse depends on the last text that questions was called with",
        ),
        ({"parse": inverted}, "gives the value True the verdict False for the reply 'Yes.'. If"),
    ],
)
def test_a_judge_s_mistake_is_found(members: dict[str, Any], problem: str) -> None:
    found = check_judge(changed(PolitenessJudge, **members), INSTANCE, "Kind.", replies=SAID)
    assert any(problem in one for one in found), found


def test_a_judge_may_let_a_true_value_fail_if_replies_name_the_value() -> None:
    planted = changed(PolitenessJudge, parse=inverted)
    replies = {said: {"polite": value} for said, value in SAID.items()}
    assert check_judge(planted, INSTANCE, "Kind.", replies=replies) == []


def test_a_judge_is_checked_without_replies_by_guesses_and_its_own_simulation() -> None:
    assert check_judge(PolitenessJudge(), INSTANCE, "Kind.") == []
    numpy_s = changed(PolitenessJudge, parse=as_numpy)
    assert "numpy.float64" in check_judge(numpy_s, INSTANCE, "Kind.")[0]
    mute: dict[str, Any] = {"parse": only("Agreed.")}
    [found] = check_judge(changed(PolitenessJudge, **mute), INSTANCE, "Kind.")
    assert "pass some as replies=" in found
    mute["simulated"] = lambda self, request: "Agreed."
    assert check_judge(changed(PolitenessJudge, **mute), INSTANCE, "Kind.") == []


def test_a_judge_with_two_questions_gets_a_reply_to_each() -> None:
    class Two(PolitenessJudge):
        def questions(self, instance: Instance[Any], text: str) -> Any:
            [one] = super().questions(instance, text)
            return [one, Question(one.messages, one.decoding, samples=2)]

        def parse(self, instance: Instance[Any], replies: Any) -> dict[str, Score]:
            if not all(reply.text in ("yes", "no") for reply in replies):
                raise Unparseable("neither")
            return {"first": Score([reply.text for reply in replies] == ["yes", "no", "no"])}

    replies = {("yes", "no"): True, ("no", "yes"): False, "yes": False}
    assert check_judge(Two(), INSTANCE, "Kind.", replies=replies) == []
    assert check_judge(Two(), INSTANCE, "Kind.", replies={("no", "yes"): 0.5}) == [
        "parse gives no score of 0.5 for the reply ('no', 'yes')."
    ]
    found = check_judge(Two(), INSTANCE, "Kind.", replies={("no", "no", "no"): 0.5})
    assert "asks 2 questions, unlike the key" in found[0]


def test_a_judge_that_reads_the_text_gets_it_by_name_as_in_a_run() -> None:
    class Reading(PolitenessJudge):
        def parse(self, instance: Instance[Any], replies: Any, *, text: str) -> dict[str, Score]:
            assert text == "Kind."
            return super().parse(instance, replies)

    assert check_judge(Reading(), INSTANCE, "Kind.", replies=SAID) == []


class Grades(PolitenessJudge):
    """Two questions: a number and yes or no."""

    def questions(self, instance: Instance[Any], text: str) -> Any:
        return [*super().questions(instance, text)] * 2

    def parse(self, instance: Instance[Any], replies: Any) -> dict[str, Score]:
        number, said = (reply.text for reply in replies)
        if number not in "12345" or said not in ("yes", "no") or not number:
            raise Unparseable("neither")
        return {"grade": Score(int(number)), "english": Score(said == "yes", said == "yes")}


class Means(Grades):
    def parse(self, instance: Instance[Any], replies: Any) -> dict[str, Score]:
        numbers = [int(reply.text) for reply in replies if reply.text.isdecimal()]
        if not numbers:
            raise Unparseable("none")
        return {"mean": Score(sum(numbers) / len(numbers))}


def lenient(self: Any, instance: object, replies: Any) -> dict[str, Score]:
    number, said = (reply.text for reply in replies)
    if number not in "12345" or not number:
        raise Unparseable("no grade")
    return {"grade": Score(int(number)), "english": Score(said == "yes", said == "yes")}


def converting(self: Any, instance: object, replies: Any) -> dict[str, Score]:
    number, said = (reply.text for reply in replies)
    if said not in ("yes", "no"):
        raise Unparseable("neither")
    return {"grade": Score(int(number)), "english": Score(said == "yes", said == "yes")}


def leaving_out(self: Any, instance: Any, replies: Any) -> dict[str, Score]:
    scores = Grades.parse(self, instance, replies)
    return scores if scores["english"].passed else {"grade": scores["grade"]}


def once_shown(self: Any, instance: Any, text: str) -> Any:
    return [
        *PolitenessJudge.questions(self, instance, text),
        *Grades.questions(self, instance, ""),
    ][:2]


def swapped(self: Any, instance: Any, replies: Any) -> dict[str, Score]:
    scores = Grades.parse(self, instance, replies)
    return scores | {"english": Score(not scores["english"].passed)}


def noting(self: Any, instance: Any, text: str) -> Any:
    self._text = text
    return Grades.questions(self, instance, text)


def of_the_text(self: Any, instance: Any, replies: Any) -> dict[str, Score]:
    scores = Grades.parse(self, instance, replies)
    return scores if self._text else scores | {"grade": Score(0)}


def first_only(self: Any, instance: Any, replies: Any) -> dict[str, Score]:
    return dict(Grades.parse(self, instance, [replies[0], Reply("yes", "stop")]))


def only_of_yes(self: Any, instance: Any, replies: Any) -> dict[str, Score]:
    scores = Grades.parse(self, instance, replies)
    return scores if scores["english"].value else scores | {"english": Score(False)}


def ascii_only(self: Any, instance: Any, text: str) -> Any:
    text.encode("ascii")
    return Grades.questions(self, instance, text)


GRADED = {("4", "yes"): {"grade": 4, "english": True}, ("2", "no"): 2}


def test_a_judge_may_have_two_questions() -> None:
    assert check_judge(Grades(), INSTANCE, "Kind.", replies=GRADED) == []


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"parse": lenient}, "parse scores an empty reply to question 2 like 'no'"),
        ({"parse": converting}, "parse raises ValueError for the reply ('', 'yes')"),
        ({"parse": leaving_out}, "but ['english', 'grade'] for another text"),
        ({"questions": ascii_only}, "questions raises UnicodeEncodeError"),
        ({"questions": once_shown}, "does not show the judged answer in question 2"),
        ({"parse": swapped}, "'grade': 4, 'english': False} for the reply ('4', 'yes')"),
        (
            {"questions": noting, "parse": of_the_text},
            "parse depends on the last text that questions",
        ),
        ({"parse": only_of_yes}, "has a verdict for one of True and False only"),
        ({"parse": first_only}, "parse does not depend on the reply to question 2"),
    ],
)
def test_a_mistake_of_a_judge_with_two_questions_is_found(
    members: dict[str, Any], problem: str
) -> None:
    found = check_judge(changed(Grades, **members), INSTANCE, "Kind.", replies=GRADED)
    assert any(problem in one for one in found), found


def test_a_judge_may_average_the_questions_that_were_answered() -> None:
    for replies in ({("1", "3"): 2, ("2", "2"): 2}, {"1": 1, "4": 4, ("1", "4"): 2.5}):
        assert check_judge(Means(), INSTANCE, "Kind.", replies=replies) == []


def test_a_score_may_be_missing_for_one_unread_reply_of_several() -> None:
    class Partly(Grades):
        def questions(self, instance: Instance[Any], text: str) -> Any:
            return [*asking((Message("user", text),))(), *asking((Message("user", f"{text}?"),))()]

        def parse(self, instance: Instance[Any], replies: Any) -> dict[str, Score]:
            read = [{"yes": True, "no": False}.get(reply.text) for reply in replies]
            if read == [None, None]:
                raise Unparseable("neither")
            return {name: Score(one, one) for name, one in zip("ab", read, strict=True)}

    both = {("yes", "no"): {"a": True, "b": False}, ("no", "yes"): {"a": False, "b": True}}
    unread = {("Perhaps.", "yes"): None, ("no", "Perhaps."): {"a": False, "b": None}}
    assert check_judge(Partly(), INSTANCE, "Kind.", replies=both | unread) == []
    assert check_judge(Partly(), INSTANCE, "Kind.") == []
    one_sided = {"simulated": lambda _, asked: "x" if "?" in asked.messages[0].content else "yes"}
    assert check_judge(changed(Partly, **one_sided), INSTANCE, "Kind.") == [
        "simulated returns ['yes', 'x'], without a value for 'b'."
    ]


def test_a_reply_that_must_give_no_verdict() -> None:
    replies = {**SAID, "Perhaps.": None}
    assert check_judge(PolitenessJudge(), INSTANCE, "Kind.", replies=replies) == []
    [found] = check_judge(PolitenessJudge(), INSTANCE, "Kind.", replies={**SAID, "No.": None})
    assert found == "parse scores 'No.': raise Unparseable or return Score(None)."


def test_a_judge_that_does_not_show_the_answer_is_found() -> None:
    class Blind(PolitenessJudge):
        def questions(self, instance: Instance[Any], text: str) -> Any:
            return super().questions(instance, "the text")

    found = check_judge(Blind(), INSTANCE, "Kind.", replies=SAID)
    assert found == ["questions does not show the judged answer in question 1."]
