"""A benchmark's folder: written whole or not at all, and never over what is not its own.

Beside its tables a folder holds ``manifest.json``, which says what built it and the tables'
SHA-256. One that holds anything else, another benchmark's manifest, or a table that is not as it
was built is left as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from harness.datasets.folder import sha256
from harness.errors import RunConflict, StoreFailed

MANIFEST = "manifest.json"


def write(
    out: Path,
    kind: str,
    tables: Mapping[str, Iterable[msgspec.Struct]],
    about: Mapping[str, Any],
    *,
    texts: Mapping[str, str] | None = None,
) -> None:
    """Make the folder, or put it in the place of one that was built before.

    kind: the benchmark's name, told by the manifest.
    tables: of JSONL, by the file's name.
    about: what the manifest says besides its kind and the tables' hashes.
    texts: files that tell people about the tables, by name.

    Raises: RunConflict where there is something else; StoreFailed where it cannot be written.
    """
    contents = {name: _lines(rows) for name, rows in tables.items()}
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    manifest = {"kind": kind, **about, "sha256": hashes}
    files = {
        **contents,
        **{name: text.encode() for name, text in (texts or {}).items()},
        MANIFEST: (json.dumps(manifest, indent=2) + "\n").encode(),
    }
    out = Path(os.path.realpath(out))
    refuse_other(out, kind, files)
    try:
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
    except OSError as error:
        raise StoreFailed(
            f"The benchmark cannot be written to {out}: {error.strerror}.",
            "Check the path, its permissions and the space left.",
        ) from None


def refuse_other(out: Path, kind: str, files: Collection[str]) -> None:
    """Leave alone what was not built here.

    files: the names of those that a benchmark of this kind has besides its manifest.

    Raises: RunConflict where something else is there, a table was changed since it was built, or
        the folder is the working directory; StoreFailed where it cannot be looked at.
    """
    try:
        if Path.cwd().is_relative_to(os.path.realpath(out)):
            raise RunConflict(
                f"{out} is the working directory, or one above it: a build takes a folder's place.",
                "Name a folder below it, such as --out mine.",
            )
        if not out.exists():
            return
        found = {each.name for each in out.iterdir()} if out.is_dir() else None
        if found == set():
            return
        built = _hashes(out / MANIFEST, kind)
        if found is None or found - {MANIFEST, *files} or built is None:
            raise RunConflict(
                f"{out} is there and is not a benchmark that was built here, or holds other files "
                "too.",
                "Name another folder, or move it away.",
            )
        for name in sorted(found & built.keys()):
            if sha256(out / name) != built[name]:
                raise RunConflict(
                    f"{out / name} was changed since it was built: a new build would lose that.",
                    "Name another folder, or move this one away.",
                )
    except OSError as error:
        raise StoreFailed(f"Cannot look into {out}: {error.strerror}.", "Check it.") from None


def _hashes(manifest: Path, kind: str) -> dict[str, Any] | None:
    """The SHA-256 of the tables by their names; None where it is no such benchmark's manifest."""
    try:
        said = json.loads(manifest.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or said.get("kind") != kind:
        return None
    hashes = said.get("sha256")
    return hashes if isinstance(hashes, dict) else None


def _lines(rows: Iterable[msgspec.Struct]) -> bytes:
    encoder = msgspec.json.Encoder()
    return b"".join(encoder.encode(row) + b"\n" for row in rows)
