"""A benchmark's folder: written whole or not at all, and never over what is not its own.

Beside its tables a folder holds ``manifest.json``, which says what built it and the tables'
SHA-256. One that holds anything else, or another benchmark's manifest, is left as it is.
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

    Raises: RunConflict where something else is there; StoreFailed where it cannot be looked at.
    """
    try:
        if not out.exists():
            return
        found = {each.name for each in out.iterdir()} if out.is_dir() else None
    except OSError as error:
        raise StoreFailed(f"Cannot look into {out}: {error.strerror}.", "Check it.") from None
    if found == set():
        return
    if found is None or found - {MANIFEST, *files} or not _is_own(out / MANIFEST, kind):
        raise RunConflict(
            f"{out} is there and is not a benchmark that was built here, or holds other files too.",
            "Name another folder, or move it away.",
        )


def _is_own(manifest: Path, kind: str) -> bool:
    try:
        said = json.loads(manifest.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("kind") == kind


def _lines(rows: Iterable[msgspec.Struct]) -> bytes:
    encoder = msgspec.json.Encoder()
    return b"".join(encoder.encode(row) + b"\n" for row in rows)
