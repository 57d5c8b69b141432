"""Reading an Inspect log: its header, and its samples one at a time.

A zip is hostile until proven otherwise: its members' names are compared and never used as paths,
and what they unpack to is bounded. Today's Inspect packs with zstd, which Python's zipfile learns
in 3.14: until then DuckDB unpacks, which brings it along.
"""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from harness.exchange.foreign_json import (
    MOST_BYTES,
    MOST_WHOLE,
    invalid,
    opened,
    parse,
    sequence,
)

ZSTD = 93
MOST_MEMBERS = 2_000_000
MOST_UNPACKED = 1 << 35
"""Of a whole log: 32 GiB."""


class InspectLog:
    """A log of Inspect.

    path: of a ``.eval`` (a zip) or a ``.json``; what it is, its first bytes say.

    Raises: `harness.errors.DataInvalid` naming file and member; DataMissing; StoreFailed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._whole: list[Any] | None = None
        self._members: dict[str, zipfile.ZipInfo] = {}
        with opened(path) as file:
            packed = file.read(4) == b"PK\x03\x04"
        if packed:
            self.header = self._open_zip()
        else:
            self.header = self._read_json()
        if "eval" not in self.header:
            raise invalid(str(path), "not an Inspect log: it has no 'eval'")

    def samples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Where each sample is, for messages, and the sample."""
        if self._whole is not None:
            for number, sample in enumerate(self._whole, start=1):
                where = f"{self.path}, sample {number}"
                if not isinstance(sample, dict):
                    raise invalid(where, "not a mapping")
                yield where, sample
            return
        with opened(self.path) as file, _Unpacking(self.path, file) as unpack:
            for name, member in self._members.items():
                if name.startswith("samples/") and name.endswith(".json"):
                    yield f"{self.path}, {name[:200]}", unpack(member)

    def _open_zip(self) -> dict[str, Any]:
        try:
            with zipfile.ZipFile(self.path) as log:
                members = log.infolist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise invalid(str(self.path), f"not a whole zip ({error})") from None
        if len(members) > MOST_MEMBERS:
            raise invalid(str(self.path), f"more than {MOST_MEMBERS:,} members")
        if sum(member.file_size for member in members) > MOST_UNPACKED:
            raise invalid(str(self.path), f"more than {MOST_UNPACKED:,} bytes when unpacked")
        # Of two members of one name the later one counts, as for Inspect.
        self._members = {member.filename: member for member in members}
        for name in ("header.json", "_journal/start.json"):
            if name in self._members:
                with opened(self.path) as file, _Unpacking(self.path, file) as unpack:
                    return unpack(self._members[name])
        raise invalid(str(self.path), "not an Inspect log: it has no header.json")

    def _read_json(self) -> dict[str, Any]:
        with opened(self.path) as file:
            content = file.read(MOST_WHOLE + 1)
        if len(content) > MOST_WHOLE:
            raise invalid(
                str(self.path),
                f"longer than {MOST_WHOLE:,} bytes; 'inspect log convert --to eval' makes a .eval",
            )
        header = parse(content, str(self.path))
        self._whole = sequence(header.pop("samples", []))
        return header


class _Unpacking:
    """Unpacks members of a zip, each to its JSON."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.file = file
        self.unpacked = 0
        self._zip = zipfile.ZipFile(file)
        self._zstd: _Zstd | None = None

    def __enter__(self) -> _Unpacking:
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()
        if self._zstd is not None:
            self._zstd.close()

    def __call__(self, member: zipfile.ZipInfo) -> dict[str, Any]:
        where = f"{self.path}, {member.filename[:200]}"
        try:
            content = self._unpack(member, where)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
            raise invalid(where, f"cannot be unpacked ({str(error)[:160]})") from None
        if len(content) > MOST_BYTES:
            raise invalid(where, f"more than {MOST_BYTES:,} bytes when unpacked")
        self.unpacked += len(content)
        if self.unpacked > MOST_UNPACKED:
            raise invalid(where, f"the log is more than {MOST_UNPACKED:,} bytes when unpacked")
        return parse(content, where)

    def _unpack(self, member: zipfile.ZipInfo, where: str) -> bytes:
        if member.file_size > MOST_BYTES:
            raise invalid(where, f"more than {MOST_BYTES:,} bytes when unpacked")
        if member.flag_bits & 1:
            raise invalid(where, "encrypted")
        if member.compress_type == ZSTD and not hasattr(zipfile, "ZIP_ZSTANDARD"):
            self._zstd = self._zstd or _Zstd()
            return self._zstd.unpack(self._packed(member), where)
        with self._zip.open(member) as content:
            return content.read(MOST_BYTES + 1)

    def _packed(self, member: zipfile.ZipInfo) -> bytes:
        """The bytes of a member as they are, after its local header."""
        if member.compress_size > MOST_BYTES:
            raise zipfile.BadZipFile("larger packed than it may be unpacked")
        self.file.seek(member.header_offset)
        header = self.file.read(30)
        if len(header) < 30 or header[:4] != b"PK\x03\x04":
            raise zipfile.BadZipFile("there is no member where the list has one")
        lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        self.file.seek(member.header_offset + 30 + lengths)
        return self.file.read(member.compress_size)


class _Zstd:
    """Unpacks JSON by DuckDB, which reads files alone."""

    def __init__(self) -> None:
        import duckdb

        self._folder = tempfile.TemporaryDirectory(prefix="harness-")
        self._path = Path(self._folder.name) / "member.json.zst"
        self._errors = duckdb.Error
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "threads": 1,
            },
        )

    def unpack(self, packed: bytes, where: str) -> bytes:
        """Raises: `harness.errors.DataInvalid` where it is not one JSON value, or too large."""
        self._path.write_bytes(packed)
        try:
            found = self._connection.execute(
                "SELECT json::VARCHAR FROM read_json_objects(?, format='unstructured', "
                "compression='zstd', maximum_object_size=?) LIMIT 2",
                [str(self._path), MOST_BYTES],
            ).fetchall()
        except self._errors as error:
            reason = str(error).splitlines()[0].replace(str(self._path), "it")[:160]
            raise invalid(where, f"cannot be unpacked ({reason})") from None
        if len(found) != 1:
            raise invalid(where, "not one JSON value")
        content: str = found[0][0]
        return content.encode()

    def close(self) -> None:
        self._connection.close()
        self._folder.cleanup()


def is_inspect_log(path: Path) -> bool:
    """Whether a file begins as a log does; it may still be broken."""
    with opened(path) as file:
        begins: bytes = file.read(1 << 16)
    if begins[:4] == b"PK\x03\x04":
        return True
    return begins.lstrip()[:1] == b"{" and b'"eval"' in begins and b'"doc_id"' not in begins
