"""Checks plug-in tasks, checkers and judges with good, wrong and hostile answers or replies."""

from __future__ import annotations

import contextlib
import inspect
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from typing import Any

import msgspec

from harness import ports
from harness.analysis.rescoring import first_reason
from harness.errors import ConfigError, Unparseable, UserError
from harness.records import Instance, Origin, Reply, Request, Score, encodable, verdict
from harness.testing.plugin_check import HOSTILE_TEXTS, WRONG, PlugInCheck, misfit
from harness.testing.turns import later_turns


def check_task(
    task: ports.Task[Any],
    *,
    answers: Mapping[str, Mapping[str, bool | None]] | None = None,
    hidden: Callable[[Instance[Any]], str] | None = None,
    other: Callable[[], ports.Task[Any]] | None = None,
    limit: int = 100,
) -> list[str]:
    """Return the problems of a task: of its members, instances, prompts, scoring and references.

    Args:
        task: The task.
        answers: Expected verdicts, by instance id and answer. None means that the answer must be
            unparseable.
        hidden: Returns a string that must not be revealed, such as the correct answer of an
            instance. Neither the instance's prompt nor the feedback on a wrong or unparseable
            answer may contain it as whole words. Upper and lower case are not distinguished.
        other: A function that changes the task's data in place and builds the task again, which
            must change the fingerprint. It is called last.
        limit: Check at most this many instances.
    """
    check = PlugInCheck("tasks", task)
    if found := check.sentences():
        return found
    instances = _instances(check, task, limit)
    if (fingerprint := check.call("fingerprint")) == {}:
        check.add("fingerprint", "is empty: name everything that scores depend on.")
    check.optional("prompt_errors")
    with check.calling("messages", " when it is given shots"), contextlib.suppress(ConfigError):
        for instance in instances[:1]:
            task.messages(instance, instances[1:3])
    prompts, without = [], []
    secrets = {one.id: hidden(one) for one in instances} if hidden else {}
    for instance in instances:  # all prompts first, to detect a task that keeps only the last
        asked = check.call("messages", instance, (), where=f" for {instance.id!r}")
        prompts.append(asked)
        if asked is not None:
            _no_leak(check, "messages", [one.content for one in asked], secrets.get(instance.id))
            last = asked[-1] if asked else None
            whole = isinstance(task, ports.Requesting)  # it may send an answer, or its beginning
            if not whole and (last is None or last.role != "user" or not last.content.strip()):
                check.add("messages", "does not end with a non-empty user message.")
        for member in ("instruction", "must_keep"):
            check.optional(member, instance)
        check.optional("leaks", instance, instance)
        if check.optional("criteria", instance) in ([], ()):
            without.append(instance)
    turns = [*instances, *(turn for one in instances for turn in later_turns(check, one))]
    references = [_scoring(check, instance, secrets.get(instance.id)) for instance in turns]
    _failing_targets(check, turns, references)
    known = answers or {}
    _known_answers(check, {one.id: one for one in instances}, known)
    for name in (one.id for one in without if _scored(check, one, WRONG) == {}):
        check.add("criteria", f"is empty for {name!r}, and so is score: nothing decides.")
    verdicts = [value for known_of_one in known.values() for value in known_of_one.values()]
    if instances and False not in verdicts and all(_passes(check, i, WRONG) for i in turns):
        check.add("score", f"lets the wrong answer {WRONG!r} pass for every instance.")
    if not check.found.keys() & {"instances", "messages", "fingerprint"}:
        _elsewhere(check, _of_task, task, limit)
    first = {*references[: len(instances)]} - {None}
    if len(first) > 1 and all(prompt == prompts[0] for prompt in prompts):
        problem = "returns the same prompt for every instance, but the references differ."
        check.add("messages", problem)
    judged = isinstance(task, ports.Judged) or True in verdicts
    if instances and references == [None] * len(turns) and not judged:
        problem = "returns None for every instance: give an answer that passes in answers=."
        check.add("reference", problem)
    if other is not None and other().fingerprint() == fingerprint:
        check.add("fingerprint", "is the same after the data changed.")
    return check.report()


def _failing_targets(
    check: PlugInCheck, instances: Sequence[Instance[Any]], references: Sequence[str | None]
) -> None:
    """Add a problem if an instance's expected answer fails, while others have references."""
    for instance, reference in zip(instances, references, strict=True):
        text = None if reference else check.optional("expected_answer", instance)
        if text is not None and any(references) and not _passes(check, instance, text):
            scores = _scored(check, instance, text) or {}
            why = first_reason(scores) or "unparseable"
            said = f"{text[:60]!r} of {instance.id!r} does not pass ({why:.200})."
            check.add("expected_answer", said)


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
        for text, wanted in verdicts.items():
            scores = _scored(check, instances[name], text)
            read = scores is not None and any(one.value is not None for one in scores.values())
            given = verdict(scores) if scores and read else "Unparseable"
            expected = "Unparseable" if wanted is None else wanted
            if scores != {} and given != expected:
                said = f"gives the verdict {given}, not {expected}, for the answer {text!r:.60}"
                check.add("score", f"{said} to {name!r}.")


def _instances(check: PlugInCheck, task: ports.Task[Any], limit: int) -> list[Instance[Any]]:
    with check.calling("instances"):
        instances = list(islice(task.instances(), limit))
        for one in instances:
            plain = isinstance(one, Instance) and msgspec.structs.replace(one, data=None)
            if problem := misfit(plain, Instance):
                check.add("instances", f"yields {one!r:.60}, {problem}")
                return []
        ids = [one.id for one in instances]
        if not ids:
            check.add("instances", "yields nothing.")
        if len(set(ids)) < len(ids):
            check.add("instances", "yields the same id twice.")
        again = [one.id for one in islice(task.instances(), limit)]
        if again != ids:
            what = "other ids, or another order," if again else "nothing"
            check.add("instances", f"yields {what} when called again.")
        return instances
    return []


def _of_task(task: ports.Task[Any], limit: int) -> dict[str, Any]:
    """Return what must be the same in every process, by member, as JSON values."""
    instances = [*islice(task.instances(), limit)]
    prompts = [[one.content for one in task.messages(each, ())] for each in instances]
    ids = [one.id for one in instances]
    return {"instances": ids, "messages": prompts, "fingerprint": dict(task.fingerprint())}


def _of_judge(judge: ports.Judge, instance: Instance[Any], text: str) -> dict[str, Any]:
    asked = judge.questions(instance, text)
    return {"questions": [[one.content for one in question.messages] for question in asked]}


def _elsewhere(check: PlugInCheck, of: Callable[..., dict[str, Any]], *given: Any) -> None:
    """Add a problem for each member that differs in another process, if the plug-in can go there.

    ``of`` returns the members' results for the arguments ``given``.
    """
    # Python orders sets of texts differently in each process, and hash() returns other numbers.
    code = (
        "import json, pickle, sys; sys.path[:] = json.loads(sys.argv[1]);"
        "of, given = pickle.load(sys.stdin.buffer); print(json.dumps(of(*given)))"
    )
    command = [sys.executable, "-I", "-c", code, json.dumps(sys.path)]
    with contextlib.suppress(
        pickle.PicklingError, TypeError, AttributeError, subprocess.CalledProcessError
    ):
        done = subprocess.run(  # noqa: S603 (this Python)
            command, input=pickle.dumps((of, given)), capture_output=True, check=True
        )
        there = json.loads(done.stdout.splitlines()[-1])
        for member, seen in of(*given).items():
            if there[member] != seen:
                problem = "returns something else in another process: is a set iterated, or"
                check.add(member, f"{problem} hash() called?")


def _no_leak(check: PlugInCheck, member: str, texts: Sequence[str], hidden: str | None) -> None:
    for text in texts if hidden else ():
        if re.search(rf"(?<!\w){re.escape(hidden or '')}(?!\w)", text, re.IGNORECASE):
            check.add(member, f"shows the text {hidden!r:.60}, which is hidden: {text!r:.200}")


def _scoring(check: PlugInCheck, instance: Instance[Any], hidden: str | None) -> str | None:
    """Check the scores of good, wrong and hostile answers. Return the reference, if any."""
    named = f" of {instance.id!r}"
    reference: str | None = check.call("reference", instance)
    if reference is not None:
        scores = _scored(check, instance, reference)
        if scores is None:
            check.add("reference", f"{reference[:60]!r}{named} is unparseable.")
        elif scores and all(score.passed is None for score in scores.values()):
            check.add("score", "gives no verdict for a reference: passed is None.")
        elif scores and verdict(scores) is not True:
            check.add("reference", f"{reference[:60]!r}{named} does not pass.")
    constraint = None
    if check.has("constraint_kind"):
        with contextlib.suppress(UserError):  # as in the task jsonl, for a row without a schema
            constraint = check.optional("constraint", instance)
    if constraint is not None:
        with check.calling("constraint"):
            if constraint.kind != check.plugin.constraint_kind:
                check.add("constraint", f"is of kind {constraint.kind!r}, unlike constraint_kind.")
            pattern = constraint.regex or "|".join(map(re.escape, constraint.choices))
            if reference is not None and pattern and not re.fullmatch(pattern, reference):
                check.add("constraint", f"does not allow the reference {reference[:60]!r}.")
    wrong = check.optional("wrong_answer", instance)
    extreme = [re.sub(r"\d+(?!.*\d)", one, reference or "") for one in ("nan", "1e999")]
    # A reference that was cut off, before its last character and before its last word.
    cut = [(reference or "")[:-1], re.sub(r"\S+\s*$", "", reference or "")]
    for text in dict.fromkeys((wrong or "", *extreme, *cut, *HOSTILE_TEXTS, WRONG)):
        scores = _scored(check, instance, text, hidden)
        passes = verdict(scores or {}) is True
        if passes and text == wrong:
            check.add("wrong_answer", f"returns {text[:60]!r}{named}, which passes.")
        if scores and hidden and not passes and hidden.lower() not in text.lower():
            said = check.call("feedback", instance, text, scores)
            _no_leak(check, "feedback", [said or ""], hidden)
    unanswered = check.optional("score_of_no_answer", instance)
    if unanswered and verdict(unanswered) is True:
        check.add("score_of_no_answer", "lets an answer with nothing to grade pass.")
    with contextlib.suppress(Unparseable):
        check.optional("score_parsed", instance, reference or "")
    return reference


def _passes(check: PlugInCheck, instance: Instance[Any], text: str) -> bool:
    return verdict(_scored(check, instance, text) or {}) is True


def _scored(
    check: PlugInCheck, instance: Instance[Any], text: str, hidden: str | None = None
) -> Mapping[str, Score] | None:
    """Return an answer's scores: {} if invalid, None if the task raises `Unparseable`."""
    scores: Mapping[str, Score] | None
    try:
        scores = check.call("score", instance, text, where=f" for the text {text[:20]!r}")
    except Unparseable as error:  # its message is the feedback
        if hidden and hidden.lower() not in text.lower():
            _no_leak(check, "score", [str(error)], hidden)
        return None
    said = None if scores is None else check.call("feedback", instance, text, scores)
    if said == "" and verdict(scores or {}) is False:
        check.add("feedback", "is empty for an answer that fails.")
    return scores or {}


def check_checker(
    checker: ports.Checker,
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
        instance: The instance that all texts answer (default: one without data).
    """
    check, instance = PlugInCheck("checkers", checker), instance or Instance("x", None)
    if check.sentences():
        return check.sentences()
    scores: dict[str, Score] = {}
    fresh: Any = None
    with contextlib.suppress(Exception):  # not everything can be copied
        fresh = deepcopy(checker)
    for text in (*passes, *fails, *HOSTILE_TEXTS):
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
    for wanted, given in ((True, "passes"), (False, "fails")):
        unread = not wanted and len(scores) < len({*passes, *fails, *HOSTILE_TEXTS})
        if scores and not unread and all(one.passed is not wanted for one in scores.values()):
            check.add("check", f"{given} none of the texts tried: add one with {given}=[…].")
    return check.report()


LONG = "word " * 5000 + WRONG  # a long answer
# Replies that many judges can read, used if `replies` is not given.
GUESSES = ("yes", "no", "0", "1", "3", "5", "7", "10", "A", "B", "C", "1.0", "[[A]]", "[[5]]")


def check_judge(
    judge: ports.Judge,
    instance: Instance[Any],
    text: str,
    *,
    replies: Mapping[Any, bool | float | Mapping[str, bool | float | None] | None] | None = None,
) -> list[str]:
    """Return a judge's problems, found without calling a model.

    Args:
        judge: The judge.
        instance: An instance that the judge scores.
        text: An answer to the instance, not empty.
        replies: Possible replies of a model, and the scores that the judge must give for them. A
            key is one reply to every question, or a tuple with a reply to each. A value is a
            mapping from the names of all scores to their values, or the value of at least one
            score, or None for a reply without a verdict, such as "Perhaps." If None, replies such
            as yes, no, A and 1 are tried. The judge's own `simulated` replies are always tried.
    """
    check = PlugInCheck("judges", judge)
    check.optional("fingerprint")
    asked = None if check.sentences() else check.call("questions", instance, text)
    if asked is None:
        return check.sentences()
    if not asked or not all(question.messages for question in asked):
        check.add("questions", "returns no question, or one without messages.")
    for number, question in enumerate(asked, 1):
        if not any(text in message.content for message in question.messages):
            check.add("questions", f"does not show the judged answer in question {number}.")
    for other in map(encodable, HOSTILE_TEXTS):
        check.call("questions", instance, other, where=f" for the text {other[:20]!r}")
    # The last call must not affect parse.
    for number, question in enumerate(check.call("questions", instance, LONG) or (), 1):
        if not any(WRONG in message.content for message in question.messages):
            check.add("questions", f"cuts off the end of a long answer in question {number}.")
    prompts = "\n".join(one.content for question in asked for one in question.messages)
    for tag in {*re.findall(rf"{re.escape(text)}\s*(</[\w-]+>)", prompts)}:
        for question in check.call("questions", instance, text + tag + WRONG) or ():
            if any(tag + WRONG in message.content for message in question.messages):
                problem = f"lets an answer close its tag {tag}: escape it, as"
                check.add("questions", f"{problem} harness.scoring.judges.fenced does.")
    more = {"text": text} if "text" in inspect.signature(judge.parse).parameters else {}

    def parsed(
        said: str | Sequence[str], first: tuple[int, str] | None = None
    ) -> Mapping[str, Score]:
        each = [said] * len(asked) if isinstance(said, str) else said
        drawn = [[one] * q.samples for one, q in zip(each, asked, strict=True)]
        if first:  # another reply is the first sample of one question
            drawn[first[0]][0] = first[1]
        sent = [Reply(one, "stop") for replies in drawn for one in replies]
        with contextlib.suppress(Unparseable):
            where = f" for the reply {said!r:.40}"
            return check.call("parse", instance, sent, where=where, **more) or {}
        return {}

    for reply in ("I cannot say.", *HOSTILE_TEXTS):
        if any(score.value is not None for score in parsed(reply).values()) and not reply.strip():
            check.add("parse", "scores an empty reply: raise Unparseable or return Score(None).")
    for said, value in (replies or {}).items():
        if not isinstance(said, str) and len(said) != len(asked):
            problem = f"asks {len(asked)} questions, unlike the key {said!r:.60} of replies=."
            check.add("questions", problem)
            continue
        scores = parsed(said)
        found = {name: score.value for name, score in scores.items()}
        if value is None:
            if found and None not in found.values():
                check.add("parse", f"scores {said!r:.60}: raise Unparseable or return Score(None).")
        elif isinstance(value, Mapping) and found != value:
            problem = f"gives {found or 'no scores'} for the reply {said!r:.60}"
            check.add("parse", f"{problem}, not {dict(value)}.")
        elif not isinstance(value, Mapping) and value not in found.values():
            check.add("parse", f"gives no score of {value!r} for the reply {said!r:.60}.")
        elif isinstance(value, bool) and verdict(scores) is (not value):
            problem = f"gives the value {value} the verdict {not value} for the reply {said!r:.60}"
            check.add("parse", f"{problem}. If that is right, give replies= the values by name.")
    tried: list[str | Sequence[str]] = [*(replies or GUESSES)]
    if isinstance(judge, ports.Simulatable):
        origin = Origin(instance.id, 0, 1)
        requests = [Request("model", one.messages, one.decoding, 0, origin) for one in asked]
        simulated = [check.call("simulated", request) for request in requests]
        if None not in simulated:
            tried.append(simulated)
            if not (scores := parsed(simulated)):
                check.add("simulated", f"returns {simulated[0]!r:.60}, which gives no score.")
            for name in (name for name, score in scores.items() if score.value is None):
                check.add("simulated", f"returns {simulated!r:.60}, without a value for {name!r}.")
    every = [(one,) * len(asked) if isinstance(one, str) else tuple(one) for one in tried]
    read = {one: scores for one in every if len(one) == len(asked) and (scores := parsed(one))}
    if not read:
        check.add("parse", "gives no score for any reply that was tried: pass some as replies=.")
    for place in (number for number, question in enumerate(asked) if question.samples > 1):
        # Two keys that differ in the reply to this question only, and in their scores.
        pairs = [(a, b[place]) for a in read for b in read]
        changed = [(a, (*a[:place], said, *a[place + 1 :])) for a, said in pairs]
        differ = [(a, b) for a, b in changed if b != a and parsed(b) not in ({}, read[a])]
        if differ and all(parsed(b, first=(place, a[place])) == read[a] for a, b in differ):
            said = f"reads only the first of a question's samples (question {place + 1})."
            check.add("parse", said)
    for said, before in [*read.items()][:1]:
        for other in ("", text):
            check.call("questions", instance, other)
            if parsed(said) != before:
                problem = "depends on the last text that questions was called with: keep no state."
                check.add("parse", problem)
    if "questions" not in check.found:
        _elsewhere(check, _of_judge, judge, instance, text)
    if len(asked) > 1:
        _abstentions(check, parsed, list(read))
    return check.report()


def _abstentions(
    check: PlugInCheck,
    parsed: Callable[[Sequence[str]], Mapping[str, Score]],
    read: Sequence[tuple[str, ...]],
) -> None:
    """Detect a judge that treats an empty reply to one of several questions as an answer.

    A judge is reported if, for one of the questions, an empty reply always gives the same scores as
    one particular answer, while another answer gives different scores. A judge that averages over
    the answered questions is not reported.
    """
    for place in range(len(read[0]) if read else 0):
        others = dict.fromkeys((one[:place], one[place + 1 :]) for one in read)

        def scores(said: str, others: Any = others) -> list[Mapping[str, Score]]:
            return [parsed((*before, said, *after)) for before, after in others]

        abstained, _ = scores(""), scores("I cannot say.")  # neither may raise
        answers = {said: scores(said) for said in sorted({one[place] for one in read})}
        found = list(answers.values())
        if len(found) > 1 and all(one == found[0] for one in found):
            check.add("parse", f"does not depend on the reply to question {place + 1}.")
        missing = any(score.value is None for scores in abstained for score in scores.values())
        like = [said for said, given in answers.items() if given == abstained and not missing]
        if all(abstained) and len(others) > 1 and like and len(like) < len(answers):
            check.add("parse", f"scores an empty reply to question {place + 1} like {like[0]!r}.")
