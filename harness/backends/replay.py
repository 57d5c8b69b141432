"""Recorded generations instead of a model.

    model: {backend: replay, name: gpt-4, path: collie/generations/gpt-4.jsonl}

A row of the recording holds ``prompt`` (or ``instance``, or both), optionally
``sample`` (from 0), and ``rounds``: a list of ``{"text": …}``, with optional
``finish_reason`` and ``usage``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Literal

import msgspec

from harness.errors import DataInvalid, ReplayMissing
from harness.ports import PARAMETERS
from harness.records import Reply, Request, Usage


class _Round(msgspec.Struct):
    text: str
    finish_reason: str = "stop"
    usage: Usage | None = None


class _Row(msgspec.Struct):
    rounds: list[_Round]
    prompt: str | None = None
    instance: str | None = None
    sample: int = 0


class ReplayBackend:
    """Answers with what was recorded; what was not recorded is an error.

    path: the recording, in the data folder or a path of its own.
    match: find rows by the first user message (``prompt``) or by the
        instance's id (``instance``), for recordings with differing answers to
        one prompt.
    read: gives the rows of a JSONL file by such a path.
    """

    cacheable = False
    endpoint = ""

    def __init__(
        self,
        path: str,
        match: Literal["prompt", "instance"] = "prompt",
        *,
        read: Callable[[str], Iterable[Mapping[str, Any]]],
    ) -> None:
        self.features = PARAMETERS | {
            "conversation",
            *(["by_instance"] if match == "instance" else []),
        }
        self._path = path
        self._match = match
        self._rows = read(path)

    @cached_property
    def _recorded(self) -> dict[tuple[str, int], list[_Round]]:
        recorded: dict[tuple[str, int], list[_Round]] = {}
        for number, raw in enumerate(self._rows, start=1):
            try:
                row = msgspec.convert(raw, _Row)
            except msgspec.ValidationError as error:
                raise DataInvalid(f"{self._path}, row {number}: {error}.") from None
            name = row.prompt if self._match == "prompt" else row.instance
            if name is None:
                raise DataInvalid(
                    f"{self._path}, row {number} has no {self._match!r} to match by.",
                    "Set model.match to the one it has: prompt or instance.",
                )
            earlier = recorded.setdefault((name, row.sample), row.rounds)
            if earlier != row.rounds:
                raise DataInvalid(
                    f"{self._path}, row {number} answers anew, and otherwise, what an earlier row "
                    f"does: {self._match} {name[:80]!r}, sample {row.sample}.",
                    "Number the rows by 'sample', or set model.match to instance."
                    if self._match == "prompt"
                    else "Number the rows by 'sample'.",
                )
        return recorded

    async def generate(self, request: Request) -> Reply:
        """The recorded answer of this sample and round.

        Raises: ReplayMissing where there is none.
        """
        prompt = next((m.content for m in request.messages if m.role == "user"), "")
        origin = request.origin
        name = prompt if self._match == "prompt" else origin.instance
        rounds = self._recorded.get((name, origin.sample), [])
        if len(rounds) < origin.round:
            raise ReplayMissing(
                f"{self._path} has no answer for instance {origin.instance!r}, sample "
                f"{origin.sample}, round {origin.round}, whose prompt begins: {prompt[:80]!r}.",
                "Check that the recording belongs to this task and prompt, and samples and "
                "rounds.max in the run file.",
            )
        found = rounds[origin.round - 1]
        return Reply(found.text, found.finish_reason, found.usage, request.model)

    async def aclose(self) -> None:
        """Nothing to give back."""


plugin = ReplayBackend
