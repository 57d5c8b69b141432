"""FollowBench's judge: decides which of an instruction's added constraints an answer satisfies.

Jiang et al. 2024 (arXiv 2310.20410), section 3.2. The prompts in ``prompts/followbench/`` are the
published prompts, byte for byte.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from typing_extensions import override

from harness.errors import ConfigError, Unparseable
from harness.plugins.benchmarks.followbench.task import FollowBenchTask
from harness.ports import Task
from harness.records import Instance, Question, Reply, Request, Score
from harness.scoring.conclusions import (
    has_other_answer,
    is_quoted,
    is_reconsidered,
    is_sample,
)
from harness.scoring.judges import PublishedJudge
from harness.scoring.quotations import replace_quotations

RULE = "rule"
"""Key of a rule's verdict in a score's details, if the judge was asked in addition to the rule."""


class FollowBenchJudge(PublishedJudge):
    """Asks which of an instruction's added constraints an answer satisfies.

    Args:
        parser: How replies are read: ``safe``, or ``official``, which agrees with the authors' code
            but executes nothing (their code evaluates replies as Python).
        rules: For answers that a rule decides: ``skip`` does not ask the judge; ``beside`` asks it
            as well. The rule still decides; ``harness judge validate --against rules`` compares the
            two.
        max_tokens: Maximum tokens of a reply.
    """

    folder = "followbench"

    def __init__(
        self,
        parser: Literal["safe", "official"] = "safe",
        rules: Literal["skip", "beside"] = "skip",
        max_tokens: int = 1024,
        *,
        task: Task[Any],
    ) -> None:
        if not isinstance(task, FollowBenchTask):
            raise ConfigError(
                "The task does not say how its instructions evolved.",
                "Use this judge with the task followbench, and others with other judges.",
            )
        super().__init__(max_tokens)
        self._task = task
        self._beside = rules == "beside"
        self._official = parser == "official"

    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        """Return the question on an answer, or none if a rule alone decides or no prompt fits."""
        evolution = instance.data.evolution
        name = f"{instance.data.category}_level{len(evolution) - 1}"
        by_rule = self._task.rule_verdict(instance, "") is not None
        if name not in self.prompts or (by_rule and not self._beside):
            return []
        fields = {"answer": text}
        for level, instruction in enumerate(evolution):
            fields[f"instruction_level_{level}"] = instruction
        return [Question((self.message(name, fields),), self.decoding)]

    def parse(
        self, instance: Instance[Any], replies: Sequence[Reply], *, text: str | None = None
    ) -> Mapping[str, Score]:
        """Return the scores ``hard`` and ``soft``, or {} if the judge was not asked.

        ``hard`` says whether all constraints are met, and ``soft`` is the share of constraints that
        are met. If a rule decides on the answer (``text``), ``hard`` has no verdict and ``soft`` is
        omitted, and an unclear reply has no scores.

        Raises:
            Unparseable: If the judge decides and the reply is unclear.
        """
        if not replies:
            return {}
        level = len(instance.data.evolution) - 1
        rule = self._task.rule_verdict(instance, text or "")
        met = self._read(replies[0], level)
        if met is None:
            if rule is not None:
                return {}
            raise Unparseable(f"The reply does not end in a list of {level} items, each YES or NO.")
        hard = all(met)
        if rule is not None:  # the rule decides
            constraint = {"constraint": f"all {level}", "passed": hard, RULE: rule}
            return {"hard": Score(hard, None, "", {"constraints": [constraint]})}
        constraints = []
        wrong = []
        for number, passed in enumerate(met, start=1):
            constraints.append({"constraint": f"constraint {number}", "passed": passed})
            if not passed:
                wrong.append(str(number))
        reason = ""
        if wrong:
            added = f"of the {level} constraints added in turn"
            reason = f"Not satisfied: {added}, {', '.join(wrong)}."
        return {
            "hard": Score(hard, hard, reason, {"constraints": constraints}),
            "soft": Score(sum(met) / level, share=True),
        }

    @override
    def simulated(self, request: Request) -> str:
        """Return a reply with the verdict YES for all constraints."""
        return str(["YES"] * int(_ASKED_FOR.findall(request.messages[-1].content)[-1]))

    def _read(self, reply: Reply, level: int) -> list[bool] | None:
        if self._official:
            return official_verdicts(reply.text, level)
        if reply.is_truncated:  # the list is at the end
            return None
        return verdicts(reply.text, level)


_ASKED_FOR = re.compile(r"output a Python LIST with (\d) element")

NOT_SATISFIED = ("NO", "PARTIAL", "MAYBE", "UNKNOWN", "N/A")
"""The words that count as no, in the authors' code and here."""
LONGEST_LINE = 2_000  # maximum characters of a line that can be a list of verdicts

_LIST = re.compile(r"[\[(]([^\[\]()]*)[\])]")
_OPEN_LIST = re.compile(r"\[\s*['\"]?(?:YES|NO)\b[^\]]*\Z", re.IGNORECASE)
_OTHER_LIST = re.compile(r"(?:^|:)[\s*_`]*\[[^\[\]]*\][\s*_`.]*$", re.MULTILINE)
_AROUND = " \t\r\n'\"`*_.\u2018\u2019\u201c\u201d\u2026"  # with curly quotes


def verdicts(reply: str, level: int) -> list[bool] | None:
    """Return a verdict for each of ``level`` constraints, or None if the reply is unclear.

    The last list of verdicts counts, regardless of quotes around its words, case, line breaks, and
    text after it, unless a list of other words follows. Lists that the reply quotes do not count.
    For a single constraint, a last line of only YES or NO also counts.

    >>> verdicts("So:\\n```\\n['YES', 'no']\\n```\\nI hope this helps.", 2)
    [True, False]
    >>> verdicts("['YES', 'NO'] and ['YES', 'YES']", 2) is None
    True
    """
    end = replace_quotations(reply)[-LONGEST_LINE:]
    lists = [match for match in _LIST.finditer(end) if _is_list(match[1])]
    lines = [line for line in end.splitlines() if line.strip(_AROUND)]
    last_line = _words(lines[-1]) if lines and level == 1 else None
    if last_line is not None:
        return last_line if len(last_line) == 1 else None
    if not lists:
        return None
    last_list = lists[-1]
    start = last_list.start()
    stop = last_list.end()
    last = _words(last_list[1])
    if is_sample(end, start) or is_quoted(end, start):
        return None
    if is_reconsidered(end, stop) or has_other_answer(end, stop, ""):
        return None
    if _OTHER_LIST.search(end, stop) or _OPEN_LIST.search(end, stop):
        return None
    if last is None or len(last) != level:
        return None
    line_start = end.rfind("\n", 0, start) + 1
    for match in lists:
        if match.start() >= line_start and _words(match[1]) != last:
            return None
    return last


def _is_list(text: str) -> bool:
    """Return whether some of the comma-separated words are verdicts."""
    return any(_words(word) for word in text.split(","))


def _words(text: str) -> list[bool] | None:
    """Return the verdicts named by comma-separated words, or None if any is not a verdict."""
    words = [word.strip(_AROUND).upper() for word in text.split(",")]
    if len(words) > 1 and not words[-1]:
        words.pop()  # a comma at the end
    return _decided(words)


def _decided(words: Sequence[Any]) -> list[bool] | None:
    if all(word == "YES" or word in NOT_SATISFIED for word in words):
        return [word == "YES" for word in words]
    return None


def official_verdicts(reply: str, level: int) -> list[bool] | None:
    """Return the ``level`` verdicts that the authors' parser reads in a reply, or None if it fails.

    For one constraint, YES anywhere on the last line counts, even in NOT YES. The authors' code
    evaluates the reply as Python; here, it is only parsed.
    """
    line = reply.strip("```").strip().split("\n")[-1]  # noqa: B005 (as the authors write it)
    if level == 1:
        if "YES" in line:
            return [True]
        return [False] if "NO" in line else None
    start = line.find("[")
    end = line.rfind("]") + 1
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
    return _decided(words)


def _value(node: ast.expr) -> Any:
    """Return the value of an expression of texts, lists and logic. Raise ValueError for others."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.List(elts=parts):
            return [_value(part) for part in parts]
        case ast.Tuple(elts=parts):
            return tuple(_value(part) for part in parts)
        case ast.BoolOp(op=operator, values=parts):
            # For `or`, the first true value; for `and`, the first false one; if none, the last.
            decides = isinstance(operator, ast.Or)
            values = [_value(part) for part in parts]
            for value in values:
                if bool(value) is decides:
                    return value
            return values[-1]
        case ast.IfExp(test=test, body=body, orelse=other):
            if _value(test):
                return _value(body)
            return _value(other)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first = _value(left)
            second = _value(right)
            if isinstance(first, str) and isinstance(second, str):
                return first + second
    raise ValueError("not an expression of texts and lists")
