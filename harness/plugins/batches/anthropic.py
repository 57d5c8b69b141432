"""Anthropic's message batches.

A batch has no metadata. Its requests have names, which end with the batch's tag and appear in its
results. Source: https://platform.claude.com/docs/en/build-with-claude/batch-processing
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from typing_extensions import override

from harness.plugins.anthropic.backend import STATUSES, AnthropicBackend
from harness.plugins.batches.provider import (
    BatchLimits,
    BatchState,
    BatchUnsure,
    HttpBatchProvider,
    Outcome,
    ProviderBatch,
    moment,
)
from harness.ports import Backend
from harness.records import Request

LIMITS = BatchLimits(requests=100_000, bytes=256_000_000)


class _ErrorType(msgspec.Struct):
    type: str = ""


class _Error(msgspec.Struct):
    error: _ErrorType


class _Outcome(msgspec.Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


class _Result(msgspec.Struct, rename={"name": "custom_id"}):
    name: str
    result: _Outcome


def anthropic_provider(backend: Backend) -> AnthropicBatchProvider | None:
    """Return Anthropic's batches, or None for another backend, such as placed copies."""
    return AnthropicBatchProvider(backend) if isinstance(backend, AnthropicBackend) else None


class AnthropicBatchProvider(HttpBatchProvider[AnthropicBackend, _Result]):
    """Anthropic's message batches.

    Args:
        backend: The backend.
    """

    batches = "/v1/messages/batches"
    result = _Result
    page = "after_id"

    def __init__(self, backend: AnthropicBackend) -> None:
        super().__init__(backend, LIMITS)

    @override
    def batch_bytes(self, request: Request) -> int:
        return len(msgspec.json.encode(self._entry("x" * 64, request))) + 1

    @override
    async def create_batch(
        self, tag: str, entries: Sequence[tuple[str, Request]], file: str | None
    ) -> str:
        requests = [self._entry(name, request) for name, request in entries]
        content = msgspec.json.encode({"requests": requests})
        parts = {"headers": {"content-type": "application/json"}, "model": entries[0][1].model}
        batch = await self.json("POST", self.batches, self.read_batch, content=content, **parts)
        return batch.id

    @override
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
        async for batch in self.recent_batches(since):
            if batch.id in others or batch.requests != requests:
                continue
            if not batch.state.ended:
                unsure = True
            elif batch.results and (await self._first_name(batch.id)).endswith(f"-{tag}"):
                return batch.id
        if unsure:
            raise BatchUnsure
        return None

    async def _first_name(self, batch: str) -> str:
        """Return the first readable name of a request in a batch's results, or ""."""
        [url] = await self.result_urls(batch)
        names = self.results(url, lambda _: None)
        async with aclosing(names):
            async for name, _ in names:
                if name:
                    return name
        return ""

    @override
    async def result_urls(self, batch: str) -> Sequence[str]:
        return [f"{self.path_of(batch)}/results"]

    def _entry(self, name: str, request: Request) -> dict[str, Any]:
        return {"custom_id": name, "params": self.backend.body(request)}

    def outcome_of(self, result: _Result, request: Request) -> Outcome:
        outcome = result.result
        if outcome.type == "succeeded":
            return self.decoded(bytes(outcome.message), request)
        if outcome.type != "errored":
            return None  # canceled or expired
        body = bytes(outcome.error)
        try:
            status = STATUSES.get(msgspec.json.decode(body, type=_Error).error.type, 500)
        except msgspec.MsgspecError as error:
            return self.client.malformed_error(body, error)
        return self.client.entry_error(status, body, request.model)

    def read_batch(self, data: Any) -> ProviderBatch:
        """Return a batch. Its counts are 0 until it has ended."""
        counts = {name: int(data["request_counts"][name]) for name in COUNTS}
        state = BatchState(
            ended=data["processing_status"] == "ended",
            done=counts["succeeded"],
            failed=counts["errored"],
            cancelled=counts["canceled"] > 0,
            expired=counts["expired"] > 0,
        )
        results = [data["results_url"]] if data.get("results_url") else []  # for 29 days
        created = moment(data["created_at"])
        requests = sum(counts.values())
        return ProviderBatch(str(data["id"]), state, created, requests, results=results)


COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")
