"""Checks tasks: their instances, prompts, scoring and references."""

from __future__ import annotations

import contextlib
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import msgspec

from harness import ports
from harness.errors import ConfigError, Unparseable
from harness.records import Instance, Score, verdict
from harness.testing.plugin_check import HOSTILE_TEXTS, WRONG, PlugInCheck, misfit


def check_task(
    task: ports.Task[Any],
    *,
    answers: Mapping[str, Mapping[str, bool | None]] | None = None,
    other: Callable[[], ports.Task[Any]] | None = None,
    limit: int = 100,
) -> list[str]:
    """Return the problems in a task's members, instances, prompts, scoring and references.

    Args:
        answers: Expected verdicts by instance id and answer; None if it must be `Unparseable`.
        other: A function that changes the task's data in place and builds the task again, which
            must change the fingerprint; called last.
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
    for instance in instances:  # all prompts first, to detect a task that keeps only the last
        asked = check.call("messages", instance, (), where=f" for {instance.id!r}")
        prompts.append(asked)
        if asked is not None:
            last = asked[-1] if asked else None
            if last is None or last.role != "user" or not last.content.strip():
                check.add("messages", "does not end with a non-empty user message.")
        for member in ("instruction", "must_keep"):
            check.optional(member, instance)
        check.optional("leaks", instance, instance)
        if check.optional("criteria", instance) in ([], ()):
            without.append(instance)
    references = [_scoring(check, instance) for instance in instances]
    known = answers or {}
    _known_answers(check, {one.id: one for one in instances}, known)
    for name in (one.id for one in without if _scored(check, one, WRONG) == {}):
        check.add("criteria", f"is empty for {name!r}, and so is score: nothing decides.")
    verdicts = [value for known_of_one in known.values() for value in known_of_one.values()]
    if instances and False not in verdicts and all(_passes(check, i, WRONG) for i in instances):
        check.add("score", f"lets the wrong answer {WRONG!r} pass for every instance.")
    if len({*references} - {None}) > 1 and all(prompt == prompts[0] for prompt in prompts):
        problem = "returns the same prompt for every instance, but the references differ."
        check.add("messages", problem)
    judged = isinstance(task, ports.Judged) or True in verdicts
    if instances and references == [None] * len(references) and not judged:
        problem = "returns None for every instance: give an answer that passes in answers=."
        check.add("reference", problem)
    if other is not None and other().fingerprint() == fingerprint:
        check.add("fingerprint", "is the same after the data changed.")
    return check.sentences()


def _known_answers(
    check: PlugInCheck,
    instances: Mapping[str, Instance[Any]],
    answers: Mapping[str, Mapping[str, bool | None]],
) -> None:
    """Add a problem for each answer (by instance id) whose verdict is not the expected one."""
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
        elif _ids_elsewhere(task, limit) not in (None, ids):
            problem = "yields other ids, or another order, in another process: is a set iterated?"
            check.add("instances", problem)
        return instances
    return []


def _ids_elsewhere(task: ports.Task[Any], limit: int) -> list[str] | None:
    """Return the instances' ids in another process; None if the task cannot be pickled or run."""
    # Python orders sets of texts differently in each process.
    code = (
        "import itertools, json, pickle, sys; sys.path[:] = json.loads(sys.argv[1]);"
        "task = pickle.load(sys.stdin.buffer);"
        f"print(json.dumps([one.id for one in itertools.islice(task.instances(), {limit})]))"
    )
    command = [sys.executable, "-I", "-c", code, json.dumps(sys.path)]
    try:
        done = subprocess.run(  # noqa: S603 (this Python)
            command, input=pickle.dumps(task), capture_output=True, check=True
        )
        return msgspec.json.decode(done.stdout, type=list[str])
    except (pickle.PicklingError, TypeError, AttributeError, subprocess.CalledProcessError):
        return None


def _scoring(check: PlugInCheck, instance: Instance[Any]) -> str | None:
    """Check the scores of good, wrong and hostile answers; return the reference, if any."""
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
    constrained = check.has("constraint_kind")
    if constrained and (constraint := check.optional("constraint", instance)) is not None:
        with check.calling("constraint"):
            if constraint.kind != check.plugin.constraint_kind:
                check.add("constraint", f"is of kind {constraint.kind!r}, unlike constraint_kind.")
            pattern = constraint.regex or "|".join(map(re.escape, constraint.choices))
            if reference is not None and pattern and not re.fullmatch(pattern, reference):
                check.add("constraint", f"does not allow the reference {reference[:60]!r}.")
    wrong = check.optional("wrong_answer", instance)
    extreme = [re.sub(r"\d+(?!.*\d)", one, reference or "") for one in ("nan", "1e999")]
    for text in (wrong or "", *extreme, *HOSTILE_TEXTS):
        if _passes(check, instance, text) and text == wrong:
            check.add("wrong_answer", f"returns {text[:60]!r}{named}, which passes.")
    unanswered = check.optional("score_of_no_answer", instance)
    if unanswered and verdict(unanswered) is True:
        check.add("score_of_no_answer", "lets an answer with nothing to grade pass.")
    with contextlib.suppress(Unparseable):
        check.optional("score_parsed", instance, reference or "")
    return reference


def _passes(check: PlugInCheck, instance: Instance[Any], text: str) -> bool:
    return verdict(_scored(check, instance, text) or {}) is True


def _scored(check: PlugInCheck, instance: Instance[Any], text: str) -> Mapping[str, Score] | None:
    """Return an answer's scores; empty if they are invalid, None if the answer is unparseable."""
    scores: Mapping[str, Score] | None
    try:
        scores = check.call("score", instance, text, where=f" for the text {text[:20]!r}")
    except Unparseable:
        return None
    said = None if scores is None else check.call("feedback", instance, text, scores)
    if said == "" and verdict(scores or {}) is False:
        check.add("feedback", "is empty for an answer that fails.")
    return scores or {}
