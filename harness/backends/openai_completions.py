"""OpenAI's legacy text completions: what the GPT-3 papers used, and base models still do.

    model: {backend: openai_completions, name: davinci-002}
    model: {backend: openai_completions, preset: vllm, name: my-base-model}

There are no turns: the texts of the messages are joined by empty lines into one prompt. A
conversation (rounds of feedback) is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from harness.backends._bodies import finish, logprobs_in, prompt_logprobs_in, read, split_think
from harness.backends.openai import OpenAIBackend, ProviderPreset, usage_record
from harness.records import Reply, Request


class _Choice(msgspec.Struct):
    text: str
    finish_reason: Any = None
    logprobs: Any = None
    prompt_logprobs: Any = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    model: str | None = None
    usage: Any = None


_decoder = msgspec.json.Decoder(_Completion)


class OpenAICompletionsBackend(OpenAIBackend):
    """Text completions.

    preset: a provider or local server by name; sets base URL, key and dialect.
    base_url: a server's base URL; OpenAI's if neither this nor a preset is given.
    api_key_env: the environment variable that holds the key, if it is not the preset's.
    """

    path = "/completions"
    conversation = False

    def dialect(self, preset: ProviderPreset) -> ProviderPreset:
        """Drop the newer forms of max_tokens and response_format, which this endpoint lacks."""
        constraints = {
            kind: dialect
            for kind, dialect in preset.constraints.items()
            if not dialect.startswith("response_format")
        }
        return replace(preset, max_tokens="max_tokens", constraints=constraints)

    def body(self, request: Request) -> Mapping[str, Any]:
        """Return the body of a text completion."""
        wanted = request.decoding.logprobs
        likeliest = {} if wanted is None else {"logprobs": wanted}
        prompt = "\n\n".join(message.content for message in request.messages)
        return {"prompt": prompt, **likeliest, **self.parameters(request)}

    def reply(self, content: bytes, request: Request) -> Reply:
        """Return the answer of a text completion."""
        completion, decoding = read(content, _decoder, _Completion), request.decoding
        choice = completion.choices[0]
        text, reasoning = split_think(choice.text)
        return Reply(
            text,
            finish(choice.finish_reason),
            usage_record(completion.usage),
            completion.model,
            reasoning=reasoning,
            logprobs=None if decoding.logprobs is None else logprobs_in(choice.logprobs),
            prompt_logprobs=prompt_logprobs_in(choice.prompt_logprobs)
            if decoding.prompt_logprobs
            else None,
        )


plugin = OpenAICompletionsBackend
