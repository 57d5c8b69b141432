"""OpenAI's files and batches: ``/v1/files`` and ``/v1/batches``."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from harness.mock import wire
from harness.mock.batches import (
    WINDOW_S,
    Admit,
    Answered,
    BatchedRequest,
    BatchSettings,
    Given,
    MockBatch,
    Process,
    VendorBatches,
    check_unique,
)
from harness.mock.openai import OpenAIChat
from harness.mock.stats import Stats
from harness.mock.wire import ApiError, Headers

MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000


class _Line(msgspec.Struct):
    custom_id: str
    method: Literal["POST"]
    url: str
    body: msgspec.Raw


class _Create(msgspec.Struct):
    input_file_id: str
    endpoint: Literal["/v1/chat/completions", "/v1/completions", "/v1/responses"]
    completion_window: Literal["24h"]
    metadata: dict[str, str] | None = None


class OpenAIBatches(VendorBatches):
    """OpenAI's files and batches. ``admit`` checks the body of each request in a batch."""

    prefix, root, files, most_listed = "batch", "/v1/batches", "/v1/files", 100

    def __init__(
        self, settings: BatchSettings, process: Process, stats: Stats, admit: Admit
    ) -> None:
        super().__init__(settings, process, stats)
        self.wire = self._chat = OpenAIChat()
        self._admit = admit
        self._files: dict[str, bytes] = {}

    def serve(
        self, method: str, path: str, given: Given, headers: Headers, body: bytes
    ) -> dict[str, Any] | bytes | None:
        """Return the answer to a request about files or batches, or None for any other path.

        ``given`` holds the parameters of the request's URL.
        """
        if (method, path) == ("POST", self.files):
            return self._upload(headers, body)
        if method == "GET" and (found := re.fullmatch(r"/v1/files/([^/]+)/content", path)):
            return self._content(found[1])
        return super().serve(method, path, given, headers, body)

    def create(self, headers: Headers, body: bytes) -> MockBatch:
        """Create a batch.

        If the input file is invalid, the batch is created with the status ``failed``.
        """
        asked = self._chat.decode(body, _Create)
        metadata = asked.metadata or {}
        if len(metadata) > 16 or any(len(k) > 64 or len(v) > 512 for k, v in metadata.items()):
            raise self._chat.invalid("metadata has too many or too long entries.")
        lines = self._content(asked.input_file_id).splitlines()
        entries, problem = self._read(lines, asked.endpoint, headers)
        problem = problem or self._over_enqueued(entries)
        about = msgspec.to_builtins(asked) | {"metadata": metadata, "problem": problem}
        batch = self.begin([] if problem else entries, headers, about)
        if problem:
            self.end(batch, "failed")
        return batch

    def cancel(self, batch: MockBatch) -> MockBatch:
        """Cancel a batch.

        Raises:
            ApiError: With status 409, if the batch has ended.
        """
        if batch.ended is not None:
            raise self._chat.fail(409, f"Cannot cancel a batch with status '{batch.status}'.")
        return super().cancel(batch)

    def view(self, batch: MockBatch, headers: Headers) -> dict[str, Any]:
        """Return a batch as a JSON object.

        When the batch has ended, the first call writes the files of its results.
        """
        about, counts = batch.about, batch.counts
        if batch.ended is not None and "files" not in about:
            kinds = (["succeeded"], ["errored", "expired"])  # cancelled ones are in neither file
            results = [self.lines(batch, _result, each) for each in kinds]
            about["files"] = [self._store(lines) if lines else None for lines in results]
        output, error = about.get("files", (None, None))
        problem = about["problem"]
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": about["endpoint"],
            "errors": {"object": "list", "data": [problem]} if problem else None,
            "input_file_id": about["input_file_id"],
            "completion_window": "24h",
            "status": batch.status,
            "output_file_id": output,
            "error_file_id": error,
            "created_at": int(batch.created),
            "expires_at": int(batch.created) + WINDOW_S,
            "request_counts": {
                "total": len(batch.entries),
                "completed": counts["succeeded"],
                "failed": counts["errored"] + counts["expired"],
            },
            "metadata": about["metadata"],
        }

    def _upload(self, headers: Headers, body: bytes) -> dict[str, Any]:
        parts = _multipart(body, wire.header(headers, b"content-type") or "")
        if parts.get("purpose") != b"batch" or "file" not in parts:
            raise self._chat.invalid("A file with the purpose 'batch' is required.")
        if len(parts["file"]) > MOST_BYTES:
            raise self._chat.invalid("The file is larger than 200 MB.")
        name = self._store(parts["file"])
        about = {"filename": "batch.jsonl", "purpose": "batch", "status": "processed"}
        size = len(parts["file"])
        return {"id": name, "object": "file", "bytes": size, "created_at": 0, **about}

    def _store(self, content: bytes) -> str:
        name = f"file-{len(self._files):08d}"
        self._files[name] = content
        return name

    def _content(self, name: str) -> bytes:
        if name not in self._files:
            raise self._chat.fail(404, f"No such File object: {name}")
        return self._files[name]

    def _read(
        self, lines: list[bytes], endpoint: str, headers: Headers
    ) -> tuple[list[BatchedRequest], dict[str, Any] | None]:
        """Return the entries of an input file and, if it is invalid, what is wrong with it."""
        if not 1 <= len(lines) <= MOST_REQUESTS:
            return [], _problem("too_many_tasks" if lines else "empty_file")
        entries: list[BatchedRequest] = []
        models: set[str] = set()
        for number, text in enumerate(lines, 1):
            try:
                line = msgspec.json.decode(text, type=_Line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return [], _problem("invalid_json_line", number)
            if line.url != endpoint:
                return [], _problem("mismatched_endpoint", number)
            entry = BatchedRequest(line.custom_id, endpoint, bytes(line.body))
            try:
                model, entry.tokens = self._admit(endpoint, entry.body, headers)
                models.add(model)
            except ApiError as error:
                if error.status == 404:  # any other error becomes the entry's result
                    return [], _problem("model_not_found", number)
            entries.append(entry)
        if len(models) > 1:
            return [], _problem("mismatched_model")
        return entries, _problem("duplicate_custom_id") if check_unique(entries) else None

    def _over_enqueued(self, entries: list[BatchedRequest]) -> dict[str, Any] | None:
        most = self.settings.enqueued_tokens
        others = [one.entries for one in self.known.values() if one.ended is None]
        if most is None or sum(e.tokens for part in (entries, *others) for e in part) <= most:
            return None
        message = f"Enqueued token limit reached for mock in organization mock. Limit: {most:,} "
        message += "enqueued tokens. Please try again once some in_progress batches have completed."
        return {**_problem("token_limit_exceeded"), "message": message}


def _result(place: int, custom_id: str, kind: str, answered: Answered | None) -> Any:
    line: dict[str, Any] = {"id": f"batch_req_{place}", "custom_id": custom_id, "error": None}
    if answered is None:
        message = "This request could not be executed before the completion window expired."
        return {**line, "response": None, "error": {"code": "batch_expired", "message": message}}
    status, body = answered
    response = {"status_code": status, "request_id": f"req_{place}", "body": body}
    return {**line, "response": response}


def _problem(code: str, line: int | None = None) -> dict[str, Any]:
    message = f"The batch's input file is invalid: {code}."
    return {"code": code, "message": message, "param": None, "line": line}


def _multipart(body: bytes, content_type: str) -> dict[str, bytes]:
    """Return the parts of a multipart form by name, or {} if the body is not such a form."""
    found = re.search(r'boundary="?([^";]+)', content_type)
    parts = {}
    for part in body.split(b"--" + found[1].encode())[1:-1] if found else ():
        head, _, content = part.partition(b"\r\n\r\n")
        if name := re.search(rb'name="([^"]+)"', head):
            parts[name[1].decode()] = content.removesuffix(b"\r\n")
    return parts
