"""Batches of Google AI Studio's Gemini API.

A batch has a file of requests and a file of results, and its display name is the tag. The batches
of Vertex AI are not supported: they read and write Google Cloud Storage.
Sources: https://ai.google.dev/gemini-api/docs/batch-api, https://ai.google.dev/api/files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from harness.backends._batches import FileBatching, older
from harness.errors import TransientError
from harness.ports import BatchLimits, BatchState
from harness.ports.batches import Outcome
from harness.records import Request

LIMITS = BatchLimits(requests=100_000, bytes=200_000_000)  # of our own: the file may have 2 GB
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


_error_decoder = msgspec.json.Decoder(_Error)


class GeminiBatching(FileBatching):
    """Mixin for a backend that makes its calls in such batches (`harness.ports.Batched`)."""

    batch_limits: BatchLimits | None

    async def upload_batch(self, tag: str, entries: Sequence[tuple[str, Request]]) -> str:
        """Upload the requests of a batch as a file, and return its name."""
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
        sent = await self.json("POST", url, headers=whole, content=content)
        name = str(sent["file"]["name"])
        await self.processed(sent["file"], f"/{name}", ("PROCESSING",))
        return name

    async def create_batch(
        self, tag: str, entries: Sequence[tuple[str, Request]], file: str | None
    ) -> str:
        """Create a batch from its uploaded file, and return the batch's name."""
        first = entries[0][1]
        path = self.path_for(first).replace(":generateContent", ":batchGenerateContent")
        batch = {"batch": {"displayName": tag, "inputConfig": {"fileName": file}}}
        return str((await self.json("POST", path, json=batch, model=first.model))["name"])

    async def find_batch(
        self, tag: str, since: float, requests: int, others: Collection[str]
    ) -> str | None:
        """Return the name of the batch with this display name, or None if there is none."""
        async for page in self._listed("/batches", "operations"):
            about = [one.get("metadata") or {} for one in page]
            for one, facts in zip(page, about, strict=True):
                if facts.get("displayName") == tag:
                    return str(one["name"])
            if older([facts.get("createTime") for facts in about], since):
                break
        return None

    async def batch_file(self, tag: str) -> str | None:
        """Return the name of the file that was uploaded for a batch, or None if there is none."""
        async for page in self._listed("/files", "files"):
            for file in page:
                if file.get("displayName") == tag:
                    return str(file["name"])
        return None

    async def delete_file(self, file: str) -> None:
        """Delete an uploaded file."""
        await self.json("DELETE", f"/{file}")

    async def poll_batch(self, batch: str) -> BatchState:
        """Return the state of a batch."""
        found = await self.json("GET", f"/{batch}")
        facts = found.get("metadata") or {}
        state, counts = str(facts.get("state")).rpartition("_")[2], facts.get("batchStats") or {}
        failed = state == "FAILED" and _results(found) is None
        said = (found.get("error") or {}).get("message")
        return BatchState(
            ended=state in ENDED,
            done=int(counts.get("successfulRequestCount") or 0),
            failed=int(counts.get("failedRequestCount") or 0),
            cancelled=state == "CANCELLED",
            problem=str(said or "no explanation") if failed else "",
        )

    async def batch_outcomes(
        self, batch: str, request: Callable[[str], Request]
    ) -> AsyncIterator[tuple[str, Outcome]]:
        """Yield the name and the outcome of each request in the batch's file of results."""

        def read(result: _Result) -> tuple[str, Outcome]:
            return result.key, self._outcome(result, request(result.key))

        if (file := _results(await self.json("GET", f"/{batch}"))) is not None:
            url = self._url("download", f"/{file}:download?alt=media")
            async for one in self.results(url, _Result, read):
                yield one

    async def cancel_batch(self, batch: str) -> None:
        """Cancel a batch."""
        await self.json("POST", f"/{batch}:cancel")

    def line(self, name: str, request: Request) -> Mapping[str, Any]:
        """Return a request as an object of the batch's file."""
        return {"key": name, "request": self.body(request)}

    def _url(self, service: str, path: str) -> str:
        """Return the URL of a path of the services for files: ``/upload`` and ``/download``."""
        base = urlsplit(self.client.url)
        return f"{base.scheme}://{base.netloc}/{service}{base.path}{path}"

    async def _listed(self, path: str, field: str) -> AsyncIterator[list[dict[str, Any]]]:
        asked: dict[str, Any] = {"pageSize": 100}
        while True:
            found = await self.json("GET", path, params=asked)
            if page := found.get(field):
                yield page
            if not (token := found.get("nextPageToken")):
                return
            asked["pageToken"] = token

    def _outcome(self, result: _Result, request: Request) -> Outcome:
        if response := bytes(result.response):
            return self.outcome(response, request)
        body = bytes(result.error)
        try:
            code = _error_decoder.decode(body).code
        except msgspec.MsgspecError:
            return TransientError("The request failed in its batch, without an explanation.")
        status = RPC_STATUSES.get(code, code if code >= 400 else 500)
        failed = self.client.entry_error(status, body, request.model)
        return None if code == RPC_CANCELLED else failed


def _results(batch: Mapping[str, Any]) -> str | None:
    """Return the name of a batch's file of results, or None if it has none."""
    for place in (batch.get("response"), (batch.get("metadata") or {}).get("output")):
        if place and "responsesFile" in place:
            return str(place["responsesFile"])
    return None
