"""Reads what can still be read of a damaged database, page by page, without SQLite.

SQLite gives a database up for one bad page near its root. But every reply lies
in a leaf page of its own or with few others, which says itself what it holds:
so each page is looked at, in the file and in its write-ahead log, and whatever
there has the shape of a reply or a payment is taken. Format:
https://www.sqlite.org/fileformat2.html

A reply counts only where it decodes; pages that the database has freed are
passed over, so that pruned replies stay away.
"""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from harness.calls.database import PaymentRow, ReplyRow
from harness.records import Reply

MAGIC = b"SQLite format 3\0"
PAGE_SIZES = [1 << power for power in range(9, 17)]
USUAL_PAGE = 4096

TABLE_LEAF, INDEX_LEAF, INDEX_INNER = 0x0D, 0x0A, 0x02

_WAL_MAGIC = (0x377F0682, 0x377F0683)
_WAL_HEADER, _FRAME_HEADER = 32, 24

Value = bytes | str | float | None


class Pages:
    """The pages of a database, each as its log has it last, else as the file has it.

    size: bytes of a page; reserved: those at its end that hold no content.
    """

    def __init__(self, main: BinaryIO, log: BinaryIO | None, size: int, reserved: int) -> None:
        self._main, self._log = main, log
        self.size, self.reserved = size, reserved
        logged, frames = _log_frames(log) if log is not None else (0, {})
        self._frames = frames if logged == size else {}
        self._bytes = main.seek(0, 2) + (log.seek(0, 2) if log is not None else 0)
        self._count = -(-main.seek(0, 2) // self.size)

    def __iter__(self) -> Iterator[int]:
        """The numbers of all pages."""
        yield from range(1, self._count + 1)
        yield from sorted(number for number in self._frames if number > self._count)

    def __getitem__(self, number: int) -> bytes:
        """A page, empty or short where it is not there."""
        if self._log is not None and number in self._frames:
            return _read(self._log, self._frames[number], self.size)
        return _read(self._main, (number - 1) * self.size, self.size)

    def freed(self) -> set[int]:
        """The pages in the list of free ones, none where that list is in doubt."""
        first = self[1]
        if first[:16] != MAGIC:
            return set()
        trunk, total = int.from_bytes(first[32:36]), int.from_bytes(first[36:40])
        found: set[int] = set()
        while trunk and trunk not in found and len(found) < total:
            page = self[trunk]
            count = int.from_bytes(page[4:8])
            if len(page) < 8 + 4 * count:
                break
            found.add(trunk)
            found |= {int.from_bytes(page[8 + 4 * n : 12 + 4 * n]) for n in range(count)}
            trunk = int.from_bytes(page[:4])
        return found if not trunk and len(found) == total else set()

    def records(self, number: int) -> Iterator[tuple[int, list[Value]]]:
        """The kind of a page with each record in it that can be read."""
        page, usable = self[number], self.size - self.reserved
        start = 100 if number == 1 else 0
        kind = page[start] if len(page) > start else 0
        if kind not in (TABLE_LEAF, INDEX_LEAF, INDEX_INNER):
            return
        least = (usable - 12) * 32 // 255 - 23
        most = usable - 35 if kind == TABLE_LEAF else (usable - 12) * 64 // 255 - 23
        first = start + (12 if kind == INDEX_INNER else 8)
        for n in range(int.from_bytes(page[start + 3 : start + 5])):
            try:
                at = int.from_bytes(page[first + 2 * n : first + 2 * n + 2])
                if at < first:
                    continue
                at += 4 if kind == INDEX_INNER else 0
                length, at = _varint(page, at)
                if length > self._bytes:
                    continue
                if kind == TABLE_LEAF:
                    _, at = _varint(page, at)  # the rowid
                local = length
                if length > most:
                    local = least + (length - least) % (usable - 4)
                    local = local if local <= most else least
                payload = page[at : at + local]
                if local < length:
                    payload += self._overflow(page[at + local : at + local + 4], length - local)
                yield kind, _record(payload)
            except (IndexError, ValueError):
                continue

    def _overflow(self, pointer: bytes, length: int) -> bytes:
        """What of a record did not fit into its page."""
        parts, number, room = [], int.from_bytes(pointer), self.size - self.reserved - 4
        while length > 0 and number > 0:
            page = self[number]
            part = page[4 : 4 + min(room, length)]
            if not part:
                break
            parts.append(part)
            length -= len(part)
            number = int.from_bytes(page[:4])
        return b"".join(parts)


def salvage(path: Path) -> Iterator[ReplyRow | PaymentRow]:
    """The replies and payments that are still whole in a damaged database.

    Raises: OSError where the file cannot be opened.
    """
    log = path.with_name(f"{path.name}-wal")
    with contextlib.ExitStack() as files:
        main = files.enter_context(path.open("rb"))
        logged = files.enter_context(log.open("rb")) if log.exists() else None
        readings = [Pages(main, logged, *size) for size in _page_sizes(main, logged)]
        if len(readings) > 1:  # one of them may be a garbled header's
            readings.sort(key=lambda pages: sum(1 for _ in _rows(pages)), reverse=True)
        yield from _rows(readings[0])


def _page_sizes(main: BinaryIO, log: BinaryIO | None) -> list[tuple[int, int]]:
    """What the pages' size may be, and their reserved bytes: as it says, as the log says, usual."""
    header = _read(main, 0, 100)
    sizes = []
    stated = int.from_bytes(header[16:18])
    stated = 65536 if stated == 1 else stated
    if header[:16] == MAGIC and stated in PAGE_SIZES and header[20] < 64:
        sizes.append((stated, header[20]))
    if log is not None and (logged := _log_page_size(log)):
        sizes.append((logged, 0))
    sizes.append((USUAL_PAGE, 0))
    return list(dict.fromkeys(sizes))


def _rows(pages: Pages) -> Iterator[ReplyRow | PaymentRow]:
    decoder = msgspec.msgpack.Decoder(Reply)
    freed = pages.freed()
    for number in pages:
        if number in freed:
            continue
        for kind, record in pages.records(number):
            found = _reply(record, decoder) if kind == TABLE_LEAF else _payment(record)
            if found is not None:
                yield found


def _reply(record: list[Value], decoder: msgspec.msgpack.Decoder[Reply]) -> ReplyRow | None:
    match record:
        case [bytes(key), bytes(reply), str(backend), str(model), (int() | float()) as created]:
            if not math.isfinite(created):
                return None
            try:
                decoder.decode(reply)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return None
            return key, reply, backend, model, created
    return None


def _payment(record: list[Value]) -> PaymentRow | None:
    match record:
        case [str(run), bytes(key), (int() | float()) as usd, (int() | float()) as created]:
            return (run, key, usd, created) if 0 <= usd < math.inf > created else None
    return None


def _log_page_size(log: BinaryIO) -> int:
    """The size of the pages in a log, 0 where it is none."""
    header = _read(log, 0, _WAL_HEADER)
    size = int.from_bytes(header[8:12])
    return size if int.from_bytes(header[:4]) in _WAL_MAGIC and size in PAGE_SIZES else 0


def _log_frames(log: BinaryIO) -> tuple[int, dict[int, int]]:
    """The log's page size, and where it has the last committed content of which page."""
    header = _read(log, 0, _WAL_HEADER)
    size = _log_page_size(log)
    if not size:
        return 0, {}
    committed: dict[int, int] = {}
    pending: dict[int, int] = {}
    at = _WAL_HEADER
    while True:
        frame = _read(log, at, _FRAME_HEADER)
        if len(frame) < _FRAME_HEADER or frame[8:16] != header[16:24]:  # older: of another round
            return size, committed
        pending[int.from_bytes(frame[:4])] = at + _FRAME_HEADER
        if frame[4:8] != b"\0\0\0\0":
            committed |= pending
            pending = {}
        at += _FRAME_HEADER + size


def _read(file: BinaryIO, at: int, length: int) -> bytes:
    """Part of a file, empty where the disk has lost it."""
    try:
        file.seek(at)
        return file.read(length)
    except OSError:
        return b""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of SQLite's variable length, and where it ends."""
    value = 0
    for n in range(8):
        byte = data[at + n]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + n + 1
    return value << 8 | data[at + 8], at + 9


def _record(payload: bytes) -> list[Value]:
    """The values of a record.

    Raises: IndexError or ValueError where it is none.
    """
    end, at = _varint(payload, 0)
    body, values = end, list[Value]()
    while at < end:
        kind, at = _varint(payload, at)
        length = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)[kind] if kind < 10 else (kind - 12) // 2
        part = payload[body : body + length]
        if len(part) != length or kind in (10, 11):
            raise ValueError(kind)
        body += length
        values.append(_value(kind, part))
    return values


def _value(kind: int, part: bytes) -> Value:
    if kind == 0:
        return None
    if kind == 7:
        value: float = struct.unpack(">d", part)[0]
        return value
    if kind < 7:
        return int.from_bytes(part, signed=True)
    if kind in (8, 9):
        return kind - 8
    return part if kind % 2 == 0 else part.decode()
