"""Checks for authors of plug-ins: each returns what is wrong, in sentences, or an empty list.

>>> from harness.testing import check_task
>>> assert not check_task(MyTask())  # doctest: +SKIP

A check calls the plug-in as the harness would, with ordinary and with hostile input, and reports
the first problem of each member: fix it and check again. It cannot show that scores mean what
they should: a task's author still compares some by hand.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from types import NoneType
from typing import Any

from harness import ports
from harness.errors import Unparseable
from harness.records import (
    Criterion,
    Decoding,
    DecodingConstraint,
    Instance,
    Message,
    Origin,
    Question,
    Reply,
    Request,
    Score,
    verdict,
)
from harness.testing.report import (
    FEATURES,
    GUESSES,
    HOSTILE_TEXTS,
    WRONG,
    Report,
    check_conversation,
    check_error,
    check_reply,
    check_score,
    check_scores,
    copied,
    is_text,
    shape,
)

__all__ = ["check_backend", "check_checker", "check_judge", "check_task"]


def check_task(task: ports.Task[Any], *, limit: int = 100) -> list[str]:
    """Check a task: shape, instances, prompts, scoring and references.

    Args:
        task: The built task.
        limit: Check at most this many instances.

    Returns:
        What is wrong, one sentence each.
    """
    if found := shape("tasks", task):
        return found
    report = Report()
    instances = _instances(report, task, limit)
    with report.calling("fingerprint"):
        fingerprint = task.fingerprint()
        if not isinstance(fingerprint, Mapping) or not fingerprint or not is_text(fingerprint):
            report.add("fingerprint", "does not name what scores depend on, as text.")
        elif task.fingerprint() != fingerprint:
            report.add("fingerprint", "changes from call to call.")
    if isinstance(task, ports.PromptChecked):
        with report.calling("prompt_errors"):
            report.several("prompt_errors", task.prompt_errors(), str, list)
    for instance in instances:  # all prompts first, to notice a task that keeps the last one
        _prompt(report, task, instance)
    references = [_scoring(report, task, instance) for instance in instances]
    if instances and not any(references):
        report.add("reference", "gives no answer to any instance: nothing shows that one can pass.")
    return report.sentences()


def check_backend(
    backend: ports.Backend,
    prompt: str = "Say yes.",
    *,
    expected: Callable[[str], str] | None = None,
    timeout_s: float = 30.0,
) -> list[str]:
    """Check a backend with a few calls, four of them at the same time and one cancelled.

    Starts its own event loop, so it must not be called inside a running one. The calls are
    real: point the backend at a server that costs nothing.

    Args:
        backend: The built backend. It is started if it has to be, and closed afterwards.
        prompt: What it is asked; each call adds its number.
        expected: Returns the right reply to a prompt, if that is known. Otherwise only a backend
            that echoes its prompts shows that it mixes up replies.
        timeout_s: Time limit of all calls together, in seconds; then that of closing.

    Returns:
        What is wrong, one sentence each.
    """
    if found := shape("backends", backend):
        return found
    report = Report()
    for name in sorted(set(backend.features) - FEATURES):
        report.add("features", f"names {name!r}, which the harness does not know.")
    asyncio.run(_backend(report, backend, prompt, expected, timeout_s))
    return report.sentences()


def check_checker(
    checker: ports.Checker,
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
    if found := shape("checkers", checker):
        return found
    report, instance = Report(), instance or Instance("x", None)
    before = copied(instance)
    for text in (*passes, *fails, *HOSTILE_TEXTS):
        with report.calling("check", f" for the text {text[:40]!r} and data {instance.data!r:.40}"):
            score = checker.check(text, instance)
            if not check_score(report, "check", "", score):
                continue
            if checker.check(text, instance) != score:
                report.add("check", "returns another score for the same text.")
            if score.passed is None and text in (*passes, *fails):
                report.add("check", f"gives no verdict for {text[:60]!r}: passed is None.")
            if score.passed is False and text in passes:
                report.add("check", f"does not pass {text[:60]!r}.")
            if score.passed is True and text in fails:
                report.add("check", f"does not fail {text[:60]!r}.")
    report.unchanged("check", instance, before)
    return report.sentences()


def check_judge(
    judge: ports.Judge,
    instance: Instance[Any],
    text: str,
    *,
    replies: Mapping[Any, bool | float] | None = None,
) -> list[str]:
    """Check a judge without a model.

    Args:
        judge: The built judge.
        instance: An instance of a task that it judges.
        text: An answer to the instance; not empty.
        replies: What a model may reply, each with the value of the score that must come out: one
            reply to every question, or a tuple with one per question. Without them, the judge is
            tried with its own `simulated` replies, yes, no and numbers.

    Returns:
        What is wrong, one sentence each.
    """
    if found := shape("judges", judge):
        return found
    report = Report()
    asked = _questions(report, judge, instance, text)
    if asked:
        _parsing(report, judge, instance, text, asked, replies or {})
    return report.sentences()


def _instances(report: Report, task: ports.Task[Any], limit: int) -> list[Instance[Any]]:
    instances: list[Instance[Any]] = []
    with report.calling("instances"):
        given = list(islice(task.instances(), limit))
        instances = [one for one in given if report.record("instances", one, Instance)]
        ids = [one.id for one in instances]
        if not given:
            report.add("instances", "yields nothing.")
        if len(set(ids)) < len(ids):
            report.add("instances", "yields an id twice.")
        if not all(is_text(one.groups) for one in instances):
            report.add("instances", "yields groups that are not text.")
        if [getattr(one, "id", None) for one in islice(task.instances(), limit)] != ids:
            report.add("instances", "yields another order when it is called again.")
    return instances


def _prompt(report: Report, task: ports.Task[Any], instance: Instance[Any]) -> None:
    before = copied(instance)
    with report.calling("messages", f" for {instance.id!r}"):
        messages = task.messages(instance, ())
        if check_conversation(report, "messages", messages):
            if messages[-1].role != "user" or not messages[-1].content.strip():
                report.add("messages", "does not end with a user's message that has text.")
            elif task.messages(instance, ()) != messages:
                report.add("messages", "returns another prompt when it is called again.")
    report.unchanged("messages", instance, before)
    if isinstance(task, ports.Judged):
        with report.calling("instruction"):
            report.returns("instruction", task.instruction(instance), str)
        with report.calling("criteria"):
            criteria = task.criteria(instance)
            if report.several("criteria", criteria, Criterion) and not criteria:
                report.add("criteria", f"is empty for {instance.id!r}.")
    if isinstance(task, ports.Paraphrasable):
        with report.calling("must_keep"):
            report.several("must_keep", task.must_keep(instance), str)
    if isinstance(task, ports.LeakAware):
        with report.calling("leaks"):
            report.returns("leaks", task.leaks(instance, instance), bool)


def _scoring(report: Report, task: ports.Task[Any], instance: Instance[Any]) -> bool:
    """Check the scores of good, wrong and hostile answers; return whether a reference is known."""
    before, named = copied(instance), f" of {instance.id!r}"
    reference = wrong = None
    with report.calling("reference"):
        given = task.reference(instance)
        if report.returns("reference", given, str, NoneType):
            reference = given
            if task.reference(instance) != reference:
                report.add("reference", "returns another answer when it is called again.")
    if reference is not None:
        scores = _scored(report, task, instance, reference)
        if scores is None:
            report.add("reference", f"{reference[:60]!r}{named} is unparseable.")
        elif scores and all(score.passed is None for score in scores.values()):
            report.add("score", "gives no verdict for a reference: passed is None.")
        elif scores and verdict(scores) is not True:
            report.add("reference", f"{reference[:60]!r}{named} does not pass.")
        elif scores:
            with report.calling("score", " when it scores a text again"):
                if task.score(instance, reference) != scores:
                    report.add("score", "returns other scores for the same text.")
    if isinstance(task, ports.Constraining):
        with report.calling("constraint"):
            _constraint(report, task, task.constraint(instance), reference)
    if isinstance(task, ports.Fallible):
        with report.calling("wrong_answer"):
            given = task.wrong_answer(instance)
            wrong = given if report.returns("wrong_answer", given, str, NoneType) else None
    for text in (wrong or WRONG, *HOSTILE_TEXTS):
        scores = _scored(report, task, instance, text)
        if text in (wrong, WRONG) and scores and verdict(scores) is True:
            member = "wrong_answer" if wrong else "score"
            report.add(member, f"lets the wrong answer {text[:60]!r}{named} pass.")
    if isinstance(task, ports.ScoresNoAnswer):
        with report.calling("score_of_no_answer"):
            check_scores(report, "score_of_no_answer", task.score_of_no_answer(instance), task)
    if isinstance(task, ports.Parsed):
        with report.calling("score_parsed"), contextlib.suppress(Unparseable):
            check_scores(report, "score_parsed", task.score_parsed(instance, reference or ""))
    report.unchanged("score", instance, before)
    return reference is not None


def _scored(
    report: Report, task: ports.Task[Any], instance: Instance[Any], text: str
) -> Mapping[str, Score] | None:
    """Return an answer's scores; none if they are not valid, None if it is unparseable."""
    scores: Mapping[str, Score] = {}
    with report.calling("score", f" for the text {text[:20]!r}"):
        try:
            given = task.score(instance, text)
        except Unparseable:
            return None
        scores = given if check_scores(report, "score", given, task) else {}
    if scores:
        with report.calling("feedback"):
            said = task.feedback(instance, text, scores)
            empty = report.returns("feedback", said, str) and not said.strip()
            if empty and verdict(scores) is False:
                report.add("feedback", "is empty for an answer that fails.")
    return scores


def _constraint(
    report: Report, task: ports.Constraining[Any], given: Any, reference: str | None
) -> None:
    if not report.record("constraint", given, DecodingConstraint):
        return
    allowed = reference is None or given.kind not in ("choices", "regex")
    if given.kind == "choices":
        allowed |= reference in given.choices
    elif given.kind == "regex":
        allowed |= re.fullmatch(given.regex, reference or "") is not None
    if given.kind != task.constraint_kind:
        report.add("constraint", f"is of kind {given.kind!r}, and constraint_kind says another.")
    elif not allowed:
        report.add("constraint", f"does not allow the reference {str(reference)[:60]!r}.")


async def _backend(
    report: Report,
    backend: ports.Backend,
    prompt: str,
    expected: Callable[[str], str] | None,
    timeout_s: float,
) -> None:
    doing = "generate", "for four calls at the same time"
    try:
        async with asyncio.timeout(timeout_s):
            if isinstance(backend, ports.Startable) and not backend.ready:
                doing = "start", "although generate was not called yet"
                with report.calling("start"):
                    await backend.start(lambda _: None)
                doing = "generate", "for four calls at the same time"
            if request := await _concurrent(report, backend, prompt, expected):
                doing = "generate", "after another call was cancelled"
                await _cancelled(report, backend, request)
    except TimeoutError:
        report.add(doing[0], f"did not return within {timeout_s:g} s, {doing[1]}.")
    for _ in range(2):
        with report.calling("aclose", ", perhaps because it is called twice"):
            await asyncio.wait_for(backend.aclose(), timeout_s)


async def _concurrent(
    report: Report,
    backend: ports.Backend,
    prompt: str,
    expected: Callable[[str], str] | None,
) -> Request | None:
    """Make four calls at the same time; return the first request if all replies are valid."""
    decoding = Decoding(max_tokens=16 if "max_tokens" in backend.features else None)
    prompts = [f"{prompt} ({number})" for number in range(1, 5)]
    requests = [
        Request("model", (Message("user", one),), decoding, 0, Origin("harness.testing", n, 1))
        for n, one in enumerate(prompts)
    ]
    before = deepcopy(requests)
    results = await asyncio.gather(*map(backend.generate, requests), return_exceptions=True)
    for asked, result in zip(prompts, results, strict=True):
        if isinstance(result, BaseException):
            check_error(report, result)
        elif check_reply(report, backend, result):
            others = any(other in result.text for other in prompts if other != asked)
            if expected and result.text != (right := expected(asked)):
                report.add(
                    "generate", f"answers {asked!r} with {result.text!r:.60}, not {right!r}."
                )
            elif others and asked not in result.text:
                report.add(
                    "generate", "answers one of several concurrent calls with another's text."
                )
    if requests != before:
        report.add("generate", "changes the request that it is given.")
    if all(isinstance(result, BaseException) for result in results):
        first = f"{type(results[0]).__name__}: {results[0]}"
        report.add("generate", f"answers no call. The first error is {first[:300]}")
    return requests[0] if any(isinstance(result, Reply) for result in results) else None


async def _cancelled(report: Report, backend: ports.Backend, request: Request) -> None:
    call = asyncio.ensure_future(backend.generate(request))
    await asyncio.sleep(0)
    unfinished = call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    if unfinished and not call.cancelled():
        report.add("generate", "does not let asyncio.CancelledError through.")
    [after] = await asyncio.gather(backend.generate(request), return_exceptions=True)
    if not isinstance(after, Reply):
        report.add("generate", f"fails after another call was cancelled: {after!r:.200}")


def _questions(
    report: Report, judge: ports.Judge, instance: Instance[Any], text: str
) -> Sequence[Question]:
    """Return the questions about a text; none if they are not valid."""
    before = copied(instance)
    with report.calling("questions"):
        asked = judge.questions(instance, text)
        if not report.several("questions", asked, Question):
            return ()
        if not all(check_conversation(report, "questions", one.messages) for one in asked):
            return ()
        if not asked:
            report.add("questions", "asks nothing.")
        if judge.questions(instance, text) != asked:
            report.add("questions", "returns other questions when it is called again.")
        if not any(text in message.content for one in asked for message in one.messages):
            report.add("questions", "never shows the answer that is judged.")
        judge.questions(instance, WRONG)  # parse must not depend on the last call
        report.unchanged("questions", instance, before)
        return asked
    return ()


def _parsing(
    report: Report,
    judge: ports.Judge,
    instance: Instance[Any],
    text: str,
    asked: Sequence[Question],
    replies: Mapping[Any, bool | float],
) -> None:
    takes_text = "text" in inspect.signature(judge.parse).parameters
    more: dict[str, Any] = {"text": text} if takes_text else {}

    def parsed(said: str | Sequence[str]) -> Mapping[str, Score]:
        """Return the scores that a reply, or one per question, gives; none if none are valid."""
        each = [said] * len(asked) if isinstance(said, str) else said
        drawn = [one for one, q in zip(each, asked, strict=True) for _ in range(q.samples)]
        called = report.calling("parse", f" for the reply {said!r:.40}")
        with called, contextlib.suppress(Unparseable):
            scores = judge.parse(instance, [Reply(one, "stop") for one in drawn], **more)
            return scores if check_scores(report, "parse", scores) else {}
        return {}

    for reply in ("I cannot say.", *HOSTILE_TEXTS):
        if any(score.value is not None for score in parsed(reply).values()) and not reply.strip():
            report.add("parse", "scores an empty reply: raise harness.errors.Unparseable instead.")
    for said, value in replies.items():
        if not isinstance(said, str) and len(said) != len(asked):
            report.add("questions", f"asks {len(asked)} questions, unlike replies={said!r:.60}.")
        elif not any(score.value == value for score in parsed(said).values()):
            report.add("parse", f"gives no score of {value!r} for the reply {said!r:.60}.")
    tried: list[str | Sequence[str]] = [*replies] or [*GUESSES]
    if isinstance(judge, ports.Simulatable):
        with report.calling("simulated"):
            origin = Origin(instance.id, 0, 1)
            requests = [Request("model", one.messages, one.decoding, 0, origin) for one in asked]
            simulated = [judge.simulated(request) for request in requests]
            if report.several("simulated", simulated, str):
                tried.append(simulated)
    read = [parsed(said) for said in tried if isinstance(said, str) or len(said) == len(asked)]
    if not any(read):
        report.add("parse", "gives no score for any reply that was tried: pass some as replies=.")
