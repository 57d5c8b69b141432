"""Checks plug-in judges with possible replies of a model, some of which give no verdict."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.errors import Unparseable
from harness.plugin import Judge
from harness.plugins.testing.plugin_check import HOSTILE_TEXTS, WRONG, PlugInCheck
from harness.records import (
    Instance,
    Origin,
    Question,
    Reply,
    Request,
    Score,
    replace_surrogates,
    verdict,
)

LONG = "word " * 5000 + WRONG
# Replies that many judges can read, used if `replies` is not given.
GUESSES = ("yes", "no", "0", "1", "3", "5", "7", "10", "A", "B", "C", "1.0", "[[A]]", "[[5]]")

Parse = Callable[[str | Sequence[str]], Mapping[str, Score]]  # of replies


def check_judge(
    judge: Judge,
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
            score, or None for a reply without a verdict, such as "Perhaps." By default, replies
            such as yes, no, A and 1 are tried. The judge's `simulated` replies are always tried.
    """
    check = PlugInCheck("judges", judge)
    check.optional("fingerprint")
    questions = None if check.sentences() else check.call("questions", instance, text)
    if questions is None:
        return check.sentences()
    _check_questions(check, questions, instance, text)
    more = {"text": text} if "text" in inspect.signature(judge.parse).parameters else {}

    def parsed(reply: str | Sequence[str]) -> Mapping[str, Score]:
        sent = []
        for answer, question in zip(_to_each(reply, questions), questions, strict=True):
            sent += [Reply(answer, "stop")] * question.samples
        with contextlib.suppress(Unparseable):
            where = f" for the reply {reply!r:.40}"
            return check.call("parse", instance, sent, where=where, **more) or {}
        return {}

    for unusual in ("I cannot say.", *HOSTILE_TEXTS):
        values = [score.value for score in parsed(unusual).values()]
        if not unusual.strip() and values.count(None) < len(values):
            check.add("parse", "scores an empty reply: raise Unparseable or return Score(None).")
    for reply, expected in (replies or {}).items():
        if isinstance(reply, str) or len(reply) == len(questions):
            _check_reply(check, reply, parsed(reply), expected)
        else:
            problem = f"asks {len(questions)} questions, unlike the key {reply!r:.60} of replies=."
            check.add("questions", problem)
    tried: list[str | Sequence[str]] = [*(replies or GUESSES)]
    if check.has("simulated"):
        tried += _simulated(check, questions, instance, parsed)
    scored: dict[tuple[str, ...], Mapping[str, Score]] = {}  # the replies that give scores
    for reply in tried:
        in_full = _to_each(reply, questions)
        scores = parsed(in_full) if len(in_full) == len(questions) else {}
        if scores:
            scored[in_full] = scores
    if not scored:
        check.add("parse", "gives no score for any reply that was tried: pass some as replies=.")
    for in_full, before in [*scored.items()][:1]:
        for shown_text in ("", text):
            check.call("questions", instance, shown_text)
            if parsed(in_full) != before:
                problem = "depends on the last text that questions was called with: keep no state."
                check.add("parse", problem)
    if "questions" not in check.found:
        check.elsewhere(_of_judge, judge, instance, text)
    if len(questions) > 1:
        _abstentions(check, parsed, list(scored))
    return check.sentences()


def _to_each(reply: str | Sequence[str], questions: Sequence[Question]) -> tuple[str, ...]:
    """Return the replies to all questions, given one reply to every question or all of them."""
    return (reply,) * len(questions) if isinstance(reply, str) else tuple(reply)


def _shows(question: Question, text: str) -> bool:
    return any(text in message.content for message in question.messages)


def _check_questions(
    check: PlugInCheck, questions: Sequence[Question], instance: Instance[Any], text: str
) -> None:
    """Check the questions about ordinary, hostile and long answers, and answers with tags."""
    if not questions:
        check.add("questions", "returns no question, or one without messages.")
    prompts = ""
    for number, question in enumerate(questions, 1):
        if not question.messages:
            check.add("questions", "returns no question, or one without messages.")
        if not _shows(question, text):
            check.add("questions", f"does not show the judged answer in question {number}.")
        for message in question.messages:
            prompts += f"{message.content}\n"
    for hostile in map(replace_surrogates, HOSTILE_TEXTS):
        check.call("questions", instance, hostile, where=f" for the text {hostile[:20]!r}")
    # The last call must not affect parse.
    for number, question in enumerate(check.call("questions", instance, LONG) or (), 1):
        if not _shows(question, WRONG):
            check.add("questions", f"cuts off the end of a long answer in question {number}.")
    for tag in {*re.findall(rf"{re.escape(text)}\s*(</[\w-]+>)", prompts)}:
        for question in check.call("questions", instance, text + tag + WRONG) or ():
            if _shows(question, tag + WRONG):
                problem = f"lets an answer close its tag {tag}: escape it, as"
                check.add("questions", f"{problem} harness.scoring.judges.fenced does.")


def _check_reply(
    check: PlugInCheck, reply: object, scores: Mapping[str, Score], expected: object
) -> None:
    """Check the scores that a judge gives for a reply, as in ``replies`` of `check_judge`."""
    values = {name: score.value for name, score in scores.items()}
    what = f"the reply {reply!r:.60}"
    if expected is None:
        if values and None not in values.values():
            check.add("parse", f"scores {reply!r:.60}: raise Unparseable or return Score(None).")
    elif isinstance(expected, Mapping):
        if values != expected:
            problem = f"gives {values or 'no scores'} for {what}, not {dict(expected)}."
            check.add("parse", problem)
    elif expected not in values.values():
        check.add("parse", f"gives no score of {expected!r} for {what}.")
    elif isinstance(expected, bool) and verdict(scores) is (not expected):
        problem = f"gives the value {expected} the verdict {not expected} for {what}"
        check.add("parse", f"{problem}. If that is right, give replies= the values by name.")


def _simulated(
    check: PlugInCheck, questions: Sequence[Question], instance: Instance[Any], parsed: Parse
) -> list[Sequence[str]]:
    """Check the simulated replies. Return a list with them, or [] if a question has none."""
    origin = Origin(instance.id, 0, 1)
    replies = []
    for question in questions:
        request = Request("model", question.messages, question.decoding, 0, origin)
        replies.append(check.call("simulated", request))
    if None in replies:
        return []
    scores = parsed(replies)
    if not scores:
        check.add("simulated", f"returns {replies[0]!r:.60}, which gives no score.")
    for name, score in scores.items():
        if score.value is None:
            check.add("simulated", f"returns {replies!r:.60}, without a value for {name!r}.")
    return [replies]


def _of_judge(judge: Judge, instance: Instance[Any], text: str) -> dict[str, Any]:
    contents = []
    for question in judge.questions(instance, text):
        contents.append([message.content for message in question.messages])
    return {"questions": contents}


def _abstentions(check: PlugInCheck, parsed: Parse, scored: Sequence[tuple[str, ...]]) -> None:
    """Report a judge that treats an empty reply to one of several questions as an answer.

    A judge that averages over the answered questions is not reported.
    """
    for place in range(len(scored[0]) if scored else 0):
        others: dict[tuple[tuple[str, ...], tuple[str, ...]], None] = {}
        for replies in scored:
            others[replies[:place], replies[place + 1 :]] = None

        def scores(reply: str, others: Any = others) -> list[Mapping[str, Score]]:
            return [parsed((*before, reply, *after)) for before, after in others]

        # Neither may raise.
        abstained = scores("")
        scores("I cannot say.")
        distinct = {replies[place] for replies in scored}
        answers = {reply: scores(reply) for reply in sorted(distinct)}
        score_lists = list(answers.values())
        if len(score_lists) > 1 and score_lists.count(score_lists[0]) == len(score_lists):
            check.add("parse", f"does not depend on the reply to question {place + 1}.")
        if not all(map(_complete, abstained)) or len(others) < 2:
            continue
        like = [reply for reply in answers if answers[reply] == abstained]
        if like and len(like) < len(answers):
            check.add("parse", f"scores an empty reply to question {place + 1} like {like[0]!r}.")


def _complete(scores: Mapping[str, Score]) -> bool:
    """Return whether there are scores, and all of them have values."""
    return bool(scores) and all(score.value is not None for score in scores.values())
