"""The common part of backends whose batches are made from a file of requests, in JSON Lines."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from harness.backends._bodies import json_lines
from harness.backends._http import UNREADABLE, HttpBackend
from harness.errors import CallError
from harness.ports.batches import Outcome
from harness.records import Request

T = TypeVar("T")
SKEW_S = 2 * 86_400  # by which the provider's clock may differ from ours
FILE_READY_S = 1.0  # between questions whether an uploaded file has been processed


class FileBatching(HttpBackend):
    """Mixin for a backend whose batches are made from a file (`harness.ports.Batched`)."""

    @abstractmethod
    def line(self, name: str, request: Request) -> Mapping[str, Any]:
        """Return a request as an object of the file."""

    def batch_bytes(self, request: Request) -> int:
        """Return the size of a request's line in the batch's file, in bytes."""
        return len(self.content([("x" * 64, request)]))

    def content(self, entries: Sequence[tuple[str, Request]]) -> bytes:
        """Return the file of the given requests."""
        lines = [msgspec.json.encode(self.line(name, request)) for name, request in entries]
        return b"".join(line + b"\n" for line in lines)

    async def json(self, method: str, url: str, **parts: Any) -> Any:
        """Return the JSON value that answers a request. ``parts`` are those of `opened`."""
        async with self.client.opened(method, url, **parts) as response:
            content = self.client.without_key(await response.aread())
        try:
            return msgspec.json.decode(content) if content.strip() else None
        except UNREADABLE as error:
            raise self.client.malformed(content, error) from None

    async def results(
        self, url: str, shape: type[T], read: Callable[[T], tuple[str, Outcome]]
    ) -> AsyncIterator[tuple[str, Outcome]]:
        """Yield what ``read`` makes of each line of a file of results."""
        decoder = msgspec.json.Decoder(shape)
        async with self.client.opened("GET", url, elsewhere=True) as response:
            async for line in json_lines(response.aiter_bytes()):
                try:
                    result = decoder.decode(self.client.without_key(line))
                except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                    raise self.client.malformed(line, error) from None
                yield read(result)

    def outcome(self, body: bytes, request: Request) -> Outcome:
        """Return the reply in the body of a successful answer, or why there is none."""
        try:
            return self.decoded(body, request)
        except CallError as failed:
            return failed

    async def processed(self, file: Mapping[str, Any], url: str, unready: Sequence[str]) -> None:
        """Wait until the provider has processed an uploaded file."""
        while file.get("status", file.get("state")) in unready:
            await asyncio.sleep(FILE_READY_S)
            file = await self.json("GET", url)


def older(page: Sequence[Any], since: float) -> bool:
    """Return whether a page of a list ends before a Unix time, and so do all later pages.

    ``page`` has the times at which the objects of the page were created. The latest must be the
    first; if the provider lists them in another order, the result is False.
    """
    first, last = (_moment(page[at]) if page else None for at in (0, -1))
    return first is not None and last is not None and first > last and last < since - SKEW_S


def _moment(created: Any) -> float | None:
    if isinstance(created, str):
        return datetime.fromisoformat(created).timestamp()
    return created if isinstance(created, int | float) else None
