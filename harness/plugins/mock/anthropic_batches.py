"""Anthropic's message batches: ``/v1/messages/batches``."""

import re
from typing import Any

import msgspec

from harness.plugins.mock import wire
from harness.plugins.mock.anthropic import AnthropicMessages
from harness.plugins.mock.batches import (
    WINDOW_S,
    Answered,
    BatchedRequest,
    MockBatch,
    VendorBatches,
    check_unique,
    iso_time,
)
from harness.plugins.mock.wire import Headers

MOST_REQUESTS, MOST_BYTES = 100_000, 256_000_000


class _Request(msgspec.Struct):
    custom_id: str
    params: msgspec.Raw


class _Create(msgspec.Struct):
    requests: list[_Request]


class AnthropicBatches(VendorBatches):
    """Anthropic's message batches. They carry no metadata."""

    wire = AnthropicMessages()
    prefix, root, most_listed = "msgbatch", "/v1/messages/batches", 1000

    def create(self, headers: Headers, body: bytes) -> MockBatch:
        """Create a batch. The bodies of its requests are not checked yet."""
        if len(body) > MOST_BYTES:
            raise self.wire.fail(413, "Request exceeds the maximum size")
        asked = self.wire.decode(body, _Create).requests
        entries = [
            BatchedRequest(one.custom_id, self.wire.path, bytes(one.params)) for one in asked
        ]
        if not 1 <= len(entries) <= MOST_REQUESTS:
            raise self.wire.invalid(f"requests: 1 to {MOST_REQUESTS:,} are allowed")
        if name := check_unique(entries):
            raise self.wire.invalid(f"requests: the custom_id {name} is not unique")
        for number, entry in enumerate(entries):
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", entry.custom_id):
                raise self.wire.invalid(f"requests.{number}.custom_id: invalid characters")
        return self.begin(entries, headers, {})

    def view(self, batch: MockBatch, headers: Headers) -> dict[str, Any]:
        counts, ended = batch.counts, batch.ended
        host = wire.header(headers, b"host")
        results = f"http://{host}{self.root}/{batch.id}/results"
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "in_progress" if ended is None else "ended",
            "request_counts": {
                "processing": len(batch.entries) if ended is None else 0,
                "succeeded": counts["succeeded"],
                "errored": counts["errored"],
                "canceled": counts["cancelled"],
                "expired": counts["expired"],
            },
            "created_at": iso_time(batch.created),
            "expires_at": iso_time(batch.created + WINDOW_S),
            "ended_at": None if ended is None else iso_time(ended),
            "cancel_initiated_at": iso_time(ended) if ended and counts["cancelled"] else None,
            "archived_at": None,
            "results_url": None if ended is None else results,
        }

    def other(self, method: str, rest: str) -> bytes | None:
        name, _, what = rest.partition("/")
        if (method, what) != ("GET", "results"):
            return None
        batch = self.find(name)
        if batch.ended is None:
            raise self.wire.invalid(f"Batch {name} has no results yet.")
        return self.lines(batch, _result, ("succeeded", "errored", "cancelled", "expired"))


def _result(place: int, custom_id: str, kind: str, answered: Answered | None) -> Any:
    result: dict[str, Any] = {"type": {"cancelled": "canceled"}.get(kind, kind)}
    if answered is not None:
        result["message" if kind == "succeeded" else "error"] = answered[1]
    return {"custom_id": custom_id, "result": result}
