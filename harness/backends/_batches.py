"""The common part of backends whose providers have batches."""

import asyncio
import re
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from harness.backends._bodies import json_lines
from harness.backends._http import UNREADABLE, HttpBackend
from harness.errors import CallError
from harness.ports.batches import Outcome
from harness.records import Request

T = TypeVar("T")
SKEW_S = 2 * 86_400  # by which the provider's clock may differ from ours
FILE_READY_S = 1.0  # between checks whether an uploaded file has been processed
NAME = re.compile(rb'"(?:custom_id|key)"\s*:\s*"([\w-]{1,64})"')  # in a line of results
NAME_WITHIN = 10_000  # bytes from the beginning of a line
UNPROCESSED = frozenset({"pending", "running", "PROCESSING"})  # states of files


class Listed(Protocol):
    """An item of a provider's list."""

    @property
    def id(self) -> str: ...


I = TypeVar("I", bound=Listed)  # noqa: E741


class UploadedFile(NamedTuple):
    id: str
    name: str  # as given when it was uploaded
    status: str


class Batching(HttpBackend):
    """Mixin for a backend whose provider has batches (`harness.ports.Batched`)."""

    async def json(
        self, method: str, url: str, read: Callable[[Any], T] = lambda found: found, **parts: Any
    ) -> T:
        """Send a request, and return the result of ``read`` for the JSON value in the response.

        An empty body is read as {}. ``parts`` are those of `HttpClient.opened`.

        Raises:
            CallError: If the request fails, or the response is malformed or too large.
        """
        async with self.client.opened(method, url, **parts) as response:
            content = await self.client.body(response)
        try:
            return read(msgspec.json.decode(content) if content.strip() else {})
        except (*UNREADABLE, TypeError, AttributeError) as error:
            raise self.client.malformed(content, error) from None

    async def results(
        self, url: str, shape: type[T], read: Callable[[T], tuple[str, Outcome]]
    ) -> AsyncGenerator[tuple[str, Outcome], None]:
        """Yield the result of ``read`` for each line of a file of results, decoded as ``shape``.

        The outcome of a damaged or too long line is an error. The name is "" if it is unreadable.

        Raises:
            CallError: If the file cannot be downloaded.
        """
        decoder = msgspec.json.Decoder(shape)
        most = self.client.most_bytes
        async with self.client.opened("GET", url, elsewhere=True) as response:
            async for line in json_lines(response.aiter_bytes(), most):
                if len(line) > most:
                    yield _name(line), self.client.too_large()
                    continue
                try:
                    result = decoder.decode(self.client.without_key(line))
                except UNREADABLE as error:
                    yield _name(line), self.client.malformed(line, error)
                else:
                    yield read(result)

    async def listed(
        self, path: str, read: Callable[[Any], I], after: Literal["after", "after_id", "page"]
    ) -> AsyncIterator[list[I]]:
        """Yield the pages of a list, each item converted with ``read``.

        ``after`` is the parameter that selects a page: by the last id of the page before, or by
        its number.
        """

        def paged(found: Any) -> tuple[list[I], bool]:
            whole = isinstance(found, list)
            items = found if whole else found.get("data") or []
            return [read(item) for item in items], not whole and found.get("has_more") is not False

        numbered = after == "page"
        known = set[str]()
        more = True
        asked: dict[str, Any] = {"page_size": 100, "page": 0} if numbered else {"limit": 100}
        while more:
            page, more = await self.json("GET", path, paged, params=asked)
            if not {item.id for item in page} - known:
                return
            yield page
            known.update(item.id for item in page)
            asked[after] = asked["page"] + 1 if numbered else page[-1].id

    def outcome(self, body: bytes, request: Request) -> Outcome:
        """Return the reply in a successful response's body, or the error from decoding it."""
        try:
            return self.decoded(body, request)
        except CallError as failed:
            return failed


def _name(line: bytes) -> str:
    """Return the name of a request in a damaged line of a file of results, or ""."""
    name = NAME.search(line[:NAME_WITHIN])
    return name[1].decode() if name else ""


class FileBatching(Batching):
    """Mixin for a backend whose batches are made from a file of requests."""

    @abstractmethod
    def line(self, name: str, request: Request) -> Mapping[str, Any]:
        """Return the JSON object for a request's line of the file."""

    def batch_bytes(self, request: Request) -> int:
        return len(self.content([("x" * 64, request)]))

    def content(self, entries: Sequence[tuple[str, Request]]) -> bytes:
        lines = [msgspec.json.encode(self.line(name, request)) for name, request in entries]
        return b"".join(line + b"\n" for line in lines)

    async def processed(
        self, file: UploadedFile, url: str, read: Callable[[Any], UploadedFile]
    ) -> str:
        """Wait until the provider has processed an uploaded file, and return the file's id."""
        while file.status in UNPROCESSED:
            await asyncio.sleep(FILE_READY_S)
            file = await self.json("GET", url, read)
        return file.id


def older(page: Sequence[float | None], since: float) -> bool:
    """Return whether a list's later pages are too old to hold an object created since a time.

    ``page`` has the creation times of a page's objects. The last must be older than the first, and
    more than two days (by which clocks may differ) older than ``since``, a Unix time.
    """
    first, last = (page[at] if page else None for at in (0, -1))
    return first is not None and last is not None and first > last and last < since - SKEW_S


def moment(created: Any) -> float | None:
    """Convert a Unix time or a time in ISO format to a Unix time, other types to None."""
    if isinstance(created, str):
        return datetime.fromisoformat(created).timestamp()
    return created if isinstance(created, int | float) else None
