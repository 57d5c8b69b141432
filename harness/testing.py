"""Checks for authors of plug-ins: each returns what is wrong, in sentences, or an empty list.

>>> from harness.testing import check_task
>>> assert not check_task(MyTask())  # doctest: +SKIP

A check calls the plug-in as the harness would, with ordinary and with hostile input. It cannot
show that scores mean what they should: a task's author still compares some by hand.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from harness.errors import CallError, Unparseable
from harness.plugins import problems
from harness.ports import (
    CAPABILITIES,
    CONSTRAINTS,
    LOGPROBS,
    OWN_DRAWS,
    PARAMETERS,
    PROMPT_LOGPROBS,
    Backend,
    Checker,
    Constraining,
    Fallible,
    Judge,
    Judged,
    Measured,
    ScoresNoAnswer,
    Simulatable,
    Task,
)
from harness.records import (
    Decoding,
    Instance,
    Message,
    Origin,
    Reply,
    Request,
    Score,
    verdict,
)

FEATURES = {
    *PARAMETERS,
    *CONSTRAINTS,
    *(LOGPROBS, PROMPT_LOGPROBS, OWN_DRAWS),
    *("max_tokens_required", "conversation", "by_instance", "free", "recorded", "simulated"),
}
"""Every feature that a backend can name."""

HOSTILE_TEXTS = (
    "",
    " \n\t",
    "\x00\x1b[31m",
    "\ud83d half of a character",
    "{" * 2000,
    "null",
    "<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>",
    "word " * 5000,
)
"""Texts that models write, or could, and that no scorer may crash on."""

WRONG = "This sentence of harness.testing is not an answer to anything."


def check_task(task: Task[Any], *, limit: int = 100) -> list[str]:
    """Check a task: shape, instances, prompts, scoring and references.

    Args:
        task: The built task.
        limit: Check at most this many instances.

    Returns:
        What is wrong, one sentence each.
    """
    found = _shape("tasks", task)
    return found or list(dict.fromkeys(_guarded(_task(task, limit))))


def check_backend(backend: Backend, prompt: str = "Say yes.") -> list[str]:
    """Check a backend by asking it one prompt several times, some of them at the same time.

    Starts its own event loop, so it must not be called inside a running one. The calls are
    real: point the backend at a server that costs nothing.

    Args:
        backend: The built backend; it is closed afterwards.
        prompt: What it is asked.

    Returns:
        What is wrong, one sentence each.
    """
    found = _shape("backends", backend)
    return found or asyncio.run(_backend(backend, prompt))


def check_checker(
    checker: Checker,
    *,
    passes: Sequence[str] = (),
    fails: Sequence[str] = (),
    instance: Instance[Any] | None = None,
) -> list[str]:
    """Check a checker.

    Args:
        checker: The built checker.
        passes: Texts that must pass.
        fails: Texts that must not pass.
        instance: What the texts answer, if the checker looks at it.

    Returns:
        What is wrong, one sentence each.
    """
    found = _shape("checkers", checker)
    return found or list(
        dict.fromkeys(_guarded(_checker(checker, passes, fails, instance or Instance("x", None))))
    )


def check_judge(
    judge: Judge,
    instance: Instance[Any],
    text: str,
    *,
    replies: Mapping[str, bool | float] | None = None,
) -> list[str]:
    """Check a judge without a model.

    Args:
        judge: The built judge.
        instance: An instance of a task that it judges.
        text: An answer to the instance; not empty.
        replies: What a model may reply, each with the value of the score that must come out.

    Returns:
        What is wrong, one sentence each.
    """
    found = _shape("judges", judge)
    return found or list(dict.fromkeys(_guarded(_judge(judge, instance, text, replies or {}))))


def _shape(kind: str, plugin: object) -> list[str]:
    """Return members that are missing or misspelt, or whose parameters do not fit their calls."""
    found = problems(kind, plugin)
    for protocol in CAPABILITIES[kind]:
        for name, declared in vars(protocol).items():
            method = getattr(plugin, name, None)
            if name.startswith("_") or not inspect.isfunction(declared) or not callable(method):
                continue
            wanted = list(inspect.signature(declared).parameters)[1:]
            try:
                inspect.signature(method).bind(*wanted)
            except TypeError:
                found.append(f"{name} is called with the arguments ({', '.join(wanted)}).")
            except ValueError:  # a function without a signature, as of an extension module
                pass
            if inspect.iscoroutinefunction(declared) != inspect.iscoroutinefunction(method):
                what = "must be" if inspect.iscoroutinefunction(declared) else "must not be"
                found.append(f"{name} {what} an async function.")
    return found


def _guarded(found: Iterator[str]) -> Iterator[str]:
    """Report an exception of the plug-in as one more problem."""
    try:
        yield from found
    except Exception as error:
        yield f"It raises {type(error).__name__}: {str(error)[:200]}"


def _task(task: Task[Any], limit: int) -> Iterator[str]:
    instances = list(islice(task.instances(), limit))
    ids = [instance.id for instance in instances]
    if not instances:
        yield "instances yields nothing."
    if len(set(ids)) < len(ids):
        yield "instances yields an id twice."
    if [instance.id for instance in islice(task.instances(), limit)] != ids:
        yield "instances yields another order when it is called again."
    for instance in instances:
        if not all(isinstance(part, str) for pair in instance.groups.items() for part in pair):
            yield f"The groups of {instance.id!r} are not text."
    fingerprint = task.fingerprint()
    if not fingerprint or not all(isinstance(value, str) for value in fingerprint.values()):
        yield "fingerprint does not name what scores depend on, as text."
    if task.fingerprint() != fingerprint:
        yield "fingerprint changes from call to call."
    references = 0
    for instance in instances:
        yield from _prompt(task, instance)
        reference = task.reference(instance)
        if reference is not None:
            references += 1
            yield from _reference(task, instance, reference)
        yield from _rejections(task, instance)
    if instances and not references:
        yield "reference gives no answer to any instance, so nothing shows that one can pass."


def _prompt(task: Task[Any], instance: Instance[Any]) -> Iterator[str]:
    messages = task.messages(instance, ())
    if not messages or not all(isinstance(message, Message) for message in messages):
        yield "messages does not return a tuple of harness.records.Message."
    elif messages[-1].role != "user" or not messages[-1].content.strip():
        yield "messages does not end with a user's message that has text."
    if task.messages(instance, ()) != messages:
        yield "messages returns another prompt when it is called again."
    if isinstance(task, Judged) and not task.criteria(instance):
        yield f"criteria is empty for {instance.id!r}."
    if isinstance(task, Constraining):
        constraint = task.constraint(instance)
        if constraint.kind != task.constraint_kind:
            yield f"constraint_kind is {task.constraint_kind!r}, and a constraint is another kind."
        reference = task.reference(instance)
        if reference is not None and not _allowed(constraint, reference):
            yield f"The reference of {instance.id!r} does not satisfy its own constraint."


def _allowed(constraint: Any, text: str) -> bool:
    if constraint.kind == "choices":
        return text in constraint.choices
    return constraint.kind != "regex" or re.fullmatch(constraint.regex, text) is not None


def _reference(task: Task[Any], instance: Instance[Any], reference: str) -> Iterator[str]:
    try:
        scores = task.score(instance, reference)
    except Unparseable as error:
        yield f"The reference of {instance.id!r} is unparseable: {error}"
        return
    yield from _scores(scores)
    if verdict(scores) is not True:
        yield f"The reference of {instance.id!r} does not pass."
    if task.score(instance, reference) != scores:
        yield "score returns other scores for the same text."
    if not isinstance(task.feedback(instance, reference, scores), str):
        yield "feedback does not return text."
    if isinstance(task, Measured) and task.measure not in scores:
        yield f"score does not return the primary metric {task.measure!r}."


def _rejections(task: Task[Any], instance: Instance[Any]) -> Iterator[str]:
    wrong = (task.wrong_answer(instance) if isinstance(task, Fallible) else None) or WRONG
    for text in (wrong, *HOSTILE_TEXTS):
        try:
            scores = task.score(instance, text)
        except Unparseable:
            continue
        except Exception as error:
            yield f"score raises {type(error).__name__} for the text {text[:20]!r}."
            continue
        yield from _scores(scores)
        if text == wrong and verdict(scores) is True:
            yield f"The wrong answer {text[:60]!r} passes {instance.id!r}."
        if not task.feedback(instance, text, scores).strip() and verdict(scores) is False:
            yield "feedback is empty for an answer that fails."
    if isinstance(task, ScoresNoAnswer):
        scores = task.score_of_no_answer(instance)
        yield from _scores(scores)
        if isinstance(task, Measured) and task.measure not in scores:
            yield f"score_of_no_answer does not return the primary metric {task.measure!r}."


def _scores(scores: object) -> Iterator[str]:
    if not isinstance(scores, Mapping) or not scores:
        yield "score does not return a mapping from names to scores."
        return
    for name, score in scores.items():
        if not isinstance(score, Score):
            yield f"The score {name!r} is not a harness.records.Score."
        else:
            yield from _score(name, score)


def _score(name: str, score: Score) -> Iterator[str]:
    if score.value is not None and not isinstance(score.value, bool | int | float):
        yield f"The value of the score {name!r} is not a number."
    elif score.value is not None and not math.isfinite(score.value):
        yield f"The value of the score {name!r} is not finite: a missing value is None."
    if score.value is None and score.passed is not None:
        yield f"The score {name!r} has a verdict and no value."


async def _backend(backend: Backend, prompt: str) -> list[str]:
    found = []
    if not isinstance(backend.features, frozenset):
        found.append("features is not a frozenset.")
    for name in sorted(set(backend.features) - FEATURES):
        found.append(f"features names {name!r}, which the harness does not know.")
    if not isinstance(backend.endpoint, str):
        found.append("endpoint is not text.")
    if not isinstance(backend.cacheable, bool):
        found.append("cacheable is not True or False.")
    request = Request(
        "model",
        (Message("user", prompt),),
        Decoding(max_tokens=16 if "max_tokens" in backend.features else None),
        0,
        Origin("harness.testing", 0, 1),
    )
    try:
        results = await asyncio.gather(
            *(backend.generate(request) for _ in range(4)), return_exceptions=True
        )
        for result in results:
            found += _reply(backend, result)
        cancelled = asyncio.ensure_future(backend.generate(request))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        [after] = await asyncio.gather(backend.generate(request), return_exceptions=True)
        if isinstance(after, Reply) != isinstance(results[0], Reply):
            found.append("generate answers otherwise after a call was cancelled.")
    finally:
        for _ in range(2):
            try:
                await backend.aclose()
            except Exception as error:
                found.append(f"aclose raises {type(error).__name__}, or does when called twice.")
    return list(dict.fromkeys(found))


def _reply(backend: Backend, result: object) -> Iterable[str]:
    if isinstance(result, CallError):
        return
    if isinstance(result, BaseException):
        yield f"generate raises {type(result).__name__}, which is not a harness.errors.CallError."
    elif not isinstance(result, Reply):
        yield "generate does not return a harness.records.Reply."
    elif not isinstance(result.text, str) or not isinstance(result.finish_reason, str):
        yield "The reply's text or finish_reason is not text: an empty answer is ''."
    elif not result.finish_reason:
        yield "The reply has no finish_reason: without one, a truncated answer looks complete."
    elif backend.cacheable and "free" not in backend.features and result.usage is None:
        yield "The reply has no usage: a paid call's cost would be unknown."


def _checker(
    checker: Checker, passes: Sequence[str], fails: Sequence[str], instance: Instance[Any]
) -> Iterator[str]:
    for text in (*passes, *fails, *HOSTILE_TEXTS):
        try:
            score = checker.check(text, instance)
        except Exception as error:
            yield f"check raises {type(error).__name__} for the text {text[:20]!r}."
            continue
        if not isinstance(score, Score):
            yield "check does not return a harness.records.Score."
            return
        yield from _score("check", score)
        if checker.check(text, instance) != score:
            yield "check returns another score for the same text."
        if text in passes and score.passed is not True:
            yield f"{text[:60]!r} does not pass."
        if text in fails and score.passed is not False:
            yield f"{text[:60]!r} does not fail."


def _judge(
    judge: Judge, instance: Instance[Any], text: str, replies: Mapping[str, bool | float]
) -> Iterator[str]:
    asked = judge.questions(instance, text)
    if not asked:
        yield "questions asks nothing."
        return
    if judge.questions(instance, text) != asked:
        yield "questions returns other questions when it is called again."
    if not any(text in message.content for one in asked for message in one.messages):
        yield "No question contains the answer that is judged."
    n_replies = sum(one.samples for one in asked)
    parse = _parse(judge, instance, text)
    for reply in ("", "I cannot say.", *HOSTILE_TEXTS):
        try:
            scores = parse([Reply(reply, "stop")] * n_replies)
        except Unparseable:
            continue
        except Exception as error:
            yield f"parse raises {type(error).__name__} for the reply {reply[:20]!r}."
            continue
        yield from _scores(scores)
        if not reply.strip() and any(score.value is not None for score in scores.values()):
            yield "parse scores an empty reply: raise harness.errors.Unparseable instead."
    for reply, value in replies.items():
        try:
            scores = parse([Reply(reply, "stop")] * n_replies)
        except Unparseable:
            yield f"The reply {reply[:40]!r} is unparseable."
            continue
        yield from _scores(scores)
        if value not in [score.value for score in scores.values()]:
            yield f"The reply {reply[:40]!r} gives no score of {value!r}."
    if isinstance(judge, Simulatable):
        origin = Origin(instance.id, 0, 1)
        yield from _scores(
            parse(
                [
                    Reply(
                        judge.simulated(Request("model", one.messages, one.decoding, n, origin)),
                        "stop",
                    )
                    for one in asked
                    for n in range(one.samples)
                ]
            )
        )


def _parse(
    judge: Judge, instance: Instance[Any], text: str
) -> Callable[[Sequence[Reply]], Mapping[str, Score]]:
    takes_text = "text" in inspect.signature(judge.parse).parameters
    more: dict[str, Any] = {"text": text} if takes_text else {}
    return lambda replies: judge.parse(instance, replies, **more)
