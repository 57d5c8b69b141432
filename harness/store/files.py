"""Writes files atomically: a crash leaves either the old or the new content."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from threading import get_ident
from typing import BinaryIO

import msgspec

from harness.errors import ConfigError, StoreFailed

REMEDY = "Free some space or fix the permissions, then try again."
OUTPUT_REMEDY = "Free some space or fix the permissions, or name another file."
RUN_REMEDY = "Free some space or fix the permissions, or set HARNESS_RUNS_DIR to another folder."

NOT_REGULAR = "It is not a regular file"

RUN_FILES = (  # never overwritten by exports and reports
    *("attempts.jsonl", "judgements.jsonl", "scores.jsonl", "judges.json", ".lock"),
    *("config.yaml", "manifest.json", "metrics.json", "spending.json", "status.json", "rows.jsonl"),
    *("aggregates.json", "prices.json"),
)


NO_LINK_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # 0 on Windows
"""Flags to open a file with: a link is an error (ELOOP), and a pipe is not waited for."""


def open_regular_file(path: Path) -> BinaryIO:
    """Open a regular file of a run's folder for reading.

    The folder may come from somebody else: a link may point to any file of the user, and a device
    may have no end.
    """
    return open(path, "rb", opener=_open_regular)


def _open_regular(path: str, flags: int) -> int:
    opened = os.open(path, flags | NO_LINK_FLAGS)
    mode = os.fstat(opened).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # `open` refuses a folder
        return opened
    os.close(opened)
    raise OSError(errno.EINVAL, NOT_REGULAR)


def read_file(path: Path) -> bytes:
    """Return the content of a file of a run's folder, but not of a link."""
    with open_regular_file(path) as file:
        return file.read()


def sync_folder(folder: Path) -> None:
    """Make a folder's new or renamed files survive a power cut, where that is supported."""
    with contextlib.suppress(OSError):  # not possible on Windows and some file systems
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents, so that they survive a power cut."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync_folder(folder.parent)


@contextlib.contextmanager
def replace_atomically(path: Path, remedy: str = REMEDY, *, follow: bool = False) -> Iterator[Path]:
    """Yield the path of a temporary file. If the block succeeds, the file replaces ``path``.

    If ``path`` is a link, it is replaced or, with ``follow``, the file that it points to.

    Raises:
        StoreFailed: If writing fails, here or in the block. ``remedy`` becomes the error's remedy.
    """
    temporary = path
    try:
        target = path.resolve() if follow and path.is_symlink() else path
        temporary = target.with_name(f".{target.name[:100]}.{os.getpid()}.{get_ident()}")
        temporary.unlink(missing_ok=True)  # it may be a link
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())  # before the old content is replaced
        temporary.replace(target)
        sync_folder(target.parent)
    except BrokenPipeError:  # from printing in the block, not from the file
        raise
    except OSError as error:
        raise StoreFailed(f"Cannot write {path}: {error.strerror or error}.", remedy) from None
    finally:
        if temporary != path:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Create a file or replace its content atomically."""
    with replace_atomically(path, RUN_REMEDY) as temporary:
        temporary.write_bytes(content)


def format_json(value: object) -> bytes:
    """Return ``value`` as indented JSON, the content of a file."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def write_json(path: Path, value: object) -> None:
    """Write ``value`` to a file atomically, as indented JSON."""
    write_atomically(path, format_json(value))


@contextlib.contextmanager
def replace_output(path: Path) -> Iterator[Path]:
    """Yield a temporary path for a user's output, as `replace_atomically` does."""
    check_output_path(path)
    with replace_atomically(path, OUTPUT_REMEDY, follow=True) as temporary:
        yield temporary


def check_output_path(path: Path) -> None:
    """Raise ConfigError or StoreFailed if an output file cannot be written at a path."""
    try:
        problem, remedy = _output_problem(path.resolve() if path.is_symlink() else path)
    except OSError as error:
        raise StoreFailed(f"Cannot write {path}: {error.strerror}.", OUTPUT_REMEDY) from None
    if problem:
        raise ConfigError(f"--output {path}{problem}", remedy)


def _output_problem(path: Path) -> tuple[str, str]:
    if path.is_dir():
        return " is a folder.", "Name a file in it."
    if path.exists() and not path.is_file():
        return " exists and is not a regular file.", "Name another file."
    if not path.parent.is_dir():
        return f": there is no folder {path.parent}.", "Create it first."
    if path.name in RUN_FILES and (path.exists() or (path.parent / "config.yaml").exists()):
        return " is a run's own file and is never overwritten.", "Name another file."
    return "", ""
