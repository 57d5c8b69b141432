"""A line of lm-eval's samples: which document it is of, its metrics, its prompt and its answer.

Reads today's form and the older one, in which ``arguments`` is a list.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.exchange.foreign_json import invalid, mapping, number, sequence, text
from harness.exchange.lm_eval_export import SIMULATED
from harness.exchange.verdicts import Found
from harness.records import Message, encodable

NOT_METRICS = frozenset(
    {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}
    | {"doc_hash", "prompt_hash", "target_hash"}
)
SAMPLE = re.compile(r"sample-(\d{1,9})")
"""The filter of one of k samples, in what the harness has exported."""


class Line:
    """A line.

    doc_id, doc_hash: of the document. sample: which of k. filter: which reading of the answer;
        empty where there is one.

    Raises: DataInvalid where it is none of lm-eval's.
    """

    def __init__(self, tree: Mapping[str, Any], where: str) -> None:
        self._tree = tree
        self._where = where
        doc_id = tree.get("doc_id")
        if not isinstance(doc_id, str | int) or isinstance(doc_id, bool) or not str(doc_id):
            raise invalid(where, "not a sample of lm-eval: it has no doc_id")
        if not isinstance(tree.get("resps"), list):
            raise invalid(where, "not a sample of lm-eval: it has no resps")
        self.doc_id = encodable(str(doc_id))
        asked = json.dumps([tree.get("doc"), tree.get("target")], default=str)
        told = f"{tree.get('doc_hash')}/{tree.get('target_hash')}"
        known = isinstance(tree.get("doc_hash"), str)
        self.doc_hash = hashlib.sha256((told if known else asked).encode()).hexdigest()
        self.filter = encodable(text(tree.get("filter")))
        sampled = SAMPLE.fullmatch(self.filter)
        self.sample = int(sampled[1]) if sampled else 0
        if sampled or self.filter == "none":
            self.filter = ""

    @property
    def simulated(self) -> bool:
        """Whether the harness has exported it of a run whose answers are made up."""
        return mapping(self._tree.get("doc")).get(SIMULATED) is True

    def metrics(self) -> Iterator[tuple[str, Found]]:
        """The metrics by name; what is no number is a score that could not be made."""
        named = self._tree.get("metrics")
        names = (
            [str(name) for name in named]
            if isinstance(named, list)
            else [key for key in self._tree if key not in NOT_METRICS]
        )
        for name in names:
            if name in self._tree and name not in NOT_METRICS:
                yield encodable(name), self._found(self._tree[name])

    def messages(self) -> tuple[Message, ...]:
        """What was asked."""
        arguments = self._arguments()
        asked = arguments[0][0] if arguments and arguments[0] else ""
        if isinstance(asked, list) and len(asked) == 1:  # a chat, as some versions pack it
            asked = asked[0]
        turns = asked if isinstance(asked, list) else _chat(text(asked))
        if turns is None:
            return (Message("user", encodable(text(asked))),)
        return tuple(_message(mapping(turn)) for turn in turns)

    def answer(self) -> str | None:
        """The first reply; of a choice the likeliest one; None where nothing was written."""
        replies = sequence(self._tree["resps"])
        first = replies[0] if replies else None
        while isinstance(first, list) and first and not _is_likelihood(first):
            first = first[0]
        if isinstance(first, str):
            return encodable(first)
        likelihoods = [_likelihood(reply) for reply in sequence(self._tree.get("filtered_resps"))]
        arguments = self._arguments()
        if len(likelihoods) != len(arguments) or len(arguments) < 2:
            return None
        best = max(range(len(likelihoods)), key=likelihoods.__getitem__)
        chosen = arguments[best][1] if len(arguments[best]) > 1 else None
        return encodable(chosen) if isinstance(chosen, str) else None

    def options(self) -> dict[str, Any]:
        """What the model was asked with, beside the prompt."""
        arguments = self._arguments()
        second = arguments[0][1] if arguments and len(arguments[0]) > 1 else None
        return mapping(second)

    def _arguments(self) -> list[list[Any]]:
        """Of each request its arguments in order."""
        arguments = self._tree.get("arguments")
        if isinstance(arguments, dict):
            return [
                [value for _, value in sorted(mapping(one).items())]
                for _, one in sorted(arguments.items(), key=lambda item: _place(item[0]))
            ]
        return [sequence(one) for one in sequence(arguments)]

    def _found(self, value: Any) -> Found:
        if isinstance(value, str):  # as its JSON has numpy's values
            value = {"true": True, "false": False}.get(value.lower(), value)
            try:
                value = float(value)
            except ValueError:
                return Found(None, details={"value": encodable(value)})
        if isinstance(value, list | dict):
            return Found(None, details={"value": value})
        return Found(number(value, self._where))


def _place(name: str) -> tuple[int, str]:
    """Of ``gen_args_10``, after ``gen_args_9``."""
    digits = re.search(r"(\d{1,9})$", name)
    return (int(digits[1]) if digits else 0, name)


def _chat(asked: str) -> list[Any] | None:
    """The turns of a prompt that is a chat written as JSON."""
    if not asked.startswith('[{"') or '"role"' not in asked:
        return None
    try:
        turns = json.loads(asked)
    except (ValueError, RecursionError):
        return None
    fit = all(isinstance(turn, dict) and isinstance(turn.get("role"), str) for turn in turns)
    return turns if fit else None


def _message(turn: Mapping[str, Any]) -> Message:
    content = turn.get("content")
    if not isinstance(content, str):
        content = "\n".join(text(mapping(part).get("text")) for part in sequence(content))
    match turn.get("role"):
        case "system":
            return Message("system", encodable(content))
        case "assistant":
            return Message("assistant", encodable(content))
        case _:
            return Message("user", encodable(content))


def _is_likelihood(reply: list[Any]) -> bool:
    """Whether a reply is a log likelihood and whether it was the greedy one."""
    return len(reply) == 2 and str(reply[1]) in ("True", "False")


def _likelihood(reply: Any) -> float:
    try:
        found = float(reply[0] if isinstance(reply, list) else reply)
    except (TypeError, ValueError, IndexError):
        return float("-inf")
    return found if found == found else float("-inf")
