"""Anthropic's message batches.

A batch has no metadata. Its requests have names, which end with the batch's tag and appear in its
results. Source: https://platform.claude.com/docs/en/build-with-claude/batch-processing
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from typing_extensions import override

from harness.backends.anthropic import STATUSES, AnthropicBackend
from harness.errors import CallError
from harness.plugins.batches.provider import (
    BatchLimits,
    BatchState,
    BatchUnsure,
    HttpBatchProvider,
    Outcome,
    moment,
    older,
)
from harness.ports import Backend
from harness.records import Request

PATH = "/v1/messages/batches"
LIMITS = BatchLimits(requests=100_000, bytes=256_000_000)


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


def anthropic_provider(backend: Backend) -> AnthropicBatchProvider | None:
    """Return Anthropic's batches, or None for another backend, such as placed copies."""
    return AnthropicBatchProvider(backend) if isinstance(backend, AnthropicBackend) else None


class AnthropicBatchProvider(HttpBatchProvider[AnthropicBackend]):
    """Anthropic's message batches.

    Args:
        backend: The backend.
    """

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
        headers = {"content-type": "application/json"}
        model = entries[0][1].model
        batch = await self.json("POST", PATH, _Batch, content=content, headers=headers, model=model)
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
        async for page in self.listed(PATH, _Batch, after="after_id"):
            for batch in page:
                if batch.id in others or batch.requests != requests:
                    continue
                if not batch.ended:
                    unsure = True
                elif batch.has_results and (await self._first_name(batch.id)).endswith(f"-{tag}"):
                    return batch.id
            if older([batch.created for batch in page], since):
                break
        if unsure:
            raise BatchUnsure
        return None

    async def _first_name(self, batch: str) -> str:
        """Return the first readable name of a request in a batch's results, or ""."""
        names = self.results(_results(batch), _Result, lambda result: (result.custom_id, None))
        async with aclosing(names):
            async for name, _ in names:
                if name:
                    return name
        return ""

    @override
    async def poll_batch(self, batch: str) -> BatchState:
        """Return the state of a batch, with counts of 0 until it has ended."""
        found = await self.json("GET", f"{PATH}/{batch}", _Batch)
        return BatchState(
            ended=found.ended,
            done=found.counts["succeeded"],
            failed=found.counts["errored"],
            cancelled=found.counts["canceled"] > 0,
            expired=found.counts["expired"] > 0,
        )

    @override
    async def batch_outcomes(
        self, batch: str, request: Callable[[str], Request]
    ) -> AsyncIterator[tuple[str, Outcome]]:
        def read(result: _Result) -> tuple[str, Outcome]:
            return result.custom_id, self._outcome(result.result, request(result.custom_id))

        async for result in self.results(_results(batch), _Result, read):
            yield result

    @override
    async def cancel_batch(self, batch: str) -> None:
        await self.json("POST", f"{PATH}/{batch}/cancel")

    def _entry(self, name: str, request: Request) -> dict[str, Any]:
        return {"custom_id": name, "params": self.backend.body(request)}

    def _outcome(self, outcome: _Outcome, request: Request) -> Outcome:
        try:
            if outcome.type == "succeeded":
                return self.backend.decoded(bytes(outcome.message), request)
            if outcome.type == "errored":
                body = bytes(outcome.error)
                status = STATUSES.get(msgspec.json.decode(body, type=_Error).error.type, 500)
                return self.client.entry_error(status, body, request.model)
        except CallError as failed:
            return failed
        except msgspec.MsgspecError as error:
            return self.client.malformed(bytes(outcome.error), error)
        return None  # canceled or expired


class _Batch:
    def __init__(self, given: dict[str, Any]) -> None:
        self.id = str(given["id"])
        self.ended = given["processing_status"] == "ended"
        self.counts = {name: int(given["request_counts"][name]) for name in COUNTS}
        self.requests = sum(self.counts.values())
        self.created = moment(given["created_at"])
        self.has_results = bool(given.get("results_url"))  # they are gone after 29 days


def _results(batch: str) -> str:
    return f"{PATH}/{batch}/results"


COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")
