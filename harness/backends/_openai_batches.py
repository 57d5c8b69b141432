"""OpenAI's batches. Each has a file of requests, and two files of results.

Source: https://developers.openai.com/api/docs/guides/batch
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any

import msgspec

from harness.backends._bodies import json_lines
from harness.backends._http import HttpBackend, SDKClient, encode
from harness.errors import CallError, TransientError
from harness.ports import BatchLimits, BatchState
from harness.ports.batches import Outcome
from harness.records import Request

LIMITS = BatchLimits(requests=50_000, bytes=200_000_000)
TAG = "harness"  # key of the batch's metadata
SKEW_S = 600  # by which the provider's clock may differ from ours
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
NOT_EXECUTED = frozenset({"batch_expired", "batch_cancelled"})


class _Response(msgspec.Struct):
    status_code: int
    body: msgspec.Raw


class _Error(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _Result(msgspec.Struct):
    custom_id: str
    response: _Response | None = None
    error: _Error | None = None


_decoder = msgspec.json.Decoder(_Result)


class OpenAIBatching(HttpBackend):
    """Mixin for a backend that makes its calls in OpenAI's batches (`harness.ports.Batched`)."""

    client: SDKClient

    def batch_bytes(self, request: Request) -> int:
        """Return the size of a request's line in the batch's file, in bytes."""
        return len(self._line("x" * 64, request))

    async def create_batch(self, tag: str, entries: Sequence[tuple[str, Request]]) -> str:
        """Upload the requests as a file, create a batch from it, and return the batch's id."""
        content = b"".join(self._line(name, request) for name, request in entries)
        sdk = self.client.sdk
        async with self.client.converting(entries[0][1].model):
            file = await sdk.files.create(file=(f"{tag}.jsonl", content), purpose="batch")
            batch = await sdk.batches.create(
                input_file_id=file.id,
                endpoint=self._url,
                completion_window="24h",
                metadata={TAG: tag},
            )
        return str(batch.id)

    async def find_batch(
        self, tag: str, since: float, requests: int, others: Collection[str]
    ) -> str | None:
        """Return the id of the batch with this tag in its metadata, or None if there is none."""
        async with self.client.converting():
            async for batch in self.client.sdk.batches.list(limit=100):  # the newest first
                if (batch.metadata or {}).get(TAG) == tag:
                    return str(batch.id)
                if batch.created_at < since - SKEW_S:
                    break
        return None

    async def poll_batch(self, batch: str) -> BatchState:
        """Return the state of a batch."""
        async with self.client.converting():
            found = await self.client.sdk.batches.retrieve(batch)
        counts = found.request_counts
        done, failed = (counts.completed, counts.failed) if counts else (0, 0)
        problems = (found.errors.data or []) if found.errors else []
        said = "; ".join(one.message or one.code or "" for one in problems[:3])
        return BatchState(
            ended=found.status in ENDED,
            done=done,
            failed=failed,
            cancelled=found.status == "cancelled",
            problem=said or "no explanation" if found.status == "failed" else "",
            too_many_tokens=any(one.code == "token_limit_exceeded" for one in problems),
        )

    async def batch_outcomes(
        self, batch: str, request: Callable[[str], Request]
    ) -> AsyncIterator[tuple[str, Outcome]]:
        """Yield the name and the outcome of each request in the batch's result files."""
        sdk = self.client.sdk
        async with self.client.converting():
            found = await sdk.batches.retrieve(batch)
            for file in filter(None, (found.output_file_id, found.error_file_id)):
                async with sdk.files.with_streaming_response.content(file) as response:
                    async for line in json_lines(response.iter_bytes()):
                        result = self._read(line)
                        yield result.custom_id, self._outcome(result, request(result.custom_id))

    async def cancel_batch(self, batch: str) -> None:
        """Cancel a batch."""
        async with self.client.converting():
            await self.client.sdk.batches.cancel(batch)

    @property
    def _url(self) -> Any:
        return f"/v1{self.path}"

    def _line(self, name: str, request: Request) -> bytes:
        line = {"custom_id": name, "method": "POST", "url": self._url, "body": self.body(request)}
        return encode(line) + b"\n"

    def _read(self, line: bytes) -> _Result:
        try:
            return _decoder.decode(self.client.without_key(line))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self.client.malformed(line, error) from None

    def _outcome(self, result: _Result, request: Request) -> Outcome:
        response, error = result.response, result.error or _Error()
        if response is None:
            said = f"The request failed in its batch: {error.message or error.code}"
            return None if error.code in NOT_EXECUTED else TransientError(said)
        if response.status_code != 200:
            body = bytes(response.body)
            return self.client.entry_error(response.status_code, body, request.model)
        try:
            return self.decoded(bytes(response.body), request)
        except CallError as failed:
            return failed
