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
from harness.records import Instance, Origin, Reply, Request, Score, encodable, verdict

LONG = "word " * 5000 + WRONG
# Replies that many judges can read, used if `replies` is not given.
GUESSES = ("yes", "no", "0", "1", "3", "5", "7", "10", "A", "B", "C", "1.0", "[[A]]", "[[5]]")


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
    if not questions or not all(question.messages for question in questions):
        check.add("questions", "returns no question, or one without messages.")
    for number, question in enumerate(questions, 1):
        if not any(text in message.content for message in question.messages):
            check.add("questions", f"does not show the judged answer in question {number}.")
    for hostile in map(encodable, HOSTILE_TEXTS):
        check.call("questions", instance, hostile, where=f" for the text {hostile[:20]!r}")
    # The last call must not affect parse.
    for number, question in enumerate(check.call("questions", instance, LONG) or (), 1):
        if not any(WRONG in message.content for message in question.messages):
            check.add("questions", f"cuts off the end of a long answer in question {number}.")
    prompts = "\n".join(message.content for question in questions for message in question.messages)
    for tag in {*re.findall(rf"{re.escape(text)}\s*(</[\w-]+>)", prompts)}:
        for question in check.call("questions", instance, text + tag + WRONG) or ():
            if any(tag + WRONG in message.content for message in question.messages):
                problem = f"lets an answer close its tag {tag}: escape it, as"
                check.add("questions", f"{problem} harness.scoring.judges.fenced does.")
    more = {"text": text} if "text" in inspect.signature(judge.parse).parameters else {}

    def parsed(reply: str | Sequence[str]) -> Mapping[str, Score]:
        replies_in_order = [reply] * len(questions) if isinstance(reply, str) else reply
        sent = [
            Reply(text, "stop")
            for text, question in zip(replies_in_order, questions, strict=True)
            for _ in range(question.samples)
        ]
        with contextlib.suppress(Unparseable):
            where = f" for the reply {reply!r:.40}"
            return check.call("parse", instance, sent, where=where, **more) or {}
        return {}

    for reply in ("I cannot say.", *HOSTILE_TEXTS):
        if any(score.value is not None for score in parsed(reply).values()) and not reply.strip():
            check.add("parse", "scores an empty reply: raise Unparseable or return Score(None).")
    for replied, value in (replies or {}).items():
        if not isinstance(replied, str) and len(replied) != len(questions):
            problem = (
                f"asks {len(questions)} questions, unlike the key {replied!r:.60} of replies=."
            )
            check.add("questions", problem)
            continue
        scores = parsed(replied)
        values = {name: score.value for name, score in scores.items()}
        if value is None:
            if values and None not in values.values():
                check.add(
                    "parse", f"scores {replied!r:.60}: raise Unparseable or return Score(None)."
                )
        elif isinstance(value, Mapping) and values != value:
            problem = f"gives {values or 'no scores'} for the reply {replied!r:.60}"
            check.add("parse", f"{problem}, not {dict(value)}.")
        elif not isinstance(value, Mapping) and value not in values.values():
            check.add("parse", f"gives no score of {value!r} for the reply {replied!r:.60}.")
        elif isinstance(value, bool) and verdict(scores) is (not value):
            problem = (
                f"gives the value {value} the verdict {not value} for the reply {replied!r:.60}"
            )
            check.add("parse", f"{problem}. If that is right, give replies= the values by name.")
    tried: list[str | Sequence[str]] = [*(replies or GUESSES)]
    if check.has("simulated"):
        origin = Origin(instance.id, 0, 1)
        requests = [
            Request("model", question.messages, question.decoding, 0, origin)
            for question in questions
        ]
        simulated = [check.call("simulated", request) for request in requests]
        if None not in simulated:
            tried.append(simulated)
            if not (scores := parsed(simulated)):
                check.add("simulated", f"returns {simulated[0]!r:.60}, which gives no score.")
            for name in (name for name, score in scores.items() if score.value is None):
                check.add("simulated", f"returns {simulated!r:.60}, without a value for {name!r}.")
    every = [
        (reply_,) * len(questions) if isinstance(reply_, str) else tuple(reply_) for reply_ in tried
    ]
    read = {
        reply_: scores
        for reply_ in every
        if len(reply_) == len(questions) and (scores := parsed(reply_))
    }
    if not read:
        check.add("parse", "gives no score for any reply that was tried: pass some as replies=.")
    for replied, before in [*read.items()][:1]:
        for shown_text in ("", text):
            check.call("questions", instance, shown_text)
            if parsed(replied) != before:
                problem = "depends on the last text that questions was called with: keep no state."
                check.add("parse", problem)
    if "questions" not in check.found:
        check.elsewhere(_of_judge, judge, instance, text)
    if len(questions) > 1:
        _abstentions(check, parsed, list(read))
    return check.sentences()


def _of_judge(judge: Judge, instance: Instance[Any], text: str) -> dict[str, Any]:
    questions = judge.questions(instance, text)
    return {
        "questions": [[message.content for message in question.messages] for question in questions]
    }


def _abstentions(
    check: PlugInCheck,
    parsed: Callable[[Sequence[str]], Mapping[str, Score]],
    read: Sequence[tuple[str, ...]],
) -> None:
    """Report a judge that treats an empty reply to one of several questions as an answer.

    A judge that averages over the answered questions is not reported.
    """
    for place in range(len(read[0]) if read else 0):
        others = dict.fromkeys((replies[:place], replies[place + 1 :]) for replies in read)

        def scores(reply: str, others: Any = others) -> list[Mapping[str, Score]]:
            return [parsed((*before, reply, *after)) for before, after in others]

        # Neither may raise.
        abstained = scores("")
        scores("I cannot say.")
        answers = {reply: scores(reply) for reply in sorted({replies[place] for replies in read})}
        score_lists = list(answers.values())
        if len(score_lists) > 1 and all(replies == score_lists[0] for replies in score_lists):
            check.add("parse", f"does not depend on the reply to question {place + 1}.")
        missing = any(score.value is None for scores in abstained for score in scores.values())
        like = [
            reply
            for reply, reply_scores in answers.items()
            if reply_scores == abstained and not missing
        ]
        if all(abstained) and len(others) > 1 and like and len(like) < len(answers):
            check.add("parse", f"scores an empty reply to question {place + 1} like {like[0]!r}.")
