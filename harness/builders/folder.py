"""A benchmark's folder: written whole or not at all, never over other files.

Besides its tables, a folder holds ``manifest.json``: what built it, and the SHA-256 of the tables.
A folder is left alone if it holds other files, another manifest, or a table changed since the
build.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from harness.datasets.folder import sha256
from harness.errors import RunConflict, StoreFailed

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class BuiltFolder:
    """A built data set: its number of instances, the content of its manifest, its report.

    Attributes:
        resumed: Number of stages whose results were reused from an interrupted build.
    """

    folder: Path
    instances: int
    facts: dict[str, Any]
    report: str
    resumed: int = 0


class _Manifest(msgspec.Struct):
    kind: str
    sha256: dict[str, str]


@contextlib.contextmanager
def explained(doing: str) -> Iterator[None]:
    """Raise `StoreFailed` ("Cannot …") for an error of the file system."""
    try:
        yield
    except OSError as error:
        remedy = "Check the path, its permissions and the free space."
        raise StoreFailed(f"Cannot {doing}: {error.strerror}.", remedy) from None


def write(
    out: Path,
    kind: str,
    tables: Mapping[str, Iterable[msgspec.Struct]],
    facts: Mapping[str, Any],
    texts: Mapping[str, str] | None = None,
) -> None:
    """Write the folder, or replace one that was built before.

    Args:
        tables: JSONL files by name.
        texts: Files about the tables by name.

    Raises:
        RunConflict: The folder holds something else.
        StoreFailed: It cannot be written.
    """
    encode = msgspec.json.Encoder().encode
    files = {name: b"".join(encode(row) + b"\n" for row in rows) for name, rows in tables.items()}
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    files |= {name: text.encode() for name, text in (texts or {}).items()}
    manifest = {"kind": kind, **facts, "sha256": hashes}
    files[MANIFEST] = (json.dumps(manifest, indent=2) + "\n").encode()
    out = Path(os.path.realpath(out))
    refuse_other(out, kind, files)
    with explained(f"write the benchmark to {out}"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as aside:
            new, old = Path(aside, "new"), Path(aside, "old")
            new.mkdir()
            for name, content in files.items():
                (new / name).write_bytes(content)
            if out.exists():
                out.rename(old)
            try:
                new.rename(out)
            except OSError:
                with contextlib.suppress(OSError):
                    old.rename(out)
                raise


def refuse_other(out: Path, kind: str, files: Collection[str]) -> None:
    """Refuse to replace anything but an unchanged benchmark of this kind.

    Args:
        files: The names of its files besides the manifest.

    Raises:
        RunConflict: The folder holds something else, a table was changed since it was built, or
            the folder is the working directory.
        StoreFailed: It cannot be read.
    """
    with explained(f"read {out}"):
        if Path.cwd().is_relative_to(os.path.realpath(out)):
            message = f"{out} is the working directory or one above it"
            remedy = "Name a folder below it, for example --out mine."
            raise RunConflict(f"{message}, and a build replaces a folder.", remedy)
        found = {each.name for each in out.iterdir()} if out.is_dir() else set()
        if not found and not out.is_file():
            return
        remedy = "Name another folder, or move this one away."
        built = _Manifest("", {})
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
            built = msgspec.json.decode((out / MANIFEST).read_bytes(), type=_Manifest)
        if built.kind != kind or found - {MANIFEST, *files}:
            message = f"{out} exists and is not a benchmark that was built here"
            raise RunConflict(f"{message}, or holds other files.", remedy)
        for name in sorted(found & built.sha256.keys()):
            if sha256(out / name) != built.sha256[name]:
                message = f"{out / name} was changed since it was built"
                raise RunConflict(f"{message}; a new build would lose that.", remedy)
