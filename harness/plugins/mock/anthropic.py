"""Anthropic's Messages API as of version 2026-10-21, with Anthropic's error messages.

In older versions, sampling parameters are accepted but have no effect. ``output_config`` never
has an effect, and tools are never called.

On clouds: Anthropic's models on Vertex AI, and Amazon Bedrock's Converse API, where any signature
or token is accepted, unless the provider was started with a key. `PromptCache` behaves as described
on https://platform.claude.com/docs/en/build-with-claude/prompt-caching.
"""

import re
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct, ValidationError
from msgspec.structs import replace

from harness.plugins.mock import wire
from harness.plugins.mock.wire import (
    ApiError,
    Headers,
    JsonObject,
    Level,
    MockRequest,
    ReplyChoice,
    Turn,
    count_tokens,
)

VERSIONS = ("2023-01-01", "2023-06-01", "2026-10-21")
WITHOUT_SAMPLING = "2026-10-21"  # the first version to reject sampling parameters
SAMPLING = ("temperature", "top_k", "top_p")

# Opaque: clients only send it back.
_SIGNATURE = "bW9jayBwcm92aWRlcjogbm90aGluZyB0byB2ZXJpZnk="

_FIELD_ERROR = re.compile(
    r"(?:Object (missing required|contains unknown) field `(.+?)`|(.+?))(?: - at `\$(.*)`)?$"
)


class _Block(Struct):
    type: str
    text: str = ""
    cache_control: Raw = Raw(b"null")


class _Message(Struct):
    role: str
    content: str | list[_Block]


class _Thinking(Struct):
    type: Literal["adaptive", "enabled", "disabled", "between_tools"]
    budget_tokens: int | None = None
    display: Literal["summarized", "omitted"] | None = None


class _Format(Struct, forbid_unknown_fields=True):
    type: Literal["json_schema"]
    schema: dict[str, Raw]


class _OutputConfig(Struct, forbid_unknown_fields=True):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: _Format | None = None


_NOTHING = Raw(b"null")
_Share = Annotated[float, Meta(ge=0, le=1)]


class _Request(Struct, forbid_unknown_fields=True):
    model: str
    max_tokens: Annotated[int, Meta(ge=0)]
    messages: list[_Message]
    system: str | list[_Block] | None = None
    stop_sequences: list[str] | None = None
    thinking: _Thinking | None = None
    output_config: _OutputConfig | None = None
    stream: bool | None = None
    temperature: _Share | None = None
    top_p: _Share | None = None
    top_k: int | None = None
    cache_control: Raw = _NOTHING  # accepted without effect, like the fields below
    container: Raw = _NOTHING
    diagnostics: Raw = _NOTHING
    inference_geo: Raw = _NOTHING
    metadata: Raw = _NOTHING
    service_tier: Raw = _NOTHING
    speed: Raw = _NOTHING
    tool_choice: Raw = _NOTHING
    tools: Raw = _NOTHING
    user_profile_id: Raw = _NOTHING


class AnthropicMessages(wire.WireFormat):
    """The wire format of ``POST /v1/messages``."""

    path = "/v1/messages"
    vendor = "anthropic"

    def read(self, body: bytes, digest: str, headers: Headers) -> MockRequest:
        version = wire.header(headers, b"anthropic-version")
        if version is None:
            raise self.invalid("anthropic-version: header is required")
        if version not in VERSIONS:
            raise self.invalid(f'anthropic-version: "{version}" is not a valid version')
        request = self.decode(body, _Request)
        self._check(request, version)
        turns = [Turn(m.role, wire.joined(m.content)) for m in request.messages]
        if request.system:
            turns.insert(0, Turn("system", wire.joined(request.system)))
        thinking = request.thinking
        parts = [request.system or "", *(message.content for message in request.messages)]
        return MockRequest(
            digest=digest,
            model=request.model,
            turns=tuple(turns),
            max_tokens=request.max_tokens,
            stop=tuple(request.stop_sequences or ()),
            reasons=thinking is None or thinking.type != "disabled",
            shows_reasoning=thinking is None or thinking.display != "omitted",
            marked=_marked(parts),
            stream=bool(request.stream),
        )

    def _check(self, request: _Request, version: str) -> None:
        for name in SAMPLING:
            if version >= WITHOUT_SAMPLING and getattr(request, name) is not None:
                raise self.invalid(f"{name}: Extra inputs are not permitted")
        if not request.messages:
            raise self.invalid("messages: at least one message is required")
        last = len(request.messages) - 1
        for number, message in enumerate(request.messages):
            if message.role not in ("user", "assistant"):
                raise self.invalid(f"messages.{number}.role: Input should be 'user' or 'assistant'")
            if not message.content and not (message.role == "assistant" and number == last):
                raise self.invalid(f"messages.{number}: all messages must have non-empty content")
            blocks = message.content if isinstance(message.content, list) else ()
            if any(block.type == "text" and not block.text for block in blocks):
                raise self.invalid("messages: text content blocks must be non-empty")
        if not all(sequence.strip() for sequence in request.stop_sequences or ()):
            raise self.invalid("stop_sequences: each stop sequence must contain non-whitespace")

    def answer(self, request: MockRequest, choices: Sequence[ReplyChoice]) -> JsonObject:
        (choice,) = choices
        content: list[JsonObject] = []
        if choice.reasoning and self.reasoning is not None:
            is_shown = self.reasoning == "blocks" and request.shows_reasoning
            thinking = choice.reasoning if is_shown else ""  # the block is present even if empty
            content.append({"type": "thinking", "thinking": thinking, "signature": _SIGNATURE})
        if choice.text:
            content.append({"type": "text", "text": choice.text, "citations": None})
        reason = "stop_sequence" if choice.stop is not None else self.texts.finish[choice.finish]
        refusal = {"type": "refusal", "category": None, "explanation": None}
        usage: JsonObject = {
            "input_tokens": request.prompt_tokens - request.cache_read - request.cache_write,
            "output_tokens": choice.tokens,
            "cache_creation_input_tokens": request.cache_write,
            "cache_read_input_tokens": request.cache_read,
            "service_tier": "standard",
        }
        if choice.reasoning_tokens:
            usage["output_tokens_details"] = {"thinking_tokens": choice.reasoning_tokens}
        return {
            "type": "message",
            "id": f"msg_{request.digest}",
            "model": request.model,
            "role": "assistant",
            "content": content,
            "stop_reason": reason,
            "stop_sequence": choice.stop,
            "stop_details": refusal if reason == "refusal" else None,
            "usage": usage,
        }

    def stream(self, answer: Mapping[str, Any]) -> bytes:
        """Return a message as server-sent events."""
        return wire.filled("anthropic_events", answer=answer)

    def models(self, names: Collection[str]) -> JsonObject:
        """Return the JSON object that lists the models."""
        data = [{"type": "model", "id": name, "display_name": name} for name in names]
        return {"data": data, "has_more": False}

    def reset(self, seconds: float) -> str:
        """Return the time ``seconds`` from now (RFC 3339), rounded up to whole seconds."""
        moment = datetime.now(UTC) + timedelta(seconds=seconds, microseconds=999_999)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def error(self, error: ApiError, request_id: str) -> JsonObject:
        kind = self.texts.error_types.get(error.status, "api_error")
        described: JsonObject = {"type": kind, "message": error.message}
        if error.code is not None:
            described["details"] = {"error_code": error.code}
        return {"type": "error", "error": described, "request_id": request_id}

    def check_key(self, headers: Headers, key: str) -> None:
        header_key = wire.header(headers, b"x-api-key")
        token = wire.bearer(headers)
        if (header_key or token) != key:
            problem = "x-api-key header is required"
            if header_key:
                problem = "invalid x-api-key"
            elif token:
                problem = "Invalid bearer token"
            raise ApiError(401, problem)

    def invalid_body(self, error: Exception) -> ApiError:
        match = _FIELD_ERROR.match(str(error))
        if not isinstance(error, ValidationError) or match is None:
            return self.invalid(f"The request body is not valid JSON: {error}")
        how, field, message, place = match.groups()
        steps = re.sub(r"[\[\].]+", ".", f"{place or ''}.{field or ''}").strip(".")
        default_message = {"missing required": "Field required"}.get(
            how, "Extra inputs are not permitted"
        )
        return self.invalid(f"{steps}: {message or default_message}")

    def refused(self, parameter: str, value: object) -> ApiError | None:
        if parameter in SAMPLING:
            return self.invalid(f"`{parameter}` is deprecated for this model.")
        return super().refused(parameter, value)

    def rate_limited(self, model: str, level: Level | None, retry_after: float | None) -> ApiError:
        message = self.texts.rate_limited
        if level:
            message += f" of {level.limit:,} {level.unit} per minute (org: mock, model: {model})"
        return ApiError(429, f"{message}.", retry_after=retry_after)


def _marked(parts: Sequence[str | list[_Block]]) -> str:
    """Return the prompt up to and including its last block with ``cache_control`` ("" if none)."""
    text = ""
    marked = ""
    for part in parts:
        for block in [_Block("text", part)] if isinstance(part, str) else part:
            text += f"{block.text}\0"
            if bytes(block.cache_control) != b"null":
                marked = text
    return marked


VERTEX_VERSION = "vertex-2023-10-16"


class AnthropicVertex(AnthropicMessages):
    """The wire format of a model's method ``:rawPredict`` on Vertex AI."""

    path = "/models/{model}:rawPredict"

    def read(self, body: bytes, digest: str, headers: Headers) -> MockRequest:
        sent = self.decode(body, JsonObject)
        if sent.pop("anthropic_version", None) != VERTEX_VERSION:
            raise self.invalid(f'anthropic_version: Field required ("{VERTEX_VERSION}")')
        if "model" in sent:
            raise self.invalid("model: Extra inputs are not permitted")
        plain = msgspec.json.encode(sent | {"model": "in the path"})
        return super().read(plain, digest, [*headers, (b"anthropic-version", b"2023-06-01")])


class AnthropicVertexStream(AnthropicVertex):
    """The wire format of the method ``:streamRawPredict``, for requests with ``stream``."""

    path = "/models/{model}:streamRawPredict"


class _Text(Struct, rename="camel"):
    text: str = ""
    cache_point: dict[str, str] | None = None


class _Turn(Struct):
    role: str
    content: Annotated[list[_Text], Meta(min_length=1)]


class _InferenceConfig(Struct, rename="camel"):
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    stop_sequences: tuple[str, ...] = ()


class _Converse(Struct, rename="camel"):
    messages: Annotated[list[_Turn], Meta(min_length=1)]
    system: list[_Text] = []
    inference_config: _InferenceConfig | None = None


class BedrockConverse(wire.WireFormat):
    """The wire format of ``POST /model/{model}/converse``."""

    path = "/model/{model}/converse"
    vendor = "bedrock"

    def read(self, body: bytes, digest: str, headers: Headers) -> MockRequest:
        request = self.decode(body, _Converse)
        if request.messages[0].role != "user":
            raise self.invalid("A conversation must start with a user message.")
        turns = [Turn(turn.role, wire.joined(turn.content)) for turn in request.messages]
        turns[:0] = [Turn("system", part.text) for part in request.system if part.text]
        config = request.inference_config or _InferenceConfig()
        parts = [*request.system]
        for turn in request.messages:
            parts += turn.content
        text = ""
        marked = ""
        for part in parts:
            text += f"{part.text}\0"
            if part.cache_point:
                marked = text
        return MockRequest(
            digest=digest,
            model="",  # in the path
            turns=tuple(turns),
            max_tokens=config.max_tokens,
            stop=config.stop_sequences,
            marked=marked,
        )

    def answer(self, request: MockRequest, choices: Sequence[ReplyChoice]) -> JsonObject:
        (choice,) = choices
        content: list[JsonObject] = [{"text": choice.text}] if choice.text else []
        if choice.reasoning and self.reasoning == "blocks":
            thought = {"reasoningText": {"text": choice.reasoning}}
            content.insert(0, {"reasoningContent": thought})
        reason = "stop_sequence" if choice.stop is not None else self.texts.finish[choice.finish]
        return {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": reason,
            "usage": {
                "inputTokens": request.prompt_tokens - request.cache_read - request.cache_write,
                "outputTokens": choice.tokens,
                "cacheReadInputTokens": request.cache_read,
                "cacheWriteInputTokens": request.cache_write,
                "totalTokens": request.prompt_tokens + choice.tokens,
            },
            "metrics": {"latencyMs": 1},
        }

    def error(self, error: ApiError, request_id: str) -> JsonObject:
        return {"message": error.message}

    def check_key(self, headers: Headers, key: str) -> None:
        if wire.bearer(headers) != key:
            message = "The security token included in the request is invalid."
            raise ApiError(403, message)


LIFETIME_S = 300.0
LEAST_TOKENS = 1024  # a shorter beginning is not kept; some models need more


class PromptCache:
    """The marked beginnings of prompts, each kept for five minutes after its last use."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], float] = {}

    def with_cached_tokens(self, request: MockRequest) -> MockRequest:
        """Keep a request's marked beginning, and return the request with cached tokens counted.

        A beginning with fewer than `LEAST_TOKENS` tokens is not kept. Call this when the answer is
        sent: a beginning becomes available only then.
        """
        tokens = count_tokens(request.marked)
        if tokens < LEAST_TOKENS:
            return request
        key = (request.model, request.marked)
        now = time.monotonic()
        is_cached = self._until.get(key, 0.0) > now
        self._until[key] = now + LIFETIME_S
        return replace(request, cache_read=tokens * is_cached, cache_write=tokens * (not is_cached))
