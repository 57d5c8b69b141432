"""A benchmark's folder: written whole or not at all, and never over what is not its own.

It holds ``schemas.jsonl``, ``validation.jsonl`` and ``manifest.json``; a folder that holds anything
else, or another manifest, is left as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import RunConflict, StoreFailed

KIND = "concodeeval"
MANIFEST = "manifest.json"
SCHEMAS = "schemas.jsonl"
VALIDATION = "validation.jsonl"


def write(
    out: Path, tables: Mapping[str, Iterable[msgspec.Struct]], about: Mapping[str, Any]
) -> None:
    """Make the folder, or put it in the place of one that was built before.

    about: what the manifest says besides its kind and the files' hashes.

    Raises: RunConflict where there is something else; StoreFailed where it cannot be written.
    """
    contents = {name: _lines(rows) for name, rows in tables.items()}
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    manifest = {"kind": KIND, **about, "sha256": hashes}
    files = {**contents, MANIFEST: (json.dumps(manifest, indent=2) + "\n").encode()}
    out = Path(os.path.realpath(out))
    refuse_other(out)
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


def refuse_other(out: Path) -> None:
    """Leave alone what was not built here.

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
    if found is None or found - {MANIFEST, SCHEMAS, VALIDATION} or not _is_own(out / MANIFEST):
        raise RunConflict(
            f"{out} is there and is not a benchmark that was built here, or holds other files too.",
            "Name another folder, or move it away.",
        )


def _is_own(manifest: Path) -> bool:
    try:
        said = json.loads(manifest.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("kind") == KIND


def _lines(rows: Iterable[msgspec.Struct]) -> bytes:
    encoder = msgspec.json.Encoder()
    return b"".join(encoder.encode(row) + b"\n" for row in rows)
