"""Reads the lines of `attempts.jsonl`, which may still grow, and selects those that count."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby, starmap
from math import nan
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

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

MIN_PARALLEL_BYTES = 1 << 26  # of new lines (a second's work): from here on, all cores read
CHUNK_BYTES = 1 << 23  # that a process reads at a time

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
"""Columns on calls. If cached or unknown, latency is NaN, and cost and tokens are 0."""

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

    table: AttemptTable  # with the scores of the rules
    first_lost_draw: Ints  # (n,) number of the first draw of each answer that the file lacks
    columns: Mapping[str, NDArray[Any]]  # "offset" of their lines, and the columns of their kind


class AttemptLines:
    """The lines of an attempts file, which may grow, in the form that `AttemptIndex` needs.

    Args:
        path: The file, which need not exist.
        kind: The data to read: "" (outcomes and the rules' scores), "judged" (also the keys of
            judgements) or "followed" (also `CALL_COLUMNS`).
    """

    def __init__(self, path: Path, kind: Literal["", "judged", "followed"]) -> None:
        self.path = path
        self._kind = kind
        self.size = 0  # bytes that were read
        self.n_lines = 0  # that were read
        self.builder = TableBuilder()
        self.rows = NumericRows(**_KINDS[kind][1])
        self._counted: CountedAttempts | None = None

    @property
    def has_judgement_keys(self) -> bool:
        """Whether the keys that link lines to judgements are read."""
        return self._kind != ""

    def read_more(self, max_bytes: int | None = None) -> bool:
        """Read all new lines, or about ``max_bytes`` bytes of them.

        Returns:
            Whether there were new lines.

        Raises:
            DataInvalid: If a line is damaged.
        """
        size_before = self.size
        if max_bytes is None:
            with convert_read_errors(self.path):
                file_size = self.path.stat().st_size if self.path.exists() else 0
            if file_size - size_before > MIN_PARALLEL_BYTES:
                self._read_in_processes(file_size)
        self._read_in_order(max_bytes)
        if self.size == size_before:
            return False
        self._counted = None
        return True

    def _read_in_order(self, max_bytes: int | None) -> None:
        start = self.size
        last_offset = None
        seals = LineSeals(self.path.parent)
        for number, offset, line in decode_lines(
            self.path, _KINDS[self._kind][0], ATTEMPT, start, self.n_lines, check=seals.check
        ):
            if max_bytes is not None and offset - start > max_bytes:
                self.size = offset
                return
            try:
                self.builder.add(line)
                self.rows.append(offset, *_column_values(line))
            except (*DECODE_ERRORS, OverflowError, struct.error) as error:
                raise ATTEMPT.line_error(self.path, number, error) from None
            self.n_lines = number
            last_offset = offset
        if last_offset is not None:
            with convert_read_errors(self.path), open_regular_file(self.path) as file:
                file.seek(last_offset)
                self.size = last_offset + len(file.readline())

    def _read_in_processes(self, end: int) -> None:
        """Read the lines before the byte offset ``end`` on all cores.

        Stops before the first chunk that has a damaged line or too many score names.
        """
        read_chunk = partial(_read_chunk, self.path, self._kind)
        with Workers(available_cores()) as workers:
            for chunk in workers.map_in_order(
                read_chunk, _chunk_offsets(self.path, self.size, end)
            ):
                if chunk is None:
                    return
                try:
                    self.builder.extend(chunk.builder)
                except OverflowError:
                    return
                self.rows.extend({name: chunk.rows.column(name) for name in chunk.rows.formats})
                self.n_lines += chunk.n_lines
                self.size = chunk.size

    def counted_attempts(self) -> CountedAttempts:
        """Return the attempts that count among the lines read so far."""
        if self._counted is None:
            self._counted = _count_attempts(self.path, *self.builder.build(), self.rows)
        return self._counted


def read_counted_attempts(path: Path, kind: Literal["", "judged"]) -> CountedAttempts:
    """Return the attempts that count in a file. ``kind`` is as in `AttemptLines`."""
    lines = AttemptLines(path, kind)
    lines.read_more()
    rows = lines.rows
    table, line_numbers = lines.builder.build()
    del lines  # to free memory
    return _count_attempts(path, table, line_numbers, rows)


def _count_attempts(
    path: Path, table: AttemptTable, line_numbers: Ints, rows: NumericRows
) -> CountedAttempts:
    """Select the attempts that count. ``line_numbers`` has the row in ``rows`` of each attempt."""
    counts, draws = _select_latest(table, line_numbers, rows.column("redraw")[line_numbers])
    offsets = rows.column("offset")[line_numbers]
    if dropped := _rows_after_lost_answers(path, table, counts, line_numbers, offsets):
        draws = draws[~np.isin(np.flatnonzero(counts), dropped)]
        counts[dropped] = False
    lines = line_numbers[counts]
    columns = {name: rows.column(name)[lines] for name in rows.formats}
    return CountedAttempts(table.take(counts), draws, columns)


def _chunk_offsets(path: Path, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the byte offsets of the start and end of each chunk of lines."""
    with convert_read_errors(path), open_regular_file(path) as file:
        while start < end:
            file.seek(start + CHUNK_BYTES)
            file.readline()
            yield start, file.tell()
            start = file.tell()


def _read_chunk(
    path: Path, kind: Literal["", "judged", "followed"], offsets: tuple[int, int]
) -> AttemptLines | None:
    """Read the lines between two byte offsets, or return None if a line is damaged."""
    start, end = offsets
    lines = AttemptLines(path, kind)
    lines.size = start
    with contextlib.suppress(DataInvalid):
        lines.read_more(end - start - 1)  # a line at ``end`` belongs to the next chunk
        return lines
    return None


def _column_values(line: TableLine) -> Iterator[float]:
    """Yield a line's values for the columns of its kind after ``offset``."""
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
    path: Path, table: AttemptTable, counts: Bools, line_numbers: Ints, offsets: Ints
) -> list[int]:
    """Return the rows of rounds that followed an answer which was lost, and differs from the new.

    If a round precedes the previous round in the file, the answer that it followed was lost. What
    has replaced that answer may be the same answer, from the cache, or a new one.

    Args:
        path: The attempts file.
        table: All attempts, sorted by instance, sample and round.
        counts: Mask of the rows that count so far.
        line_numbers: Line number of each row.
        offsets: Byte offset of each row's line.
    """
    rows = np.flatnonzero(counts)
    sample = np.cumsum(table.sample_starts())[rows]
    is_out_of_order = (np.diff(sample) == 0) & (np.diff(line_numbers[rows]) < 0)
    dropped: list[int] = []
    decode = msgspec.json.Decoder(_ConversationLine).decode
    for sample_number in np.unique(sample[1:][is_out_of_order]).tolist():
        first, end = np.searchsorted(sample, [sample_number, sample_number + 1]).tolist()
        sample_rows = rows[first:end]
        lines = decode_lines_at(path, offsets[sample_rows].tolist(), decode, ATTEMPT)
        expected_hash = ""  # of the next round's messages; "": unknown
        messages: tuple[Message, ...] = ()
        for index, line in enumerate(lines):
            is_other = index > 0 and expected_hash != line.request.messages_hash
            if is_other and is_out_of_order[first + index - 1]:
                dropped += sample_rows[index:].tolist()
                break
            messages = line.request.messages or messages
            expected_hash = ""
            if line.feedback is not None and messages:
                answer = line.text or ""
                state = line.reasoning_state or None
                messages = extend_conversation(messages, answer, line.feedback, state)
                expected_hash = messages_hash(messages)
    return dropped


class _Version(NamedTuple):
    """A line of a round that was answered repeatedly."""

    redraw: int  # how many answers were drawn before
    line: int  # number in the file
    sample: int
    round: int
    has_reply: bool
    row: int


def _select_latest(table: AttemptTable, line_numbers: Ints, redraw: Ints) -> tuple[Bools, Ints]:
    """Select the line that counts of each round.

    Args:
        table: The lines, sorted by instance, sample and round.
        line_numbers: (n,) number of each line in the file.
        redraw: (n,) how many answers to the round were drawn before each line.

    Returns:
        An (n,) mask of the lines that count and, for each of these, the number of the first draw of
        an answer that the file lacks since the conversation last changed.
    """
    has_reply = table.has_reply
    counts = np.ones(len(table), np.bool_)
    draws = has_reply.astype(np.int32)
    sample = np.cumsum(table.sample_starts(), dtype=np.int32)
    is_repeated = (np.diff(sample) == 0) & (np.diff(table.round) == 0)
    rewritten = np.union1d(sample[1:][is_repeated], sample[redraw > 0])
    if not len(rewritten):
        return counts, draws
    # Few samples have a rewritten round; the rest of this function deals only with these.
    rows = np.flatnonzero(np.isin(sample, rewritten))
    columns = (redraw, line_numbers, sample, table.round, has_reply)
    values = zip(*(column[rows].tolist() for column in columns), rows.tolist(), strict=True)
    current_sample = -1
    last_rewrite = -1  # line number of the last rewrite in the sample's rounds so far
    for (sample_number, _), group in groupby(
        starmap(_Version, values), attrgetter("sample", "round")
    ):
        if sample_number != current_sample:
            current_sample = sample_number
            last_rewrite = -1
        versions = list(group)
        counts[[version.row for version in versions]] = False
        present = [version for version in versions if version.line >= last_rewrite]
        if not present:
            continue
        # An answer that was lost and restored follows those that have replaced it.
        latest = max(present)
        counts[latest.row] = True
        draws[latest.row] = _first_lost_draw(present)
        if latest.redraw or len(versions) > 1:
            last_rewrite = latest.line
    return counts, draws[counts]


def _first_lost_draw(versions: Iterable[_Version]) -> int:
    drawn = {version.redraw for version in versions if version.has_reply}
    draw = 0
    while draw in drawn:
        draw += 1
    return draw
