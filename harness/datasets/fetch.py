"""Fetches a data set: downloads its originals, and makes from them the files that the harness
reads.

Originals are kept in ``DATA/downloads/NAME/``, where files that you downloaded by hand are found
too. A file gets its name only when its size and hash are right, and an existing one is never
overwritten. ``seen.json`` in that folder records the hashes found; if the catalogue has no hash of
a product, later fetches must match the first one.

>>> fetch(data_set("collie"), Path("/data")).made  # doctest: +SKIP
['collie/instances.jsonl', …]
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec
from filelock import FileLock, Timeout

from harness.datasets.catalogue import DataSet, Original, Product
from harness.datasets.folder import cannot_read, sha256
from harness.errors import DataInvalid, DataMissing, UserError

SILENCE = 30.0
"""Seconds without a byte after which a download is abandoned."""
MOST_REDIRECTS = 5
SEEN = "seen.json"

State = Literal["there", "missing", "other"]
Progress = Callable[[int, int | None], None]
"""Called with the bytes that have arrived, and how many there will be."""


class Seen(msgspec.Struct):
    """A file as it was when it was fetched."""

    sha256: str
    size: int
    url: str = ""


@dataclass(slots=True)
class Fetched:
    """The result of a fetch.

    Attributes:
        made: Products that did not exist before.
        seen: Originals whose hash the catalogue does not know, as they were found.
    """

    made: list[str] = field(default_factory=list)
    seen: dict[str, Seen] = field(default_factory=dict)


def states(found: DataSet, root: Path) -> dict[str, State]:
    """Return whether each product exists (there), is missing, or has different content."""
    seen = _read_seen(found, root)
    return {product.path: _state(product, root, seen) for product in found.products}


def summary(found: DataSet, root: Path) -> str:
    """Summarise whether a data set is installed: yes, no, partly, or with different content."""
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
    """Make the missing products of a data set in the data folder.

    Args:
        found: The data set.
        root: The data folder.
        mirror: A URL that has the originals as ``NAME/FILE``, used instead of the public ones.
        progress: Returns a callback for an original's download.

    Raises:
        DataMissing: An original cannot be downloaded, or the folder cannot be written.
        DataInvalid: A file is not the expected one.
        UserError: Another process is fetching the data set.
    """
    before = states(found, root)
    if others := ", ".join(path for path, state in before.items() if state == "other"):
        raise DataInvalid(
            f"The data folder's files differ from the published ones: {others}.",
            "Move it away, and run the command again.",
        )
    missing = [product for product in found.products if before[product.path] == "missing"]
    if not missing:
        return Fetched()
    downloads = root / "downloads" / found.name
    try:
        _make_folder(downloads)
        with FileLock(downloads / ".lock", timeout=0):
            return _fetch(found, missing, root, mirror, progress)
    except Timeout:
        raise UserError(
            f"Another process is fetching {found.name!r}.", "Wait until it has finished."
        ) from None
    except OSError as error:
        raise DataMissing(
            f"Cannot write {error.filename or downloads}: {error.strerror}.",
            "Fix that, or set HARNESS_DATA_DIR to another folder, and run the command again.",
        ) from None


def _fetch(
    found: DataSet,
    missing: list[Product],
    root: Path,
    mirror: str | None,
    progress: Callable[[Original], Progress],
) -> Fetched:
    downloads = root / "downloads" / found.name
    seen, fetched = _read_seen(found, root), Fetched()
    arrived: set[str] = set()
    needed = {product.original for product in missing}
    for original in found.originals:
        if original.name not in needed:
            continue
        file, url = downloads / original.name, ""
        if file.is_file():
            if difference := _difference(original, file):
                raise DataInvalid(f"{file} {difference}.", "Remove it, and run the command again.")
        else:
            url = f"{mirror.rstrip('/')}/{found.name}/{original.name}" if mirror else original.url
            download(original, url, file, progress(original))
            arrived.add(original.name)
        seen[original.name] = Seen(sha256(file), file.stat().st_size, _public(url))
        if original.sha256 is None:
            fetched.seen[original.name] = seen[original.name]
    for product in missing:
        try:
            seen[product.path] = _make(product, downloads, root, seen)
        except DataInvalid:
            if product.original in arrived:  # but never a file put there by hand
                (downloads / product.original).unlink()
            raise
        fetched.made.append(product.path)
    new = downloads / f".{SEEN}.new"
    _write(new, [msgspec.json.format(msgspec.json.encode(seen), indent=1)])
    new.replace(downloads / SEEN)
    return fetched


def _make(product: Product, downloads: Path, root: Path, seen: dict[str, Seen]) -> Seen:
    """Make a product from its original; one with an unexpected hash is not written."""
    original, path = downloads / product.original, root / product.path
    expected = _expected(product, seen)
    _make_folder(path.parent)
    new = path.with_name(f".{path.name}.new")
    try:
        made = _write(new, product.make(original))
        if expected not in (None, made.sha256):
            raise DataInvalid(
                f"From {original}, {product.path} gets the sha256 {made.sha256} and not "
                f"{expected}; it is not used.",
                f"Remove {original} if you put it there yourself, and run the command again."
                if product.sha256
                else "The first fetch had that hash. If you trust the new file, remove "
                f"{downloads / SEEN}, and run the command again.",
            )
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return made


def _write(file: Path, pieces: Iterable[bytes]) -> Seen:
    """Write a file that only its owner can write, whatever the umask: NLTK requires that."""
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
            missing.mkdir(mode=0o755, exist_ok=True)  # `parents=True` ignores the mode


def _state(product: Product, root: Path, seen: dict[str, Seen]) -> State:
    path = root / product.path
    if not path.is_file():
        return "missing"
    expected = _expected(product, seen)
    try:
        return "there" if expected is None or sha256(path) == expected else "other"
    except OSError as error:
        raise cannot_read(path, error) from None


def _expected(product: Product, seen: dict[str, Seen]) -> str | None:
    known = seen.get(product.path)
    return known.sha256 if product.sha256 is None and known else product.sha256


def _read_seen(found: DataSet, root: Path) -> dict[str, Seen]:
    file = root / "downloads" / found.name / SEEN
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Seen])
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DataInvalid(f"{file} cannot be read: {error}.", "Remove it.") from None


def download(
    original: Original,
    url: str,
    file: Path,
    progress: Progress = lambda there, total: None,
    silence: float = SILENCE,
) -> None:
    """Download an original to a file in an existing folder; a failed download leaves nothing.

    Raises:
        DataMissing: It cannot be downloaded.
        DataInvalid: It is not the expected file.
    """
    import httpx2  # slow to import, and most commands need no network

    part = file.with_name(f"{file.name}.part")
    remedy = f"Run the command again, or download it by hand to {file}."
    problem = ""
    try:
        with (
            httpx2.Client(
                headers={"User-Agent": "harness"},
                follow_redirects=True,
                max_redirects=MOST_REDIRECTS,
                timeout=silence,
            ) as client,
            client.stream("GET", url) as response,
        ):
            if response.status_code == 200:
                announced = response.headers.get("Content-Length", "")
                total = int(announced) if announced.isdecimal() else original.size
                difference = _receive(original, response.iter_bytes(), part, total, progress)
                if difference:
                    said = f"{_public(url)} {difference}; nothing of it is kept."
                    raise DataInvalid(said, remedy)
                part.replace(file)
            else:
                status = f"{response.status_code} {response.reason_phrase}".strip()
                problem = f"the server says {status}"
    except httpx2.TooManyRedirects:
        problem = f"it redirects more than {MOST_REDIRECTS} times"
    except httpx2.TimeoutException:
        problem = f"no answer within {silence:g} seconds"
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        said = re.sub(r"^\[Errno -?\d+\] ", "", str(error)).rstrip(".")
        problem = said or type(error).__name__
    except OSError as error:
        raise DataMissing(
            f"Cannot write {error.filename or part}: {error.strerror}.",
            "Fix that, and run the command again.",
        ) from None
    finally:
        part.unlink(missing_ok=True)
    if problem:
        raise DataMissing(f"Cannot fetch {_public(url)}: {problem}.", remedy)


def _receive(
    original: Original, pieces: Iterable[bytes], part: Path, total: int | None, progress: Progress
) -> str:
    """Write what arrives; return how it differs from the original, or an empty text."""
    there = 0
    with part.open("wb") as opened:
        for piece in pieces:
            there += opened.write(piece)
            if there > original.limit:
                return f"has more than the {original.limit:,} bytes expected"
            progress(there, total)
        opened.flush()
        os.fsync(opened.fileno())
    return _difference(original, part)


def _public(url: str) -> str:
    """Return a URL without its user name and password."""
    return re.sub(r"//[^/@]*@", "//", url, count=1)


def _difference(original: Original, file: Path) -> str:
    """Describe how a file differs from the original; empty if it does not."""
    size = file.stat().st_size
    if original.size is not None and size != original.size:
        return f"has {size:,} bytes, not {original.size:,}"
    if original.sha256 is not None and (found := sha256(file)) != original.sha256:
        return f"has the sha256 {found}, not {original.sha256}"
    return ""
