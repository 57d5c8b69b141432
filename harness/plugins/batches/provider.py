"""A provider's batches, what providers have in common, and the section ``limits.batch``."""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, NamedTuple, Protocol, TypeVar, cast

import msgspec
from pydantic import BeforeValidator, Field, model_validator
from typing_extensions import override

from harness.backends import DECODE_ERRORS, HttpBackend, bodies
from harness.config.validation import Section
from harness.declarations import declared_members
from harness.errors import CallError
from harness.ports import Backend
from harness.records import Reply, Request


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """A provider's limits on one batch, and the hours within which a batch must end."""

    requests: int
    bytes: int
    window_h: int = 24


class BatchState(NamedTuple):
    """The state of a batch, as its provider reports it."""

    ended: bool
    done: int  # requests with a reply so far, as far as the provider says
    failed: int  # requests that failed so far
    cancelled: bool = False
    expired: bool = False  # whether it ended before all requests were executed
    problem: str = ""  # why the batch failed as a whole; empty if it did not
    too_many_tokens: bool = False  # whether it failed because too many tokens are enqueued


class BatchUnsure(Exception):
    """It is not known yet whether a batch was created. The caller should ask again later."""


Outcome = Reply | CallError | None
"""The outcome of a request in a batch. None if it was not executed (expired, or cancelled)."""


class BatchProvider(ABC):
    """The base class of a provider's batches.

    A plug-in declares as one of its ``batches``, by the backend's name, a function that takes the
    backend and returns an instance, or None if the backend's provider has no batches. A backend can
    also be a subclass itself.

    Methods raise a `harness.errors.CallError` if they fail, and must not retry: the harness does.
    """

    batch_limits: BatchLimits

    @abstractmethod
    def batch_bytes(self, request: Request) -> int:
        """Return a request's size in a batch, in bytes."""

    async def upload_batch(self, tag: str, entries: Sequence[tuple[str, Request]]) -> str | None:
        """Upload the requests of a batch as a file, and return the file's id.

        The default is for a provider without such files: None. `create_batch` sends the requests.

        Args:
            tag: A name for the batch, by which `find_batch` and `batch_file` can find it.
            entries: The requests with their names in the batch. Names are unique, end with the tag,
                and have at most 64 letters, digits, ``-`` and ``_``.
        """
        return None

    @abstractmethod
    async def create_batch(
        self, tag: str, entries: Sequence[tuple[str, Request]], file: str | None
    ) -> str:
        """Create a batch, and return its id. ``file`` is the result of `upload_batch`."""

    async def batch_file(self, tag: str) -> str | None:
        """Return the id of the file that was uploaded for a batch, or None if there is none."""
        return None

    async def delete_file(self, file: str) -> None:
        """Delete an uploaded file, given its id. Creating a batch from it then fails."""
        raise NotImplementedError

    @abstractmethod
    async def find_batch(
        self, tag: str, since: float, requests: int, others: Collection[str]
    ) -> str | None:
        """Return the id of the batch that was created with a tag, or None if there is none.

        Args:
            tag: The tag.
            since: A Unix time before the batch's creation.
            requests: The number of the batch's requests.
            others: Ids of batches that are known to have other tags.

        Raises:
            BatchUnsure: If it is not known yet whether there is such a batch.
        """

    @abstractmethod
    async def poll_batch(self, batch: str) -> BatchState:
        """Return the state of a batch, given its id."""

    @abstractmethod
    def batch_outcomes(
        self, batch: str, request: Callable[[str], Request]
    ) -> AsyncIterator[tuple[str, Outcome]]:
        """Yield the name and the outcome of each request of a batch that has ended, in any order.

        Requests that were not executed may be missing, and outcomes may be repeated. A damaged
        result is an error as the outcome; its name is empty if it is unreadable.

        Args:
            batch: The batch's id.
            request: Returns the request with a given name. Its messages may be missing.
        """

    @abstractmethod
    async def cancel_batch(self, batch: str) -> None:
        """Cancel a batch, given its id. It ends later, with outcomes for some of its requests."""


def batch_provider(name: str, backend: Backend) -> BatchProvider | None:
    """Return the batches of a backend's provider, or None if it has none.

    Args:
        name: The backend's name in run files.
        backend: The backend.
    """
    if isinstance(backend, BatchProvider):
        return backend
    members = declared_members("batches").get(name)
    if members is None:
        return None
    build = cast("Callable[[Backend], BatchProvider | None]", members[0].load())
    return build(backend)


T = TypeVar("T")
SKEW_S = 2 * 86_400  # by which the provider's clock may differ from ours
FILE_READY_S = 1.0  # between checks whether an uploaded file has been processed
NAME = re.compile(rb'"(?:custom_id|key)"\s*:\s*"([\w-]{1,64})"')  # in a line of results
NAME_WITHIN = 10_000  # bytes from the beginning of a line
UNPROCESSED = frozenset({"pending", "running", "PROCESSING"})  # states of files


class UploadedFile(NamedTuple):
    """A file of requests or results, as a provider lists it."""

    id: str
    name: str  # as given when it was uploaded
    status: str


class ProviderBatch(NamedTuple):
    """A batch, as a provider lists it."""

    id: str
    state: BatchState
    created: float | None
    requests: int = 0  # 0 if the provider does not say
    tag: str | None = None  # None if the provider's batches have none
    results: Sequence[str] = ()  # URLs of the files of results


class BatchResult(Protocol):
    """A line of a file of results."""

    @property
    def name(self) -> str: ...


Listed = TypeVar("Listed", UploadedFile, ProviderBatch)
B = TypeVar("B", bound=HttpBackend)
R = TypeVar("R", bound=BatchResult)


class HttpBatchProvider(BatchProvider, Generic[B, R]):
    """Batches of a provider whose backend makes its calls over HTTP.

    Args:
        backend: The backend.
        limits: The provider's limits.
    """

    batches: str  # the path at which batches are created and listed
    result: type[R]  # a line of a file of results
    cancelling = "/cancel"  # follows a batch's path in the request to cancel it
    page: Literal["after", "after_id", "page"] = "after"
    """The parameter that selects a list's page: by the last id of the one before, or its number."""

    def __init__(self, backend: B, limits: BatchLimits) -> None:
        self.backend = backend
        self.client = backend.client
        self.batch_limits = limits

    @abstractmethod
    def read_batch(self, data: Any) -> ProviderBatch:
        """Return the batch that a JSON value describes."""

    @abstractmethod
    def outcome_of(self, result: R, request: Request) -> Outcome:
        """Return the outcome of a request, given its line of a file of results."""

    def path_of(self, batch: str) -> str:
        """Return the path of a batch, given its id."""
        return f"{self.batches}/{batch}"

    @override
    async def poll_batch(self, batch: str) -> BatchState:
        return (await self.json("GET", self.path_of(batch), self.read_batch)).state

    async def result_urls(self, batch: str) -> Sequence[str]:
        """Return the URLs of the files with a batch's results, given its id."""
        return (await self.json("GET", self.path_of(batch), self.read_batch)).results

    @override
    async def batch_outcomes(
        self, batch: str, request: Callable[[str], Request]
    ) -> AsyncIterator[tuple[str, Outcome]]:
        def read(result: R) -> Outcome:
            return self.outcome_of(result, request(result.name))

        for url in await self.result_urls(batch):
            async for result in self.results(url, read):
                yield result

    @override
    async def cancel_batch(self, batch: str) -> None:
        await self.json("POST", f"{self.path_of(batch)}{self.cancelling}")

    async def json(
        self, method: str, url: str, read: Callable[[Any], T] = lambda value: value, **parts: Any
    ) -> T:
        """Send a request, and return the result of ``read`` for the JSON value in the response.

        An empty body is read as {}. ``parts`` are those of `HttpClient.open_response`.

        Raises:
            CallError: If the request fails, or the response is malformed or too large.
        """
        async with self.client.open_response(method, url, **parts) as response:
            content = await self.client.read_body(response)
        try:
            return read(msgspec.json.decode(content) if content.strip() else {})
        except (*DECODE_ERRORS, TypeError, AttributeError) as error:
            raise self.client.malformed_error(content, error) from None

    async def results(
        self, url: str, read: Callable[[R], Outcome]
    ) -> AsyncGenerator[tuple[str, Outcome], None]:
        """Yield the name and the result of ``read`` for each line of a file of results.

        The outcome of a damaged or too long line is an error. The name is "" if it is unreadable.

        Raises:
            CallError: If the file cannot be downloaded.
        """
        decoder = msgspec.json.Decoder(self.result)
        limit = self.client.max_bytes
        async with self.client.open_response("GET", url, elsewhere=True) as response:
            async for line in bodies.split_json_lines(self.client.iter_chunks(response), limit):
                if len(line) > limit:
                    yield _name(line), self.client.too_large_error()
                    continue
                try:
                    result = decoder.decode(self.client.mask_bytes(line))
                except DECODE_ERRORS as error:
                    yield _name(line), self.client.malformed_error(line, error)
                else:
                    yield result.name, read(result)

    async def listed(self, path: str, read: Callable[[Any], Listed]) -> AsyncIterator[list[Listed]]:
        """Yield the pages of a list, each item converted with ``read``."""

        def paged(data: Any) -> tuple[list[Listed], bool]:
            is_list = isinstance(data, list)
            items = data if is_list else data.get("data") or []
            return [read(item) for item in items], not is_list and data.get("has_more") is not False

        numbered = self.page == "page"
        seen = set[str]()
        more = True
        parameters: dict[str, Any] = {"page_size": 100, "page": 0} if numbered else {"limit": 100}
        while more:
            page, more = await self.json("GET", path, paged, params=parameters)
            if not {item.id for item in page} - seen:
                return
            yield page
            seen.update(item.id for item in page)
            parameters[self.page] = parameters["page"] + 1 if numbered else page[-1].id

    async def recent_batches(self, since: float) -> AsyncIterator[ProviderBatch]:
        """Yield the provider's batches, except those that are too old to be created since a time.

        ``since`` is a Unix time. Two days earlier is not too old, because clocks may differ.
        """
        async for page in self.listed(self.batches, self.read_batch):
            for batch in page:
                yield batch
            times = [batch.created or 0.0 for batch in page] or [0.0]
            if 0 < times[-1] < min(times[0], since - SKEW_S):
                return

    def decoded(self, body: bytes, request: Request) -> Outcome:
        """Return the reply in a successful response's body, or the error from decoding it."""
        try:
            return self.backend.decode_reply(body, request)
        except CallError as failed:
            return failed


def _name(line: bytes) -> str:
    """Return the name of a request in a damaged line of a file of results, or ""."""
    name = NAME.search(line[:NAME_WITHIN])
    return name[1].decode() if name else ""


class FileBatchProvider(HttpBatchProvider[B, R]):
    """Batches that are made from a file of requests."""

    files = "/files"  # the path at which files are listed
    suffix = ".jsonl"  # follows the tag in a file's name

    @abstractmethod
    def line(self, name: str, request: Request) -> Mapping[str, Any]:
        """Return the JSON object for a request's line of the file."""

    @abstractmethod
    def read_file(self, data: Any) -> UploadedFile:
        """Return the file that a JSON value describes."""

    def path_of_file(self, file: str) -> str:
        """Return the path of a file, given its id."""
        return f"{self.files}/{file}"

    @override
    def batch_bytes(self, request: Request) -> int:
        return len(self.content([("x" * 64, request)]))

    def content(self, entries: Sequence[tuple[str, Request]]) -> bytes:
        lines = [msgspec.json.encode(self.line(name, request)) for name, request in entries]
        return b"".join(line + b"\n" for line in lines)

    async def uploaded(self, url: str, **parts: Any) -> str:
        """Upload a file, wait until the provider has processed it, and return its id.

        ``parts`` are those of `HttpClient.open_response`.
        """
        file = await self.json("POST", url, self.read_file, **parts)
        while file.status in UNPROCESSED:
            await asyncio.sleep(FILE_READY_S)
            file = await self.json("GET", self.path_of_file(file.id), self.read_file)
        return file.id

    @override
    async def find_batch(
        self, tag: str, since: float, requests: int, others: Collection[str]
    ) -> str | None:
        async for batch in self.recent_batches(since):
            if batch.tag == tag:
                return batch.id
        return None

    @override
    async def batch_file(self, tag: str) -> str | None:
        async for page in self.listed(self.files, self.read_file):
            for file in page:
                if file.name == f"{tag}{self.suffix}":
                    return file.id
        return None

    @override
    async def delete_file(self, file: str) -> None:
        await self.json("DELETE", self.path_of_file(file))


def moment(created: Any) -> float | None:
    """Convert a Unix time or a time in ISO format to a Unix time, other types to None."""
    if isinstance(created, str):
        return datetime.fromisoformat(created).timestamp()
    return created if isinstance(created, int | float) else None


def _seconds(text: object) -> object:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h)", text) if isinstance(text, str) else None
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]] if match else text


class BatchSection(Section):
    """Section ``limits.batch``: how calls are made in the provider's batches."""

    after: Annotated[float | None, BeforeValidator(_seconds)] = Field(
        default=None, gt=0
    )  # time after which a batch is cancelled, such as 30m; None: never
    then: Literal["live"] | None = None  # how its unanswered calls are then made
    poll_s: float = Field(default=60, ge=0.01)  # maximum seconds between status queries
    search_s: float = Field(default=600, ge=0)  # seconds to look for a batch whose id was lost
    detach: bool = False  # whether the run leaves once all its calls are in batches

    @model_validator(mode="after")
    def _keys_belong_together(self) -> BatchSection:
        if (self.after is None) != (self.then is None):
            raise ValueError("after and then need each other: {after: 30m, then: live}")
        return self


def _true_is_the_default(stated: object) -> object:
    return {} if stated is True else stated or None


BATCH = Annotated[BatchSection | None, BeforeValidator(_true_is_the_default)]
