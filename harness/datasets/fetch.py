"""Fetches a data set: downloads its originals, and makes from them the files that the harness
reads.

Originals are kept in ``DATA/downloads/NAME/``, where files that you downloaded by hand are found
too. A product gets its name only when its hash is right, and an existing one is never overwritten.
``seen.json`` in that folder records the hashes found; if the catalogue has no hash of a product,
later fetches must match the first one.

An interrupted download resumes. What has arrived is kept in ``FILE.part``; ``FILE.part.from`` says
which version of which URL it is part of. The server is asked for the rest of that version only
(`If-Range`); if it has another version by now, or no ranges, the download starts from the
beginning. Only a file of the right size and hash ever gets the name ``FILE``.

>>> fetch(data_set("collie"), Path("/data")).made  # doctest: +SKIP
['collie/instances.jsonl', …]
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from filelock import FileLock, Timeout

from harness.datasets.catalogue import DataSet, Original, Product
from harness.datasets.folder import sha256
from harness.errors import DataInvalid, DataMissing, UserError

if TYPE_CHECKING:  # slow to import, and most commands need no network
    import httpx2

SILENCE = 30.0
"""Seconds without a byte after which a server is given up."""
SLOWEST = 1000
"""Bytes per second: a server that is slower than this for longer than that is given up too."""
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
    """Return whether each product exists (there), is missing, or has other content."""
    seen = _read_seen(found, root)
    return {product.path: _state(product, root, seen) for product in found.products}


def summary(found: DataSet, root: Path) -> str:
    """Summarise whether a data set is installed: yes, no, in part, or with other content."""
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
            f"The data folder has other content than the published one: {others}.",
            "Move it away, and run the command again.",
        )
    missing = [product for product in found.products if before[product.path] == "missing"]
    if not missing:
        return Fetched()
    downloads = root / "downloads" / found.name
    try:
        _make_folder(downloads)
        with FileLock(downloads / ".lock", timeout=0):
            seen = _read_seen(found, root)
            fetched, arrived = _originals(found, missing, downloads, mirror, progress, seen)
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
    except Timeout:
        raise UserError(
            f"Another process is fetching {found.name!r}.", "Wait until it has finished."
        ) from None
    except OSError as error:
        raise DataMissing(
            f"Cannot write {error.filename or downloads}: {error.strerror}.",
            "Fix that, or set HARNESS_DATA_DIR to another folder, and run the command again.",
        ) from None


def _originals(
    found: DataSet,
    missing: list[Product],
    downloads: Path,
    mirror: str | None,
    progress: Callable[[Original], Progress],
    seen: dict[str, Seen],
) -> tuple[Fetched, set[str]]:
    """Download the originals that are needed, and return the names of those downloaded."""
    fetched = Fetched()
    arrived: set[str] = set()
    needed = {product.original for product in missing}
    for original in found.originals:
        if original.name not in needed:
            continue
        file = downloads / original.name
        url = ""
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
    return fetched, arrived


def _make(product: Product, downloads: Path, root: Path, seen: dict[str, Seen]) -> Seen:
    """Make a product from its original.

    Raises:
        DataInvalid: Its hash is not the expected one; then it is not written.
    """
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
        raise DataMissing(
            f"Cannot read {path}: {error.strerror}.", "Check its permissions."
        ) from None


def _expected(product: Product, seen: dict[str, Seen]) -> str | None:
    if product.sha256 is None and product.path in seen:
        return seen[product.path].sha256
    return product.sha256


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
    *,
    silence: float = SILENCE,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Download an original to a file in an existing folder.

    Raises:
        DataMissing: It cannot be downloaded; what has arrived is kept for the next time.
        DataInvalid: It is not the expected file; nothing is kept.
    """
    remedy = f"Or download it by hand to {file}, and run the command again."
    transfer = _Transfer(original, url, file, progress, silence, clock)
    try:
        resumed = transfer.arrived()
        transfer.run()
        if resumed and _difference(original, transfer.part):
            # The server does not keep its promise: two versions were joined.
            transfer.discard()
            transfer.run()
        if difference := _difference(original, transfer.part):
            transfer.discard()
            raise DataInvalid(f"{_public(url)} {difference}; nothing of it is kept.", remedy)
        transfer.part.replace(file)
        transfer.origin.unlink(missing_ok=True)
    except OSError as error:
        raise DataMissing(
            f"Cannot write {error.filename or transfer.part}: {error.strerror}.",
            "Fix that and run the command again: it resumes where it stopped.",
        ) from None
    except _Failed as failed:
        kept = transfer.arrived()
        again = f"Run the command again to resume after {kept:,} bytes. " if kept else ""
        raise DataMissing(f"Cannot fetch {_public(url)}: {failed}.", again + remedy) from None


def _public(url: str) -> str:
    """Return a URL without its user name and password."""
    return re.sub(r"//[^/@]*@", "//", url, count=1)


def _difference(original: Original, file: Path) -> str:
    """Describe how a file differs from the original; empty if it does not."""
    size = file.stat().st_size
    if original.size is not None and size != original.size:
        return f"has {size:,} bytes and not {original.size:,}"
    if original.sha256 is not None and (found := sha256(file)) != original.sha256:
        return f"has the sha256 {found} and not {original.sha256}"
    return ""


class _Failed(Exception):
    """The server or the connection failed."""


@dataclass(frozen=True, slots=True)
class _Transfer:
    """One download: appends to a part of the same version, if one exists."""

    original: Original
    url: str
    file: Path
    progress: Progress
    silence: float
    clock: Callable[[], float]

    @property
    def part(self) -> Path:
        """Return the path of the file with what has arrived."""
        return self.file.with_name(f"{self.file.name}.part")

    @property
    def origin(self) -> Path:
        """Return the path of the note on which URL and version the part belongs to."""
        return self.file.with_name(f"{self.file.name}.part.from")

    def arrived(self) -> int:
        """Return the number of bytes that have arrived."""
        return self.part.stat().st_size if self.part.exists() else 0

    def discard(self) -> None:
        """Delete what has arrived."""
        self.part.unlink(missing_ok=True)
        self.origin.unlink(missing_ok=True)

    def run(self) -> None:
        """Transfer what is missing.

        Raises:
            _Failed: The server or the connection failed.
            OSError: A file cannot be written.
            DataInvalid: The file is larger than expected.
        """
        import httpx2

        if self.original.size is not None and self.arrived() == self.original.size:
            return  # interrupted after the last byte
        try:
            # Ranges count the bytes as sent, so they must be sent unencoded.
            with httpx2.Client(
                headers={"Accept-Encoding": "identity", "User-Agent": "harness"},
                follow_redirects=True,
                max_redirects=MOST_REDIRECTS,
                timeout=self.silence,
            ) as client:
                if not self._answered(client, self._condition()):
                    self.discard()
                    self._answered(client, {})
        except httpx2.TooManyRedirects:
            raise _Failed(f"it redirects more than {MOST_REDIRECTS} times") from None
        except httpx2.TimeoutException:
            raise _Failed(f"no answer within {self.silence:g} seconds") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            problem = re.sub(r"^\[Errno -?\d+\] ", "", str(error)).rstrip(".")
            raise _Failed(problem or type(error).__name__) from None

    def _condition(self) -> dict[str, str]:
        """Return headers that ask for the rest, if its version is known."""
        try:
            url, _, version = self.origin.read_text(encoding="utf-8").partition("\n")
        except (FileNotFoundError, UnicodeDecodeError):
            return {}
        if not self.arrived() or url != _public(self.url) or not version:
            return {}
        return {"Range": f"bytes={self.arrived()}-", "If-Range": version}

    def _answered(self, client: httpx2.Client, condition: dict[str, str]) -> bool:
        """Return whether the request was answered; False if the rest is not available."""
        with client.stream("GET", self.url, headers=condition) as response:
            if condition and response.status_code == 416:
                return False
            if response.status_code == 206 and condition:
                start = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
                if start is None or int(start[1]) != self.arrived():
                    return False
                self._receive(response, "ab")
                return True
            if response.status_code != 200:
                status = f"{response.status_code} {response.reason_phrase}".strip()
                raise _Failed(f"the server says {status}")
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise _Failed("the server sends it compressed, though it was asked not to")
            self.part.unlink(missing_ok=True)  # before the note names another version
            tag: str = response.headers.get("ETag", "")
            strong = tag.startswith('"')  # a weak tag does not identify bytes
            version = tag if strong else response.headers.get("Last-Modified", "")
            self.origin.write_text(f"{_public(self.url)}\n{version}", encoding="utf-8")
            self._receive(response, "wb")
            return True

    def _receive(self, response: httpx2.Response, mode: str) -> None:
        before = there = self.arrived() if mode == "ab" else 0
        announced = response.headers.get("Content-Length", "")
        total = before + int(announced) if announced.isdecimal() else self.original.size
        self._refuse_excess(total or 0)
        began = self.clock()
        with self.part.open(mode) as part:
            for piece in response.iter_raw():
                there += len(piece)
                self._refuse_excess(there)
                part.write(piece)
                self.progress(there, total)
                seconds = self.clock() - began
                if seconds > self.silence and there - before < SLOWEST * seconds:
                    raise _Failed(f"less than {SLOWEST:,} bytes per second arrive")
            part.flush()
            os.fsync(part.fileno())

    def _refuse_excess(self, size: int) -> None:
        if size > self.original.limit:
            self.discard()
            raise DataInvalid(
                f"{_public(self.url)} has more than the {self.original.limit:,} bytes expected; "
                "nothing of it is kept.",
                "Check the address; if it is the public one, its publisher has changed the file.",
            )
