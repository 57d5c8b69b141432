"""The batches of a provider, as a capability of backends: many requests in one job, for less."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from harness.errors import CallError
from harness.records import Reply, Request


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """A provider's limits on one batch, and the time within which it must end."""

    requests: int
    bytes: int
    window_h: int = 24


class BatchState(NamedTuple):
    """What a provider says about a batch."""

    ended: bool
    done: int  # requests with a reply so far, as far as the provider says
    failed: int
    cancelled: bool = False
    problem: str = ""  # why the batch failed as a whole; empty if it did not
    too_many_tokens: bool = False  # whether it failed because too many tokens are enqueued


class BatchUnsure(Exception):
    """It cannot be said yet whether a batch was created. To be asked again later."""


Outcome = Reply | CallError | None
"""The outcome of a request in a batch. None if it was not executed (expired, or cancelled)."""


@runtime_checkable
class Batched(Protocol):
    """A backend whose provider has batches.

    A failure raises a `harness.errors.CallError`. The harness retries, so the backend must not.
    """

    @property
    def batch_limits(self) -> BatchLimits | None:
        """The provider's limits, or None if it has no batches that this backend knows."""

    def batch_bytes(self, request: Request) -> int:
        """Return the size of a request in a batch."""

    async def create_batch(self, tag: str, entries: Sequence[tuple[str, Request]]) -> str:
        """Create a batch, and return its id. An entry is a request with its name in the batch.

        Names are unique, and at most 64 letters, digits, ``-`` and ``_``. They end with the tag.
        """

    async def find_batch(
        self, tag: str, since: float, requests: int, others: Collection[str]
    ) -> str | None:
        """Return the id of the batch that was created with a tag, or None if there is none.

        Args:
            tag: The tag.
            since: A Unix time before the batch's creation.
            requests: The number of its requests.
            others: Ids of batches that are known to have other tags.

        Raises:
            BatchUnsure: If that cannot be said yet.
        """

    async def poll_batch(self, batch: str) -> BatchState:
        """Return the state of a batch, given its id."""

    def batch_outcomes(
        self, batch: str, request: Callable[[str], Request]
    ) -> AsyncIterator[tuple[str, Outcome]]:
        """Yield the name and the outcome of each request of a batch that has ended, in any order.

        ``request`` returns the request of a name, which may lack the messages. Requests that were
        not executed may be missing, and an outcome may be yielded twice.
        """

    async def cancel_batch(self, batch: str) -> None:
        """Cancel a batch, given its id. It ends later, with the outcomes of a part of it."""
