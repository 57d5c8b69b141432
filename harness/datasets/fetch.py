"""Fetching a data set: originals are downloaded, and the files that the harness reads made of them.

Originals are kept in ``DATA/downloads/NAME/``, where those that were downloaded by hand are found,
too. A product gets its name once its hash is right, and one that is there is never written over.
``seen.json`` there records what was seen; where the catalogue knows no hash of a product, that
of the first fetch holds from then on.

>>> fetch(data_set("collie"), Path("/data")).made  # doctest: +SKIP
['collie/instances.jsonl', …]
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec
from filelock import FileLock, Timeout

from harness.datasets.catalogue import DataSet, Original, Product
from harness.datasets.download import Progress, download, public, refuse_difference
from harness.datasets.folder import sha256
from harness.errors import DataInvalid, DataMissing, UserError

State = Literal["there", "missing", "other"]

SEEN = "seen.json"


class Seen(msgspec.Struct):
    """A file as it was when it was fetched."""

    sha256: str
    size: int
    url: str = ""


@dataclass(slots=True)
class Fetched:
    """What a fetch has done.

    made: products that were not there before.
    seen: originals whose hash the catalogue does not know, with what was seen.
    """

    made: list[str] = field(default_factory=list)
    seen: dict[str, Seen] = field(default_factory=dict)


def states(found: DataSet, root: Path) -> dict[str, State]:
    """Whether each product is there, missing, or there with other content."""
    seen = _read_seen(found, root)
    return {product.path: _state(product, root, seen) for product in found.products}


def summary(found: DataSet, root: Path) -> str:
    """Whether a data set is there, in a word: yes, no, in part, or with other content."""
    state = set(states(found, root).values())
    if "other" in state:
        return "other content"
    if len(state) > 1:
        return "in part"
    return "yes" if state == {"there"} else "no"


def fetch(
    found: DataSet,
    root: Path,
    mirror: str | None = None,
    progress: Callable[[Original], Progress] = lambda original: lambda there, total: None,
) -> Fetched:
    """Bring a data set's products into the data folder, as far as they are not there.

    mirror: a URL below which the originals are found as ``NAME/FILE``, instead of the
        public ones.
    progress: gives what is told of an original's download.

    Raises: DataMissing, DataInvalid, and UserError where another process is at it.
    """
    before = states(found, root)
    missing = [product for product in found.products if before[product.path] == "missing"]
    _refuse_others(path for path, state in before.items() if state == "other")
    if not missing:
        return Fetched()
    downloads = root / "downloads" / found.name
    try:
        _make_folder(downloads)
        with FileLock(downloads / ".lock", timeout=0):
            return _fetch(found, root, missing, downloads, mirror, progress)
    except Timeout:
        raise UserError(
            f"Another process is fetching {found.name!r}.", "Wait until it has ended."
        ) from None
    except OSError as error:
        raise DataMissing(
            f"Cannot write {error.filename or downloads}: {error.strerror}.",
            "Mend that, or set HARNESS_DATA_DIR to another folder, and run the command again.",
        ) from None


def _fetch(
    found: DataSet,
    root: Path,
    missing: list[Product],
    downloads: Path,
    mirror: str | None,
    progress: Callable[[Original], Progress],
) -> Fetched:
    fetched = Fetched()
    seen = _read_seen(found, root)
    needed = {product.original for product in missing}
    arrived: set[str] = set()
    for original in found.originals:
        if original.name not in needed:
            continue
        file = downloads / original.name
        url = ""
        if file.is_file():
            refuse_difference(original, file)
        else:
            url = f"{mirror.rstrip('/')}/{found.name}/{original.name}" if mirror else original.url
            download(original, url, file, progress(original))
            arrived.add(original.name)
        seen[original.name] = Seen(sha256(file), file.stat().st_size, public(url))
        if original.sha256 is None:
            fetched.seen[original.name] = seen[original.name]
    for product in missing:
        try:
            made = _make(product, downloads, root, seen)
        except DataInvalid:
            if product.original in arrived:  # but never what was put there by hand
                (downloads / product.original).unlink()
            raise
        seen[product.path] = made
        fetched.made.append(product.path)
    new = downloads / f".{SEEN}.new"
    _write(new, [msgspec.json.format(msgspec.json.encode(seen), indent=1)])
    new.replace(downloads / SEEN)
    return fetched


def _make(product: Product, downloads: Path, root: Path, seen: dict[str, Seen]) -> Seen:
    """Make a product of its original.

    Raises: DataInvalid where its hash is another, and then it is not there.
    """
    original, path = downloads / product.original, root / product.path
    expected = _expected(product, seen)
    _make_folder(path.parent)
    new = path.with_name(f".{path.name}.new")
    try:
        made = _write(new, product.make(original))
        if expected not in (None, made.sha256):
            raise DataInvalid(
                f"What {original} gives for {product.path} has the sha256 {made.sha256} and not "
                f"{expected}; it is not used.",
                f"Remove {original} if you put it there yourself, and run the command again."
                if product.sha256
                else f"At the first fetch it was that. If you trust the new one, remove "
                f"{downloads / SEEN}, and run the command again.",
            )
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return made


def _write(file: Path, pieces: Iterable[bytes]) -> Seen:
    """Write a file, and say what is in it.

    Nobody else may write to it, whatever the umask: NLTK refuses parameters otherwise.
    """
    digest, size = hashlib.sha256(), 0
    with open(file, "wb", opener=lambda path, flags: os.open(path, flags, 0o644)) as opened:
        for piece in pieces:
            digest.update(piece)
            size += opened.write(piece)
        opened.flush()
        os.fsync(opened.fileno())
    return Seen(digest.hexdigest(), size)


def _make_folder(folder: Path) -> None:
    for missing in reversed([folder, *folder.parents]):
        if not missing.is_dir():
            missing.mkdir(mode=0o755, exist_ok=True)  # `parents=True` would not pass the mode on


def _state(product: Product, root: Path, seen: dict[str, Seen]) -> State:
    path = root / product.path
    if not path.is_file():
        return "missing"
    expected = _expected(product, seen)
    try:
        return "there" if expected is None or sha256(path) == expected else "other"
    except OSError as error:
        raise DataMissing(
            f"Cannot read {path}: {error.strerror}.", "Check its permissions."
        ) from None


def _expected(product: Product, seen: dict[str, Seen]) -> str | None:
    if product.sha256 is None and product.path in seen:
        return seen[product.path].sha256
    return product.sha256


def _refuse_others(paths: Iterable[str]) -> None:
    if others := ", ".join(paths):
        raise DataInvalid(
            f"In the data folder there is another content than the published one: {others}.",
            "Move it away, and run the command again.",
        )


def _read_seen(found: DataSet, root: Path) -> dict[str, Seen]:
    file = root / "downloads" / found.name / SEEN
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Seen])
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DataInvalid(f"{file} cannot be read: {error}.", "Remove it.") from None
