"""Batches of requests: the common part of the providers' endpoints, and Anthropic's batches.

A batch is processed when its latency has passed, even if no client polls it. Each completed request
is then counted (billed) once. Results are in random order.
"""

import asyncio
import contextlib
import random
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from time import time
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from harness.plugins.mock import wire
from harness.plugins.mock.anthropic import AnthropicMessages
from harness.plugins.mock.faults import BATCH_FAULTS, Fault, Latency, draw
from harness.plugins.mock.stats import Stats
from harness.plugins.mock.wire import ApiError, Headers, JsonObject, MockError, WireFormat

LATE_S = 1.0
UNLISTED_S = 2.0

Answered = tuple[int, Any]  # status and body of an entry's answer
Process = Callable[[str, bytes, Headers], Answered]
Admit = Callable[[str, bytes, Headers], tuple[str, int]]  # returns model and prompt tokens
Given = Mapping[str, str]  # the query of a URL
Served = JsonObject | list[JsonObject] | bytes  # JSON, or a file
Ending = Literal["failed", "cancelled", "expired", "completed"]


class Reset(Exception):
    """Raised to reset the connection instead of sending a reply."""


@dataclass
class BatchedRequest:
    """A request in a batch, and the path of the endpoint that answers it."""

    custom_id: str
    path: str
    body: bytes
    tokens: int = 0  # of the prompt


@dataclass
class StoredFile:
    """An uploaded file, or a file of results."""

    content: bytes
    name: str = "results.jsonl"
    purpose: str = "batch_output"
    pending: bool = False  # until it is first asked for


@dataclass
class MockBatch:
    """A batch, and the outcomes of its requests once it has ended."""

    id: str
    entries: list[BatchedRequest]
    headers: Headers
    created: float
    seconds: float  # until it is processed
    about: JsonObject  # what the vendor keeps with it
    status: Literal[Ending, "in_progress"] = "in_progress"
    ended: float | None = None
    listed_at: float = 0.0  # when it appears in lists
    outcomes: list[tuple[str, str, Answered | None]] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None

    @property
    def counts(self) -> Counter[str]:
        return Counter(kind for _, kind, _ in self.outcomes)


class BatchSettings:
    """The faults (drawn at random), latency and token limit of all vendors' batches."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.faults: dict[str, float] = {}
        self.latency = Latency(0.0)
        self.enqueued_tokens: int | None = None
        self._drawn = 0

    def change(self, faults: Mapping[str, float] | None, latency: float | str | None) -> None:
        """Set the probabilities of faults and the latency, unless they are None."""
        for name, share in (faults or {}).items():
            if name not in BATCH_FAULTS:
                raise MockError(f"Unknown batch fault {name!r}. Faults: {', '.join(BATCH_FAULTS)}.")
            if not 0 <= share <= 1:
                raise MockError(f"The probability of fault {name} must be in 0..1, not {share}.")
        if latency is not None:
            self.latency = Latency(latency)
        if faults is not None:
            self.faults = dict(faults)

    def happens(self, fault: Fault) -> bool:
        share = self.faults.get(fault, 0.0)
        return share > 0 and self.draw(fault) < share

    def draw(self, what: str) -> float:
        """Return a new pseudo-random number in [0, 1), to decide ``what``."""
        self._drawn += 1
        return draw(self.seed, what, self._drawn)[0]


class VendorBatches(ABC):
    """The batches of one vendor.

    Args:
        settings: The faults and the latency.
        process: Answers the body of a request, and counts the request.
        stats: The counters.
    """

    wire: ClassVar[WireFormat]
    form: ClassVar[str]  # name of the template of the batches' JSON objects
    prefix: ClassVar[str]  # of the batches' ids
    root: ClassVar[str]  # path of the endpoints
    files: ClassVar[str] = "/none"  # path of the endpoints for files
    most_listed: ClassVar[int]  # on a page
    done_when_expired: ClassVar[float] = 0.5  # share of the requests

    def __init__(self, settings: BatchSettings, process: Process, stats: Stats) -> None:
        self.settings = settings
        self._process = process
        self._stats = stats
        self.known: dict[str, MockBatch] = {}

    @abstractmethod
    def create(self, headers: Headers, body: bytes) -> MockBatch:
        """Create the batch that a request's body describes.

        Raises:
            ApiError: If the body is invalid.
        """

    def view(self, batch: MockBatch, headers: Headers) -> JsonObject:
        """Return a batch as a JSON object. The first call after its end may store its results."""
        return wire.filled_json(self.form, batch=batch, host=wire.header(headers, b"host"))

    def serve(
        self, method: str, path: str, query: Given, headers: Headers, body: bytes
    ) -> Served | None:
        """Return the JSON value or file that answers a request, or None if no endpoint matches.

        ``query`` holds the parameters of the request's URL.

        Raises:
            ApiError: If the request is rejected.
            Reset: If the connection is to be reset.
        """
        rest = path.removeprefix(self.root).strip("/")
        if method == "GET" and self.settings.happens("poll_500"):
            raise self.wire.failure(500)
        match method, rest.split("/"):
            case "POST", [""]:
                return self.view(self.created(headers, body), headers)
            case "GET", [""]:
                return self.page(query, headers)
            case "GET", [name]:
                return self.view(self.find(name), headers)
            case "POST", [name, "cancel"]:
                return self.view(self.cancel(self.find(name)), headers)
        return self.other(method, rest)

    def owns(self, path: str) -> bool:
        return bool(re.match(rf"{self.root}(?:/|$)|{self.files}(?:/|$)", path))

    def created(self, headers: Headers, body: bytes) -> MockBatch:
        """Create a batch and return it, unless a fault hides its id from the client.

        Raises:
            ApiError: If the body is invalid.
            Reset: If the fault ``lost_id``, ``unlisted`` or ``late`` happens. The batch is still
                created, with ``late`` a second later.
        """
        if self.settings.happens("late"):
            late = suppressed(ApiError, self.create)
            asyncio.get_running_loop().call_later(LATE_S, late, headers, body)
            raise Reset
        batch = self.create(headers, body)
        if self.settings.happens("unlisted"):
            batch.listed_at = time() + UNLISTED_S
            raise Reset
        if self.settings.happens("lost_id"):
            raise Reset
        return batch

    def newest(self) -> list[MockBatch]:
        """Return the batches in lists, the newest first."""
        return [batch for batch in reversed(self.known.values()) if batch.listed_at <= time()]

    def other(self, method: str, rest: str) -> bytes | None:
        """Return the file that another endpoint of the vendor serves, or None if none matches."""
        return None

    def cancel(self, batch: MockBatch) -> MockBatch:
        """Cancel a batch if it has not ended, and return it."""
        if batch.ended is None:
            self.end(batch, "cancelled")
        return batch

    def begin(
        self, entries: list[BatchedRequest], headers: Headers, about: JsonObject
    ) -> MockBatch:
        """Create a batch, which ends after its latency. ``about`` has the vendor's facts."""
        number = f"{self.settings.seed}/{len(self.known)}"
        name = f"{self.prefix}_{blake2b(number.encode(), digest_size=8).hexdigest()}"
        seconds = self.settings.latency.seconds(self.settings.draw("latency"))
        batch = self.known[name] = MockBatch(name, entries, headers, time(), seconds, about)
        self._stats.counts.batches += 1
        self._stats.counts.batch_requests += len(entries)
        self._stats.counts.open_batches += 1
        how: Ending = "expired" if self.settings.happens("expired") else "completed"
        batch.timer = asyncio.get_running_loop().call_later(seconds, self.end, batch, how)
        return batch

    def end(self, batch: MockBatch, how: Ending) -> None:
        """End a batch with a status, and answer all or some of its requests.

        The share of requests that are answered is 1 if the status is completed, `done_when_expired`
        if it is expired, and otherwise the share of the latency that has passed.
        """
        assert batch.timer is not None
        batch.timer.cancel()
        elapsed = min(1.0, (time() - batch.created) / batch.seconds) if batch.seconds else 1.0
        share = {"completed": 1.0, "expired": self.done_when_expired}.get(how, elapsed)
        done = share * len(batch.entries)
        for place, entry in enumerate(batch.entries):
            if place >= done:
                batch.outcomes.append((entry.custom_id, how, None))
                continue
            answered = self._process(entry.path, entry.body, batch.headers)
            kind = "succeeded" if answered[0] == 200 else "errored"
            batch.outcomes.append((entry.custom_id, kind, answered))
        random.Random(batch.id).shuffle(batch.outcomes)
        batch.status = how
        batch.ended = time()
        self._stats.counts.open_batches -= 1
        self._stats.counts.batch_answered += batch.counts["succeeded"]

    def lines(self, batch: MockBatch, line: Callable[..., Any], kinds: Iterable[str]) -> bytes:
        """Return results of the given ``kinds`` in JSON Lines, with the faults of lines."""
        lines: list[bytes] = []
        for place, (custom_id, kind, answered) in enumerate(batch.outcomes):
            if kind not in kinds:
                continue
            content = msgspec.json.encode(line(place, custom_id, kind, answered))
            if self.settings.happens("damaged"):
                content = content[: len(content) // 2]
            lines.append(content)
            if self.settings.happens("duplicated"):
                lines.append(content)
            if self.settings.happens("foreign"):
                name = f"{custom_id.partition('-')[0]}-foreign"
                lines.append(msgspec.json.encode(line(place, name, kind, answered)))
        return b"".join(content + b"\n" for content in lines)

    def find(self, name: str) -> MockBatch:
        """Return the batch with this id.

        Raises:
            ApiError: With status 404, if there is no such batch.
        """
        if name not in self.known:
            raise ApiError(404, f"No batch found with id '{name}'.")
        return self.known[name]

    def page(self, query: Given, headers: Headers) -> Served:
        """Return a page of the list of batches, the newest first, as a JSON value.

        Raises:
            ApiError: If a parameter of the page is invalid.
        """
        newest = self.newest()
        after = query.get("after") or query.get("after_id")
        if after is not None:
            newest = newest[1 + newest.index(self.find(after)) :]
        size = max(1, min(self.most_listed, self.number(query, "limit", 20)))
        data = [self.view(batch, headers) for batch in newest[:size]]
        ids = [batch["id"] for batch in data] or [None]
        more = {"first_id": ids[0], "last_id": ids[-1], "has_more": len(newest) > size}
        return {"object": "list", "data": data, **more}

    def number(self, query: Given, name: str, default: int) -> int:
        """Return a parameter that is a whole number, or ``default`` if it is not given.

        Raises:
            ApiError: With status 400, if it is not a whole number of at most nine digits.
        """
        text = query.get(name, str(default))
        if not re.fullmatch(r"\d{1,9}", text):
            raise ApiError(400, f"Invalid '{name}': {text:.80} is not a whole number.")
        return int(text)


def suppressed(kind: type[Exception], function: Callable[..., object]) -> Callable[..., None]:
    """Return a function that calls ``function``, and ignores exceptions of one kind."""

    def call(*arguments: object) -> None:
        with contextlib.suppress(kind):
            function(*arguments)

    return call


def check_unique(entries: Iterable[BatchedRequest]) -> str:
    """Return a custom id that several entries have, or "" if all ids are unique."""
    names = set()
    for entry in entries:
        if entry.custom_id in names:
            return entry.custom_id
        names.add(entry.custom_id)
    return ""


class FileBatches(VendorBatches):
    """The batches of a vendor that makes them from files. ``admit`` checks each request."""

    file_id: ClassVar[str]  # a template for ``{number}``

    def __init__(
        self, settings: BatchSettings, process: Process, stats: Stats, admit: Admit
    ) -> None:
        super().__init__(settings, process, stats)
        self._admit = admit
        self._files: dict[str, StoredFile] = {}
        self._stored = 0

    def store(self, file: StoredFile) -> str:
        self._stored += 1
        name = self.file_id.format(number=self._stored)
        self._files[name] = file
        return name

    def file(self, name: str) -> StoredFile:
        """Return the file with this id.

        Raises:
            ApiError: With status 404, if there is no such file.
        """
        if name not in self._files:
            raise ApiError(404, f"No such File object: {name}")
        return self._files[name]


MOST_BYTES = 256_000_000


class _Request(msgspec.Struct):
    custom_id: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}\Z")]
    params: msgspec.Raw


class _Create(msgspec.Struct):
    requests: Annotated[list[_Request], Meta(min_length=1, max_length=100_000)]


class AnthropicBatches(VendorBatches):
    """Anthropic's message batches. They carry no metadata."""

    wire = AnthropicMessages()
    form = "anthropic_batch"
    prefix = "msgbatch"
    root = "/v1/messages/batches"
    most_listed = 1000

    def create(self, headers: Headers, body: bytes) -> MockBatch:
        """Create a batch. The bodies of its requests are not checked yet."""
        if len(body) > MOST_BYTES:
            raise ApiError(413, "Request exceeds the maximum size")
        requests = self.wire.decode(body, _Create).requests
        entries = [
            BatchedRequest(request.custom_id, self.wire.path, bytes(request.params))
            for request in requests
        ]
        if name := check_unique(entries):
            raise self.wire.invalid(f"requests: the custom_id {name} is not unique")
        return self.begin(entries, headers, {})

    def other(self, method: str, rest: str) -> bytes | None:
        name, _, what = rest.partition("/")
        if (method, what) != ("GET", "results"):
            return None
        batch = self.find(name)
        if batch.ended is None:
            raise self.wire.invalid(f"Batch {name} has no results yet.")
        return self.lines(batch, _result, ("succeeded", "errored", "cancelled", "expired"))


def _result(place: int, custom_id: str, kind: str, answered: Answered | None) -> Any:
    result: JsonObject = {"type": {"cancelled": "canceled"}.get(kind, kind)}
    if answered is not None:
        result["message" if kind == "succeeded" else "error"] = answered[1]
    return {"custom_id": custom_id, "result": result}
