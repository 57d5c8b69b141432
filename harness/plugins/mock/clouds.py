"""Models on clouds: Amazon Bedrock's Converse API, and Anthropic's models on Vertex AI.

Any signature or token is accepted, unless the provider was started with a key.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct

from harness.plugins.mock import wire
from harness.plugins.mock.anthropic import AnthropicMessages
from harness.plugins.mock.wire import ApiError, Headers, Level, MockRequest, ReplyChoice, Turn

VERTEX_VERSION = "vertex-2023-10-16"

_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "content_filtered",
    "refusal": "end_turn",
}


class AnthropicVertex(AnthropicMessages):
    """The wire format of a model's method ``:rawPredict`` on Vertex AI."""

    path = "/models/{model}:rawPredict"

    def read(self, body: bytes, digest: str, headers: Headers) -> MockRequest:
        sent = self.decode(body, dict[str, Any])
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


class _Config(Struct, rename="camel"):
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    stop_sequences: tuple[str, ...] = ()


class _Converse(Struct, rename="camel"):
    messages: Annotated[list[_Turn], Meta(min_length=1)]
    system: list[_Text] = []
    inference_config: _Config | None = None


class BedrockConverse(wire.WireFormat):
    """The wire format of ``POST /model/{model}/converse``."""

    path = "/model/{model}/converse"
    request_id_header = b"x-amzn-requestid"
    spent = (429, "Too many tokens per day, please wait before trying again.")
    failures: ClassVar = {
        500: "The system encountered an unexpected error during processing.",
        **dict.fromkeys((503, 529), "The service is currently unavailable."),
    }
    reported = ()  # Bedrock does not report its limits

    def read(self, body: bytes, digest: str, headers: Headers) -> MockRequest:
        request = self.decode(body, _Converse)
        if request.messages[0].role != "user":
            raise self.invalid("A conversation must start with a user message.")
        turns = [
            Turn(turn.role, "".join(c.text for c in turn.content)) for turn in request.messages
        ]
        turns[:0] = [Turn("system", part.text) for part in request.system if part.text]
        config = request.inference_config or _Config()
        text = marked = ""
        for part in (*request.system, *(c for turn in request.messages for c in turn.content)):
            text += f"{part.text}\0"
            marked = text if part.cache_point else marked
        return MockRequest(
            digest=digest,
            model="",  # in the path
            turns=tuple(turns),
            max_tokens=config.max_tokens,
            stop=config.stop_sequences,
            marked=marked,
        )

    def answer(self, request: MockRequest, choices: Sequence[ReplyChoice]) -> dict[str, Any]:
        (choice,) = choices
        content: list[dict[str, Any]] = [{"text": choice.text}] if choice.text else []
        if choice.reasoning and self.reasoning == "blocks":
            thought = {"reasoningText": {"text": choice.reasoning}}
            content.insert(0, {"reasoningContent": thought})
        reason = "stop_sequence" if choice.stop is not None else _STOP_REASONS[choice.finish]
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

    def error(self, error: ApiError, request_id: str) -> dict[str, Any]:
        return dict(error.error)

    def fail(self, status: int, message: str, code: str | None = None) -> ApiError:
        return ApiError(status, {"message": message})

    def check_key(self, headers: Headers, key: str) -> None:
        if wire.bearer(headers) != key:
            said = "The security token included in the request is invalid."
            raise self.fail(403, said)

    def unknown_model(self, model: str) -> ApiError:
        return self.fail(404, f"Could not resolve the foundation model from {model!r}.")

    def refused(self, parameter: str, value: object) -> ApiError | None:
        return self.invalid(f"The model does not support {parameter}.")

    def rate_limited(self, model: str, level: Level | None, retry_after: float | None) -> ApiError:
        said = "Too many requests, please wait before trying again."
        return ApiError(429, {"message": said}, retry_after)
