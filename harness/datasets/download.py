"""One public file to one local file, going on where an interrupted download stopped.

What has arrived is kept in ``FILE.part``, and beside it in ``FILE.part.from`` which version of
which URL it is part of. A server is asked for the rest of that version only (`If-Range`); if it
has another one by now, or cannot give ranges, the download begins anew. Only a file of the right
size and hash ever gets the name ``FILE``.

>>> download(original, original.url, folder / original.name)  # doctest: +SKIP
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.datasets.catalogue import Original
from harness.datasets.folder import sha256
from harness.errors import DataInvalid, DataMissing

if TYPE_CHECKING:  # it takes a while, and most commands need no network
    import httpx2

SILENCE = 30.0
"""Seconds without a byte after which a server is given up."""
SLOWEST = 1000
"""Bytes per second; a server that is slower for longer than that is given up, too."""
MOST_REDIRECTS = 5

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are there, and all that there will be."""


def download(
    original: Original,
    url: str,
    file: Path,
    progress: Progress = lambda there, total: None,
    *,
    silence: float = SILENCE,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Download an original to a file in a folder that is there.

    Raises: DataMissing where it cannot be had, with what has arrived kept for the next time;
        DataInvalid where it is not what was expected, with nothing kept.
    """
    shown = public(url)
    remedy = f"Or download it by hand to {file}, and run the command again."
    part = file.with_name(f"{file.name}.part")
    origin = file.with_name(f"{file.name}.part.from")
    try:
        resumed = _there(part)
        transfer = _Transfer(original, url, part, origin, progress, silence, clock)
        transfer.run()
        if resumed and _difference(original, part):
            # Two versions were put together by a server that does not keep its promise.
            _remove(part, origin)
            transfer.run()
        difference = _difference(original, part)
        if difference:
            _remove(part, origin)
            raise DataInvalid(f"{shown} {difference}; nothing of it is kept.", remedy)
        part.replace(file)
        _remove(origin)
    except OSError as error:
        raise DataMissing(
            f"Cannot write {error.filename or part}: {error.strerror}.",
            "Mend that and run the command again: it goes on where it stopped.",
        ) from None
    except _Failed as failed:
        kept = _there(part)
        again = f"Run the command again to go on after {kept:,} bytes. " if kept else ""
        raise DataMissing(f"Cannot fetch {shown}: {failed}.", again + remedy) from None


def public(url: str) -> str:
    """A URL without the name and password that it may carry."""
    return re.sub(r"//[^/@]*@", "//", url, count=1)


def _difference(original: Original, file: Path) -> str:
    """What is wrong with a file, "" where nothing is."""
    size = file.stat().st_size
    if original.size is not None and size != original.size:
        return f"has {size:,} bytes and not {original.size:,}"
    if original.sha256 is not None and (found := sha256(file)) != original.sha256:
        return f"has the sha256 {found} and not {original.sha256}"
    return ""


def refuse_difference(original: Original, file: Path) -> None:
    """Refuse a file, put there by hand or earlier, that is not the original.

    Raises: DataInvalid.
    """
    if difference := _difference(original, file):
        raise DataInvalid(f"{file} {difference}.", "Remove it, and run the command again.")


class _Failed(Exception):
    """The server or the way to it."""


@dataclass(frozen=True, slots=True)
class _Transfer:
    """What arrives of a URL, appended to what is there of it.

    origin: holds the URL and the version that the part is of.
    """

    original: Original
    url: str
    part: Path
    origin: Path
    progress: Progress
    silence: float
    clock: Callable[[], float]

    def run(self) -> None:
        """Transfer what is missing.

        Raises: _Failed, OSError, DataInvalid.
        """
        import httpx2

        if self.original.size is not None and _there(self.part) == self.original.size:
            return  # all had arrived when the last one was interrupted
        try:
            # Ranges count the bytes as sent, so they must be sent as they are.
            with httpx2.Client(
                headers={"Accept-Encoding": "identity", "User-Agent": "harness"},
                follow_redirects=True,
                max_redirects=MOST_REDIRECTS,
                timeout=self.silence,
            ) as client:
                if not self._answered(client, self._condition()):
                    _remove(self.part, self.origin)
                    self._answered(client, {})
        except httpx2.TooManyRedirects:
            raise _Failed(f"it redirects more than {MOST_REDIRECTS} times") from None
        except httpx2.TimeoutException:
            raise _Failed(f"no answer within {self.silence:g} seconds") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            said = re.sub(r"^\[Errno -?\d+\] ", "", str(error)).rstrip(".")
            raise _Failed(said or type(error).__name__) from None

    def _condition(self) -> dict[str, str]:
        """Headers that ask for the rest, where it is known of what."""
        there = _there(self.part)
        url, _, version = _text(self.origin).partition("\n")
        if not there or url != public(self.url) or not version:
            return {}
        return {"Range": f"bytes={there}-", "If-Range": version}

    def _answered(self, client: httpx2.Client, condition: dict[str, str]) -> bool:
        """Whether the request was answered; False where the rest is not to be had."""
        with client.stream("GET", self.url, headers=condition) as response:
            if condition and response.status_code == 416:
                return False
            if response.status_code == 206 and condition:
                start = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
                if start is None or int(start[1]) != _there(self.part):
                    return False
                self._receive(response, "ab")
                return True
            if response.status_code != 200:
                said = f"{response.status_code} {response.reason_phrase}".strip()
                raise _Failed(f"the server says {said}")
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise _Failed("the server sends it compressed, though it was asked not to")
            self.part.unlink(missing_ok=True)  # before the note speaks of another version
            self.origin.write_text(f"{public(self.url)}\n{_version(response)}", encoding="utf-8")
            self._receive(response, "wb")
            return True

    def _receive(self, response: httpx2.Response, mode: str) -> None:
        before = there = _there(self.part) if mode == "ab" else 0
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
            _remove(self.part, self.origin)
            raise DataInvalid(
                f"{public(self.url)} has more than the {self.original.limit:,} bytes expected; "
                "nothing of it is kept.",
                "Check the address; if it is the public one, its publisher has changed it.",
            )


def _version(response: httpx2.Response) -> str:
    """What tells this version from others: a strong ETag, else its date, else nothing."""
    tag: str = response.headers.get("ETag", "")
    if tag.startswith('"'):
        return tag
    return str(response.headers.get("Last-Modified", ""))


def _there(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return ""


def _remove(*files: Path) -> None:
    for file in files:
        file.unlink(missing_ok=True)
