"""OpenAI chat completions, by the official SDK: OpenAI itself or any compatible server.

model: {backend: openai, name: gpt-4}
model: {backend: openai, preset: ollama, name: "llama3.2:3b"}
model: {backend: openai, name: my-model, base_url: "http://localhost:8000/v1"}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from harness.backends._bodies import (
    Count,
    constrained,
    counted,
    finish,
    logprobs_in,
    prompt_logprobs_in,
    read,
    split_think,
    text_of,
    text_or_none,
)
from harness.backends._http import HttpBackend
from harness.backends._presets import Preset, chosen
from harness.backends._rate_limit_headers import OnAllowances
from harness.backends._sdk import SDKClient
from harness.records import DecodingConstraint, Reply, Request, Usage


class _Message(msgspec.Struct):
    """Whatever else a server puts here must not lose the answer: hence Any."""

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

        Some (xAI) count reasoning beside the completion and not in it: the total shows it.
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


class OpenAIBackend(HttpBackend):
    """Chat completions.

    preset: a provider or local server by name; sets base URL, key and dialect.
    base_url: a server's base URL; OpenAI's if neither this nor a preset is given.
    api_key_env: the environment variable that holds the key, if it is not the preset's. A server
        known only by its URL is sent no key unless this names one: a key never goes to a host
        that it is not for.
    """

    path = "/chat/completions"
    conversation = True

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
        found, url, key = chosen(preset, base_url, api_key_env)
        self.preset = self.dialect(found)
        client = SDKClient(
            "openai",
            url,
            key,
            secret=secret,
            concurrency=concurrency,
            timeout_s=timeout_s,
            on_allowances=on_allowances,
        )
        turns = {"conversation"} if self.conversation else set[str]()
        super().__init__(client, self.preset.features(model) | turns)

    def dialect(self, preset: Preset) -> Preset:
        """The preset as this endpoint has it."""
        return preset

    def body(self, request: Request) -> Mapping[str, Any]:
        """The body of a chat completion."""
        wanted = request.decoding.logprobs
        likeliest = {} if wanted is None else {"logprobs": True, "top_logprobs": wanted}
        return {"messages": request.messages, **likeliest, **self.parameters(request)}

    def parameters(self, request: Request) -> dict[str, Any]:
        """Model and decoding in the server's own words; what is not set is not sent."""
        decoding, preset = request.decoding, self.preset
        sent: dict[str, Any] = {
            "prompt_logprobs": 0 if decoding.prompt_logprobs else None,  # of no other tokens
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
        return {k: value for k, value in sent.items() if value is not None} | dict(decoding.extra)

    def reply(self, content: bytes, request: Request) -> Reply:
        """The answer of a chat completion."""
        completion, decoding = read(content, _decoder, _Completion), request.decoding
        choice, usage = completion.choices[0], usage_record(completion.usage)
        message, reason = choice.message, finish(choice.finish_reason)
        answer, refusal = text_of(message.content), text_or_none(message.refusal)
        if refusal and not answer:
            text, reason, reasoning = refusal, "refusal", None
        else:
            text, thought = split_think(answer)
            given = text_or_none(message.reasoning_content) or text_or_none(message.reasoning)
            reasoning = given or thought
        return Reply(
            text,
            reason,
            usage,
            completion.model,
            reasoning=reasoning,
            logprobs=None if decoding.logprobs is None else logprobs_in(choice.logprobs),
            prompt_logprobs=prompt_logprobs_in(completion.prompt_logprobs)
            if decoding.prompt_logprobs
            else None,
        )


def usage_record(usage: object) -> Usage | None:
    """Token counts of OpenAI's protocol as our record; None if they are odd."""
    found = counted(usage, OpenAIUsage)
    return found.record() if found else None


plugin = OpenAIBackend
