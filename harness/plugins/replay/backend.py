"""Replays recorded generations instead of calling a model.

A row of the recording has ``prompt`` or ``instance`` or both, an optional ``sample`` (from 0), and
``rounds``: a list of ``{"text": …}`` with optional ``finish_reason`` and ``usage``. Recordings in
another format have one answer per row (docs/run-files.md).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Literal

import msgspec

from harness.errors import ConfigError, DataInvalid, ReplayMissing, RequestRejected, suggest_name
from harness.ports import CONSTRAINTS, DECODING_PARAMETERS, Backend
from harness.records import Reply, Request, Usage


class _Round(msgspec.Struct):
    text: str
    finish_reason: str | None = None  # None: stop
    usage: Usage | None = None


class _Row(msgspec.Struct):
    rounds: list[_Round]
    prompt: str | None = None
    instance: str | int | None = None
    sample: int = 0


COLUMNS = ("prompt", "instance", "sample", "text", "finish_reason")  # keys of the option columns


class ReplayBackend(Backend):
    """A backend that replays recorded answers.

    Args:
        path: The recording, in the data folder or as a path.
        match: ``prompt`` finds rows by the last user message of round 1, if necessary ignoring
            surrounding white space. ``instance`` finds rows by the instance's id, for recordings in
            which instances share a prompt but not the answer.
        columns: For a recording in another format, the sources of prompt, instance, sample, text
            and finish_reason. Each is a column's name, or a template that contains the {names} of
            columns.
        where: Use only rows with these values in their columns. A list allows any of its values.
        missing: With ``error``, a prompt without a recorded answer is a failed call, which has no
            score. By default, it ends the run.
    """

    cacheable = False
    endpoint = ""

    def __init__(
        self,
        path: str,
        match: Literal["prompt", "instance"] = "prompt",
        columns: dict[str, str] | None = None,
        where: dict[str, Any] | None = None,
        missing: Literal["error"] | None = None,
        *,
        read: Callable[[str], Iterable[Mapping[str, Any]]],
    ) -> None:
        self.features = DECODING_PARAMETERS | CONSTRAINTS | {"conversation", "recorded"}
        if match == "instance":
            self.features |= {"by_instance"}
        self._path = path
        self._match = match
        self._missing = missing
        for name in columns or {}:
            if name not in COLUMNS:
                raise ConfigError(
                    f"model.columns: there is no {name!r}.", suggest_name(name, COLUMNS)
                )
        self._columns = columns
        self._where: dict[str, list[Any]] = {}
        for name, value in (where or {}).items():
            self._where[name] = value if isinstance(value, list) else [value]
        self._rows = read(path)

    @cached_property
    def _recorded(self) -> dict[tuple[str, int], list[_Round]]:
        recorded: dict[tuple[str, int], list[_Round]] = {}
        columns: set[str] = set()
        for number, raw in enumerate(self._rows, start=1):
            place = f"{self._path}, row {number}"
            if isinstance(raw, Mapping):
                columns |= raw.keys()
                if not all(name in raw and raw[name] in self._where[name] for name in self._where):
                    continue
            try:
                form = self._in_our_form(raw, place)
                sample = form.get("sample") if isinstance(form, Mapping) else None
                if isinstance(sample, str):  # in a table
                    form = {**form, "sample": msgspec.convert(sample, int, strict=False)}
                row = msgspec.convert(form, _Row)
            except msgspec.ValidationError as error:
                raise DataInvalid(f"{place}: {error}.") from None
            name = row.prompt if self._match == "prompt" else row.instance
            if isinstance(name, int):  # as the ids of rows that have none
                name = str(name)
            if name is None:
                remedy = "Set model.match to the key that the rows have: prompt or instance."
                raise DataInvalid(f"{place} has no {self._match!r} to match on.", remedy)
            if recorded.setdefault((name, row.sample), row.rounds) != row.rounds:
                same = f"the same {self._match} {name[:80]!r} and sample {row.sample}"
                alternative = ", or set model.match to instance" if self._match == "prompt" else ""
                remedy = f"Number the rows by 'sample'{alternative}."
                raise DataInvalid(f"{place} contradicts an earlier row with {same}.", remedy)
        for name in self._where:
            if name not in columns:
                problem = f"{self._path} has no column {name!r}, which model.where names."
                raise DataInvalid(problem, suggest_name(name, columns))
        if self._where and not recorded:
            remedy = "Check the types of its values: 0 and '0' differ."
            raise DataInvalid(f"No row of {self._path} matches model.where.", remedy)
        return recorded

    @cached_property
    def _stripped(self) -> dict[tuple[str, int], list[_Round]]:
        rows = reversed(self._recorded.items())
        return {(name.strip(), sample): rounds for (name, sample), rounds in rows}

    def _in_our_form(self, raw: Mapping[str, Any], place: str) -> Mapping[str, Any]:
        if self._columns is None:
            return raw

        def value(column: str) -> Any:
            if column not in raw:
                raise DataInvalid(f"{place} has no column {column!r}.", suggest_name(column, raw))
            return raw[column]

        row = {}
        for name, source in self._columns.items():
            if "{" in source:
                row[name] = re.sub(r"\{(\w+)\}", lambda match: str(value(match[1])), source)
            else:
                row[name] = value(source)
        answer = {name: row.pop(name) for name in ("text", "finish_reason") if name in row}
        return {**row, "rounds": [answer]}

    async def generate(self, request: Request) -> Reply:
        """Return the recorded answer for the request's sample and round.

        Raises:
            RequestRejected: If there is none, and ``missing`` is ``error``.
            ReplayMissing: If there is none, and ``missing`` is None.
        """
        origin = request.origin
        # Each later round adds one user message.
        turns = [message.content for message in request.messages if message.role == "user"]
        prompt = turns[-origin.round] if len(turns) >= origin.round else ""
        name = prompt if self._match == "prompt" else origin.instance
        exact = self._recorded.get((name, origin.sample))
        rounds = exact or self._stripped.get((name.strip(), origin.sample), [])
        if len(rounds) < origin.round:
            which = f"instance {origin.instance!r}, sample {origin.sample}, round {origin.round}"
            begins = f"whose prompt begins: {prompt[:80]!r}"
            remedy = "Check that the recording belongs to this task and prompt, and samples and "
            remedy += "rounds.max in the run file"
            remedy += "." if self._missing else "; or set model.missing to error."
            error = RequestRejected if self._missing else ReplayMissing
            raise error(f"{self._path} has no answer for {which}, {begins}.", remedy)
        answer = rounds[origin.round - 1]
        return Reply(answer.text, answer.finish_reason or "stop", answer.usage, request.model)
