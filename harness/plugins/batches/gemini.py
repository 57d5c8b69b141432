"""Batches of Google AI Studio's Gemini API.

A batch's tag is its display name. The batches of Vertex AI are not supported: they read and write
Google Cloud Storage. Sources: https://ai.google.dev/gemini-api/docs/batch-api,
https://ai.google.dev/api/files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
from typing_extensions import override

from harness.errors import TransientError
from harness.plugins.batches.provider import (
    BatchLimits,
    BatchState,
    FileBatchProvider,
    Listed,
    Outcome,
    ProviderBatch,
    UploadedFile,
    moment,
)
from harness.plugins.clouds.google import GeminiBackend
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


class _Result(msgspec.Struct, rename={"name": "key"}):
    name: str
    response: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


def gemini_provider(backend: Backend) -> GeminiBatchProvider | None:
    """Return Google AI Studio's batches, or None for Vertex AI."""
    if not isinstance(backend, GeminiBackend) or backend.project is not None:
        return None
    return GeminiBatchProvider(backend, LIMITS)


class GeminiBatchProvider(FileBatchProvider[GeminiBackend, _Result]):
    """Google AI Studio's batches, whose ids begin with ``batches/`` or ``files/``."""

    result = _Result
    batches = "/batches"
    cancelling = ":cancel"
    suffix = ""

    @override
    async def upload_batch(self, tag: str, entries: Sequence[tuple[str, Request]]) -> str:
        content = self.content(entries)
        begin = {
            "x-goog-upload-protocol": "resumable",
            "x-goog-upload-command": "start",
            "x-goog-upload-header-content-length": str(len(content)),
            "x-goog-upload-header-content-type": "application/jsonl",
        }
        metadata = {"file": {"displayName": tag}}
        url = self._url("upload", self.files)
        async with self.client.open_response("POST", url, headers=begin, json=metadata) as response:
            url = response.headers.get("x-goog-upload-url", "")
        final = {"x-goog-upload-offset": "0", "x-goog-upload-command": "upload, finalize"}
        return await self.uploaded(url, headers=final, content=content)

    @override
    async def create_batch(
        self, tag: str, entries: Sequence[tuple[str, Request]], file: str | None
    ) -> str:
        first = entries[0][1]
        path = self.backend.path_for(first).replace(":generateContent", ":batchGenerateContent")
        batch = {"batch": {"displayName": tag, "inputConfig": {"fileName": file}}}
        created = await self.json("POST", path, self.read_batch, json=batch, model=first.model)
        return created.id

    @override
    async def listed(self, path: str, read: Callable[[Any], Listed]) -> AsyncIterator[list[Listed]]:
        field = "operations" if path == self.batches else "files"

        def paged(data: Any) -> tuple[list[Listed], str]:
            return [read(item) for item in data.get(field) or []], data.get("nextPageToken") or ""

        parameters: dict[str, Any] = {"pageSize": 100}
        while True:
            page, token = await self.json("GET", path, paged, params=parameters)
            yield page
            if not token:
                return
            parameters["pageToken"] = token

    @override
    def path_of(self, batch: str) -> str:
        return f"/{batch}"

    @override
    def path_of_file(self, file: str) -> str:
        return f"/{file}"

    def line(self, name: str, request: Request) -> Mapping[str, Any]:
        return {"key": name, "request": self.backend.body(request)}

    def outcome_of(self, result: _Result, request: Request) -> Outcome:
        if response := bytes(result.response):
            return self.decoded(response, request)
        body = bytes(result.error)
        try:
            code = msgspec.json.decode(body, type=_Error).code
        except msgspec.MsgspecError:
            return TransientError("The request failed in its batch, without an explanation.")
        status = RPC_STATUSES.get(code, code if code >= 400 else 500)
        failed = self.client.entry_error(status, body, request.model)
        return None if code == RPC_CANCELLED else failed

    def read_file(self, data: Any) -> UploadedFile:
        data = data.get("file") or data  # the answer to an upload
        return UploadedFile(data["name"], str(data.get("displayName")), str(data.get("state")))

    def read_batch(self, data: Any) -> ProviderBatch:
        facts = data.get("metadata") or {}
        outputs = (data.get("response") or {}, facts.get("output") or {})
        files = [output["responsesFile"] for output in outputs if "responsesFile" in output]
        results = [self._url("download", f"/{file}:download?alt=media") for file in files[:1]]
        status = str(facts.get("state")).rpartition("_")[2]  # BATCH_STATE_… or JOB_STATE_…
        problem = str((data.get("error") or {}).get("message") or "no explanation")
        counts = facts.get("batchStats") or {}
        state = BatchState(
            ended=status in ENDED,
            done=int(counts.get("successfulRequestCount") or 0),
            failed=int(counts.get("failedRequestCount") or 0),
            cancelled=status == "CANCELLED",
            expired=status == "EXPIRED",
            problem=problem if status == "FAILED" and not files else "",
        )
        created = moment(facts.get("createTime"))
        tag = facts.get("displayName")
        return ProviderBatch(str(data["name"]), state, created, tag=tag, results=results)

    def _url(self, service: str, path: str) -> str:
        base = urlsplit(self.client.base)
        return f"{base.scheme}://{base.netloc}/{service}{base.path}{path}"
