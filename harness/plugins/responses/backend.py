"""OpenAI's Responses API, which the models named ``-pro`` and ``-codex`` require.

Requests are stateless: ``store`` is false, and each request contains the whole conversation. There
are no seeds and no stop sequences.
Source: https://developers.openai.com/api/reference/responses, and the types of the SDK 3.52.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar

import msgspec

from harness.backends import bodies, responses
from harness.backends.openai import RESPONSES_PATH, OpenAIBackend, ProviderPreset
from harness.errors import TransientError
from harness.records import DecodingConstraint, Message, Reply, Request, Usage

REASONING = re.compile(r"o\d|gpt-[5-9]")
"""The names of models that reason. Other models reject a request for encrypted reasoning."""

INCOMPLETE = {"max_output_tokens": "length", "content_filter": "content_filter"}
"""Finish reasons of incomplete responses, by OpenAI's reason."""


class _Content(msgspec.Struct):
    """A part of an output item, untyped, so that an invalid field does not lose the reply."""

    type: str = ""
    text: Any = None
    refusal: Any = None
    logprobs: Any = None


class _Item(msgspec.Struct):
    type: str
    content: list[_Content] | None = None
    summary: list[_Content] | None = None  # of a reasoning item
    encrypted_content: Any = None
    name: Any = None
    arguments: Any = None  # of a function call
    phase: Any = None  # "commentary" marks a message that precedes the answer


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Error(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: bodies.TokenCount | None = None  # of the input
    cache_write_tokens: bodies.TokenCount | None = None
    reasoning_tokens: bodies.TokenCount | None = None  # of the output


class _Usage(msgspec.Struct):
    input_tokens: bodies.TokenCount
    output_tokens: bodies.TokenCount
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None

    def record(self) -> Usage:
        read = self.input_tokens_details or _Details()
        cached = read.cached_tokens or 0
        written = read.cache_write_tokens or 0
        reasoning = (self.output_tokens_details or _Details()).reasoning_tokens or 0
        return Usage(self.input_tokens, self.output_tokens, cached, reasoning, written)


class _Response(msgspec.Struct):
    output: list[_Item]
    status: str = "completed"
    incomplete_details: _Incomplete | None = None
    error: _Error | None = None
    model: str | None = None
    usage: Any = None
    service_tier: Any = None


class OpenAIResponsesBackend(OpenAIBackend):
    """OpenAI's Responses API.

    Args:
        preset: Name of a provider or local server. Sets base URL, key and dialect.
        base_url: A server's base URL (default: OpenAI's, or the preset's).
        api_key_env: The key's environment variable (default: the preset's).
        prompt_caching: Whether to send one call ahead of the others that share its prompt's
            beginning.
        service_tier: The provider's service tier, such as ``flex`` or ``priority``.
    """

    path = RESPONSES_PATH
    usual_dialects: ClassVar[bodies.Dialects] = {"json_schema": "text_format"}

    def adapt_preset(self, preset: ProviderPreset) -> ProviderPreset:
        """Return the preset, adapted to the parameters of the Responses API."""
        schemas = preset.constraints.get("json_schema") == "response_format"
        return replace(
            preset,
            max_tokens="max_output_tokens",
            seed=None,
            stop=False,
            prompt_logprobs=False,
            n=False,
            constraints=self.usual_dialects if schemas else {},
        )

    def body(self, request: Request) -> Mapping[str, Any]:
        """Return the body of a request's HTTP request."""
        include = []
        body: dict[str, Any] = {}
        if request.decoding.logprobs is not None:
            include.append("message.output_text.logprobs")
            body["top_logprobs"] = request.decoding.logprobs
        if "reasoning" in request.decoding.extra or REASONING.match(request.model):
            include.append("reasoning.encrypted_content")
        items: list[object] = []
        for message in request.messages:
            items += _items(message)
        body |= {"input": items, "store": False, **self.parameters(request)}
        return {"include": include, **body} if include else body

    def parameters(self, request: Request) -> dict[str, Any]:
        """Return the fields of a request's decoding parameters."""
        sent = super().parameters(request)
        constraint = request.decoding.constraint
        if isinstance(constraint, DecodingConstraint) and isinstance(sent.get("text"), Mapping):
            format_ = bodies.constraint_fields(constraint, self.preset.constraints)["text"]
            sent["text"] = {**format_, **sent["text"]}
        return sent

    def reply(self, content: bytes, request: Request) -> Reply:
        """Return the reply in a response's content."""
        response = bodies.decode_body(content, _Response)
        reason = _finish(response)
        answers: list[_Content] = []
        calls = []
        for item in response.output:
            if item.type == "message" and item.phase != "commentary":
                answers += item.content or []
            elif item.type == "function_call":
                calls.append((item.name, item.arguments))
        text = "".join(
            bodies.content_text(part.text) for part in answers if part.type == "output_text"
        )
        refusals = [bodies.content_text(part.refusal) for part in answers if part.type == "refusal"]
        if refusals and not text:
            text = "".join(refusals)
            reason = "refusal"
        text, reason = bodies.format_answer(text, reason, calls)
        usage = bodies.decode_usage(response.usage, _Usage)
        return Reply(
            text,
            reason,
            usage.record() if usage else None,
            response.model,
            reasoning=_reasoning(response.output),
            tier=bodies.service_tier(response.service_tier),
            reasoning_state=_state(response.output, content),
            logprobs=_logprobs(answers) if request.decoding.logprobs is not None else None,
        )


def _finish(response: _Response) -> str:
    """Return the finish reason of a response, or raise a CallError if it has no answer."""
    if response.status == "failed":
        error = response.error or _Error()
        problem = f"The response failed: {error.message or error.code or 'no explanation'}"
        raise responses.code_error(error.code or "server_error", problem)
    if response.status == "incomplete":
        reason = (response.incomplete_details or _Incomplete()).reason or "incomplete"
        return INCOMPLETE.get(reason, reason)
    if response.status != "completed":
        problem = f"The server returned a response whose status is {response.status!r}."
        raise TransientError(problem, kind="interrupted")
    return "stop"


def _items(message: Message) -> Iterable[object]:
    """Return the message or, if it has encrypted reasoning, the model's whole output."""
    return (message,) if message.reasoning_state is None else json.loads(message.reasoning_state)


def _state(output: list[_Item], content: bytes) -> str | None:
    """Return the output as JSON to send back later, if its reasoning is encrypted."""
    encrypted = [item.encrypted_content for item in output if item.type == "reasoning"]
    if not encrypted or not all(encrypted):
        return None
    return bodies.extract_state(content, (b"",), "output")


def _reasoning(output: list[_Item]) -> str | None:
    """Return the summaries and texts of the reasoning items."""
    parts: list[_Content] = []
    for item in output:
        if item.type == "reasoning":
            parts += [*(item.summary or []), *(item.content or [])]
    thoughts = filter(None, [bodies.nonempty_text(part.text) for part in parts])
    return "\n\n".join(thoughts) or None


def _logprobs(answers: list[_Content]) -> Any:
    lists = [part.logprobs for part in answers if isinstance(part.logprobs, list)]
    if not lists:
        return None
    return bodies.read_logprobs({"content": [*chain.from_iterable(lists)]})
