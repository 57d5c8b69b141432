"""The report of a check, and the checks of types and shapes that all kinds of plug-in share."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from types import NoneType
from typing import Any, get_args

import msgspec

from harness import ports
from harness.errors import CallError, FailureKind, TransientError
from harness.plugins import problems
from harness.records import (
    Criterion,
    Decoding,
    DecodingConstraint,
    Instance,
    Message,
    Question,
    Reply,
    Role,
    Score,
    Usage,
)

FEATURES = {
    *ports.PARAMETERS,
    *ports.CONSTRAINTS,
    *(ports.LOGPROBS, ports.PROMPT_LOGPROBS, ports.OWN_DRAWS),
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

GUESSES = ("yes", "no", "0", "1", "3", "5", "7", "10", "A", "B", "C", "1.0", "[[A]]", "[[5]]")
"""Replies that many judges can read, for a check without `replies`."""

ATTRIBUTES: Mapping[str, type] = {
    "measure": str,
    "constraint_kind": str,
    "claims": tuple,
    "effects": tuple,
    "table": ports.PaperTable,
    "features": frozenset,
    "endpoint": str,
    "cacheable": bool,
    "ready": bool,
    "preferred_concurrency": int,
    "may_change": frozenset,
    "verdicts": bool,
    "by_criteria": bool,
}
"""Member that is no method -> its type. `harness.plugins.problems` checks ``on_truncated``."""

FIELDS: Mapping[type, Mapping[str, tuple[type, ...]]] = {
    Instance: {"id": (str,), "groups": (Mapping,), "cluster": (str, NoneType)},
    Message: {"role": (str,), "content": (str,)},
    Criterion: {"text": (str,), "groups": (Mapping,)},
    Question: {"messages": (tuple,), "decoding": (Decoding,), "samples": (int,)},
    Score: {
        "value": (bool, int, float, NoneType),
        "passed": (bool, NoneType),
        "reason": (str,),
        "details": (Mapping,),
    },
    Reply: {
        "text": (str,),
        "finish_reason": (str,),
        "usage": (Usage, NoneType),
        "model": (str, NoneType),
        "latency_s": (int, float),
        "reasoning": (str, NoneType),
    },
    Usage: dict.fromkeys(Usage.__struct_fields__, (int,)),
    DecodingConstraint: {},
}
"""Record -> the types of its fields, which Python itself does not check."""


class Report:
    """What is wrong with a plug-in: the first problem of each member."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def sentences(self) -> list[str]:
        """Return one sentence per member, which begins with the member's name."""
        return [f"{member} {problem}" for member, problem in self._found.items()]

    def add(self, member: str, problem: str) -> None:
        """Add a problem, unless the member has one already."""
        self._found.setdefault(member, problem)

    @contextlib.contextmanager
    def calling(self, member: str, where: str = "") -> Iterator[None]:
        """Report an exception of a member, so that the check continues with the others."""
        try:
            yield
        except Exception as error:
            self.add(member, f"raises {type(error).__name__}{where}: {str(error)[:200]}")

    def returns(self, member: str, value: object, *types: type) -> bool:
        """Report a value of another type; return whether it is right."""
        if right := _is(value, types):
            return right
        self.add(member, f"returns {_short(value)}, not {_names(types)}.")
        return right

    def record(self, member: str, value: object, record: type) -> bool:
        """Report a value that is no such record or has a field of another type."""
        if not self.returns(member, value, record):
            return False
        for name, types in FIELDS[record].items():
            field = getattr(value, name)
            if not _is(field, types):
                problem = f"{name} must be {_names(types)}, not {type(field).__name__}."
                self.add(member, f"returns {record.__name__}({name}={field!r:.40}): {problem}")
                return False
        return True

    def several(self, member: str, value: object, item: type, container: type = Sequence) -> bool:
        """Report a value that is not a container of such records or texts."""
        if isinstance(value, str) or not isinstance(value, container):
            self.add(member, f"returns {_short(value)}, not {_names((container,))}.")
            return False
        check = self.record if item in FIELDS else self.returns
        return all(check(member, one, item) for one in value)  # type: ignore[attr-defined]

    def unchanged(self, member: str, instance: Instance[Any], before: object) -> None:
        """Report an instance that differs from the copy made before a call."""
        if before is not None and before != instance:
            self.add(member, "changes the instance that it is given.")


def _is(value: object, types: tuple[type, ...]) -> bool:
    """Whether a value has one of the types; a number has it exactly, unlike numpy's."""
    inexact = tuple(one for one in types if one not in (bool, int, float))
    return type(value) in types or isinstance(value, inexact)


def _names(types: tuple[type, ...]) -> str:
    names = {NoneType: "None"} | {one: f"a harness.records.{one.__name__}" for one in FIELDS}
    return " or ".join(names.get(one, one.__name__) for one in types)


def _short(value: object) -> str:
    return "None" if value is None else f"{value!r:.40} ({type(value).__name__})"


def is_text(mapping: Mapping[Any, Any]) -> bool:
    """Return whether all keys and values are text."""
    return all(isinstance(part, str) for pair in mapping.items() for part in pair)


def copied(instance: Instance[Any]) -> object:
    """Return a copy to compare with later; None if the data cannot be copied or compared."""
    try:
        copy = deepcopy(instance)
        return copy if copy == instance else None
    except Exception:
        return None


def shape(kind: str, plugin: object) -> list[str]:
    """Return members that are missing or misspelt, or of the wrong type or parameters."""
    report, found = Report(), problems(kind, plugin)
    for protocol in ports.CAPABILITIES[kind]:
        for name, declared in vars(protocol).items():
            with report.calling(name):  # a property may raise
                if name.startswith("_") or not hasattr(plugin, name):
                    continue
                member = getattr(plugin, name)
                if name in ATTRIBUTES and not _is(member, (ATTRIBUTES[name],)):
                    report.add(name, f"is {_short(member)}, not {_names((ATTRIBUTES[name],))}.")
                elif inspect.isfunction(declared) and not callable(member):
                    report.add(name, f"is {_short(member)}, not a method.")
                elif inspect.isfunction(declared):
                    _parameters(report, name, declared, member)
    return found + report.sentences()


def _parameters(
    report: Report, name: str, declared: Callable[..., Any], method: Callable[..., Any]
) -> None:
    wanted = list(inspect.signature(declared).parameters)[1:]
    with contextlib.suppress(ValueError):  # no signature, as of an extension module
        try:
            inspect.signature(method).bind(*wanted)
        except TypeError:
            report.add(name, f"is called with the arguments ({', '.join(wanted)}).")
    if inspect.iscoroutinefunction(declared) != inspect.iscoroutinefunction(method):
        must = "must be" if inspect.iscoroutinefunction(declared) else "must not be"
        report.add(name, f"{must} an async function.")


def check_scores(report: Report, member: str, scores: object, task: object = None) -> bool:
    """Report anything but a mapping from names to valid scores.

    Args:
        report: The report.
        member: The member that returned the scores.
        scores: What it returned.
        task: The task, if its primary metric must be among them.

    Returns:
        Whether they are valid.
    """
    if not isinstance(scores, Mapping) or not scores:
        report.add(member, "does not return a mapping from names to scores.")
        return False
    if isinstance(task, ports.Measured) and task.measure not in scores:
        report.add(member, f"does not always return the primary metric {task.measure!r}.")
    return all(
        report.returns(member, name, str) and check_score(report, member, f" {name!r}", score)
        for name, score in scores.items()
    )


def check_score(report: Report, member: str, name: str, score: Any) -> bool:
    """Report an invalid score, with its name; return whether it is valid."""
    if not report.record(member, score, Score):
        return False
    problem = ""
    if score.value is not None and not math.isfinite(score.value):
        problem = "whose value is not finite: a missing value is None."
    elif score.value is None and score.passed is not None:
        problem = "with a verdict and no value."
    else:
        try:
            msgspec.json.encode(score.details)
        except Exception as error:
            problem = f"whose details cannot be stored: {str(error)[:100]}"
    if problem:
        report.add(member, f"returns a score{name} {problem}")
    return not problem


def check_conversation(report: Report, member: str, messages: object) -> bool:
    """Report anything but a tuple of messages with valid roles; return whether it is valid."""
    if not report.several(member, messages, Message, tuple):
        return False
    assert isinstance(messages, tuple)
    if messages and all(message.role in get_args(Role) for message in messages):
        return True
    report.add(member, f"needs messages with one of the roles {', '.join(get_args(Role))}.")
    return False


def check_error(report: Report, error: BaseException) -> None:
    """Report an exception of `generate` that the harness would not understand."""
    if not isinstance(error, CallError):
        problem = f"raises {type(error).__name__}, which is not a harness.errors.CallError"
        report.add("generate", f"{problem}: {str(error)[:200]}")
    elif isinstance(error, TransientError) and error.kind not in get_args(FailureKind):
        kinds = ", ".join(get_args(FailureKind))
        report.add("generate", f"raises TransientError(kind={error.kind!r}); kinds are {kinds}.")


def check_reply(report: Report, backend: ports.Backend, reply: Reply) -> bool:
    """Report a reply with missing or wrong fields; return whether it is a reply."""
    if not report.record("generate", reply, Reply):
        return False
    usage = reply.usage
    valid = usage is not None and report.record("generate", usage, Usage)
    if valid and min(getattr(usage, name) for name in FIELDS[Usage]) < 0:
        report.add("generate", f"counts a negative number of tokens: {usage}.")
    if not reply.finish_reason:
        why = "without one, a truncated answer looks complete"
        report.add("generate", f"returns no finish_reason: {why}.")
    elif usage is None and backend.cacheable and "free" not in backend.features:
        report.add("generate", "returns no usage: a paid call's cost would be unknown.")
    return True
