"""FollowBench's judge: which of the constraints, added one by one, an answer satisfies.

Jiang et al. 2024 (arXiv 2310.20410), section 3.2. The prompts (``prompts/followbench/``) are the
published ones, byte for byte: they show how the instruction evolved, and ask for a list of YES and
NO in the last line.

    judges: [{name: followbench, model: {backend: openai, name: gpt-4o-mini}}]
"""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

from harness.errors import ConfigError, Unparseable
from harness.ports import Task
from harness.prompts import Template, named, read
from harness.records import Decoding, Instance, Message, Question, Reply, Request, Score

FOLDER = "followbench"
RULE = "rule"
"""The group label for the source of a rule, and the constraint's key for the rule's verdict."""


@runtime_checkable
class Evolving(Protocol):
    """A task whose instructions gain one constraint per level."""

    def category(self, instance: Instance[Any]) -> str:
        """Return the kind of the constraints."""

    def evolution(self, instance: Instance[Any]) -> Sequence[str]:
        """Return the instructions of level 0 up to the instance's level."""

    def rule_verdict(self, instance: Instance[Any], text: str) -> bool | None:
        """Return whether an answer keeps the instance's rule; None if a judge decides."""


class FollowBenchJudge:
    """Asks which of an instruction's added constraints an answer satisfies.

    Args:
        parser: How replies are read: ``safe``, or ``official`` (as the authors' code does, except
            that nothing is evaluated).
        rules: For answers that a rule decides: ``skip`` them, or judge them ``beside`` the rule,
            which still decides, for ``harness judge validate --against rules``.
        max_tokens: Maximum tokens of a reply.
    """

    verdicts = True

    def __init__(
        self,
        parser: Literal["safe", "official"] = "safe",
        rules: Literal["skip", "beside"] = "skip",
        max_tokens: int = 1024,
        *,
        task: Task[Any],
    ) -> None:
        if not isinstance(task, Evolving):
            raise ConfigError(
                "The task does not say how its instructions evolved.",
                "Use this judge with the task followbench, and others with other judges.",
            )
        if max_tokens < 1:
            raise ConfigError("max_tokens must be 1 or more.")
        self._task, self._beside = task, rules == "beside"
        self._official = parser == "official"
        self._decoding = Decoding(0.0, max_tokens)

    @cached_property
    def _prompts(self) -> Mapping[str, Template]:
        return {name: read(name) for name in named(FOLDER)}

    def fingerprint(self) -> Mapping[str, str]:
        """Return a hash of all prompts, by name."""
        every = "".join(prompt.sha256 for prompt in self._prompts.values())
        return {"prompts_sha256": hashlib.sha256(every.encode()).hexdigest()}

    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        """Return the question about an answer; empty if a rule decides alone."""
        name = self._prompt_name(instance)
        if name not in self._prompts or not (self._beside or not self._by_rule(instance)):
            return []
        fields = {
            f"instruction_level_{level}": instruction
            for level, instruction in enumerate(self._task.evolution(instance))
        }
        asked = self._prompts[name].render({**fields, "answer": text})
        return [Question((Message("user", asked),), self._decoding)]

    def parse(
        self, instance: Instance[Any], replies: Sequence[Reply], *, text: str | None = None
    ) -> Mapping[str, Score]:
        """Return ``hard`` and ``soft``: whether all constraints are satisfied, and which share.

        Where a rule decides, ``hard`` has no verdict, and there is no ``soft``.
        """
        if not replies:
            return {}
        level = len(self._task.evolution(instance)) - 1
        rule = self._task.rule_verdict(instance, text or "")
        found = self._read(replies[0], level)
        if found is None:
            if rule is not None:
                return {}
            raise Unparseable(f"The reply does not end in a list of {level} times YES or NO.")
        hard, soft = all(found), sum(found) / level
        if rule is not None:
            whole = {"constraint": f"all {level}", "passed": hard, RULE: rule}
            return {"hard": Score(hard, None, "", {"constraints": [whole]})}
        wrong = [number for number, passed in enumerate(found, start=1) if not passed]
        listed = ", ".join(map(str, wrong))
        reason = f"Not satisfied: of the {level} constraints added in turn, {listed}."
        constraints = [
            {"constraint": f"constraint {number}", "passed": passed}
            for number, passed in enumerate(found, start=1)
        ]
        details = {"constraints": constraints}
        return {"hard": Score(hard, hard, reason * (not hard), details), "soft": Score(soft)}

    def simulated(self, request: Request) -> str:
        """Return that all constraints are satisfied."""
        return str(["YES"] * int(_ASKED_FOR.findall(request.messages[-1].content)[-1]))

    def _read(self, reply: Reply, level: int) -> list[bool] | None:
        if self._official:
            return official_verdicts(reply.text, level)
        cut_off = reply.finish_reason == "length"  # before the list at the end
        return None if cut_off else verdicts(reply.text, level)

    def _prompt_name(self, instance: Instance[Any]) -> str:
        level = len(self._task.evolution(instance)) - 1
        return f"{FOLDER}/{self._task.category(instance)}_level{level}"

    def _by_rule(self, instance: Instance[Any]) -> bool:
        return self._task.rule_verdict(instance, "") is not None


_ASKED_FOR = re.compile(r"output a Python LIST with (\d) element")

NOT_SATISFIED = ("NO", "PARTIAL", "MAYBE", "UNKNOWN", "N/A")
"""The words that count as no, in the authors' code and here."""
LONGEST_LINE = 2_000
"""Maximum characters of a line that can be a list of verdicts."""

_LIST = re.compile(r"[\[(]([^\[\]()]*)[\])]")
_AROUND = " \t\r\n'\"`*_.\u2018\u2019\u201c\u201d"  # with curly quotes


def verdicts(reply: str, level: int) -> list[bool] | None:
    """Return which of the `level` constraints a reply calls satisfied; None if it is unclear.

    The last list in the reply counts, whatever its quotes and letters' case, wherever its line
    breaks, and whatever follows it. Words other than YES and `NOT_SATISFIED`, lists of another
    length, and two lists in one line that contradict each other are unclear. For one constraint, a
    last line of YES or NO alone is read, too.

    >>> verdicts("So:\\n```\\n['YES', 'no']\\n```\\nI hope this helps.", 2)
    [True, False]
    >>> verdicts("['YES', 'NO'] and ['YES', 'YES']", 2) is None
    True
    """
    end = reply[-LONGEST_LINE:]
    lists = [(found.span(), read) for found in _LIST.finditer(end) if (read := _words(found[1]))]
    if not lists:
        return _one_word(end) if level == 1 else None
    (start, _), last = lists[-1]
    line = end.rfind("\n", 0, start) + 1
    same_line = [read for (begin, _), read in lists if begin >= line]
    contradicts = any(read != last for read in same_line)
    return None if contradicts or len(last) != level else last


def _one_word(text: str) -> list[bool] | None:
    lines = [line for line in text.splitlines() if line.strip(_AROUND)]
    return _words(lines[-1]) if lines else None


def _words(text: str) -> list[bool] | None:
    """Return the verdicts in words with commas between them; None if a word is none."""
    words = [word.strip(_AROUND).upper() for word in text.split(",")]
    if len(words) > 1 and not words[-1]:
        words.pop()  # a comma at the end
    known = all(word == "YES" or word in NOT_SATISFIED for word in words)
    return [word == "YES" for word in words] if known else None


def official_verdicts(reply: str, level: int) -> list[bool] | None:
    """Return what the authors' parser reads in a reply; None where it cannot read it.

    For one constraint, YES anywhere in the last line counts, even in NOT YES. For several, the text
    from the first ``[`` to the last ``]`` of the last line is read as a Python expression of lists
    and texts; the authors' code evaluates it, whatever it is.
    """
    line = reply.strip("```").strip().split("\n")[-1]  # noqa: B005 (as the authors write it)
    if level == 1:
        return [True] if "YES" in line else [False] if "NO" in line else None
    start, end = line.find("["), line.rfind("]") + 1
    if start < 0 or not start < end <= start + LONGEST_LINE:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd escapes in the model's text
            words = _value(ast.parse(line[start:end], mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(words, list | tuple) or len(words) != level:
        return None
    known = all(word == "YES" or word in NOT_SATISFIED for word in words)
    return [word == "YES" for word in words] if known else None


def _value(node: ast.expr) -> Any:
    """Return the value of an expression of texts and lists; ValueError for any other."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.List(elts=parts):
            return [_value(part) for part in parts]
        case ast.Tuple(elts=parts):
            return tuple(_value(part) for part in parts)
        case ast.BoolOp(op=ast.And(), values=parts):
            values = [_value(part) for part in parts]
            return next((value for value in values if not value), values[-1])
        case ast.BoolOp(op=ast.Or(), values=parts):
            values = [_value(part) for part in parts]
            return next(filter(None, values), values[-1])
        case ast.IfExp(test=test, body=body, orelse=other):
            return _value(body) if _value(test) else _value(other)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = _value(left), _value(right)
            if isinstance(first, str) and isinstance(second, str):
                return first + second
    raise ValueError("not an expression of texts and lists")


plugin = FollowBenchJudge
