"""A stage's answers, in ``STAGE.calls.jsonl``: a line for each, as it came.

Lines are appended (`harness.store.json_lines.JsonLinesWriter`); of two with the same key the
later one counts.

>>> list(read_asked(Path("mine.stages/filter.calls.jsonl")))  # doctest: +SKIP
[Asked(v=1, key='…', about='chat-1', …)]
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from harness.errors import DataInvalid
from harness.records import REFUSALS, Call, Logprobs, Usage
from harness.store.json_lines import lines

CallOutcome = Literal["ok", "truncated", "refused", "empty", "error"]

ENDING = ".calls.jsonl"


class Asked(Struct, frozen=True):
    """A line of a stage's file: a question's answer, or why there is none.

    key: of the call; started_at, ended_at: seconds since the epoch.
    logprobs: of the first positions, where they were asked for; not of a reply that came after
        thinking, whose first positions may be those of the thoughts.
    """

    v: int
    key: str
    about: str
    sample: int
    model: str
    outcome: CallOutcome
    started_at: float
    ended_at: float
    text: str = ""
    logprobs: Logprobs | None = None
    call_id: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False
    error: str | None = None


def read_asked(path: Path) -> Iterator[Asked]:
    """The complete lines of a stage's file; a torn last one is owed again.

    Raises: DataInvalid.
    """
    decoder = msgspec.json.Decoder(Asked)
    for number, (_, line) in enumerate(lines(path), start=1):
        try:
            yield decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise DataInvalid(
                f"{path}, line {number}: no answer to a question ({error}).",
                "Cut that line out: it is then asked again, or taken from the cache.",
            ) from None


def read_costs(folder: Path) -> dict[bytes, float]:
    """What the calls of a build have cost in US dollars, by their keys, as far as it is known."""
    return {
        bytes.fromhex(line.call_id): line.cost_usd
        for path in sorted(folder.glob(f"*{ENDING}"))
        for line in read_asked(path)
        if line.call_id and line.cost_usd is not None and not line.cached
    }


def outcome_of(call: Call) -> CallOutcome:
    """How a call has ended that was answered."""
    reply = call.reply
    if reply.finish_reason in REFUSALS:
        return "refused"
    if not reply.text.strip():
        return "empty"
    return "truncated" if reply.finish_reason == "length" else "ok"
