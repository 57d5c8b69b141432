"""Files of rows, and parts of them that can be read independently.

Compressed JSONL and WARC can only be read from the beginning, so each such file is one part.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from harness.datasets.folder import LONGEST_LINE, numbered_lines, parquet_rows
from harness.errors import DataInvalid, DataMissing, cannot_read
from harness.extras import import_extra
from harness.records import encodable

LARGEST = 64_000_000  # maximum bytes of an unpacked file or record, or characters of a row
PART_BYTES = 8_000_000
PART_ROWS = 8_192
FEW = 256  # rows that a query selects by their numbers; of more rows, it reads the whole range

Row = dict[str, Any] | str  # a row, or a description of why it cannot be read


@dataclass(frozen=True)
class RowRange:
    """Consecutive rows of a file.

    ``prefix`` comes before a row's number in its name. ``start`` and ``end`` are offsets in bytes
    for JSONL, otherwise row numbers. Without an ``end``, the range is the whole file.
    """

    patterns: ClassVar[Sequence[str]]  # of the files' names in a folder
    unit: ClassVar[str] = "row"

    path: Path
    prefix: str = ""
    first: int = 0
    start: int = 0
    end: int | None = None

    @classmethod
    def of_file(cls, path: Path, prefix: str) -> Iterator[RowRange]:
        """Yield the parts of a file, in order."""
        yield cls(path, prefix)

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of the rows."""
        return iter(range(self.start, self.end or 0))

    def rows(self, names: Collection[str] | None = None) -> Iterator[tuple[int, Row]]:
        """Yield (number, row) for each row, or for those with the given names."""
        raise NotImplementedError

    def name(self, number: int) -> str:
        """Return a row's name."""
        return f"{self.prefix}{number}"

    def _wants(self, number: int, names: Collection[str] | None) -> bool:
        return names is None or self.name(number) in names


class JsonlRows(RowRange):
    """Lines of JSONL, numbered from 1. Blank lines are skipped."""

    patterns = ("**/*.jsonl", "**/*.jsonl.gz", "**/*.json.gz")
    unit = "line"

    @classmethod
    def of_file(cls, path: Path, prefix: str) -> Iterator[RowRange]:
        """Yield parts that end at the end of a line."""
        if path.suffix == ".gz":
            yield cls(path, prefix, 1)
            return
        try:
            with path.open("rb") as file:
                first, start = 1, 0
                while block := file.read(PART_BYTES):
                    block += file.readline(LONGEST_LINE)
                    yield cls(path, prefix, first, start, start + len(block))
                    first, start = first + block.count(b"\n"), start + len(block)
        except OSError as error:
            raise cannot_read(path, error) from None

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        return numbered_lines(self.path, self.start, self.end, self.first)

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of the lines that are not blank."""
        return (number for number, _ in self._lines())

    def rows(self, names: Collection[str] | None = None) -> Iterator[tuple[int, Row]]:
        """Yield (number, row) for the named lines, or all. A string describes an invalid line."""
        for number, line in self._lines():
            if self._wants(number, names):
                try:
                    yield number, json_object(line)
                except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                    yield number, f"not a JSON object ({error})"


def json_object(line: bytes) -> dict[str, Any]:
    """Decode a JSON object. Lone surrogates, such as half an emoji, become U+FFFD.

    Raises:
        msgspec.MsgspecError, RecursionError, ValueError: If the line is not a JSON object.
    """
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError:
        plain = encodable(json.dumps(json.loads(line), ensure_ascii=False))
        return msgspec.json.decode(plain, type=dict[str, Any])


def _ranges(sizes: Iterator[int]) -> Iterator[tuple[int, int]]:
    """Join groups of rows of the given sizes into ranges of at least `PART_ROWS` rows."""
    start = end = 0
    for size in sizes:
        end += size
        if end - start >= PART_ROWS:
            yield start, end
            start = end
    if end > start:
        yield start, end


class ParquetRows(RowRange):
    """Rows of a Parquet file, numbered from 0."""

    patterns = ("**/*.parquet",)

    @classmethod
    def of_file(cls, path: Path, prefix: str) -> Iterator[RowRange]:
        """Yield parts that consist of whole row groups."""
        query = (
            "SELECT DISTINCT row_group_id, row_group_num_rows AS size "
            "FROM parquet_metadata($file) ORDER BY row_group_id"
        )
        for start, end in _ranges(row["size"] for row in parquet_rows(path, query)):
            yield cls(path, prefix, start, start, end)

    def rows(self, names: Collection[str] | None = None) -> Iterator[tuple[int, Row]]:
        """Yield the rows, which need not fit in memory."""
        wanted = [number for number in self.numbers() if self._wants(number, names)]
        if not wanted:
            return
        query = (
            "SELECT * FROM read_parquet($file, file_row_number = true) "
            "WHERE file_row_number BETWEEN $first AND $last"
        )
        given: dict[str, Any] = {"first": wanted[0], "last": wanted[-1]}
        if len(wanted) <= FEW:
            query, given["some"] = f"{query} AND list_contains($some, file_row_number)", wanted
        kept = set(wanted)
        for row in parquet_rows(self.path, query, **given):
            if (number := row.pop("file_row_number")) in kept:
                yield number, row


class ArrowRows(RowRange):
    """Rows of an Arrow file as the library datasets saves it, numbered from 0."""

    patterns = ("**/*.arrow",)

    @classmethod
    def of_file(cls, path: Path, prefix: str) -> Iterator[RowRange]:
        """Yield parts that consist of whole record batches."""
        for start, end in _ranges(batch.num_rows for batch in _record_batches(path)):
            yield cls(path, prefix, start, start, end)

    def rows(self, names: Collection[str] | None = None) -> Iterator[tuple[int, Row]]:
        """Yield the rows."""
        after = 0
        for batch in _record_batches(self.path):
            begin, after = after, after + batch.num_rows
            if after <= self.start:
                continue
            if begin >= (self.end or 0):
                return
            for place in range(batch.num_rows):
                if self._wants(begin + place, names):
                    yield begin + place, batch.slice(place, 1).to_pylist()[0]


def _record_batches(path: Path) -> Iterator[Any]:
    arrow, ipc = import_extra("pyarrow", "hub"), import_extra("pyarrow.ipc", "hub")
    try:
        with arrow.memory_map(str(path)) as file:
            try:
                opened = ipc.open_stream(file)
            except arrow.ArrowInvalid:  # the file format, which has a table of its batches
                opened = ipc.open_file(file)
                opened = map(opened.get_batch, range(opened.num_record_batches))
            yield from opened
    except arrow.ArrowException as error:
        raise DataInvalid(f"{path}: not readable as Arrow ({error!s:.160}).") from None
    except OSError as error:
        raise cannot_read(path, error) from None


class WarcRows(RowRange):
    """Plain text in a WARC file, such as Common Crawl's WET files. Records are numbered from 1."""

    patterns = ("**/*.warc", "**/*.warc.gz", "**/*.wet", "**/*.wet.gz")
    unit = "record"

    def _records(self, names: Collection[str] | None) -> Iterator[tuple[int, Row | None]]:
        """Yield (number, row) for each record of plain text. Rows not in ``names`` are None."""
        warc = import_extra("warcio", "build")
        broken = import_extra("warcio.exceptions", "build").ArchiveLoadFailed
        opened = gzip.open if self.path.suffix == ".gz" else open
        number = 0
        try:
            with opened(self.path, "rb") as file:
                for number, record in enumerate(warc.ArchiveIterator(file), start=1):
                    kind = (record.rec_headers.get_header("Content-Type") or "").lower()
                    if record.rec_type in ("conversion", "resource") and "text/plain" in kind:
                        yield number, _record_row(record) if self._wants(number, names) else None
                file.read(1)  # warcio takes the end of truncated gzip data for the end of the file
        except (broken, ValueError, gzip.BadGzipFile, EOFError, zlib.error) as error:
            said = f"not complete WARC ({error!s:.160})"
            raise DataInvalid(f"{self.path}, after record {number}: {said}.") from None
        except OSError as error:
            raise cannot_read(self.path, error) from None

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of the records with plain text."""
        return (number for number, _ in self._records(()))

    def rows(self, names: Collection[str] | None = None) -> Iterator[tuple[int, Row]]:
        """Yield (number, row) for each record with plain text.

        A row has the ``text`` and, if known, ``url`` and ``language``.
        """
        return ((number, row) for number, row in self._records(names) if row is not None)


def _record_row(record: Any) -> Row:
    header = record.rec_headers.get_header
    content = record.content_stream().read(LARGEST + 1)
    if len(content) > LARGEST:
        return f"more than {LARGEST:,} bytes"
    if str(len(content)) != header("Content-Length"):
        return "not complete"
    try:
        row = {"text": content.decode()}
    except UnicodeDecodeError:
        return "not in utf-8"
    facts = {"url": "WARC-Target-URI", "language": "WARC-Identified-Content-Language"}
    return row | {key: value for key, name in facts.items() if (value := header(name))}


FORMATS: dict[str, type[RowRange]] = {
    "jsonl": JsonlRows,
    "parquet": ParquetRows,
    "arrow": ArrowRows,
    "warc": WarcRows,
}


def files_of(place: Path, kind: type[RowRange]) -> list[Path]:
    """Return the file ``place``, or the files of a format below a folder, sorted by path."""
    if not place.is_dir():
        return [place]
    found = sorted({path for pattern in kind.patterns for path in place.glob(pattern)})
    files = [
        path
        for path in found
        if path.is_file() and not any(part[0] == "." for part in path.relative_to(place).parts)
    ]
    for file in files:
        if not is_below(file, place):
            raise DataInvalid(f"{file} is outside the folder.", "Name the file itself.")
    if not files:
        patterns = " or ".join(pattern.removeprefix("**/") for pattern in kind.patterns)
        raise DataMissing(f"{place} has no file {patterns}.", "Check the path.")
    return files


def format_of(place: Path) -> str:
    """Return the format of a file or of a folder's files, or "" if unknown.

    The format is a key of `FORMATS`. A folder with text files (``*.txt``) has none.
    """
    if place.is_dir() and any(place.glob("**/*.txt")):
        return ""
    for name, kind in FORMATS.items():
        for pattern in kind.patterns:
            if any(place.glob(pattern)) or place.match(pattern.removeprefix("**/")):
                return name
    return ""


def row_parts(files: Sequence[Path], kind: type[RowRange]) -> Iterator[RowRange]:
    """Yield the parts of files of one format. If there are several files, names are FILE/ROW."""
    for number, file in enumerate(files):
        prefix = f"{number}/" if len(files) > 1 else ""
        yield from kind.of_file(file.absolute(), prefix)


def is_below(path: Path, root: Path) -> bool:
    """Return whether a path is ``root`` or inside it, after symbolic links are resolved."""
    return path.resolve().is_relative_to(root.resolve())
