"""The files and batches of Google AI Studio's Gemini API."""

import re
from typing import Any

import msgspec

from harness.plugins.mock import wire
from harness.plugins.mock.batches import (
    Answered,
    BatchedRequest,
    FileBatches,
    Given,
    MockBatch,
    Served,
    StoredFile,
    check_unique,
    iso_time,
)
from harness.plugins.mock.gemini import GeminiContent
from harness.plugins.mock.wire import Headers

MOST_BYTES = 2_000_000_000
RPC_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 429: 8, 500: 13, 503: 14}


class _Line(msgspec.Struct):
    key: str
    request: msgspec.Raw


class _Config(msgspec.Struct, rename="camel"):
    file_name: str


class _Batch(msgspec.Struct, rename="camel"):
    display_name: str
    input_config: _Config


class _Create(msgspec.Struct):
    batch: _Batch


class GeminiBatches(FileBatches):
    """Gemini's files and batches. An expired batch has no results, and costs nothing."""

    prefix, root, files, most_listed = "b", "/batches", "/files", 1000
    wire = GeminiContent()
    file_id, done_when_expired = "files/{number:08d}", 0.0

    def owns(self, path: str) -> bool:
        return bool(_PATH.match(path) or _CREATION.search(path))

    def serve(
        self, method: str, path: str, given: Given, headers: Headers, body: bytes
    ) -> Served | None:
        if method == "GET" and self.settings.happens("poll_500"):
            raise self.wire.failure(500)
        if created := _CREATION.search(path):
            batch = self.created([*headers, (b"x-model", created[1].encode())], body)
            return self.view(batch, headers)
        if (found := _PATH.match(path)) is None:
            return None
        service, rest = found[1] or "", path[found.end(1) if found[1] else 0 :]
        rest = rest.removeprefix("/v1beta")
        match method, service, rest.strip("/").split("/"):
            case "POST", "/upload", ["files"]:
                return self._upload(headers, body, given)
            case "GET", "/download", ["files", name]:
                return self.file(f"files/{name.removesuffix(':download')}").content
            case "GET", "", ["files"]:
                listed = [self._about(name) for name in reversed(self._files)]
                return {"files": listed}
            case "GET", "", ["files", name]:
                return self._about(f"files/{name}")
            case "DELETE", "", ["files", name]:
                self.file(f"files/{name}")
                del self._files[f"files/{name}"]
                return {}
            case "GET", "", ["batches"]:
                return self.page(given, headers)
            case "GET", "", ["batches", name]:
                return self.view(self.find(name), headers)
            case "POST", "", ["batches", name] if name.endswith(":cancel"):
                batch = self.find(name.removesuffix(":cancel"))
                if batch.ended is not None:
                    raise self.wire.fail(400, "The batch has ended.")
                self.cancel(batch)
                return {}
        return None

    def create(self, headers: Headers, body: bytes) -> MockBatch:
        """Create a batch from an uploaded file."""
        asked = self.wire.decode(body, _Create).batch
        model = wire.header(headers, b"x-model") or ""
        path = GeminiContent.path.format(model=model)
        entries = []
        for number, text in enumerate(
            self.file(asked.input_config.file_name).content.splitlines(), 1
        ):
            try:
                line = msgspec.json.decode(text, type=_Line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                raise self.wire.invalid(f"Line {number} is not a request.") from None
            entry = BatchedRequest(line.key, path, bytes(line.request))
            try:
                entry.tokens = self._admit(path, entry.body, headers)[1]
            except wire.ApiError as error:
                if error.status == 404:  # any other error becomes the entry's result
                    raise
            entries.append(entry)
        if not entries or (name := check_unique(entries)):
            said = f"The key {name} is not unique." if entries else "The file is empty."
            raise self.wire.invalid(said)
        return self.begin(entries, headers, {"tag": asked.display_name, "model": model})

    def view(self, batch: MockBatch, headers: Headers) -> dict[str, Any]:
        """Return a batch as JSON, and store the results of a finished one."""
        counts, ended, about = batch.counts, batch.ended, batch.about
        state = {"in_progress": "RUNNING", "completed": "SUCCEEDED"}.get(batch.status)
        facts: dict[str, Any] = {
            "model": f"models/{about['model']}",
            "displayName": about["tag"],
            "state": f"BATCH_STATE_{state or batch.status.upper()}",
            "createTime": iso_time(batch.created),
            "batchStats": {
                "requestCount": str(len(batch.entries)),
                "successfulRequestCount": str(counts["succeeded"]),
                "failedRequestCount": str(counts["errored"]),
            },
        }
        view: dict[str, Any] = {"name": f"batches/{batch.id}", "metadata": facts}
        if ended is None:
            return view
        if "file" not in about and (counts["succeeded"] or counts["errored"]):
            lines = self.lines(batch, _result, ("succeeded", "errored"))
            about["file"] = self.store(StoredFile(lines))
        output = {"responsesFile": about["file"]} if "file" in about else {}
        facts |= {"output": output, "endTime": iso_time(ended)}
        if batch.status == "completed":
            return view | {"done": True, "response": output}
        code = {"cancelled": 1, "expired": 4}.get(batch.status, 13)
        return view | {"done": True, "error": {"code": code, "message": batch.status}}

    def page(self, given: Given, headers: Headers) -> Served:
        newest = self.newest()
        begin, size = self.number(given, "pageToken", 0), self.number(given, "pageSize", 10)
        page: dict[str, Any] = {}
        if listed := newest[begin : begin + size]:
            page["operations"] = [self.view(one, headers) for one in listed]
        if begin + size < len(newest):
            page["nextPageToken"] = str(begin + size)
        return page

    def _upload(self, headers: Headers, body: bytes, given: Given) -> dict[str, Any]:
        command = wire.header(headers, b"x-goog-upload-command") or ""
        if command == "start":
            named = msgspec.json.decode(body)["file"]["displayName"]
            host = wire.header(headers, b"host")
            return {UPLOAD_URL: f"http://{host}/upload/v1beta/files?upload_id={named}"}
        if command != "upload, finalize":
            raise self.wire.invalid("Unknown X-Goog-Upload-Command.")
        if len(body) > MOST_BYTES:
            raise self.wire.invalid("The file is larger than 2 GB.")
        return {"file": self._about(self.store(StoredFile(body, given["upload_id"])))}

    def _about(self, name: str) -> dict[str, Any]:
        file = self.file(name)
        about = {"displayName": file.name, "sizeBytes": str(len(file.content)), "state": "ACTIVE"}
        return {"name": name, **about}


UPLOAD_URL = "x-goog-upload-url"
"""The header with an upload's URL, and the URL's key in the answer to the upload's start."""
_PATH = re.compile(r"(/upload|/download)?/v1beta/(?:files|batches)(?:/|$)")
_CREATION = re.compile(r"/models/([^/]+):batchGenerateContent$")


def _result(place: int, key: str, kind: str, answered: Answered | None) -> Any:
    assert answered is not None
    status, body = answered
    if kind == "succeeded":
        return {"key": key, "response": body}
    error = {"code": RPC_CODES.get(status, 2), "message": body["error"]["message"]}
    return {"key": key, "error": error}
