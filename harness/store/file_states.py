"""The states of a run's files and the seals of their lines, to notice what others change.

A file that was emptied, cut, replaced or edited differs from its state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from harness.errors import DataInvalid
from harness.store.files import open_regular_file, replace_atomically, write_atomically, write_json
from harness.store.json_lines import convert_read_errors, read_json, read_lines

MANIFEST, STATES_KEY = "manifest.json", "files"  # the manifest's key for the states, by file name
ATTEMPTS, JUDGEMENTS = "attempts.jsonl", "judgements.jsonl"
RESCORING_KEY = "rescoring"  # the manifest's key that says that the attempts are being scored again
INCOMPLETE_KEY = "lacking"  # the manifest's key for the `APPENDED_FILES` files that have lost lines
REPEATED_KEY = "repeated"  # the manifest's key for the number of answers that replaced another one
REDRAWS_KEY = "redraws"  # the manifest's key for the numbers of judgements that were made again
APPENDED_FILES = (ATTEMPTS, JUDGEMENTS)  # written to at any time of a session
SETTINGS_FILES = (
    "config.yaml",
    "judges.json",
    "rows.jsonl",
    "prices.json",
)  # written at its beginning
RESULT_FILES = ("metrics.json", "aggregates.json")  # written at its end
JUDGED_REFERENCES = ("gold/attempts.jsonl", "gold/judgements.jsonl", "gold/judges.json")
PROTECTED_FILES = (
    *SETTINGS_FILES,
    "aggregates.json",
    *JUDGED_REFERENCES,
)  # where figures are shown

CHUNK_BYTES = 1 << 20  # bytes that are hashed at a time


class FileState(msgspec.Struct, omit_defaults=True):
    """The state of a file, which need not exist."""

    bytes: int
    modified_ns: int
    digest: str  # of the content
    grows: bool = False  # whether a command was at work that adds to the file

    def matches(self, path: Path) -> bool:
        """Return whether the file has this content. It has if its time and size are the same."""
        size, modified_ns = _size_and_time(path)
        if (size, modified_ns) == (self.bytes, self.modified_ns):
            return True
        return (size == self.bytes or self.grows) and self.is_prefix_of(path)

    def is_prefix_of(self, path: Path) -> bool:
        """Return whether the file begins with this content."""
        size, modified_ns = _size_and_time(path)
        return size >= self.bytes and self.digest == _digest(path, self.bytes, modified_ns)

    def is_truncated(self, path: Path) -> bool:
        """Return whether the file is shorter than this content."""
        return _size_and_time(path)[0] < self.bytes


def count_copied_lines(path: Path, state: FileState) -> int:
    """Return how many lines of a file are copies of others, if it is otherwise as in a state.

    A line says when it was written. One that is there twice was written by a copying program.
    """
    size, modified_ns = _size_and_time(path)
    if size <= state.bytes:
        return 0
    return _count_copies(path, state.bytes, state.digest, modified_ns)


@lru_cache(maxsize=64)
def _count_copies(path: Path, size: int, digest: str, _modified_ns: int) -> int:
    content = blake2b(digest_size=16)
    unique = 0
    for line in _unique_lines(path):
        content.update(line)
        size -= len(line)
        unique += 1
    if size or content.hexdigest() != digest:
        return 0
    return sum(1 for _ in read_lines(path)) - unique


def remove_copied_lines(path: Path, state: FileState) -> int:
    """Remove the lines that `count_copied_lines` counts, and return their number."""
    copies = count_copied_lines(path, state)
    if copies:
        with replace_atomically(path) as temporary, temporary.open("wb") as file:
            file.writelines(_unique_lines(path))
    return copies


def _unique_lines(path: Path) -> Iterator[bytes]:
    """Yield the complete lines of a file without those that are the same as an earlier one."""
    seen = set[bytes]()
    with convert_read_errors(path):
        for _, line in read_lines(path):
            name = blake2b(line, digest_size=16).digest()
            if name not in seen:
                seen.add(name)
                yield line


def compute_states(
    folder: Path, names: Iterable[str], *, grow: bool = False
) -> dict[str, dict[str, Any]]:
    """Return the present states of files by name, as a manifest records them."""
    states = {}
    for name in names:
        size, modified_ns = _size_and_time(folder / name)
        digest = _digest(folder / name, size, modified_ns)
        states[name] = msgspec.to_builtins(FileState(size, modified_ns, digest, grow))
    return states


def recorded_states(manifest: Mapping[str, Any]) -> dict[str, FileState]:
    """Return the states in a manifest, of which there are none if an earlier version wrote it."""
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.convert(manifest.get(STATES_KEY) or {}, dict[str, FileState])
    return {}


def find_changed_file(folder: Path, names: Collection[str]) -> str:
    """Return the name of one of some files that was changed, or "" if none was."""
    return next(find_changed_files(folder, lambda name: name in names), "")


def find_changed_files(folder: Path, is_checked: Callable[[str], bool]) -> Iterator[str]:
    """Yield the names of files that were changed, of those that are checked."""
    for name, state in recorded_states(_read_manifest(folder)).items():
        if is_checked(name) and not state.matches(folder / name):
            yield name


def record_states(folder: Path, states: Mapping[str, Mapping[str, Any]]) -> None:
    """Replace some states in a run's manifest, if it records any."""
    manifest = _read_manifest(folder)
    if STATES_KEY in manifest:
        write_json(folder / MANIFEST, manifest | {STATES_KEY: manifest[STATES_KEY] | states})


def remove_states(folder: Path, names: Iterable[str]) -> None:
    """Remove states from a run's manifest, before the files are rewritten."""
    manifest = _read_manifest(folder)
    if STATES_KEY in manifest:
        left = {name: state for name, state in manifest[STATES_KEY].items() if name not in names}
        write_json(folder / MANIFEST, manifest | {STATES_KEY: left})


def incomplete_files(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Return the files that have lost lines which no session has repeated."""
    return frozenset(manifest.get(INCOMPLETE_KEY) or ())


def record_incomplete(folder: Path, names: Collection[str]) -> None:
    """Record in a run's manifest which files have lost lines that no session has repeated."""
    manifest = _read_manifest(folder)
    if incomplete_files(manifest) != {*names}:
        write_json(folder / MANIFEST, manifest | {INCOMPLETE_KEY: sorted(names)})


def record_redraws(folder: Path, redraws: Mapping[str, object]) -> None:
    """Record in a run's manifest how often each judge has judged attempts again."""
    write_json(folder / MANIFEST, _read_manifest(folder) | {REDRAWS_KEY: dict(redraws)})


def record_rescoring(folder: Path) -> None:
    """Record in a run's manifest that lines with new scores are about to be added."""
    write_json(folder / MANIFEST, _read_manifest(folder) | {RESCORING_KEY: True})


def write_and_record(path: Path, content: bytes) -> None:
    """Replace a file of a run atomically, and record its state."""
    write_atomically(path, content)
    record_states(path.parent, compute_states(path.parent, [path.name]))


def _read_manifest(folder: Path) -> dict[str, Any]:
    return read_json(folder / MANIFEST, dict[str, Any], "Restore it, or start a new run.")


@lru_cache(maxsize=64)
def _digest(path: Path, size: int, _modified_ns: int) -> str:
    """Hash the first ``size`` bytes of a file."""
    content = blake2b(digest_size=16)
    with convert_read_errors(path):
        if path.exists():
            with open_regular_file(path) as file:
                while size > 0 and (part := file.read(min(size, CHUNK_BYTES))):
                    content.update(part)
                    size -= len(part)
    return content.hexdigest()


def _size_and_time(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


# Seals of the lines of a run: which run wrote a line, and a checksum of the line.
# A line that was edited, or that another run wrote, is thereby noticed, whatever else happened to
# the file. A seal is the last field of a line: ``,"run":"TAG.CHECKSUM"}``.

_BEGIN, _END = b',"run":"', b'"}\n'
_TAG, _CHECKSUM = 16, 8  # characters
_LENGTH = len(_BEGIN) + _TAG + 1 + _CHECKSUM + len(_END)


def run_tag(run_id: str) -> str:
    """Return the tag of the lines that a run writes, given its id."""
    return run_id[-_TAG:].rjust(_TAG, "-")


def seal_line(line: bytes, tag: str) -> bytes:
    """Return a line of JSON, an object that ends with a line break, with a seal."""
    content = line[: -len(b"}\n")]
    return content + _BEGIN + tag.encode() + b"." + _checksum(content) + _END


def _checksum(content: bytes | memoryview) -> bytes:
    return f"{crc32(content):0{_CHECKSUM}x}".encode()


def _seal_tag(line: bytes) -> str:
    """Return the tag in a line's seal, or "" if the line has none."""
    if line[-_LENGTH : len(_BEGIN) - _LENGTH] != _BEGIN:
        return ""
    return line[len(_BEGIN) - _LENGTH :][:_TAG].decode(errors="replace")


class _Manifest(msgspec.Struct):
    id: str = ""
    merged_ids: list[str] = []
    sealed: bool = False


class LineSeals:
    """Checks the seals of the lines in a run's folder.

    Lines without a seal come from earlier versions. Only the runs that one of these began may have
    such lines.
    """

    def __init__(self, folder: Path) -> None:
        manifest = read_json(folder / MANIFEST, _Manifest, "Restore it, or start a new run.")
        self._tags = {run_tag(run_id) for run_id in (manifest.id, *manifest.merged_ids) if run_id}
        if self._tags and not manifest.sealed:
            self._tags.add("")

    def check(self, line: bytes, path: Path, number: int) -> None:
        """Raise DataInvalid if a line is not from this run, or was edited."""
        if not self._tags:  # there is no manifest
            return
        tag = _seal_tag(line)
        if tag not in self._tags:
            problem = "this line is from another run" if tag else "this line has no seal"
        elif tag and not line.endswith(_checksum(memoryview(line)[:-_LENGTH]) + _END):
            problem = "this line was edited"
        else:
            return
        remedy = "Restore the file. Or delete it, and run the run file again: the paid replies "
        raise DataInvalid(f"{path}, line {number}: {problem}.", f"{remedy}are in the cache.")
