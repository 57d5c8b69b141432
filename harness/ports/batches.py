"""Batches, a capability of backends: a provider takes many requests in one job, for less money."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from harness.errors import CallError
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


@runtime_checkable
class Batched(Protocol):
    """A backend whose provider has batches.

    Methods raise a `harness.errors.CallError` if they fail, and must not retry: the harness does.
    """

    @property
    def batch_limits(self) -> BatchLimits | None:
        """The provider's limits, or None if it has no batches that this backend supports."""

    def batch_bytes(self, request: Request) -> int:
        """Return a request's size in a batch, in bytes."""

    async def upload_batch(self, tag: str, entries: Sequence[tuple[str, Request]]) -> str | None:
        """Upload the requests of a batch as a file, and return the file's id.

        If the provider has no such files, the result is None: `create_batch` sends the requests.

        Args:
            tag: A name for the batch, by which `find_batch` and `batch_file` can find it.
            entries: The requests with their names in the batch. Names are unique, end with the tag,
                and have at most 64 letters, digits, ``-`` and ``_``.
        """

    async def create_batch(
        self, tag: str, entries: Sequence[tuple[str, Request]], file: str | None
    ) -> str:
        """Create a batch, and return its id. ``file`` is the result of `upload_batch`."""

    async def batch_file(self, tag: str) -> str | None:
        """Return the id of the file that was uploaded for a batch, or None if there is none."""

    async def delete_file(self, file: str) -> None:
        """Delete an uploaded file, given its id. Creating a batch from it then fails."""

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

    async def poll_batch(self, batch: str) -> BatchState:
        """Return the state of a batch, given its id."""

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

    async def cancel_batch(self, batch: str) -> None:
        """Cancel a batch, given its id. It ends later, with outcomes for some of its requests."""
