"""Checks tasks and checkers with good, wrong and hostile answers, and with conversations."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from typing import Any

import msgspec

from harness.errors import ConfigError, Unparseable, UserError
from harness.plugin import Checker, Task
from harness.plugins.testing.plugin_check import HOSTILE_TEXTS, WRONG, PlugInCheck, misfit
from harness.records import Instance, Message, Score, first_reason, verdict

NEXT = "What else?"  # of a played user


def later_turns(check: PlugInCheck, instance: Instance[Any]) -> Iterator[Instance[Any]]:
    """Yield an instance as of each turn after the first, and check the conversations.

    Each earlier turn is answered by its reference answer or, without one, by a wrong answer.
    """
    where = f" for {instance.id!r}"
    opening = check.call("messages", instance, ()) or ()
    if check.has("user_role") and check.call("user_role", instance) is not None:
        answer = Message("assistant", check.call("reference", instance) or WRONG)
        conversation = (*opening, answer, Message("user", NEXT))
        for last in (False, True):
            turn = _asked(check, "at_played_turn", instance, conversation, last)
            if turn is not None:
                if tuple(check.call("messages", turn, ()) or ()) != conversation:
                    check.add("at_played_turn", f"does not have the conversation{where}.")
                yield turn
    if not check.has("turns"):
        return
    turns = check.call("turns", instance, where=where) or 1
    if turns < 1:
        check.add("turns", f"is {turns}{where}: every instance has at least one turn.")
    if _asked(check, "at_turn", instance, ()) != instance:
        check.add("at_turn", f"changes the instance without answers{where}.")
    latest: Instance[Any] | None = instance
    conversation = opening
    answers = list[str]()
    for _ in range(1, turns):
        answers.append(check.call("reference", latest) or WRONG)
        latest = _asked(check, "at_turn", instance, tuple(answers))
        if latest is None:
            return
        now = tuple(check.call("messages", latest, ()) or ())
        if problem := _misplaced(now, conversation, answers[-1]):
            check.add("at_turn", f"{problem} after {len(answers)} answers{where}.")
        conversation = now
        yield latest


def _asked(
    check: PlugInCheck, member: str, instance: Instance[Any], *arguments: Any
) -> Instance[Any] | None:
    """Return the instance that a task's method ``member`` returns for a turn.

    If the method fails, record the problem and return None.
    """
    with check.calling(member, f" for {instance.id!r}"):
        turn = getattr(check.plugin, member)(instance, *arguments)
        if isinstance(turn, Instance):
            return turn
        check.add(member, f"returns {turn!r:.60}, not an Instance.")
    return None


def _misplaced(now: Sequence[Message], before: Sequence[Message], answer: str) -> str:
    expected = [*before, Message("assistant", answer)]
    if list(now[: len(expected)]) != expected:
        return "does not repeat the conversation so far, with the latest answer,"
    if not _ends_with_user(now[len(expected) :]):
        return "does not end with a non-empty turn of the user"
    return ""


def _ends_with_user(messages: Sequence[Message]) -> bool:
    """Return whether the last message is one of the user, and not empty."""
    if not messages:
        return False
    return messages[-1].role == "user" and bool(messages[-1].content.strip())


def check_task(
    task: Task[Any],
    *,
    answers: Mapping[str, Mapping[str, bool | None]] | None = None,
    hidden: Callable[[Instance[Any]], str] | None = None,
    other: Callable[[], Task[Any]] | None = None,
    limit: int = 100,
) -> list[str]:
    """Check a task's members, data, prompts and scoring, and return the problems found.

    Args:
        task: The task.
        answers: Expected verdicts, by instance id and answer. None means that the answer must be
            unparseable.
        hidden: Returns a string that must not be revealed, such as the correct answer to an
            instance. Neither the instance's prompt nor the feedback on a wrong or unparseable
            answer may contain it as whole words. Upper and lower case are not distinguished.
        other: A function that changes the task's data in place and builds the task again, which
            must change the fingerprint. It is called last.
        limit: Check at most this many instances.
    """
    check = PlugInCheck("tasks", task)
    if problems := check.sentences():
        return problems
    instances = _instances(check, task, limit)
    if (fingerprint := check.call("fingerprint")) == {}:
        check.add("fingerprint", "is empty: name everything that scores depend on.")
    check.optional("prompt_errors")
    with check.calling("messages", " when it is given shots"), contextlib.suppress(ConfigError):
        for instance in instances[:1]:
            task.messages(instance, instances[1:3])
    secrets = {instance.id: hidden(instance) for instance in instances} if hidden else {}
    # All prompts first, to detect a task that keeps only the last.
    prompts = [_prompt(check, instance, secrets.get(instance.id)) for instance in instances]
    without = []
    turns = [*instances]
    for instance in instances:
        for member in ("instruction", "must_keep"):
            check.optional(member, instance)
        check.optional("leaks", instance, instance)
        if check.optional("criteria", instance) in ([], ()):
            without.append(instance)
    for instance in instances:
        turns += later_turns(check, instance)
    references = [_scoring(check, turn, secrets.get(turn.id)) for turn in turns]
    _failing_targets(check, turns, references)
    expected = answers or {}
    _known_answers(check, {instance.id: instance for instance in instances}, expected)
    for instance in without:
        if _scored(check, instance, WRONG) == {}:
            problem = f"is empty for {instance.id!r}, and so is score: nothing decides."
            check.add("criteria", problem)
    verdicts: set[bool | None] = set()
    for verdicts_by_answer in expected.values():
        verdicts.update(verdicts_by_answer.values())
    if instances and False not in verdicts and all(_passes(check, turn, WRONG) for turn in turns):
        check.add("score", f"lets the wrong answer {WRONG!r} pass for every instance.")
    if not check.found.keys() & {"instances", "messages", "fingerprint"}:
        check.elsewhere(_of_task, task, limit)
    first = {*references[: len(instances)]} - {None}
    if len(first) > 1 and prompts.count(prompts[0]) == len(prompts):
        problem = "returns the same prompt for every instance, but the references differ."
        check.add("messages", problem)
    judged = check.has("criteria") or True in verdicts
    if instances and references == [None] * len(turns) and not judged:
        problem = "returns None for every instance: give an answer that passes in answers=."
        check.add("reference", problem)
    if other is not None and other().fingerprint() == fingerprint:
        check.add("fingerprint", "is the same after the data changed.")
    return check.sentences()


def _prompt(
    check: PlugInCheck, instance: Instance[Any], secret: str | None
) -> Sequence[Message] | None:
    """Check and return an instance's messages, or None if they are invalid."""
    messages: Sequence[Message] | None
    messages = check.call("messages", instance, (), where=f" for {instance.id!r}")
    if messages is not None:
        _no_leak(check, "messages", [message.content for message in messages], secret)
        # A request may be adapted to send an answer, or its beginning.
        if not check.has("adapted_request") and not _ends_with_user(messages):
            check.add("messages", "does not end with a non-empty user message.")
    return messages


def _failing_targets(
    check: PlugInCheck, instances: Sequence[Instance[Any]], references: Sequence[str | None]
) -> None:
    """Check the expected answers of instances without a reference, if others have one."""
    for instance, reference in zip(instances, references, strict=True):
        text = None if reference else check.optional("expected_answer", instance)
        if text is None or not any(references):
            continue
        scores = _scored(check, instance, text) or {}
        if verdict(scores) is not True:
            why = first_reason(scores) or "unparseable"
            problem = f"{text[:60]!r} of {instance.id!r} does not pass ({why:.200})."
            check.add("expected_answer", problem)


def _known_answers(
    check: PlugInCheck,
    instances: Mapping[str, Instance[Any]],
    answers: Mapping[str, Mapping[str, bool | None]],
) -> None:
    for name, verdicts in answers.items():
        if name not in instances:
            problem = f"does not yield {name!r} among the first {len(instances)}: raise limit=?"
            check.add("instances", problem)
            continue
        for text, expected_verdict in verdicts.items():
            scores = _scored(check, instances[name], text)
            if scores == {}:
                continue
            expected = "Unparseable" if expected_verdict is None else expected_verdict
            actual: bool | str | None = "Unparseable"
            values = [score.value for score in (scores or {}).values()]
            if scores and values.count(None) < len(values):
                actual = verdict(scores)
            if actual != expected:
                problem = f"gives the verdict {actual}, not {expected}, for the answer {text!r:.60}"
                check.add("score", f"{problem} to {name!r}.")


def _instances(check: PlugInCheck, task: Task[Any], limit: int) -> list[Instance[Any]]:
    with check.calling("instances"):
        instances = list(islice(task.instances(), limit))
        for instance in instances:
            plain = isinstance(instance, Instance) and msgspec.structs.replace(instance, data=None)
            if problem := misfit(plain, Instance):
                check.add("instances", f"yields {instance!r:.60}, {problem}")
                return []
        ids = [instance.id for instance in instances]
        if not ids:
            check.add("instances", "yields nothing.")
        if len(set(ids)) < len(ids):
            check.add("instances", "yields the same id twice.")
        ids_again = [instance.id for instance in islice(task.instances(), limit)]
        if ids_again != ids:
            what = "other ids, or another order," if ids_again else "nothing"
            check.add("instances", f"yields {what} when called again.")
        return instances
    return []


def _of_task(task: Task[Any], limit: int) -> dict[str, Any]:
    """Return the results, by member, that must be the same in every process."""
    ids = []
    prompts = []
    for instance in [*islice(task.instances(), limit)]:
        ids.append(instance.id)
        prompts.append([message.content for message in task.messages(instance, ())])
    return {"instances": ids, "messages": prompts, "fingerprint": dict(task.fingerprint())}


def _no_leak(check: PlugInCheck, member: str, texts: Sequence[str], hidden: str | None) -> None:
    if not hidden:
        return
    for text in texts:
        if re.search(rf"(?<!\w){re.escape(hidden)}(?!\w)", text, re.IGNORECASE):
            check.add(member, f"shows the text {hidden!r:.60}, which is hidden: {text!r:.200}")


def _scoring(check: PlugInCheck, instance: Instance[Any], hidden: str | None) -> str | None:
    """Check the scores of good, wrong and hostile answers. Return the reference, if any."""
    of_instance = f" of {instance.id!r}"
    reference: str | None = check.call("reference", instance)
    if reference is not None:
        scores = _scored(check, instance, reference)
        verdicts = [score.passed for score in (scores or {}).values()]
        if scores is None:
            check.add("reference", f"{reference[:60]!r}{of_instance} is unparseable.")
        elif verdicts and verdicts.count(None) == len(verdicts):
            check.add("score", "gives no verdict for a reference: passed is None.")
        elif scores and verdict(scores) is not True:
            check.add("reference", f"{reference[:60]!r}{of_instance} does not pass.")
    _constraint(check, instance, reference)
    wrong = check.optional("wrong_answer", instance)
    text = reference or ""
    extreme = [re.sub(r"\d+(?!.*\d)", number, text) for number in ("nan", "1e999")]
    # A reference that was cut off, before its last character and before its last word.
    cut = [text[:-1], re.sub(r"\S+\s*$", "", text)]
    for text in dict.fromkeys((wrong or "", *extreme, *cut, *HOSTILE_TEXTS, WRONG)):
        scores = _scored(check, instance, text, hidden)
        passes = verdict(scores or {}) is True
        if passes and text == wrong:
            check.add("wrong_answer", f"returns {text[:60]!r}{of_instance}, which passes.")
        if scores and hidden and not passes and hidden.lower() not in text.lower():
            feedback = check.call("feedback", instance, text, scores)
            _no_leak(check, "feedback", [feedback or ""], hidden)
    unanswered = check.optional("score_of_no_answer", instance)
    if unanswered and verdict(unanswered) is True:
        check.add("score_of_no_answer", "lets an answer with nothing to grade pass.")
    with contextlib.suppress(Unparseable):
        check.optional("score_parsed", instance, reference or "")
    return reference


def _constraint(check: PlugInCheck, instance: Instance[Any], reference: str | None) -> None:
    constraint = None
    if check.has("constraint_kind") and check.has("constraint"):
        with contextlib.suppress(UserError):  # as in the task jsonl, for a row without a schema
            constraint = check.optional("constraint", instance)
    if constraint is None:
        return
    with check.calling("constraint"):
        if constraint.kind != check.plugin.constraint_kind:
            check.add("constraint", f"is of kind {constraint.kind!r}, unlike constraint_kind.")
        pattern = constraint.regex or "|".join(map(re.escape, constraint.choices))
        if reference is not None and pattern and not re.fullmatch(pattern, reference):
            check.add("constraint", f"does not allow the reference {reference[:60]!r}.")


def _passes(check: PlugInCheck, instance: Instance[Any], text: str) -> bool:
    return verdict(_scored(check, instance, text) or {}) is True


def _scored(
    check: PlugInCheck, instance: Instance[Any], text: str, hidden: str | None = None
) -> Mapping[str, Score] | None:
    """Check and return an answer's scores: {} if they are invalid, None if it is unparseable."""
    scores: Mapping[str, Score] | None
    try:
        scores = check.call("score", instance, text, where=f" for the text {text[:20]!r}")
    except Unparseable as error:  # its message is the feedback
        if hidden and hidden.lower() not in text.lower():
            _no_leak(check, "score", [str(error)], hidden)
        return None
    feedback = None if scores is None else check.call("feedback", instance, text, scores)
    if feedback == "" and verdict(scores or {}) is False:
        check.add("feedback", "is empty for an answer that fails.")
    return scores or {}


def check_checker(
    checker: Checker,
    *,
    passes: Sequence[str] = (),
    fails: Sequence[str] = (),
    instance: Instance[Any] | None = None,
) -> list[str]:
    """Return a checker's problems, found with hostile texts and with texts of a known verdict.

    Args:
        checker: The checker.
        passes: Texts that must pass.
        fails: Texts that must fail.
        instance: The instance that all texts answer (default: an instance without data).
    """
    check = PlugInCheck("checkers", checker)
    instance = instance or Instance("x", None)
    if check.sentences():
        return check.sentences()
    scores: dict[str, Score] = {}
    fresh: Any = None
    with contextlib.suppress(Exception):  # not everything can be copied
        fresh = deepcopy(checker)
    texts = dict.fromkeys((*passes, *fails, *HOSTILE_TEXTS))
    for text in texts:
        where = f" for the text {text[:40]!r} and data {instance.data!r:.40}"
        with contextlib.suppress(Unparseable):  # the text fails
            if (score := check.call("check", text, instance, where=where)) is not None:
                scores[text] = score
    for text, score in reversed(scores.items()) if fresh else ():
        with check.calling("check"), contextlib.suppress(Unparseable):
            if fresh.check(text, instance) != score:
                check.add("check", "gives another score after other texts: it must keep no state.")
    for text in passes:
        if text not in scores:
            check.add("check", f"raises Unparseable for {text[:60]!r}, which must pass.")
    for text, score in scores.items():
        if text in (*passes, *fails) and score.passed != (text in passes):
            must = "pass" if text in passes else "fail"
            check.add("check", f"has passed={score.passed} for {text[:60]!r}, which must {must}.")
    verdicts = {score.passed for score in scores.values()}
    if scores and True not in verdicts:
        check.add("check", "passes none of the texts tried: add one with passes=[…].")
    if scores and False not in verdicts and len(scores) == len(texts):
        check.add("check", "fails none of the texts tried: add one with fails=[…].")
    return check.sentences()
