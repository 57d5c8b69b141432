"""Checks checkers and judges, which score texts for any task."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from harness import ports
from harness.errors import Unparseable
from harness.records import Instance, Origin, Reply, Request, Score, encodable
from harness.testing.plugin_check import HOSTILE_TEXTS, WRONG, PlugInCheck


def check_checker(
    checker: ports.Checker,
    *,
    passes: Sequence[str] = (),
    fails: Sequence[str] = (),
    instance: Instance[Any] | None = None,
) -> list[str]:
    """Return a checker's problems, found with hostile texts, and with texts whose verdict is known.

    Args:
        instance: The instance that all texts answer.
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
        if (score := check.call("check", text, instance, where=where)) is not None:
            scores[text] = score
    for text, score in reversed(scores.items()) if fresh else ():
        with check.calling("check"):
            if fresh.check(text, instance) != score:
                check.add("check", "gives another score after other texts: it must keep no state.")
    for text, score in scores.items():
        if text in (*passes, *fails) and score.passed != (text in passes):
            must = "pass" if text in passes else "fail"
            check.add("check", f"has passed={score.passed} for {text[:60]!r}, which must {must}.")
    for wanted, given in ((True, "passes"), (False, "fails")):
        if scores and all(score.passed is not wanted for score in scores.values()):
            check.add("check", f"{given} none of the texts tried: add one with {given}=[…].")
    return check.sentences()


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
        instance: An instance that the judge scores.
        text: An answer to the instance; not empty.
        replies: Possible replies of a model, each with the expected values of the scores by name,
            or with one value that at least one score must have; None for a reply without a verdict,
            such as "Perhaps." A key is one reply to every question, or a tuple with one for each.
            By default the judge is tried with its `simulated` replies, yes, no, and numbers.
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
    for other in (*map(encodable, HOSTILE_TEXTS), WRONG):  # the last call must not affect parse
        check.call("questions", instance, other, where=f" for the text {other[:20]!r}")
    more = {"text": text} if "text" in inspect.signature(judge.parse).parameters else {}

    def parsed(said: str | Sequence[str], first: str | None = None) -> Mapping[str, Score]:
        each = [said] * len(asked) if isinstance(said, str) else said
        drawn = [one for one, q in zip(each, asked, strict=True) for _ in range(q.samples)]
        drawn[:1] = drawn[:1] if first is None else [first]
        sent = [Reply(one, "stop") for one in drawn]
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
        found = {name: score.value for name, score in parsed(said).items()}
        if value is None:
            if found and None not in found.values():
                problem = f"scores {said!r:.60}: raise Unparseable or return Score(None)."
                check.add("parse", problem)
        elif isinstance(value, Mapping) and found != value:
            problem = f"gives {found or 'no scores'} for the reply {said!r:.60}"
            check.add("parse", f"{problem}, not {dict(value)}.")
        elif not isinstance(value, Mapping) and value not in found.values():
            check.add("parse", f"gives no score of {value!r} for the reply {said!r:.60}.")
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
    several = len(asked) == 1 and asked[0].samples > 1
    pairs = [(a, b) for a in read for b in read if several and read[a] != read[b]]
    if pairs and all(parsed(b, first=a[0]) == read[a] for a, b in pairs):
        check.add("parse", "reads only the first of a question's samples.")
    for said, before in [*read.items()][:1]:
        check.call("questions", instance, "")
        if parsed(said) != before:
            problem = "depends on the last text that questions was called with: keep no state."
            check.add("parse", problem)
    if len(asked) > 1:
        _abstentions(check, parsed, list(read))
    return check.sentences()


def _abstentions(
    check: PlugInCheck,
    parsed: Callable[[Sequence[str]], Mapping[str, Score]],
    read: Sequence[tuple[str, ...]],
) -> None:
    """Detect a judge that treats an empty reply to one of several questions as an answer.

    Reported if an empty reply always gives the same scores as one particular answer, while another
    answer gives different ones. If a judge averages the answered questions, this is not always so.
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
