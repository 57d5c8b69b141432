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
"""Flags for opening a file: a link is an error (ELOOP), and a pipe does not block."""


def open_regular_file(path: Path) -> BinaryIO:
    """Open a regular file of a run's folder for reading.

    The folder may come from somebody else: a link may point to any file of the user, and a device
    may be endless.

    Raises:
        OSError: If the file is a link, a pipe or a device.
    """
    return open(path, "rb", opener=_open_regular)


def _open_regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | NO_LINK_FLAGS)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # `open` refuses a folder
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, NOT_REGULAR)


def read_file(path: Path) -> bytes:
    """Return the content of a regular file of a run's folder."""
    with open_regular_file(path) as file:
        return file.read()


def sync_folder(folder: Path) -> None:
    """Make a folder's new or renamed files survive a power cut, where that is supported."""
    with contextlib.suppress(OSError):  # not possible on Windows and some file systems
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents, so that they survive a power cut."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync_folder(folder.parent)


@contextlib.contextmanager
def replace_atomically(path: Path, remedy: str = REMEDY, *, follow: bool = False) -> Iterator[Path]:
    """Yield the path of a temporary file, which replaces a file at the end of the ``with`` block.

    If the block raises an exception, the file is not replaced.

    Args:
        path: The file to create or replace.
        remedy: The remedy in the message if writing fails.
        follow: Whether to replace the file that a link points to instead of the link.

    Raises:
        StoreFailed: If writing fails, here or in the block.
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
    """Return a value as indented JSON with a final line feed."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def write_json(path: Path, value: object) -> None:
    """Write a value to a file atomically, as indented JSON."""
    write_atomically(path, format_json(value))


@contextlib.contextmanager
def replace_output(path: Path) -> Iterator[Path]:
    """Yield a temporary path for a user's output file, as `replace_atomically` does.

    Raises:
        ConfigError, StoreFailed: As in `check_output_path`.
    """
    check_output_path(path)
    with replace_atomically(path, OUTPUT_REMEDY, follow=True) as temporary:
        yield temporary


def check_output_path(path: Path) -> None:
    """Check that an output file may be written at a path.

    Raises:
        ConfigError: If the path is a folder or a run's file, or has no parent folder.
        StoreFailed: If the path cannot be accessed.
    """
    try:
        problem, remedy = _output_problem(path.resolve() if path.is_symlink() else path)
    except OSError as error:
        raise StoreFailed(f"Cannot write {path}: {error.strerror}.", OUTPUT_REMEDY) from None
    if problem:
        raise ConfigError(f"--output {path}{problem}", remedy)


def _output_problem(path: Path) -> tuple[str, str]:
    """Return what is wrong with an output path, and the remedy, or two empty texts."""
    if path.is_dir():
        return " is a folder.", "Name a file in it."
    if path.exists() and not path.is_file():
        return " exists and is not a regular file.", "Name another file."
    if not path.parent.is_dir():
        return f": there is no folder {path.parent}.", "Create it first."
    if path.name in RUN_FILES and (path.exists() or (path.parent / "config.yaml").exists()):
        return " is a run's own file and is never overwritten.", "Name another file."
    return "", ""
