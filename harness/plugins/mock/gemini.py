"""Google's Gemini API: text generation, and AI Studio's files and batches."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

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
)
from harness.plugins.mock.wire import (
    ApiError,
    Headers,
    JsonObject,
    MockRequest,
    ReplyChoice,
    Turn,
)

_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_QUOTA_FAILURE = "type.googleapis.com/google.rpc.QuotaFailure"
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


class _Part(Struct):
    text: str = ""


class _Content(Struct):
    parts: list[_Part] = []
    role: str = "user"


class _Thinking(Struct, rename="camel"):
    include_thoughts: bool = False
    thinking_budget: int | None = None


class _Config(Struct, rename="camel"):
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    stop_sequences: tuple[str, ...] = ()
    candidate_count: Annotated[int, Meta(ge=1, le=8)] = 1
    response_logprobs: bool = False
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    thinking_config: _Thinking | None = None


class _Request(Struct, rename="camel"):
    contents: Annotated[list[_Content], Meta(min_length=1)]
    system_instruction: _Content | None = None
    generation_config: _Config | None = None


class GeminiContent(wire.WireFormat):
    """The wire format of a model's method ``:generateContent``."""

    path = "/models/{model}:generateContent"
    vendor = "gemini"

    def read(self, body: bytes, digest: str, headers: Headers) -> MockRequest:
        request = self.decode(body, _Request)
        for number, content in enumerate(request.contents):
            if content.role not in ("user", "model"):
                raise self.invalid("Please use a valid role: user, model.")
            if not any(part.text for part in content.parts):
                problem = f"GenerateContentRequest.contents[{number}].parts: must not be empty."
                raise self.invalid(problem)
        config = request.generation_config or _Config()
        roles = {"model": "assistant", "user": "user"}
        turns = [
            Turn(roles[content.role], wire.joined(content.parts)) for content in request.contents
        ]
        if request.system_instruction:
            turns.insert(0, Turn("system", wire.joined(request.system_instruction.parts)))
        thinking = config.thinking_config or _Thinking()
        return MockRequest(
            digest=digest,
            model="",  # in the path
            turns=tuple(turns),
            n=config.candidate_count,
            max_tokens=config.max_output_tokens,
            stop=config.stop_sequences,
            reasons=thinking.thinking_budget != 0,
            shows_reasoning=thinking.include_thoughts,
            logprobs=(config.logprobs or 0) if config.response_logprobs else None,
        )

    def answer(self, request: MockRequest, choices: Sequence[ReplyChoice]) -> JsonObject:
        thoughts = sum(choice.reasoning_tokens for choice in choices)
        written = sum(choice.tokens for choice in choices) - thoughts
        usage = {
            "promptTokenCount": request.prompt_tokens,
            "candidatesTokenCount": written,
            "thoughtsTokenCount": thoughts,
            "totalTokenCount": request.prompt_tokens + written + thoughts,
        }
        return {
            "candidates": [
                {"index": index, **self._candidate(request, choice)}
                for index, choice in enumerate(choices)
            ],
            "usageMetadata": usage,
            "modelVersion": request.model,
            "responseId": request.digest,
        }

    def _candidate(self, request: MockRequest, choice: ReplyChoice) -> Mapping[str, object]:
        parts: list[dict[str, object]] = [{"text": choice.text}] if choice.text else []
        if choice.reasoning and request.shows_reasoning:
            parts.insert(0, {"text": choice.reasoning, "thought": True})
        candidate: dict[str, object] = {
            "content": {"role": "model", "parts": parts},
            "finishReason": self.texts.finish[choice.finish],
        }
        if choice.positions is not None:
            chosen = []
            top = []
            for position in choice.positions:
                chosen.append(_token(position.token, position.logprob))
                likeliest = [_token(*likely) for likely in position.likeliest]
                top.append({"candidates": likeliest})
            candidate["logprobsResult"] = {"chosenCandidates": chosen, "topCandidates": top}
        return candidate

    def error(self, error: ApiError, request_id: str) -> JsonObject:
        details: list[JsonObject] = []
        if error.code is not None and error.status == 429:
            details.append({"@type": _QUOTA_FAILURE, "violations": [{"quotaId": error.code}]})
        elif error.code is not None:
            domain = "googleapis.com"
            details.append({"@type": _ERROR_INFO, "reason": error.code, "domain": domain})
        if error.retry_after:
            details.append({"@type": _RETRY_INFO, "retryDelay": f"{error.retry_after:g}s"})
        status = self.texts.error_types.get(error.status, "UNKNOWN")
        described = {"code": error.status, "message": error.message, "status": status}
        return {"error": described | {"details": details}}

    def check_key(self, headers: Headers, key: str) -> None:
        """Raise ApiError (400, like Google) unless x-goog-api-key, or else the token, is right."""
        if (wire.header(headers, b"x-goog-api-key") or wire.bearer(headers)) != key:
            message = "API key not valid. Please pass a valid API key."
            raise ApiError(400, message, "API_KEY_INVALID")


def _token(token: str, logprob: float) -> dict[str, object]:
    return {"token": token, "logProbability": logprob}


MOST_BYTES = 2_000_000_000
RPC_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 429: 8, 500: 13, 503: 14}


class _Line(msgspec.Struct):
    key: str
    request: msgspec.Raw


class _InputConfig(msgspec.Struct, rename="camel"):
    file_name: str


class _Batch(msgspec.Struct, rename="camel"):
    display_name: str
    input_config: _InputConfig


class _Create(msgspec.Struct):
    batch: _Batch


class GeminiBatches(FileBatches):
    """Gemini's files and batches. An expired batch has no results, and costs nothing."""

    form = "gemini_batch"
    prefix = "b"
    root = "/batches"
    files = "/files"
    most_listed = 1000
    wire = GeminiContent()
    file_id = "files/{number:08d}"
    done_when_expired = 0.0

    def owns(self, path: str) -> bool:
        return bool(_PATH.match(path) or _CREATION.search(path))

    def serve(
        self, method: str, path: str, query: Given, headers: Headers, body: bytes
    ) -> Served | None:
        if method == "GET" and self.settings.happens("poll_500"):
            raise self.wire.failure(500)
        if created := _CREATION.search(path):
            batch = self.created([*headers, (b"x-model", created[1].encode())], body)
            return self.view(batch, headers)
        if (match := _PATH.match(path)) is None:
            return None
        service = match[1] or ""
        rest = path.removeprefix(service).removeprefix("/v1beta")
        match method, service, rest.strip("/").split("/"):
            case "POST", "/upload", ["files"]:
                return self._upload(headers, body, query)
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
                return self.page(query, headers)
            case "GET", "", ["batches", name]:
                return self.view(self.find(name), headers)
            case "POST", "", ["batches", name] if name.endswith(":cancel"):
                batch = self.find(name.removesuffix(":cancel"))
                if batch.ended is not None:
                    raise ApiError(400, "The batch has ended.")
                self.cancel(batch)
                return {}
        return None

    def create(self, headers: Headers, body: bytes) -> MockBatch:
        """Create a batch from an uploaded file."""
        description = self.wire.decode(body, _Create).batch
        model = wire.header(headers, b"x-model") or ""
        path = GeminiContent.path.format(model=model)
        entries = []
        for number, text in enumerate(
            self.file(description.input_config.file_name).content.splitlines(), 1
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
            problem = f"The key {name} is not unique." if entries else "The file is empty."
            raise self.wire.invalid(problem)
        return self.begin(entries, headers, {"tag": description.display_name, "model": model})

    def view(self, batch: MockBatch, headers: Headers) -> JsonObject:
        counts = batch.counts
        if "file" not in batch.about and (counts["succeeded"] or counts["errored"]):
            lines = self.lines(batch, _result, ("succeeded", "errored"))
            batch.about["file"] = self.store(StoredFile(lines))
        return super().view(batch, headers)

    def page(self, query: Given, headers: Headers) -> Served:
        newest = self.newest()
        begin = self.number(query, "pageToken", 0)
        size = self.number(query, "pageSize", 10)
        page: JsonObject = {}
        if listed := newest[begin : begin + size]:
            page["operations"] = [self.view(batch, headers) for batch in listed]
        if begin + size < len(newest):
            page["nextPageToken"] = str(begin + size)
        return page

    def _upload(self, headers: Headers, body: bytes, query: Given) -> JsonObject:
        command = wire.header(headers, b"x-goog-upload-command") or ""
        if command == "start":
            name = msgspec.json.decode(body)["file"]["displayName"]
            host = wire.header(headers, b"host")
            return {UPLOAD_URL: f"http://{host}/upload/v1beta/files?upload_id={name}"}
        if command != "upload, finalize":
            raise self.wire.invalid("Unknown X-Goog-Upload-Command.")
        if len(body) > MOST_BYTES:
            raise self.wire.invalid("The file is larger than 2 GB.")
        return {"file": self._about(self.store(StoredFile(body, query["upload_id"])))}

    def _about(self, name: str) -> JsonObject:
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
