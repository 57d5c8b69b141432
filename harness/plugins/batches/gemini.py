"""Batches of Google AI Studio's Gemini API.

A batch's tag is its display name. The batches of Vertex AI are not supported: they read and write
Google Cloud Storage. Sources: https://ai.google.dev/gemini-api/docs/batch-api,
https://ai.google.dev/api/files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
from typing_extensions import override

from harness.errors import TransientError
from harness.plugins.batches.provider import (
    BatchLimits,
    BatchState,
    FileBatchProvider,
    Outcome,
    T,
    UploadedFile,
    moment,
    older,
)
from harness.plugins.clouds.gemini import GeminiBackend
from harness.ports import Backend
from harness.records import Request

LIMITS = BatchLimits(requests=100_000, bytes=200_000_000)  # our choice: Gemini allows 2 GB
ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"})
RPC_STATUSES = {
    **{2: 500, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400},
    **{12: 501, 13: 500, 14: 503, 15: 500, 16: 401},
}
"""HTTP statuses of the codes of google.rpc.Status (https://google.aip.dev/193)."""
RPC_CANCELLED = 1


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Result(msgspec.Struct):
    key: str
    response: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


def gemini_provider(backend: Backend) -> GeminiBatchProvider | None:
    """Return Google AI Studio's batches, or None for Vertex AI."""
    if not isinstance(backend, GeminiBackend) or backend.project is not None:
        return None
    return GeminiBatchProvider(backend, LIMITS)


class GeminiBatchProvider(FileBatchProvider[GeminiBackend]):
    """Google AI Studio's batches."""

    @override
    async def upload_batch(self, tag: str, entries: Sequence[tuple[str, Request]]) -> str:
        content = self.content(entries)
        begin = {
            "x-goog-upload-protocol": "resumable",
            "x-goog-upload-command": "start",
            "x-goog-upload-header-content-length": str(len(content)),
            "x-goog-upload-header-content-type": "application/jsonl",
        }
        named = {"file": {"displayName": tag}}
        url = self._url("upload", "/files")
        async with self.client.opened("POST", url, headers=begin, json=named) as response:
            url = response.headers.get("x-goog-upload-url", "")
        whole = {"x-goog-upload-offset": "0", "x-goog-upload-command": "upload, finalize"}
        file = await self.json("POST", url, _file, headers=whole, content=content)
        return await self.processed(file, f"/{file.id}", _file)

    @override
    async def create_batch(
        self, tag: str, entries: Sequence[tuple[str, Request]], file: str | None
    ) -> str:
        first = entries[0][1]
        path = self.backend.path_for(first).replace(":generateContent", ":batchGenerateContent")
        batch = {"batch": {"displayName": tag, "inputConfig": {"fileName": file}}}
        found = await self.json("POST", path, _Batch, json=batch, model=first.model)
        return found.name

    @override
    async def find_batch(
        self, tag: str, since: float, requests: int, others: Collection[str]
    ) -> str | None:
        async for page in self._listed("/batches", "operations", _Batch):
            for batch in page:
                if batch.tag == tag:
                    return batch.name
            if older([batch.created for batch in page], since):
                break
        return None

    @override
    async def batch_file(self, tag: str) -> str | None:
        async for page in self._listed("/files", "files", _file):
            for file in page:
                if file.name == tag:
                    return file.id
        return None

    @override
    async def delete_file(self, file: str) -> None:
        await self.json("DELETE", f"/{file}")

    @override
    async def poll_batch(self, batch: str) -> BatchState:
        found = await self.json("GET", f"/{batch}", _Batch)
        failed = found.state == "FAILED" and found.results is None
        return BatchState(
            ended=found.state in ENDED,
            done=found.done,
            failed=found.failed,
            cancelled=found.state == "CANCELLED",
            expired=found.state == "EXPIRED",
            problem=found.problem if failed else "",
        )

    @override
    async def batch_outcomes(
        self, batch: str, request: Callable[[str], Request]
    ) -> AsyncIterator[tuple[str, Outcome]]:
        def read(result: _Result) -> tuple[str, Outcome]:
            return result.key, self._outcome(result, request(result.key))

        found = await self.json("GET", f"/{batch}", _Batch)
        if found.results is not None:
            url = self._url("download", f"/{found.results}:download?alt=media")
            async for one in self.results(url, _Result, read):
                yield one

    @override
    async def cancel_batch(self, batch: str) -> None:
        await self.json("POST", f"/{batch}:cancel")

    def line(self, name: str, request: Request) -> Mapping[str, Any]:
        return {"key": name, "request": self.backend.body(request)}

    def _url(self, service: str, path: str) -> str:
        base = urlsplit(self.client.base)
        return f"{base.scheme}://{base.netloc}/{service}{base.path}{path}"

    async def _listed(
        self, path: str, field: str, read: Callable[[Any], T]
    ) -> AsyncIterator[list[T]]:
        """Yield the pages of a list, each from the field ``field`` of a response."""

        def paged(found: Any) -> tuple[list[T], str]:
            return [read(one) for one in found.get(field) or []], found.get("nextPageToken") or ""

        asked: dict[str, Any] = {"pageSize": 100}
        while True:
            page, token = await self.json("GET", path, paged, params=asked)
            yield page
            if not token:
                return
            asked["pageToken"] = token

    def _outcome(self, result: _Result, request: Request) -> Outcome:
        if response := bytes(result.response):
            return self.outcome(response, request)
        body = bytes(result.error)
        try:
            code = msgspec.json.decode(body, type=_Error).code
        except msgspec.MsgspecError:
            return TransientError("The request failed in its batch, without an explanation.")
        status = RPC_STATUSES.get(code, code if code >= 400 else 500)
        failed = self.client.entry_error(status, body, request.model)
        return None if code == RPC_CANCELLED else failed


def _file(given: Any) -> UploadedFile:
    given = given.get("file") or given  # the answer to an upload
    return UploadedFile(given["name"], str(given.get("displayName")), str(given.get("state")))


class _Batch:
    def __init__(self, given: dict[str, Any]) -> None:
        facts = given.get("metadata") or {}
        counts = facts.get("batchStats") or {}
        outputs = (given.get("response") or {}, facts.get("output") or {})
        self.name = str(given["name"])
        self.tag = facts.get("displayName")
        self.created = moment(facts.get("createTime"))
        self.state = str(facts.get("state")).rpartition("_")[2]  # BATCH_STATE_… or JOB_STATE_…
        self.done = int(counts.get("successfulRequestCount") or 0)
        self.failed = int(counts.get("failedRequestCount") or 0)
        self.problem = str((given.get("error") or {}).get("message") or "no explanation")
        files = [one["responsesFile"] for one in outputs if "responsesFile" in one]
        self.results: str | None = files[0] if files else None
