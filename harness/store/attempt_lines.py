"""Reads the lines of `attempts.jsonl`, which may still grow, and finds those that count."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from math import nan
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.errors import DataInvalid
from harness.records import MAX_MAGNITUDE, Message, Usage, extend_conversation, messages_hash
from harness.store.columns import (
    AttemptTable,
    Bools,
    Ints,
    NumericRows,
    TableBuilder,
    TableLine,
)
from harness.store.file_states import LineSeals
from harness.store.files import open_regular_file
from harness.store.json_lines import (
    DECODE_ERRORS,
    LineKind,
    convert_read_errors,
    decode_lines,
    decode_lines_at,
)
from harness.store.judgement_index import judgement_key
from harness.workers import Workers, available_cores

MIN_PARALLEL_BYTES = 1 << 26  # above this many bytes of new lines (a second's work), all cores read
CHUNK_BYTES = 1 << 23  # bytes that a process reads at a time

ATTEMPT = LineKind("an attempt", "Remove the line and run again: its attempt is then repeated.")


class _JudgedLine(TableLine, gc=False):
    text: str | None = None


class _CallLine(_JudgedLine, kw_only=True, gc=False):
    ended_at: float
    latency_s: float | None = None
    cost_usd: Annotated[float, msgspec.Meta(ge=0, le=MAX_MAGNITUDE)] | None = None
    usage: Usage | None = None
    cached: bool = False


CALL_COLUMNS = ("ended_at", "latency_s", "cost_usd", "tokens")
"""Columns on calls. For a cached reply or if unknown, latency is NaN; cost and tokens are 0."""

_COMMON_FORMATS = {"offset": "q", "turns": "h", "neutral": "b", "redraw": "h"}
_KINDS: Mapping[str, tuple[type[TableLine], dict[str, str]]] = {
    "": (TableLine, _COMMON_FORMATS),
    "judged": (_JudgedLine, _COMMON_FORMATS | {"key": "q"}),
    "followed": (
        _CallLine,
        _COMMON_FORMATS
        | {"key": "q"}
        | {"ended_at": "d", "latency_s": "f", "cost_usd": "d", "tokens": "q"},
    ),
}


@dataclass(frozen=True, slots=True)
class CountedAttempts:
    """The n attempts of a file that count, sorted by instance, sample and round."""

    table: AttemptTable  # with the rules' scores
    draws: Ints  # see `AttemptIndex.draws`
    columns: Mapping[str, NDArray[Any]]  # "offset", and what else their lines hold


class AttemptLines:
    """The lines of an attempts file, which may grow, in the form that `AttemptIndex` needs.

    ``kind`` selects the data to read: "" (outcomes and the rules' scores), "judged" (also the data
    that links lines to judgements) or "followed" (also `CALL_COLUMNS`).
    """

    def __init__(self, path: Path, kind: Literal["", "judged", "followed"]) -> None:
        self.path = path
        self._kind = kind
        self.size = self.n_lines = 0  # bytes and lines that were read
        self.builder = TableBuilder()
        self.rows = NumericRows(**_KINDS[kind][1])
        self._counted: CountedAttempts | None = None

    @property
    def has_judgement_keys(self) -> bool:
        """Whether the data that links lines to judgements is read."""
        return self._kind != ""

    def read_more(self, limit: int | None = None) -> bool:
        """Read new lines: all of them, or about ``limit`` bytes. Return whether there were any."""
        size_before = self.size
        if limit is None:
            with convert_read_errors(self.path):
                size = self.path.stat().st_size if self.path.exists() else 0
            if size - size_before > MIN_PARALLEL_BYTES:
                self._read_in_processes(size)
        start = self.size
        last = None  # the offset of the last line
        seals = LineSeals(self.path.parent)
        for number, offset, line in decode_lines(
            self.path, _KINDS[self._kind][0], ATTEMPT, start, self.n_lines, check=seals.check
        ):
            if limit is not None and offset - start > limit:
                self.size = offset
                break
            try:
                self.builder.add(line)
                self.rows.append(offset, *_further_columns(line))
            except (
                *DECODE_ERRORS,
                OverflowError,
                struct.error,
            ) as error:  # unreadable, or too large
                raise ATTEMPT.line_error(self.path, number, error) from None
            self.n_lines = number
            last = offset
        else:
            if last is not None:
                with convert_read_errors(self.path), open_regular_file(self.path) as file:
                    file.seek(last)
                    self.size = last + len(file.readline())
        if self.size == size_before:
            return False
        self._counted = None
        return True

    def _read_in_processes(self, size: int) -> None:
        """Read the lines of a large file on all cores, up to a part with a damaged line."""
        work = partial(_read_chunk, self.path, self._kind)
        with Workers(available_cores()) as workers:
            for part in workers.map_in_order(work, _chunks(self.path, self.size, size)):
                if part is None:
                    return
                try:
                    self.builder.extend(part.builder)
                except OverflowError:
                    return
                self.rows.extend({name: part.rows.column(name) for name in part.rows.formats})
                self.n_lines += part.n_lines
                self.size = part.size

    def counted_attempts(self) -> CountedAttempts:
        """Return the attempts that count among the lines read so far."""
        if self._counted is None:
            self._counted = _count_attempts(self.path, *self.builder.build(), self.rows)
        return self._counted


def read_counted(path: Path, kind: Literal["", "judged"]) -> CountedAttempts:
    """Return the attempts that count in a file. ``kind`` is as in `AttemptLines`."""
    lines = AttemptLines(path, kind)
    lines.read_more()
    rows = lines.rows
    sorted_lines = lines.builder.build()
    del lines  # to free memory
    return _count_attempts(path, *sorted_lines, rows)


def _count_attempts(
    path: Path, table: AttemptTable, line_of: Ints, rows: NumericRows
) -> CountedAttempts:
    counting, draws = _select_latest(table, line_of, rows.column("redraw")[line_of])
    if dropped := _rows_after_lost_answers(path, table, counting, line_of, rows.column("offset")):
        retained = ~np.isin(np.flatnonzero(counting), dropped)
        counting[dropped] = False
        draws = draws[retained]
    lines = line_of[counting]
    columns = {name: rows.column(name)[lines] for name in rows.formats}
    return CountedAttempts(table.take(counting), draws, columns)


def _chunks(path: Path, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the two byte offsets of each part of the lines from ``start`` to ``end``."""
    with convert_read_errors(path), open_regular_file(path) as file:
        while start < end:
            file.seek(start + CHUNK_BYTES)
            file.readline()
            yield start, file.tell()
            start = file.tell()


def _read_chunk(
    path: Path, kind: Literal["", "judged", "followed"], part: tuple[int, int]
) -> AttemptLines | None:
    """Read the lines between two byte offsets, or return None if a line is damaged."""
    start, end = part
    lines = AttemptLines(path, kind)
    lines.size = start
    with contextlib.suppress(DataInvalid):
        lines.read_more(end - start - 1)  # a line at ``end`` belongs to the next part
        return lines
    return None


def _further_columns(line: TableLine) -> Iterator[float]:
    yield line.turns
    yield line.passed is None and all(score.value is not None for score in line.scores.values())
    yield line.request.redraw
    if isinstance(line, _JudgedLine):
        yield judgement_key(line.instance, line.sample, line.round, line.text)
    if isinstance(line, _CallLine):
        yield line.ended_at
        if line.cached:
            yield from (nan, 0.0, 0)
            return
        usage = line.usage or Usage()
        yield nan if line.latency_s is None else line.latency_s
        yield line.cost_usd or 0.0
        yield usage.input_tokens + usage.output_tokens


class _ConversationRequest(msgspec.Struct, gc=False):
    messages_hash: str = ""
    messages: tuple[Message, ...] = ()


class _ConversationLine(msgspec.Struct, gc=False):
    request: _ConversationRequest
    text: str | None = None
    feedback: str | None = None
    reasoning_state: str | None = None


def _rows_after_lost_answers(
    path: Path, table: AttemptTable, counting: Bools, line_of: Ints, offset: Ints
) -> list[int]:
    """Return the rows of rounds after another answer than the recorded one, which was lost.

    A round that precedes the round before it in the file followed an answer that was lost. What has
    repeated it may have restored it, from the cache, or be a new answer.
    """
    rows = np.flatnonzero(counting)
    sample = np.cumsum(table.sample_starts())[rows]
    number = line_of[rows]
    late = (np.diff(sample) == 0) & (np.diff(number) < 0)
    dropped: list[int] = []
    decode = msgspec.json.Decoder(_ConversationLine).decode
    for name in np.unique(sample[1:][late]).tolist():
        first, end = np.searchsorted(sample, [name, name + 1]).tolist()
        of_sample = rows[first:end]
        lines = decode_lines_at(path, offset[line_of[of_sample]].tolist(), decode, ATTEMPT)
        prompt = ""  # the hash of the next round's messages; empty: it is unknown
        messages: tuple[Message, ...] = ()
        for place, line in enumerate(lines):
            if place and prompt != line.request.messages_hash and late[first + place - 1]:
                dropped += of_sample[place:].tolist()
                break
            messages = line.request.messages or messages
            prompt = ""
            if line.feedback is not None and messages:
                answer = line.text or ""
                state = line.reasoning_state or None
                messages = extend_conversation(messages, answer, line.feedback, state)
                prompt = messages_hash(messages)
    return dropped


def _select_latest(table: AttemptTable, number: Ints, redraw: Ints) -> tuple[Bools, Ints]:
    """Return a mask of the rows that count, and a number for each of them.

    The number is that of the first draw of the round's answer that the file lacks, since the
    conversation last changed. ``table`` is sorted by instance, sample and round. ``number`` has the
    line number of each row, ``redraw`` how many answers were drawn before.
    """
    replied = table.has_reply
    counting = np.ones(len(table), np.bool_)
    draws = replied.astype(np.int32)
    sample = np.cumsum(table.sample_starts(), dtype=np.int32)
    repeated = (np.diff(sample) == 0) & (np.diff(table.round) == 0)
    rewritten = np.union1d(sample[1:][repeated], sample[redraw > 0])
    if not len(rewritten):
        return counting, draws
    # Few samples have a rewritten round; the rest of this function deals only with these.
    rows = np.flatnonzero(np.isin(sample, rewritten))
    columns = (column[rows].tolist() for column in (redraw, number, sample, table.round, replied))
    lines = zip(*columns, rows.tolist(), strict=True)
    current = -1  # the sample
    latest = -1  # the latest rewrite in its rounds so far
    for (sample_number, _), group in groupby(lines, key=itemgetter(2, 3)):
        if sample_number != current:
            current = sample_number
            latest = -1
        versions = list(group)
        present = []
        drawn = set()
        for version in versions:
            draw, line, *_, has_reply, row = version
            counting[row] = False
            if line >= latest:
                present.append(version)
                if has_reply:
                    drawn.add(draw)
        if not present:
            continue
        # An answer that was lost and restored follows those that have replaced it.
        draw, line, *_, row = max(present)
        counting[row] = True
        first_lost = 0
        while first_lost in drawn:
            first_lost += 1
        draws[row] = first_lost
        if draw or len(versions) > 1:
            latest = line
    return counting, draws[counting]
