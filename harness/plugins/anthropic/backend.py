"""Anthropic's Messages API, using the official SDK.

API version 2026-10-21 rejects temperature, top_p and top_k, even with default values. Version
2023-06-01 accepts them for the models that still support them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from harness.backends import (
    DECODE_ERRORS,
    MAX_REPLY_MB,
    FindCut,
    HttpBackend,
    HttpClient,
    OnAllowances,
    SDKClient,
    bodies,
    encode,
)
from harness.errors import ConfigError, TransientError
from harness.records import (
    DecodingConstraint,
    JsonObject,
    Message,
    PromptCut,
    Reply,
    Request,
    Usage,
)

URL = "https://api.anthropic.com"
KEY = "ANTHROPIC_API_KEY"

TAKEN = frozenset({"max_tokens", "max_tokens_required", "stop", "extra", "conversation"})
"""The features of every server of this API."""

FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""HTTP statuses of the types of errors. Any other type counts as 500."""
SIGNED = (b'"signature"', b'"redacted_thinking"')


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    thinking: str = ""
    name: Any = None
    input: Any = None  # of a tool
    partial_json: str = ""  # the input, if it was streamed


class _OutputDetails(msgspec.Struct):
    thinking_tokens: bodies.TokenCount | None = None


class _CacheCreation(msgspec.Struct):
    ephemeral_1h_input_tokens: bodies.TokenCount = 0


class _Usage(msgspec.Struct):
    input_tokens: bodies.TokenCount
    output_tokens: bodies.TokenCount
    cache_read_input_tokens: bodies.TokenCount | None = None
    cache_creation_input_tokens: bodies.TokenCount | None = None
    cache_creation: _CacheCreation | None = None
    output_tokens_details: _OutputDetails | None = None


class _Message(msgspec.Struct):
    content: list[_Block]
    stop_reason: str | None = None
    model: str | None = None
    usage: Any = None


CACHED = {"cache_control": {"type": "ephemeral"}}
"""Marks the end of a prompt's beginning that the provider is to keep for five minutes."""


class MessagesBackend(HttpBackend):
    """Base class of the backends for Anthropic's Messages API, on any server.

    Args:
        client: The client of the server.
        features: The supported features.
        prompt_cut: Returns where the shared beginning of a prompt ends; None to turn caching off.
    """

    may_change = frozenset({"prompt_caching"})

    def __init__(
        self, client: HttpClient, features: frozenset[str], prompt_cut: FindCut | None
    ) -> None:
        super().__init__(client, features)
        self.prompt_caching = prompt_cut is not None
        self._cut = prompt_cut or (lambda messages: None)

    def body(self, request: Request) -> Mapping[str, Any]:
        decoding = request.decoding
        messages: list[Any] = [_turn(m) for m in request.messages if m.role != "system"]
        system: Any = "\n\n".join(m.content for m in request.messages if m.role == "system")
        if cut := self._cut(request.messages):
            place, content = marked(request.messages, cut)
            message = request.messages[place]
            n_system = len(request.messages) - len(messages)
            if place >= n_system and message.reasoning_state is None:  # thinking cannot be marked
                messages[place - n_system] = {"role": message.role, "content": content}
            elif place < n_system == 1:
                system = content
        body: JsonObject = {
            "model": request.model,
            "system": system or None,
            "messages": messages,
            "max_tokens": decoding.max_tokens,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "stop_sequences": list(decoding.stop) or None,
        }
        if isinstance(decoding.constraint, DecodingConstraint):
            schema = decoding.constraint.json_schema  # the only kind in the features
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        return {k: value for k, value in body.items() if value is not None} | dict(decoding.extra)

    async def generate(self, request: Request) -> Reply:
        """Return the reply to a request, streamed if it may take ten minutes or more.

        Raises:
            CallError: If the call fails. If a stream breaks off, the error holds the text so far.
        """
        if (request.decoding.max_tokens or 0) <= LONGEST_UNSTREAMED:
            return await super().generate(request)
        body = {**self.body(request), "stream": True}
        path = self.path_for(request, stream=True)
        stream = await self.client.post(path, body, request.model, text_so_far)
        if stream.lstrip().startswith(b"{"):  # a gateway has ignored ``stream``
            return self.decode_reply(stream, request)
        try:
            message, end = streamed(stream)
        except DECODE_ERRORS as error:
            raise self.client.malformed_error(stream, error) from None
        if end == "message_stop":
            return self.decode_reply(encode(message), request)
        if end == "error":
            status = STATUSES.get(str(message["error"].get("type")), 500)
            failed = self.client.entry_error(status, message["error"], request.model)
        else:
            problem = f"The stream of {self.endpoint} ended before the answer was complete."
            failed = TransientError(problem, kind="connection_lost")
        failed.partial = text_so_far(stream)
        raise failed

    def path_for(self, request: Request, *, stream: bool = False) -> str:
        return self.path

    def reply(self, content: bytes, request: Request) -> Reply:
        message = bodies.decode_body(content, _Message)
        # Models that hide their thinking leave an empty block.
        thoughts = [block.thinking for block in message.content if block.thinking]
        text = "".join(block.text for block in message.content if block.type == "text")
        calls = [block for block in message.content if block.type == "tool_use"]
        reason = message.stop_reason or "end_turn"
        text, reason = bodies.format_answer(
            text,
            FINISH_REASONS.get(reason, reason),
            ((call.name, call.partial_json or call.input) for call in calls),
        )
        return Reply(
            text,
            reason,
            _usage(message.usage),
            message.model,
            reasoning="\n\n".join(thoughts) if thoughts else None,
            reasoning_state=bodies.extract_state(content, SIGNED, "content"),
        )


def _turn(message: Message) -> Message | JsonObject:
    """Return a message with its signed thinking blocks, if it has any."""
    if message.reasoning_state is None:
        return message
    return {"role": message.role, "content": msgspec.Raw(message.reasoning_state.encode())}


def marked(
    messages: Sequence[Message], cut: PromptCut, mark: Mapping[str, Any] = CACHED
) -> tuple[int, list[JsonObject]]:
    """Return the index of the message with the cut, and its content with ``mark`` at the cut."""
    place, offset = cut
    if offset == 0:
        place -= 1
        offset = len(messages[place].content)
    content = messages[place].content
    parts: list[JsonObject] = [{"type": "text", "text": content[:offset], **mark}]
    if content[offset:]:
        parts.append({"type": "text", "text": content[offset:]})
    return place, parts


class AnthropicBackend(MessagesBackend):
    """Anthropic's Messages API.

    Args:
        api_version: The ``anthropic-version`` header. The older version supports temperature and
            top_p, and the newer version supports JSON schemas.
        base_url: Base URL of another server that speaks this protocol.
        api_key_env: The key's environment variable (default: ``ANTHROPIC_API_KEY`` for Anthropic,
            none for another server).
        prompt_caching: Whether to use Anthropic's prompt cache for beginnings that prompts share.
            Reading a beginning costs a tenth of its usual price or less, writing it a quarter more.
    """

    path = "/v1/messages"
    url_variable = "ANTHROPIC_BASE_URL"

    def __init__(
        self,
        api_version: Literal["2026-10-21", "2023-06-01"] = "2026-10-21",
        base_url: str = URL,
        api_key_env: str | None = None,
        prompt_caching: bool = False,
        *,
        secret: Callable[[str], str],
        concurrency: int,
        timeout_s: float,
        reply_mb: float = MAX_REPLY_MB,
        on_allowances: OnAllowances | None = None,
        prompt_cut: FindCut | None = None,
    ) -> None:
        if base_url.rstrip("/").endswith("/v1"):
            problem = (
                f"model.base_url: the backend anthropic adds /v1 itself, and {base_url} has it."
            )
            raise ConfigError(problem, f"Write {base_url.rstrip('/').removesuffix('/v1')}.")
        if api_key_env is None and base_url.rstrip("/") == URL:
            api_key_env = KEY
        client = SDKClient(
            "anthropic",
            base_url,
            api_key_env,
            secret,
            headers={"anthropic-version": api_version},
            concurrency=concurrency,
            timeout_s=timeout_s,
            reply_mb=reply_mb,
            on_allowances=on_allowances,
        )
        by_version = {"temperature", "top_p"} if api_version == "2023-06-01" else {"json_schema"}
        super().__init__(client, TAKEN | by_version, prompt_cut if prompt_caching else None)


def _usage(counts: object) -> Usage | None:
    """Return a message's token counts, including cached input, or None if missing or invalid.

    They are also None for tokens cached for an hour: the computed cost would be too low.
    """
    usage = bodies.decode_usage(counts, _Usage)
    if usage is None or (usage.cache_creation and usage.cache_creation.ephemeral_1h_input_tokens):
        return None
    read = usage.cache_read_input_tokens or 0
    written = usage.cache_creation_input_tokens or 0
    thinking = (usage.output_tokens_details or _OutputDetails()).thinking_tokens or 0
    return Usage(usage.input_tokens + read + written, usage.output_tokens, read, thinking, written)


# Reads the messages that Anthropic's Messages API streams as server-sent events.
# Source: https://platform.claude.com/docs/en/build-with-claude/streaming.

LONGEST_UNSTREAMED = 21_333
"""The most output tokens for which an answer takes less than ten minutes, by Anthropic's estimate.

Longer answers must be streamed. Otherwise the connection may be closed before they are complete.
"""

_DELTAS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


def streamed(stream: bytes) -> tuple[JsonObject, str]:
    """Return the message in a stream, as far as received, and how the stream ends.

    The end is the type of the last event, ``message_stop`` or ``error`` (the message then has the
    key ``error``), or "" if the stream breaks off before it.

    Raises:
        MsgspecError: If an event is not JSON.
        LookupError: If an event lacks a field.
    """
    message: JsonObject = {}
    for event in _events(stream):
        match kind := event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                message["content"].append(event["content_block"])
            case "content_block_delta":
                delta = event["delta"]
                block = message["content"][event["index"]]
                if field := _DELTAS.get(delta["type"]):
                    block[field] = block.get(field, "") + delta[field]
            case "message_delta":
                message |= event["delta"]
                message["usage"] = message["usage"] | (event.get("usage") or {})
            case "error":
                return message | {"error": event["error"]}, kind
            case "message_stop":
                return message, kind
    return message, ""


def text_so_far(stream: bytes) -> str:
    """Return the text of the answer in a stream that has broken off ("" if it is malformed)."""
    try:
        message, _ = streamed(stream)
        return "".join(block.get("text", "") for block in message.get("content", ()))
    except (msgspec.MsgspecError, LookupError, TypeError, AttributeError):
        return ""


def _events(stream: bytes) -> Iterator[JsonObject]:
    decoder = msgspec.json.Decoder(JsonObject)
    for line in stream.splitlines(keepends=True):
        if line.startswith(b"data:") and line.endswith(b"\n"):
            yield decoder.decode(line.removeprefix(b"data:").strip())
