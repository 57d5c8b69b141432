"""Amazon Bedrock's Converse API, for all models on Bedrock.

    model: {backend: bedrock, name: eu.anthropic.claude-sonnet-5-5-v1:0, region: eu-central-1}

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html.

Requests are signed with the credentials that AWS's own tools use.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from harness.backends import (
    MAX_REPLY_MB,
    FindCut,
    HttpBackend,
    HttpClient,
    OnAllowances,
    bodies,
    convert_cloud_errors,
)
from harness.errors import ConfigError, import_extra
from harness.records import (
    DecodingConstraint,
    JsonObject,
    Message,
    PromptCut,
    Reply,
    Request,
    Usage,
)

if TYPE_CHECKING:
    from httpx2 import Request as HttpRequest


class AwsClient(HttpClient):
    """A client that signs its requests (AWS Signature Version 4).

    Args:
        url: The server's base URL.
        region: The AWS region.
        profile: A profile in the user's AWS configuration (default: AWS's credential chain).
        options: The options of `HttpClient`.
    """

    _credentials: Any = None

    def __init__(self, url: str, region: str, profile: str | None, **options: Any) -> None:
        import_extra("botocore", "aws")
        super().__init__(url, **options)
        self._region = region
        self._profile = profile
        self._lock = threading.Lock()

    async def prepare_request(self, path: str, content: bytes) -> HttpRequest:
        headers = await asyncio.to_thread(self._signed, path, content)
        return self.build_request(path, content, headers)

    def _signed(self, path: str, content: bytes) -> dict[str, str]:
        session = import_extra("botocore.session", "aws")
        auth = import_extra("botocore.auth", "aws")
        awsrequest = import_extra("botocore.awsrequest", "aws")
        errors = import_extra("botocore.exceptions", "aws")
        with (
            convert_cloud_errors("AWS", "Log in (aws sso login), or set the AWS variables."),
            self._lock,
        ):
            if self._credentials is None:
                self._credentials = session.Session(profile=self._profile).get_credentials()
            if self._credentials is None:
                raise errors.NoCredentialsError
            credentials = self._credentials.get_frozen_credentials()
        headers = {"content-type": "application/json", **self.headers}
        request = awsrequest.AWSRequest(
            "POST", self.base + path, headers, content, params=self.query
        )
        auth.SigV4Auth(credentials, "bedrock", self._region).add_auth(request)
        return dict(request.headers.items())


FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}
SIGNED = (b'"signature"', b'"redactedContent"')


class _ReasoningText(msgspec.Struct):
    text: Any = None


class _Reasoning(msgspec.Struct, rename="camel"):
    reasoning_text: _ReasoningText | None = None


class _ToolUse(msgspec.Struct):
    name: Any = None
    input: Any = None


class _Block(msgspec.Struct, rename="camel"):
    text: Any = None
    tool_use: _ToolUse | None = None
    reasoning_content: _Reasoning | None = None


class _Message(msgspec.Struct):
    content: list[_Block]


class _Output(msgspec.Struct):
    message: _Message


class _Usage(msgspec.Struct, rename="camel"):
    input_tokens: bodies.TokenCount
    output_tokens: bodies.TokenCount
    cache_read_input_tokens: bodies.TokenCount | None = None
    cache_write_input_tokens: bodies.TokenCount | None = None

    def record(self) -> Usage:
        # Input does not include the cached tokens.
        read = self.cache_read_input_tokens or 0
        written = self.cache_write_input_tokens or 0
        return Usage(self.input_tokens + read + written, self.output_tokens, read, 0, written)


class _Response(msgspec.Struct, rename="camel"):
    output: _Output
    stop_reason: str = "end_turn"
    usage: Any = None
    service_tier: JsonObject = {}


class BedrockBackend(HttpBackend):
    """Amazon Bedrock's Converse API, with the credentials that AWS's own tools use.

    Args:
        region: The AWS region, such as ``eu-central-1``.
        profile: A profile in the user's AWS configuration (default: AWS's credential chain).
        base_url: Base URL of another endpoint, such as a VPC's.
        api_key_env: The environment variable with a Bedrock API key, which is used instead of
            credentials.
        prompt_caching: Whether to use Bedrock's prompt cache for beginnings that prompts share,
            with models that support it.
        service_tier: AWS's service tier: ``flex``, ``priority`` or ``reserved``.
    """

    may_change = frozenset({"prompt_caching", "service_tier"})

    def __init__(
        self,
        region: str,
        profile: str | None = None,
        base_url: str | None = None,
        api_key_env: str | None = None,
        prompt_caching: bool = False,
        service_tier: str | None = None,
        *,
        secret: Callable[[str], str],
        concurrency: int,
        timeout_s: float,
        reply_mb: float = MAX_REPLY_MB,
        on_allowances: OnAllowances | None = None,
        prompt_cut: FindCut | None = None,
    ) -> None:
        options: dict[str, Any] = {"concurrency": concurrency, "timeout_s": timeout_s}
        options |= {"reply_mb": reply_mb, "on_allowances": on_allowances}
        url = base_url or f"https://bedrock-runtime.{quote(region)}.amazonaws.com"
        client: HttpClient
        if api_key_env is None:
            client = AwsClient(url, region, profile, **options)
        elif profile is not None:
            problem = "model.profile and model.api_key_env exclude each other."
            raise ConfigError(problem, "Remove one of them.")
        else:
            key = secret(api_key_env)
            client = HttpClient(url, key=key, key_variable=api_key_env, **options)
        features = {"temperature", "top_p", "max_tokens", "stop", "extra", "conversation"}
        super().__init__(client, frozenset(features | {"json_schema"}))
        self.prompt_caching = prompt_caching
        self.service_tier = service_tier
        self._cut = prompt_cut if prompt_caching else None

    def path_for(self, request: Request) -> str:
        return f"/model/{quote(request.model, safe='')}/converse"

    def body(self, request: Request) -> Mapping[str, Any]:
        decoding = request.decoding
        config = {
            "maxTokens": decoding.max_tokens,
            "temperature": decoding.temperature,
            "topP": decoding.top_p,
            "stopSequences": list(decoding.stop) or None,
        }
        config = {key: value for key, value in config.items() if value is not None}
        cut = self._cut(request.messages) if self._cut else None
        messages = []
        system: list[JsonObject] = []
        for number, message in enumerate(request.messages):
            parts = _parts(message, _end(number, cut))
            if message.role == "system":
                system += parts
            else:
                messages.append({"role": message.role, "content": parts})
        body: JsonObject = {"messages": messages, "system": system, "inferenceConfig": config}
        if self.service_tier:
            body["serviceTier"] = {"type": self.service_tier}
        if isinstance(decoding.constraint, DecodingConstraint):
            schema = json.dumps(decoding.constraint.json_schema)  # the only kind in the features
            structure = {"jsonSchema": {"name": "answer", "schema": schema}}
            text_format = {"type": "json_schema", "structure": structure}
            body["outputConfig"] = {"textFormat": text_format}
        return {key: value for key, value in body.items() if value} | dict(decoding.extra)

    def reply(self, content: bytes, request: Request) -> Reply:
        response = bodies.decode_body(content, _Response)
        text = ""
        thoughts = ""
        calls = []
        for block in response.output.message.content:
            text += bodies.content_text(block.text)
            if block.reasoning_content and block.reasoning_content.reasoning_text:
                thoughts += bodies.content_text(block.reasoning_content.reasoning_text.text)
            if block.tool_use:
                calls.append((block.tool_use.name, block.tool_use.input))
        usage = bodies.decode_usage(response.usage, _Usage)
        reason = FINISH_REASONS.get(response.stop_reason, response.stop_reason)
        text, reason = bodies.format_answer(text, reason, calls)
        return Reply(
            text,
            reason,
            usage.record() if usage else None,
            tier=bodies.service_tier(response.service_tier.get("type")),
            reasoning=thoughts or None,
            reasoning_state=bodies.extract_state(content, SIGNED, "output", "message", "content"),
        )


def _end(number: int, cut: PromptCut | None) -> int | None:
    """Return where the shared beginning ends in message ``number`` (-1: at its end), or None."""
    if cut is None:
        return None
    if not cut.character_offset:
        return -1 if number == cut.message_index - 1 else None
    return cut.character_offset if number == cut.message_index else None


def _parts(message: Message, end: int | None) -> list[JsonObject]:
    """Return a message's content, with a cache point at ``end``, if any."""
    text = message.content
    if message.reasoning_state is not None:
        parts: list[JsonObject] = json.loads(message.reasoning_state)
        return parts
    if end is None:
        return [{"text": text}]
    point = {"cachePoint": {"type": "default"}}
    if end in (-1, len(text)):
        return [{"text": text}, point]
    return [{"text": text[:end]}, point, {"text": text[end:]}]
