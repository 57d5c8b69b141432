"""The folder of a built benchmark, which is never half-written and never replaces other files.

The results of a build's stages are saved next to it. A saved result is reused if its key, a hash of
everything that it depends on, has not changed. In its card and its report, which are Markdown,
all values are escaped.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
from filelock import FileLock, Timeout
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

import harness
from harness.datasets.folder import sha256
from harness.errors import ConfigError, DataInvalid, DataMissing, RunConflict, StoreFailed
from harness.records import JsonObject
from harness.store.files import replace_atomically

T = TypeVar("T")

MARK = "stages.json"  # marks a folder of stages; no other folder is ever emptied
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class BuiltFolder:
    """A built data set, with its manifest and report.

    ``resumed`` counts the saved results that the build reused.
    """

    folder: Path
    instances: int
    facts: JsonObject
    report: str
    resumed: int = 0


class _Manifest(msgspec.Struct):
    kind: str
    sha256: dict[str, str]


@contextlib.contextmanager
def explained(doing: str) -> Iterator[None]:
    """Convert an OSError in the block to StoreFailed ("Cannot ``doing``: …")."""
    try:
        yield
    except OSError as error:
        remedy = "Check the path, its permissions and the free space."
        raise StoreFailed(f"Cannot {doing}: {error.strerror}.", remedy) from None


def write(
    out: Path,
    kind: str,
    tables: Mapping[str, Iterable[msgspec.Struct | Mapping[str, Any]]],
    facts: Mapping[str, Any],
    texts: Mapping[str, str] | None = None,
) -> None:
    """Write the folder of a benchmark, with a manifest. The folder is never half-written.

    Args:
        out: The folder. An earlier build of the same kind is replaced.
        kind: The kind of benchmark, which the manifest records.
        tables: The rows of each JSONL file, by file name.
        facts: Other facts to record in the manifest.
        texts: The content of each other file, by file name.
    """
    encode = msgspec.json.Encoder().encode
    contents: dict[str, bytes] = {}
    hashes: dict[str, str] = {}
    for name, rows in tables.items():
        contents[name] = b"".join([encode(row) + b"\n" for row in rows])
        hashes[name] = hashlib.sha256(contents[name]).hexdigest()
    for name, text in (texts or {}).items():
        contents[name] = text.encode()
    manifest = {"kind": kind, **facts, "sha256": hashes}
    contents[MANIFEST] = (json.dumps(manifest, indent=2) + "\n").encode()
    out = Path(os.path.realpath(out))
    refuse_other(out, kind, contents)
    with explained(f"write the benchmark to {out}"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as aside:
            new = Path(aside, "new")
            old = Path(aside, "old")
            new.mkdir()
            for name, content in contents.items():
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
    """Raise an error if a build must not replace the folder ``out``.

    Args:
        out: The folder. It may be missing, empty, or a benchmark whose tables have not changed
            since it was built.
        kind: The kind that such a benchmark must have.
        files: The names of the only files, besides the manifest, that it may contain.
    """
    with explained(f"read {out}"):
        if Path.cwd().is_relative_to(os.path.realpath(out)):
            message = f"{out} is the working directory or one above it"
            remedy = "Name a folder below it, for example --output mine."
            raise RunConflict(f"{message}, and a build replaces a folder.", remedy)
        names = set()
        if out.is_dir():
            names = {path.name for path in out.iterdir()}
        if not names and not out.is_file():
            return
        remedy = "Name another folder, or move this one away."
        built = _Manifest("", {})
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
            built = msgspec.json.decode((out / MANIFEST).read_bytes(), type=_Manifest)
        if built.kind != kind or names - {MANIFEST, *files}:
            message = f"{out} exists and is not a benchmark that was built here"
            raise RunConflict(f"{message}, or contains other files.", remedy)
        for name in sorted(names & built.sha256.keys()):
            if sha256(out / name) != built.sha256[name]:
                message = f"{out / name} was changed since it was built"
                raise RunConflict(f"{message}; a new build would lose that.", remedy)


class _Saved(msgspec.Struct, Generic[T]):
    key: str
    result: T


class Stages:
    """The saved results of a build's stages. ``resumed`` counts the results reused so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.resumed = 0

    def saved(self, name: str, key: str, type_: type[T]) -> T | None:
        """Return a stage's result saved under this key, or None."""
        try:
            content = (self.folder / f"{name}.json").read_bytes()
            saved = msgspec.json.decode(content, type=_Saved[type_])  # type: ignore[valid-type]
        except (OSError, msgspec.MsgspecError):  # missing, torn, or from another version
            return None
        return saved.result if saved.key == key else None

    def save(self, name: str, key: str, result: object) -> None:
        """Save a stage's result under a key, replacing any earlier result of the stage."""
        with replace_atomically(self.folder / f"{name}.json") as temporary:
            temporary.write_bytes(msgspec.json.encode(_Saved(key, result)))

    def result(self, name: str, key: str, type_: type[T], make: Callable[[], T]) -> T:
        """Return a stage's result saved under this key, and count it as reused, or make it."""
        saved = self.saved(name, key, type_)
        if saved is not None:
            self.resumed += 1
            return saved
        result = make()
        self.save(name, key, result)
        return result

    def delete(self) -> None:
        """Delete the folder and all saved results."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextlib.contextmanager
    def deleted_on_mistakes(self) -> Iterator[None]:
        """Delete the saved results if the block finds a mistake in the user's settings or data."""
        try:
            yield
        except (ConfigError, DataInvalid, DataMissing):
            self.delete()
            raise


@contextlib.contextmanager
def locked_stages(folder: Path, out: Path) -> Iterator[Stages]:
    """Lock the folder with a build's saved stages, creating it if missing, and yield the stages.

    Messages name ``out``, the folder that the build writes.
    """
    with explained(f"save the build's stages in {folder}"):
        if folder.exists() and not (folder / MARK).is_file() and any(folder.iterdir()):
            message = f"{folder} exists and does not contain the stages of a build."
            raise RunConflict(message, "Move it away.")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARK).write_text("{}\n")
        try:
            lock = FileLock(folder / ".lock", timeout=0).acquire()
        except Timeout:
            remedy = "Wait for it, or choose another --output."
            raise RunConflict(f"Another process is building {out}.", remedy) from None
    with lock:
        yield Stages(folder)


def key_of(*parts: Any) -> str:
    """Return the SHA-256 (hex digits) of plain data or msgspec records."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = msgspec.json.encode(part, order="deterministic")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()


def quoted(text: str, longest: int = 600) -> Markup:
    """Return text as a Markdown block quotation, cut to ``longest`` characters."""
    if len(text) > longest:
        text = f"{text[: longest - 1]}…"
    lines = [f"> {inline(line)}" if line else ">" for line in text.splitlines()]
    return Markup("\n".join(lines))  # noqa: S704 (escaped)


def inline(value: object) -> Markup:
    """Return a value on one line, with Markdown escaped and unprintable characters removed.

    Numbers are formatted, and None is a dash. Markdown from another filter is left as it is.
    """
    if isinstance(value, Markup):
        return value
    if value is None:
        text = "-"
    elif isinstance(value, float):
        text = f"{value:.3f}"
    elif isinstance(value, int):
        text = f"{value:,}"
    else:
        text = str(value)
    line = " ".join(text.split()).translate(_ESCAPES)
    return Markup("".join(filter(str.isprintable, line)))  # noqa: S704 (escaped)


_ESCAPES = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>|#&~!$"})
_TEMPLATES = Environment(
    autoescape=True,  # by `inline`, which leaves nothing for Jinja to escape
    finalize=inline,
    loader=FileSystemLoader(Path(__file__).parent),
    lstrip_blocks=True,
    trim_blocks=True,
    undefined=StrictUndefined,
)
_TEMPLATES.filters |= {"json": json.dumps, "quoted": quoted}


def rendered(template: str, **values: object) -> str:
    """Return a Markdown document from a template of this package. All values are escaped."""
    text = _TEMPLATES.get_template(template).render(values, version=harness.__version__)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
