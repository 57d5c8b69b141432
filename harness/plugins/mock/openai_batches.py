"""OpenAI's files and batches (``/v1/files``, ``/v1/batches``), and those of similar providers.

Azure's URLs have no ``/v1``, and Azure must process a file before a batch is created from it.
Mistral's batches are at ``/v1/batch/jobs``. Files that are uploaded to ``/v1/files/upload``, and
their batches, are Together's.
"""

import re
from typing import Annotated, Any, Literal

import msgspec

from harness.plugins.mock import wire
from harness.plugins.mock.batches import (
    Answered,
    BatchedRequest,
    BatchSettings,
    FileBatches,
    Given,
    MockBatch,
    Process,
    Served,
    StoredFile,
    VendorBatches,
    check_unique,
)
from harness.plugins.mock.openai import OpenAIChat
from harness.plugins.mock.stats import Stats
from harness.plugins.mock.wire import ApiError, Headers, JsonObject

MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000


class _Line(msgspec.Struct):
    custom_id: str
    body: msgspec.Raw
    method: Literal["POST"] = "POST"
    url: str = ""


_Name = Annotated[str, msgspec.Meta(max_length=64)]
_Value = Annotated[str, msgspec.Meta(max_length=512)]
_Metadata = Annotated[dict[_Name, _Value], msgspec.Meta(max_length=16)]


class _Create(msgspec.Struct):
    input_file_id: str
    endpoint: Literal[
        "/v1/chat/completions", "/v1/completions", "/v1/responses", "/chat/completions"
    ]
    completion_window: Literal["24h"]
    metadata: _Metadata | None = None


class _CreateJob(msgspec.Struct):
    input_files: Annotated[list[str], msgspec.Meta(min_length=1, max_length=1)]
    endpoint: Literal["/v1/chat/completions"]
    model: str
    timeout_hours: int
    metadata: _Metadata | None = None


class OpenAIBatches(FileBatches):
    """OpenAI's and similar providers' endpoints for files and batches, and Mistral's for files."""

    wire = OpenAIChat()
    prefix = "batch"
    root = "/v1/batches"
    files = "/v1/files"
    most_listed = 100
    file_id = "file-{number:08d}"

    def serve(
        self, method: str, path: str, query: Given, headers: Headers, body: bytes
    ) -> Served | None:
        match method, path.removeprefix(self.files).strip("/").split("/"):
            case "POST", [""] | ["upload"]:
                return self._upload(headers, body, together=path.endswith("/upload"))
            case "GET", [""]:
                listed = [self._about(name) for name in reversed(self._files)]
                return {"object": "list", "data": listed, "has_more": False}
            case "GET", [name]:
                self.file(name).pending = False
                return self._about(name)
            case "DELETE", [name]:
                self.file(name)
                del self._files[name]
                return {"id": name, "object": "file", "deleted": True}
            case "GET", [name, "content"]:
                return self.file(name).content
        answer = super().serve(method, path, query, headers, body)
        if (method, path) == ("POST", self.root) and isinstance(answer, dict):
            return answer if "object" in answer else {"job": answer, "warning": ""}
        return answer

    def page(self, query: Given, headers: Headers) -> Served:
        if self.known and all("job" in batch.about for batch in self.known.values()):
            return [self.view(batch, headers) for batch in self.newest()]
        return super().page(query, headers)

    def create(self, headers: Headers, body: bytes) -> MockBatch:
        description = self.wire.decode(body, _Create)
        return self.begin_file(
            description.input_file_id, description.endpoint, description.metadata or {}, headers
        )

    def begin_file(
        self, name: str, endpoint: str, metadata: dict[str, str], headers: Headers
    ) -> MockBatch:
        """Create a batch from an input file. If that is invalid, the batch fails at once.

        ``name`` is the file's id, and ``endpoint`` the path that serves the batch's requests.

        Raises:
            ApiError: If the file is missing or not yet processed.
        """
        file = self.file(name)
        if file.pending:
            raise self.wire.invalid(f"The file {name} has not been processed yet.")
        entries, problem = self._read(file.content.splitlines(), endpoint, headers)
        problem = problem or self._over_enqueued(entries)
        about: JsonObject = {"input_file_id": name, "endpoint": endpoint, "problem": problem}
        if file.purpose == "batch":
            about["metadata"] = metadata
        else:
            about["job"] = True
        if not problem:
            return self.begin(entries, headers, about)
        batch = self.begin([], headers, about)
        self.end(batch, "failed")
        return batch

    def cancel(self, batch: MockBatch) -> MockBatch:
        if batch.ended is not None:
            raise ApiError(409, f"Cannot cancel a batch with status '{batch.status}'.")
        return super().cancel(batch)

    def view(self, batch: MockBatch, headers: Headers) -> JsonObject:
        form = "together_batch" if "job" in batch.about else "openai_batch"
        return wire.filled_json(form, batch=batch, files=self.results(batch))

    def results(self, batch: MockBatch) -> list[str | None]:
        """Return the ids of a batch's files of results, which the first call after its end writes.

        The first file is of answers, the second of errors; None: there is no such file.
        """
        if batch.ended is None:
            return [None, None]
        if "files" not in batch.about:
            batch.about["files"] = []
            # Cancelled requests are in neither file.
            for kinds in (["succeeded"], ["errored", "expired"]):
                lines = self.lines(batch, _result, kinds)
                name = self.store(StoredFile(lines)) if lines else None
                batch.about["files"].append(name)
        files: list[str | None] = batch.about["files"]
        return files

    def _upload(self, headers: Headers, body: bytes, *, together: bool) -> JsonObject:
        parts = _multipart(body, wire.header(headers, b"content-type") or "")
        purpose = "batch-api" if together else "batch"
        if parts.get("purpose") != purpose.encode() or "file" not in parts:
            raise self.wire.invalid(f"A file with the purpose {purpose!r} is required.")
        if len(parts["file"]) > MOST_BYTES:
            raise self.wire.invalid("The file is larger than 200 MB.")
        name = (parts.get("file_name") or parts["file name"]).decode()
        pending = "expires_after[anchor]" in parts  # Azure
        return self._about(self.store(StoredFile(parts["file"], name, purpose, pending)))

    def _about(self, name: str) -> JsonObject:
        file = self._files[name]
        status = "pending" if file.pending else "processed"
        about = {"id": name, "object": "file", "bytes": len(file.content), "created_at": 0}
        return about | {"filename": file.name, "purpose": file.purpose, "status": status}

    def _read(
        self, lines: list[bytes], endpoint: str, headers: Headers
    ) -> tuple[list[BatchedRequest], JsonObject | None]:
        """Return the entries of an input file, and the file's first error or None."""
        if not 1 <= len(lines) <= MOST_REQUESTS:
            return [], _problem("too_many_tasks" if lines else "empty_file")
        entries: list[BatchedRequest] = []
        models: set[str] = set()
        for number, text in enumerate(lines, 1):
            try:
                line = msgspec.json.decode(text, type=_Line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return [], _problem("invalid_json_line", number)
            if line.url not in (endpoint, ""):
                return [], _problem("mismatched_endpoint", number)
            path = "/v1" + endpoint.removeprefix("/v1")
            entry = BatchedRequest(line.custom_id, path, bytes(line.body))
            try:
                model, entry.tokens = self._admit(path, entry.body, headers)
                models.add(model)
            except ApiError as error:
                if error.status == 404:  # any other error becomes the entry's result
                    return [], _problem("model_not_found", number)
            entries.append(entry)
        if len(models) > 1:
            return [], _problem("mismatched_model")
        return entries, _problem("duplicate_custom_id") if check_unique(entries) else None

    def _over_enqueued(self, entries: list[BatchedRequest]) -> JsonObject | None:
        limit = self.settings.enqueued_tokens
        enqueued = [*entries]
        for batch in self.known.values():
            if batch.ended is None:
                enqueued += batch.entries
        if limit is None or sum(entry.tokens for entry in enqueued) <= limit:
            return None
        message = f"Enqueued token limit reached for mock in organization mock. Limit: {limit:,} "
        message += "enqueued tokens. Please try again once some in_progress batches have completed."
        return {**_problem("token_limit_exceeded"), "message": message}


class MistralBatches(VendorBatches):
    """Mistral's batch jobs, whose files are those of `OpenAIBatches`."""

    wire = OpenAIChat()
    prefix = "job"
    root = "/v1/batch/jobs"
    most_listed = 100

    def __init__(
        self, settings: BatchSettings, process: Process, stats: Stats, files: OpenAIBatches
    ) -> None:
        super().__init__(settings, process, stats)
        self._openai = files
        self.known = files.known

    def create(self, headers: Headers, body: bytes) -> MockBatch:
        description = self.wire.decode(body, _CreateJob)
        (name,) = description.input_files
        return self._openai.begin_file(
            name, description.endpoint, description.metadata or {}, headers
        )

    def view(self, batch: MockBatch, headers: Headers) -> JsonObject:
        return wire.filled_json("mistral_batch", batch=batch, files=self._openai.results(batch))

    def page(self, query: Given, headers: Headers) -> Served:
        size = self.number(query, "page_size", 100)
        newest = self.newest()
        begin = self.number(query, "page", 0) * size
        data = [self.view(batch, headers) for batch in newest[begin : begin + size]]
        return {"object": "list", "data": data, "total": len(newest)}


def _result(place: int, custom_id: str, kind: str, answered: Answered | None) -> Any:
    line: JsonObject = {"id": f"batch_req_{place}", "custom_id": custom_id, "error": None}
    if answered is None:
        message = "This request could not be executed before the completion window expired."
        return {**line, "response": None, "error": {"code": "batch_expired", "message": message}}
    status, body = answered
    response = {"status_code": status, "request_id": f"req_{place}", "body": body}
    return {**line, "response": response}


def _problem(code: str, line: int | None = None) -> JsonObject:
    message = f"The batch's input file is invalid: {code}."
    return {"code": code, "message": message, "param": None, "line": line}


def _multipart(body: bytes, content_type: str) -> dict[str, bytes]:
    """Return a multipart form's parts and ``file name`` by name, or {} for other bodies."""
    parts: dict[str, bytes] = {}
    boundary = re.search(r'boundary="?([^";]+)', content_type)
    if not boundary:
        return parts
    for part in body.split(b"--" + boundary[1].encode())[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        if name := re.search(rb'name="([^"]+)"', head):
            parts[name[1].decode()] = content.removesuffix(b"\r\n")
        if filename := re.search(rb'filename="([^"]+)"', head):
            parts["file name"] = filename[1]
    return parts
