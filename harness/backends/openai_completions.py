"""OpenAI's legacy text completions: what the GPT-3 papers used, and base models still do.

    model: {backend: openai_completions, name: davinci-002}
    model: {backend: openai_completions, preset: vllm, name: my-base-model}

There are no turns: the messages' texts are put together with an empty line
between them, as one prompt. A conversation (rounds of feedback) is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from harness.backends._allowances import OnAllowances
from harness.backends._bodies import UNREADABLE, finish, read
from harness.backends._logprobs import (
    completion_fields,
    logprobs_in,
    prompt_fields,
    prompt_logprobs_in,
)
from harness.backends._presets import chosen
from harness.backends._reasoning import split_think
from harness.backends._sdk import SDKClient
from harness.backends.openai import parameters, usage_record
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


class OpenAICompletionsBackend:
    """Text completions.

    preset: a provider or local server by name; sets base URL, key and dialect.
    base_url: of a server; OpenAI's own where neither this nor a preset is given.
    api_key_env: the environment variable that holds the key, where it is not
        the preset's.
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
        found, url, key = chosen(preset, base_url, api_key_env)
        # The legacy endpoint knows no newer name, whatever the chat endpoint calls it.
        # It has no response_format either.
        own = {
            kind: dialect
            for kind, dialect in found.constraints.items()
            if not dialect.startswith("response_format")
        }
        self._preset = replace(found, max_tokens="max_tokens", constraints=own)
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
        self.features = self._preset.features(model)

    async def generate(self, request: Request) -> Reply:
        """Complete one prompt.

        Raises: a `harness.errors.CallError`.
        """
        prompt = "\n\n".join(message.content for message in request.messages)
        wanted, of_prompt = request.decoding.logprobs, request.decoding.prompt_logprobs
        body = {
            "prompt": prompt,
            **completion_fields(wanted),
            **prompt_fields(of_prompt),
            **parameters(request, self._preset),
        }
        content = await self._client.post("/completions", body, request.model)
        try:
            completion = read(content, _decoder, _Completion)
            choice = completion.choices[0]
        except UNREADABLE as error:
            raise self._client.malformed(content, error) from None
        text, reasoning = split_think(choice.text)
        return Reply(
            text,
            finish(choice.finish_reason),
            usage_record(completion.usage),
            completion.model,
            reasoning=reasoning,
            logprobs=None if wanted is None else logprobs_in(choice.logprobs),
            prompt_logprobs=prompt_logprobs_in(choice.prompt_logprobs) if of_prompt else None,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()


plugin = OpenAICompletionsBackend
