"""OpenAI chat completions, by the official SDK: OpenAI itself or any compatible server.

    model: {backend: openai, name: gpt-4}
    model: {backend: openai, name: my-model, base_url: "http://localhost:8000/v1"}

The request goes through the SDK's `post`, which gives its authentication,
transport and errors without building its response objects: three times the
requests a second of `chat.completions.create`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from harness.backends._openai_errors import translated
from harness.errors import ConfigError, MalformedReply
from harness.records import Reply, Request, Usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI

OPENAI_URL = "https://api.openai.com/v1"


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _InputDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None


class _Completion(msgspec.Struct):
    """The part of a chat completion that is read; the rest may be anything."""

    choices: list[_Choice]
    model: str | None = None
    usage: _Usage | None = None


_decoder = msgspec.json.Decoder(_Completion)


class OpenAIBackend:
    """Chat completions.

    base_url: of a compatible server; OpenAI's own by default.
    api_key_env: the environment variable that holds the key. By default
        ``OPENAI_API_KEY`` for OpenAI, and no key for any other server: a key
        is never sent to a host that the run file does not pair it with.
    secret: gives a secret by its variable's name.
    concurrency: connections to hold.
    timeout_s: seconds for connecting and reading.
    """

    features = frozenset({"seed"})
    cacheable = True

    def __init__(
        self,
        base_url: str = OPENAI_URL,
        api_key_env: str | None = None,
        *,
        secret: Callable[[str], str],
        concurrency: int,
        timeout_s: float,
    ) -> None:
        self.endpoint = base_url.rstrip("/")
        parts = urlsplit(self.endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"model.base_url: {base_url!r} is no URL.",
                "Write it like http://localhost:8000/v1.",
            )
        if parts.username or parts.password:
            raise ConfigError(
                f"model.base_url: the URL of {parts.hostname} holds a user name or password.",
                "Secrets do not belong in run files: name a variable in model.api_key_env.",
            )
        if api_key_env is None and self.endpoint == OPENAI_URL:
            api_key_env = "OPENAI_API_KEY"
        self._key_variable = api_key_env
        self._key = secret(api_key_env) if api_key_env else ""
        self._concurrency = concurrency
        self._timeout_s = timeout_s

    @cached_property
    def _client(self) -> AsyncOpenAI:
        from httpx2 import Limits, Timeout
        from openai import AsyncOpenAI, DefaultAioHttpClient

        return AsyncOpenAI(
            api_key=self._key or "none",
            base_url=self.endpoint,
            max_retries=0,
            organization=None,
            project=None,
            http_client=DefaultAioHttpClient(
                limits=Limits(
                    max_connections=self._concurrency,
                    max_keepalive_connections=self._concurrency,
                ),
                timeout=Timeout(self._timeout_s, connect=min(self._timeout_s, 30.0)),
            ),
        )

    async def generate(self, request: Request) -> Reply:
        """Answer one request.

        Raises: a `harness.errors.CallError`.
        """
        from httpx2 import Response

        with translated(self.endpoint, request.model, self._key_variable, self._key):
            response = await self._client.post(
                "/chat/completions", body=_body(request), cast_to=Response
            )
            content: bytes = response.content
        return _reply(content)

    async def aclose(self) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            await self._client.close()


def _body(request: Request) -> dict[str, Any]:
    decoding = request.decoding
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        "temperature": decoding.temperature,
        "max_tokens": decoding.max_tokens,
        "top_p": decoding.top_p,
        "stop": list(decoding.stop) or None,
        "seed": request.seed,
    }
    return {key: value for key, value in body.items() if value is not None}


def _reply(content: bytes) -> Reply:
    try:
        completion = _decoder.decode(content)
        choice = completion.choices[0]
    except (msgspec.MsgspecError, IndexError, UnicodeDecodeError) as error:
        begin = content[:200].decode(errors="replace")
        raise MalformedReply(f"The answer is no chat completion ({error}): {begin!r}") from None
    message = choice.message
    if message.refusal and not message.content:
        return Reply(message.refusal, "refusal", _usage(completion.usage), completion.model)
    finish_reason = choice.finish_reason or "stop"
    return Reply(message.content or "", finish_reason, _usage(completion.usage), completion.model)


def _usage(usage: _Usage | None) -> Usage | None:
    if usage is None:
        return None
    read, written = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cached_input_tokens=(read.cached_tokens or 0) if read else 0,
        reasoning_tokens=(written.reasoning_tokens or 0) if written else 0,
    )


plugin = OpenAIBackend
