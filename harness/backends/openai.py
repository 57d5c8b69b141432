"""OpenAI chat completions, by the official SDK: OpenAI itself or any compatible server.

model: {backend: openai, name: gpt-4}
model: {backend: openai, preset: ollama, name: "llama3.2:3b"}
model: {backend: openai, name: my-model, base_url: "http://localhost:8000/v1"}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace as with_changes

from harness.backends._allowances import OnAllowances
from harness.backends._bodies import UNREADABLE, Count, counted, finish, read, said, text_of
from harness.backends._constraints import constrained
from harness.backends._logprobs import (
    chat_fields,
    logprobs_in,
    prompt_fields,
    prompt_logprobs_in,
)
from harness.backends._presets import Preset, chosen
from harness.backends._reasoning import split_think
from harness.backends._sdk import SDKClient
from harness.records import DecodingConstraint, Reply, Request, Usage


class _Message(msgspec.Struct):
    """What else a server puts here must not lose the answer: hence Any."""

    content: Any = None
    refusal: Any = None
    reasoning_content: Any = None
    reasoning: Any = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: Any = None
    logprobs: Any = None


class _InputDetails(msgspec.Struct):
    cached_tokens: Count | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: Count | None = None


class OpenAIUsage(msgspec.Struct):
    """Token counts as OpenAI's protocol has them."""

    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count | None = None
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None

    def record(self) -> Usage:
        """The same as our record.

        Some (xAI) count reasoning beside the completion and not in it: the total tells.
        """
        read, written = self.prompt_tokens_details, self.completion_tokens_details
        return Usage(
            input_tokens=self.prompt_tokens,
            output_tokens=max(
                self.completion_tokens, (self.total_tokens or 0) - self.prompt_tokens
            ),
            cached_input_tokens=(read.cached_tokens or 0) if read else 0,
            reasoning_tokens=(written.reasoning_tokens or 0) if written else 0,
        )


class _Completion(msgspec.Struct):
    """The part of a chat completion that is read; the rest may be anything."""

    choices: list[_Choice]
    model: str | None = None
    usage: Any = None
    prompt_logprobs: Any = None


_decoder = msgspec.json.Decoder(_Completion)


class OpenAIBackend:
    """Chat completions.

    preset: a provider or local server by name; sets base URL, key and dialect.
    base_url: of a server; OpenAI's own where neither this nor a preset is given.
    api_key_env: the environment variable that holds the key, where it is not
        the preset's. A server that is known by its URL alone is sent no key
        unless this names one: a key never goes to a host that it is not for.
    """

    cacheable = True

    def __init__(
        self,
        preset: str | None = None,
        base_url: str | None = None,
        api_key_env: str | None = None,
        *,
        secret: Callable[[str], str],
        concurrency: int,
        timeout_s: float,
        model: str = "",
        on_allowances: OnAllowances | None = None,
    ) -> None:
        self._preset, url, key = chosen(preset, base_url, api_key_env)
        self._client = SDKClient(
            "openai",
            url,
            key,
            secret=secret,
            concurrency=concurrency,
            timeout_s=timeout_s,
            on_allowances=on_allowances,
        )
        self.endpoint = self._client.url
        self.features = self._preset.features(model) | {"conversation"}

    async def generate(self, request: Request) -> Reply:
        """Answer one request.

        Raises: a `harness.errors.CallError`.
        """
        body = {
            "messages": request.messages,
            **chat_fields(request.decoding.logprobs),
            **prompt_fields(request.decoding.prompt_logprobs),
            **parameters(request, self._preset),
        }
        content = await self._client.post("/chat/completions", body, request.model)
        try:
            completion = read(content, _decoder, _Completion)
            reply = _reply(completion.choices[0], completion)
        except UNREADABLE as error:
            raise self._client.malformed(content, error) from None
        told: dict[str, Any] = {}
        if request.decoding.logprobs is not None:
            told["logprobs"] = logprobs_in(completion.choices[0].logprobs)
        if request.decoding.prompt_logprobs:
            told["prompt_logprobs"] = prompt_logprobs_in(completion.prompt_logprobs)
        return with_changes(reply, **told) if told else reply

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()


def parameters(request: Request, preset: Preset) -> dict[str, Any]:
    """Model and decoding parameters in a server's own words; what is not set is not sent."""
    decoding = request.decoding
    sent: dict[str, Any] = {
        "model": request.model,
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        preset.max_tokens: decoding.max_tokens,
        "stop": list(decoding.stop) or None,
    }
    if preset.seed:
        sent[preset.seed] = request.seed
    if isinstance(decoding.constraint, DecodingConstraint):
        sent |= constrained(decoding.constraint, preset.constraints)
    return {key: value for key, value in sent.items() if value is not None} | dict(decoding.extra)


def usage_record(usage: object) -> Usage | None:
    """Token counts of OpenAI's protocol as our record; None where they are odd."""
    found = counted(usage, OpenAIUsage)
    return found.record() if found else None


def _reply(choice: _Choice, completion: _Completion) -> Reply:
    message, usage = choice.message, usage_record(completion.usage)
    finish_reason, content = finish(choice.finish_reason), text_of(message.content)
    refusal = said(message.refusal)
    if refusal and not content:
        return Reply(refusal, "refusal", usage, completion.model)
    text, thought = split_think(content)
    return Reply(
        text,
        finish_reason,
        usage,
        completion.model,
        reasoning=said(message.reasoning_content) or said(message.reasoning) or thought,
    )


plugin = OpenAIBackend
