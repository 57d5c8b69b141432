"""Runs Inspect's solvers and scorers on one sample, without Inspect's event loop or models."""

from __future__ import annotations

import re
from collections.abc import Coroutine
from typing import Any

from harness.errors import ConfigError
from harness.extras import import_extra
from harness.plugin_interface import calling
from harness.plugins.inspect.loading import InspectSample
from harness.records import LARGEST, Message, Score

MODEL = "mockllm/model"  # a model's name, which Inspect's states require
GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # Inspect's grades: correct, partial, …
NO_LOOP = re.compile("event loop|async library")  # in errors of asyncio, AnyIO and sniffio


class _Asked(BaseException):  # no solver catches it
    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state


def asked(one: InspectSample) -> tuple[Message, ...]:
    """Return the messages for which a sample's solvers generate an answer."""

    async def generate(state: Any, *args: Any, **options: Any) -> Any:
        raise _Asked(state)

    try:
        _solved(one, generate)
    except _Asked as found:
        return tuple(_message(one, message) for message in found.state.messages)
    raise ConfigError(f"{_where(one)}: its solvers do not ask the model.")


def scores(one: InspectSample, text: str) -> dict[str, tuple[Score, str | None]]:
    """Return each scorer's score of an answer, and the part of the answer that it scored.

    The part is None if it is unknown. A scorer with several values has a score for each
    (``SCORER.KEY``). If a scorer or solver fails, the error is the reason of a score without a
    value.
    """
    output = import_extra("inspect_ai.model", "inspect").ModelOutput
    target = import_extra("inspect_ai.scorer", "inspect").Target(one.sample.target)

    async def generate(state: Any, *args: Any, **options: Any) -> Any:
        state.output = output.from_content(MODEL, text)
        state.messages.append(state.output.message)
        return state

    found: dict[str, tuple[Score, str | None]] = {}
    for name, scorer in one.task.scorers.items():
        try:
            with calling(f"The scorer {name!r}"):
                theirs = _result(scorer(_solved(one, generate), target))
        except ConfigError as error:
            found[name] = Score(None, None, error.message), None
            continue
        if theirs is None:
            found[name] = Score(None, None, "The scorer gives no score."), None
            continue
        values = theirs.value
        if not isinstance(values, dict) or not values:
            values = {"": values}
        for key, value in values.items():
            score = _score(value, theirs.explanation or "")
            found[f"{name}.{key}" if key else name] = score, theirs.answer
    return found


def _score(value: Any, reason: str) -> Score:
    if isinstance(value, bool):
        return Score(value, value, "" if value else reason)
    if isinstance(value, str) and value in GRADES:
        passed = value == "C"
        return Score(GRADES[value], passed, "" if passed else reason, share=True)
    if isinstance(value, int | float):
        if abs(value) <= LARGEST:
            return Score(float(value), None, reason)
        return Score(None, None, f"The scorer's value is not from {-LARGEST:g} to {LARGEST:g}.")
    return Score(None, None, f"The scorer's value is not a number: {value!r:.80}.")


def _solved(one: InspectSample, generate: Any) -> Any:
    """Return the state after all solvers, which call ``generate`` for the answer."""
    model = import_extra("inspect_ai.model", "inspect")
    given = one.sample.model_copy(deep=True)  # solvers change messages
    messages = given.input
    if isinstance(messages, str):
        messages = [model.ChatMessageUser(content=messages)]
    state = import_extra("inspect_ai.solver", "inspect").TaskState(
        model=model.ModelName(MODEL),
        sample_id=given.id,
        epoch=1,
        input=given.input,
        messages=messages,
        target=import_extra("inspect_ai.scorer", "inspect").Target(given.target),
        choices=given.choices,
        metadata=given.metadata or {},
    )
    with calling(f"{_where(one)}: a solver"):
        for solver in one.task.solvers:
            state = _result(solver(state, generate))
    return state


def _result(work: Coroutine[Any, Any, Any]) -> Any:
    """Return a coroutine's result, or raise ConfigError if it waits for anything."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    except RuntimeError as error:
        if not NO_LOOP.search(str(error)):
            raise
    work.close()
    raise ConfigError("It waits for a model, a sandbox or the network, which it cannot have here.")


def _message(one: InspectSample, message: Any) -> Message:
    if not isinstance(message.content, str) or message.role == "tool":
        raise ConfigError(f"{_where(one)} has a message that is not text.")
    if getattr(message, "tool_calls", None):
        raise ConfigError(f"{_where(one)} has a message with tool calls.")
    return Message(message.role, message.content)


def _where(one: InspectSample) -> str:
    return f"Inspect's task {one.task.name!r}, sample {one.sample.id!r}"
