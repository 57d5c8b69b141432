"""The states of a run's files and the seals of their lines, to detect changes by others.

A file that was emptied, cut, replaced or edited does not match its state.
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
APPENDED_FILES = (ATTEMPTS, JUDGEMENTS)  # appended to during a session
SETTINGS_FILES = (
    "config.yaml",
    "judges.json",
    "rows.jsonl",
    "prices.json",
)  # written at its beginning
RESULT_FILES = ("metrics.json", "aggregates.json")  # written at its end
JUDGED_REFERENCES = ("gold/attempts.jsonl", "gold/judgements.jsonl", "gold/judges.json")
PROTECTED_FILES = (*SETTINGS_FILES, "aggregates.json", *JUDGED_REFERENCES)
"""Files that must be unchanged where a run's metrics are shown."""

CHUNK_BYTES = 1 << 20  # bytes that are hashed at a time


class FileState(msgspec.Struct, omit_defaults=True):
    """The state of a file, which need not exist."""

    bytes: int
    modified_ns: int
    digest: str  # of the content
    grows: bool = False  # whether a command was adding to the file

    def matches(self, path: Path) -> bool:
        """Return whether a file has this content, assumed if its size and time are the same.

        Of a file that was growing, only the beginning must have this content.
        """
        size, modified_ns = _size_and_time(path)
        if (size, modified_ns) == (self.bytes, self.modified_ns):
            return True
        return (size == self.bytes or self.grows) and self.is_prefix_of(path)

    def is_prefix_of(self, path: Path) -> bool:
        """Return whether a file begins with this content."""
        size, modified_ns = _size_and_time(path)
        return size >= self.bytes and self.digest == _digest(path, self.bytes, modified_ns)

    def is_truncated(self, path: Path) -> bool:
        """Return whether a file is shorter than this content."""
        return _size_and_time(path)[0] < self.bytes


def count_copied_lines(path: Path, state: FileState) -> int:
    """Return how many lines of a file repeat others, or 0 if it has other changes, too.

    A line contains the time of writing, so only a copying program can have repeated it.
    """
    size, modified_ns = _size_and_time(path)
    if size <= state.bytes:
        return 0
    return _count_copies(path, state.bytes, state.digest, modified_ns)


@lru_cache(maxsize=64)
def _count_copies(path: Path, size: int, digest: str, _modified_ns: int) -> int:
    content = blake2b(digest_size=16)
    n_unique = 0
    for line in _unique_lines(path):
        content.update(line)
        size -= len(line)
        n_unique += 1
    if size or content.hexdigest() != digest:
        return 0
    return sum(1 for _ in read_lines(path)) - n_unique


def remove_copied_lines(path: Path, state: FileState) -> int:
    """Remove the lines that `count_copied_lines` counts, and return their number."""
    n_copies = count_copied_lines(path, state)
    if n_copies:
        with replace_atomically(path) as temporary, temporary.open("wb") as file:
            file.writelines(_unique_lines(path))
    return n_copies


def _unique_lines(path: Path) -> Iterator[bytes]:
    """Yield the complete lines of a file, without repetitions of earlier ones."""
    seen = set[bytes]()
    with convert_read_errors(path):
        for _, line in read_lines(path):
            digest = blake2b(line, digest_size=16).digest()
            if digest not in seen:
                seen.add(digest)
                yield line


def compute_states(
    folder: Path, names: Iterable[str], *, grow: bool = False
) -> dict[str, dict[str, Any]]:
    """Return the current states of files, by name, in the form of a manifest.

    ``grow`` says whether a command is adding to them.
    """
    states = {}
    for name in names:
        size, modified_ns = _size_and_time(folder / name)
        digest = _digest(folder / name, size, modified_ns)
        states[name] = msgspec.to_builtins(FileState(size, modified_ns, digest, grow))
    return states


def recorded_states(manifest: Mapping[str, Any]) -> dict[str, FileState]:
    """Return the file states in a manifest, by name ({} if an earlier version wrote it)."""
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.convert(manifest.get(STATES_KEY) or {}, dict[str, FileState])
    return {}


def find_changed_file(folder: Path, names: Collection[str]) -> str:
    """Return the name of the first changed file of those in ``names``, or ""."""
    return next(find_changed_files(folder, lambda name: name in names), "")


def find_changed_files(folder: Path, is_checked: Callable[[str], bool]) -> Iterator[str]:
    """Yield the names of changed files for which ``is_checked`` is true."""
    for name, state in recorded_states(_read_manifest(folder)).items():
        if is_checked(name) and not state.matches(folder / name):
            yield name


def record_states(folder: Path, states: Mapping[str, Mapping[str, Any]]) -> None:
    """Add or replace states in a run's manifest, unless an earlier version wrote it."""
    manifest = _read_manifest(folder)
    if STATES_KEY in manifest:
        write_json(folder / MANIFEST, manifest | {STATES_KEY: manifest[STATES_KEY] | states})


def remove_states(folder: Path, names: Iterable[str]) -> None:
    """Remove the states of files from a run's manifest, before the files are rewritten."""
    manifest = _read_manifest(folder)
    if STATES_KEY in manifest:
        states = {name: state for name, state in manifest[STATES_KEY].items() if name not in names}
        write_json(folder / MANIFEST, manifest | {STATES_KEY: states})


def incomplete_files(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of files that have lost lines which no session has repeated."""
    return frozenset(manifest.get(INCOMPLETE_KEY) or ())


def record_incomplete(folder: Path, names: Collection[str]) -> None:
    """Record in a run's manifest which files have lost lines that no session has repeated."""
    manifest = _read_manifest(folder)
    if incomplete_files(manifest) != {*names}:
        write_json(folder / MANIFEST, manifest | {INCOMPLETE_KEY: sorted(names)})


def record_redraws(folder: Path, redraws: Mapping[str, object]) -> None:
    """Record in a run's manifest how often each judge has repeated judgements."""
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
                while size > 0 and (chunk := file.read(min(size, CHUNK_BYTES))):
                    content.update(chunk)
                    size -= len(chunk)
    return content.hexdigest()


def _size_and_time(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


# The seal of a line says which run wrote it, and has a checksum. It reveals a line that was edited,
# or that another run wrote, whatever else happened to the file. The seal is the last field of the
# line: ``,"run":"TAG.CHECKSUM"}``.

_SEAL_BEGIN = b',"run":"'
_SEAL_END = b'"}\n'
_TAG_LENGTH = 16  # characters
_CHECKSUM_LENGTH = 8
_SEAL_LENGTH = len(_SEAL_BEGIN) + _TAG_LENGTH + 1 + _CHECKSUM_LENGTH + len(_SEAL_END)


def run_tag(run_id: str) -> str:
    """Return the tag in the seals of a run's lines, given the run's id."""
    return run_id[-_TAG_LENGTH:].rjust(_TAG_LENGTH, "-")


def seal_line(line: bytes, tag: str) -> bytes:
    """Add a seal to a line, which is a JSON object and a line feed."""
    content = line[: -len(b"}\n")]
    return content + _SEAL_BEGIN + tag.encode() + b"." + _checksum(content) + _SEAL_END


def _checksum(content: bytes | memoryview) -> bytes:
    return f"{crc32(content):0{_CHECKSUM_LENGTH}x}".encode()


def _seal_tag(line: bytes) -> str:
    """Return the tag in a line's seal, or "" if the line has none."""
    if line[-_SEAL_LENGTH : len(_SEAL_BEGIN) - _SEAL_LENGTH] != _SEAL_BEGIN:
        return ""
    return line[len(_SEAL_BEGIN) - _SEAL_LENGTH :][:_TAG_LENGTH].decode(errors="replace")


class _Manifest(msgspec.Struct):
    id: str = ""
    merged_ids: list[str] = []
    sealed: bool = False


class LineSeals:
    """A checker of the seals of lines in a run's folder.

    Lines without a seal come from earlier versions, so only runs that were started by an earlier
    version may have them.
    """

    def __init__(self, folder: Path) -> None:
        manifest = read_json(folder / MANIFEST, _Manifest, "Restore it, or start a new run.")
        self._tags = {run_tag(run_id) for run_id in (manifest.id, *manifest.merged_ids) if run_id}
        if self._tags and not manifest.sealed:
            self._tags.add("")

    def check(self, line: bytes, path: Path, number: int) -> None:
        """Check that a line is from this run, and was not edited.

        Raises:
            DataInvalid: If not. The message names the path and the line's number.
        """
        if not self._tags:  # there is no manifest
            return
        tag = _seal_tag(line)
        if tag not in self._tags:
            problem = "this line is from another run" if tag else "this line has no seal"
        elif tag and not line.endswith(_checksum(memoryview(line)[:-_SEAL_LENGTH]) + _SEAL_END):
            problem = "this line was edited"
        else:
            return
        remedy = "Restore the file. Or delete it, and run the run file again: the paid replies "
        raise DataInvalid(f"{path}, line {number}: {problem}.", f"{remedy}are in the cache.")
