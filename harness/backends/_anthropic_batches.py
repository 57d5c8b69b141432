"""Anthropic's message batches.

A batch has no metadata. Its requests have names, which end with the batch's tag and appear in its
results. Source: https://platform.claude.com/docs/en/build-with-claude/batch-processing
"""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any

import msgspec

from harness.backends._batches import SKEW_S
from harness.backends._bodies import json_lines
from harness.backends._http import HttpBackend, encode
from harness.backends._sdk_client import SDKClient
from harness.errors import CallError
from harness.ports import BatchLimits, BatchState, BatchUnsure
from harness.ports.batches import Outcome
from harness.records import Request

LIMITS = BatchLimits(requests=100_000, bytes=256_000_000)
STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""HTTP statuses of the types of errors. Any other type counts as 500."""


class _ErrorType(msgspec.Struct):
    type: str = ""


class _Error(msgspec.Struct):
    error: _ErrorType


class _Outcome(msgspec.Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


class _Result(msgspec.Struct):
    custom_id: str
    result: _Outcome


class AnthropicBatching(HttpBackend):
    """Mixin for a backend that makes its calls in message batches (`harness.ports.Batched`)."""

    client: SDKClient

    @property
    def batch_limits(self) -> BatchLimits | None:
        return LIMITS

    def batch_bytes(self, request: Request) -> int:
        return len(encode(self._entry("x" * 64, request))) + 1

    async def upload_batch(self, tag: str, entries: Sequence[tuple[str, Request]]) -> None:
        """Do nothing: the requests are part of the request that creates the batch."""

    async def batch_file(self, tag: str) -> None:
        """Return None: there are no files."""

    async def delete_file(self, file: str) -> None:
        """Do nothing: there are no files."""

    async def create_batch(
        self, tag: str, entries: Sequence[tuple[str, Request]], file: str | None
    ) -> str:
        requests = [msgspec.to_builtins(self._entry(name, request)) for name, request in entries]
        with self.client.converting(entries[0][1].model):
            batch = await self.client.sdk.messages.batches.create(requests=requests)
        return str(batch.id)

    async def find_batch(
        self, tag: str, since: float, requests: int, others: Collection[str]
    ) -> str | None:
        """Return the id of the batch whose results contain the tag, or None if there is none.

        Batches created more than two days before ``since`` (Unix time) are ignored, as are
        ``others``.

        Raises:
            BatchUnsure: If no ended batch matches, but a candidate that has not ended may.
        """
        unsure = False
        with self.client.converting():
            async for batch in self.client.sdk.messages.batches.list(limit=100):  # newest first
                if batch.created_at.timestamp() < since - SKEW_S:
                    break
                total = sum(batch.request_counts.model_dump(include=COUNTS).values())
                if batch.id in others or total != requests:
                    continue
                if batch.processing_status != "ended":
                    unsure = True
                elif batch.results_url:  # it is gone after 29 days
                    async for result in self._results(batch.id):
                        if result.custom_id.endswith(f"-{tag}"):
                            return str(batch.id)
                        break
        if unsure:
            raise BatchUnsure
        return None

    async def poll_batch(self, batch: str) -> BatchState:
        """Return the state of a batch, with counts of 0 until it has ended."""
        with self.client.converting():
            found = await self.client.sdk.messages.batches.retrieve(batch)
        counts = found.request_counts
        ended = found.processing_status == "ended"
        return BatchState(ended, counts.succeeded, counts.errored, counts.canceled > 0)

    async def batch_outcomes(
        self, batch: str, request: Callable[[str], Request]
    ) -> AsyncIterator[tuple[str, Outcome]]:
        with self.client.converting():
            async for result in self._results(batch):
                yield result.custom_id, self._outcome(result.result, request(result.custom_id))

    async def cancel_batch(self, batch: str) -> None:
        with self.client.converting():
            await self.client.sdk.messages.batches.cancel(batch)

    def _entry(self, name: str, request: Request) -> dict[str, Any]:
        return {"custom_id": name, "params": self.body(request)}

    async def _results(self, batch: str) -> AsyncIterator[_Result]:
        streaming = self.client.sdk.messages.batches.with_streaming_response
        async with streaming.results(batch) as response:
            async for line in json_lines(response.iter_bytes()):
                try:
                    yield msgspec.json.decode(self.client.without_key(line), type=_Result)
                except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                    raise self.client.malformed(line, error) from None

    def _outcome(self, outcome: _Outcome, request: Request) -> Outcome:
        try:
            if outcome.type == "succeeded":
                return self.decoded(bytes(outcome.message), request)
            if outcome.type == "errored":
                body = bytes(outcome.error)
                status = STATUSES.get(msgspec.json.decode(body, type=_Error).error.type, 500)
                return self.client.entry_error(status, body, request.model)
        except CallError as failed:
            return failed
        except msgspec.MsgspecError as error:
            return self.client.malformed(bytes(outcome.error), error)
        return None  # canceled or expired


COUNTS = {"processing", "succeeded", "errored", "canceled", "expired"}
